// SPDX-License-Identifier: MIT
/* The rows of hetmap report's tables: their order, and which rows are joined. */
#include "perf/written_trace.h"

/* Finds the row of @name in the table that begins with @table. */
static const char *row_of(const char *text, const char *table, const char *name)
{
	const char *at = strstr(text, table);

	at = at ? strstr(at, name) : NULL;
	CHECK_FATAL(at != NULL);
	return at;
}

/* A few long faults are above many short ones in every table. */
static void test_by_time(void)
{
	static const char *const tables[] = { "\nBuffer ", "\nCall site of " };
	const uint64_t few = CODE + 0x100, many = CODE + PAGE + 0x100;
	AUTO(written) written = { 0 };
	json_t *json, *buffers;
	uint64_t i;
	char *text;

	begin(&written);
	put_name(&written, PID, "order", true);
	put_map(&written, PID, CODE, PAGE, "/few.so", true);
	put_map(&written, PID, CODE + PAGE, PAGE, "/many.so", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "/many", false);
	put_map(&written, PID, 2 * MEMORY, MEMORY_BYTES, "/long", false);
	for (i = 0; i < 8; i++)
		put_fault_of(&written, PID, MEMORY + i * PAGE, 1, &many, 1000);
	put_fault_of(&written, PID, 2 * MEMORY, 1, &few, 1000000);
	finish(&written, json_object());
	text = report_as(&written, NULL);
	for (i = 0; i < 2; i++)
		CHECK(row_of(text, tables[i], "/long") < row_of(text, tables[i], "/many"));
	free(text);
	json = json_of(&written);
	buffers = json_object_get(json, "buffers");
	CHECK(!strcmp(string_of(json_array_get(buffers, 0), "name"), "/long"));
	CHECK(!strcmp(string_of(json_array_get(json_object_get(json, "sites"), 0), "module"),
		      "few.so"));
	json_decref(json);
	/* The picture has the row of the most faults. */
	text = report_as(&written, "--svg");
	CHECK(strstr(text, "/many: 8 page faults"));
	free(text);
}

/* ---- memory that is taken and given back ---- */

#define PIECE (UINT64_C(48) << 20)
#define TIMES 40
#define FAULTS 64

/* Duration of each fault, and its cost without a trace. */
#define FAULT_NS 10000

static const uint64_t first_code = CODE + 0x10, other_code = CODE + 0x20;

static void put_piece(struct written *written, uint64_t address, uint64_t length,
		      const uint64_t *code)
{
	uint64_t i;

	put_map(written, PID, address, length, "//anon", false);
	for (i = 0; i < FAULTS; i++)
		put_fault_of(written, PID, address + i * PAGE, 1, code, FAULT_NS);
}

static void begin_pieces(struct written *written)
{
	begin(written);
	put_name(written, PID, "pieces", true);
	put_map(written, PID, CODE, PAGE, "/p.so", true);
}

static json_t *end_pieces(struct written *written)
{
	json_t *json;

	finish(written, json_pack("{s:{s:f, s:f}}", "costs", "anon_fault_ns", (double)FAULT_NS,
				  "anon_populate_ns", FAULT_NS / 2.0));
	json = json_of(written);
	end(written);
	return json;
}

/* The gain, in faults, of the only advice; 0: no advice, or not the one to keep memory. */
static int64_t faults_kept(const json_t *json)
{
	const json_t *advice = json_object_get(json, "advice"),
		     *only = json_array_get(advice, 0);

	CHECK(json_array_size(advice) < 2);
	if (!only || !strstr(string_of(only, "text"), "use it again"))
		return 0;
	CHECK_EQUAL(integer_of(only, "buffer"), 0);
	return integer_of(only, "gain_ns") / FAULT_NS;
}

