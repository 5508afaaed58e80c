// SPDX-License-Identifier: MIT
/* The file backend: ranges of files, growth, write-back and its errors. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/inject.h"
#include "lib/support.h"

#define SIZE (4 * PAGE + 321)

/* A file that holds the pattern: an open descriptor, without a name. */
static int make_file(uint64_t size)
{
	AUTO_FREE unsigned char *bytes = calloc(1, size);
	int fd = scratch_file(size);

	CHECK_FATAL(bytes != NULL);
	pattern_write(bytes, 0, size, 1);
	CHECK_EQUAL(pwrite(fd, bytes, size, 0), size);
	return fd;
}

static uint64_t file_size(int fd)
{
	struct stat st;

	CHECK_FATAL(!fstat(fd, &st));
	return (uint64_t)st.st_size;
}

static bool file_holds(int fd, uint64_t from, uint64_t to, uint32_t salt)
{
	AUTO_FREE unsigned char *bytes = calloc(1, to);

	CHECK_FATAL(bytes != NULL);
	return pread(fd, bytes, to, 0) == (ssize_t)to && pattern_holds(bytes, from, to, salt);
}

static void whole(void)
{
	AUTO(hm_device) *device = rig_device("file");
	int fd = make_file(SIZE);
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, NULL);

	CHECK_EQUAL(buffer_info(buffer).size, SIZE);
	CHECK_EQUAL(buffer_info(buffer).backing, HM_BACKING_FILE);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 1));
	pattern_write(hm_map_address(map), 0, SIZE, 2);
	CHECK_OK(hm_map_sync(map, 0, SIZE, 0));
	CHECK(file_holds(fd, 0, SIZE, 2));
	CHECK_EQUAL(file_size(fd), SIZE);
	close(fd);
}

static void by_path(void)
{
	AUTO(hm_device) *device = rig_device("file");
	char path[] = "/tmp/hetmap-test-XXXXXX";
	struct hm_buffer *buffer = NULL;
	struct hm_map *map;
	int fd = mkostemp(path, O_CLOEXEC);

	CHECK_FATAL(fd >= 0 && !ftruncate(fd, (off_t)SIZE));
	CHECK_OK_FATAL(hm_buffer_from_file(device, path, -1, NULL, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	unlink(path); /* the map keeps the bytes */
	pattern_write(hm_map_address(map), 0, SIZE, 3);
	CHECK(file_holds(fd, 0, SIZE, 3));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	buffer = NULL;
	CHECK_ERROR(-ENOENT, hm_buffer_from_file(device, path, -1, NULL, &buffer));
	CHECK(strstr(hm_errmsg(), path));
	CHECK(!buffer);
	close(fd);
}

static void part(void)
{
	static const struct {
		uint64_t offset, size, expect; /* expect 0: -EINVAL */
	} rows[] = {
		{ 0, 0, SIZE },       { PAGE, 0, SIZE - PAGE }, { 4 * PAGE, 0, 321 },
		{ PAGE, PAGE, PAGE }, { 2 * PAGE, 17, 17 },     { 4 * PAGE, 321, 321 },
		{ 4 * PAGE, 322, 0 }, { 5 * PAGE, 0, 0 },       { 1, 0, 0 },
		{ 512, PAGE, 0 },     { 0, SIZE + 1, 0 },       { PAGE, SIZE, 0 },
	};
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc) };
	AUTO(hm_device) *device = rig_device("file");
	unsigned char *shifted;
	int fd = make_file(SIZE);
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		desc.offset = rows[i].offset;
		desc.size = rows[i].size;
		AUTO(hm_buffer) *buffer = NULL;
		if (!rows[i].expect) {
			CHECK_ERROR(-EINVAL,
				    hm_buffer_from_file(device, NULL, fd, &desc, &buffer));
			CHECK(!buffer);
			continue;
		}
		CHECK_OK_FATAL(hm_buffer_from_file(device, NULL, fd, &desc, &buffer));
		CHECK_EQUAL(buffer_info(buffer).size, rows[i].expect);
		AUTO(hm_map) *map = rig_map(buffer, NULL);
		CHECK_EQUAL(hm_map_length(map), rows[i].expect);
		/* The pattern is that of the file's offsets. */
		shifted = (unsigned char *)hm_map_address(map) - desc.offset;
		CHECK(pattern_holds(shifted, desc.offset, desc.offset + rows[i].expect, 1));
	}
	close(fd);
}

