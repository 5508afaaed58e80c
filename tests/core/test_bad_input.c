// SPDX-License-Identifier: MIT
/*
 * Bad input to every function of the core: an error code and a sentence,
 * results untouched, nothing changed. Ranges that depend on the kind of buffer
 * are in the conformance suite; launches in test_launch.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hetmap/backend.h>

#include "lib/support.h"

#define SIZE (4 * PAGE)
#define POISON ((void *)0x10)

static struct {
	struct hm_device *host;
	struct hm_device *file;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct hm_stats before;
} it;

static void begin(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE };

	CHECK_OK_FATAL(hm_device_open("host", &it.host));
	CHECK_OK_FATAL(hm_device_open("file", &it.file));
	CHECK_OK_FATAL(hm_buffer_create(it.host, &desc, &it.buffer));
	CHECK_OK_FATAL(hm_map_create(it.buffer, NULL, &it.map));
	pattern_write(hm_map_address(it.map), 0, SIZE, 1);
	it.before = stats_now();
}

/* Whatever was tried, all is as begin() left it. */
static void end(void)
{
	struct hm_stats now = stats_now();
	struct hm_map_info map = map_info(it.map, 0);
	struct hm_buffer_info buffer = buffer_info(it.buffer);

	CHECK_EQUAL(now.devices, it.before.devices);
	CHECK_EQUAL(now.buffers, it.before.buffers);
	CHECK_EQUAL(now.maps, it.before.maps);
	CHECK_EQUAL(now.views, it.before.views);
	CHECK_EQUAL(now.bytes_mapped, it.before.bytes_mapped);
	CHECK_EQUAL(now.bytes_reserved, it.before.bytes_reserved);
	CHECK_EQUAL(now.bytes_locked, it.before.bytes_locked);
	CHECK_EQUAL(buffer.size, SIZE);
	CHECK_EQUAL(buffer.maps, 1);
	CHECK_EQUAL(buffer.exported, 0);
	CHECK_EQUAL(buffer.generation, 0);
	CHECK_EQUAL(map.length, SIZE);
	CHECK_EQUAL(map.runs, 1);
	CHECK_EQUAL(map.brackets, 0);
	CHECK_EQUAL(map.views, 0);
	CHECK(pattern_holds(hm_map_address(it.map), 0, SIZE, 1));
	hm_map_unref(it.map);
	hm_buffer_unref(it.buffer);
	hm_device_unref(it.file);
	hm_device_unref(it.host);
}

/* ---- devices ---- */

static void device_open(void)
{
	static const char *const names[] = {
		"",       ":",   "host:", "nothing", "host:1",
		"file:x", "hos", "hostx", "HOST",    " host",
	};
	char longest[5000];
	struct hm_device *device = POISON;
	size_t i;

	begin();
	memset(longest, 'h', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(names[i], "host:"))
			continue; /* "host" with nothing after the colon: the same device */
		CHECK_ERROR(-ENODEV, hm_device_open(names[i], &device));
	}
	CHECK_ERROR(-ENODEV, hm_device_open("nothing", &device));
	CHECK(strstr(hm_errmsg(), "host") && strstr(hm_errmsg(), "file"));
	CHECK_ERROR(-ENODEV, hm_device_open(longest, &device));
	memcpy(longest, "host:", 5);
	CHECK_ERROR(-ENODEV, hm_device_open(longest, &device));
	CHECK_ERROR(-EINVAL, hm_device_open("host", NULL));
	CHECK(device == POISON);
	end();
}

