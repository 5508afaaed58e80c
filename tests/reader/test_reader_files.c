// SPDX-License-Identifier: MIT
/* Readers of several files: one range of bytes, however small and many they are. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "lib/inject.h"
#include "reader/reader_support.h"
#include "base/sys.h"

struct set {
	char *folder;
	char **paths;
	uint64_t n, size;
};

/* Files whose bytes, one file behind another, are those of one that reader_file() makes. */
static void make_set_in(char *folder, struct set *set, const uint64_t *sizes, uint64_t n)
{
	char name[32];
	uint64_t i;
	int fd;

	*set = (struct set){ .folder = folder, .n = n };
	set->paths = calloc(n, sizeof(*set->paths));
	CHECK_FATAL(set->paths != NULL);
	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%llu", (unsigned long long)i);
		set->paths[i] = folder_path(set->folder, name);
		fd = open(set->paths[i], O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		CHECK_FATAL(fd >= 0);
		reader_write_part(fd, set->size, sizes[i]);
		close(fd);
		set->size += sizes[i];
	}
}

static void make_set(struct set *set, const uint64_t *sizes, uint64_t n)
{
	make_set_in(folder_make(), set, sizes, n);
}

static void free_set(struct set *set)
{
	uint64_t i;

	for (i = 0; i < set->n; i++)
		free(set->paths[i]);
	free(set->paths);
	folder_remove(set->folder);
}

static struct hm_reader *open_set(const struct set *set, uint32_t pattern, uint64_t window)
{
	struct hm_reader_desc desc = reader_desc(pattern, HM_POLICY_AUTO, window, 0);
	struct hm_reader *reader;

	desc.flags = window ? HM_READER_DROP : 0;
	CHECK_OK_FATAL(
		hm_reader_open_files((const char *const *)set->paths, set->n, &desc, &reader));
	return reader;
}

/* With empty ones first, last, and two in a row. */
static const uint64_t sizes[] = { 0, 1, 4095, 4096, 0, 0, 70000, 3, 12288, 5, 0 };
#define N (sizeof(sizes) / sizeof(sizes[0]))

static void test_together(void)
{
	uint64_t state = test_seed(), at = 0, i;
	struct hm_reader_info info;
	struct hm_reader *reader;
	struct hm_piece piece;
	struct set set;

	make_set(&set, sizes, N);
	for (i = 0; i < 3; i++) {
		reader = open_set(&set, HM_PATTERN_SEQUENTIAL, i * PAGE);
		reader_check_range(reader, 0, set.size);
		CHECK_OK(hm_reader_range(reader, 4096, 80001, HM_PATTERN_SEQUENTIAL, 0));
		reader_check_range(reader, 4096, 80001);
		hm_reader_unref(reader);
	}
	reader = open_set(&set, HM_PATTERN_RANDOM, 0);
	reader_gather(reader, set.size, &state);
	info = reader_info(reader);
	CHECK_EQUAL(info.policy, HM_POLICY_READ);
	CHECK_EQUAL(info.size, set.size);
	CHECK(strstr(info.why, "several files") != NULL);
	for (i = 0; i < N; i++) {
		CHECK_OK(hm_reader_file(reader, i, &piece));
		CHECK_EQUAL(piece.offset, at);
		CHECK_EQUAL(piece.bytes, sizes[i]);
		at += sizes[i];
	}
	CHECK_ERROR(-ERANGE, hm_reader_file(reader, N, &piece));
	CHECK_ERROR(-EINVAL, hm_reader_file(reader, 0, NULL));
	CHECK_ERROR(-EOPNOTSUPP, hm_reader_range(reader, 0, 0, 0, HM_POLICY_AHEAD));
	CHECK(strstr(hm_errmsg(), "several") != NULL);
	hm_reader_unref(reader);
	free_set(&set);
}

