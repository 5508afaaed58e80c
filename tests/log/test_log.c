// SPDX-License-Identifier: MIT
/*
 * Logs in maps, by libpmem2: over files whose pages last, and on each device of
 * HETMAP_TEST_DEVICES whose bytes last. test_log_replay has the power failures.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hetmap/log.h>

#include "base/sys.h"
#include "lib/support.h"

#ifdef HAVE_TIER

#define SIZE (1u << 20)

/* libpmem2 1.12 keeps 144 bytes of each mapping that it was told of. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:libpmem2.so";
}

static char folder[64], path[96];

static void files_begin(const char *parent)
{
	int fd;

	snprintf(folder, sizeof(folder), "%s/hm.XXXXXX", parent);
	if (!mkdtemp(folder))
		test_abandon();
	snprintf(path, sizeof(path), "%s/log", folder);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, SIZE))
		test_abandon();
	close(fd);
}

static void files_end(void)
{
	CHECK_EQUAL(unlink(path), 0);
	CHECK_EQUAL(rmdir(folder), 0);
}

static struct hm_map *map_file(uint32_t flags)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .flags = flags };
	char name[80];

	snprintf(name, sizeof(name), "pmem:%s", folder);
	AUTO(hm_device) *device = rig_device(name);
	AUTO(hm_buffer) *buffer = rig_file(device, path, -1, &desc);
	return rig_map(buffer, NULL);
}

static struct hm_log *open_log(uint32_t flags)
{
	AUTO(hm_map) *map = map_file(0);
	struct hm_log *log = NULL;

	CHECK_OK_FATAL(hm_log_open(map, flags, &log));
	return log;
}

static struct hm_log_info info_of(struct hm_log *log)
{
	struct hm_log_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_log_query(log, &info));
	return info;
}

static uint64_t length_of(uint64_t i)
{
	return 1 + i * 73 % 900;
}

static void fill(unsigned char *bytes, uint64_t i)
{
	uint64_t at;

	for (at = 0; at < length_of(i); at++)
		bytes[at] = (unsigned char)(i * 31 + at);
}

static void append(struct hm_log *log, uint64_t i)
{
	unsigned char bytes[1024];
	uint64_t number = 0;

	fill(bytes, i);
	CHECK_OK(hm_log_append(log, bytes, length_of(i), &number));
	CHECK_EQUAL(number, i);
}

static void check_records(struct hm_log *log, uint64_t n)
{
	unsigned char right[1024];
	uint64_t position = 0, length, i = 0;
	const void *bytes;

	while (!hm_log_next(log, &position, &bytes, &length)) {
		fill(right, ++i);
		if (length != length_of(i) || memcmp(bytes, right, length) != 0)
			test_fail(__FILE__, __LINE__, "record %llu is another one",
				  (unsigned long long)i);
	}
	CHECK_EQUAL(i, n);
	CHECK_ERROR(-ENOENT, hm_log_next(log, &position, &bytes, &length));
}

static void test_records(void)
{
	struct hm_log *log;
	uint64_t i, used;

	files_begin("/var/tmp");
	log = open_log(HM_LOG_CREATE);
	check_records(log, 0);
	for (i = 1; i <= 300; i++)
		append(log, i);
	check_records(log, 300);
	CHECK_EQUAL(info_of(log).persist, HM_PERSIST_PAGE);
	CHECK_EQUAL(info_of(log).n_record, 300);
	used = info_of(log).used;
	hm_log_close(log);
	/* The same log: HM_LOG_CREATE makes none where one is. */
	log = open_log(HM_LOG_CREATE);
	check_records(log, 300);
	CHECK_EQUAL(info_of(log).used, used);
	append(log, 301);
	hm_log_close(log);
	log = open_log(0);
	check_records(log, 301);
	CHECK_OK(hm_log_clear(log));
	check_records(log, 0);
	append(log, 1);
	hm_log_close(log);
	log = open_log(0);
	check_records(log, 1);
	hm_log_close(log);
	log = open_log(HM_LOG_FORMAT);
	check_records(log, 0);
	hm_log_close(log);
	files_end();
}

