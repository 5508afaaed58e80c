// SPDX-License-Identifier: MIT
/* The tour's steps in the life of the buffer itself, from open to release. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "tour.h"

#define CHUNK (4ull << 20) /* between two looks at signals */

static void read_stats(struct hm_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->struct_size = sizeof(*stats);
	hm_stats_get(stats);
}

static char *at(const struct tour *tour, uint64_t offset)
{
	return (char *)tour->words + offset;
}

/* @offset of the buffer's map and of no other; in_map 0: in none at all. */
static int expect_found(struct tour *tour, const void *pointer, uint64_t offset, bool in_map)
{
	struct hm_pointer_info info;
	int r = hm_pointer_find(pointer, &info);

	if (!in_map)
		return tour_expect(tour, r == -ENOENT, "%p is still found in a map", pointer);
	return tour_expect(tour,
			   !r && info.map == tour->map && info.buffer == tour->buffer &&
				   info.map_offset == offset,
			   "%p is not found at byte %" PRIu64 " of the map", pointer, offset);
}

/* Buffer, map and registry agree on how long it is. */
static int expect_size(struct tour *tour, uint64_t size)
{
	struct hm_buffer_info buffer = { .struct_size = sizeof(buffer) };
	struct hm_map_info map = { .struct_size = sizeof(map) };
	int status = 0;

	if (hm_buffer_query(tour->buffer, &buffer) || hm_map_query(tour->map, &map))
		return tour_failed(tour, -EIO, 0, "it does not answer");
	status = tour_expect_number(tour, buffer.size, size, "bytes of the buffer");
	if (!status)
		status = tour_expect_number(tour, map.length, size, "bytes of the map");
	if (!status)
		status = tour_expect(tour, map.address == tour->words,
				     "the map moved from %p to %p", (void *)tour->words,
				     map.address);
	if (!status)
		status = expect_found(tour, at(tour, 0), 0, true);
	if (!status)
		status = expect_found(tour, at(tour, size - 1), size - 1, true);
	if (!status)
		status = expect_found(tour, at(tour, size), 0, false);
	return status;
}

/* Words of [@begin, @end) bytes are those that the tour wrote. */
static int expect_words(struct tour *tour, uint64_t begin, uint64_t end)
{
	uint64_t i = begin / 4, stop;

	progress_begin("reading", end - begin);
	while (i < end / 4) {
		for (stop = end / 4 - i < CHUNK / 4 ? end / 4 : i + CHUNK / 4; i < stop; i++)
			if (tour->words[i] != tour_word(i))
				return tour_expect(tour, false,
						   "byte %" PRIu64
						   " on are 0x%08x, and should be 0x%08x",
						   i * 4, tour->words[i], tour_word(i));
		progress_add(CHUNK);
		if (signals_pending())
			return 128 + signals_pending();
	}
	progress_end();
	return tour_expect(tour, true, "all as written");
}

/* ---- the steps ---- */

int tour_open(struct tour *tour)
{
	const struct hm_device_info *info = &tour->device_info;
	char total[TEXT_MAX], left[TEXT_MAX], page[TEXT_MAX];
	struct hm_stats stats;

	read_stats(&stats);
	if (info->memory_total)
		tour_say(tour, "%s of memory, %s free", text_bytes(info->memory_total, total),
			 text_bytes(info->memory_free, left));
	else
		tour_say(tour, "pages of %s", text_bytes(info->page_size, page));
	return tour_expect_number(tour, stats.devices, tour->before.devices + 1,
				  "open devices");
}

int tour_create(struct tour *tour)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = tour->first_size,
		.max_size = tour->max_size,
		.name = TOUR_BUFFER,
	};
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	char size[TEXT_MAX], most[TEXT_MAX];
	int r, status;

	r = hm_buffer_create(tour->device, &desc, &tour->buffer);
	if (r)
		return tour_failed(tour, r, 0, "no buffer with room to grow by half");
	tour->size = tour->first_size;
	r = hm_buffer_query(tour->buffer, &info);
	if (r)
		return tour_failed(tour, r, 0, "it does not answer");
	tour_say(tour, "%s of zeros, with room for %s", text_bytes(info.size, size),
		 text_bytes(info.max_size, most));
	status = tour_expect_number(tour, info.size, tour->first_size, "bytes");
	if (!status)
		status = tour_expect(tour, info.max_size >= tour->max_size,
				     "it may grow to %" PRIu64 " only", info.max_size);
	if (!status)
		status = tour_expect_number(tour, info.maps, 0, "maps");
	return status;
}

