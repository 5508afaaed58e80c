// SPDX-License-Identifier: MIT
/* Readers: the same bytes by every policy, the chosen policies, and refused calls. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/inject.h"
#include "reader/reader_support.h"

/* ---- windows ---- */

static void test_policies(void)
{
	static const uint64_t sizes[] = { 0, 1, PAGE - 1, PAGE, PAGE + 1, MIB(3) + 17 };
	static const uint64_t windows[] = { 0, 1, 3 * PAGE, MIB(1), UINT64_MAX };
	char *folder = folder_make(), *path;
	struct hm_reader_desc desc;
	struct hm_reader *reader;
	struct hm_reader_info info;
	uint32_t policy;
	size_t i, j;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		path = reader_file(folder, "data", sizes[i]);
		for (policy = HM_POLICY_AUTO; policy <= HM_POLICY_DIRECT; policy++) {
			if (!reader_can(path, policy))
				continue;
			for (j = 0; j < sizeof(windows) / sizeof(windows[0]); j++) {
				desc = reader_desc(HM_PATTERN_SEQUENTIAL, policy, windows[j],
						   0);
				desc.flags = j & 1 ? HM_READER_DROP : 0;
				CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
				reader_check_range(reader, 0, sizes[i]);
				info = reader_info(reader);
				CHECK_EQUAL(info.bytes, sizes[i]);
				CHECK(info.policy == policy || !policy);
				CHECK(info.policy != HM_POLICY_AUTO);
				CHECK(strstr(info.why, hm_policy_name(info.policy)) ==
				      info.why);
				CHECK(info.peak <= info.budget);
				CHECK_EQUAL(info.memory, 0);
				hm_reader_unref(reader);
			}
		}
		free(path);
	}
	CHECK(hm_policy_name(HM_POLICY_DIRECT + 1) == NULL);
	folder_remove(folder);
}

static void test_range(void)
{
	static const uint64_t ranges[][2] = {
		{ 0, 1 },
		{ 1, 2 },
		{ PAGE - 1, PAGE + 1 },
		{ PAGE, 5 * PAGE },
		{ 5000, MIB(1) + 12345 },
		{ MIB(1), MIB(1) },
		{ MIB(1) - 7, MIB(2) },
		{ MIB(2) - 1, MIB(2) },
	};
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", MIB(2));
	struct hm_reader_desc desc;
	struct hm_reader *reader;
	const void *data;
	uint64_t offset, bytes;
	uint32_t policy;
	size_t i;

	for (policy = HM_POLICY_FAULT; policy <= HM_POLICY_DIRECT; policy++) {
		if (!reader_can(path, policy))
			continue;
		desc = reader_desc(HM_PATTERN_SEQUENTIAL, policy, 5 * PAGE, 0);
		CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
		for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
			CHECK_OK(hm_reader_range(reader, ranges[i][0], ranges[i][1],
						 HM_PATTERN_SEQUENTIAL, policy));
			/* Twice: a part of it, and from its begin again. */
			CHECK_OK(hm_reader_next(reader, &data, &offset, &bytes));
			CHECK_OK(hm_reader_range(reader, ranges[i][0], ranges[i][1],
						 HM_PATTERN_SEQUENTIAL, policy));
			reader_check_range(reader, ranges[i][0], ranges[i][1]);
		}
		/* A refused call changes nothing, not even the window that is in use. */
		CHECK_OK(hm_reader_range(reader, 100, 0, HM_PATTERN_SEQUENTIAL, policy));
		CHECK_OK(hm_reader_next(reader, &data, &offset, &bytes));
		CHECK_ERROR(-ERANGE, hm_reader_range(reader, 0, MIB(2) + 1, 0, policy));
		CHECK_ERROR(-ERANGE, hm_reader_range(reader, 5, 4, 0, policy));
		CHECK_ERROR(-EINVAL, hm_reader_range(reader, 0, 0, 2, policy));
		CHECK_ERROR(-EINVAL, hm_reader_range(reader, 0, 0, 0, 8));
		CHECK(reader_is_data(data, 100, bytes));
		reader_check_range(reader, 100 + bytes, MIB(2));
		hm_reader_unref(reader);
	}
	/* A file that has grown is taken as it is when a range is set. */
	reader = reader_open(path, HM_PATTERN_SEQUENTIAL, HM_POLICY_AUTO);
	free(reader_file(folder, "data", MIB(2) + 5));
	reader_check_range(reader, 0, MIB(2));
	CHECK_OK(hm_reader_range(reader, 0, 0, HM_PATTERN_SEQUENTIAL, HM_POLICY_AUTO));
	reader_check_range(reader, 0, MIB(2) + 5);
	hm_reader_unref(reader);
}

