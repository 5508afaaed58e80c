// SPDX-License-Identifier: MIT
/*
 * The kernel merges memory that is mapped beside other memory, and reports the whole as one
 * mapping; it reports larger memory in place of an old mapping in the same way. The test writes
 * recordings as perf script prints them, and checks how hetmap report tells the two apart.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/perf/read/calls.h"
#include "lib/command.h"

#define OLD UINT64_C(0x40000000) /* 64 MiB are there */
#define OLD_BYTES MIB(64)
#define TOUCHED 40 /* pages at a time */

static char *text;
static size_t length;
static uint64_t now;

static FILE *begin(void)
{
	FILE *out = open_memstream(&text, &length);

	CHECK_FATAL(out != NULL);
	now = 1000;
	fprintf(out, "a 7/7 10.000000000: PERF_RECORD_COMM exec: a:7/7\n");
	return out;
}

static void put_map(FILE *out, uint64_t address, uint64_t bytes, const char *rights)
{
	fprintf(out,
		"a 7/7 10.%09" PRIu64 ": PERF_RECORD_MMAP2 7/7: [0x%" PRIx64 "(0x%" PRIx64
		") @ 0 00:00 0 0]: %s //anon\n",
		now += 10, address, bytes, rights);
}

/* Touches @n pages from @address on. */
static void touch(FILE *out, uint64_t address, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		fprintf(out, "a 7/7 10.%09" PRIu64 ": page-faults:u: %" PRIx64 " x (/a)\n",
			now += 10, address + i * PAGE);
		fprintf(out, "a 7/7 10.%09" PRIu64 ": minor-faults:u: %" PRIx64 " x (/a)\n",
			now += 10, address + i * PAGE);
	}
}

struct expected {
	const char *name;
	int64_t faults;
	uint64_t address;
};

/* These, the most faults first, and nothing else. */
static void check(FILE *out, const struct expected *expected)
{
	char address[24];
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "script");
	const struct command command = { .args = { "report", "--json", "--perf-script",
						   path } };
	json_t *json, *buffers;
	size_t i;

	fclose(out);
	file_write(folder, "script", text, length);
	free(text);
	json = command_json(&command, 0);
	buffers = json_object_get(json, "buffers");
	for (i = 0; expected[i].name; i++) {
		const json_t *buffer = json_array_get(buffers, i);

		CHECK_FATAL(buffer != NULL);
		if (strcmp(string_of(buffer, "name"), expected[i].name))
			test_fail(__FILE__, __LINE__, "%s, not %s", string_of(buffer, "name"),
				  expected[i].name);
		CHECK_EQUAL(integer_of(buffer, "minor"), expected[i].faults);
		snprintf(address, sizeof(address), "0x%" PRIx64, expected[i].address);
		if (expected[i].address)
			CHECK(!strcmp(string_of(buffer, "address"), address));
	}
	CHECK_EQUAL(json_array_size(buffers), i);
	json_decref(json);
}

/* As mmap(2) goes about it: each below the one before. */
static void test_below(void)
{
	const struct expected expected[] = { { "64 MiB of memory", 2 * TOUCHED + 10, OLD },
					     { "16 MiB of memory", TOUCHED, OLD - MIB(16) },
					     { "12 MiB of memory", 20, OLD - MIB(28) },
					     { NULL, 0, 0 } };
	FILE *out = begin();

	put_map(out, OLD, OLD_BYTES, "rw-p");
	touch(out, OLD, TOUCHED);
	put_map(out, OLD - MIB(16), OLD_BYTES + MIB(16), "rw-p");
	touch(out, OLD - MIB(16), TOUCHED);
	touch(out, OLD + TOUCHED * PAGE, TOUCHED);
	put_map(out, OLD - MIB(28), OLD_BYTES + MIB(28), "rw-p");
	touch(out, OLD - MIB(28), 20);
	touch(out, OLD + 2 * TOUCHED * PAGE, 10);
	check(out, expected);
}

