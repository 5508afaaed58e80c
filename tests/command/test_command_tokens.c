// SPDX-License-Identifier: MIT
/* hetmap run tokens: batches into buffers of devices; inspect of raw tokens. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/python_support.h"
#include "format/tokens_support.h"

#define TOKENS 200000

static json_t *run_json(const struct command *command)
{
	AUTO(outcome) outcome = { 0 };
	json_t *json;

	CHECK_RUN(0, &outcome, command);
	if (outcome.status)
		test_fail(__FILE__, __LINE__, "%s%s", outcome.out, outcome.err);
	CHECK(!strcmp(outcome.err, ""));
	json = outcome_json(&outcome);
	CHECK_FATAL(json != NULL);
	CHECK(json_is_true(json_object_get(json, "verified")));
	return json;
}

/* Batches of 5, 10, 20, 40, 20, 10 and 5 blocks of 64, two each. */
static void check_ramp(const char *device)
{
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, TOKENS);
	struct command command = { .args = { "run", "tokens", "--json", "--device", device,
					     "--ramp", "--block", "64", "--batch", "40",
					     "--batches", "14", path } };
	json_t *json = run_json(&command), *buffer, *first;

	CHECK(!strcmp(string_of(json, "device"), device));
	CHECK(!strcmp(string_of(json, "way"), "mapped"));
	CHECK(*string_of(json, "why"));
	CHECK_EQUAL(integer_of(json, "tokens"), TOKENS);
	CHECK_EQUAL(integer_of(json, "batches"), 14);
	CHECK_EQUAL(integer_of(json, "tokens_fed"), 2 * 110 * 64);
	CHECK(integer_of(json, "batches_filled") >= 14);
	buffer = json_object_get(json, "buffer");
	CHECK_EQUAL(json_array_size(json_object_get(buffer, "blocks")), 7);
	CHECK_EQUAL(integer_of(buffer, "resizes"), 6);
	/* Three slots of x and y, of whole pages each. */
	CHECK_EQUAL(integer_of(buffer, "bytes_least"), 6 * 4096);
	CHECK_EQUAL(integer_of(buffer, "bytes_most"), 6 * 40 * 64 * 8);
	CHECK(json_is_true(json_object_get(buffer, "address_kept")));
	first = json;
	/* The same seed, the same tokens; also of another type. */
	command.args[13] = "--to=int32";
	json = run_json(&command);
	CHECK_EQUAL(integer_of(json, "sum"), integer_of(first, "sum"));
	CHECK(!strcmp(string_of(json, "to"), "I32"));
	json_decref(json);
	command.args[14] = "--seed=2";
	json = run_json(&command);
	CHECK(integer_of(json, "sum") != integer_of(first, "sum"));
	json_decref(json);
	json_decref(first);
}

static void host(void)
{
	check_ramp("host");
}

static void soft(void)
{
	check_ramp("soft:0");
}

/* Shards, of numpy's kind and in the other byte order; all orders; for people. */
static void shown(void)
{
	static const char *const orders[] = { "random", "shuffled", "in-order" };
	char *folder = folder_make(), *path[2];
	struct command command = { .args = { "run", "tokens", "--block", "30", "--batch",
					     "4" } };
	uint16_t values[3000];
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < 3000; i++)
		values[i] = (uint16_t)(token_at(i) << 8 | token_at(i) >> 8);
	path[0] = tokens_npy(folder, "a.npy", 1, ">u2", false, "(30, 100)", values,
			     sizeof(values));
	path[1] = tokens_npy(folder, "b.npy", 2, "<u2", true, "(30, 100)", values,
			     sizeof(values));
	command.args[6] = path[0];
	command.args[7] = path[1];
	command.args[8] = "--order";
	for (i = 0; i < 3; i++) {
		command.args[9] = orders[i];
		CHECK_RUN(0, &outcome, &command);
		CHECK(!strcmp(outcome.err, ""));
		CHECK(strstr(outcome.out, "6,000 tokens of U16"));
		CHECK(strstr(outcome.out, orders[i]));
		CHECK(strstr(outcome.out, "out of the files' maps"));
		CHECK(strstr(outcome.out, "  verified "));
	}
	/* The name of one file is short enough for a line. */
	CHECK(!chdir(folder));
	command = (struct command){ .args = { "run", "tokens", "--ramp", "a.npy" } };
	CHECK_RUN(0, &outcome, &command);
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, " resizes in "));
	/* However slow and few. */
	command = (struct command){ .args = { "run", "tokens", "--block=1", "--batch=1",
					      "--batches=1", "a.npy" } };
	CHECK_RUN(0, &outcome, &command);
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, "blocks of 1 token, to") != NULL);
	CHECK(strstr(outcome.out, ", 0 million") == NULL);
	CHECK(!chdir("/"));
	free(path[0]);
	free(path[1]);
	folder_remove(folder);
}