/* A private copy: writes stay in the process. */
static void private_copy(void)
{
	AUTO(hm_device) *device = rig_device("file");
	int fd = make_file(SIZE), out = -7;
	AUTO(hm_buffer) *buffer =
		rig_file(device, NULL, fd, DESC(hm_buffer_desc, .flags = HM_BUFFER_PRIVATE));

	CHECK_EQUAL(buffer_info(buffer).backing, HM_BACKING_FILE_PRIVATE);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	pattern_write(hm_map_address(map), 0, SIZE, 2);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 2));
	CHECK_OK(hm_map_sync(map, 0, SIZE, 0));
	CHECK(file_holds(fd, 0, SIZE, 1));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, 0, &out));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(buffer, 2 * SIZE, 0));
	CHECK_EQUAL(file_size(fd), SIZE);
	close(fd);
}

/* The descriptor's access mode decides which buffers can be made of it. */
static void read_only(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
				       .flags = HM_BUFFER_READ_ONLY };
	struct hm_map_desc writable = { .struct_size = sizeof(writable),
					.access = HM_READ | HM_WRITE };
	AUTO(hm_device) *device = rig_device("file");
	char path[64];
	struct hm_buffer *buffer = NULL;
	struct hm_map *map = NULL;
	int fd = make_file(SIZE), reader, writer;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	writer = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_FATAL(reader >= 0 && writer >= 0);
	CHECK_ERROR(-EACCES, hm_buffer_from_file(device, NULL, reader, NULL, &buffer));
	CHECK(strstr(hm_errmsg(), "HM_BUFFER_READ_ONLY"));
	CHECK_ERROR(-EACCES, hm_buffer_from_file(device, NULL, writer, NULL, &buffer));
	CHECK(!buffer);
	CHECK_OK_FATAL(hm_buffer_from_file(device, NULL, reader, &desc, &buffer));
	CHECK_EQUAL(buffer_info(buffer).access, HM_READ);
	CHECK_ERROR(-EACCES, hm_map_create(buffer, &writable, &map));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 1));
	CHECK_EQUAL(test_write_signal(hm_map_address(map)), SIGSEGV);
	CHECK_ERROR(-EACCES, hm_map_protect(map, 0, PAGE, HM_READ | HM_WRITE));
	CHECK_ERROR(-EACCES, hm_map_prefetch(map, 0, SIZE, HM_READ | HM_WRITE));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(buffer, PAGE, 0));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	/* A private copy of a read-only file can be written. */
	desc.flags = HM_BUFFER_PRIVATE;
	CHECK_OK_FATAL(hm_buffer_from_file(device, NULL, reader, &desc, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	pattern_write(hm_map_address(map), 0, SIZE, 2);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK(file_holds(fd, 0, SIZE, 1));
	close(writer);
	close(reader);
	close(fd);
}

/* Where the file system refuses MAP_SHARED a reader gets a private map, visibly. */
static void shared_refused(void)
{
	AUTO(hm_device) *device = rig_device("file");
	struct hm_map *map = NULL;
	int fd = make_file(SIZE);
	AUTO(hm_buffer) *buffer =
		rig_file(device, NULL, fd, DESC(hm_buffer_desc, .flags = HM_BUFFER_READ_ONLY));

	inject_shared_refused(ENODEV);
	CHECK_OK(hm_map_create(buffer, NULL, &map));
	CHECK(inject_disarm());
	CHECK_FATAL(map != NULL);
	/* The refused try leaves no text. */
	CHECK(!*hm_errmsg());
	CHECK_EQUAL(buffer_info(buffer).backing, HM_BACKING_FILE_PRIVATE);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 1));
	hm_map_unref(map);
	hm_buffer_unref(buffer);

	/* A writer would not reach the file: that is an error. */
	CHECK_OK_FATAL(hm_buffer_from_file(device, NULL, fd, NULL, &buffer));
	map = NULL;
	inject_shared_refused(ENODEV);
	CHECK_ERROR(-EOPNOTSUPP, hm_map_create(buffer, NULL, &map));
	CHECK(inject_disarm());
	CHECK(!map);
	CHECK_EQUAL(buffer_info(buffer).backing, HM_BACKING_FILE);
	close(fd);
}

