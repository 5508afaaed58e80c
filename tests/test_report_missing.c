// SPDX-License-Identifier: MIT
/* What hetmap report says is missing of a trace, and of what stands beside its records. */
#include "written_trace.h"

/* What stands beside the recording is missed where it can't be read, and only there. */
static void test_broken_about(void)
{
	static const struct {
		const char *text, *why;
	} broken[] = {
		{ "{\"costs\": {\"anon", "(line 1: " },
		{ "[]", "(it is no object)" },
		{ "", "(line 1: " },
	};
	uint64_t code = CODE + 0x100;
	struct written written;
	char *text;
	size_t i;

	begin(&written);
	put_name(&written, PID, "broken", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(&written, PID, MEMORY, 1, &code);
	finish(&written, json_object());
	text = report_as(&written, NULL);
	CHECK(!strstr(text, "about.json"));
	free(text);
	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		file_write(written.folder, "trace/about.json", broken[i].text,
			   strlen(broken[i].text));
		text = report_as(&written, NULL);
		CHECK(strstr(text, "! its about.json can't be read ("));
		CHECK(strstr(text, broken[i].why));
		free(text);
	}
	file_write(written.folder, "trace/about.json", "{\"a\": \033[2J}", 11);
	text = report_as(&written, NULL);
	check_harmless(text);
	free(text);
	end(&written);
}

/* As one is whose tracer was killed: nobody wrote its end, or what is beside it. */
static void test_unfinished(void)
{
	uint64_t code = CODE + 0x100;
	struct written written;
	json_t *json, *missing;
	char *text;

	begin(&written);
	put_program(&written, "/program", code, "first");
	json = json_of(&written);
	CHECK_EQUAL(faults_at(json, "program"), 1);
	missing = json_object_get(json, "missing");
	CHECK(strstr(json_string_value(json_array_get(missing, 0)), "about.json is not there"));
	CHECK(strstr(json_string_value(json_array_get(missing, 1)), "is cut off"));
	json_decref(json);
	text = report_as(&written, NULL);
	CHECK(strstr(text, "! about.json is not there"));
	free(text);
	end(&written);
}

static const struct test tests[] = {
	{ "broken_about", test_broken_about, 60, TEST_ONCE },
	{ "unfinished", test_unfinished, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "report_missing", tests);
}
