// SPDX-License-Identifier: MIT
/* Conformance: resize inside the reservation: same address, bytes kept. */
#include <errno.h>
#include <signal.h>

#include "core/conformance.h"

/* Where there is no resize every size is refused and nothing changes. */
static bool refuses_resize(struct fixture *f)
{
	if (has(f, HM_CAP_RESIZE))
		return false;
	AUTO(rig) r = fixture_rig(f, UNITS * f->unit, MAX_UNITS * f->unit);
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(r.buffer, (UNITS + 1) * f->unit, 0));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(r.buffer, f->unit, 0));
	CHECK_EQUAL(buffer_info(r.buffer).size, UNITS * f->unit);
	CHECK_EQUAL(hm_map_length(r.map), UNITS * f->unit);
	return true;
}

static void check_sizes(struct hm_buffer *buffer, struct hm_map *map, uint64_t size)
{
	struct hm_pointer_info found;
	char *base = hm_map_address(map);

	CHECK_EQUAL(buffer_info(buffer).size, size);
	CHECK_EQUAL(hm_map_length(map), size);
	CHECK_EQUAL(map_info(map, 0).length, size);
	CHECK_EQUAL(hm_pointer_find(base + size - 1, &found), 0);
	CHECK_EQUAL(found.length, size);
	/* Right behind it another map may begin. */
	CHECK(hm_pointer_find(base + size, &found) == -ENOENT || found.map != map);
}

static void grow(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = MAX_UNITS * f->unit;
	uint32_t generation;

	if (refuses_resize(f))
		return;
	AUTO(rig) r = fixture_rig(f, old, size);
	generation = map_info(r.map, 0).generation;
	put(f, r.bytes, 0, old, 1);
	CHECK_OK(hm_buffer_resize(r.buffer, size, 0));
	CHECK(hm_map_address(r.map) == r.bytes);
	check_sizes(r.buffer, r.map, size);
	CHECK(holds(f, r.bytes, 0, old, 1));
	CHECK(is_zero(r.bytes, old, size));
	put(f, r.bytes, old, size, 2);
	CHECK(holds(f, r.bytes, old, size, 2));
	CHECK_EQUAL(map_info(r.map, 0).generation, generation + RESIZE_STEP);
	CHECK_EQUAL(buffer_info(r.buffer).segments, 1);
	CHECK(buffer_info(r.buffer).caps & HM_CAP_CONTIGUOUS);
}

static void shrink(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = 3 * f->unit;

	if (refuses_resize(f))
		return;
	AUTO(rig) r = fixture_rig(f, old, 0);
	put(f, r.bytes, 0, old, 1);
	CHECK_OK(hm_buffer_resize(r.buffer, size, 0));
	CHECK(hm_map_address(r.map) == r.bytes);
	check_sizes(r.buffer, r.map, size);
	CHECK(holds(f, r.bytes, 0, size, 1));
	CHECK_EQUAL(test_read_signal(r.bytes + size), SIGSEGV);
	CHECK_OK(hm_buffer_resize(r.buffer, old, 0));
	check_sizes(r.buffer, r.map, old);
	CHECK(holds(f, r.bytes, 0, size, 1));
	CHECK(is_zero(r.bytes, size, old));
}

/* Sizes that are no multiples of a page: cut bytes must not come back either. */
static void odd_sizes(struct fixture *f)
{
	const uint64_t sizes[] = {
		f->unit + 1, 2 * f->unit - 1,     5,   f->unit,
		1,           MAX_UNITS * f->unit, 100, 3 * f->unit + 7,
	};
	uint64_t size = 2 * f->unit + 77, kept;
	size_t i;

	if (refuses_resize(f))
		return;
	AUTO(rig) r = fixture_rig(f, size, MAX_UNITS * f->unit);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		put(f, r.bytes, 0, size, (uint32_t)i);
		CHECK_OK(hm_buffer_resize(r.buffer, sizes[i], 0));
		kept = size < sizes[i] ? size : sizes[i];
		check_sizes(r.buffer, r.map, sizes[i]);
		/* The pattern also marks its last byte: check the part that both cover. */
		if (kept == size)
			CHECK(holds(f, r.bytes, 0, kept, (uint32_t)i));
		CHECK(is_zero(r.bytes, kept, sizes[i]));
		size = sizes[i];
	}
	CHECK(hm_map_address(r.map) == r.bytes);
}

/*
 * CPUs reach the last page to its end: bytes stored there behind the buffer's end do not show
 * when the buffer grows, whether it was ever shrunk or not.
 */
