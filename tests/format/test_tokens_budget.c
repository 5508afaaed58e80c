// SPDX-License-Identifier: MIT
/* Tokens of files that are larger than the budget of their maps. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader/reader_support.h"
#include "format/tokens_support.h"

#define FILE_SIZE GIB(4)
#define BUDGET MIB(6)
/* Slack for malloc(), the library's tables and the kernel's rounding. */
#define SLACK MIB(1)
#define STEP (MIB(1) / 2) /* tokens, of two bytes: 1 MiB */

/* Zeros, with a token of its own at each MiB. */
static char *make_file(const char *folder, const char *name, uint64_t size)
{
	char *path = folder_path(folder, name);
	uint64_t i;
	int fd;

	file_sparse(folder, name, size);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	for (i = 0; i < size / MIB(1); i++) {
		uint16_t token = (uint16_t)(i + 1);

		CHECK_EQUAL(pwrite(fd, &token, sizeof(token), (off_t)(i * MIB(1))),
			    sizeof(token));
	}
	close(fd);
	return path;
}

static struct hm_tokens *open_within(const char *const *paths, uint32_t n, uint64_t budget)
{
	struct hm_tokens *tokens = NULL;

	CHECK_OK_FATAL(
		hm_tokens_open(paths, n, DESC(hm_tokens_desc, .budget = budget), &tokens));
	return tokens;
}

/* Bytes of file maps and page tables beyond @before. */
static uint64_t held_since(uint64_t before)
{
	uint64_t now = reader_held();

	return now > before ? now - before : 0;
}

static void check_held(uint64_t most, uint64_t allowed)
{
	if (!TEST_ASAN && !TEST_TSAN && most > allowed)
		test_fail(__FILE__, __LINE__, "it had %llu bytes", (unsigned long long)most);
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
		if (before && held_since(before) > most)
			most = held_since(before);
	}
	return most;
}

/* On tmpfs with huge pages a hole is memory: 2 MiB for each place. */
static bool is_huge_memory(const char *path)
{
	uint64_t hole = reader_bytes_of_a_hole(path);

	if (hole <= 16 * PAGE)
		return false;
	test_skip("kernel", "files here are memory, by pages of %llu bytes",
		  (unsigned long long)hole);
	return true;
}

static void random_places(void)
{
	AUTO_TEXT *folder = folder_make(), *path = make_file(folder, "data", FILE_SIZE);
	struct hm_tokens *tokens;

	if (is_huge_memory(path))
		return;
	CHECK_OK_FATAL(hm_handler_install(0));
	tokens = open_within((const char *const[]){ path }, 1, BUDGET);
	CHECK_EQUAL(tokens_info(tokens).budget, BUDGET);
	/* Tables of 8 MiB, if they stayed, and a page or 64 KiB for each place. */
	check_held(read_steps(tokens, FILE_SIZE / MIB(1), reader_held()), BUDGET + SLACK);
	hm_tokens_unref(tokens);
	CHECK_OK(hm_handler_remove());
}

static struct hm_map *map_of(struct hm_tokens *tokens)
{
	struct hm_tokens_shard_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_tokens_shard(tokens, 0, &info));
	return info.map;
}

#define PARTS MIB(12)