static void test_refused(void)
{
	const char *paths[3] = { NULL };
	struct hm_reader *reader = UNTOUCHED;
	struct set set;
	char byte;

	make_set(&set, sizes, N);
	paths[0] = set.paths[1];
	paths[1] = set.folder;
	CHECK_ERROR(-EISDIR, hm_reader_open_files(paths, 2, NULL, &reader));
	CHECK(strstr(hm_errmsg(), set.folder) != NULL);
	paths[1] = "/dev/null";
	CHECK_ERROR(-EINVAL, hm_reader_open_files(paths, 2, NULL, &reader));
	CHECK_ERROR(-EINVAL, hm_reader_open_files(paths, 3, NULL, &reader));
	CHECK_ERROR(-EINVAL, hm_reader_open_files(paths, 0, NULL, &reader));
	CHECK_ERROR(-EINVAL, hm_reader_open_files(NULL, 1, NULL, &reader));
	CHECK_ERROR(-EINVAL, hm_reader_open_files(paths, 1, NULL, NULL));
	CHECK(reader == UNTOUCHED);

	/* Cut off, or gone: an error with the name of the one that is. */
	reader = open_set(&set, HM_PATTERN_RANDOM, 0);
	CHECK_EQUAL(truncate(set.paths[6], 100), 0);
	CHECK_OK(hm_reader_gather(reader, &(struct hm_piece){ 8192 + 99, 1 }, 1, &byte));
	CHECK_ERROR(-ENODATA,
		    hm_reader_gather(reader, &(struct hm_piece){ 8192 + 100, 1 }, 1, &byte));
	CHECK(strstr(hm_errmsg(), set.paths[6]) && strstr(hm_errmsg(), "cut off"));
	CHECK_EQUAL(unlink(set.paths[9]), 0);
	CHECK_ERROR(-ENOENT,
		    hm_reader_gather(reader, &(struct hm_piece){ set.size - 1, 1 }, 1, &byte));
	CHECK(strstr(hm_errmsg(), set.paths[9]) != NULL);
	hm_reader_unref(reader);
	free_set(&set);
}

/* Another file by the same name is not taken for the one that was looked at. */
static void test_replaced(void)
{
	const char *names[2] = { "1", "2" };
	struct hm_reader *reader, *relative;
	char byte;
	AUTO_TEXT *other = NULL, *name = NULL;
	struct set set;
	int fd;

	make_set(&set, sizes, N);
	other = folder_path(set.folder, "other");
	CHECK_EQUAL(mkdir(other, 0700), 0);
	fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQUAL(chdir(set.folder), 0);
	CHECK_OK_FATAL(hm_reader_open_files(names, 2, NULL, &relative));
	CHECK_EQUAL(chdir(other), 0);
	free(reader_file(other, "1", 4096));
	CHECK_ERROR(-ESTALE, hm_reader_gather(relative, &(struct hm_piece){ 0, 1 }, 1, &byte));
	CHECK_ERROR(-ENOENT, hm_reader_gather(relative, &(struct hm_piece){ 1, 1 }, 1, &byte));
	CHECK_EQUAL(chdir(set.folder), 0);
	CHECK_OK(hm_reader_gather(relative, &(struct hm_piece){ 0, 1 }, 1, &byte));
	hm_reader_unref(relative);
	CHECK_EQUAL(fchdir(fd), 0);
	close(fd);

	reader = open_set(&set, HM_PATTERN_RANDOM, 0);
	name = folder_path(other, "1");
	CHECK_EQUAL(rename(name, set.paths[6]), 0);
	CHECK_ERROR(-ESTALE, hm_reader_gather(reader, &(struct hm_piece){ 8192, 1 }, 1, &byte));
	CHECK(strstr(hm_errmsg(), set.paths[6]) != NULL);
	hm_reader_unref(reader);
	CHECK_EQUAL(rmdir(other), 0);
	free_set(&set);
}

static bool live(const struct set *set, unsigned int n)
{
	struct hm_reader *reader = UNTOUCHED;
	uint64_t bytes, at = 0;
	const void *data;
	bool failed;
	int r;

	inject_arm(n, INJECT_ONE);
	r = hm_reader_open_files((const char *const *)set->paths, set->n, NULL, &reader);
	while (!r && at < set->size) {
		r = hm_reader_next(reader, &data, NULL, &bytes);
		if (!r)
			CHECK(reader_is_data(data, at, bytes));
		at += r ? 0 : bytes;
	}
	failed = inject_disarm();
	if (r)
		CHECK(failed && *hm_errmsg());
	if (reader != UNTOUCHED) {
		reader_check_range(reader, at, set->size);
		hm_reader_unref(reader);
	}
	inject_forgive();
	return failed;
}