static void device_query(void)
{
	struct {
		struct hm_device_info info;
		char more[16];
	} large;
	struct hm_device_info info;

	begin();
	memset(&info, 0x5a, sizeof(info));
	info.struct_size = sizeof(info);
	CHECK_ERROR(-EINVAL, hm_device_query(NULL, &info));
	CHECK_ERROR(-EINVAL, hm_device_query((struct hm_device *)it.buffer, &info));
	CHECK_ERROR(-EINVAL, hm_device_query(it.host, NULL));
	CHECK_EQUAL((unsigned char)info.name[0], 0x5a);
	info.struct_size = 0;
	CHECK_ERROR(-EINVAL, hm_device_query(it.host, &info));
	info.struct_size = 7;
	CHECK_ERROR(-EINVAL, hm_device_query(it.host, &info));
	CHECK_EQUAL((unsigned char)info.name[0], 0x5a);
	memset(&large, 0x5a, sizeof(large));
	large.info.struct_size = sizeof(large);
	CHECK_ERROR(-E2BIG, hm_device_query(it.host, &large.info));
	CHECK_EQUAL((unsigned char)large.info.name[0], 0x5a);
	end();
}

static void device_list(void)
{
	struct hm_device_info infos[2];
	uint32_t n = 4711;

	begin();
	memset(infos, 0x5a, sizeof(infos));
	CHECK_ERROR(-EINVAL, hm_device_list(NULL, 1, &n));
	CHECK_ERROR(-EINVAL, hm_device_list(infos, 2, NULL));
	infos[0].struct_size = 0;
	CHECK_ERROR(-EINVAL, hm_device_list(infos, 2, &n));
	infos[0].struct_size = sizeof(infos[0]) + 8;
	CHECK_ERROR(-E2BIG, hm_device_list(infos, 2, &n));
	CHECK_EQUAL(n, 4711);
	CHECK_EQUAL((unsigned char)infos[0].name[0], 0x5a);
	CHECK_OK(hm_device_list(NULL, 0, &n));
	CHECK(n >= 2);
	end();
}

/* ---- buffers ---- */

static void buffer_create(void)
{
	static const struct {
		struct hm_buffer_desc desc;
		int r;
	} rows[] = {
		{ { .size = 0 }, -EINVAL },
		{ { .size = PAGE, .max_size = PAGE - 1 }, -EINVAL },
		{ { .size = UINT64_MAX }, -EINVAL },
		{ { .size = UINT64_MAX - 4095 }, -EINVAL },
		{ { .size = 1, .max_size = UINT64_MAX }, -EINVAL },
		{ { .size = 1ull << 63 }, -EINVAL },
		{ { .size = PAGE, .flags = 1u << 31 }, -EINVAL },
		{ { .size = PAGE, .flags = HM_BUFFER_READ_ONLY }, -EINVAL },
		{ { .size = PAGE, .place = HM_PLACE_SYSTEM + 1 }, -EINVAL },
		{ { .size = PAGE, .place = HM_PLACE_SYSTEM }, -EOPNOTSUPP },
		{ { .size = PAGE, .offset = PAGE }, -EINVAL },
		{ { .size = PAGE, .numa_mode = 77 }, -EINVAL },
		{ { .size = PAGE, .numa_mode = HM_NUMA_BIND }, -EINVAL },
		{ { .size = PAGE, .numa_mode = HM_NUMA_PREFERRED, .numa_nodes = 3 }, -EINVAL },
		{ { .size = PAGE, .numa_mode = HM_NUMA_BIND, .numa_nodes = 1ull << 63 },
		  -EINVAL },
		{ { .size = PAGE, .numa_nodes = 1 }, -EINVAL },
	};
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = PAGE };
	struct hm_buffer *buffer = POISON;
	size_t i;

	begin();
	CHECK_ERROR(-EINVAL, hm_buffer_create(NULL, &desc, &buffer));
	CHECK_ERROR(-EINVAL, hm_buffer_create((struct hm_device *)it.map, &desc, &buffer));
	CHECK_ERROR(-EINVAL, hm_buffer_create(it.host, NULL, &buffer));
	CHECK_ERROR(-EINVAL, hm_buffer_create(it.host, &desc, NULL));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_create(it.file, &desc, &buffer));
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		desc = rows[i].desc;
		desc.struct_size = sizeof(desc);
		CHECK_ERROR(rows[i].r, hm_buffer_create(it.host, &desc, &buffer));
	}
	CHECK(buffer == POISON);
	end();
}

