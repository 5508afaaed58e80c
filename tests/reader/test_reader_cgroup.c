// SPDX-License-Identifier: MIT
/*
 * Readers in a control group that may have 256 MiB and no swap: files of many times that, by
 * the memory files of the group. In machines only (tests/vm/check), as it loads modules,
 * mounts, and makes groups.
 *
 * The files are on ext4, in an image in memory. A hole of ext4 is read into page cache, which
 * is charged to the group that touches it and can be taken back, as that of any disk; one of
 * tmpfs would be the file's own memory from then on, which nothing takes back without swap.
 * busybox makes the file system, because it is in the machine for certain; of its ext2 a file
 * may have nearly 2 TiB.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reader/reader_support.h"

#define GROUPS "/sys/fs/cgroup"
#define GROUP GROUPS "/hetmap-test"
#define IMAGE "/dev/shm/hetmap-test.image"
#define MOUNT "/tmp/hetmap-test.mount"
#define FILE_HERE MOUNT "/data"

#define MEMORY_MAX MIB(256)
/*
 * Slack for the process in its group: the test, malloc(), the library's tables, the file's
 * nodes in the page cache's tree; and counters that are a batch of each CPU's behind.
 */
#define SLACK MIB(8)

/* ---- the file system ---- */

static void shell(const char *command)
{
	int status = system(command);

	if (status)
		test_fail(__FILE__, __LINE__, "status %d: %s", status, command);
	CHECK_FATAL(!status);
}