static void test_failures(void)
{
	struct set set;
	unsigned int n;

	make_set(&set, sizes, N);
	make_table();
	inject_install();
	for (n = 1; live(&set, n); n++)
		;
	CHECK(n > 3 * N);
	free_set(&set);
}

/* ---- many ---- */

#define MANY 100000ull
/* Limit of descriptors, as "ulimit -n 256". */
#define FEW 256

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* In memory, where a file is made in microseconds, if there is room for a page of each. */
static char *quick_folder(uint64_t files)
{
	char *folder = strdup("/dev/shm/hetmap-test-XXXXXX");
	struct statvfs fs;

	CHECK_FATAL(folder != NULL);
	if (!statvfs("/dev/shm", &fs) && fs.f_bavail * fs.f_bsize > 2 * files * PAGE &&
	    fs.f_favail > 2 * files && mkdtemp(folder))
		return folder;
	free(folder);
	return folder_make();
}

static int (*real_fadvise)(int fd, off_t offset, off_t length, int advice);
static uint64_t announced, announced_bytes;

static int counted_fadvise(int fd, off_t offset, off_t length, int advice)
{
	announced += advice == POSIX_FADV_WILLNEED;
	announced_bytes += advice == POSIX_FADV_WILLNEED ? (uint64_t)length : 0;
	return real_fadvise(fd, offset, length, advice);
}

/* Number of a batch's pieces in memory, as the library sees it. */
static unsigned int in_memory;
static ssize_t (*real_pread)(int fd, void *to, size_t length, off_t offset);

static ssize_t pread_some(int fd, void *to, size_t length, off_t offset)
{
	if (in_memory) {
		in_memory--;
		return real_pread(fd, to, length, offset);
	}
	errno = EAGAIN;
	return -1;
}

#define BATCH 12

static void check_batch(struct hm_reader *reader, const struct hm_piece *pieces,
			unsigned int resident, uint64_t expected)
{
	char to[BATCH * PAGE];
	uint64_t bytes = 0, i, at = 0;

	announced = 0;
	announced_bytes = 0;
	in_memory = resident;
	CHECK_OK(hm_reader_gather(reader, pieces, BATCH, to));
	for (i = 0; i < BATCH; i++) {
		CHECK(reader_is_data(to + at, pieces[i].offset, pieces[i].bytes));
		at += pieces[i].bytes;
		bytes += i >= BATCH - expected ? pieces[i].bytes : 0;
	}
	CHECK_EQUAL(announced, expected);
	CHECK_EQUAL(announced_bytes, bytes);
}

/*
 * A batch is announced from its first piece on that is not in memory, once, and with no more
 * descriptors than reading it takes.
 */
static void check_gathered(struct hm_reader *reader, uint64_t stride)
{
	struct hm_piece pieces[BATCH];
	unsigned int fds = test_holding_now().fds;
	uint64_t i;

	/* Backwards, so that no two follow one another. */
	for (i = 0; i < BATCH; i++)
		pieces[i] = (struct hm_piece){ .offset = (BATCH - 1 - i) * stride + 7 * i,
					       .bytes = 1000 + i };
	check_batch(reader, pieces, 0, BATCH);
	check_batch(reader, pieces, 5, BATCH - 5);
	check_batch(reader, pieces, BATCH, 0);
	announced = 0;
	CHECK_OK(hm_reader_announce(reader, pieces, BATCH));
	CHECK_EQUAL(announced, BATCH);
	check_batch(reader, pieces, 0, 0);
	check_batch(reader, pieces, 0, BATCH);
	CHECK(test_holding_now().fds <= fds + 1);
}

static void test_gathered(void)
{
	const struct sys_table real = sys_table;
	struct hm_reader_desc desc = reader_desc(HM_PATTERN_RANDOM, HM_POLICY_READ, 0, 0);
	uint64_t lengths[BATCH], i;
	struct hm_reader *reader;
	struct set set;
	AUTO_TEXT *path = NULL;

	for (i = 0; i < BATCH; i++)
		lengths[i] = 2 * PAGE;
	make_set(&set, lengths, BATCH);
	path = reader_file(set.folder, "one", BATCH * 2 * PAGE);
	real_fadvise = real.fadvise;
	real_pread = real.pread;
	sys_table.fadvise = counted_fadvise;
	sys_table.pread_now = pread_some;
	reader = open_set(&set, HM_PATTERN_RANDOM, 0);
	check_gathered(reader, 2 * PAGE);
	hm_reader_unref(reader);
	CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
	check_gathered(reader, 2 * PAGE);
	hm_reader_unref(reader);
	sys_table = real;
	free_set(&set);
}