/* Two shards with blocks of 8 MiB, longer than their parts, and with shorter blocks. */
static void batches_within(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *a = make_file(folder, "a", MIB(32)), *b = make_file(folder, "b", MIB(16));
	const struct hm_batches_desc long_ones = {
		.struct_size = sizeof(long_ones),
		.order = HM_BATCHES_IN_ORDER,
		.dtype = HM_DTYPE_U16,
		.block = 8 * STEP + 3,
		.batch = 1,
	};
	struct hm_batches_desc desc = long_ones;
	struct hm_tokens *tokens = NULL;
	uint16_t *x = malloc(MIB(32)), *y = x + MIB(8);
	struct hm_batches *batches;
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	uint64_t i, j, n, before;

	CHECK_FATAL(x != NULL);
	if (is_huge_memory(a))
		goto out;
	CHECK_OK_FATAL(hm_handler_install(0));
	/* Long blocks go from one shard to the other. */
	for (n = 0; n < 2; n++) {
		if (n) {
			desc.block = STEP / 64;
			desc.batch = 64;
		}
		tokens = open_within((const char *const[]){ a, b }, 2, PARTS);
		CHECK(map_of(tokens) != NULL);
		CHECK_OK_FATAL(hm_batches_create(tokens, &desc, &batches));
		memset(x, 1, MIB(32));
		before = reader_held();
		for (i = 0; i < (n ? 46 : 5); i++) {
			CHECK_OK_FATAL(hm_batches_next(batches, x, y, &batch));
			for (j = 0; j < desc.block * desc.batch; j++) {
				uint64_t at = i * desc.block * desc.batch + j;

				if (x[j] != (at % STEP          ? 0 :
					     at / STEP + 1 > 32 ? at / STEP - 31 :
								  at / STEP + 1) ||
				    (j && (j % desc.block) && y[j - 1] != x[j])) {
					test_fail(__FILE__, __LINE__, "token %llu is %u",
						  (unsigned long long)at, x[j]);
					break;
				}
			}
			check_held(held_since(before), PARTS + SLACK);
		}
		hm_batches_unref(batches);
		hm_tokens_unref(tokens);
	}
	CHECK_OK(hm_handler_remove());
out:
	free(x);
}

static _Atomic int reading;

static void *read_some(void *tokens)
{
	read_steps(tokens, FILE_SIZE / MIB(1), 0);
	atomic_fetch_sub(&reading, 1);
	return NULL;
}

/* Some threads touch pages that others give back: they find the same bytes. */
static void threads(void)
{
	AUTO_TEXT *folder = folder_make(), *path = make_file(folder, "data", FILE_SIZE);
	struct hm_tokens *tokens;
	pthread_t thread[4];
	uint64_t before, most = 0;
	int i;

	if (is_huge_memory(path))
		return;
	CHECK_OK_FATAL(hm_handler_install(0));
	tokens = open_within((const char *const[]){ path }, 1, BUDGET);
	before = reader_held();
	atomic_store(&reading, 4);
	for (i = 0; i < 4; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, read_some, tokens));
	while (atomic_load(&reading)) {
		usleep(1000);
		if (held_since(before) > most)
			most = held_since(before);
	}
	for (i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	/* Four stacks, and malloc()'s memory of four threads. */
	check_held(most, BUDGET + 2 * SLACK);
	hm_tokens_unref(tokens);
	CHECK_OK(hm_handler_remove());
}

/* The reason for reading names the causes of that file, and no other's. */
static void check_why(struct hm_tokens *tokens, const char *cause)
{
	AUTO(hm_batches) *batches = NULL;
	int32_t x[BATCH * BLOCK], y[BATCH * BLOCK];

	CHECK_OK_FATAL(hm_batches_create(tokens, &batches_usual, &batches));
	CHECK_OK_FATAL(hm_batches_next(batches, x, y, NULL));
	CHECK_EQUAL(batches_info(batches).way, HM_BATCHES_READ);
	CHECK(strstr(batches_info(batches).why, cause) != NULL);
}

