// SPDX-License-Identifier: MIT
/* Conformance: the counters of a buffer and of its device, exact after known calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/conformance.h"

#define BYTES (UNITS * f->unit)

static struct hm_buffer_stats of_buffer(struct hm_buffer *buffer)
{
	struct hm_buffer_stats stats = { .struct_size = sizeof(stats) };

	CHECK_OK(hm_buffer_stats_get(buffer, &stats));
	return stats;
}

static struct hm_device_stats of_device(const struct fixture *f)
{
	struct hm_device_stats stats = { .struct_size = sizeof(stats) };

	CHECK_OK(hm_device_stats_get(f->device, &stats));
	return stats;
}

static void check_same(struct hm_buffer_stats now, struct hm_buffer_stats expected)
{
	expected.struct_size = sizeof(expected);
	CHECK_EQUAL(now.bytes, expected.bytes);
	CHECK_EQUAL(now.maps, expected.maps);
	CHECK_EQUAL(now.maps_ever, expected.maps_ever);
	CHECK_EQUAL(now.views, expected.views);
	CHECK_EQUAL(now.bytes_mapped, expected.bytes_mapped);
	CHECK_EQUAL(now.bytes_locked, expected.bytes_locked);
	CHECK_EQUAL(now.bytes_copied, expected.bytes_copied);
	CHECK_EQUAL(now.resizes, expected.resizes);
	CHECK_EQUAL(now.protects, expected.protects);
	CHECK_EQUAL(now.brackets, expected.brackets);
	CHECK_EQUAL(now.brackets_open, expected.brackets_open);
	CHECK_EQUAL(now.launches, expected.launches);
	/* The fields that have no check above: losses and reserved bytes. */
	CHECK(!memcmp(&now, &expected, sizeof(now)));
}

static void counts_of_maps(struct fixture *f)
{
	struct hm_map_desc outside = { .struct_size = sizeof(outside), .access = HM_READ };
	AUTO(hm_buffer) *buffer = fixture_make(f, BYTES - 5, 0, NULL);
	struct hm_map *map, *other = NULL;
	struct hm_buffer_stats expected = { .bytes = BYTES };
	int round;

	check_same(of_buffer(buffer), expected);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	expected.maps = expected.maps_ever = 1;
	expected.bytes_mapped = BYTES;
	check_same(of_buffer(buffer), expected);
	outside.offset = 2 * BYTES;
	CHECK_ERROR(has(f, HM_CAP_MULTI_MAP) ? -ERANGE : -EBUSY,
		    hm_map_create(buffer, &outside, &other));
	check_same(of_buffer(buffer), expected);
	for (round = 0; round < 3 && has(f, HM_CAP_MULTI_MAP); round++) {
		other = rig_map(buffer, DESC(hm_map_desc, .access = HM_READ, .offset = f->unit,
					     .length = 2 * f->unit));
		expected.maps++;
		expected.maps_ever++;
		expected.bytes_mapped += 2 * f->unit;
		check_same(of_buffer(buffer), expected);
		hm_map_unref(other);
		expected.maps--;
		expected.bytes_mapped -= 2 * f->unit;
		check_same(of_buffer(buffer), expected);
	}
	hm_map_unref(map);
	expected.maps = expected.bytes_mapped = 0;
	check_same(of_buffer(buffer), expected);
}

/* A bracket that is open when its map ends was one. */
static void counts_of_brackets(struct fixture *f)
{
	struct hm_buffer_stats expected = {
		.bytes = BYTES, .maps = 1, .maps_ever = 1, .bytes_mapped = BYTES
	};
	AUTO(rig) r = fixture_rig(f, BYTES, 0);

	CHECK_OK(hm_map_begin_cpu(r.map, 0, BYTES, HM_READ));
	CHECK_OK(hm_map_begin_cpu(r.map, 1, 7, HM_READ));
	CHECK_ERROR(-EINVAL, hm_map_begin_cpu(r.map, 0, BYTES, 0));
	CHECK_ERROR(-ERANGE, hm_map_begin_cpu(r.map, 0, 2 * BYTES, HM_READ));
	expected.brackets = expected.brackets_open = 2;
	check_same(of_buffer(r.buffer), expected);
	CHECK_OK(hm_map_end_cpu(r.map, 1, 7, HM_READ));
	expected.brackets_open = 1;
	check_same(of_buffer(r.buffer), expected);
	hm_map_unref(r.map);
	expected.brackets_open = expected.maps = expected.bytes_mapped = 0;
	check_same(of_buffer(r.buffer), expected);
	CHECK_OK_FATAL(hm_map_create(r.buffer, NULL, &r.map));
	CHECK_ERROR(-EINVAL, hm_map_end_cpu(r.map, 0, BYTES, HM_READ));
	CHECK_OK(hm_map_begin_cpu(r.map, 0, BYTES, HM_READ));
	CHECK_OK(hm_map_end_cpu(r.map, 0, BYTES, HM_READ));
	CHECK_EQUAL(of_buffer(r.buffer).brackets, 3);
	CHECK_EQUAL(of_buffer(r.buffer).brackets_open, 0);
}