static void test_root(void)
{
	unsigned char root[HM_LOG_ROOT_MAX + 1], got[HM_LOG_ROOT_MAX];
	struct hm_log *log;
	uint32_t i, length = 7;

	files_begin("/var/tmp");
	log = open_log(HM_LOG_CREATE);
	CHECK_OK(hm_log_root_get(log, got, sizeof(got), &length));
	CHECK_EQUAL(length, 0);
	for (i = 1; i <= HM_LOG_ROOT_MAX; i += 37) {
		memset(root, (int)i, sizeof(root));
		CHECK_OK(hm_log_root_set(log, root, i));
		if (i & 2) {
			hm_log_close(log);
			log = open_log(0);
		}
		CHECK_OK(hm_log_root_get(log, got, sizeof(got), &length));
		CHECK(length == i && !memcmp(got, root, i));
	}
	CHECK_ERROR(-EINVAL, hm_log_root_set(log, root, HM_LOG_ROOT_MAX + 1));
	CHECK_ERROR(-EINVAL, hm_log_root_set(log, root, 0));
	CHECK_OK(hm_log_clear(log));
	CHECK_OK(hm_log_root_get(log, NULL, 0, &length));
	CHECK_EQUAL(length, i - 37);
	hm_log_close(log);
	files_end();
}

static void test_full(void)
{
	unsigned char bytes[1024] = { 0 };
	struct hm_log *log;
	uint64_t n = 0, number = 77;
	int r;

	files_begin("/var/tmp");
	log = open_log(HM_LOG_CREATE);
	CHECK_ERROR(-ENOSPC, hm_log_append(log, bytes, SIZE, &number));
	while (!(r = hm_log_append(log, bytes, 992, NULL)))
		n++;
	CHECK_EQUAL(r, -ENOSPC);
	CHECK(strstr(hm_errmsg(), "are left"));
	CHECK_EQUAL(n, (SIZE - 1024) / 1024);
	CHECK_EQUAL(info_of(log).used, info_of(log).capacity);
	CHECK_ERROR(-ENOSPC, hm_log_append(log, bytes, 1, &number));
	CHECK_EQUAL(number, 77);
	CHECK_OK(hm_log_clear(log));
	CHECK_OK(hm_log_append(log, bytes, 992, &number));
	CHECK_EQUAL(number, 1);
	hm_log_close(log);
	files_end();
}

static int refuse_msync(void *address, size_t length, int flags)
{
	(void)address, (void)length, (void)flags;
	errno = EIO;
	return -1;
}

/* A disk that fails: the record may be there or not, and the log takes nothing more. */
static void test_broken_disk(void)
{
	int (*real_msync)(void *, size_t, int) = sys_table.msync;
	struct hm_log *log;
	uint64_t number = 77;

	files_begin("/var/tmp");
	log = open_log(HM_LOG_CREATE);
	append(log, 1);
	sys_table.msync = refuse_msync;
	CHECK_ERROR(-EIO, hm_log_append(log, "abc", 3, &number));
	sys_table.msync = real_msync;
	CHECK_ERROR(-EIO, hm_log_append(log, "abc", 3, &number));
	CHECK_ERROR(-EIO, hm_log_root_set(log, "abc", 3));
	CHECK_ERROR(-EIO, hm_log_clear(log));
	CHECK_EQUAL(number, 77);
	CHECK_EQUAL(info_of(log).n_record, 1);
	hm_log_close(log);
	files_end();
}