/* Too little for a map, or in Fortran's order: pread(2). Enough for all: no account. */
static void chosen(void)
{
	AUTO_TEXT *folder = folder_make(), *path = make_file(folder, "data", MIB(16)),
		  *rows = NULL;
	const uint64_t n = MIB(1);
	uint16_t *values = calloc(n, sizeof(*values));
	struct hm_tokens *tokens;
	int64_t value = 0;

	CHECK_FATAL(values != NULL);
	CHECK_OK_FATAL(hm_handler_install(0));
	tokens = open_within((const char *const[]){ path }, 1, 4096);
	CHECK(!map_of(tokens));
	read_steps(tokens, 16, 0);
	check_why(tokens, "as the budget has no room for the map;");
	hm_tokens_unref(tokens);

	tokens = open_within((const char *const[]){ path }, 1, 0);
	CHECK(map_of(tokens) && tokens_info(tokens).budget >= MIB(16));
	hm_tokens_unref(tokens);

	values[1] = 7;
	rows = tokens_npy(folder, "rows.npy", 1, "<u2", true, "(1024, 1024)", values,
			  n * sizeof(*values));
	tokens = open_within((const char *const[]){ rows }, 1, MIB(1));
	CHECK(!map_of(tokens));
	CHECK_OK(hm_tokens_read(tokens, 1024, 1, HM_DTYPE_I64, &value));
	CHECK_EQUAL(value, 7);
	hm_tokens_unref(tokens);
	tokens = open_within((const char *const[]){ rows }, 1, MIB(4));
	CHECK(map_of(tokens) != NULL);
	hm_tokens_unref(tokens);
	CHECK_OK(hm_handler_remove());
	tokens = open_within((const char *const[]){ path }, 1, 0);
	check_why(tokens, "as no handler of faults is in effect (see hm_handler_install);");
	hm_tokens_unref(tokens);
	free(values);
}

/* A map with a lock of the caller's is not given back: the rest is read. */
static void in_others_hands(void)
{
	int32_t x[BATCH * BLOCK], y[BATCH * BLOCK];
	AUTO_TEXT *folder = folder_make(), *path = make_file(folder, "data", FILE_SIZE / 4);
	AUTO(hm_batches) *batches = NULL;
	uint64_t locked = 0, i;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_tokens) *tokens = open_within((const char *const[]){ path }, 1, BUDGET);

	CHECK_OK(hm_map_lock(map_of(tokens), 0, PAGE, 0, &locked));
	read_steps(tokens, FILE_SIZE / 4 / MIB(1), 0);
	CHECK_OK(hm_map_unlock(map_of(tokens), 0, PAGE));
	CHECK_OK(hm_map_protect(map_of(tokens), PAGE, PAGE, HM_NONE));
	read_steps(tokens, FILE_SIZE / 4 / MIB(1), 0);
	CHECK_EQUAL(test_read_signal((char *)hm_map_address(map_of(tokens)) + PAGE), SIGSEGV);
	CHECK_OK(hm_map_protect(map_of(tokens), PAGE, PAGE, HM_READ));
	read_steps(tokens, FILE_SIZE / 4 / MIB(1), 0);
	/* All undone: out of the map again, as often as the budget is used up. */
	CHECK_OK_FATAL(hm_batches_create(tokens, &batches_usual, &batches));
	for (i = 0; i < 2 * BUDGET / 65536; i++)
		CHECK_OK_FATAL(hm_batches_next(batches, x, y, NULL));
	CHECK_EQUAL(batches_info(batches).mapped, batches_info(batches).filled);
}

/* Where tokens go is guarded also where they are read. */
static void not_to_be_written(void)
{
	AUTO_TEXT *folder = folder_make(), *path = make_file(folder, "data", MIB(16));
	AUTO(hm_tokens) *tokens = NULL;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = MIB(1)));
	AUTO(hm_map) *map = rig_map(buffer, NULL);

	CHECK_OK(hm_map_protect(map, 0, MIB(1), HM_READ));
	tokens = open_within((const char *const[]){ path }, 1, 4096);
	CHECK_ERROR(-EACCES,
		    hm_tokens_read(tokens, 0, 1000, HM_DTYPE_I64, hm_map_address(map)));
}

static const struct test tests[] = {
	{ "random_places", random_places, 60, TEST_ONCE },
	{ "batches_within", batches_within, 120, TEST_ONCE },
	{ "threads", threads, 120, TEST_ONCE },
	{ "in_others_hands", in_others_hands, 60, TEST_ONCE },
	{ "not_to_be_written", not_to_be_written, 60, 0 },
	{ "chosen", chosen, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "tokens_budget", tests)