/* The next bytes are announced across the ends of files, long before they are read. */
static void check_ahead(const struct set *set, uint64_t at, uint64_t window)
{
	uint64_t wanted = at + 4 * window;

	if (wanted > set->size)
		wanted = set->size;
	CHECK(announced_bytes >= wanted);
	CHECK(announced > set->n * announced_bytes / set->size / 2);
}

/* The descriptors do not grow with the files; and it says how long that takes. */
static void test_many(void)
{
	const struct rlimit few = { FEW, FEW };
	uint64_t *lengths = calloc(MANY, sizeof(*lengths)), i, full = 0, at = 0, bytes;
	double begin = now(), made, opened;
	struct hm_reader *reader;
	unsigned int fds;
	const void *data;
	struct set set;

	CHECK_FATAL(lengths != NULL && !setrlimit(RLIMIT_NOFILE, &few));
	for (i = 0; i < MANY; i++) {
		lengths[i] = i % 700;
		full += lengths[i] > 0;
	}
	make_set_in(quick_folder(MANY), &set, lengths, MANY);
	make_table();
	real_fadvise = sys_table.fadvise;
	sys_table.fadvise = counted_fadvise;
	made = now();
	fds = test_holding_now().fds;
	reader = open_set(&set, HM_PATTERN_SEQUENTIAL, 0);
	opened = now();
	do {
		CHECK_OK_FATAL(hm_reader_next(reader, &data, NULL, &bytes));
		CHECK(reader_is_data(data, at, bytes));
		at += bytes;
		check_ahead(&set, at, reader_info(reader).window);
		/* The file that is read, and the first one of all. */
		CHECK(test_holding_now().fds <= fds + 2);
	} while (bytes);
	CHECK_EQUAL(at, set.size);
	CHECK_EQUAL(announced_bytes, set.size);
	CHECK(announced >= full);
	printf("    %llu files of %llu bytes: made in %.2f s, opened in %.2f s, read in %.2f s, "
	       "%u descriptors\n",
	       MANY, (unsigned long long)set.size, made - begin, opened - made, now() - opened,
	       test_holding_now().fds);
	hm_reader_unref(reader);
	CHECK_EQUAL(test_holding_now().fds, fds);
	sys_table.fadvise = real_fadvise;
	free(lengths);
	free_set(&set);
}

/* Opened and closed over and over, unread, read and read in part: nothing is left of it. */
static void test_many_opens(void)
{
	struct test_holding before;
	struct hm_reader *reader;
	const void *data;
	uint64_t bytes;
	struct set set;
	int i, k;

	make_set(&set, sizes, N);
	make_table();
	hm_reader_unref(open_set(&set, HM_PATTERN_SEQUENTIAL, 0));
	before = test_holding_now();
	for (i = 0; i < 10000; i++) {
		reader =
			open_set(&set, i & 1 ? HM_PATTERN_RANDOM : HM_PATTERN_SEQUENTIAL, PAGE);
		for (k = 0; !(i & 1) && k < i % 7; k++)
			CHECK_OK(hm_reader_next(reader, &data, NULL, &bytes));
		hm_reader_unref(reader);
		if (i % 1000 == 0)
			CHECK_EQUAL(test_holding_now().fds, before.fds);
	}
	test_holding_same(&before);
	free_set(&set);
}

static const struct test tests[] = {
	{ "together", test_together, 20, 0 },
	{ "refused", test_refused, 20, 0 },
	{ "replaced", test_replaced, 20, 0 },
	{ "failures", test_failures, 60, TEST_ONCE },
	{ "gathered", test_gathered, 20, 0 },
	{ "many", test_many, 120, TEST_ONCE },
	{ "many_opens", test_many_opens, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "reader_files", tests)