/* An older program's shorter struct is read as far as it goes; a newer's tail must be 0. */
static void struct_sizes(void)
{
	struct {
		struct hm_buffer_desc desc;
		char more[24];
	} large = { .desc = { .size = PAGE } };
	struct hm_buffer *buffer = POISON;

	begin();
	large.desc.struct_size = 0;
	CHECK_ERROR(-EINVAL, hm_buffer_create(it.host, &large.desc, &buffer));
	large.desc.struct_size = 8;
	CHECK_ERROR(-EINVAL, hm_buffer_create(it.host, &large.desc, &buffer));
	large.desc.struct_size = sizeof(large);
	large.more[5] = 1;
	CHECK_ERROR(-E2BIG, hm_buffer_create(it.host, &large.desc, &buffer));
	CHECK(buffer == POISON);
	large.more[5] = 0;
	CHECK_OK_FATAL(hm_buffer_create(it.host, &large.desc, &buffer));
	hm_buffer_unref(buffer);
	large.desc.struct_size = offsetof(struct hm_buffer_desc, numa_mode);
	large.desc.numa_mode = 99; /* beyond this caller's struct */
	CHECK_OK_FATAL(hm_buffer_create(it.host, &large.desc, &buffer));
	hm_buffer_unref(buffer);
	end();
}

static void buffer_from_file(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc) };
	struct hm_buffer *buffer = POISON;
	int fd = scratch_file(SIZE), empty = scratch_file(0), ends[2];

	begin();
	CHECK_FATAL(!pipe2(ends, O_CLOEXEC));
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(NULL, NULL, fd, NULL, &buffer));
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(it.file, NULL, fd, NULL, NULL));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_from_file(it.host, NULL, fd, NULL, &buffer));
	CHECK_ERROR(-EBADF, hm_buffer_from_file(it.file, NULL, -1, NULL, &buffer));
	CHECK(strstr(hm_errmsg(), "neither a path nor a descriptor"));
	CHECK_ERROR(-EBADF, hm_buffer_from_file(it.file, NULL, 19999, NULL, &buffer));
	CHECK_ERROR(-ENOENT, hm_buffer_from_file(it.file, "/nonexistent/x", -1, NULL, &buffer));
	CHECK_ERROR(-ENOENT, hm_buffer_from_file(it.file, "", -1, NULL, &buffer));
	desc.flags = HM_BUFFER_READ_ONLY;
	CHECK_ERROR(-EISDIR, hm_buffer_from_file(it.file, "/", -1, &desc, &buffer));
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(it.file, "/dev/null", -1, &desc, &buffer));
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(it.file, NULL, ends[0], &desc, &buffer));
	desc.flags = 0;
	CHECK_ERROR(-EISDIR, hm_buffer_from_file(it.file, "/", -1, &desc, &buffer));
	CHECK_ERROR(-ENODATA, hm_buffer_from_file(it.file, NULL, empty, NULL, &buffer));
	desc.offset = 1;
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(it.file, NULL, fd, &desc, &buffer));
	desc.offset = SIZE;
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(it.file, NULL, fd, &desc, &buffer));
	desc.offset = UINT64_MAX - 4095;
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(it.file, NULL, fd, &desc, &buffer));
	desc.offset = PAGE;
	desc.size = SIZE;
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(it.file, NULL, fd, &desc, &buffer));
	desc.offset = 0;
	desc.size = SIZE + 1;
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(it.file, NULL, fd, &desc, &buffer));
	desc.size = 0;
	desc.flags = 1u << 20;
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(it.file, NULL, fd, &desc, &buffer));
	CHECK(buffer == POISON);
	close(ends[0]);
	close(ends[1]);
	close(empty);
	close(fd);
	end();
}

