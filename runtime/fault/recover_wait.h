/* SPDX-License-Identifier: MIT */
/* A step of hm_device_recover(): waits for the users of a buffer. */
#ifndef HETMAP_RECOVER_WAIT_H
#define HETMAP_RECOVER_WAIT_H

#include <stdbool.h>

struct hm_buffer;
struct loss;

/*
 * Waits for work and stores that began before the loss, as they would go on in the new object,
 * half done. No work begins on a lost buffer. @part: only maps that have replaced blocks count.
 * -EBUSY: the wait takes too long.
 */
int recover_wait(struct hm_buffer *buffer, const struct loss *loss, bool part);

#endif
