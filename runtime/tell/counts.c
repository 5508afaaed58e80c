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

static uint64_t get(const struct counts *counts, enum count which)
{
	return atomic_load_explicit(&((struct counts *)counts)->n[which], memory_order_relaxed);
}

/* Adds the buffer's counters to @sums. Returns the number of brackets that are open. */
static uint64_t add_up(struct hm_buffer *buffer, struct counts *sums)
{
	struct bracket_count *count;
	uint64_t n, open = 0;
	uint32_t i;

	for (i = 0; i < COUNTS; i++)
		count_add_locked(sums, i, get(&buffer->counts, i));
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
	add_up(buffer, sums);
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

#define FIELD(which, name)                                  \
	[which] = { offsetof(struct hm_buffer_stats, name), \
		    offsetof(struct hm_device_stats, name) }

static const struct {
	size_t of_buffer, of_device;
} fields[COUNTS] = {
	[COUNT_BYTES] = { offsetof(struct hm_buffer_stats, bytes),
			  offsetof(struct hm_device_stats, bytes_allocated) },
	FIELD(COUNT_MAPS, maps),
	FIELD(COUNT_MAPS_EVER, maps_ever),
	FIELD(COUNT_BYTES_MAPPED, bytes_mapped),
	FIELD(COUNT_RESIZES, resizes),
	FIELD(COUNT_BYTES_LOCKED, bytes_locked),
	FIELD(COUNT_BYTES_COPIED, bytes_copied),
	FIELD(COUNT_PROTECTS, protects),
	FIELD(COUNT_BRACKETS, brackets),
	FIELD(COUNT_LAUNCHES, launches),
	FIELD(COUNT_VIEWS, views),
	FIELD(COUNT_LOST, maps_lost),
	FIELD(COUNT_RECOVERED, maps_recovered),
};

static void put(void *stats, size_t offset, const struct counts *sums, uint32_t which)
{
	uint64_t n = get(sums, which);

	memcpy((char *)stats + offset, &n, sizeof(n));
}

int hm_buffer_stats_get(struct hm_buffer *buffer, struct hm_buffer_stats *ret_stats)
{
	struct hm_buffer_stats now = { 0 };
	struct counts sums = { 0 };
	uint32_t i;
	int r;

	err_begin();
	r = object_check((struct hm_object *)buffer, OBJECT_BUFFER);
	if (r)
		return r;
	if (!ret_stats)
		return err_set(-EINVAL, "hm_buffer_stats_get: ret_stats is NULL");
	r = struct_check_out(ret_stats->struct_size, sizeof(now), sizeof(now),
			     "hm_buffer_stats");
	if (r)
		return r;
	now.brackets_open = add_up(buffer, &sums);
	for (i = 0; i < COUNTS; i++)
		put(&now, fields[i].of_buffer, &sums, i);
	struct_write(ret_stats, &now, ret_stats->struct_size);
	return 0;
}

int hm_device_stats_get(struct hm_device *device, struct hm_device_stats *ret_stats)
{
	struct hm_device_stats now = { 0 };
	struct counts sums = { 0 };
	struct hm_buffer *buffer;
	uint32_t i;
	int r;

	err_begin();
	r = object_check((struct hm_object *)device, OBJECT_DEVICE);
	if (r)
		return r;
	if (!ret_stats)
		return err_set(-EINVAL, "hm_device_stats_get: ret_stats is NULL");
	r = struct_check_out(ret_stats->struct_size, sizeof(now), sizeof(now),
			     "hm_device_stats");
	if (r)
		return r;
	pthread_mutex_lock(&device->lock);
	now.buffers_ever = device->n_buffer;
	for (i = 0; i < COUNTS; i++)
		count_add_locked(&sums, i, get(&device->ended, i));
	cds_list_for_each_entry(buffer, &device->buffers, device_link) {
		now.brackets_open += add_up(buffer, &sums);
		now.buffers++;
	}
	pthread_mutex_unlock(&device->lock);
	for (i = 0; i < COUNTS; i++)
		put(&now, fields[i].of_device, &sums, i);
	struct_write(ret_stats, &now, ret_stats->struct_size);
	return 0;
}