/* One shard of three, and however they are opened and read. */
static void policy(void)
{
	char *path[3];
	AUTO_TEXT *folder = folder_make(), *rules = folder_path(folder, "rules");
	struct command command = { .args = { "run", "tokens", "--block", "30", "--batch", "4",
					     "--policy", rules } };
	static const char refuse[] = "refuse from_file path=*/b\n";
	AUTO(outcome) outcome = { 0 };
	char name[] = "a";
	size_t i;

	for (i = 0; i < 3; i++, name[0]++)
		command.args[8 + i] = path[i] = tokens_file(folder, name, 3000 * i, 3000);
	file_write(folder, "rules", "allow all\n", 10);
	CHECK_RUN(0, &outcome, &command);
	file_write(folder, "rules", refuse, sizeof(refuse) - 1);
	CHECK_RUN(3, &outcome, &command);
	CHECK_EQUAL(strlen(outcome.out), 0);
	CHECK(strstr(outcome.err, "the access hook refused from_file") != NULL);
	CHECK(strstr(outcome.err, "rule 'refuse from_file path=*/b' in line 1 of ") != NULL);
	for (i = 0; i < 3; i++)
		free(path[i]);
}

/* Values of the upper half of uint64, all over the file: checked by their own places. */
static void fortran(void)
{
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct command command = { .args = { "run", "tokens", "--json", "--block", "16",
					     "--batch", "4", "--batches", "20", "--to",
					     "uint64" } };
	uint64_t values[600], i;
	AUTO(json_t) *json = NULL;

	for (i = 0; i < 600; i++)
		values[i] = UINT64_MAX - i * 0x123456789u;
	path = tokens_npy(folder, "a.npy", 1, "<u8", true, "(5, 4, 30)", values,
			  sizeof(values));
	command.args[11] = path;
	json = run_json(&command);
	CHECK_EQUAL(integer_of(json, "batches_announced"), 0);
	CHECK(strstr(string_of(json, "why"), "Fortran's order"));
}