static void buffer_import(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
				       .flags = HM_BUFFER_PRIVATE };
	struct hm_buffer *buffer = POISON;
	int fd = scratch_file(SIZE);

	begin();
	CHECK_ERROR(-EINVAL, hm_buffer_import(NULL, fd, NULL, &buffer));
	CHECK_ERROR(-EINVAL, hm_buffer_import(it.host, fd, NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_buffer_import(it.host, fd, NULL, &buffer)); /* no memfd */
	CHECK_ERROR(-EINVAL, hm_buffer_import(it.host, fd, &desc, &buffer));
	desc.flags = 0;
	desc.offset = PAGE;
	CHECK_ERROR(-EINVAL, hm_buffer_import(it.host, fd, &desc, &buffer));
	CHECK(strstr(hm_errmsg(), "offset"));
	CHECK_ERROR(-EBADF, hm_buffer_import(it.host, -1, NULL, &buffer));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_import(it.file, fd, NULL, &buffer));
	CHECK(buffer == POISON);
	close(fd);
	end();
}

static void buffer_others(void)
{
	struct hm_buffer *foreign;
	struct hm_buffer_info info = { .struct_size = sizeof(info), .size = 4711 };
	int fd = -7;

	begin();
	foreign = (struct hm_buffer *)it.map;
	CHECK_ERROR(-EINVAL, hm_buffer_query(NULL, &info));
	CHECK_ERROR(-EINVAL, hm_buffer_query(foreign, &info));
	CHECK_ERROR(-EINVAL, hm_buffer_query(it.buffer, NULL));
	info.struct_size = 4;
	CHECK_ERROR(-EINVAL, hm_buffer_query(it.buffer, &info));
	info.struct_size = sizeof(info) + 4;
	CHECK_ERROR(-E2BIG, hm_buffer_query(it.buffer, &info));
	CHECK_EQUAL(info.size, 4711);
	CHECK_ERROR(-EINVAL, hm_buffer_export(NULL, 0, &fd));
	CHECK_ERROR(-EINVAL, hm_buffer_export(foreign, 0, &fd));
	CHECK_ERROR(-EINVAL, hm_buffer_export(it.buffer, 0, NULL));
	CHECK_ERROR(-EINVAL, hm_buffer_export(it.buffer, 1u << 9, &fd));
	CHECK_EQUAL(fd, -7);
	CHECK_ERROR(-EINVAL, hm_buffer_resize(NULL, SIZE, 0));
	CHECK_ERROR(-EINVAL, hm_buffer_resize(foreign, SIZE, 0));
	CHECK_ERROR(-EINVAL, hm_buffer_resize(it.buffer, 0, 0));
	CHECK_ERROR(-EINVAL, hm_buffer_resize(it.buffer, SIZE, 1u << 9));
	CHECK_ERROR(-EINVAL,
		    hm_buffer_resize(it.buffer, 2 * SIZE, HM_GROW_APPEND | HM_GROW_REPLACE));
	CHECK_ERROR(-EINVAL, hm_buffer_resize(it.buffer, UINT64_MAX, 0));
	CHECK_ERROR(-EINVAL, hm_buffer_resize(it.buffer, UINT64_MAX, HM_MAY_MOVE));
	CHECK_ERROR(-EINVAL, hm_buffer_resize(it.buffer, UINT64_MAX, HM_GROW_REPLACE));
	CHECK_ERROR(-EINVAL, hm_buffer_resize(it.buffer, UINT64_MAX, HM_GROW_APPEND));
	CHECK_ERROR(-ENOSPC, hm_buffer_resize(it.buffer, 2 * SIZE, 0));
	end();
}

/* ---- maps ---- */

