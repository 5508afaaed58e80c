/* SPDX-License-Identifier: MIT */
/* A step of hm_device_recover(): whoever is at the buffer ends first. */
#ifndef HETMAP_RECOVER_WAIT_H
#define HETMAP_RECOVER_WAIT_H

#include <stdbool.h>

struct hm_buffer;
struct loss;

/*
 * Work and stores that began before the loss would go on in the new object, half done:
 * those go on until they have ended. None begins on what is lost. @part: of maps that have
 * replaced blocks alone. -EBUSY: it takes too long.
 */
int recover_wait(struct hm_buffer *buffer, const struct loss *loss, bool part);

#endif