int tour_map(struct tour *tour)
{
	struct hm_map_info info = { .struct_size = sizeof(info) };
	char pages[TEXT_MAX];
	int r;

	r = hm_map_create(tour->buffer, NULL, &tour->map);
	if (!r)
		r = hm_map_query(tour->map, &info);
	if (r)
		return tour_failed(tour, r, 0, "no map");
	tour->words = info.address;
	tour_say(tour, "%s pages at %p", text_count(info.length / info.page_size, pages),
		 info.address);
	return expect_size(tour, tour->size);
}

/* The buffer begins as zeros, whatever the memory held before. */
int tour_write(struct tour *tour)
{
	const uint64_t n = tour->size / 4;
	uint64_t i = 0, stop;
	int status;

	progress_begin("writing", tour->size);
	while (i < n) {
		for (stop = n - i < CHUNK / 4 ? n : i + CHUNK / 4; i < stop; i++) {
			if (tour->words[i])
				return tour_expect(tour, false,
						   "bytes %" PRIu64
						   " on are 0x%08x in a new buffer",
						   i * 4, tour->words[i]);
			tour->words[i] = tour_word(i);
		}
		progress_add(CHUNK);
		if (signals_pending())
			return 128 + signals_pending();
	}
	progress_end();
	status = tour_expect(tour, true, "it was zeros");
	if (!status)
		status = expect_words(tour, 0, tour->size);
	tour_say(tour, "plain stores; zeros before, right after");
	return status;
}

int tour_grow(struct tour *tour)
{
	char size[TEXT_MAX];
	const uint64_t old = tour->size;
	uint64_t offset;
	int r, status;

	r = hm_buffer_resize(tour->buffer, tour->max_size, 0);
	if (r)
		return tour_failed(tour, r, HM_CAP_RESIZE, "it does not grow");
	tour->size = tour->max_size;
	status = expect_size(tour, tour->size);
	if (!status)
		status = expect_words(tour, 0, old);
	/* Its other pages are for prefetch to bring in. */
	for (offset = old; offset < tour->size && !status; offset += tour->part)
		status = tour_expect_number(tour, *(volatile unsigned char *)at(tour, offset),
					    0, "a new byte");
	tour_say(tour, "%s at the same address, bytes kept", text_bytes(tour->size, size));
	return status;
}

int tour_lock(struct tour *tour)
{
	struct hm_map_info info = { .struct_size = sizeof(info), .fields = HM_MAP_LOCKED };
	char asked[TEXT_MAX], got[TEXT_MAX], kernels[TEXT_MAX];
	uint64_t locked = 0;
	struct hm_stats stats;
	int r, status;

	r = hm_map_lock(tour->map, tour->part, tour->part, HM_LOCK_PARTIAL, &locked);
	if (r == -EPERM || (!r && !locked)) {
		tour_say(tour, "not in this environment: %s", r ? hm_errmsg() : hm_warning());
		return TOUR_ABSENT;
	}
	if (r)
		return tour_failed(tour, r, HM_CAP_LOCK, "no lock");
	tour->is_locked = true;
	r = hm_map_query(tour->map, &info);
	if (r)
		return tour_failed(tour, r, 0, "the locked bytes are not known");
	read_stats(&stats);
	tour_say(tour, "%s%s%s; the kernel counts %s", text_bytes(locked, got),
		 locked < tour->part ? " of " : "",
		 locked < tour->part ? text_bytes(tour->part, asked) : "",
		 text_bytes(info.locked, kernels));
	status = tour_expect_number(tour, info.locked, locked, "bytes that the kernel locked");
	if (!status)
		status = tour_expect_number(tour, stats.bytes_locked,
					    tour->before.bytes_locked + locked,
					    "locked bytes that are counted");
	return status;
}

