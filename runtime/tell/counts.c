// SPDX-License-Identifier: MIT
/* Counters of buffers, added up on request for a buffer or for all buffers of a device. */
#include "tell/counts.h"

#include <hetmap/stats.h>

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "base/sys.h"

/* ---- the words of brackets ---- */

static uint64_t begun_of(uint64_t n)
{
	return n / BRACKET_ENDED + (uint32_t)n;
}

int brackets_take_locked(struct hm_map *map)
{
	struct hm_buffer *buffer = map->buffer;
	struct bracket_count *count = buffer->free_brackets;

	if (!atomic_load_explicit(&buffer->brackets, memory_order_relaxed)) {
		map->brackets = &buffer->first_brackets;
		atomic_store_explicit(&buffer->brackets, map->brackets, memory_order_release);
		return 0;
	}
	if (count) {
		buffer->free_brackets = count->next_free;
		map->brackets = count;
		return 0;
	}
	count = sys_calloc(1, sizeof(*count));
	if (!count)
		return err_set(-ENOMEM, "no memory to count a map's brackets");
	count->next = atomic_load_explicit(&buffer->brackets, memory_order_relaxed);
	atomic_store_explicit(&buffer->brackets, count, memory_order_release);
	map->brackets = count;
	return 0;
}

void brackets_put_locked(struct hm_map *map)
{
	struct bracket_count *count = map->brackets;
	uint64_t n = atomic_load_explicit(&count->n, memory_order_relaxed);

	if (n) {
		count_add(&map->buffer->counts, COUNT_BRACKETS, begun_of(n));
		atomic_store_explicit(&count->n, 0, memory_order_relaxed);
	}
	count->next_free = map->buffer->free_brackets;
	map->buffer->free_brackets = count;
}

/* ---- a buffer's life ---- */

void counts_map_ended_locked(struct hm_map *map)
{
	struct hm_buffer *buffer = map->buffer;

	count_add_locked(&buffer->counts, COUNT_MAPS, -UINT64_C(1));
	count_add_locked(&buffer->counts, COUNT_BYTES_MAPPED,
			 -buffer_pages(buffer, map->length));
	brackets_put_locked(map);
}

void counts_sized_locked(struct hm_buffer *buffer, bool changed)
{
	atomic_store_explicit(&buffer->counts.n[COUNT_BYTES],
			      buffer_pages(buffer, buffer->size), memory_order_relaxed);
	if (changed)
		count_add_locked(&buffer->counts, COUNT_RESIZES, 1);
}

uint64_t counts_get(const struct counts *counts, enum count which)
{
	return atomic_load_explicit(&((struct counts *)counts)->n[which], memory_order_relaxed);
}

uint64_t counts_add_up(struct hm_buffer *buffer, struct counts *sums)
{
	struct bracket_count *count;
	uint64_t n, open = 0;
	uint32_t i;

	for (i = 0; i < COUNTS; i++)
		count_add_locked(sums, i, counts_get(&buffer->counts, i));
	count = atomic_load_explicit(&buffer->brackets, memory_order_acquire);
	for (; count; count = count->next) {
		n = atomic_load_explicit(&count->n, memory_order_relaxed);
		open += (uint32_t)n;
		count_add_locked(sums, COUNT_BRACKETS, begun_of(n));
	}
	return open;
}

void counts_leave(struct hm_buffer *buffer, struct counts *sums)
{
	atomic_store_explicit(&buffer->counts.n[COUNT_BYTES], 0, memory_order_relaxed);
	counts_add_up(buffer, sums);
}

void counts_end(struct hm_buffer *buffer)
{
	struct bracket_count *count = atomic_load(&buffer->brackets), *next;

	for (; count && count != &buffer->first_brackets; count = next) {
		next = count->next;
		free(count);
	}
}

/* ---- for users ---- */