/* ---- pieces ---- */

static void test_gather(void)
{
	/* The second one is for reads where a fault may map 2 MiB. */
	static const uint64_t budgets[] = { 0, 256 * 1024, MIB(6) };
	const uint64_t size = MIB(10) + 77;
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", size);
	uint64_t state = test_seed();
	struct hm_reader_desc desc;
	struct hm_reader_info info;
	struct hm_reader *reader;
	uint32_t policy, guarded;
	size_t i;

	for (guarded = 0; guarded < 2; guarded++) {
		if (guarded)
			CHECK_OK_FATAL(hm_handler_install(0));
		for (policy = HM_POLICY_AUTO; policy <= HM_POLICY_DIRECT; policy++) {
			if (!reader_can(path, policy))
				continue;
			for (i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
				desc = reader_desc(HM_PATTERN_RANDOM, policy, 0, budgets[i]);
				CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
				reader_gather(reader, size, &state);
				info = reader_info(reader);
				CHECK(info.peak <= info.budget);
				CHECK(!budgets[i] || info.budget == budgets[i]);
				if (policy && policy <= HM_POLICY_POPULATE && i != 1) {
					CHECK_EQUAL(info.flags,
						    guarded ? HM_READER_GUARDED : 0);
					CHECK_EQUAL(info.map != NULL, guarded);
				}
				hm_reader_unref(reader);
			}
		}
	}
	/* A reader of a sequence reads pieces, too. */
	reader = reader_open(path, HM_PATTERN_SEQUENTIAL, HM_POLICY_AUTO);
	reader_gather(reader, size, &state);
	hm_reader_unref(reader);
	CHECK_OK(hm_handler_remove());
}

static void test_pieces_refused(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", PAGE + 1);
	AUTO(hm_reader) *reader = reader_open(path, HM_PATTERN_RANDOM, HM_POLICY_AUTO);
	struct hm_piece piece = { PAGE, 2 };
	const void *data = UNTOUCHED;
	uint64_t bytes = 99;
	char out[2];

	CHECK_ERROR(-ERANGE, hm_reader_gather(reader, &piece, 1, out));
	CHECK(strstr(hm_errmsg(), "piece 0, 2 bytes at 4096") != NULL);
	CHECK_ERROR(-ERANGE, hm_reader_announce(reader, &piece, 1));
	piece = (struct hm_piece){ UINT64_MAX, 2 };
	CHECK_ERROR(-ERANGE, hm_reader_gather(reader, &piece, 1, out));
	piece = (struct hm_piece){ PAGE + 1, 0 };
	CHECK_OK(hm_reader_gather(reader, &piece, 1, out));
	CHECK_ERROR(-EINVAL, hm_reader_gather(reader, NULL, 1, out));
	CHECK_ERROR(-EINVAL, hm_reader_gather(reader, &piece, 1, NULL));
	CHECK_ERROR(-EINVAL, hm_reader_next(reader, &data, NULL, &bytes));
	CHECK(strstr(hm_errmsg(), "hm_reader_range()") != NULL);
	CHECK(data == UNTOUCHED && bytes == 99);
}

/* ---- refused ---- */

static void check_open(const char *path, int expected, const char *text)
{
	struct hm_reader *reader = UNTOUCHED;

	CHECK_ERROR(expected, hm_reader_open(path, NULL, &reader));
	CHECK(reader == UNTOUCHED);
	if (!strstr(hm_errmsg(), text))
		test_fail(__FILE__, __LINE__, "not \"%s\": %s", text, hm_errmsg());
}

static void open_as_nobody(void *user)
{
	CHECK_FATAL(!setgid(65534) && !setuid(65534));
	check_open(user, -EACCES, "opening it");
}

