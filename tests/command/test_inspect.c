// SPDX-License-Identifier: MIT
/* hetmap inspect: its output for files of each kind, and for those of none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/safetensors_support.h"
#include "lib/units.h"

#define NOBODY 65534

/* 64 pages of tensor behind a page of header, a small one, and one that is misaligned. */
static char *make_file(const char *folder)
{
	static const uint64_t large[] = { 64, 1024 }, small[] = { 3 };
	static const struct hm_metadata note = { "format", "p\x1bt" };
	struct hm_tensor_source sources[] = {
		{ "large", HM_DTYPE_F32, 2, large, NULL },
		{ "small", HM_DTYPE_U8, 1, small, "abc" },
		{ "scalar", HM_DTYPE_F16, 0, NULL, "de" },
	};
	char *path = folder_path(folder, "a.safetensors");
	void *bytes = calloc(64, PAGE);

	CHECK_FATAL(bytes != NULL);
	sources[0].data = bytes;
	CHECK_OK_FATAL(hm_safetensors_write(path, DESC(hm_safetensors_desc, .tensors = sources,
						       .n_tensors = 3, .metadata = &note,
						       .n_metadata = 1)));
	free(bytes);
	return path;
}

static void run(struct outcome *outcome, const char *a, const char *b, const char *c)
{
	const struct command command = { .args = { "inspect", a, b, c },
					 .env = { "LC_ALL=C" } };

	command_run(&command, outcome);
}

static void text(void)
{
	AUTO_TEXT *folder = folder_make(), *path = make_file(folder);
	AUTO(outcome) outcome = { 0 };

	CHECK(!chmod(folder, 0755) && !chmod(path, 0644));
	run(&outcome, path, NULL, NULL);
	CHECK_EQUAL(outcome.status, 0);
	CHECK(!*outcome.err);
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, "safetensors: 3 tensors of 256 KiB in 1 file\n") != NULL);
	CHECK(strstr(outcome.out, "  format: p\\x1bt\n") != NULL);
	/* The file was just written: all of it is in RAM. */
	CHECK_HAS(outcome.out, "  [##################################################]\n");
	CHECK(strstr(outcome.out, "KiB, 100%\n") != NULL);
	CHECK(strstr(outcome.out, "          4096   256 KiB  4096   100%  F32      64x1024 "
				  "       large\n") != NULL);
	CHECK(strstr(outcome.out, "scalar") && strstr(outcome.out, "small"));
	CHECK(strstr(outcome.out, "         2 at a multiple of 4096") != NULL);

	/* A row, and how many there are more. */
	run(&outcome, path, "-n", "1");
	CHECK_EQUAL(outcome.status, 0);
	CHECK(strstr(outcome.out, " large\n") && !strstr(outcome.out, " small\n"));
	CHECK(strstr(outcome.out, "and 2 more (-n 0 shows all)\n") != NULL);
}

static void json(void)
{
	AUTO_TEXT *folder = folder_make(), *path = make_file(folder);
	json_t *object, *part, *file, *classes;
	AUTO(outcome) outcome = { 0 };

	run(&outcome, "--json", path, NULL);
	CHECK_EQUAL(outcome.status, 0);
	object = outcome_json(&outcome);
	CHECK(!strcmp(string_of(object, "kind"), "safetensors"));
	CHECK_EQUAL(json_array_size(json_object_get(object, "parts")), 3);
	part = json_array_get(json_object_get(object, "parts"), 0);
	CHECK(!strcmp(string_of(part, "name"), "large"));
	CHECK(!strcmp(string_of(part, "dtype"), "F32"));
	CHECK_EQUAL(integer_of(part, "offset"), PAGE);
	CHECK_EQUAL(integer_of(part, "bytes"), 64 * PAGE);
	CHECK_EQUAL(integer_of(part, "alignment"), PAGE);
	CHECK_EQUAL(integer_of(part, "pages_resident"), 64);
	CHECK_EQUAL(json_integer_value(json_array_get(json_object_get(part, "shape"), 1)),
		    1024);
	file = json_array_get(json_object_get(object, "files"), 0);
	CHECK(!strcmp(string_of(file, "path"), path));
	CHECK_EQUAL(integer_of(file, "data_offset"), PAGE);
	CHECK_EQUAL(integer_of(file, "pages"), 66);
	classes = json_object_get(object, "alignment");
	CHECK_EQUAL(integer_of(classes, "4096"), 2);
	CHECK_EQUAL(integer_of(classes, "128") + integer_of(classes, "64") +
			    integer_of(classes, "type") + integer_of(classes, "less"),
		    1);
	json_decref(object);
}

