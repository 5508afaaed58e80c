// SPDX-License-Identifier: MIT
/* Conformance: maps of all or part of a buffer, rights by range, guard pages. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "core/conformance.h"

static int map_part(struct hm_buffer *buffer, uint64_t offset, uint64_t length, uint32_t access,
		    struct hm_map **ret_map)
{
	return hm_map_create(
		buffer, DESC(hm_map_desc, .access = access, .offset = offset, .length = length),
		ret_map);
}

static uint32_t most_access(const struct fixture *f)
{
	return f->writable ? HM_READ | HM_WRITE : HM_READ;
}

static void touch(struct fixture *f)
{
	uint64_t size = 5 * f->unit + 123;
	struct hm_map *map;
	AUTO(hm_buffer) *buffer = fixture_make(f, size, MAX_UNITS * f->unit, &map);
	struct hm_map_info info = map_info(map, 0);
	struct hm_pointer_info found;
	char *base = hm_map_address(map);

	CHECK_EQUAL(hm_map_length(map), size);
	CHECK_EQUAL((uintptr_t)base % f->unit, 0);
	CHECK(is_zero(base, 0, size));
	put(f, base, 0, size, 1);
	CHECK(holds(f, base, 0, size, 1));
	CHECK(info.address == base);
	CHECK_EQUAL(info.length, size);
	CHECK_EQUAL(info.offset, 0);
	CHECK_EQUAL(info.page_size, f->unit);
	CHECK_EQUAL(info.access, most_access(f));
	CHECK_EQUAL(info.runs, 1);
	/* RAM is write-back, whatever it is asked for; devices have their own memory. */
	CHECK(info.cache == HM_CACHE_WRITE_BACK || f->info.backing == HM_BACKING_DEVICE);
	CHECK_EQUAL(info.whole, 1);
	CHECK(info.reserved_length >= MAX_UNITS * f->unit);
	CHECK_EQUAL(hm_pointer_find(base + size - 1, &found), 0);
	CHECK(found.map == map && found.buffer == buffer && found.device == f->device);
	CHECK_EQUAL(found.map_offset, size - 1);
	CHECK_EQUAL(found.buffer_offset, size - 1);
	CHECK(found.base == base);
	CHECK_EQUAL(found.length, size);
	CHECK_EQUAL(found.access, most_access(f));
	CHECK_EQUAL(found.cache, info.cache);
	CHECK_EQUAL(hm_pointer_find(base + size, &found), -ENOENT);
	hm_map_unref(map);
	CHECK_EQUAL(hm_pointer_find(base, &found), -ENOENT);
}

static void one_byte(struct fixture *f)
{
	AUTO(rig) r = fixture_rig(f, 1, 0);
	struct hm_pointer_info found;

	put(f, hm_map_address(r.map), 0, 1, 1);
	CHECK(holds(f, hm_map_address(r.map), 0, 1, 1));
	CHECK_EQUAL(hm_map_length(r.map), 1);
	CHECK_EQUAL(hm_pointer_find((char *)hm_map_address(r.map) + 1, &found), -ENOENT);
}

static void second_map(struct fixture *f)
{
	struct hm_map *first, *second = NULL;
	AUTO(hm_buffer) *buffer = fixture_make(f, UNITS * f->unit, 0, &first);

	if (!has(f, HM_CAP_MULTI_MAP)) {
		CHECK_ERROR(-EBUSY, hm_map_create(buffer, NULL, &second));
		CHECK(!second);
	} else {
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, &second));
		CHECK(hm_map_address(first) != hm_map_address(second));
		put(f, hm_map_address(first), 0, UNITS * f->unit, 5);
		CHECK(holds(f, hm_map_address(second), 0, UNITS * f->unit, 5));
		put(f, hm_map_address(second), 0, UNITS * f->unit, 6);
		CHECK(holds(f, hm_map_address(first), 0, UNITS * f->unit, 6));
		CHECK_EQUAL(buffer_info(buffer).maps, 2);
		hm_map_unref(second);
	}
	CHECK_EQUAL(buffer_info(buffer).maps, 1);
	hm_map_unref(first);
	/* Gone, the first leaves room for another. */
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &first));
	hm_map_unref(first);
}