static void map_create(void)
{
	static const struct {
		struct hm_map_desc desc;
		int r;
	} rows[] = {
		{ { .flags = 1u << 30, .access = HM_READ }, -EINVAL },
		{ { .access = HM_WRITE }, -EINVAL },
		{ { .flags = HM_MAP_POPULATE, .access = HM_NONE }, -EINVAL },
		{ { .access = 1u << 5 }, -EINVAL },
		{ { .access = HM_READ, .reserved = 1 }, -EINVAL },
		{ { .access = HM_READ, .offset = 1 }, -EINVAL },
		{ { .access = HM_READ, .offset = SIZE, .length = PAGE }, -ERANGE },
		{ { .access = HM_READ, .offset = PAGE, .length = SIZE }, -ERANGE },
		{ { .access = HM_READ, .length = UINT64_MAX }, -ERANGE },
	};
	struct hm_map_desc desc;
	struct hm_map *map = POISON;
	size_t i;

	begin();
	CHECK_ERROR(-EINVAL, hm_map_create(NULL, NULL, &map));
	CHECK_ERROR(-EINVAL, hm_map_create((struct hm_buffer *)it.host, NULL, &map));
	CHECK_ERROR(-EINVAL, hm_map_create(it.buffer, NULL, NULL));
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		desc = rows[i].desc;
		desc.struct_size = sizeof(desc);
		CHECK_ERROR(rows[i].r, hm_map_create(it.buffer, &desc, &map));
	}
	desc = (struct hm_map_desc){ .struct_size = 3, .access = HM_READ };
	CHECK_ERROR(-EINVAL, hm_map_create(it.buffer, &desc, &map));
	CHECK(map == POISON);
	CHECK(!hm_map_address(NULL));
	CHECK_EQUAL(hm_map_length(NULL), 0);
	end();
}

/* Every range function, with a map that is none. */
static void check_ranges_of(struct hm_map *map)
{
	uint64_t locked = 4711;

	CHECK_ERROR(-EINVAL, hm_map_protect(map, 0, PAGE, HM_READ));
	CHECK_ERROR(-EINVAL, hm_map_lock(map, 0, PAGE, 0, &locked));
	CHECK_ERROR(-EINVAL, hm_map_unlock(map, 0, PAGE));
	CHECK_ERROR(-EINVAL, hm_map_advise(map, 0, PAGE, HM_ADVICE_NORMAL));
	CHECK_ERROR(-EINVAL, hm_map_prefetch(map, 0, PAGE, HM_READ));
	CHECK_ERROR(-EINVAL, hm_map_begin_cpu(map, 0, PAGE, HM_READ));
	CHECK_ERROR(-EINVAL, hm_map_end_cpu(map, 0, PAGE, HM_READ));
	CHECK_ERROR(-EINVAL, hm_map_sync(map, 0, PAGE, 0));
	CHECK_EQUAL(locked, 4711);
}

static void map_objects(void)
{
	struct hm_map_info info = { .struct_size = sizeof(info), .length = 4711 };

	begin();
	check_ranges_of(NULL);
	check_ranges_of((struct hm_map *)it.buffer);
	CHECK_ERROR(-EINVAL, hm_map_query(NULL, &info));
	CHECK_ERROR(-EINVAL, hm_map_query((struct hm_map *)it.host, &info));
	CHECK_ERROR(-EINVAL, hm_map_query(it.map, NULL));
	info.fields = 1u << 14;
	CHECK_ERROR(-EINVAL, hm_map_query(it.map, &info));
	info.fields = 0;
	info.struct_size = 8;
	CHECK_ERROR(-EINVAL, hm_map_query(it.map, &info));
	info.struct_size = sizeof(info) + 1;
	CHECK_ERROR(-E2BIG, hm_map_query(it.map, &info));
	CHECK_EQUAL(info.length, 4711);
	end();
}