static void stored_behind_the_end(struct fixture *f)
{
	const uint64_t sizes[] = { 2 * f->unit + 5, f->unit + 9, f->unit + 90, f->unit + 9 };
	uint64_t size = f->unit + 77, i, end;

	if (refuses_resize(f))
		return;
	AUTO(rig) r = fixture_rig(f, size, MAX_UNITS * f->unit);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		put(f, r.bytes, 0, size, (uint32_t)i);
		end = (size + f->unit - 1) / f->unit * f->unit;
		memset(r.bytes + size, 0x55, end - size);
		CHECK_OK(hm_buffer_resize(r.buffer, sizes[i], 0));
		if (sizes[i] > size) {
			CHECK(holds(f, r.bytes, 0, size, (uint32_t)i));
			CHECK(is_zero(r.bytes, size, sizes[i]));
		}
		size = sizes[i];
	}
	CHECK(hm_map_address(r.map) == r.bytes);
}

static void random_sizes(struct fixture *f)
{
	uint64_t state = test_seed(), max_size = MAX_UNITS * f->unit, size = f->unit, next;
	int i;

	if (refuses_resize(f))
		return;
	AUTO(rig) r = fixture_rig(f, size, max_size);
	for (i = 0; i < 60; i++) {
		next = test_random(&state) % max_size + 1;
		if (i % 3 == 0)
			next = (next + f->unit - 1) / f->unit * f->unit;
		put(f, hm_map_address(r.map), 0, size, (uint32_t)i);
		CHECK_OK(hm_buffer_resize(r.buffer, next, 0));
		check_sizes(r.buffer, r.map, next);
		if (next >= size) {
			CHECK(holds(f, hm_map_address(r.map), 0, size, (uint32_t)i));
			CHECK(is_zero(hm_map_address(r.map), size, next));
		}
		size = next;
	}
}

static void without_a_map(struct fixture *f)
{
	uint64_t size = UNITS * f->unit;

	if (refuses_resize(f))
		return;
	AUTO(rig) r = fixture_rig(f, size, MAX_UNITS * f->unit);
	put(f, hm_map_address(r.map), 0, size, 1);
	hm_map_unref(r.map);
	CHECK_OK(hm_buffer_resize(r.buffer, 2 * f->unit, 0));
	CHECK_OK(hm_buffer_resize(r.buffer, size, 0));
	CHECK_OK_FATAL(hm_map_create(r.buffer, NULL, &r.map));
	CHECK_EQUAL(hm_map_length(r.map), size);
	CHECK(is_zero(hm_map_address(r.map), 2 * f->unit, size));
}

static void past_the_end(struct fixture *f)
{
	uint64_t size = UNITS * f->unit;
	AUTO(rig) r = fixture_rig(f, size, 2 * size);
	uint64_t max_size = buffer_info(r.buffer).max_size;
	int past = has(f, HM_CAP_RESIZE) ? -ENOSPC : -EOPNOTSUPP;

	put(f, hm_map_address(r.map), 0, size, 1);
	CHECK_ERROR(past, hm_buffer_resize(r.buffer, max_size + 1, 0));
	CHECK_ERROR(-EINVAL, hm_buffer_resize(r.buffer, 0, 0));
	CHECK_ERROR(-EINVAL, hm_buffer_resize(r.buffer, size, 1u << 30));
	check_sizes(r.buffer, r.map, size);
	CHECK(holds(f, hm_map_address(r.map), 0, size, 1));
}

/* Maps of a part never change; a shrink that would cut one is refused. */
static void parts(struct fixture *f)
{
	struct hm_map *part;

	if (refuses_resize(f))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, UNITS * f->unit, MAX_UNITS * f->unit, NULL);
	part = rig_map(buffer, DESC(hm_map_desc, .access = HM_READ, .offset = 2 * f->unit,
				    .length = 2 * f->unit));
	CHECK_OK(hm_buffer_resize(buffer, MAX_UNITS * f->unit, 0));
	CHECK_EQUAL(hm_map_length(part), 2 * f->unit);
	CHECK_ERROR(-EBUSY, hm_buffer_resize(buffer, 4 * f->unit - 1, 0));
	CHECK_ERROR(-EBUSY, hm_buffer_resize(buffer, f->unit, 0));
	CHECK_EQUAL(buffer_info(buffer).size, MAX_UNITS * f->unit);
	CHECK_OK(hm_buffer_resize(buffer, 4 * f->unit, 0));
	CHECK(is_zero(hm_map_address(part), 0, 2 * f->unit));
	hm_map_unref(part);
	CHECK_OK(hm_buffer_resize(buffer, f->unit, 0));
}