static void many_maps(struct fixture *f)
{
	struct hm_map *maps[50];
	AUTO(hm_buffer) *buffer = fixture_make(f, UNITS * f->unit, 0, NULL);
	unsigned int i, n = has(f, HM_CAP_MULTI_MAP) ? 50 : 1;

	for (i = 0; i < n; i++)
		CHECK_OK_FATAL(
			map_part(buffer, i % UNITS * f->unit, f->unit, HM_READ, &maps[i]));
	CHECK_EQUAL(buffer_info(buffer).maps, n);
	for (i = 0; i < n; i++)
		CHECK(is_zero(hm_map_address(maps[i]), 0, f->unit));
	for (i = 0; i < n; i++)
		hm_map_unref(maps[i * 7 % n]);
	CHECK_EQUAL(buffer_info(buffer).maps, 0);
}

static void part(struct fixture *f)
{
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = fixture_make(f, UNITS * f->unit, 0, NULL);
	uint64_t length = 2 * f->unit + 17;
	struct hm_pointer_info found;
	char *base;

	CHECK_OK_FATAL(map_part(buffer, 3 * f->unit, length, most_access(f), &map));
	base = hm_map_address(map);
	CHECK_EQUAL(hm_map_length(map), length);
	CHECK_EQUAL(map_info(map, 0).offset, 3 * f->unit);
	CHECK_EQUAL(map_info(map, 0).whole, 0);
	put(f, base, 0, length, 2);
	CHECK(holds(f, base, 0, length, 2));
	CHECK_EQUAL(hm_pointer_find(base + 1, &found), 0);
	CHECK_EQUAL(found.map_offset, 1);
	CHECK_EQUAL(found.buffer_offset, 3 * f->unit + 1);
	if (has(f, HM_CAP_MULTI_MAP)) {
		AUTO(hm_map) *whole = rig_map(buffer, NULL);
		CHECK(holds(f, (char *)hm_map_address(whole) + 3 * f->unit, 0, length, 2));
		CHECK(is_zero(hm_map_address(whole), 0, 3 * f->unit));
	}
}

static void part_rules(struct fixture *f)
{
	uint64_t size = 4 * f->unit;
	const struct {
		uint64_t offset, length;
		int r;
	} rows[] = {
		{ 0, size, 0 },
		{ f->unit, 1, 0 },
		{ 3 * f->unit, f->unit, 0 },
		{ 1, f->unit, -EINVAL },
		{ f->unit / 2, f->unit, -EINVAL },
		{ 0, size + 1, -ERANGE },
		{ f->unit, size, -ERANGE },
		{ size, 1, -ERANGE },
		{ f->unit, UINT64_MAX - f->unit + 1, -ERANGE },
		{ UINT64_MAX - f->unit + 1, f->unit, -ERANGE },
	};
	struct hm_map *map, *poison = (void *)16;
	AUTO(hm_buffer) *buffer = fixture_make(f, size, 0, NULL);
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		map = poison;
		if (rows[i].r) {
			CHECK_ERROR(rows[i].r, map_part(buffer, rows[i].offset, rows[i].length,
							HM_READ, &map));
			CHECK(map == poison);
			continue;
		}
		CHECK_OK_FATAL(map_part(buffer, rows[i].offset, rows[i].length, HM_READ, &map));
		CHECK_EQUAL(hm_map_length(map), rows[i].length);
		hm_map_unref(map);
	}
	CHECK_EQUAL(buffer_info(buffer).maps, 0);
}

/* ---- rights ---- */

static int kills(const void *address, uint32_t access)
{
	if (access == HM_READ)
		return test_read_signal(address);
	return test_write_signal((void *)(uintptr_t)address);
}