/* Ranges that no map has: the same answer from every function. */
static void map_ranges(void)
{
	static const struct {
		uint64_t offset, length;
		int r;
	} rows[] = {
		{ 0, 0, -EINVAL },
		{ SIZE, 0, -EINVAL },
		{ 0, SIZE + PAGE, -ERANGE },
		{ PAGE, SIZE, -ERANGE },
		{ SIZE, PAGE, -ERANGE },
		{ 0, UINT64_MAX, -ERANGE },
		{ UINT64_MAX, UINT64_MAX, -ERANGE },
		{ UINT64_MAX - 4095, PAGE, -ERANGE },
		{ PAGE, UINT64_MAX - 4095, -ERANGE },
	};
	size_t i;

	begin();
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t offset = rows[i].offset, length = rows[i].length;
		int r = rows[i].r;

		CHECK_ERROR(r, hm_map_protect(it.map, offset, length, HM_READ));
		CHECK_ERROR(r, hm_map_lock(it.map, offset, length, 0, NULL));
		CHECK_ERROR(r, hm_map_unlock(it.map, offset, length));
		CHECK_ERROR(r, hm_map_advise(it.map, offset, length, HM_ADVICE_NORMAL));
		CHECK_ERROR(r, hm_map_prefetch(it.map, offset, length, HM_READ));
		CHECK_ERROR(r, hm_map_begin_cpu(it.map, offset, length, HM_READ));
		CHECK_ERROR(r, hm_map_end_cpu(it.map, offset, length, HM_READ));
		CHECK_ERROR(r, hm_map_sync(it.map, offset, length, 0));
	}
	end();
}

/* Where pages change, a range is made of pages. */
static void map_alignment(void)
{
	static const struct {
		uint64_t offset, length;
	} rows[] = { { 1, PAGE }, { 0, PAGE - 1 }, { PAGE, 1 }, { PAGE + 8, PAGE } };
	size_t i;

	begin();
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t offset = rows[i].offset, length = rows[i].length;

		CHECK_ERROR(-EINVAL, hm_map_protect(it.map, offset, length, HM_READ));
		CHECK_ERROR(-EINVAL, hm_map_lock(it.map, offset, length, 0, NULL));
		CHECK_ERROR(-EINVAL, hm_map_unlock(it.map, offset, length));
		CHECK_ERROR(-EINVAL, hm_map_advise(it.map, offset, length, HM_ADVICE_COLD));
		CHECK_ERROR(-EINVAL, hm_map_prefetch(it.map, offset, length, HM_READ));
		CHECK_ERROR(-EINVAL, hm_map_sync(it.map, offset, length, 0));
	}
	end();
}

static void map_flags(void)
{
	uint64_t locked = 4711;

	begin();
	CHECK_ERROR(-EINVAL, hm_map_protect(it.map, 0, PAGE, HM_WRITE));
	CHECK_ERROR(-EINVAL, hm_map_protect(it.map, 0, PAGE, 8));
	CHECK_ERROR(-EINVAL, hm_map_lock(it.map, 0, PAGE, 1u << 6, &locked));
	CHECK_ERROR(-EINVAL, hm_map_advise(it.map, 0, PAGE, 1000));
	CHECK_ERROR(-EINVAL, hm_map_prefetch(it.map, 0, PAGE, 0));
	CHECK_ERROR(-EINVAL, hm_map_prefetch(it.map, 0, PAGE, 1u << 4));
	CHECK_ERROR(-EINVAL, hm_map_begin_cpu(it.map, 0, PAGE, 0));
	CHECK_ERROR(-EINVAL, hm_map_begin_cpu(it.map, 0, PAGE, 1u << 4));
	CHECK_ERROR(-EINVAL, hm_map_end_cpu(it.map, 0, PAGE, HM_READ));
	CHECK_ERROR(-EINVAL, hm_map_sync(it.map, 0, PAGE, 2));
	CHECK_EQUAL(locked, 4711);
	end();
}

/* ---- views, pointers, counters, the short API ---- */