/* Each resize by one unit and a byte: the pages are one more than the size's. */
static void counts_of_resizes(struct fixture *f)
{
	uint64_t more = BYTES + f->unit + 1, pages = BYTES + 2 * f->unit;
	struct hm_map *map;
	struct hm_buffer *buffer = fixture_make(f, BYTES, 2 * BYTES, &map);
	struct hm_buffer_stats expected = {
		.bytes = BYTES, .maps = 1, .maps_ever = 1, .bytes_mapped = BYTES
	};
	bool copies = has(f, HM_CAP_RESIZE_REPLACES);

	CHECK_OK(hm_buffer_resize(buffer, BYTES, 0));
	check_same(of_buffer(buffer), expected);
	if (!has(f, HM_CAP_RESIZE)) {
		CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(buffer, more, 0));
		goto out;
	}
	CHECK_OK(hm_buffer_resize(buffer, more, 0));
	expected.resizes = 1;
	expected.bytes = expected.bytes_mapped = pages;
	expected.bytes_copied = copies ? BYTES : 0;
	check_same(of_buffer(buffer), expected);
	CHECK_ERROR(-EINVAL, hm_buffer_resize(buffer, 0, 0));
	CHECK_OK(hm_buffer_resize(buffer, 2 * f->unit, 0));
	expected.resizes = 2;
	expected.bytes = expected.bytes_mapped = 2 * f->unit;
	expected.bytes_copied += copies ? 2 * f->unit : 0;
	check_same(of_buffer(buffer), expected);
	if (has(f, HM_CAP_REPLACE)) {
		CHECK_OK(hm_buffer_resize(buffer, BYTES, HM_GROW_REPLACE));
		expected.resizes = 3;
		expected.bytes = expected.bytes_mapped = BYTES;
		expected.bytes_copied += 2 * f->unit;
	}
out:
	check_same(of_buffer(buffer), expected);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
}

static void counts_of_rights_and_locks(struct fixture *f)
{
	const struct hm_view_ops ops = { .struct_size = sizeof(ops) };
	struct hm_buffer_stats expected = {
		.bytes = BYTES, .maps = 1, .maps_ever = 1, .bytes_mapped = BYTES
	};
	struct hm_map *map;
	AUTO(hm_buffer) *buffer = fixture_make(f, BYTES, 0, &map);
	struct hm_scope *scope;
	struct hm_view *view;

	CHECK_ERROR(-ERANGE, hm_map_protect(map, 2 * BYTES, f->unit, HM_READ));
	CHECK_OK_FATAL(hm_view_create(map, 0, 0, &ops, NULL, &view));
	expected.views = 1;
	if (has(f, HM_CAP_PROTECT)) {
		CHECK_OK(hm_map_protect(map, 0, f->unit, HM_NONE));
		CHECK_OK(hm_map_protect(map, 0, f->unit, HM_READ));
		CHECK_OK(hm_map_protect_begin(map, 0, BYTES, HM_READ, &scope));
		CHECK_OK(hm_map_protect_end(scope));
		expected.protects = 4;
	}
	check_same(of_buffer(buffer), expected);
	if (has(f, HM_CAP_LOCK)) {
		CHECK_OK(hm_map_lock(map, f->unit, 2 * f->unit, 0, NULL));
		expected.bytes_locked = 2 * f->unit;
		check_same(of_buffer(buffer), expected);
		CHECK_OK(hm_map_unlock(map, 0, 2 * f->unit));
		expected.bytes_locked = f->unit;
		check_same(of_buffer(buffer), expected);
	}
	hm_view_unref(view);
	hm_map_unref(map);
	expected.views = expected.bytes_locked = 0;
	expected.maps = expected.bytes_mapped = 0;
	check_same(of_buffer(buffer), expected);
}

