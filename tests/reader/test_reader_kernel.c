// SPDX-License-Identifier: MIT
/* Readers where the kernel has less to give: no ring of io_uring's, and why not. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/inject.h"
#include "reader/reader_support.h"
#include "base/sys.h"

#define SIZE (MIB(3) + 17)

/* ---- a file that is best read by many reads at a time ---- */

static struct sys_table real;

static int fstatfs_of_fuse(int fd, struct statfs *ret_statfs)
{
	int r = real.fstatfs(fd, ret_statfs);

	ret_statfs->f_type = 0x65735546;
	return r;
}

static int mincore_of_none(void *address, size_t length, unsigned char *vector)
{
	(void)address;
	memset(vector, 0, (length + PAGE - 1) / PAGE);
	return 0;
}

/* Every file is a process's, and none of it in memory, until it ends. */
static void begin_served(void)
{
	inject_install();
	real = sys_table;
	sys_table.fstatfs = fstatfs_of_fuse;
	sys_table.mincore = mincore_of_none;
}

static void end_served(void)
{
	sys_table = real;
}

/* The choice of a served file, without injection, is io_uring: false is a skip. */
static bool have_uring(const char *path)
{
	if (reader_can(path, HM_POLICY_URING))
		return true;
	test_skip("kernel", "no io_uring: %s", hm_errmsg());
	return false;
}

/* ---- why there is no ring ---- */

static const struct refusal {
	int error;
	int expected; /* by a policy that was asked for */
	const char *remedy;
} refusals[] = {
	{ EMFILE, -EMFILE, "ulimit -n" },
	{ ENFILE, -ENFILE, "fs.file-max" },
	{ ENOMEM, -ENOMEM, "ulimit -l" },
	{ ENOSYS, -EOPNOTSUPP, "seccomp" },
	{ EPERM, -EOPNOTSUPP, "kernel.io_uring_disabled" },
	{ EACCES, -EOPNOTSUPP, "security module" },
	{ EIO, -EIO, "EIO" },
};

#define N_REFUSALS (sizeof(refusals) / sizeof(refusals[0]))

/* The text has the errno's own name and the remedy. */
static void check_text(const struct refusal *refusal, const char *text)
{
	if (!strstr(text, strerrorname_np(refusal->error)) || !strstr(text, refusal->remedy))
		test_fail(__FILE__, __LINE__, "neither %s nor \"%s\": %s",
			  strerrorname_np(refusal->error), refusal->remedy, text);
}

static void check_asked_for(const char *path, const struct refusal *refusal, uint32_t pattern,
			    uint32_t policy)
{
	struct hm_reader_desc desc = reader_desc(pattern, policy, 0, 0);
	AUTO(hm_reader) *reader = UNTOUCHED;

	inject_always("uring_init", refusal->error);
	CHECK_ERROR(refusal->expected, hm_reader_open(path, &desc, &reader));
	CHECK(reader == UNTOUCHED);
	check_text(refusal, hm_errmsg());
	CHECK(strstr(hm_errmsg(), hm_policy_name(policy)) != NULL);

	/* A phase that there was stays, with its window. */
	desc.policy = HM_POLICY_READ;
	CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
	CHECK_ERROR(refusal->expected, hm_reader_range(reader, 0, 0, pattern, policy));
	check_text(refusal, hm_errmsg());
	CHECK_EQUAL(reader_info(reader).policy, HM_POLICY_READ);
	if (pattern == HM_PATTERN_SEQUENTIAL)
		reader_check_range(reader, 0, SIZE);
	CHECK(inject_disarm());
	/* The refusal is not remembered. */
	CHECK_OK(hm_reader_range(reader, 0, 0, pattern, policy));
	CHECK_EQUAL(reader_info(reader).policy, policy);
}

static void test_asked_for(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", SIZE);
	uint32_t pattern, policy;
	size_t i;

	for (policy = HM_POLICY_URING; policy <= HM_POLICY_DIRECT && have_uring(path); policy++)
		for (pattern = 0; pattern < 2 && reader_can(path, policy); pattern++)
			for (i = 0; i < N_REFUSALS; i++)
				check_asked_for(path, &refusals[i], pattern, policy);
}