static void view_create(void)
{
	struct {
		struct hm_view_ops ops;
		char more[16];
	} large = { .ops = { .struct_size = sizeof(large) }, .more = { 1 } };
	struct hm_view_ops ops = { .struct_size = sizeof(ops) };
	struct hm_view *view = POISON;

	begin();
	CHECK_ERROR(-EINVAL, hm_view_create(NULL, 0, 0, &ops, NULL, &view));
	CHECK_ERROR(-EINVAL,
		    hm_view_create((struct hm_map *)it.buffer, 0, 0, &ops, NULL, &view));
	CHECK_ERROR(-EINVAL, hm_view_create(it.map, 0, 0, NULL, NULL, &view));
	CHECK_ERROR(-EINVAL, hm_view_create(it.map, 0, 0, &ops, NULL, NULL));
	CHECK_ERROR(-ERANGE, hm_view_create(it.map, 1, SIZE, &ops, NULL, &view));
	CHECK_ERROR(-ERANGE, hm_view_create(it.map, SIZE + 1, 1, &ops, NULL, &view));
	CHECK_ERROR(-ERANGE, hm_view_create(it.map, 1, UINT64_MAX, &ops, NULL, &view));
	CHECK_ERROR(-ERANGE, hm_view_create(it.map, SIZE, 0, &ops, NULL, &view));
	ops.struct_size = 2;
	CHECK_ERROR(-EINVAL, hm_view_create(it.map, 0, 0, &ops, NULL, &view));
	CHECK_ERROR(-E2BIG, hm_view_create(it.map, 0, 0, &large.ops, NULL, &view));
	CHECK(view == POISON);
	end();
}

static void pointers(void)
{
	struct hm_pointer_detail detail = { .struct_size = sizeof(detail) };
	struct hm_pointer_info info;
	const char *const nowhere[] = {
		NULL, (char *)1, (char *)UINTPTR_MAX, (char *)0x800000000000, (char *)&detail,
	};
	size_t i;

	begin();
	memset(&info, 0x5a, sizeof(info));
	for (i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		CHECK_EQUAL(hm_pointer_find(nowhere[i], &info), -ENOENT);
		CHECK_ERROR(-ENOENT, hm_pointer_query(nowhere[i], &detail));
	}
	CHECK_EQUAL(hm_pointer_find((char *)hm_map_address(it.map) + SIZE, &info), -ENOENT);
	CHECK_EQUAL(hm_pointer_find((char *)hm_map_address(it.map) - 1, &info), -ENOENT);
	CHECK_EQUAL(info.length, 0x5a5a5a5a5a5a5a5a);
	CHECK_EQUAL(hm_pointer_find(hm_map_address(it.map), NULL), -EINVAL);
	CHECK_ERROR(-EINVAL, hm_pointer_query(hm_map_address(it.map), NULL));
	detail.fields = 1u << 17;
	CHECK_ERROR(-EINVAL, hm_pointer_query(hm_map_address(it.map), &detail));
	detail.fields = 0;
	detail.struct_size = 9;
	CHECK_ERROR(-EINVAL, hm_pointer_query(hm_map_address(it.map), &detail));
	detail.struct_size = sizeof(detail) + 8;
	CHECK_ERROR(-E2BIG, hm_pointer_query(hm_map_address(it.map), &detail));
	CHECK(!detail.info.map);
	end();
}

static void counters(void)
{
	struct hm_stats now = { .struct_size = 5, .maps = 4711 };

	begin();
	CHECK_ERROR(-EINVAL, hm_stats_get(NULL));
	CHECK_ERROR(-EINVAL, hm_stats_get(&now));
	now.struct_size = sizeof(now) + 8;
	CHECK_ERROR(-E2BIG, hm_stats_get(&now));
	CHECK_EQUAL(now.maps, 4711);
	end();
}

