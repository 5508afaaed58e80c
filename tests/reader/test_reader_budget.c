// SPDX-License-Identifier: MIT
/* Readers of large files, in little memory by the kernel's account. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reader/reader_support.h"

/* ---- large files, little memory ---- */

static void test_offsets(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");
	const uint64_t far = GIB(5) + 4097;
	struct hm_piece pieces[2] = { { far, 9000 }, { GIB(4) - 3, 7 } };
	struct hm_reader *reader;
	uint32_t policy;
	char out[9007];
	int fd;

	file_sparse(folder, "data", GIB(6));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	reader_write(fd, far, 9000);
	reader_write(fd, GIB(4) - 3, 7);
	close(fd);
	CHECK_OK_FATAL(hm_handler_install(0));
	for (policy = HM_POLICY_FAULT; policy <= HM_POLICY_DIRECT; policy++) {
		if (!reader_can(path, policy))
			continue;
		reader = reader_open(path, HM_PATTERN_RANDOM, policy);
		CHECK_OK(hm_reader_gather(reader, pieces, 2, out));
		reader_check_pieces(pieces, 2, out);
		CHECK_OK(hm_reader_range(reader, far, far + 9000, HM_PATTERN_SEQUENTIAL,
					 policy));
		reader_check_range(reader, far, far + 9000);
		hm_reader_unref(reader);
	}
	CHECK_OK(hm_handler_remove());
}

/* Slack for malloc(), the library's tables and the kernel's rounding. */
#define SLACK MIB(1)

/* A byte of each 2 MiB: all at once would take a page table each. */
static void check_places(uint64_t n, uint32_t policy, uint64_t budget)
{
	struct hm_reader_desc desc = reader_desc(HM_PATTERN_RANDOM, policy, 0, budget);
	AUTO_TEXT *folder = folder_make(), *path = reader_places(folder, "data", n);
	uint64_t i, before, most = 0, sum = 0, hole = reader_bytes_of_a_hole(path);
	struct hm_reader_info info;
	struct hm_reader *reader;

	/* Files in memory (tmpfs), where huge pages may be all there is. */
	if (n * hole > GIB(1)) {
		test_skip("kernel", "files here are memory: %llu holes of them are %llu bytes",
			  (unsigned long long)n, (unsigned long long)(n * hole));
		return;
	}
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
	before = reader_held();
	for (i = 0; i < n; i += PLACES_MOST) {
		sum += reader_check_places(reader, i,
					   n - i < PLACES_MOST ? n - i : PLACES_MOST);
		if (reader_held() > before + most)
			most = reader_held() - before;
	}
	CHECK_EQUAL(sum, reader_sum_of_places(n));
	if (!TEST_ASAN && !TEST_TSAN && most > budget + SLACK)
		test_fail(__FILE__, __LINE__, "it had %llu bytes", (unsigned long long)most);
	info = reader_info(reader);
	CHECK(info.map != NULL);
	CHECK_EQUAL(info.size, n * PLACE);
	CHECK(info.peak <= budget);
	CHECK(info.peak > budget / 2);
	hm_reader_unref(reader);
	CHECK_OK(hm_handler_remove());
}

#define BUDGET MIB(6)

static void test_budget_random(void)
{
	check_places(20000, HM_POLICY_FAULT, BUDGET);
}

/* 2 GiB of page tables, if they stayed; where an access takes ten times as long, a part of it. */
static void test_terabyte(void)
{
	check_places((TEST_ASAN || TEST_TSAN ? TIB / 8 : TIB) / PLACE, HM_POLICY_FAULT,
		     MIB(512));
}

/* One piece larger than the budget comes in parts, and none of them is more than that. */
static void test_budget_piece(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");
	struct hm_piece pieces[2] = { { 3, MIB(48) }, { MIB(1), MIB(48) + 5 } };
	uint64_t before, most, total = pieces[0].bytes + pieces[1].bytes;
	AUTO_TEXT *out = malloc(total);
	struct hm_reader_desc desc;
	struct hm_reader *reader;
	uint32_t policy;
	AUTO(rig_handler) handler = rig_handler(0);

	CHECK_FATAL(out != NULL);
	file_sparse(folder, "data", MIB(64));
	for (policy = HM_POLICY_FAULT; policy <= HM_POLICY_POPULATE; policy++) {
		desc = reader_desc(HM_PATTERN_RANDOM, policy, 0, BUDGET);
		CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
		CHECK(reader_info(reader).map != NULL);
		memset(out, 1, total);
		before = reader_held();
		CHECK_OK(hm_reader_gather(reader, pieces, 2, out));
		most = reader_held() - before;
		CHECK(is_zero(out, 0, total));
		if (!TEST_ASAN && !TEST_TSAN && most > BUDGET + SLACK)
			test_fail(__FILE__, __LINE__, "%s had %llu bytes",
				  hm_policy_name(policy), (unsigned long long)most);
		CHECK(reader_info(reader).peak <= BUDGET);
		hm_reader_unref(reader);
	}
}

static void touch(const void *data, uint64_t bytes)
{
	const volatile char *byte = data;
	uint64_t i;

	for (i = 0; i < bytes; i += PAGE)
		(void)byte[i];
}

