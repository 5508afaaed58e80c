// SPDX-License-Identifier: MIT
/* Budgets of readers and tokens hold where one fault maps much. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include "reader/reader_support.h"
#include "format/tokens_support.h"

#define BUDGET MIB(6)
/* Slack for malloc(), the library's tables and the kernel's rounding. */
#define SLACK MIB(1)
#define SIZE MIB(64)

/* By one call, which large folios are made of where the file system has some. */
static char *write_file(const char *folder)
{
	char *path = folder_path(folder, "data"), *data = malloc(SIZE);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK_FATAL(data != NULL && fd >= 0);
	reader_fill(data, 0, SIZE);
	CHECK_FATAL(write(fd, data, SIZE) == (ssize_t)SIZE);
	close(fd);
	free(data);
	return path;
}

/* Bytes that the read of one byte maps. */
static uint64_t mapped_by_a_fault(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *room = mmap(NULL, SIZE + PLACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t before, after;
	volatile char *bytes;

	CHECK_FATAL(fd >= 0 && room != MAP_FAILED);
	bytes = mmap(room + (PLACE - (uintptr_t)room % PLACE), SIZE, PROT_READ,
		     MAP_SHARED | MAP_FIXED, fd, 0);
	CHECK_FATAL(bytes != MAP_FAILED);
	before = reader_held();
	(void)bytes[5 * PLACE + 12345];
	after = reader_held();
	munmap(room, SIZE + PLACE);
	close(fd);
	return after - before;
}

static bool is_within(uint64_t before, const char *what)
{
	uint64_t now = reader_held();

	if (!TEST_ASAN && !TEST_TSAN && now > before + BUDGET + SLACK)
		test_fail(__FILE__, __LINE__, "%s had %llu bytes", what,
			  (unsigned long long)(now - before));
	return now <= before + BUDGET + SLACK || TEST_ASAN || TEST_TSAN;
}

/* A byte of each page table's, by a reader. */
static void check_reader(const char *path)
{
	struct hm_reader_desc desc = reader_desc(HM_PATTERN_RANDOM, HM_POLICY_FAULT, 0, BUDGET);
	struct hm_piece piece = { 0, 1 };
	AUTO(hm_reader) *reader = NULL;
	uint64_t before;
	char byte;

	CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
	CHECK(reader_info(reader).map != NULL);
	before = reader_held();
	for (piece.offset = 7; piece.offset < SIZE; piece.offset += PLACE) {
		CHECK_OK_FATAL(hm_reader_gather(reader, &piece, 1, &byte));
		CHECK(reader_is_data(&byte, piece.offset, 1));
		if (!is_within(before, "a reader"))
			break;
	}
	CHECK(reader_info(reader).peak <= BUDGET);
}

static void check_tokens(const char *path)
{
	const struct hm_tokens_desc desc = { .struct_size = sizeof(desc), .budget = BUDGET };
	AUTO(hm_tokens) *tokens = tokens_open(path, &desc);
	struct hm_tokens_shard_info info = { .struct_size = sizeof(info) };
	uint64_t before = reader_held(), at;
	uint16_t values[8];

	CHECK_OK(hm_tokens_shard(tokens, 0, &info));
	CHECK(info.map != NULL);
	for (at = 0; at < SIZE; at += PLACE) {
		CHECK_OK_FATAL(hm_tokens_read(tokens, at / 2, 8, HM_DTYPE_U16, values));
		CHECK(reader_is_data(values, at, sizeof(values)));
		if (!is_within(before, "tokens"))
			break;
	}
}

static void check_budgets(const char *path)
{
	CHECK_OK_FATAL(hm_handler_install(0));
	check_reader(path);
	check_tokens(path);
	CHECK_OK(hm_handler_remove());
}

static void test_written(void)
{
	AUTO_TEXT *folder = folder_make(), *path = write_file(folder);

	check_budgets(path);
}

static void test_huge_pages(void)
{
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	uint64_t mapped;

	if (!folder_mount("faults", folder, "tmpfs", 0, "size=128m,huge=always,mode=777"))
		return;
	path = write_file(folder);
	mapped = mapped_by_a_fault(path);
	if (mapped > MIB(1))
		check_budgets(path);
	else
		test_skip("kernel", "tmpfs with huge pages maps %llu bytes by a fault",
			  (unsigned long long)mapped);
	unlink(path);
	umount2(folder, MNT_DETACH);
}

static const struct test tests[] = {
	{ "written", test_written, 60, TEST_ONCE },
	{ "huge_pages", test_huge_pages, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "reader_faults", tests)