static void wrong_usage(void)
{
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, 5001);
	AUTO_TEXT *odd = folder_path(folder, "odd"), *empty = folder_path(folder, "empty");
	AUTO_TEXT *absent = folder_path(folder, "absent");
	const uint64_t values[20] = { [3] = UINT64_MAX };
	AUTO_TEXT *large = tokens_npy(folder, "l.npy", 1, "<u8", false, "(20,)", values, 160);
	AUTO_TEXT *cut = tokens_npy(folder, "c.npy", 1, "<u8", false, "(30,)", values, 160);
	AUTO_TEXT *model = folder_path(folder, "model.safetensors");
	AUTO_TEXT *named = folder_path(folder, "named.npy");
	AUTO_TEXT *single = tokens_file(folder, "single", 0, 1);
	const struct {
		const char *args[7];
		int status;
		const char *says;
	} cases[] = {
		{ { "run", "tokens" }, 2, "tokens needs a file" },
		{ { "run", "tokens", odd }, 2, "no whole tokens of U16" },
		{ { "run", "tokens", folder }, 2, "is a directory" },
		{ { "run", "tokens", absent }, 2, "No such file" },
		{ { "run", "tokens", "--block", "5001", path }, 2, "there are 5001" },
		{ { "run", "tokens", "--block", "0", path }, 2, "--block" },
		{ { "run", "tokens", "--dtype", "float32", path }, 2, "whole tokens of F32" },
		{ { "run", "tokens", "--dtype", "F4", path }, 2, "uint8" },
		{ { "run", "tokens", "--to", "float32", path },
		  2,
		  "tokens of U16 can't be made F32: integers are made integers" },
		{ { "run", "tokens", "--to", "float32", path }, 2, "leave --to away" },
		{ { "run", "tokens", "--block=9", large }, 2, "I64 can't hold" },
		{ { "run", "tokens", "--block=9", "--to", "int64", large }, 2, "--to U64\n" },
		{ { "run", "tokens", cut }, 1, "it is cut off or damaged" },
		{ { "run", "tokens", "--to", "bool", path }, 2, "can't be made BOOL" },
		{ { "run", "tokens", "--to", "x", path }, 2, "uint8" },
		{ { "run", "tokens", "--order", "x", path }, 2, "in-order" },
		{ { "run", "tokens", "--to", "uint8", "--block=99", path }, 2, "can't hold" },
		{ { "run", "tokens", "--rounds", "3", path }, 2, "not of tokens" },
		{ { "run", "tokens", "--device", "file", path }, 2, "--device host" },
		{ { "run", "tokens", "--device", "none", path }, 3, "cannot open the device" },
		{ { "run", "saxpy", "--ramp" }, 2, "--ramp is an option of tokens" },
		{ { "run", "histogram", "--seed", "3", path }, 2, "--seed is an option of" },
		{ { "run", "tokens", "--ramp", "--batches", "6", path }, 2, "--batches 7" },
		{ { "run", "tokens", empty }, 1, "empty" },
		{ { "run", "tokens", "--offset", "9999999", path },
		  2,
		  "--offset 9999999 is beyond" },
		{ { "run", "tokens", "--offset", "3", path }, 2, "whole tokens of U16" },
		{ { "run", "tokens", "--offset", "3", path }, 2, "--offset the length" },
		{ { "run", "tokens", "--dtype", "u8", path, large }, 2, "length of its header" },
		{ { "run", "tokens", named }, 1, "does not begin as a .npy file does" },
		{ { "run", "tokens", path, model }, 2, "hetmap run load takes it" },
		{ { "run", "tokens", "--dtype=u1", "--block=9", "--batches=1", model }, 0, "" },
		{ { "run", "tokens", "--block=1", single }, 2, "and there are 1\n" },
		{ { "run", "tokens", "--offset", "x", path }, 2, "bytes, as in 256" },
		{ { "run", "tokens", "--byte-order", "x", path }, 2, "little or big" },
		{ { "run", "tokens", "--dtype", "u4", large }, 2, "names its own type: U64" },
		{ { "run", "tokens", "--offset", "0", large }, 2, "leave --offset away" },
		{ { "run", "tokens", "--byte-order=big", large }, 2, "leave --byte-order" },
		{ { "run", "tokens", path, large }, 2, "--dtype gives the type of raw files" },
		{ { "run", "histogram", "--offset", "1", path }, 2, "an option of tokens" },
		{ { "inspect", "--dtype", "u2", "--offset=1M", path },
		  2,
		  "--offset 1048576 is beyond" },
		{ { "inspect", "--dtype", "u2", "--offset=3", path }, 2, "--offset the length" },
		{ { "inspect", "--dtype", "u2", "--offset=x", path }, 2, "bytes, as in 256" },
		{ { "inspect", "--byte-order", "x", path }, 2, "little or big" },
		{ { "inspect", "--dtype", "u4", large }, 2, "names its own type: U64" },
		{ { "inspect", "--offset", "0", large }, 2, "leave --offset away" },
		{ { "inspect", "--dtype", "u2", model }, 2, "leave --dtype away" },
		{ { "inspect", "--dtype", "u2", path, model }, 2, "has tensors" },
		{ { "inspect", "--dtype", "u2", path, large }, 2, "the type of raw files" },
		{ { "inspect", path, large }, 2, "is of no kind" },
		{ { "inspect", large, named }, 1, "does not begin as a .npy file" },
		{ { "inspect", "--byte-order=big", large, large }, 2, "leave --byte-order" },
		{ { "inspect", large, folder }, 2, "is a directory" },
		{ { "inspect", "--dtype", "u2", empty }, 1, "empty" },
		{ { "inspect", empty }, 1, "empty" },
		{ { "inspect", cut, cut }, 1, "it is cut off or damaged" },
		{ { "inspect", "--dtype", "x", path }, 2, "--dtype" },
		{ { "inspect", "--offset", "2", path }, 2, "give the --dtype" },
		{ { "inspect", "--dtype", "u2", "--offset", "9", named }, 2, "--offset" },
		{ { "inspect", "--dtype", "u2", odd }, 2, "no whole tokens" },
		{ { "inspect", "--dtype", "u2", odd }, 2, "the type of a raw file, and --off" },
	};
	AUTO(outcome) outcome = { 0 };
	struct command command;
	size_t i;

	file_write(folder, "odd", "abc", 3);
	file_write(folder, "empty", "", 0);
	file_write(folder, "model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
	file_write(folder, "named.npy", "abcdefgh", 8);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		command = (struct command){ 0 };
		memcpy(command.args, cases[i].args, sizeof(cases[i].args));
		CHECK_RUN(cases[i].status, &outcome, &command);
		CHECK_HAS(outcome.err, cases[i].says);
	}
	command = (struct command){ .args = { "run", "tokens", "--json", odd } };
	command_run(&command, &outcome);
	check_failure_json(&outcome, EBADMSG);
}

