// SPDX-License-Identifier: MIT
/* hetmap run tokens --vocab: a wrong type, a header that is not skipped, a token too large. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/tokens_support.h"

#define N_TOKEN 20000
#define VOCAB "50257"

/* Makes FOLDER/NAME with tokens of @width bytes, all below 50,257, except number @at: @odd. */
static char *make(const char *folder, const char *name, size_t width, size_t at, int64_t odd)
{
	AUTO_TEXT *bytes = calloc(N_TOKEN, width);
	int64_t value;
	size_t i;

	CHECK_FATAL(bytes != NULL);
	for (i = 0; i < N_TOKEN; i++) {
		value = i == at ? odd : (int64_t)(i * 31 % 50257);
		memcpy(bytes + i * width, &value, width);
	}
	file_write(folder, name, bytes, N_TOKEN * width);
	return folder_path(folder, name);
}

static void told(const char *option, const char *path, int status, const char *text)
{
	const struct command command = {
		.args = { "run", "tokens", "--vocab", VOCAB, "--block=100", "--batch=4",
			  "--order=in-order", path, option },
	};
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(status, &outcome, &command);
	if (!strstr(status ? outcome.err : outcome.out, text))
		test_fail(__FILE__, __LINE__, "no \"%s\" in: %s%s", text, outcome.out,
			  outcome.err);
}

static void below(void)
{
	struct command command = { .args = { "run", "tokens", "--json", "--vocab", VOCAB,
					     "--block=100" } };
	AUTO_TEXT *folder = folder_make(), *path = make(folder, "a", 2, 7, 50256);
	AUTO(outcome) outcome = { 0 };
	json_t *json;

	told(NULL, path, 0, "below 50,257: tokens of the batches, and the first 4096 of each");
	command.args[6] = path;
	command_run(&command, &outcome);
	json = outcome_json(&outcome);
	CHECK_EQUAL(integer_of(json, "vocab"), 50257);
	json_decref(json);
	/* Without the option the report has no vocabulary. */
	command.args[3] = "--block=100";
	command.args[4] = path;
	command.args[5] = NULL;
	command_run(&command, &outcome);
	json = outcome_json(&outcome);
	CHECK(json_is_null(json_object_get(json, "vocab")));
	json_decref(json);
}

/*
 * Tokens of 4 bytes, read as 2 bytes: each other one is 0, and none is too large. Read as 8 bytes,
 * all are too large.
 */
static void wrong(void)
{
	static const char header[64] = "a header of text, which is no tokens";
	AUTO_TEXT *folder = folder_make(), *bytes = NULL;
	char *path = make(folder, "u4", 4, 0, 0);
	FILE *file;

	told("--dtype=u4", path, 0, "verified");
	told("--dtype=u8", path, 2, "token 0 of '");
	told("--dtype=u8", path, 2, "--dtype, --byte-order and --offset");
	told("--dtype=f4", path, 2, "a vocabulary is of integers, and the tokens are of F32");
	told("--byte-order=big", path, 2, "as U16, and --vocab is 50257");
	free(path);
	/* A header that is not skipped is found before a batch is made, shuffled or not. */
	path = folder_path(folder, "headed");
	file = fopen(path, "w");
	CHECK_FATAL(file != NULL);
	bytes = calloc(N_TOKEN, 4);
	CHECK_FATAL(bytes && fwrite(header, 1, sizeof(header), file) == sizeof(header));
	CHECK_FATAL(fwrite(bytes, 4, N_TOKEN, file) == N_TOKEN && !fclose(file));
	told("--dtype=u4", path, 2, "token 0 of '");
	free(path);
}

/*
 * The message has the place of the first token outside the vocabulary in the batches: too large or
 * negative, and in a .npy file.
 */
static void places(void)
{
	char *folder = folder_make(), *path = make(folder, "far", 2, 12345, 50257);
	int32_t values[2000] = { 0 };

	told(NULL, path, 2, "token 12345 is 50257, and the vocabulary has 50257");
	told(NULL, path, 2, "or --vocab wrong?");
	/* The token is in no batch that is fed, and not among the first 4096: nothing checks it. */
	told("--batches=2", path, 0, "verified");
	free(path);
	path = make(folder, "negative", 4, 4095, -100);
	told("--dtype=i4", path, 2, "token 4,095 of '");
	told("--dtype=i4", path, 2, "is -100 as I32");
	free(path);
	values[1999] = 60000;
	path = tokens_npy(folder, "a.npy", 1, "<i4", false, "(2000,)", values, sizeof(values));
	told(NULL, path, 2, "token 1,999 of '");
	told(NULL, path, 2, "is the file of another one?");
	free(path);
	folder_remove(folder);
}

static void usage(void)
{
	static const struct {
		const char *args[6];
		const char *says;
	} cases[] = {
		{ { "run", "tokens", "--vocab", "0", "x" }, "a number from 1 to 4294967295" },
		{ { "run", "load", "--vocab", "5", "x" }, "--vocab is an option of tokens" },
	};
	AUTO(outcome) outcome = { 0 };
	struct command command;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		command = (struct command){ 0 };
		memcpy(command.args, cases[i].args, sizeof(cases[i].args));
		CHECK_RUN(2, &outcome, &command);
		CHECK(strstr(outcome.err, cases[i].says) != NULL);
	}
}

static const struct test tests[] = {
	{ "below", below, 60, 0 }, { "wrong", wrong, 60, 0 }, { "places", places, 60, 0 },
	{ "usage", usage, 60, 0 }, { NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "command_vocabulary", tests)