/* Bytes that are not in RAM: a file that is a hole is never read. */
static void not_resident(void)
{
	static const char header[] =
		"{\"t\":{\"dtype\":\"U8\",\"shape\":[4294967296],\"data_offsets\":[0,4294967296]}}";
	AUTO_TEXT *folder = folder_make();
	json_t *object, *part;
	AUTO(outcome) outcome = { 0 };
	const char *path;

	path = tensors_odd_file(folder, "a.safetensors", header, strlen(header),
				8 + strlen(header) + 4294967296);
	run(&outcome, "--json", path, NULL);
	CHECK_EQUAL(outcome.status, 0);
	object = outcome_json(&outcome);
	part = json_array_get(json_object_get(object, "parts"), 0);
	/* The first page has the header, which was read, and more pages were read ahead. */
	CHECK(integer_of(part, "pages_resident") < 8192);
	json_decref(object);
	run(&outcome, path, NULL, NULL);
	CHECK_EQUAL(outcome.status, 0);
	CHECK_HAS(outcome.out, ".................................................]\n");
}

/* The kernel tells this only to the file's owner. */
static void of_others(void)
{
	AUTO_TEXT *folder = folder_make(), *path = make_file(folder);
	struct command command = { .args = { "inspect", path }, .uid = NOBODY };
	AUTO(outcome) outcome = { 0 };

	if (geteuid()) {
		test_skip("kernel", "only root can become another user");
		return;
	}
	CHECK(!chmod(path, 0644));
	CHECK_RUN(0, &outcome, &command);
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, "in RAM: not known") != NULL);
	command.args[2] = "--json";
	command_run(&command, &outcome);
	CHECK(strstr(outcome.out, "\"pages_resident\": null") != NULL);
}

static void refuses(void)
{
	AUTO_TEXT *folder = folder_make(), *none = folder_path(folder, "none"), *inner = NULL;
	AUTO(outcome) outcome = { 0 };
	const char *path;

	run(&outcome, NULL, NULL, NULL);
	CHECK_EQUAL(outcome.status, 2);
	run(&outcome, "a", "b", NULL);
	CHECK_EQUAL(outcome.status, 2);
	run(&outcome, none, NULL, NULL);
	CHECK_EQUAL(outcome.status, 2);
	run(&outcome, "-n", "x", none);
	CHECK_EQUAL(outcome.status, 2);

	/* A file of no kind: the remedy lists the known kinds. */
	file_write(folder, "none", "plain text, of some length", 26);
	run(&outcome, "--json", none, NULL);
	CHECK_EQUAL(outcome.status, 2);
	check_failure_json(&outcome, EINVAL);
	CHECK(strstr(outcome.out, "known are npy") != NULL);

	/* A broken file is found by its name, and by its contents. */
	path = tensors_file(folder, "a.safetensors", "{\"t\":5}", 0);
	run(&outcome, path, NULL, NULL);
	CHECK_EQUAL(outcome.status, 1);
	CHECK(strstr(outcome.err, "the file is broken: ") && strstr(outcome.err, "\"t\""));
	CHECK(!*outcome.out);
	path = tensors_file(folder, "b", "{\"t\":5}", 0);
	run(&outcome, path, NULL, NULL);
	CHECK_EQUAL(outcome.status, 1);

	/* A folder without a model, and with one. */
	file_write(folder, "x/y", "", 0);
	inner = folder_path(folder, "x");
	run(&outcome, inner, NULL, NULL);
	CHECK_EQUAL(outcome.status, 2);
	tensors_file(folder, "model.safetensors", "{}", 0);
	run(&outcome, folder, NULL, NULL);
	CHECK_EQUAL(outcome.status, 0);
	CHECK(strstr(outcome.out, "0 tensors of 0 bytes in 1 file\n") != NULL);
}

static const struct test tests[] = {
	{ "text", text, 60, 0 },
	{ "json", json, 60, 0 },
	{ "not_resident", not_resident, 60, 0 },
	{ "of_others", of_others, 60, 0 },
	{ "refuses", refuses, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "inspect", tests)