/* ---- write-back ---- */

static void sync_errors(void)
{
	static const int errors[] = { EIO, ENOSPC, EDQUOT };
	AUTO(hm_device) *device = rig_device("file");
	int fd = make_file(SIZE);
	size_t i;
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, NULL);
	AUTO(hm_map) *map = rig_map(buffer, NULL);

	pattern_write(hm_map_address(map), 0, SIZE, 2);
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		inject_always("msync", errors[i]);
		CHECK_ERROR(-errors[i], hm_map_sync(map, 0, SIZE, 0));
		CHECK(inject_disarm());
	}
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 2));
	CHECK_OK(hm_map_sync(map, 0, SIZE, 0));
	CHECK_OK(hm_map_sync(map, PAGE, PAGE, HM_SYNC_ASYNC));
	CHECK(file_holds(fd, 0, SIZE, 2));
	close(fd);
}

/* ---- growth ---- */

static void grows(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .max_size = 64 * PAGE };
	AUTO(hm_device) *device = rig_device("file");
	struct hm_buffer *buffer;
	struct hm_map *map;
	int fd = make_file(SIZE);
	char *base;

	CHECK_OK_FATAL(hm_buffer_from_file(device, NULL, fd, &desc, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	base = hm_map_address(map);
	CHECK_OK(hm_buffer_resize(buffer, 20 * PAGE + 5, 0));
	CHECK_EQUAL(file_size(fd), 20 * PAGE + 5);
	CHECK(hm_map_address(map) == base);
	CHECK(pattern_holds(base, 0, SIZE, 1));
	CHECK(is_zero(base, SIZE, 20 * PAGE + 5));
	pattern_write(base, 0, 20 * PAGE + 5, 2);
	CHECK_OK(hm_buffer_resize(buffer, PAGE + 1, 0));
	CHECK_EQUAL(file_size(fd), PAGE + 1);
	CHECK(file_holds(fd, 0, PAGE + 1, 2));
	CHECK_OK(hm_buffer_resize(buffer, 2 * PAGE, 0));
	CHECK(is_zero(base, PAGE + 1, 2 * PAGE));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(file_size(fd), 2 * PAGE);
	close(fd);
}

/* A file that is written at its end: the pointer stays, and nothing behind it is touched. */
static void appends(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .max_size = 256 * PAGE };
	AUTO(hm_device) *device = rig_device("file");
	int fd = make_file(1);
	uint64_t size = 1, step;
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, &desc);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	char *base = hm_map_address(map);

	for (step = 1; size + step * 331 <= desc.max_size; step++) {
		CHECK_OK_FATAL(hm_buffer_resize(buffer, size + step * 331, 0));
		CHECK_FATAL(hm_map_address(map) == base);
		CHECK_EQUAL(hm_map_length(map), size + step * 331);
		memset(base + size, (int)step, step * 331);
		size += step * 331;
		/* No room on the disk: the file and the map stay the same. */
		inject_always("ftruncate", ENOSPC);
		CHECK_ERROR(-ENOSPC, hm_buffer_resize(buffer, size + 1, 0));
		CHECK(inject_disarm());
		CHECK_EQUAL(hm_map_length(map), size);
	}
	CHECK_OK(hm_map_sync(map, 0, size, 0));
	CHECK_ERROR(-ENOSPC, hm_buffer_resize(buffer, 257 * PAGE, 0));
	CHECK_EQUAL(file_size(fd), size);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	/* By reading it: each step's bytes are where they were stored. */
	CHECK_OK_FATAL(hm_buffer_from_file(device, NULL, fd, NULL, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	base = hm_map_address(map);
	for (size = 1, step = 1; size < file_size(fd); size += step++ * 331) {
		CHECK_EQUAL((unsigned char)base[size], (unsigned char)step);
		CHECK_EQUAL((unsigned char)base[size + step * 331 - 1], (unsigned char)step);
	}
	close(fd);
}

/* Only a buffer that ends where its file does can be resized. */
static void part_stays(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = PAGE };
	AUTO(hm_device) *device = rig_device("file");
	int fd = make_file(SIZE);
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, &desc);

	CHECK(!(buffer_info(buffer).caps & HM_CAP_RESIZE));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(buffer, 2 * PAGE, 0));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(buffer, 10, 0));
	CHECK_EQUAL(file_size(fd), SIZE);
	close(fd);
}

