/* SPDX-License-Identifier: MIT */
/*
 * Begins reads of storage before their bytes are waited for: MADV_WILLNEED and
 * POSIX_FADV_WILLNEED. In one call the kernel begins no more than the device's read-ahead or
 * its largest request, whichever is more, and silently forgets the rest [mm/readahead.c,
 * force_page_cache_ra()]: 128 KiB of 64 MiB by default.
 */
#ifndef HETMAP_ANNOUNCE_H
#define HETMAP_ANNOUNCE_H

#include <stdint.h>
#include <sys/types.h>

struct hm_buffer;

/* Read-ahead of a file's device, in bytes; 0: not known. */
uint64_t announce_read_ahead(dev_t device);

/* Bytes that one call begins to read of a file on @device: whole pages. */
uint64_t announce_step(dev_t device);

/*
 * Announces a part of a file, in calls of @step bytes. Advice only: errors show when it is
 * read.
 */
void announce_file(int fd, uint64_t step, uint64_t offset, uint64_t length);

/* Announces a part of the file behind @buffer. */
void announce_stored(struct hm_buffer *buffer, uint64_t offset, uint64_t length);

/* Announces pages of a map of @buffer, from @address on. 0 or madvise(2)'s first error. */
int announce_pages(struct hm_buffer *buffer, void *address, uint64_t length);

#endif