static void access_of_map(struct fixture *f)
{
	AUTO(hm_buffer) *buffer = fixture_make(f, f->unit, 0, NULL);
	struct hm_map *map = NULL;

	CHECK_OK_FATAL(map_part(buffer, 0, 0, HM_READ, &map));
	CHECK_EQUAL(kills(hm_map_address(map), HM_READ), 0);
	CHECK_EQUAL(kills(hm_map_address(map), HM_WRITE), SIGSEGV);
	hm_map_unref(map);
	CHECK_OK_FATAL(map_part(buffer, 0, 0, HM_NONE, &map));
	CHECK_EQUAL(map_info(map, 0).access, HM_NONE);
	CHECK_EQUAL(kills(hm_map_address(map), HM_READ), SIGSEGV);
	hm_map_unref(map);
	map = NULL;
	if (f->writable) {
		CHECK_OK_FATAL(map_part(buffer, 0, 0, HM_READ | HM_WRITE, &map));
		CHECK_EQUAL(kills(hm_map_address(map), HM_WRITE), 0);
		hm_map_unref(map);
	} else {
		CHECK_ERROR(-EACCES, map_part(buffer, 0, 0, HM_READ | HM_WRITE, &map));
		CHECK(!map);
	}
}

static uint32_t access_at(const char *address)
{
	struct hm_pointer_info info = { 0 };

	CHECK_EQUAL(hm_pointer_find(address, &info), 0);
	return info.access;
}

/* A change of rights cuts the kernel's mapping: each byte stays where it is. */
static void cut(struct fixture *f)
{
	uint64_t size = MAX_UNITS * f->unit;
	uint64_t at;

	if (!has(f, HM_CAP_PROTECT) || !has(f, HM_CAP_MULTI_MAP))
		return;
	AUTO(rig) r = fixture_rig(f, size, 2 * size);
	put(f, hm_map_address(r.map), 0, size, 1);
	/* No page of the map has been touched when it is cut. */
	AUTO(hm_map) *fresh = rig_map(r.buffer, NULL);
	for (at = 0; at < MAX_UNITS; at += 4)
		CHECK_OK(hm_map_protect(fresh, at * f->unit, f->unit, HM_NONE));
	CHECK_OK(hm_map_protect(fresh, 0, size, HM_READ));
	CHECK(holds(f, hm_map_address(fresh), 0, size, 1));
	hm_map_unref(fresh);
	CHECK_OK_FATAL(map_part(r.buffer, 5 * f->unit, 9 * f->unit, HM_READ, &fresh));
	CHECK_OK(hm_map_protect(fresh, 2 * f->unit, f->unit, HM_NONE));
	CHECK_OK(hm_map_protect(fresh, 2 * f->unit, f->unit, HM_READ));
	put(f, (char *)hm_map_address(r.map) + 5 * f->unit, 0, 9 * f->unit, 2);
	CHECK(holds(f, hm_map_address(fresh), 0, 9 * f->unit, 2));
}

static void protect(struct fixture *f)
{
	struct hm_map *map;
	struct hm_buffer *buffer = fixture_make(f, 4 * f->unit, 0, &map);
	char *base = hm_map_address(map);
	uint64_t unit = f->unit;

	if (!has(f, HM_CAP_PROTECT)) {
		CHECK_ERROR(-EOPNOTSUPP, hm_map_protect(map, 0, unit, HM_NONE));
		goto out;
	}
	put(f, base, 0, 4 * unit, 1);
	CHECK_OK(hm_map_protect(map, unit, unit, HM_NONE));
	CHECK_OK(hm_map_protect(map, 2 * unit, unit, HM_READ));
	CHECK_EQUAL(map_info(map, 0).runs, f->writable ? 4 : 3);
	CHECK_EQUAL(access_at(base), most_access(f));
	CHECK_EQUAL(access_at(base + unit), HM_NONE);
	CHECK_EQUAL(access_at(base + 2 * unit - 1), HM_NONE);
	CHECK_EQUAL(access_at(base + 2 * unit), HM_READ);
	CHECK_EQUAL(access_at(base + 3 * unit), most_access(f));
	CHECK_EQUAL(kills(base + unit - 1, HM_READ), 0);
	CHECK_EQUAL(kills(base + unit, HM_READ), SIGSEGV);
	CHECK_EQUAL(kills(base + 2 * unit - 1, HM_WRITE), SIGSEGV);
	CHECK_EQUAL(kills(base + 2 * unit, HM_READ), 0);
	CHECK_EQUAL(kills(base + 2 * unit, HM_WRITE), SIGSEGV);
	CHECK_OK(hm_map_protect(map, 0, 4 * unit, most_access(f)));
	CHECK_EQUAL(map_info(map, 0).runs, 1);
	CHECK(holds(f, base, 0, 4 * unit, 1));
out:
	hm_map_unref(map);
	hm_buffer_unref(buffer);
}