static void test_budget_sequential(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");
	struct hm_reader_desc desc;
	struct hm_reader_info info;
	struct hm_reader *reader;
	uint64_t before, held, most, bytes, total, anonymous;
	const void *data;
	uint32_t policy;

	file_sparse(folder, "data", MIB(64));
	for (policy = HM_POLICY_FAULT; policy <= HM_POLICY_DIRECT; policy++) {
		if (!reader_can(path, policy))
			continue;
		desc = reader_desc(HM_PATTERN_SEQUENTIAL, policy, 0, BUDGET);
		CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
		before = reader_held();
		anonymous = test_status_bytes("RssAnon");
		most = 0;
		total = 0;
		do {
			CHECK_OK_FATAL(hm_reader_next(reader, &data, NULL, &bytes));
			touch(data, bytes);
			total += bytes;
			held = reader_held();
			/* A ring is there from the start, and shrinks as it is read. */
			if (held > before && held - before > most)
				most = held - before;
		} while (bytes);
		CHECK_EQUAL(total, MIB(64));
		most += test_status_bytes("RssAnon") > anonymous ?
				test_status_bytes("RssAnon") - anonymous :
				0;
		if (!TEST_ASAN && !TEST_TSAN && most > BUDGET + SLACK)
			test_fail(__FILE__, __LINE__, "%s had %llu bytes",
				  hm_policy_name(policy), (unsigned long long)most);
		info = reader_info(reader);
		CHECK(info.peak <= BUDGET && info.peak > MIB(1) / 2);
		hm_reader_unref(reader);
	}
	/* Too little: said, with the figure, which then is enough. */
	for (policy = HM_POLICY_FAULT; policy <= HM_POLICY_DIRECT; policy++) {
		const char *least;

		if (!reader_can(path, policy))
			continue;
		desc = reader_desc(HM_PATTERN_SEQUENTIAL, policy, 0, PAGE);
		CHECK_ERROR(-ENOBUFS, hm_reader_open(path, &desc, &reader));
		least = strrchr(hm_errmsg(), ':');
		CHECK_FATAL(least != NULL);
		desc.budget = strtoull(least + 1, NULL, 10);
		CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
		CHECK_OK(hm_reader_next(reader, &data, NULL, &bytes));
		CHECK_EQUAL(bytes, PAGE);
		CHECK(reader_info(reader).peak <= desc.budget);
		hm_reader_unref(reader);
	}
}

/* ---- in the user's hands ---- */

#define HELD_SIZE MIB(64)
#define HELD_BUDGET MIB(16)
#define BLOCK 65536ull

/* Some of each block, which are more than the budget has room for. */
static void gather_all_but(struct hm_reader *reader, uint64_t not )
{
	struct hm_piece piece = { .bytes = 100 };
	char out[100];

	for (; piece.offset < HELD_SIZE; piece.offset += BLOCK) {
		if (piece.offset == not )
			continue;
		CHECK_OK_FATAL(hm_reader_gather(reader, &piece, 1, out));
		reader_check_pieces(&piece, 1, out);
	}
}

static uint64_t locked_of(struct hm_map *map)
{
	struct hm_map_info info = { .struct_size = sizeof(info), .fields = HM_MAP_LOCKED };

	CHECK_OK(hm_map_query(map, &info));
	return info.locked;
}

/* Locked and protected pages stay so: beyond the budget the file is read. */
static void test_held(void)
{
	struct hm_reader_desc desc =
		reader_desc(HM_PATTERN_RANDOM, HM_POLICY_FAULT, 0, HELD_BUDGET);
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", HELD_SIZE);
	const struct hm_piece far = { HELD_SIZE - PAGE, PAGE };
	AUTO(hm_reader) *reader = NULL;
	uint64_t locked = 0;
	struct hm_map *map;
	AUTO(rig_handler) handler = rig_handler(0);

	CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
	map = reader_info(reader).map;
	CHECK_FATAL(map != NULL);
	CHECK_OK(hm_map_lock(map, PAGE, 2 * PAGE, 0, &locked));
	CHECK_EQUAL(locked, 2 * PAGE);
	gather_all_but(reader, UINT64_MAX);
	CHECK_EQUAL(locked_of(map), 2 * PAGE);
	CHECK(reader_info(reader).flags & HM_READER_HELD);
	CHECK(reader_info(reader).peak <= HELD_BUDGET);
	CHECK_ERROR(-EBUSY, hm_reader_announce(reader, &far, 1));
	CHECK(strstr(hm_errmsg(), "budget"));

	CHECK_OK(hm_map_unlock(map, PAGE, 2 * PAGE));
	CHECK_OK(hm_reader_announce(reader, &far, 1));
	CHECK(!(reader_info(reader).flags & HM_READER_HELD));
	CHECK_OK(hm_map_protect(map, HELD_SIZE / 2, PAGE, HM_NONE));
	gather_all_but(reader, HELD_SIZE / 2);
	CHECK(reader_info(reader).flags & HM_READER_HELD);
	CHECK_EQUAL(test_read_signal((char *)hm_map_address(map) + HELD_SIZE / 2), SIGSEGV);
}

static const struct test tests[] = {
	{ "offsets", test_offsets, 30, 0 },
	{ "random", test_budget_random, 60, TEST_ONCE },
	{ "terabyte", test_terabyte, 120, TEST_ONCE },
	{ "piece", test_budget_piece, 60, TEST_ONCE },
	{ "sequential", test_budget_sequential, 60, TEST_ONCE },
	{ "held", test_held, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "reader_budget", tests)
