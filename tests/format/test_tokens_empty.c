// SPDX-License-Identifier: MIT
/* Files without tokens among files with tokens. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/access.h>

#include "format/tokens_support.h"
#include "lib/inject.h"

#define UNTOUCHED ((void *)0x10)
#define SHARDS 8
#define HEADER 6

/*
 * Empty files are first, in between and last. Of the .npy files without elements some have another
 * type.
 */
static void make(const char *folder, char *path[SHARDS])
{
	path[0] = tokens_file(folder, "0", 0, 0);
	path[1] = tokens_file(folder, "1", 0, 1000);
	path[2] = tokens_npy(folder, "2.npy", 1, "<f8", false, "(0,)", "", 0);
	path[3] = tokens_npy(folder, "3.npy", 1, "<u2", true, "(3, 0)", "", 0);
	path[4] = tokens_file(folder, "4", 0, 0);
	path[5] = tokens_file(folder, "5", 1000, 1);
	path[6] = tokens_file(folder, "6", 1001, 700);
	path[7] = tokens_file(folder, "7", 0, 0);
}

static void check_values(struct hm_tokens *tokens)
{
	int64_t values[1701];
	uint64_t i;

	CHECK_OK_FATAL(hm_tokens_read(tokens, 0, 1701, HM_DTYPE_I64, values));
	for (i = 0; i < 1701 && values[i] == token_at(i); i++)
		;
	CHECK_EQUAL(i, 1701);
}

static void check_batches(struct hm_tokens *tokens, uint32_t way)
{
	struct hm_batches_info info = { .struct_size = sizeof(info) };
	int64_t x[1700], y[1700];
	AUTO(hm_batches) *batches = NULL;
	uint64_t i;

	CHECK_OK_FATAL(hm_batches_create(tokens,
					 DESC(hm_batches_desc, .order = HM_BATCHES_IN_ORDER,
					      .block = 100, .batch = 17),
					 &batches));
	CHECK_OK(hm_batches_next(batches, x, y, NULL));
	for (i = 0; i < 1700 && x[i] == token_at(i) && y[i] == token_at(i + 1); i++)
		;
	CHECK_EQUAL(i, 1700);
	CHECK_OK(hm_batches_query(batches, &info));
	CHECK_EQUAL(info.way, way);
	/* Files without a map because they are empty are no reason to read. */
	CHECK(way == HM_BATCHES_MAPPED || strstr(info.why, "no handler"));
}

static void among_others(void)
{
	struct hm_tokens_shard_info shard = { .struct_size = sizeof(shard) };
	static const uint64_t n[SHARDS] = { 0, 1000, 0, 0, 0, 1, 700, 0 };
	char *folder = folder_make(), *path[SHARDS];
	struct hm_tokens *tokens;
	uint64_t first = 0;
	uint32_t i;

	make(folder, path);
	CHECK_OK_FATAL(hm_tokens_open((const char *const *)path, SHARDS, NULL, &tokens));
	CHECK_EQUAL(tokens_info(tokens).tokens, 1701);
	CHECK_EQUAL(tokens_info(tokens).dtype, HM_DTYPE_U16);
	CHECK_EQUAL(tokens_info(tokens).shards, SHARDS);
	for (i = 0; i < SHARDS; i++) {
		CHECK_OK(hm_tokens_shard(tokens, i, &shard));
		CHECK(!strcmp(shard.path, path[i]));
		CHECK_EQUAL(shard.tokens, n[i]);
		CHECK_EQUAL(shard.first, first);
		first += n[i];
	}
	check_values(tokens);
	check_batches(tokens, HM_BATCHES_READ);
	CHECK_OK_FATAL(hm_handler_install(0));
	check_values(tokens);
	check_batches(tokens, HM_BATCHES_MAPPED);
	CHECK_OK(hm_handler_remove());
	hm_tokens_unref(tokens);
	for (i = 0; i < SHARDS; i++)
		free(path[i]);
	folder_remove(folder);
}

/* A budget that counts maps: files that are touched have an account, empty ones have none. */
static void within_budget(void)
{
	char *folder = folder_make(), *path[3];
	int64_t *values = calloc(300000, sizeof(*values));
	struct hm_tokens *tokens;
	uint64_t i;

	CHECK_FATAL(values != NULL);
	path[0] = tokens_file(folder, "0", 0, 150000);
	path[1] = tokens_file(folder, "1", 0, 0);
	path[2] = tokens_file(folder, "2", 150000, 150000);
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_OK_FATAL(hm_tokens_open((const char *const *)path, 3,
				      DESC(hm_tokens_desc, .budget = 1 << 16), &tokens));
	CHECK_OK(hm_tokens_read(tokens, 0, 300000, HM_DTYPE_I64, values));
	for (i = 0; i < 300000 && values[i] == token_at(i); i++)
		;
	CHECK_EQUAL(i, 300000);
	hm_tokens_unref(tokens);
	CHECK_OK(hm_handler_remove());
	for (i = 0; i < 3; i++)
		free(path[i]);
	free(values);
	folder_remove(folder);
}

