/* SPDX-License-Identifier: MIT */
/*
 * Ranges of a DAX device, as all processes agree on them: by locks of the device's node [fcntl(2),
 * open file description locks]. A new buffer has an exclusive lock of its bytes, a buffer of
 * lasting bytes a shared one. A lock ends with the last descriptor of its file, and so with its
 * process. A child of fork(2) has the descriptor and the map of the bytes, too: the range stays
 * taken until both processes have ended or closed it, and no lock of this process is held meanwhile
 * that a fork could leave behind.
 */
#ifndef HETMAP_BACKEND_DAX_RANGE_H
#define HETMAP_BACKEND_DAX_RANGE_H

#include <stdint.h>

/*
 * Locks the first @length bytes of the device's @size that no buffer has, in units of @unit, for a
 * new buffer. @fd is open for writing, and its file is no other descriptor's.
 * Errors, with a text: -ENOSPC; those of fcntl(2).
 */
int dax_range_take(int fd, uint64_t size, uint64_t unit, uint64_t length, uint64_t *ret_offset);

/*
 * Locks bytes that last. Other buffers of lasting bytes may have them, too.
 * Errors, with a text: -EBUSY: a new buffer has some of them; those of fcntl(2).
 */
int dax_range_share(int fd, uint64_t offset, uint64_t length);

/* Number of bytes before @size that no buffer of any process has. */
uint64_t dax_range_free(int fd, uint64_t size);

#endif