static void test_refused(void)
{
	struct hm_log_info info = { .struct_size = sizeof(info) + 8 };
	struct hm_log *log = NULL;
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;

	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_buffer_create(device, DESC(hm_buffer_desc, .size = SIZE), &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK_ERROR(-EOPNOTSUPP, hm_log_open(map, HM_LOG_CREATE, &log));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);

	files_begin("/var/tmp");
	map = map_file(0);
	CHECK_ERROR(-ENODATA, hm_log_open(map, 0, &log));
	CHECK_ERROR(-EINVAL, hm_log_open(NULL, 0, &log));
	CHECK_ERROR(-EINVAL, hm_log_open(map, 4, &log));
	CHECK_ERROR(-EINVAL, hm_log_open(map, 0, NULL));
	memset(hm_map_address(map), 'x', 100);
	CHECK_ERROR(-EMEDIUMTYPE, hm_log_open(map, HM_LOG_CREATE, &log));
	CHECK(!log);
	CHECK_OK_FATAL(hm_log_open(map, HM_LOG_FORMAT, &log));
	CHECK_ERROR(-E2BIG, hm_log_query(log, &info));
	CHECK_ERROR(-EINVAL, hm_log_append(log, "", 0, NULL));
	CHECK_ERROR(-EINVAL, hm_log_append(NULL, "a", 1, NULL));
	CHECK_ERROR(-EINVAL, hm_log_clear(NULL));
	hm_log_close(log);
	/* A bit of the header, and both states, make it a damaged log. */
	((char *)hm_map_address(map))[12] ^= 1;
	CHECK_ERROR(-EMEDIUMTYPE, hm_log_open(map, 0, &log));
	((char *)hm_map_address(map))[12] ^= 1;
	memset((char *)hm_map_address(map) + 256, 0, 512);
	CHECK_ERROR(-EMEDIUMTYPE, hm_log_open(map, 0, &log));
	hm_map_unref(map);
	map = map_file(HM_BUFFER_READ_ONLY);
	log = NULL;
	CHECK_ERROR(-EACCES, hm_log_open(map, 0, &log));
	CHECK(!log);
	hm_map_unref(map);
	files_end();
}

static void *append_many(void *user)
{
	struct hm_log *log = user;
	uint64_t i, number, last = 0;

	for (i = 0; i < 40; i++) {
		if (hm_log_append(log, "0123456789abcdef", 16, &number) || number <= last)
			test_fail(__FILE__, __LINE__, "an append of a thread failed");
		last = number;
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[4];
	struct hm_log *log;
	unsigned int i;

	files_begin("/var/tmp");
	log = open_log(HM_LOG_CREATE);
	for (i = 0; i < 4; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, append_many, log), 0);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQUAL(info_of(log).n_record, 160);
	hm_log_close(log);
	log = open_log(0);
	CHECK_EQUAL(info_of(log).n_record, 160);
	hm_log_close(log);
	files_end();
}

/* On devices whose bytes last by cache lines: those of a machine. */
static void check_device(const char *name)
{
	struct hm_log *log;
	uint64_t i;
	AUTO(rig) r = rig_make(name, DESC(hm_buffer_desc, .size = SIZE));

	CHECK_OK_FATAL(hm_log_open(r.map, HM_LOG_CREATE, &log));
	CHECK_EQUAL(info_of(log).persist, HM_PERSIST_LINE);
	for (i = 1; i <= 300; i++)
		append(log, i);
	CHECK_OK(hm_log_root_set(log, &i, sizeof(i)));
	hm_log_close(log);
	CHECK_OK_FATAL(hm_log_open(r.map, 0, &log));
	check_records(log, 300);
	hm_log_close(log);
}

static void test_lines(void)
{
	const char *names = getenv("HETMAP_TEST_DEVICES");
	bool there = names && strstr(names, "dax:");
	char *name, *rest;

	if (!there) {
		test_skip("pmem", "HETMAP_TEST_DEVICES names no DAX device");
		return;
	}
	AUTO_FREE char *copy = strdup(names);
	for (name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
		if (!strncmp(name, "dax:", 4) || !strncmp(name, "pmem:", 5))
			check_device(name);
}

static const struct test tests[] = {
	{ .name = "records", .run = test_records },
	{ .name = "root", .run = test_root },
	{ .name = "full", .run = test_full },
	{ .name = "broken_disk", .run = test_broken_disk },
	{ .name = "refused", .run = test_refused },
	{ .name = "threads", .run = test_threads },
	{ .name = "lines", .run = test_lines },
	{ 0 },
};

#else

static void test_none(void)
{
	test_skip("pmem", "libpmem2 is not installed (libpmem2-dev)");
}

static const struct test tests[] = { { .name = "none", .run = test_none }, { 0 } };

#endif

TEST_MAIN(harness_main, "log", tests)