/* A file with a header only has no tokens. Part of a header is an error. */
static void header_only(void)
{
	const struct hm_tokens_desc desc = { .struct_size = sizeof(desc), .offset = HEADER };
	char *folder = folder_make(), *path[3];
	struct hm_tokens *tokens;

	path[0] = tokens_file(folder, "0", 0, HEADER / 2);
	path[1] = tokens_file(folder, "1", 0, HEADER / 2 + 5);
	path[2] = tokens_file(folder, "2", 0, HEADER / 2 - 1);
	CHECK_OK_FATAL(hm_tokens_open((const char *const *)path, 2, &desc, &tokens));
	CHECK_EQUAL(tokens_info(tokens).tokens, 5);
	hm_tokens_unref(tokens);
	CHECK_ERROR(-EBADMSG, hm_tokens_open((const char *const *)path, 3, &desc, &tokens));
	free(path[0]);
	free(path[1]);
	free(path[2]);
	folder_remove(folder);
}

/* If all files are empty, nothing can be opened. The type is that of files with tokens. */
static void refused(void)
{
	struct hm_tokens *tokens = UNTOUCHED;
	char *folder = folder_make(), *path[SHARDS];
	const char *two[3];
	uint32_t i;

	make(folder, path);
	CHECK_ERROR(-ENODATA, hm_tokens_open((const char *const *)path, 1, NULL, &tokens));
	CHECK(strstr(hm_errmsg(), path[0]) && strstr(hm_errmsg(), " is empty: there is no"));
	CHECK_ERROR(-ENODATA, hm_tokens_open((const char *const *)path + 2, 3, NULL, &tokens));
	CHECK(strstr(hm_errmsg(), " and the other files are empty") != NULL);
	two[0] = path[0];
	two[1] = path[1];
	two[2] = tokens_npy(folder, "i4.npy", 1, "<i4", false, "(2,)", "abcdefgh", 8);
	CHECK_ERROR(-EINVAL, hm_tokens_open(two, 3, NULL, &tokens));
	CHECK(strstr(hm_errmsg(), "are of I32, and those of ") && strstr(hm_errmsg(), path[1]));
	CHECK(tokens == UNTOUCHED);
	free((char *)two[2]);
	for (i = 0; i < SHARDS; i++)
		free(path[i]);
	folder_remove(folder);
}

/* Refuses the file whose path ends in "/1", as if there were no data in it. */
static int no_data(void *user, const struct hm_access_request *request, char *reason)
{
	size_t length = request->path ? strlen(request->path) : 0;

	(void)user;
	(void)reason;
	return length > 2 && !strcmp(request->path + length - 2, "/1") ? -ENODATA : 0;
}

/* Only a file of 0 bytes is empty. A refusal and a failure that have the same errno are errors. */
static void same_errno(void)
{
	char *folder = folder_make(), *path[2];
	struct hm_tokens *tokens = UNTOUCHED;
	int k;

	for (k = 0; k < 2; k++) {
		path[0] = tokens_file(folder, "0", 0, 1000);
		path[1] = tokens_file(folder, "1", 1000, k ? 0 : 700);
		CHECK_OK(hm_access_hook_set(no_data, NULL));
		CHECK_ERROR(-ENODATA,
			    hm_tokens_open((const char *const *)path, 2, NULL, &tokens));
		CHECK(strstr(hm_errmsg(), "the access hook refused"));
		CHECK_OK(hm_access_hook_set(NULL, NULL));
		free(path[0]);
		free(path[1]);
	}
	path[0] = tokens_file(folder, "1", 0, 700);
	inject_install();
	inject_some("open", ENODATA, 1);
	CHECK_ERROR(-ENODATA, hm_tokens_open((const char *const *)path, 1, NULL, &tokens));
	CHECK(inject_disarm());
	CHECK(strstr(hm_errmsg(), path[0]) && !strstr(hm_errmsg(), "empty"));
	CHECK(tokens == UNTOUCHED);
	free(path[0]);
	folder_remove(folder);
}

/* The command: batches of the rest, and the tokens of each file. */
static void command(void)
{
	char *folder = folder_make(), *path[SHARDS];
	struct command feed = { .args = { "run", "tokens", "--block=100", "--batch=4" } };
	struct command look = { .args = { "inspect", "--dtype=u2" } };
	AUTO(outcome) outcome = { 0 };
	uint32_t i;

	make(folder, path);
	for (i = 0; i < SHARDS; i++) {
		feed.args[4 + i] = path[i];
		look.args[2 + i] = path[i];
	}
	CHECK_RUN(0, &outcome, &feed);
	CHECK(strstr(outcome.out, "1,701 tokens of U16") != NULL);
	CHECK_RUN(0, &outcome, &look);
	CHECK(strstr(outcome.out, "in all: 1,701 tokens of U16") != NULL);
	CHECK(strstr(outcome.out, "\n  0 bytes, of which the header takes 0 bytes\n") != NULL);
	/* A .npy file, without --dtype. */
	free(path[1]);
	path[1] = tokens_npy(folder, "i4.npy", 1, "<i4", false, "(2,)", "abcdefgh", 8);
	look = (struct command){ .args = { "inspect", path[0], path[1] } };
	CHECK_RUN(0, &outcome, &look);
	for (i = 0; i < SHARDS; i++)
		free(path[i]);
	folder_remove(folder);
}

static const struct test tests[] = {
	{ "among_others", among_others, 0, 0 },
	{ "within_budget", within_budget, 0, 0 },
	{ "header_only", header_only, 0, 0 },
	{ "refused", refused, 0, 0 },
	{ "same_errno", same_errno, 0, 0 },
	{ "command", command, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "tokens_empty", tests)