static void test_above(void)
{
	const struct expected expected[] = { { "64 MiB of memory", 2 * TOUCHED, OLD },
					     { "16 MiB of memory", 20, OLD + OLD_BYTES },
					     { NULL, 0, 0 } };
	FILE *out = begin();

	put_map(out, OLD, OLD_BYTES, "rw-p");
	touch(out, OLD, TOUCHED);
	put_map(out, OLD, OLD_BYTES + MIB(16), "rw-p");
	touch(out, OLD + OLD_BYTES, 20);
	touch(out, OLD + TOUCHED * PAGE, TOUCHED);
	check(out, expected);
}

/* A page beside it makes no other memory of it. */
static void test_small(void)
{
	const struct expected expected[] = { { "64 MiB of memory", 2 * TOUCHED, OLD },
					     { "small pieces of memory", 1, OLD - PAGE },
					     { NULL, 0, 0 } };
	FILE *out = begin();

	put_map(out, OLD, OLD_BYTES, "rw-p");
	touch(out, OLD, TOUCHED);
	put_map(out, OLD - PAGE, OLD_BYTES + PAGE, "rw-p");
	touch(out, OLD - PAGE, 1);
	touch(out, OLD + TOUCHED * PAGE, TOUCHED);
	check(out, expected);
}

/* Touched pages fault again: they were unmapped, and larger memory is in their place. */
static void test_replaced(void)
{
	const struct expected upwards[] = { { "80 MiB of memory", TOUCHED + 30, OLD - MIB(16) },
					    { "64 MiB of memory", TOUCHED, OLD },
					    { NULL, 0, 0 } };
	const struct expected from_middle[] = { { "64 MiB of memory", 2 * TOUCHED - 2, OLD },
						{ "80 MiB of memory", 1, OLD - MIB(16) },
						{ NULL, 0, 0 } };
	const struct expected small[] = { { "64 MiB of memory", TOUCHED, OLD },
					  { "64 MiB of memory", TOUCHED, OLD },
					  { "small pieces of memory", 1, OLD - PAGE },
					  { NULL, 0, 0 } };
	FILE *out = begin();

	put_map(out, OLD, OLD_BYTES, "rw-p");
	touch(out, OLD, TOUCHED);
	put_map(out, OLD - MIB(16), OLD_BYTES + MIB(16), "rw-p");
	touch(out, OLD - MIB(16), 30);
	touch(out, OLD, TOUCHED);
	check(out, upwards);
	/* The first touched page shows it, and so does the last one. */
	out = begin();
	put_map(out, OLD, OLD_BYTES, "rw-p");
	touch(out, OLD, TOUCHED);
	put_map(out, OLD - MIB(16), OLD_BYTES + MIB(16), "rw-p");
	touch(out, OLD + PAGE, TOUCHED - 1);
	check(out, from_middle);
	/* The new part is too small to have a name. */
	out = begin();
	put_map(out, OLD, OLD_BYTES, "rw-p");
	touch(out, OLD, TOUCHED);
	put_map(out, OLD - PAGE, OLD_BYTES + PAGE, "rw-p");
	touch(out, OLD - PAGE, 1);
	touch(out, OLD, TOUCHED);
	check(out, small);
}

/* The same range again, or other rights: the kernel can't have merged it. */
static void test_another(void)
{
	const struct expected exactly[] = { { "64 MiB of memory", TOUCHED, OLD },
					    { "64 MiB of memory", 20, OLD },
					    { NULL, 0, 0 } };
	const struct expected rights[] = { { "80 MiB of memory", TOUCHED, OLD - MIB(16) },
					   { NULL, 0, 0 } };
	FILE *out = begin();

	put_map(out, OLD, OLD_BYTES, "rw-p");
	touch(out, OLD, TOUCHED);
	put_map(out, OLD, OLD_BYTES, "rw-p");
	touch(out, OLD + TOUCHED * PAGE, 20);
	check(out, exactly);
	out = begin();
	put_map(out, OLD, OLD_BYTES, "---p");
	put_map(out, OLD - MIB(16), OLD_BYTES + MIB(16), "rw-p");
	touch(out, OLD + PAGE, TOUCHED);
	check(out, rights);
}