/* Each piece is too little to be advised, and all pieces are one row. */
static void test_again(void)
{
	struct written written;
	json_t *json, *row;
	uint64_t i;

	begin_pieces(&written);
	for (i = 0; i < TIMES; i++) {
		put_piece(&written, MEMORY, PIECE, &first_code);
		/* Most of the time is spent elsewhere. */
		written.time += 100 * FAULTS * FAULT_NS / 2;
	}
	json = end_pieces(&written);
	CHECK_EQUAL(json_array_size(json_object_get(json, "buffers")), 1);
	row = json_array_get(json_object_get(json, "buffers"), 0);
	CHECK(!strcmp(string_of(row, "name"), "48 MiB of memory x40"));
	CHECK_EQUAL(integer_of(row, "taken"), TIMES);
	CHECK_EQUAL(integer_of(row, "minor"), TIMES * FAULTS);
	CHECK(!strcmp(string_of(row, "pattern"), "sequential"));
	CHECK_EQUAL(json_array_size(json_object_get(json, "sites")), 1);
	CHECK_EQUAL(integer_of(json_array_get(json_object_get(json, "sites"), 0), "faults"),
		    TIMES * FAULTS);
	CHECK_EQUAL(faults_kept(json), 0);
	json_decref(json);

	/* With less time in between, the faults are more than 2 % of it. */
	begin_pieces(&written);
	for (i = 0; i < TIMES; i++) {
		put_piece(&written, MEMORY, PIECE, &first_code);
		written.time += 20 * FAULTS * FAULT_NS;
	}
	json = end_pieces(&written);
	CHECK_EQUAL(faults_kept(json), (TIMES - 1) * FAULTS);
	json_decref(json);
}

/* Two threads are in a fault as the recording ends, one of them in memory of an earlier place. */
static void test_unfinished(void)
{
	struct written written;
	json_t *json, *row;
	uint32_t i;

	begin_pieces(&written);
	for (i = 0; i < 2; i++) {
		put_piece(&written, MEMORY, PIECE, &first_code);
		put_thread_fault(&written, PID, PID + 1 + i, MEMORY + FAULTS * PAGE, 1,
				 &first_code, 0);
	}
	json = end_pieces(&written);
	row = json_array_get(json_object_get(json, "buffers"), 0);
	CHECK_EQUAL(integer_of(row, "taken"), 2);
	CHECK_EQUAL(integer_of(row, "unfinished"), 2);
	json_decref(json);
}

/* Two at a time are two rows, both kept; a piece that moves by a page is in the same place. */
static void test_two_at_a_time(void)
{
	struct written written;
	AUTO(json_t) *json = NULL;
	uint64_t i;

	begin_pieces(&written);
	for (i = 0; i < TIMES; i++)
		put_piece(&written, (i % 2 + 1) * 8 * MEMORY - i * PAGE, PIECE, &first_code);
	json = end_pieces(&written);
	CHECK_EQUAL(json_array_size(json_object_get(json, "buffers")), 2);
	CHECK_EQUAL(faults_kept(json), (TIMES - 2) * FAULTS);
}

/* Pieces of another size, by other code or in other places do not follow each other. */
static void test_not_again(void)
{
	struct written written;
	json_t *json;
	uint64_t i;

	begin_pieces(&written);
	for (i = 0; i < 8; i++)
		put_piece(&written, MEMORY, PIECE - i * 16 * PAGE, &first_code);
	json = end_pieces(&written);
	CHECK_EQUAL(json_array_size(json_object_get(json, "buffers")), 8);
	CHECK_EQUAL(faults_kept(json), 0);
	json_decref(json);
	begin_pieces(&written);
	for (i = 0; i < 2; i++)
		put_piece(&written, MEMORY, PIECE, i ? &first_code : &other_code);
	json = end_pieces(&written);
	CHECK_EQUAL(json_array_size(json_object_get(json, "buffers")), 2);
	json_decref(json);
	/* All pieces are separate rows, but the 2 % are those of all pieces together. */
	begin_pieces(&written);
	for (i = 1; i < 60; i++)
		put_piece(&written, i * 8 * MEMORY, FAULTS * PAGE << 4, &first_code);
	json = end_pieces(&written);
	CHECK_EQUAL(json_array_size(json_object_get(json, "buffers")), 59);
	CHECK_EQUAL(faults_kept(json), 0);
	CHECK_EQUAL(json_array_size(json_object_get(json, "advice")), 1);
	json_decref(json);
}

static const struct test tests[] = {
	{ "by_time", test_by_time, 60, TEST_ONCE },
	{ "again", test_again, 60, TEST_ONCE },
	{ "unfinished", test_unfinished, 60, TEST_ONCE },
	{ "two_at_a_time", test_two_at_a_time, 60, TEST_ONCE },
	{ "not_again", test_not_again, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_tables", tests)
