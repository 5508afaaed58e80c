/* SPDX-License-Identifier: MIT */
/*
 * Reads of storage that begin before their bytes are waited for: MADV_WILLNEED and
 * POSIX_FADV_WILLNEED. Of one call the kernel begins no more than the device's read-ahead or
 * its largest request, whichever is more, and forgets the rest without a word
 * [mm/readahead.c, force_page_cache_ra()]. 128 KiB of 64 MiB, where nobody has set more.
 */
#ifndef HETMAP_ANNOUNCE_H
#define HETMAP_ANNOUNCE_H

#include <stdint.h>
#include <sys/types.h>

struct hm_buffer;

/* What the device that a file is on reads ahead, bytes; 0: it does not say. */
uint64_t announce_read_ahead(dev_t device);

/* Bytes that one call begins to read of a file on @device: whole pages. */
uint64_t announce_step(dev_t device);

/* Of a file, in calls of @step bytes. Advice: what comes of it is seen when it is read. */
void announce_file(int fd, uint64_t step, uint64_t offset, uint64_t length);

/* Of the file that @buffer is of. */
void announce_stored(struct hm_buffer *buffer, uint64_t offset, uint64_t length);

/* Pages that a map of @buffer has, from @address on. 0 or madvise(2)'s first error. */
int announce_pages(struct hm_buffer *buffer, void *address, uint64_t length);

#endif
