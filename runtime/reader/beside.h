/* SPDX-License-Identifier: MIT */
/*
 * What a thread does for the windows that come next while one is in use: the time that it
 * takes is another processor's then. It announces bytes, that their reading begins; or maps
 * the next window and brings its pages in. Nobody waits long for it: a window that it has not
 * begun is made by whoever wants it, and one that it has begun is as good as its pages.
 */
#ifndef HETMAP_READER_BESIDE_H
#define HETMAP_READER_BESIDE_H

#include "core.h"

struct beside;

/*
 * Of windows of @buffer, the file @fd, of which an announcement has @step bytes; all outlive
 * it. -EAGAIN: no thread; -ENOMEM.
 */
int beside_begin(struct hm_buffer *buffer, int fd, uint64_t step, struct beside **ret_beside);
/* Waits for what the thread is at. NULL: nothing. */
void beside_end(struct beside *beside);

/* Of these bytes the reading begins, behind those of the time before. */
void beside_announce(struct beside *beside, uint64_t offset, uint64_t bytes);

/* Nothing is ordered or made: beside_take() was called since the last time. */
void beside_order(struct beside *beside, uint64_t offset, uint64_t bytes);
/*
 * The caller's map of exactly that, whose pages may be there or not; NULL: it is not made,
 * and will not be, as nothing else that was ordered.
 */
struct hm_map *beside_take(struct beside *beside, uint64_t offset, uint64_t bytes);
/* Bytes that it has ordered or made. */
uint64_t beside_bytes(struct beside *beside);

#endif