/* In a mount namespace of the test's: it ends with it. */
static void begin(void)
{
	CHECK_FATAL(!unshare(CLONE_NEWNS));
	CHECK_FATAL(!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	shell("busybox modprobe -a loop crc32c_generic ext4 && truncate -s 256M " IMAGE
	      " && busybox mke2fs -F -b 4096 " IMAGE " >/dev/null && mkdir -p " MOUNT
	      " && mount -t ext4 -o loop " IMAGE " " MOUNT);
	shell("echo +memory >" GROUPS "/cgroup.subtree_control");
}

static void end(void)
{
	shell("umount " MOUNT " && rmdir " MOUNT " && rm " IMAGE);
}

/* ---- the group ---- */

/* A number in a file of the group's: of the line "oom_kill 0", or alone. */
static uint64_t group_number(const char *name, const char *key)
{
	char path[128], line[128];
	uint64_t number = UINT64_MAX;
	size_t length = strlen(key);
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", GROUP, name);
	file = fopen(path, "re");
	CHECK_FATAL(file != NULL);
	while (number == UINT64_MAX && fgets(line, sizeof(line), file))
		if (!length || (!strncmp(line, key, length) && line[length] == ' '))
			number = strtoull(line + length, NULL, 10);
	fclose(file);
	if (number == UINT64_MAX)
		test_fail(__FILE__, __LINE__, "%s has no '%s'", path, key);
	return number;
}

static void group_write(const char *name, uint64_t number)
{
	char path[128], text[32];
	int fd, length = snprintf(text, sizeof(text), "%" PRIu64, number);

	snprintf(path, sizeof(path), "%s/%s", GROUP, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_FATAL(fd >= 0 && write(fd, text, (size_t)length) == length);
	close(fd);
}

/* Mapped pages and their page tables, as the kernel counts them for the group. */
static uint64_t group_mapped(void)
{
	return group_number("memory.stat", "file_mapped") +
	       group_number("memory.stat", "pagetables");
}

struct outcome_of_group {
	uint64_t peak;  /* memory.peak */
	uint64_t limit; /* times that it was at memory.max */
	uint64_t kills;
	int r; /* test_fork()'s */
};

/* For test_fork(): a function's address is no void *. */
struct scene {
	void (*run)(void);
};

static void run_inside(void *user)
{
	const struct scene *scene = user;

	group_write("cgroup.procs", (uint64_t)getpid());
	scene->run();
}

/* @run in a child, in a fresh group; nothing of the file is resident when it begins. */
static struct outcome_of_group run_in_group(void (*run)(void))
{
	struct scene scene = { run };
	struct outcome_of_group outcome;
	int fd = open(FILE_HERE, O_RDONLY | O_CLOEXEC);

	/* The kernel charges page cache to the group that brings it in. */
	CHECK_FATAL(fd >= 0 && !fsync(fd) && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	close(fd);
	CHECK_FATAL(!mkdir(GROUP, 0755));
	group_write("memory.max", MEMORY_MAX);
	group_write("memory.swap.max", 0);
	outcome.r = test_fork(run_inside, &scene);
	outcome.peak = group_number("memory.peak", "");
	outcome.limit = group_number("memory.events", "max");
	outcome.kills = group_number("memory.events", "oom_kill");
	CHECK_FATAL(!rmdir(GROUP));
	return outcome;
}

/* The process lived, within the limit. */
static void check_alive(const struct outcome_of_group *outcome)
{
	CHECK_EQUAL(outcome->r, 0);
	CHECK_EQUAL(outcome->kills, 0);
	CHECK(outcome->peak <= MEMORY_MAX);
}

/* ---- 1 TiB, a byte in each 2 MiB ---- */

#define BUDGET MIB(32)

/* Emulation takes a minute for all of it; of a quarter the tables are twice the group's memory. */
static uint64_t sparse_size(void)
{
	return getenv("HETMAP_READ_GIB") ? TIB : TIB / 4;
}

/* Nobody's reader: all tables stay. */
static void plain_map(void)
{
	int fd = open(FILE_HERE, O_RDONLY | O_CLOEXEC);
	uint64_t size = sparse_size(), i;
	volatile char *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

	CHECK_FATAL(bytes != MAP_FAILED && !madvise((void *)bytes, size, MADV_RANDOM));
	for (i = 0; i < size; i += PLACE)
		(void)bytes[i];
	test_fail(__FILE__, __LINE__, "a plain map of %" PRIu64 " GiB lived in 256 MiB",
		  (uint64_t)(size / GIB(1)));
}

static void gather_places(void)
{
	struct hm_reader_desc desc = reader_desc(HM_PATTERN_RANDOM, HM_POLICY_AUTO, 0, BUDGET);
	uint64_t places = sparse_size() / PLACE, i, sum = 0, before, held, most = 0, group = 0;
	struct hm_reader_info info;
	struct hm_reader *reader;
	AUTO(rig_handler) handler = rig_handler(0);

	/* The default budget is a quarter of the group's memory. */
	reader = reader_open(FILE_HERE, HM_PATTERN_RANDOM, HM_POLICY_AUTO);
	info = reader_info(reader);
	CHECK_EQUAL(info.ram, MEMORY_MAX);
	CHECK_EQUAL(info.budget, MEMORY_MAX / 4);
	hm_reader_unref(reader);

	CHECK_OK_FATAL(hm_reader_open(FILE_HERE, &desc, &reader));
	before = reader_held();
	for (i = 0; i < places; i += PLACES_MOST) {
		sum += reader_check_places(reader, i, PLACES_MOST);
		held = reader_held();
		most = held > before + most ? held - before : most;
		if (i % (16 * PLACES_MOST) == 0 && group_mapped() > group)
			group = group_mapped();
	}
	CHECK_EQUAL(sum, reader_sum_of_places(places));
	info = reader_info(reader);
	CHECK_EQUAL(info.size, sparse_size());
	CHECK(info.map != NULL);
	CHECK(info.peak <= BUDGET && info.peak > BUDGET / 2);
	/* The reader's peak covers the kernel's counts, of the process and of its group. */
	if (!most || !group || most > info.peak + SLACK || group > info.peak + SLACK)
		test_fail(__FILE__, __LINE__,
			  "peak %" PRIu64 ", the process had %" PRIu64
			  " bytes, its group %" PRIu64,
			  info.peak, most, group);
	printf("    %" PRIu64 " GiB: peak %" PRIu64 " of a budget of %" PRIu64
	       ", the process had %" PRIu64 ", its group %" PRIu64 "\n",
	       (uint64_t)(info.size / GIB(1)), info.peak, info.budget, most, group);
	hm_reader_unref(reader);
}

static void test_terabyte(void)
{
	struct outcome_of_group outcome;

	begin();
	free(reader_places(MOUNT, "data", sparse_size() / PLACE));
	outcome = run_in_group(plain_map);
	/* Else nothing here would be a limit. */
	CHECK_EQUAL(outcome.r, SIGKILL);
	CHECK(outcome.kills > 0);
	outcome = run_in_group(gather_places);
	check_alive(&outcome);
	/* Each byte takes a page: twice the limit and more. */
	CHECK(outcome.limit > 0);
	end();
}

/* ---- all of a large file ---- */

/* Each stride begins with some data. */
#define STRIDE MIB(256)
#define DATA 65536u
#define WINDOWS_BUDGET MIB(16)

/* Emulation reads a GiB in seconds: the default is four times the group's memory. */
static uint64_t whole_size(void)
{
	const char *text = getenv("HETMAP_READ_GIB");

	return (text ? strtoull(text, NULL, 10) : 1) * GIB(1);
}

static uint64_t sum_of(const void *data, uint64_t bytes)
{
	const uint64_t *word = data;
	uint64_t sum = 0, i;

	CHECK_FATAL(bytes % sizeof(*word) == 0);
	for (i = 0; i < bytes / sizeof(*word); i++)
		sum += word[i];
	return sum;
}

static uint64_t sum_of_file(uint64_t size)
{
	unsigned char *data = malloc(DATA);
	uint64_t sum = 0, at;

	CHECK_FATAL(data != NULL);
	for (at = 0; at < size; at += STRIDE) {
		reader_fill(data, at, DATA);
		sum += sum_of(data, DATA);
	}
	free(data);
	return sum;
}

static void make_whole(void)
{
	uint64_t size = whole_size(), at;
	int fd;

	file_sparse(MOUNT, "data", size);
	fd = open(FILE_HERE, O_WRONLY | O_CLOEXEC);
	CHECK_FATAL(fd >= 0);
	for (at = 0; at < size; at += STRIDE)
		reader_write(fd, at, DATA);
	close(fd);
}

static void read_whole(uint64_t budget, uint32_t flags, uint32_t policy)
{
	struct hm_reader_desc desc =
		reader_desc(HM_PATTERN_SEQUENTIAL, HM_POLICY_AUTO, 0, budget);
	uint64_t size = whole_size(), total = 0, sum = 0, bytes, most;
	struct hm_reader_info info;
	AUTO(hm_reader) *reader = NULL;
	const void *data;

	desc.flags = flags;
	CHECK_OK_FATAL(hm_reader_open(FILE_HERE, &desc, &reader));
	do {
		CHECK_OK_FATAL(hm_reader_next(reader, &data, NULL, &bytes));
		sum += sum_of(data, bytes);
		total += bytes;
	} while (bytes);
	CHECK_EQUAL(total, size);
	CHECK_EQUAL(sum, sum_of_file(size));
	info = reader_info(reader);
	CHECK_EQUAL(info.bytes, size);
	CHECK_EQUAL(info.policy, policy);
	CHECK(info.peak <= info.budget && info.peak > info.budget / 2);
	/* Dropped behind it, or past the page cache: its windows, and those that are begun. */
	most = info.peak + info.ahead * info.window + SLACK;
	if ((flags || policy == HM_POLICY_DIRECT) && group_number("memory.peak", "") > most)
		test_fail(__FILE__, __LINE__, "%s: peak %" PRIu64 ", the group's %" PRIu64,
			  hm_policy_name(info.policy), info.peak,
			  group_number("memory.peak", ""));
	printf("    %" PRIu64 " bytes by %s: peak %" PRIu64 ", the group's %" PRIu64 "\n", size,
	       hm_policy_name(info.policy), info.peak, group_number("memory.peak", ""));
}

static void read_chosen(void)
{
	read_whole(WINDOWS_BUDGET, 0, HM_POLICY_AHEAD);
}

static void read_dropping(void)
{
	read_whole(WINDOWS_BUDGET, HM_READER_DROP, HM_POLICY_AHEAD);
}

/* More than memory has room for, without a stated budget. */
static void read_past_memory(void)
{
	read_whole(0, 0, HM_POLICY_DIRECT);
}

static void test_whole(void)
{
	struct outcome_of_group outcome;

	begin();
	make_whole();
	outcome = run_in_group(read_chosen);
	check_alive(&outcome);
	/* Page cache fills the group, and is taken back. */
	CHECK(outcome.limit > 0);
	/* These never come near the limit. */
	outcome = run_in_group(read_dropping);
	check_alive(&outcome);
	CHECK_EQUAL(outcome.limit, 0);
	outcome = run_in_group(read_past_memory);
	check_alive(&outcome);
	CHECK_EQUAL(outcome.limit, 0);
	end();
}

static const struct test tests[] = {
	{ "terabyte", test_terabyte, 80, TEST_ONCE },
	{ "whole", test_whole, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "reader_cgroup", tests)
