// SPDX-License-Identifier: MIT
/* Windows of which a thread makes the next one while one is in use. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader_support.h"

#define SIZE (40 * MIB + 12345)

static struct hm_reader *open_windows(const char *path, uint32_t policy, uint64_t window,
				      uint64_t budget)
{
	struct hm_reader_desc desc = reader_desc(HM_PATTERN_SEQUENTIAL, policy, window, budget);
	struct hm_reader *reader;

	CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
	return reader;
}

static bool is_beside(struct hm_reader *reader)
{
	return strstr(reader_info(reader).why, "made by a thread");
}

/* False: nothing is made beside it anywhere. */
static bool has_processors(void)
{
	cpu_set_t set;

	CHECK_FATAL(!sched_getaffinity(0, sizeof(set), &set));
	return CPU_COUNT(&set) > 1;
}

/* One after another, from any byte on, with what each takes in the budget. */
static void test_windows(void)
{
	static const uint32_t policies[] = { HM_POLICY_FAULT, HM_POLICY_POPULATE };
	static const uint64_t windows[] = { 0, 2 * MIB, 3 * MIB, 16 * MIB };
	char *folder = folder_make(), *path = reader_file(folder, "data", SIZE);
	struct hm_reader *reader;
	struct hm_reader_info info;
	size_t i, j;

	for (i = 0; i < 2; i++)
		for (j = 0; j < 4; j++) {
			reader = open_windows(path, policies[i], windows[j], 0);
			CHECK_EQUAL(is_beside(reader), has_processors());
			reader_check_range(reader, 0, SIZE);
			CHECK_OK(hm_reader_range(reader, 4097, SIZE - 5, HM_PATTERN_SEQUENTIAL,
						 policies[i]));
			reader_check_range(reader, 4097, SIZE - 5);
			info = reader_info(reader);
			CHECK(info.peak <= info.budget);
			CHECK(info.peak > info.window || !has_processors());
			hm_reader_unref(reader);
		}
	free(path);
	folder_remove(folder);
}

/* Left in the midst, for another range or for good, whatever the thread is at. */
static void test_left(void)
{
	char *folder = folder_make(), *path = reader_file(folder, "data", SIZE);
	struct hm_reader *reader;
	uint64_t offset, bytes;
	const void *data;
	int i, n;

	for (i = 0; i < 60; i++) {
		reader = open_windows(path, HM_POLICY_FAULT, 2 * MIB, 0);
		for (n = 0; n < i % 5; n++) {
			CHECK_OK_FATAL(hm_reader_next(reader, &data, &offset, &bytes));
			CHECK(reader_is_data((const char *)data + bytes - 8, offset + bytes - 8,
					     8));
		}
		if (i & 1) {
			CHECK_OK(hm_reader_range(reader, 7 * MIB + 3, 0, HM_PATTERN_SEQUENTIAL,
						 HM_POLICY_FAULT));
			CHECK_OK_FATAL(hm_reader_next(reader, &data, &offset, &bytes));
			CHECK_EQUAL(offset, 7 * MIB + 3);
			CHECK(reader_is_data(data, offset, 8));
		}
		hm_reader_unref(reader);
	}
	free(path);
	folder_remove(folder);
}

/* The thread meets the end first, and has nobody to tell: who reads on is told. */
static void test_cut_off(void)
{
	char *folder = folder_make(), *path = reader_file(folder, "data", SIZE);
	struct hm_reader *reader = open_windows(path, HM_POLICY_FAULT, 4 * MIB, 0);
	uint64_t offset, bytes;
	const void *data;

	CHECK_OK_FATAL(hm_reader_next(reader, &data, &offset, &bytes));
	CHECK(reader_is_data(data, 0, bytes));
	CHECK_FATAL(!truncate(path, 13 * MIB));
	CHECK_OK_FATAL(hm_reader_next(reader, &data, &offset, &bytes));
	CHECK(reader_is_data(data, offset, bytes));
	CHECK_OK_FATAL(hm_reader_next(reader, &data, &offset, &bytes));
	CHECK_EQUAL(offset + bytes, 12 * MIB);
	CHECK(reader_is_data(data, offset, bytes));
	CHECK_EQUAL(hm_reader_next(reader, &data, &offset, &bytes), -ENODATA);
	CHECK(strstr(hm_errmsg(), "cut off while it was read") != NULL);
	CHECK_EQUAL(reader_info(reader).position, 12 * MIB);
	hm_reader_unref(reader);
	free(path);
	folder_remove(folder);
}

/* Where it would gain nothing, or the budget has no room for two, there is none. */
static void test_alone(void)
{
	char *folder = folder_make(), *path = reader_file(folder, "data", SIZE);
	struct hm_reader *reader;
	cpu_set_t all, one;
	int cpu = 0;

	reader = open_windows(path, HM_POLICY_AHEAD, 0, 0);
	CHECK(!is_beside(reader));
	hm_reader_unref(reader);
	reader = open_windows(path, HM_POLICY_FAULT, MIB, 0);
	CHECK(!is_beside(reader));
	hm_reader_unref(reader);
	reader = open_windows(path, HM_POLICY_FAULT, 0, 4 * MIB);
	CHECK(!is_beside(reader));
	hm_reader_unref(reader);
	reader = open_windows(path, HM_POLICY_FAULT, 0, 5 * MIB);
	CHECK_EQUAL(is_beside(reader), has_processors());
	reader_check_range(reader, 0, SIZE);
	CHECK(reader_info(reader).peak <= 5 * MIB);
	hm_reader_unref(reader);
	CHECK_FATAL(!sched_getaffinity(0, sizeof(all), &all));
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	CHECK_FATAL(!sched_setaffinity(0, sizeof(one), &one));
	reader = open_windows(path, HM_POLICY_FAULT, 0, 0);
	CHECK(!is_beside(reader));
	hm_reader_unref(reader);
	CHECK_FATAL(!sched_setaffinity(0, sizeof(all), &all));
	free(path);
	folder_remove(folder);
}

static const struct test tests[] = {
	{ "windows", test_windows, 60, 0 },
	{ "left", test_left, 60, 0 },
	{ "cut_off", test_cut_off, 30, 0 },
	{ "alone", test_alone, 30, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "reader_beside", tests);
}
