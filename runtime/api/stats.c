// SPDX-License-Identifier: MIT
/* Counters of the process, of a device, of a buffer. */
#include <stddef.h>
#include <string.h>

#include "api/door.h"
#include "tell/counts.h"
#include "tell/publish.h"

static uint64_t get(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

int hm_stats_get(struct hm_stats *ret_stats)
{
	const struct retire_counts retirement = retire_counts();
	struct hm_stats now;
	int r;

	err_begin();
	if (!ret_stats)
		return err_set(-EINVAL, "hm_stats_get: ret_stats is NULL");
	r = struct_check_out(ret_stats->struct_size, sizeof(now),
			     offsetof(struct hm_stats, find_retries), "hm_stats");
	if (r)
		return r;
	now = (struct hm_stats){
		.devices = get(&stats.devices),
		.buffers = get(&stats.buffers),
		.maps = get(&stats.maps),
		.views = get(&stats.views),
		.bytes_mapped = get(&stats.bytes_mapped),
		.bytes_reserved = get(&stats.bytes_reserved),
		.bytes_locked = get(&stats.bytes_locked),
		.bytes_copied = get(&stats.bytes_copied),
		.launches = get(&stats.launches),
		.slab_bytes = registry_slab_bytes(),
		.find_retries = registry_find_retries(),
		.touches_outside = get(&stats.touches_outside),
		.bytes_idle = get(&stats.bytes_idle),
		.bytes_shadow = get(&stats.bytes_shadow),
		.retired = retirement.retired,
		.retired_in_place = retirement.in_place,
		.backlog = retirement.objects,
		.backlog_bytes = retirement.bytes,
		.unpublished = publish_left_out(),
	};
	struct_write(ret_stats, &now, ret_stats->struct_size);
	return 0;
}

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
	uint64_t n = counts_get(sums, which);

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
	now.brackets_open = counts_add_up(buffer, &sums);
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
		count_add_locked(&sums, i, counts_get(&device->ended, i));
	cds_list_for_each_entry(buffer, &device->buffers, device_link) {
		now.brackets_open += counts_add_up(buffer, &sums);
		now.buffers++;
	}
	pthread_mutex_unlock(&device->lock);
	for (i = 0; i < COUNTS; i++)
		put(&now, fields[i].of_device, &sums, i);
	struct_write(ret_stats, &now, ret_stats->struct_size);
	return 0;
}
