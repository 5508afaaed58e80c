/* SPDX-License-Identifier: MIT */
/* Combines several descriptors into one. */
#ifndef HETMAP_FENCE_GATHER_H
#define HETMAP_FENCE_GATHER_H

#include <stdint.h>

/*
 * Makes a descriptor that polls readable once all @n of @fds have had one of @events (POLLIN,
 * POLLOUT). Takes over @fds; on failure they stay the caller's. -EMFILE, -ENOMEM, -EAGAIN: no
 * thread.
 */
int fence_gather(const int *fds, uint32_t n, short events, int *ret_fd);

#endif
