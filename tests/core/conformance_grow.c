// SPDX-License-Identifier: MIT
/* Conformance: growth by another object: replace, append, move. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/conformance.h"

static bool refuses(struct fixture *f, uint64_t cap, uint32_t flags)
{
	AUTO(hm_map) *map = NULL;

	if (has(f, cap))
		return false;
	/* Inside max_size, but for a move: -ENOSPC is another answer. */
	AUTO(hm_buffer) *buffer = fixture_make(
		f, UNITS * f->unit, flags == HM_MAY_MOVE ? 0 : MAX_UNITS * f->unit, &map);
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(buffer, 2 * UNITS * f->unit, flags));
	CHECK_EQUAL(buffer_info(buffer).size, UNITS * f->unit);
	return true;
}

static void replace(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = 2 * old;
	struct hm_stats before;
	AUTO(hm_map) *map = NULL;
	uint32_t generation;
	char *base;

	if (refuses(f, HM_CAP_REPLACE, HM_GROW_REPLACE))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, old, 2 * size, &map);
	base = hm_map_address(map);
	generation = buffer_info(buffer).generation;
	put(f, base, 0, old, 1);
	before = stats_now();
	CHECK_OK(hm_buffer_resize(buffer, size, HM_GROW_REPLACE));
	CHECK(hm_map_address(map) == base);
	CHECK_EQUAL(hm_map_length(map), size);
	CHECK_EQUAL(buffer_info(buffer).size, size);
	CHECK_EQUAL(buffer_info(buffer).segments, 1);
	CHECK_EQUAL(buffer_info(buffer).generation, generation + 1);
	CHECK(stats_now().bytes_copied - before.bytes_copied >= old);
	CHECK(holds(f, base, 0, old, 1));
	CHECK(is_zero(base, old, size));
	put(f, base, 0, size, 2);
	CHECK(holds(f, base, 0, size, 2));
	/* And it is an ordinary buffer afterwards. */
	if (has(f, HM_CAP_RESIZE)) {
		CHECK_OK(hm_buffer_resize(buffer, f->unit, 0));
		CHECK_OK(hm_buffer_resize(buffer, size, 0));
		CHECK(is_zero(base, f->unit, size));
	}
}

/* A new object would part the users of the old one. */
static void replace_busy(struct fixture *f)
{
	uint64_t old = UNITS * f->unit;
	AUTO(hm_map) *map = NULL;
	int fd;

	if (refuses(f, HM_CAP_REPLACE, HM_GROW_REPLACE))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, old, 4 * old, &map);
	put(f, hm_map_address(map), 0, old, 1);
	if (has(f, HM_CAP_MULTI_MAP)) {
		AUTO(hm_map) *second = rig_map(buffer, NULL);
		CHECK_ERROR(-EBUSY, hm_buffer_resize(buffer, 2 * old, HM_GROW_REPLACE));
	}
	if (has(f, HM_CAP_EXPORT)) {
		CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
		CHECK_ERROR(-EBUSY, hm_buffer_resize(buffer, 2 * old, HM_GROW_REPLACE));
		close(fd);
	}
	CHECK_EQUAL(hm_map_length(map), old);
	CHECK(holds(f, hm_map_address(map), 0, old, 1));
}

static void may_move(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = 3 * old + 5;
	AUTO(hm_map) *map = NULL;
	struct hm_pointer_info found;
	uint32_t generation;

	if (refuses(f, HM_CAP_REPLACE, HM_MAY_MOVE))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, old, 0, &map);
	generation = map_info(map, 0).generation;
	put(f, hm_map_address(map), 0, old, 1);
	CHECK_OK(hm_buffer_resize(buffer, size, HM_MAY_MOVE));
	CHECK_EQUAL(hm_map_length(map), size);
	CHECK(map_info(map, 0).generation > generation);
	CHECK(holds(f, hm_map_address(map), 0, old, 1));
	CHECK(is_zero(hm_map_address(map), old, size));
	put(f, hm_map_address(map), 0, size, 2);
	CHECK(holds(f, hm_map_address(map), 0, size, 2));
	CHECK_EQUAL(hm_pointer_find((char *)hm_map_address(map) + size - 1, &found), 0);
	CHECK(found.map == map);
	CHECK_EQUAL(found.generation, map_info(map, 0).generation);
	CHECK(buffer_info(buffer).max_size >= size);
}