/* munmap(2) is not recorded: of two known mappings, either may be new. */
static void test_all_known(void)
{
	const struct expected expected[] = { { "64 MiB of memory", 2 * TOUCHED, OLD },
					     { "16 MiB of memory", TOUCHED, OLD - MIB(16) },
					     { "16 MiB of memory", 20, OLD - MIB(16) },
					     { NULL, 0, 0 } };
	FILE *out = begin();

	put_map(out, OLD - MIB(16), MIB(16), "rw-p");
	touch(out, OLD - MIB(16), TOUCHED);
	put_map(out, OLD, OLD_BYTES, "rw-p");
	touch(out, OLD, TOUCHED);
	put_map(out, OLD - MIB(16), OLD_BYTES + MIB(16), "rw-p");
	touch(out, OLD - MIB(16), 20);
	touch(out, OLD + TOUCHED * PAGE, TOUCHED);
	check(out, expected);
}

/* ---- where system calls were recorded ---- */

static void tell_point(struct calls *calls, enum point point, uint64_t address, uint64_t bytes)
{
	const struct recorded_event event = {
		.kind = RECORDED_POINT,
		.pid = 7,
		.tid = 7,
		.point = point,
		.known = 1u << CALL_ADDRESS | 1u << CALL_LENGTH | 1u << CALL_RESULT,
		.value = { [CALL_ADDRESS] = address, [CALL_LENGTH] = bytes },
	};

	CHECK_OK(calls_event(calls, &event));
}

/* mmap(2) of a range, of which the kernel tells as of another. */
static void call_mmap(struct calls *calls, uint64_t address, uint64_t bytes, uint64_t told,
		      uint64_t told_bytes)
{
	const struct recorded_event map = { .kind = RECORDED_MAP,
					    .time = now += 10,
					    .pid = 7,
					    .tid = 7,
					    .address = told,
					    .length = told_bytes,
					    .writable = true,
					    .name = "//anon" };

	tell_point(calls, POINT_MMAP, address, bytes);
	CHECK_OK(calls_event(calls, &map));
	tell_point(calls, POINT_MMAP_DONE, address, 0);
}

static void check_at(struct spaces *spaces, uint64_t address, const char *name)
{
	uint64_t offset;
	const struct object *object = spaces_fault(spaces, 7, address, &offset);

	CHECK_FATAL(object != NULL);
	if (strcmp(object->name, name))
		test_fail(__FILE__, __LINE__, "%s, not %s", object->name, name);
}

/* The range of a call is new, whatever was there before; nothing else is. */
static void test_calls(void)
{
	struct spaces *spaces = spaces_create();
	struct calls *calls = calls_create(spaces);

	CHECK_FATAL(spaces && calls);
	call_mmap(calls, OLD, OLD_BYTES, OLD, OLD_BYTES);
	check_at(spaces, OLD, "64 MiB of memory");
	call_mmap(calls, OLD - MIB(16), MIB(16), OLD - MIB(16), OLD_BYTES + MIB(16));
	check_at(spaces, OLD - MIB(16), "16 MiB of memory");
	check_at(spaces, OLD, "64 MiB of memory");
	call_mmap(calls, OLD - MIB(32), OLD_BYTES + MIB(32), OLD - MIB(32),
		  OLD_BYTES + MIB(32));
	check_at(spaces, OLD + PAGE, "96 MiB of memory");
	check_at(spaces, OLD - MIB(16) + PAGE, "96 MiB of memory");
	/* And where more than that is told of it. */
	call_mmap(calls, OLD, OLD_BYTES, OLD - MIB(32), OLD_BYTES + MIB(32));
	check_at(spaces, OLD + 2 * PAGE, "64 MiB of memory");
	check_at(spaces, OLD - 2 * PAGE, "96 MiB of memory");
	calls_free(calls);
	spaces_free(spaces);
}

static const struct test tests[] = {
	{ "below", test_below, 60, TEST_ONCE },
	{ "above", test_above, 60, TEST_ONCE },
	{ "small", test_small, 60, TEST_ONCE },
	{ "replaced", test_replaced, 60, TEST_ONCE },
	{ "another", test_another, 60, TEST_ONCE },
	{ "all_known", test_all_known, 60, TEST_ONCE },
	{ "calls", test_calls, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_merged", tests)
