// SPDX-License-Identifier: MIT
/*
 * The page of "hetmap report --html" as a file: what of the data is in it, that nothing
 * in a name ends the data, and what is said where it can't be written. tests/perf/test_page.sh
 * opens it in a browser.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/perf/page.h"
#include "lib/harness.h"

static const char data_begin[] = "<script type=\"application/json\" id=\"data\">";
static const char data_end[] = "</script>";

/* The page of @report; free() it. */
static char *written(const json_t *report)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	CHECK_FATAL(out != NULL);
	CHECK_EQUAL(page_write(out, report), 0);
	fclose(out);
	CHECK_FATAL(text != NULL && strlen(text) == length);
	return text;
}

static void check_column(const void *values, size_t size, size_t n, const char *expected)
{
	json_t *column = NULL;

	CHECK_EQUAL(page_column(values, size, n, &column), 0);
	CHECK_FATAL(column != NULL);
	if (strcmp(json_string_value(column), expected))
		test_fail(__FILE__, __LINE__, "%s, not %s", json_string_value(column),
			  expected);
	json_decref(column);
}

/* RFC 4648, section 10; the wider ones from the lowest byte on. */
static void columns(void)
{
	static const uint16_t halves[] = { 1, 0x0203 };
	static const uint32_t words[] = { 0xfbff0001 };

	check_column(NULL, 4, 0, "");
	check_column("f", 1, 1, "Zg==");
	check_column("fo", 1, 2, "Zm8=");
	check_column("foo", 1, 3, "Zm9v");
	check_column("foob", 1, 4, "Zm9vYg==");
	check_column("foobar", 1, 6, "Zm9vYmFy");
	check_column(halves, 2, 2, "AQADAg==");
	check_column(words, 4, 1, "AQD/+w==");
}

static void columns_of_other_sizes(void)
{
	json_t *column = json_null();

	CHECK_EQUAL(page_column("foobar", 3, 2, &column), -EINVAL);
	CHECK_EQUAL(page_column("foobar", 0, 2, &column), -EINVAL);
	CHECK_EQUAL(page_column("foobar", 4, SIZE_MAX / 4, &column), -EINVAL);
	CHECK(column == json_null());
}

static void data_are_whole(void)
{
	json_t *report = json_pack("{s:s, s:[s, s, s], s:I}", "a", "</script><!--", "b",
				   "@DATA@", "@SCRIPT@", "\"\\\n\x7f", "<c>",
				   (json_int_t)1 << 60);
	char *page = written(report);
	char *from = strstr(page, data_begin), *to;
	json_t *read;

	CHECK_FATAL(from != NULL);
	from += sizeof(data_begin) - 1;
	to = strstr(from, data_end);
	CHECK_FATAL(to != NULL);
	CHECK(memchr(from, '<', (size_t)(to - from)) == NULL);
	read = json_loadb(from, (size_t)(to - from), 0, NULL);
	CHECK(json_equal(read, report));
	json_decref(read);
	json_decref(report);
	free(page);
}

/* What is left of the frame would be shown, and what is fetched would be a network's. */
static void page_is_whole(void)
{
	static const char *const foreign[] = { "@STYLE@", "@DATA@",  "@SCRIPT@", "http:",
					       "https:",  "src=",    "href=",    "url(",
					       "@import", "import(", "fetch(",   "XMLHttp" };
	json_t *report = json_object();
	char *page = written(report);
	size_t i;

	for (i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		if (strstr(page, foreign[i]))
			test_fail(__FILE__, __LINE__, "%s is in it", foreign[i]);
	CHECK(!strncmp(page, "<!DOCTYPE html>\n", 16));
	CHECK(strstr(page, "content=\"default-src 'none'; script-src 'unsafe-inline'; "
			   "style-src 'unsafe-inline'; img-src data:\"") != NULL);
	CHECK(strstr(page, "prefers-color-scheme: dark") != NULL);
	CHECK(strstr(page, "</html>\n") != NULL);
	/* All names of the data are used as text. */
	CHECK(strstr(page, "innerHTML") == NULL);
	json_decref(report);
	free(page);
}

static void no_room(void)
{
	FILE *out = fopen("/dev/full", "w");
	json_t *report = json_object();

	CHECK_FATAL(out != NULL);
	CHECK_EQUAL(page_write(out, report), -ENOSPC);
	/* Nothing is kept back that a later write would find room for. */
	setvbuf(out, NULL, _IONBF, 0);
	CHECK_EQUAL(page_write(out, report), -ENOSPC);
	fclose(out);
	json_decref(report);
}

static void no_report(void)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	json_t *list = json_array();

	CHECK_FATAL(out != NULL);
	CHECK_EQUAL(page_write(out, NULL), -EINVAL);
	CHECK_EQUAL(page_write(out, list), -EINVAL);
	fclose(out);
	CHECK_EQUAL(length, 0);
	json_decref(list);
	free(text);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "columns", columns, 0, 0 },
		{ "columns_of_other_sizes", columns_of_other_sizes, 0, 0 },
		{ "data_are_whole", data_are_whole, 0, 0 },
		{ "page_is_whole", page_is_whole, 0, 0 },
		{ "no_room", no_room, 0, 0 },
		{ "no_report", no_report, 0, 0 },
		{ NULL, NULL, 0, 0 },
	};

	return harness_main(argc, argv, "page_write", tests);
}