static void every_whole_map_follows(struct fixture *f)
{
	uint64_t size = UNITS * f->unit, grown = MAX_UNITS * f->unit;

	if (!has(f, HM_CAP_MULTI_MAP) || refuses_resize(f))
		return;
	AUTO(rig) r = fixture_rig(f, size, grown);
	AUTO(hm_map) *second = rig_map(r.buffer, NULL);
	CHECK_OK(hm_buffer_resize(r.buffer, grown, 0));
	/* Two maps can't both move to a new object: a further one, or none. */
	CHECK_EQUAL(buffer_info(r.buffer).segments, 1 + RESIZE_STEP);
	CHECK_EQUAL(map_info(r.map, 0).generation, 0);
	check_sizes(r.buffer, r.map, grown);
	check_sizes(r.buffer, second, grown);
	put(f, hm_map_address(r.map), 0, grown, 4);
	CHECK(holds(f, hm_map_address(second), 0, grown, 4));
	CHECK_OK(hm_buffer_resize(r.buffer, f->unit, 0));
	check_sizes(r.buffer, r.map, f->unit);
	check_sizes(r.buffer, second, f->unit);
}

/* Rights stay with their bytes; new bytes get the rights the map was made with. */
static void rights(struct fixture *f)
{
	struct hm_pointer_info found;
	uint64_t unit = f->unit;

	if (!has(f, HM_CAP_PROTECT) || refuses_resize(f))
		return;
	AUTO(rig) r = fixture_rig(f, 4 * unit, 8 * unit);
	CHECK_OK(hm_map_protect(r.map, 2 * unit, 2 * unit, HM_NONE));
	CHECK_OK(hm_buffer_resize(r.buffer, 6 * unit, 0));
	CHECK_EQUAL(hm_pointer_find(r.bytes + 3 * unit, &found), 0);
	CHECK_EQUAL(found.access, HM_NONE);
	CHECK_EQUAL(hm_pointer_find(r.bytes + 4 * unit, &found), 0);
	CHECK_EQUAL(found.access, f->writable ? HM_READ | HM_WRITE : HM_READ);
	CHECK_EQUAL(test_read_signal(r.bytes + 3 * unit), SIGSEGV);
	CHECK_EQUAL(test_read_signal(r.bytes + 4 * unit), 0);
	CHECK_OK(hm_buffer_resize(r.buffer, unit, 0));
	CHECK_EQUAL(map_info(r.map, 0).runs, 1);
	CHECK_OK(hm_buffer_resize(r.buffer, 4 * unit, 0));
	CHECK_EQUAL(test_read_signal(r.bytes + 3 * unit), 0);
}

static void accounting(struct fixture *f)
{
	struct hm_stats before = stats_now();
	struct hm_map *map;
	struct hm_buffer *buffer;

	if (refuses_resize(f))
		return;
	buffer = fixture_make(f, UNITS * f->unit, MAX_UNITS * f->unit, &map);
	CHECK_EQUAL(stats_now().bytes_mapped - before.bytes_mapped, UNITS * f->unit);
	CHECK(stats_now().bytes_reserved - before.bytes_reserved >= MAX_UNITS * f->unit);
	CHECK_OK(hm_buffer_resize(buffer, MAX_UNITS * f->unit, 0));
	CHECK_EQUAL(stats_now().bytes_mapped - before.bytes_mapped, MAX_UNITS * f->unit);
	CHECK_OK(hm_buffer_resize(buffer, f->unit, 0));
	CHECK_EQUAL(stats_now().bytes_mapped - before.bytes_mapped, f->unit);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(stats_now().bytes_mapped, before.bytes_mapped);
	CHECK_EQUAL(stats_now().bytes_reserved, before.bytes_reserved);
}

const struct conformance_case conformance_resize[] = {
	{ "grow", grow },
	{ "shrink", shrink },
	{ "odd_sizes", odd_sizes },
	{ "stored_behind_the_end", stored_behind_the_end },
	{ "random_sizes", random_sizes },
	{ "resize_without_a_map", without_a_map },
	{ "resize_past_the_end", past_the_end },
	{ "resize_parts", parts },
	{ "resize_whole_maps", every_whole_map_follows },
	{ "resize_rights", rights },
	{ "resize_accounting", accounting },
	{ NULL, NULL },
};
