// SPDX-License-Identifier: MIT
/* Tokens of files that are larger than what their maps may take. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader_support.h"
#include "tokens_support.h"

#define FILE_SIZE (4 * GIB)
#define BUDGET (6 * MIB)
/* What malloc(), the tables of its own and the kernel's rounding may add. */
#define SLACK MIB
#define STEP (MIB / 2) /* tokens, of two bytes: 1 MiB */

/* Zeros, with a token of its own at each MiB. */
static char *make_file(const char *folder, const char *name, uint64_t size)
{
	char *path = folder_path(folder, name);
	uint64_t i;
	int fd;

	file_sparse(folder, name, size);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	for (i = 0; i < size / MIB; i++) {
		uint16_t token = (uint16_t)(i + 1);

		CHECK_EQUAL(pwrite(fd, &token, sizeof(token), (off_t)(i * MIB)), sizeof(token));
	}
	close(fd);
	return path;
}

static struct hm_tokens *open_within(const char *const *paths, uint32_t n, uint64_t budget)
{
	const struct hm_tokens_desc desc = { .struct_size = sizeof(desc), .budget = budget };
	struct hm_tokens *tokens = NULL;

	CHECK_OK_FATAL(hm_tokens_open(paths, n, &desc, &tokens));
	return tokens;
}

/* 64 tokens around each MiB's first; returns the most that the files' maps had. */
static uint64_t read_steps(struct hm_tokens *tokens, uint64_t n, uint64_t before)
{
	uint64_t i, most = 0;
	int64_t values[64];

	for (i = 1; i < n; i++) {
		memset(values, 1, sizeof(values));
		CHECK_OK_FATAL(hm_tokens_read(tokens, i * STEP - 32, 64, HM_DTYPE_I64, values));
		CHECK_EQUAL(values[32], (i + 1) % 65536);
		CHECK(!values[0] && !values[31] && !values[33] && !values[63]);
		if (before && reader_held() > before + most)
			most = reader_held() - before;
	}
	return most;
}

static void random_places(void)
{
	char *folder = folder_make(), *path = make_file(folder, "data", FILE_SIZE);
	struct hm_tokens *tokens;
	uint64_t most;

	CHECK_OK_FATAL(hm_handler_install(0));
	tokens = open_within((const char *const[]){ path }, 1, BUDGET);
	CHECK_EQUAL(tokens_info(tokens).budget, BUDGET);
	most = read_steps(tokens, FILE_SIZE / MIB, reader_held());
	/* It is taken out of the map, and more than once given back. */
	if (!TEST_ASAN && !TEST_TSAN && (most > BUDGET + SLACK || most < BUDGET / 4))
		test_fail(__FILE__, __LINE__, "it had %llu bytes", (unsigned long long)most);
	hm_tokens_unref(tokens);
	CHECK_OK(hm_handler_remove());
	free(path);
	folder_remove(folder);
}

/* A block that is longer than the budget is read; of several shards each has its part. */
static void long_blocks(void)
{
	char *folder = folder_make();
	char *a = make_file(folder, "a", 64 * MIB), *b = make_file(folder, "b", 16 * MIB);
	uint64_t n = 20 * STEP, i, before, most;
	struct hm_tokens *tokens;
	uint16_t *values = malloc(n * sizeof(*values));

	CHECK_FATAL(values != NULL);
	CHECK_OK_FATAL(hm_handler_install(0));
	tokens = open_within((const char *const[]){ a, b }, 2, BUDGET);
	memset(values, 1, n * sizeof(*values));
	before = reader_held();
	/* The last 10 MiB of one, and the first 10 of the other. */
	CHECK_OK(hm_tokens_read(tokens, 54 * STEP, n, HM_DTYPE_U16, values));
	most = reader_held() - before;
	for (i = 0; i < 20; i++)
		CHECK_EQUAL(values[i * STEP], i < 10 ? 55 + i : i - 9);
	if (!TEST_ASAN && !TEST_TSAN && most > BUDGET + SLACK)
		test_fail(__FILE__, __LINE__, "it had %llu bytes", (unsigned long long)most);
	hm_tokens_unref(tokens);
	CHECK_OK(hm_handler_remove());
	free(values);
	free(a);
	free(b);
	folder_remove(folder);
}

static void *read_some(void *tokens)
{
	read_steps(tokens, 512, 0);
	return NULL;
}

/* Some touch what others give back: they find the same bytes. */
static void threads(void)
{
	char *folder = folder_make(), *path = make_file(folder, "data", GIB / 2);
	struct hm_tokens *tokens;
	pthread_t thread[4];
	uint64_t before, most;
	int i;

	CHECK_OK_FATAL(hm_handler_install(0));
	tokens = open_within((const char *const[]){ path }, 1, BUDGET);
	before = reader_held();
	for (i = 0; i < 4; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, read_some, tokens));
	for (i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	most = reader_held() > before ? reader_held() - before : 0;
	/* Four stacks more. */
	if (!TEST_ASAN && !TEST_TSAN && most > BUDGET + 2 * SLACK)
		test_fail(__FILE__, __LINE__, "it had %llu bytes", (unsigned long long)most);
	hm_tokens_unref(tokens);
	CHECK_OK(hm_handler_remove());
	free(path);
	folder_remove(folder);
}

static struct hm_map *map_of(struct hm_tokens *tokens)
{
	struct hm_tokens_shard_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_tokens_shard(tokens, 0, &info));
	return info.map;
}

/* Too little for a map, or in Fortran's order: pread(2). Enough for all: no account. */
static void chosen(void)
{
	char *folder = folder_make(), *path = make_file(folder, "data", 16 * MIB), *rows;
	const uint64_t n = MIB;
	uint16_t *values = calloc(n, sizeof(*values));
	struct hm_tokens *tokens;
	int64_t value = 0;

	CHECK_FATAL(values != NULL);
	CHECK_OK_FATAL(hm_handler_install(0));
	tokens = open_within((const char *const[]){ path }, 1, 4096);
	CHECK(!map_of(tokens));
	read_steps(tokens, 16, 0);
	hm_tokens_unref(tokens);

	tokens = open_within((const char *const[]){ path }, 1, 0);
	CHECK(map_of(tokens) && tokens_info(tokens).budget >= 16 * MIB);
	hm_tokens_unref(tokens);

	values[1] = 7;
	rows = tokens_npy(folder, "rows.npy", 1, "<u2", true, "(1024, 1024)", values,
			  n * sizeof(*values));
	tokens = open_within((const char *const[]){ rows }, 1, MIB);
	CHECK(!map_of(tokens));
	CHECK_OK(hm_tokens_read(tokens, 1024, 1, HM_DTYPE_I64, &value));
	CHECK_EQUAL(value, 7);
	hm_tokens_unref(tokens);
	tokens = open_within((const char *const[]){ rows }, 1, 4 * MIB);
	CHECK(map_of(tokens) != NULL);
	hm_tokens_unref(tokens);
	CHECK_OK(hm_handler_remove());
	free(values);
	free(rows);
	free(path);
	folder_remove(folder);
}

static const struct test tests[] = {
	{ "random_places", random_places, 60, TEST_ONCE },
	{ "long_blocks", long_blocks, 60, TEST_ONCE },
	{ "threads", threads, 60, TEST_ONCE },
	{ "chosen", chosen, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "tokens_budget", tests);
}