/* A map that moves may no longer be found at its old address. */
static void old_address(struct fixture *f)
{
	uint64_t old = UNITS * f->unit;
	AUTO(hm_map) *map = NULL;
	struct hm_pointer_info found;
	char *base;

	if (refuses(f, HM_CAP_REPLACE, HM_MAY_MOVE))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, old, 0, &map);
	base = hm_map_address(map);
	CHECK_OK(hm_buffer_resize(buffer, 1000 * old, HM_MAY_MOVE));
	if (hm_map_address(map) != base) {
		char *now = hm_map_address(map);

		if (base + old <= now || base >= now + 1000 * old) {
			CHECK_EQUAL(hm_pointer_find(base, &found), -ENOENT);
			/* The sanitizer maps memory of its own in the hole now and then. */
			if (!TEST_TSAN)
				CHECK_EQUAL(test_read_signal(base), SIGSEGV);
		}
	}
}

/* Inside max_size nothing needs to move, whatever is allowed. */
static void may_move_inside(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = 2 * old;
	AUTO(hm_map) *map = NULL;
	char *base;

	if (!has(f, HM_CAP_RESIZE) || refuses(f, HM_CAP_REPLACE, HM_MAY_MOVE))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, old, size, &map);
	base = hm_map_address(map);
	CHECK_OK(hm_buffer_resize(buffer, size, HM_MAY_MOVE));
	CHECK(hm_map_address(map) == base);
	CHECK_EQUAL(map_info(map, 0).generation, RESIZE_STEP);
	CHECK_OK(hm_buffer_resize(buffer, f->unit, HM_MAY_MOVE));
	CHECK(hm_map_address(map) == base);
}

static void append(struct fixture *f)
{
	uint64_t old = UNITS * f->unit, size = 2 * old + f->unit;
	AUTO(hm_map) *map = NULL;
	char *base;

	if (refuses(f, HM_CAP_APPEND, HM_GROW_APPEND))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, old, MAX_UNITS * f->unit, &map);
	base = hm_map_address(map);
	put(f, base, 0, old, 1);
	CHECK_OK(hm_buffer_resize(buffer, size, HM_GROW_APPEND));
	CHECK(hm_map_address(map) == base);
	CHECK_EQUAL(hm_map_length(map), size);
	CHECK_EQUAL(buffer_info(buffer).segments, 2);
	CHECK(!(buffer_info(buffer).caps & HM_CAP_CONTIGUOUS));
	CHECK(holds(f, base, 0, old, 1));
	CHECK(is_zero(base, old, size));
	put(f, base, 0, size, 2);
	CHECK(holds(f, base, 0, size, 2));
	/* Cut back to the first object it is contiguous again. */
	if (has(f, HM_CAP_RESIZE)) {
		CHECK_OK(hm_buffer_resize(buffer, f->unit, 0));
		CHECK_EQUAL(hm_map_length(map), f->unit);
		CHECK(holds(f, base, 0, 1, 2));
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
	AUTO(hm_map) *map = NULL;
	int fd = -7;

	if (!has(f, HM_CAP_EXPORT) || refuses(f, HM_CAP_APPEND, HM_GROW_APPEND))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, old, MAX_UNITS * f->unit, &map);
	put(f, hm_map_address(map), 0, old, 1);
	CHECK_OK(hm_buffer_resize(buffer, size, HM_GROW_APPEND));
	put(f, hm_map_address(map), old, size, 2);
	CHECK_ERROR(-EXDEV, hm_buffer_export(buffer, 0, &fd));
	CHECK_EQUAL(fd, -7);
	before = stats_now();
	CHECK_OK_FATAL(hm_buffer_export(buffer, HM_EXPORT_COALESCE, &fd));
	CHECK(stats_now().bytes_copied - before.bytes_copied >= size);
	CHECK_EQUAL(buffer_info(buffer).segments, 1);
	CHECK(buffer_info(buffer).caps & HM_CAP_CONTIGUOUS);
	CHECK(holds(f, hm_map_address(map), 0, old, 1));
	CHECK(holds(f, hm_map_address(map), old, size, 2));
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
