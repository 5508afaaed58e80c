// SPDX-License-Identifier: MIT
/* Conformance: growth by another object: replace, append, move. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/conformance.h"

static bool refuses(struct fixture *f, uint64_t cap, uint32_t flags)
{
	if (has(f, cap))
		return false;
	/* Inside max_size, but for a move: -ENOSPC is another answer. */
	AUTO(rig) r =
		fixture_rig(f, UNITS * f->unit, flags == HM_MAY_MOVE ? 0 : MAX_UNITS * f->unit);
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(r.buffer, 2 * UNITS * f->unit, flags));
	CHECK_EQUAL(buffer_info(r.buffer).size, UNITS * f->unit);
	return true;
}

static void replace(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = 2 * old;
	struct hm_stats before;
	uint32_t generation;

	if (refuses(f, HM_CAP_REPLACE, HM_GROW_REPLACE))
		return;
	AUTO(rig) r = fixture_rig(f, old, 2 * size);
	generation = buffer_info(r.buffer).generation;
	put(f, r.bytes, 0, old, 1);
	before = stats_now();
	CHECK_OK(hm_buffer_resize(r.buffer, size, HM_GROW_REPLACE));
	CHECK(hm_map_address(r.map) == r.bytes);
	CHECK_EQUAL(hm_map_length(r.map), size);
	CHECK_EQUAL(buffer_info(r.buffer).size, size);
	CHECK_EQUAL(buffer_info(r.buffer).segments, 1);
	CHECK_EQUAL(buffer_info(r.buffer).generation, generation + 1);
	CHECK(stats_now().bytes_copied - before.bytes_copied >= old);
	CHECK(holds(f, r.bytes, 0, old, 1));
	CHECK(is_zero(r.bytes, old, size));
	put(f, r.bytes, 0, size, 2);
	CHECK(holds(f, r.bytes, 0, size, 2));
	/* And it is an ordinary buffer afterwards. */
	if (has(f, HM_CAP_RESIZE)) {
		CHECK_OK(hm_buffer_resize(r.buffer, f->unit, 0));
		CHECK_OK(hm_buffer_resize(r.buffer, size, 0));
		CHECK(is_zero(r.bytes, f->unit, size));
	}
}

/* A new object would part the users of the old one. */
static void replace_busy(struct fixture *f)
{
	uint64_t old = UNITS * f->unit;
	int fd;

	if (refuses(f, HM_CAP_REPLACE, HM_GROW_REPLACE))
		return;
	AUTO(rig) r = fixture_rig(f, old, 4 * old);
	put(f, hm_map_address(r.map), 0, old, 1);
	if (has(f, HM_CAP_MULTI_MAP)) {
		AUTO(hm_map) *second = rig_map(r.buffer, NULL);
		CHECK_ERROR(-EBUSY, hm_buffer_resize(r.buffer, 2 * old, HM_GROW_REPLACE));
	}
	if (has(f, HM_CAP_EXPORT)) {
		CHECK_OK_FATAL(hm_buffer_export(r.buffer, 0, &fd));
		CHECK_ERROR(-EBUSY, hm_buffer_resize(r.buffer, 2 * old, HM_GROW_REPLACE));
		close(fd);
	}
	CHECK_EQUAL(hm_map_length(r.map), old);
	CHECK(holds(f, hm_map_address(r.map), 0, old, 1));
}

static void may_move(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = 3 * old + 5;
	struct hm_pointer_info found;
	uint32_t generation;

	if (refuses(f, HM_CAP_REPLACE, HM_MAY_MOVE))
		return;
	AUTO(rig) r = fixture_rig(f, old, 0);
	generation = map_info(r.map, 0).generation;
	put(f, hm_map_address(r.map), 0, old, 1);
	CHECK_OK(hm_buffer_resize(r.buffer, size, HM_MAY_MOVE));
	CHECK_EQUAL(hm_map_length(r.map), size);
	CHECK(map_info(r.map, 0).generation > generation);
	CHECK(holds(f, hm_map_address(r.map), 0, old, 1));
	CHECK(is_zero(hm_map_address(r.map), old, size));
	put(f, hm_map_address(r.map), 0, size, 2);
	CHECK(holds(f, hm_map_address(r.map), 0, size, 2));
	CHECK_EQUAL(hm_pointer_find((char *)hm_map_address(r.map) + size - 1, &found), 0);
	CHECK(found.map == r.map);
	CHECK_EQUAL(found.generation, map_info(r.map, 0).generation);
	CHECK(buffer_info(r.buffer).max_size >= size);
}

/* A map that moves may no longer be found at its old address. */
static void old_address(struct fixture *f)
{
	uint64_t old = UNITS * f->unit;
	struct hm_pointer_info found;

	if (refuses(f, HM_CAP_REPLACE, HM_MAY_MOVE))
		return;
	AUTO(rig) r = fixture_rig(f, old, 0);
	CHECK_OK(hm_buffer_resize(r.buffer, 1000 * old, HM_MAY_MOVE));
	if (hm_map_address(r.map) != r.bytes) {
		char *now = hm_map_address(r.map);

		if (r.bytes + old <= now || r.bytes >= now + 1000 * old) {
			CHECK_EQUAL(hm_pointer_find(r.bytes, &found), -ENOENT);
			/* The sanitizer maps memory of its own in the hole now and then. */
			if (!TEST_TSAN)
				CHECK_EQUAL(test_read_signal(r.bytes), SIGSEGV);
		}
	}
}