static void allocations(void)
{
	char *pointer = POISON, *allocation, local;

	begin();
	CHECK_ERROR(-EINVAL, hm_alloc(NULL, PAGE, HM_READ | HM_WRITE, &pointer));
	CHECK_ERROR(-EINVAL, hm_alloc((struct hm_device *)it.map, PAGE, HM_READ, &pointer));
	CHECK_ERROR(-EINVAL, hm_alloc(it.host, 0, HM_READ | HM_WRITE, &pointer));
	CHECK_ERROR(-EINVAL, hm_alloc(it.host, UINT64_MAX, HM_READ | HM_WRITE, &pointer));
	CHECK_ERROR(-EINVAL, hm_alloc(it.host, UINT64_MAX / 16 + 1, 1u << 8, &pointer));
	CHECK_ERROR(-EINVAL, hm_alloc(it.host, PAGE, HM_WRITE, &pointer));
	CHECK_ERROR(-EINVAL, hm_alloc(it.host, PAGE, HM_NONE, &pointer));
	CHECK_ERROR(-EINVAL, hm_alloc(it.host, PAGE, HM_READ, NULL));
	CHECK_ERROR(-EOPNOTSUPP, hm_alloc(it.file, PAGE, HM_READ | HM_WRITE, &pointer));
	CHECK_OK_FATAL(hm_alloc(it.host, SIZE, HM_READ | HM_WRITE, &allocation));
	CHECK_ERROR(-EINVAL, hm_realloc(NULL, PAGE, 0, &pointer));
	CHECK_ERROR(-EINVAL, hm_realloc(&local, PAGE, 0, &pointer));
	CHECK_ERROR(-EINVAL, hm_realloc(allocation, 0, 0, &pointer));
	CHECK_ERROR(-EINVAL, hm_realloc(allocation, UINT64_MAX, 0, &pointer));
	CHECK_ERROR(-EINVAL, hm_realloc(allocation, PAGE, 1u << 12, &pointer));
	CHECK_ERROR(-EINVAL, hm_realloc(allocation + 1, PAGE, 0, &pointer));
	CHECK_ERROR(-EINVAL, hm_free(&local));
	CHECK_ERROR(-EINVAL, hm_free(allocation + PAGE));
	CHECK_OK(hm_free(NULL));
	CHECK(pointer == POISON);
	CHECK_OK(hm_free(allocation));
	end();
}

/* A map that was not made by hm_alloc is not hm_free's to take. */
static void foreign_maps(void)
{
	begin();
	CHECK_ERROR(-EINVAL, hm_free(hm_map_address(it.map)));
	CHECK_ERROR(-EINVAL, hm_realloc(hm_map_address(it.map), PAGE, 0, NULL));
	end();
}

static void backends(void)
{
	struct hm_backend_ops ops = { .size = sizeof(ops), .name = "wrong" };

	begin();
	CHECK_ERROR(-EINVAL, hm_backend_register(NULL));
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	ops.size = 3;
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	end();
}

static const struct test tests[] = {
	{ "device_open", device_open, 0, 0 },
	{ "device_query", device_query, 0, 0 },
	{ "device_list", device_list, 0, 0 },
	{ "buffer_create", buffer_create, 0, 0 },
	{ "struct_sizes", struct_sizes, 0, 0 },
	{ "buffer_from_file", buffer_from_file, 0, 0 },
	{ "buffer_import", buffer_import, 0, 0 },
	{ "buffer_others", buffer_others, 0, 0 },
	{ "map_create", map_create, 0, 0 },
	{ "map_objects", map_objects, 0, 0 },
	{ "map_ranges", map_ranges, 0, 0 },
	{ "map_alignment", map_alignment, 0, 0 },
	{ "map_flags", map_flags, 0, 0 },
	{ "view_create", view_create, 0, 0 },
	{ "pointers", pointers, 0, 0 },
	{ "counters", counters, 0, 0 },
	{ "allocations", allocations, 0, 0 },
	{ "foreign_maps", foreign_maps, 0, 0 },
	{ "backends", backends, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "bad_input", tests)
