/* SPDX-License-Identifier: MIT */
/*
 * The window that comes next, mapped and brought in by a thread while one is in use: what
 * faults cost is another processor's then. Nobody waits long for it: a window that it has
 * not begun is made by whoever wants it, and one that it has begun is as good as its pages.
 */
#ifndef HETMAP_READER_BESIDE_H
#define HETMAP_READER_BESIDE_H

#include "core.h"

struct beside;

/* Of windows of @buffer, which has to outlive it. -EAGAIN: no thread; -ENOMEM. */
int beside_begin(struct hm_buffer *buffer, struct beside **ret_beside);
/* Waits for what the thread is at. NULL: nothing. */
void beside_end(struct beside *beside);

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