static void check_chosen(const char *path, const struct refusal *refusal, uint32_t pattern)
{
	AUTO(hm_reader) *reader = NULL;
	struct hm_reader_info info;
	uint64_t state = 1;

	inject_always("uring_init", refusal->error);
	reader = reader_open(path, pattern, HM_POLICY_AUTO);
	info = reader_info(reader);
	CHECK_EQUAL(info.policy, HM_POLICY_READ);
	CHECK(strstr(info.why, "io_uring can't be had") != NULL);
	check_text(refusal, info.why);
	/* The figures behind it are all there still. */
	CHECK(strstr(info.why, "; windows of") && strstr(info.why, "budget"));
	if (pattern == HM_PATTERN_SEQUENTIAL)
		reader_check_range(reader, 0, SIZE);
	else
		reader_gather(reader, SIZE, &state);
	CHECK(inject_disarm());
	CHECK_OK(hm_reader_range(reader, 0, 0, pattern, HM_POLICY_AUTO));
	info = reader_info(reader);
	CHECK_EQUAL(info.policy, HM_POLICY_URING);
	CHECK(strstr(info.why, "can't be had") == NULL);
}

static void test_chosen(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", SIZE);
	struct hm_reader *reader;
	uint32_t pattern;
	size_t i;

	if (have_uring(path)) {
		/* A reader that would not take io_uring hears nothing of it. */
		inject_always("uring_init", ENOMEM);
		reader = reader_open(path, HM_PATTERN_SEQUENTIAL, HM_POLICY_AUTO);
		CHECK(strstr(reader_info(reader).why, "io_uring") == NULL);
		hm_reader_unref(reader);
		inject_disarm();
		begin_served();
		for (pattern = 0; pattern < 2; pattern++)
			for (i = 0; i < N_REFUSALS; i++)
				check_chosen(path, &refusals[i], pattern);
		end_served();
	}
}

/* ---- no descriptors, for real ---- */

/* Opened while @n descriptors are free: 0, or an error whose text is checked. */
static int open_with(const char *path, uint32_t policy, unsigned int n,
		     struct hm_reader_info *ret_info)
{
	struct hm_reader_desc desc = reader_desc(HM_PATTERN_SEQUENTIAL, policy, 0, 0);
	struct hm_reader *reader = UNTOUCHED;
	struct rlimit limit, before;
	int used = dup(0), r;

	CHECK_FATAL(used >= 0 && !getrlimit(RLIMIT_NOFILE, &before));
	close(used);
	limit = (struct rlimit){ (rlim_t)used + n, before.rlim_max };
	CHECK_FATAL(!setrlimit(RLIMIT_NOFILE, &limit));
	r = hm_reader_open(path, &desc, &reader);
	/* The reader needs no more descriptors than it has. */
	if (!r) {
		*ret_info = reader_info(reader);
		reader_check_range(reader, 0, SIZE);
		/* Its sentence is the reader's. */
		ret_info->why = strstr(ret_info->why, "ulimit -n") ? "EMFILE" : "";
		hm_reader_unref(reader);
	} else {
		CHECK_EQUAL(r, -EMFILE);
		CHECK(strstr(hm_errmsg(), "ulimit -n") != NULL);
		CHECK(reader == UNTOUCHED);
	}
	CHECK_FATAL(!setrlimit(RLIMIT_NOFILE, &before));
	return r;
}

static void test_no_descriptors(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", SIZE);
	struct hm_reader_info info;
	bool without = false;
	unsigned int n;

	make_table();
	if (have_uring(path)) {
		for (n = 0; open_with(path, HM_POLICY_URING, n, &info); n++)
			CHECK_FATAL(n < 20);
		CHECK(n > 1);
		begin_served();
		for (n = 0; n < 20; n++) {
			if (open_with(path, HM_POLICY_AUTO, n, &info))
				continue;
			CHECK_EQUAL(info.policy, *info.why ? HM_POLICY_READ : HM_POLICY_URING);
			without = without || *info.why;
		}
		end_served();
		CHECK(without);
		CHECK_EQUAL(info.policy, HM_POLICY_URING);
	}
}

/* A ring that was lost to an error is asked for again: that may fail by itself. */
static void test_not_again(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", SIZE);
	struct hm_reader *reader;
	const void *data = UNTOUCHED;
	uint64_t bytes = 99;

	if (have_uring(path)) {
		reader = reader_open(path, HM_PATTERN_SEQUENTIAL, HM_POLICY_URING);
		inject_always("uring_submit", EBUSY);
		CHECK_ERROR(-EBUSY, hm_reader_next(reader, &data, NULL, &bytes));
		inject_always("uring_init", EMFILE);
		CHECK_ERROR(-EMFILE, hm_reader_next(reader, &data, NULL, &bytes));
		check_text(&refusals[0], hm_errmsg());
		CHECK(data == UNTOUCHED && bytes == 99);
		inject_disarm();
		reader_check_range(reader, 0, SIZE);
		hm_reader_unref(reader);
	}
}

static const struct test tests[] = {
	{ "asked_for", test_asked_for, 60, 0 },
	{ "chosen", test_chosen, 60, 0 },
	{ "no_descriptors", test_no_descriptors, 60, 0 },
	{ "not_again", test_not_again, 20, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "reader_kernel", tests)