/* From one half of the buffer to the other: one launch, and it was used by it once. */
static void counts_of_launches(struct fixture *f)
{
	struct hm_fence *fence;

	if (TEST_TSAN && getenv("HETMAP_RETIRE")) {
		test_skip("sanitizer", "TSan lets no child of a process with a thread, the "
				       "one that releases, start one");
		return;
	}
	AUTO(rig) r = fixture_rig(f, BYTES, 0);
	AUTO(hm_accel) *accel = rig_accel("cpu", NULL);
	AUTO(hm_queue) *queue = rig_queue(accel, 0);
	CHECK_ERROR(-EFAULT, hm_queue_fill(queue, (void *)64, 1, f->unit, &fence));
	CHECK_EQUAL(of_buffer(r.buffer).launches, 0);
	if (f->writable) {
		CHECK_OK_FATAL(
			hm_queue_copy(queue, r.bytes, r.bytes + BYTES / 2, f->unit, &fence));
		CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
		hm_fence_unref(fence);
		CHECK_EQUAL(of_buffer(r.buffer).launches, 1);
		CHECK_OK_FATAL(hm_queue_fill(queue, r.bytes, 7, f->unit, &fence));
		CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
		hm_fence_unref(fence);
		CHECK_EQUAL(of_buffer(r.buffer).launches, 2);
		CHECK_EQUAL(of_buffer(r.buffer).bytes_copied, 0);
	}
}

/* Events of an ended buffer stay in its device's counts; its sizes do not. */
static void counts_of_device(struct fixture *f)
{
	struct hm_device_stats before = of_device(f), now;
	struct hm_map *map, *other_map;
	struct hm_buffer *buffer = fixture_make(f, BYTES, 2 * BYTES, &map);
	struct hm_buffer *other = fixture_make(f, f->unit, 0, &other_map);

	CHECK_OK(hm_map_begin_cpu(map, 0, BYTES, HM_READ));
	CHECK_OK(hm_map_begin_cpu(other_map, 0, f->unit, HM_READ));
	CHECK_OK(hm_map_end_cpu(other_map, 0, f->unit, HM_READ));
	now = of_device(f);
	CHECK_EQUAL(now.buffers, before.buffers + 2);
	CHECK_EQUAL(now.buffers_ever, before.buffers_ever + 2);
	CHECK_EQUAL(now.bytes_allocated, before.bytes_allocated + BYTES + f->unit);
	CHECK_EQUAL(now.maps, before.maps + 2);
	CHECK_EQUAL(now.maps_ever, before.maps_ever + 2);
	CHECK_EQUAL(now.bytes_mapped, before.bytes_mapped + BYTES + f->unit);
	CHECK_EQUAL(now.brackets, before.brackets + 2);
	CHECK_EQUAL(now.brackets_open, before.brackets_open + 1);
	CHECK_EQUAL(now.protects, before.protects);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	now = of_device(f);
	CHECK_EQUAL(now.buffers, before.buffers + 1);
	CHECK_EQUAL(now.bytes_allocated, before.bytes_allocated + f->unit);
	CHECK_EQUAL(now.brackets, before.brackets + 2);
	CHECK_EQUAL(now.brackets_open, before.brackets_open);
	hm_map_unref(other_map);
	hm_buffer_unref(other);
	now = of_device(f);
	before.buffers_ever += 2;
	before.maps_ever += 2;
	before.brackets += 2;
	CHECK(!memcmp(&now, &before, sizeof(now)));
}

static void counts_refused(struct fixture *f)
{
	struct {
		struct hm_buffer_stats stats;
		uint64_t more;
	} large = { .stats.struct_size = sizeof(large) };
	struct hm_buffer_stats untouched, stats = { .struct_size = 8, .maps = 7 };
	struct hm_device_stats of_it = { .struct_size = sizeof(of_it) };
	AUTO(hm_buffer) *buffer = fixture_make(f, f->unit, 0, NULL);

	untouched = stats;
	CHECK_ERROR(-EINVAL, hm_buffer_stats_get(NULL, &stats));
	CHECK_ERROR(-EINVAL, hm_buffer_stats_get(buffer, NULL));
	CHECK_ERROR(-EINVAL, hm_buffer_stats_get(buffer, &stats));
	CHECK_ERROR(-E2BIG, hm_buffer_stats_get(buffer, &large.stats));
	CHECK_ERROR(-EINVAL, hm_buffer_stats_get((struct hm_buffer *)f->device, &stats));
	CHECK(!memcmp(&stats, &untouched, sizeof(stats)));
	CHECK_ERROR(-EINVAL, hm_device_stats_get(NULL, &of_it));
	CHECK_ERROR(-EINVAL, hm_device_stats_get(f->device, NULL));
	of_it.struct_size = 8;
	CHECK_ERROR(-EINVAL, hm_device_stats_get(f->device, &of_it));
	of_it.struct_size = sizeof(of_it) + 8;
	CHECK_ERROR(-E2BIG, hm_device_stats_get(f->device, &of_it));
}

const struct conformance_case conformance_counts[] = {
	{ "counts_of_maps", counts_of_maps },
	{ "counts_of_brackets", counts_of_brackets },
	{ "counts_of_resizes", counts_of_resizes },
	{ "counts_of_rights_and_locks", counts_of_rights_and_locks },
	{ "counts_of_launches", counts_of_launches },
	{ "counts_of_device", counts_of_device },
	{ "counts_refused", counts_refused },
	{ NULL, NULL },
};