/* Another program made the file longer: a cut would take its bytes. */
static void changed_by_others(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .max_size = 64 * PAGE };
	AUTO(hm_device) *device = rig_device("file");
	int fd = make_file(SIZE);
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, &desc);

	CHECK(!ftruncate(fd, (off_t)(30 * PAGE)));
	CHECK_ERROR(-EBUSY, hm_buffer_resize(buffer, PAGE, 0));
	CHECK_ERROR(-EBUSY, hm_buffer_resize(buffer, 10 * PAGE, 0));
	CHECK_EQUAL(file_size(fd), 30 * PAGE);
	CHECK_EQUAL(buffer_info(buffer).size, SIZE);
	close(fd);
}

/* RLIMIT_FSIZE is an error, and not SIGXFSZ, which would kill. */
static void beyond_limit(void *user)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .max_size = 64 * PAGE };
	struct rlimit limit = { 8 * PAGE, RLIM_INFINITY };
	AUTO(hm_device) *device = rig_device("file");
	int fd = make_file(SIZE);
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, &desc);
	AUTO(hm_map) *map = rig_map(buffer, NULL);

	(void)user;
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	CHECK_ERROR(-EFBIG, hm_buffer_resize(buffer, 8 * PAGE + 1, 0));
	CHECK(strstr(hm_errmsg(), "RLIMIT_FSIZE"));
	CHECK_EQUAL(file_size(fd), SIZE);
	CHECK_EQUAL(hm_map_length(map), SIZE);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 1));
	CHECK_OK(hm_buffer_resize(buffer, 8 * PAGE, 0));
	/* A file beyond the limit may become shorter. */
	limit.rlim_cur = PAGE;
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	CHECK_OK(hm_buffer_resize(buffer, 2 * PAGE, 0));
	CHECK_EQUAL(file_size(fd), 2 * PAGE);
	/* Coverage writes more than the limit at the end. */
	limit.rlim_cur = RLIM_INFINITY;
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	close(fd);
}

static void file_size_limit(void)
{
	CHECK_EQUAL(test_fork(beyond_limit, NULL), 0);
}

/* A page that the file no longer has is an error of prefetch, not a signal. */
static void truncated(void)
{
	AUTO(hm_device) *device = rig_device("file");
	int fd = make_file(SIZE);
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, NULL);
	AUTO(hm_map) *map = rig_map(buffer, NULL);

	CHECK(!ftruncate(fd, (off_t)PAGE));
	CHECK_ERROR(-EFAULT, hm_map_prefetch(map, 0, SIZE, HM_READ));
	CHECK_EQUAL(test_read_signal((char *)hm_map_address(map) + 2 * PAGE), SIGBUS);
	CHECK(pattern_holds(hm_map_address(map), 0, PAGE, 1));
	close(fd);
}

/* ---- paths that are no file to map ---- */

static void odd_paths(void)
{
	static const struct {
		const char *path;
		int r;
	} rows[] = {
		{ "/", -EISDIR },
		{ "/dev/null", -EINVAL },
		{ "/nonexistent/file", -ENOENT },
		{ "/dev/null/file", -ENOTDIR },
	};
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
				       .flags = HM_BUFFER_READ_ONLY };
	AUTO(hm_device) *device = rig_device("file");
	char dir[] = "/tmp/hetmap-test-XXXXXX", path[64];
	struct hm_buffer *buffer = NULL;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK_ERROR(rows[i].r,
			    hm_buffer_from_file(device, rows[i].path, -1, &desc, &buffer));
		CHECK(strstr(hm_errmsg(), rows[i].path));
	}
	CHECK_FATAL(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/fifo", dir);
	CHECK(!mkfifo(path, 0600));
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(device, path, -1, &desc, &buffer));
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(device, path, -1, NULL, &buffer));
	unlink(path);
	snprintf(path, sizeof(path), "%s/loop", dir);
	CHECK(!symlink(path, path));
	CHECK_ERROR(-ELOOP, hm_buffer_from_file(device, path, -1, &desc, &buffer));
	unlink(path);
	rmdir(dir);
	CHECK(!buffer);
}