int tour_protect(struct tour *tour)
{
	struct hm_map_info info = { .struct_size = sizeof(info) };
	struct hm_pointer_info where;
	char part[TEXT_MAX];
	int r, status;

	r = hm_map_protect(tour->map, 0, tour->part, HM_READ);
	if (r)
		return tour_failed(tour, r, HM_CAP_PROTECT, "rights do not change");
	tour->is_protected = true;
	r = hm_map_query(tour->map, &info);
	if (!r)
		r = hm_pointer_find(tour->words, &where);
	if (r)
		return tour_failed(tour, r, 0, "it does not answer");
	tour_say(tour, "read-only %s: a store is refused", text_bytes(tour->part, part));
	status = tour_expect_number(tour, info.runs, 2, "ranges of equal rights");
	if (!status)
		status =
			tour_expect_number(tour, where.access, HM_READ, "rights as registered");
	if (!status)
		status = tour_expect_access(tour, at(tour, 0), HM_READ, "the first byte");
	if (!status)
		status = tour_expect_access(tour, at(tour, tour->part - 1), HM_READ,
					    "the last protected byte");
	if (!status)
		status = tour_expect_access(tour, at(tour, tour->part), HM_READ | HM_WRITE,
					    "the byte behind it");
	return status;
}

/* By the device's own counters, if they are exact; a machine's free memory is not. */
static bool all_given_back(struct tour *tour, uint64_t free_before, uint64_t bytes)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };

	return !hm_device_query(tour->device, &info) && info.memory_free - free_before == bytes;
}

int tour_shrink(struct tour *tour)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_map_info map = { .struct_size = sizeof(map), .fields = HM_MAP_LOCKED };
	char left[TEXT_MAX], given[TEXT_MAX];
	uint64_t back = tour->size - tour->part;
	int r, status;

	r = hm_device_query(tour->device, &info);
	if (!r)
		r = hm_buffer_resize(tour->buffer, tour->part, 0);
	if (r)
		return tour_failed(tour, r, HM_CAP_RESIZE, "it does not shrink");
	tour->size = tour->part;
	r = hm_map_query(tour->map, &map);
	if (r)
		return tour_failed(tour, r, 0, "the locked bytes are not known");
	tour_say(tour, "%s; %s %s", text_bytes(tour->part, left), text_bytes(back, given),
		 all_given_back(tour, info.memory_free, back) ? "on the device free again" :
		 tour->is_locked                              ? "given back, lock gone" :
								"given back");
	status = expect_size(tour, tour->part);
	if (!status)
		status = tour_expect_access(tour, at(tour, tour->part), HM_NONE,
					    "the part that was cut off");
	if (!status && tour->is_locked)
		status = tour_expect_number(tour, map.locked, 0, "locked bytes");
	if (!status)
		status = expect_words(tour, 0, tour->part);
	return status;
}

/* The device first and the map last: any order of references is right. */
int tour_release(struct tour *tour)
{
	struct hm_stats stats;
	int status;

	hm_queue_unref(tour->queue);
	hm_kernel_unref(tour->kernel);
	hm_accel_unref(tour->accel);
	hm_device_unref(tour->device);
	hm_buffer_unref(tour->buffer);
	tour->queue = NULL;
	tour->kernel = NULL;
	tour->accel = NULL;
	tour->device = NULL;
	status = expect_words(tour, 0, tour->part);
	hm_map_unref(tour->map);
	tour->buffer = NULL;
	tour->map = NULL;
	read_stats(&stats);
	tour_say(tour, "device, buffer, map: nothing is left");
	if (!status)
		status = expect_found(tour, tour->words, 0, false);
	if (!status)
		status = tour_expect_number(tour, stats.maps, tour->before.maps, "maps");
	if (!status)
		status = tour_expect_number(tour, stats.buffers, tour->before.buffers,
					    "buffers");
	if (!status)
		status = tour_expect_number(tour, stats.devices, tour->before.devices,
					    "devices");
	if (!status)
		status = tour_expect_number(tour, stats.bytes_reserved,
					    tour->before.bytes_reserved, "reserved bytes");
	if (!status)
		status = tour_expect_number(tour, stats.bytes_locked, tour->before.bytes_locked,
					    "locked bytes");
	return status;
}