/* Cut off under way: said, and no signal. A signal ends it as other jobs. */
static void disturbed(void)
{
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, TOKENS);
	struct command command = { .args = { "run", "tokens", "--block", "1000", "--batches",
					     "3000000", "--batch", "1", path } };
	AUTO(outcome) outcome = { 0 };
	pid_t pid = command_start(&command);

	command_await(pid, SIGBUS, path);
	usleep(100000);
	CHECK(!truncate(path, 12345));
	command_wait(pid, &outcome);
	CHECK_EQUAL(outcome.status, 1);
	CHECK(strstr(outcome.err, "cut off while it was in use"));

	free(tokens_file(folder, "a", 0, TOKENS));
	pid = command_start(&command);
	command_await(pid, SIGBUS, path);
	CHECK_EQUAL(kill(pid, SIGTERM), 0);
	command_wait(pid, &outcome);
	CHECK_EQUAL(outcome.status, 128 + SIGTERM);
}

static void inspect(void)
{
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, 1000);
	struct command command = { .args = { "inspect", "--json", "--dtype", "uint16", path } };
	json_t *json, *part;
	AUTO(outcome) outcome = { 0 };

	json = command_json(&command, 0);
	CHECK(!strcmp(string_of(json, "kind"), "tokens"));
	part = json_array_get(json_object_get(json, "parts"), 0);
	CHECK(!strcmp(string_of(part, "dtype"), "U16"));
	CHECK_EQUAL(json_integer_value(json_array_get(json_object_get(part, "shape"), 0)),
		    1000);
	CHECK_EQUAL(integer_of(part, "bytes"), 2000);
	CHECK_EQUAL(integer_of(part, "pages_resident"), 1);
	json_decref(json);
	/* Not said: it is of no kind. */
	command = (struct command){ .args = { "inspect", path } };
	CHECK_RUN(2, &outcome, &command);
	CHECK(strstr(outcome.err, "--dtype"));
}

/*
 * FOLDER/NAME: a header of 10 bytes, and @n tokens from number @first on of uint32, the high
 * byte first. free() the path.
 */
static char *big_file(const char *folder, const char *name, uint64_t first, uint64_t n)
{
	unsigned char *bytes = calloc(1, 10 + 4 * n);
	uint64_t i;

	CHECK_FATAL(bytes != NULL);
	memset(bytes, 'h', 10);
	for (i = 0; i < n; i++) {
		bytes[10 + 4 * i + 2] = (unsigned char)(token_at(first + i) >> 8);
		bytes[10 + 4 * i + 3] = (unsigned char)token_at(first + i);
	}
	file_write(folder, name, (const char *)bytes, 10 + 4 * n);
	free(bytes);
	return folder_path(folder, name);
}