static void test_refused(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", 100);
	AUTO_TEXT *fifo = folder_path(folder, "fifo"), *none = folder_path(folder, "none");
	struct hm_reader_desc desc = reader_desc(0, 0, 0, 0);
	struct hm_reader_info info = { .struct_size = sizeof(info) + 1 };
	struct hm_reader *reader = UNTOUCHED;

	check_open(folder, -EISDIR, "directory");
	CHECK_EQUAL(mkfifo(fifo, 0600), 0);
	check_open(fifo, -EINVAL, "a FIFO");
	check_open("/dev/null", -EINVAL, "a character device");
	check_open(none, -ENOENT, "none");
	check_open(NULL, -EINVAL, "path is NULL");
	if (!geteuid()) {
		CHECK_EQUAL(chmod(path, 0600), 0);
		CHECK_EQUAL(test_fork(open_as_nobody, path), 0);
	}
	desc.flags = 2;
	CHECK_ERROR(-EINVAL, hm_reader_open(path, &desc, &reader));
	desc = reader_desc(2, 0, 0, 0);
	CHECK_ERROR(-EINVAL, hm_reader_open(path, &desc, &reader));
	desc = reader_desc(0, 8, 0, 0);
	CHECK_ERROR(-EINVAL, hm_reader_open(path, &desc, &reader));
	CHECK_ERROR(-EINVAL, hm_reader_open(path, NULL, NULL));
	CHECK(reader == UNTOUCHED);
	reader = reader_open(path, 0, 0);
	CHECK_ERROR(-E2BIG, hm_reader_query(reader, &info));
	CHECK_ERROR(-EINVAL, hm_reader_query(reader, NULL));
	CHECK_ERROR(-EINVAL, hm_reader_query(NULL, &info));
	CHECK_ERROR(-EINVAL, hm_reader_next(reader, NULL, NULL, NULL));
	CHECK(hm_reader_ref(reader) == reader);
	hm_reader_unref(reader);
	hm_reader_unref(reader);
	hm_reader_unref(NULL);
	CHECK(hm_reader_ref(NULL) == NULL);
}

/* ---- files that can't be mapped ---- */

static void test_private_map(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", MIB(1) + 5);
	AUTO(hm_reader) *reader = NULL;

	make_table();
	inject_shared_refused(ENODEV);
	reader = reader_open(path, HM_PATTERN_SEQUENTIAL, HM_POLICY_AHEAD);
	CHECK_EQUAL(reader_info(reader).flags, HM_READER_PRIVATE_MAP);
	reader_check_range(reader, 0, MIB(1) + 5);
	inject_disarm();
}

/* A file of sysfs with its right size, which has no mmap(). */
#define NOTES "/sys/kernel/notes"

static void test_no_map(void)
{
	struct hm_reader_desc desc = reader_desc(0, HM_POLICY_AHEAD, 0, 0);
	struct hm_reader *reader = UNTOUCHED;
	struct hm_reader_info info;
	char bytes[65536], out[65536];
	struct hm_piece piece = { 0 };
	const void *data;
	uint64_t n;
	int fd = open(NOTES, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (piece.bytes = (uint64_t)read(fd, bytes, sizeof(bytes))) < 1 ||
	    hm_reader_open(NOTES, &desc, &reader) != -EOPNOTSUPP) {
		test_skip("kernel", NOTES " is not there, or can be mapped");
		if (fd >= 0)
			close(fd);
		if (reader != UNTOUCHED)
			hm_reader_unref(reader);
		return;
	}
	close(fd);
	CHECK(strstr(hm_errmsg(), "sysfs") && strstr(hm_errmsg(), "\"read\""));
	reader = reader_open(NOTES, HM_PATTERN_SEQUENTIAL, HM_POLICY_AUTO);
	info = reader_info(reader);
	CHECK_EQUAL(info.policy, HM_POLICY_READ);
	CHECK_EQUAL(info.flags, HM_READER_NO_MAP);
	CHECK(!strcmp(info.file_system, "sysfs"));
	CHECK(strstr(info.why, "can't be mapped") != NULL);
	CHECK_OK(hm_reader_next(reader, &data, NULL, &n));
	CHECK_EQUAL(n, piece.bytes);
	CHECK(!memcmp(data, bytes, n));
	CHECK_OK(hm_reader_range(reader, 0, 0, HM_PATTERN_RANDOM, HM_POLICY_AUTO));
	CHECK_OK(hm_reader_gather(reader, &piece, 1, out));
	CHECK(!memcmp(out, bytes, piece.bytes));
	hm_reader_unref(reader);
}

static int next_few(struct hm_reader *reader, uint64_t total)
{
	const void *data;
	uint64_t bytes;
	int r;

	do {
		r = hm_reader_next(reader, &data, NULL, &bytes);
		if (r)
			return r;
		CHECK(is_zero(data, 0, bytes));
		total -= bytes;
	} while (bytes);
	CHECK_EQUAL(total, 0);
	return 0;
}