static void protect_rules(struct fixture *f)
{
	uint64_t unit = f->unit, size = 3 * unit + 100;
	const struct {
		uint64_t offset, length;
		uint32_t access;
		int r;
	} rows[] = {
		{ 3 * unit, 100, HM_READ, 0 }, /* up to the map's end */
		{ 3 * unit, unit, HM_READ, -ERANGE },
		{ 0, 0, HM_READ, -EINVAL },
		{ 1, unit, HM_READ, -EINVAL },
		{ 0, unit + 1, HM_READ, -EINVAL },
		{ 0, size + 1, HM_READ, -ERANGE },
		{ 4 * unit, unit, HM_READ, -ERANGE },
		{ unit, UINT64_MAX - unit + 1, HM_READ, -ERANGE },
		{ 0, unit, HM_WRITE, -EINVAL },
		{ 0, unit, 1u << 7, -EINVAL },
		{ 0, unit, HM_READ | HM_WRITE, f->writable ? 0 : -EACCES },
	};
	AUTO(rig) rig = fixture_rig(f, size, 0);
	size_t i;

	for (i = 0; has(f, HM_CAP_PROTECT) && i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].r)
			CHECK_ERROR(rows[i].r, hm_map_protect(rig.map, rows[i].offset,
							      rows[i].length, rows[i].access));
		else
			CHECK_OK(hm_map_protect(rig.map, rows[i].offset, rows[i].length,
						rows[i].access));
}

/* ---- guard pages ---- */

static void check_guards(struct fixture *f, struct hm_map *map)
{
	char *base = hm_map_address(map);
	uint64_t end = (hm_map_length(map) + f->unit - 1) / f->unit * f->unit;

	CHECK_EQUAL(kills(base, HM_READ), 0);
	CHECK_EQUAL(kills(base - 1, HM_READ), SIGSEGV);
	CHECK_EQUAL(kills(base + end - 1, HM_READ), 0);
	CHECK_EQUAL(kills(base + end, HM_READ), SIGSEGV);
}

static void guards(struct fixture *f)
{
	struct hm_map_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_MAP_GUARD,
		.access = most_access(f),
	};
	AUTO(hm_buffer) *buffer = fixture_make(f, 4 * f->unit, 6 * f->unit, NULL);
	AUTO(hm_map) *map = rig_map(buffer, &desc);

	check_guards(f, map);
	if (has(f, HM_CAP_RESIZE)) {
		CHECK_OK(hm_buffer_resize(buffer, 6 * f->unit, 0));
		check_guards(f, map);
		CHECK_OK(hm_buffer_resize(buffer, f->unit, 0));
		check_guards(f, map);
	}
}

static void unknown_map_flags(struct fixture *f)
{
	AUTO(hm_buffer) *buffer = fixture_make(f, f->unit, 0, NULL);
	struct hm_map_desc desc = { .struct_size = sizeof(desc), .access = HM_READ };
	struct hm_map *poison = (void *)16, *map = poison;

	desc.flags = 1u << 20;
	CHECK_ERROR(-EINVAL, hm_map_create(buffer, &desc, &map));
	desc.flags = 0;
	desc.access = HM_WRITE;
	CHECK_ERROR(-EINVAL, hm_map_create(buffer, &desc, &map));
	desc.access = 1u << 9;
	CHECK_ERROR(-EINVAL, hm_map_create(buffer, &desc, &map));
	CHECK(map == poison);
}

const struct conformance_case conformance_maps[] = {
	{ "touch", touch },
	{ "one_byte", one_byte },
	{ "second_map", second_map },
	{ "many_maps", many_maps },
	{ "part", part },
	{ "part_rules", part_rules },
	{ "access_of_map", access_of_map },
	{ "protect", protect },
	{ "cut", cut },
	{ "protect_rules", protect_rules },
	{ "guards", guards },
	{ "unknown_map_flags", unknown_map_flags },
	{ NULL, NULL },
};