/* Raw shards with a header and in the other byte order: the same batches as of a plain file. */
static void raw(void)
{
	AUTO_TEXT *folder = folder_make(), *plain = tokens_file(folder, "plain", 0, 6000);
	char *path[] = { big_file(folder, "0", 0, 2500), big_file(folder, "1", 2500, 3500) };
	struct command command = { .args = { "run", "tokens", "--json", "--block=100",
					     "--batch=4", "--batches=20", plain } };
	json_t *json = run_json(&command), *shard, *expected = json;
	AUTO(outcome) outcome = { 0 };

	CHECK_EQUAL(integer_of(json_array_get(json_object_get(json, "shards"), 0), "offset"),
		    0);
	command.args[6] = "--dtype=uint32";
	command.args[7] = "--offset=10";
	command.args[8] = "--byte-order=big";
	command.args[9] = path[0];
	command.args[10] = path[1];
	json = run_json(&command);
	CHECK_EQUAL(integer_of(json, "tokens"), 6000);
	CHECK_EQUAL(integer_of(json, "sum"), integer_of(expected, "sum"));
	CHECK_EQUAL(json_array_size(json_object_get(json, "shards")), 2);
	shard = json_array_get(json_object_get(json, "shards"), 1);
	CHECK_EQUAL(integer_of(shard, "offset"), 10);
	CHECK_EQUAL(integer_of(shard, "tokens"), 3500);
	CHECK(!strcmp(string_of(shard, "byte_order"), "big"));
	CHECK(json_is_false(json_object_get(shard, "npy")));
	json_decref(json);
	json_decref(expected);

	command.args[2] = "--seed=2";
	CHECK_RUN(0, &outcome, &command);
	CHECK(strstr(outcome.out, " and 1 further file: 6,000 tokens of U32") != NULL);
	CHECK_HAS(outcome.out, "  raw files    tokens from byte 10 on, big-endian\n");
	free(path[0]);
	free(path[1]);
}

/* The same two, and with a file of numpy's. */
static void inspect_shards(void)
{
	AUTO_TEXT *folder = folder_make(), *npy = NULL;
	char *path[] = { big_file(folder, "0", 0, 2500), big_file(folder, "1", 2500, 3500) };
	static const uint32_t values[8];
	struct command command = { .args = { "inspect", "--json", "--dtype=uint32",
					     "--offset=10", "--byte-order=big", path[0],
					     path[1] } };
	json_t *json, *part;
	AUTO(outcome) outcome = { 0 };

	npy = tokens_npy(folder, "a.npy", 1, "<u4", true, "(2, 4)", values, sizeof(values));
	json = command_json(&command, 0);
	CHECK(!strcmp(string_of(json, "kind"), "tokens"));
	CHECK_EQUAL(integer_of(json, "bytes"), 24000);
	CHECK_EQUAL(json_array_size(json_object_get(json, "files")), 2);
	part = json_array_get(json_object_get(json, "parts"), 1);
	CHECK(!strcmp(string_of(part, "name"), "shard 1"));
	CHECK_EQUAL(integer_of(part, "file"), 1);
	CHECK_EQUAL(integer_of(part, "offset"), 10);
	CHECK_EQUAL(integer_of(part, "bytes"), 14000);
	CHECK_EQUAL(integer_of(json_object_get(json, "alignment"), "less"), 2);
	json_decref(json);

	command.args[1] = "--quiet";
	CHECK_RUN(0, &outcome, &command);
	CHECK(strstr(outcome.out, " and 1 further file\n"
				  "  tokens: 2 shards of 23.4 KiB in 2 files\n"
				  "  in all: 6,000 tokens of U32\n"
				  "  byte order: not this machine's\n") != NULL);
	command.args[7] = npy;
	CHECK_RUN(0, &outcome, &command);
	CHECK(strstr(outcome.out, " and 2 further files\n") != NULL);
	CHECK(strstr(outcome.out, "  order: in some files Fortran's\n"
				  "  byte order: in some files not this machine's\n") != NULL);
	/* These need no type. */
	command = (struct command){ .args = { "inspect", npy, npy } };
	CHECK_RUN(0, &outcome, &command);
	CHECK(strstr(outcome.out, "  order: Fortran's (first index fastest)\n") != NULL);
	free(path[0]);
	free(path[1]);
}

/* The only part in the output of inspect on a raw file. */
static json_t *inspected(const char *path, const char *dtype)
{
	struct command command = { .args = { "inspect", "--json", "--dtype", dtype, path } };
	json_t *json, *part;

	json = command_json(&command, 0);
	CHECK(!strcmp(string_of(json, "kind"), "tokens"));
	part = json_incref(json_array_get(json_object_get(json, "parts"), 0));
	json_decref(json);
	return part;
}