static void read_with_little_room(void *user)
{
	struct hm_piece piece = { GIB(99), 100 };
	struct hm_reader_desc desc;
	struct hm_reader *reader;
	uint32_t pattern, policy;
	struct rlimit limit;
	char out[100];

	limit.rlim_cur = limit.rlim_max = test_status_bytes("VmSize") + MIB(256);
	CHECK_FATAL(!setrlimit(RLIMIT_AS, &limit));
	CHECK_OK_FATAL(hm_handler_install(0));
	for (pattern = 0; pattern < 2; pattern++)
		for (policy = HM_POLICY_AUTO; policy <= HM_POLICY_DIRECT; policy++) {
			if (!reader_can(user, policy))
				continue;
			desc = reader_desc(pattern, policy, 0, MIB(8));
			CHECK_OK_FATAL(hm_reader_open(user, &desc, &reader));
			CHECK(!(reader_info(reader).flags & HM_READER_NO_MAP));
			CHECK(reader_info(reader).map == NULL);
			memset(out, 1, sizeof(out));
			CHECK_OK(hm_reader_gather(reader, &piece, 1, out));
			CHECK(is_zero(out, 0, sizeof(out)));
			CHECK_OK(hm_reader_range(reader, GIB(99), GIB(99) + MIB(9), 0, policy));
			CHECK_OK_FATAL(next_few(reader, MIB(9)));
			hm_reader_unref(reader);
		}
}

/* A file larger than the address space has room for: it is read, and mapped in windows. */
static void test_no_room(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");

	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "its shadow has the address space");
	} else {
		file_sparse(folder, "data", GIB(100));
		CHECK_EQUAL(test_fork(read_with_little_room, path), 0);
	}
}

/* ---- chosen ---- */

/* On a network file system, or one that a process serves, files are read. */
static bool by_reading(const struct hm_reader_info *info)
{
	return info->flags & HM_READER_NETWORK || strstr(info->why, "process that serves it");
}

static void test_chosen(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", MIB(4));
	AUTO(hm_reader) *reader = NULL;
	struct hm_reader_info info;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	CHECK_EQUAL(fsync(fd), 0);
	reader = reader_open(path, HM_PATTERN_SEQUENTIAL, HM_POLICY_AUTO);
	info = reader_info(reader);
	/* Little memory may have lost some of it already; a network, a server: see below. */
	CHECK(info.resident >= 90);
	CHECK(by_reading(&info) || info.policy == HM_POLICY_FAULT);
	CHECK(info.ram > 0 && *info.file_system);
	CHECK(strstr(info.why, "% of a sample") && strstr(info.why, info.file_system));

	/* The same file, out of memory: chosen anew. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	CHECK_OK(hm_reader_range(reader, 0, 0, HM_PATTERN_SEQUENTIAL, HM_POLICY_AUTO));
	info = reader_info(reader);
	if (!info.resident && !by_reading(&info))
		CHECK_EQUAL(info.policy, HM_POLICY_AHEAD);
	CHECK_OK(hm_reader_range(reader, 0, 0, HM_PATTERN_RANDOM, HM_POLICY_AUTO));
	info = reader_info(reader);
	if (!info.resident && !by_reading(&info))
		CHECK_EQUAL(info.policy, HM_POLICY_ANNOUNCE);
	close(fd);
}

/* Announcing ends when a file turns out to be in memory, and begins when it is not. */
static void test_looked_at_again(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", MIB(4));
	struct hm_piece piece = { MIB(1), 2000 };
	AUTO(hm_reader) *reader = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC), i;
	char out[2000];
	AUTO(rig_handler) handler = rig_handler(0);

	CHECK_EQUAL(fsync(fd), 0);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	reader = reader_open(path, HM_PATTERN_RANDOM, HM_POLICY_AUTO);
	if (reader_info(reader).policy == HM_POLICY_ANNOUNCE) {
		for (i = 0; i < 100; i++)
			CHECK_OK(hm_reader_gather(reader, &piece, 1, out));
		CHECK_EQUAL(reader_info(reader).policy, HM_POLICY_FAULT);
		piece.offset = MIB(3);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		for (i = 0; i < 100 && reader_info(reader).policy == HM_POLICY_FAULT; i++) {
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
			piece.offset += PAGE;
			CHECK_OK(hm_reader_gather(reader, &piece, 1, out));
		}
	}
	CHECK(reader_is_data(out, piece.offset, 2000));
	close(fd);
}

static const struct test tests[] = {
	{ "policies", test_policies, 60, 0 },
	{ "range", test_range, 60, 0 },
	{ "gather", test_gather, 60, 0 },
	{ "pieces_refused", test_pieces_refused, 10, 0 },
	{ "refused", test_refused, 10, 0 },
	{ "private_map", test_private_map, 10, 0 },
	{ "no_map", test_no_map, 10, 0 },
	{ "no_room", test_no_room, 30, 0 },
	{ "chosen", test_chosen, 20, 0 },
	{ "looked_at_again", test_looked_at_again, 20, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "reader", tests)
