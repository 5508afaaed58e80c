// SPDX-License-Identifier: MIT
/* hetmap run tokens --documents: batches whose blocks keep within the documents of an index. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/tokens_support.h"

#define BLOCK_TEST 8

/* Tokens of each document. Rows of 8: 0, 1, 2, 0, 5 and 1. */
static const int32_t lengths[] = { 1, 5, 17, 0, 40, 2 };

#define DOCUMENTS (sizeof(lengths) / sizeof(lengths[0]))
/* Places behind an end: 4 of the second one, 1 of the fifth, 7 of the last. */
#define PADDING 12
#define ROWS 9

static void put(FILE *file, uint64_t value, size_t bytes)
{
	value = htole64(value);
	CHECK_EQUAL(fwrite(&value, bytes, 1, file), 1);
}

/* FOLDER/a.bin and FOLDER/a.idx, as Megatron-LM writes them; returns the path of the latter. */
static char *make_pair(const char *folder)
{
	char *index = folder_path(folder, "a.idx");
	FILE *file = fopen(index, "w");
	uint64_t i, total = 0;

	CHECK_FATAL(file != NULL);
	CHECK_EQUAL(fwrite("MMIDIDX\0\0", 9, 1, file), 1);
	put(file, 1, 8); /* version */
	put(file, 8, 1); /* uint16 */
	put(file, DOCUMENTS, 8);
	put(file, DOCUMENTS + 1, 8);
	for (i = 0; i < DOCUMENTS; i++)
		put(file, (uint64_t)lengths[i], 4);
	for (i = 0; i < DOCUMENTS; i++, total += (uint64_t)lengths[i - 1])
		put(file, total * sizeof(uint16_t), 8);
	for (i = 0; i <= DOCUMENTS; i++)
		put(file, i, 8);
	CHECK_EQUAL(fclose(file), 0);
	free(tokens_file(folder, "a.bin", 0, total));
	return index;
}

/* The sum of x over an epoch: all tokens but the last one of each document. */
static int64_t sum_of_x(void)
{
	uint64_t at = 0, i, k;
	int64_t sum = 0;

	for (i = 0; i < DOCUMENTS; at += (uint64_t)lengths[i++])
		for (k = 0; k + 1 < (uint64_t)lengths[i]; k++)
			sum += token_at(at + k);
	return sum;
}

/* An epoch in the order of the files has every row once: its sum and its padding are known. */
static void epoch(void)
{
	AUTO_TEXT *folder = folder_make(), *index = make_pair(folder);
	struct command command = { .args = { "run", "tokens", "--json", "--documents",
					     "--order", "in-order", "--block", "8", "--batch",
					     "3", "--batches", "3", index } };
	json_t *json = command_verified(&command), *documents;

	documents = json_object_get(json, "documents");
	CHECK_EQUAL(integer_of(documents, "count"), DOCUMENTS);
	CHECK_EQUAL(integer_of(documents, "padding"), PADDING);
	CHECK_EQUAL(integer_of(documents, "pad_x"), 0);
	CHECK_EQUAL(integer_of(documents, "pad_y"), -100);
	CHECK_EQUAL(integer_of(json, "tokens_fed"), ROWS * BLOCK_TEST);
	CHECK_EQUAL(integer_of(json, "sum"), sum_of_x());
	json_decref(json);

	/* Shuffled rows are the same rows; a type without negative numbers is padded with 0. */
	command.args[5] = "shuffled";
	command.args[13] = "--to=uint16";
	json = command_verified(&command);
	documents = json_object_get(json, "documents");
	CHECK_EQUAL(integer_of(documents, "padding"), PADDING);
	CHECK_EQUAL(integer_of(documents, "pad_y"), 0);
	CHECK_EQUAL(integer_of(json, "sum"), sum_of_x());
	json_decref(json);

	/* Any place of a document, on another device, and with a buffer that grows. */
	command.args[5] = "random";
	command.args[11] = "20";
	command.args[13] = "--device=soft:0";
	command.args[14] = "--ramp";
	json_decref(command_verified(&command));
}

static void shown(void)
{
	AUTO_TEXT *folder = folder_make(), *index = make_pair(folder);
	struct command command = { .args = { "run", "tokens", "--documents", "--order",
					     "in-order", "--block", "8", "--batch", "3",
					     "--batches", "3", index } };
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(0, &outcome, &command);
	CHECK(strstr(outcome.out, "  documents    6 in the files, each block within one; 12 "
				  "places of x") != NULL);
	CHECK(strstr(outcome.out, "16.7 %") != NULL);
	CHECK(strstr(outcome.out, "  verified ") != NULL);
}

/* A file without an index is one document; one of a single token has no block. */
static void alone(void)
{
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "plain", 0, 21);
	AUTO_TEXT *single = tokens_file(folder, "single", 0, 1);
	struct command command = { .args = { "run", "tokens", "--json", "--documents",
					     "--order", "in-order", "--block=8", "--batch=3",
					     "--batches=1", path } };
	json_t *json = command_verified(&command),
	       *documents = json_object_get(json, "documents");
	AUTO(outcome) outcome = { 0 };

	CHECK_EQUAL(integer_of(documents, "count"), 1);
	CHECK_EQUAL(integer_of(documents, "padding"), 4);
	json_decref(json);
	command.args[2] = "--quiet";
	command.args[9] = single;
	CHECK_RUN(2, &outcome, &command);
	CHECK(strstr(outcome.err, "leave --documents away") != NULL);
	command = (struct command){ .args = { "run", "histogram", "--documents", path } };
	CHECK_RUN(2, &outcome, &command);
	CHECK(strstr(outcome.err, "--documents is an option of tokens") != NULL);
}

static const struct test tests[] = {
	{ "epoch", epoch, 60, TEST_ONCE },
	{ "shown", shown, 60, TEST_ONCE },
	{ "alone", alone, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "command_documents", tests)
