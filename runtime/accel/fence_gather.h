/* SPDX-License-Identifier: MIT */
/* One descriptor for several. */
#ifndef HETMAP_FENCE_GATHER_H
#define HETMAP_FENCE_GATHER_H

#include <stdint.h>

/*
 * A descriptor that polls readable once all @n of @fds have had one of @events (POLLIN,
 * POLLOUT). They are its own from here on; on failure they stay the caller's. -EMFILE,
 * -ENOMEM, -EAGAIN: no thread.
 */
int fence_gather(const int *fds, uint32_t n, short events, int *ret_fd);

#endif