/* Types that are no integers: as they are, or F16 and BF16 widened, and checked by their bits. */
static void types(void)
{
	static const char program[] =
		"import sys, numpy as n\n"
		"d = sys.argv[1] + '/'\n"
		"a = n.arange(6000, dtype='u2') * 11\n"
		"a.tofile(d + 'raw')\n"
		"n.save(d + 'f4.npy', a.astype('f4') / 7)\n"
		"n.save(d + 'f8.npy', n.asfortranarray(a.astype('>f8').reshape(60, 100)))\n"
		"n.save(d + 'f2.npy', a.view('f2').astype('>f2'))\n"
		"n.save(d + 'b1.npy', a % 22 == 0)\n"
		"n.save(d + 'c8.npy', (a + 3j).astype('>c8'))\n";
	static const struct {
		const char *file, *options[2], *dtype, *to;
	} cases[] = {
		{ "f4.npy", { 0 }, "F32", "F32" },
		{ "f8.npy", { 0 }, "F64", "F64" },
		{ "f2.npy", { 0 }, "F16", "F16" },
		{ "f2.npy", { "--to=float32" }, "F16", "F32" },
		{ "b1.npy", { 0 }, "BOOL", "BOOL" },
		{ "b1.npy", { "--to=bool" }, "BOOL", "BOOL" },
		{ "c8.npy", { 0 }, "C64", "C64" },
		{ "raw", { "--dtype=float32" }, "F32", "F32" },
		{ "raw", { "--dtype=bf16", "--to=f4" }, "BF16", "F32" },
		{ "raw", { "--dtype=F8_E4M3" }, "F8_E4M3", "F8_E4M3" },
		{ "raw", { "--dtype=bool" }, "BOOL", "BOOL" },
		{ "raw", { "--dtype=uint16" }, "U16", "I64" },
	};
	char *path;
	AUTO_TEXT *folder = folder_make();
	json_t *json;
	size_t i;

	if (!numpy_wrote(program, folder))
		return;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = { .args = { "run", "tokens", "--json", "--device",
						     i % 2 ? "soft:0" : "host", "--block",
						     "100", "--batch", "10", "--batches",
						     "4" } };

		path = folder_path(folder, cases[i].file);
		command.args[11] = path;
		command.args[12] = cases[i].options[0];
		command.args[13] = cases[i].options[1];
		json = run_json(&command);
		CHECK(!strcmp(string_of(json, "dtype"), cases[i].dtype));
		CHECK(!strcmp(string_of(json, "to"), cases[i].to));
		CHECK(integer_of(json, "sum") != 0);
		json_decref(json);
		free(path);
	}
	path = folder_path(folder, "raw");
	json = inspected(path, "bool");
	CHECK(!strcmp(string_of(json, "dtype"), "BOOL"));
	CHECK_EQUAL(integer_of(json, "bytes"), 12000);
	json_decref(json);
	free(path);
}

/* Files that numpy wrote, raw and its own. */
static void numpy(void)
{
	static const char program[] =
		"import sys, numpy as n\n"
		"a = n.arange(6000, dtype='u2')\n"
		"m = n.memmap(sys.argv[1] + '/raw', dtype='u2', mode='w+', shape=(6000,))\n"
		"m[:] = a; m.flush()\n"
		"n.save(sys.argv[1] + '/saved.npy', a.reshape(60, 100).astype('>i4'))\n";
	static const char *const names[] = { "raw", "saved.npy" };
	AUTO_TEXT *folder = folder_make();
	size_t i;

	if (!numpy_wrote(program, folder))
		return;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *path = folder_path(folder, names[i]);
		const struct command command = {
			.args = { "run", "tokens", "--json", "--device", "soft:0", "--order",
				  "in-order", "--block", "100", "--batch", "10", "--batches",
				  "5", path }
		};
		json_t *json = run_json(&command);

		CHECK_EQUAL(integer_of(json, "tokens"), 6000);
		CHECK_EQUAL(integer_of(json, "tokens_fed"), 5000);
		json_decref(json);
		free(path);
	}
}

static const struct test tests[] = {
	{ "host", host, 60, TEST_ONCE },
	{ "soft", soft, 60, TEST_ONCE },
	{ "policy", policy, 60, 0 },
	{ "numpy", numpy, 60, TEST_ONCE },
	{ "types", types, 60, TEST_ONCE },
	{ "raw", raw, 60, TEST_ONCE },
	{ "shown", shown, 60, TEST_ONCE },
	{ "fortran", fortran, 60, TEST_ONCE },
	{ "wrong_usage", wrong_usage, 60, TEST_ONCE },
	{ "disturbed", disturbed, 60, TEST_ONCE },
	{ "inspect", inspect, 60, TEST_ONCE },
	{ "inspect_shards", inspect_shards, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "command_tokens", tests)