/* A file of memory: its file system keeps bytes that were stored behind the end. */
static void grows_in_memory(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .max_size = 64 * PAGE };
	int fd = memfd_create("file", MFD_CLOEXEC);
	AUTO(hm_device) *device = rig_device("file");
	char *base;

	CHECK_FATAL(fd >= 0 && !ftruncate(fd, SIZE));
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, &desc);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	base = hm_map_address(map);
	pattern_write(base, 0, SIZE, 1);
	memset(base + SIZE, 0x55, 5 * PAGE - SIZE);
	CHECK_OK(hm_buffer_resize(buffer, SIZE + 9, 0));
	CHECK_EQUAL(file_size(fd), SIZE + 9);
	CHECK_OK(hm_buffer_resize(buffer, 5 * PAGE + 1, 0));
	CHECK(pattern_holds(base, 0, SIZE, 1));
	CHECK(is_zero(base, SIZE, SIZE + 9));
	CHECK(is_zero(base, SIZE + 9, 5 * PAGE + 1));
	close(fd);
}

/* Is a byte of the file, the first or the second, locked by this process's parent? */
static void is_locked(void *user)
{
	const struct flock *of = user;
	struct flock lock = *of;

	/* l_pid: the descriptor, which the child has, too. */
	lock.l_pid = 0;
	lock.l_type = F_WRLCK;
	if (fcntl(of->l_pid, F_GETLK, &lock) || lock.l_type == F_UNLCK)
		_exit(3);
}

/* The kernel releases the locks of fcntl(2) with any descriptor of the file, and no others. */
static void locks_of_fcntl(void)
{
	struct flock own = { .l_type = F_WRLCK, .l_start = 0, .l_len = 1 };
	struct flock open_file = { .l_type = F_WRLCK, .l_start = 1, .l_len = 1 };
	struct hm_device *device = rig_device("file");
	char path[] = "/tmp/hetmap-test-XXXXXX";
	struct hm_buffer *buffer;
	int fd = mkostemp(path, O_CLOEXEC);

	CHECK_FATAL(fd >= 0 && !ftruncate(fd, (off_t)SIZE));
	CHECK_FATAL(!fcntl(fd, F_SETLK, &own) && !fcntl(fd, F_OFD_SETLK, &open_file));
	own.l_pid = fd;
	open_file.l_pid = fd;
	CHECK_OK_FATAL(hm_buffer_from_file(device, path, -1, NULL, &buffer));
	CHECK_EQUAL(test_fork(is_locked, &own), 0);
	hm_buffer_unref(buffer);
	CHECK(test_fork(is_locked, &own) != 0);
	CHECK_EQUAL(test_fork(is_locked, &open_file), 0);
	hm_device_unref(device);
	unlink(path);
	close(fd);
}

static const struct test tests[] = {
	{ "whole", whole, 0, 0 },
	{ "by_path", by_path, 0, 0 },
	{ "part", part, 0, 0 },
	{ "private_copy", private_copy, 0, 0 },
	{ "read_only", read_only, 0, 0 },
	{ "grows_in_memory", grows_in_memory, 0, 0 },
	{ "shared_refused", shared_refused, 0, 0 },
	{ "sync_errors", sync_errors, 0, 0 },
	{ "grows", grows, 0, 0 },
	{ "appends", appends, 0, 0 },
	{ "part_stays", part_stays, 0, 0 },
	{ "changed_by_others", changed_by_others, 0, 0 },
	{ "file_size_limit", file_size_limit, 0, 0 },
	{ "truncated", truncated, 0, 0 },
	{ "odd_paths", odd_paths, 0, 0 },
	{ "locks_of_fcntl", locks_of_fcntl, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "file", tests)