/* Inside max_size nothing needs to move, whatever is allowed. */
static void may_move_inside(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = 2 * old;

	if (!has(f, HM_CAP_RESIZE) || refuses(f, HM_CAP_REPLACE, HM_MAY_MOVE))
		return;
	AUTO(rig) r = fixture_rig(f, old, size);
	CHECK_OK(hm_buffer_resize(r.buffer, size, HM_MAY_MOVE));
	CHECK(hm_map_address(r.map) == r.bytes);
	CHECK_EQUAL(map_info(r.map, 0).generation, RESIZE_STEP);
	CHECK_OK(hm_buffer_resize(r.buffer, f->unit, HM_MAY_MOVE));
	CHECK(hm_map_address(r.map) == r.bytes);
}

static void append(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = 2 * old + f->unit;

	if (refuses(f, HM_CAP_APPEND, HM_GROW_APPEND))
		return;
	AUTO(rig) r = fixture_rig(f, old, MAX_UNITS * f->unit);
	put(f, r.bytes, 0, old, 1);
	CHECK_OK(hm_buffer_resize(r.buffer, size, HM_GROW_APPEND));
	CHECK(hm_map_address(r.map) == r.bytes);
	CHECK_EQUAL(hm_map_length(r.map), size);
	CHECK_EQUAL(buffer_info(r.buffer).segments, 2);
	CHECK(!(buffer_info(r.buffer).caps & HM_CAP_CONTIGUOUS));
	CHECK(holds(f, r.bytes, 0, old, 1));
	CHECK(is_zero(r.bytes, old, size));
	put(f, r.bytes, 0, size, 2);
	CHECK(holds(f, r.bytes, 0, size, 2));
	/* Cut back to the first object it is contiguous again. */
	if (has(f, HM_CAP_RESIZE)) {
		CHECK_OK(hm_buffer_resize(r.buffer, f->unit, 0));
		CHECK_EQUAL(hm_map_length(r.map), f->unit);
		CHECK(holds(f, r.bytes, 0, 1, 2));
	}
}

static void append_maps(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = 2 * old;
	struct hm_map_desc desc = {
		.struct_size = sizeof(desc),
		.access = HM_READ,
		.offset = old - f->unit,
		.length = 2 * f->unit,
	};
	struct hm_map *whole;

	if (!has(f, HM_CAP_MULTI_MAP) || refuses(f, HM_CAP_APPEND, HM_GROW_APPEND))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, old, MAX_UNITS * f->unit, &whole);
	CHECK_OK(hm_buffer_resize(buffer, size, HM_GROW_APPEND));
	put(f, hm_map_address(whole), 0, size, 7);
	AUTO(hm_map) *across = rig_map(buffer, &desc);
	put(f, (char *)hm_map_address(whole) + desc.offset, 0, desc.length, 8);
	CHECK(holds(f, hm_map_address(across), 0, desc.length, 8));
	hm_map_unref(whole);
	CHECK(holds(f, hm_map_address(across), 0, desc.length, 8));
}

static void coalesce(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = 2 * old;
	struct hm_stats before;
	int fd = -7;

	if (!has(f, HM_CAP_EXPORT) || refuses(f, HM_CAP_APPEND, HM_GROW_APPEND))
		return;
	AUTO(rig) r = fixture_rig(f, old, MAX_UNITS * f->unit);
	put(f, hm_map_address(r.map), 0, old, 1);
	CHECK_OK(hm_buffer_resize(r.buffer, size, HM_GROW_APPEND));
	put(f, hm_map_address(r.map), old, size, 2);
	CHECK_ERROR(-EXDEV, hm_buffer_export(r.buffer, 0, &fd));
	CHECK_EQUAL(fd, -7);
	before = stats_now();
	CHECK_OK_FATAL(hm_buffer_export(r.buffer, HM_EXPORT_COALESCE, &fd));
	CHECK(stats_now().bytes_copied - before.bytes_copied >= size);
	CHECK_EQUAL(buffer_info(r.buffer).segments, 1);
	CHECK(buffer_info(r.buffer).caps & HM_CAP_CONTIGUOUS);
	CHECK(holds(f, hm_map_address(r.map), 0, old, 1));
	CHECK(holds(f, hm_map_address(r.map), old, size, 2));
	close(fd);
}

const struct conformance_case conformance_grow[] = {
	{ "replace", replace },
	{ "replace_busy", replace_busy },
	{ "may_move", may_move },
	{ "old_address", old_address },
	{ "may_move_inside", may_move_inside },
	{ "append", append },
	{ "append_maps", append_maps },
	{ "coalesce", coalesce },
	{ NULL, NULL },
};
