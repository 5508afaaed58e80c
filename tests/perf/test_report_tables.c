// SPDX-License-Identifier: MIT
/* The rows of hetmap report's tables: their order, and which of them are one. */
#include "perf/written_trace.h"

/* Where the row of @name begins in the table that begins with @table. */
static const char *row_of(const char *text, const char *table, const char *name)
{
	const char *at = strstr(text, table);

	at = at ? strstr(at, name) : NULL;
	CHECK_FATAL(at != NULL);
	return at;
}

/* Few faults that took long are above many that did not, wherever rows are shown. */
static void test_by_time(void)
{
	static const char *const tables[] = { "\nBuffer ", "\nCall site of " };
	const uint64_t few = CODE + 0x100, many = CODE + PAGE + 0x100;
	struct written written;
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
	/* The picture is of the most faults. */
	text = report_as(&written, "--svg");
	CHECK(strstr(text, "/many: 8 page faults"));
	free(text);
	end(&written);
}

static const struct test tests[] = {
	{ "by_time", test_by_time, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "report_tables", tests);
}
