// SPDX-License-Identifier: MIT
/* Pages that hetmap bench makes of a run: HTML, Markdown, and published figures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"
#include "perf/bench_files.h"

static char *page_read(const char *path)
{
	char *page = NULL;
	size_t size;
	FILE *file = fopen(path, "re"), *text;
	int c;

	CHECK_FATAL(file != NULL);
	text = open_memstream(&page, &size);
	CHECK_FATAL(text != NULL);
	while ((c = getc(file)) != EOF)
		putc(c, text);
	fclose(text);
	fclose(file);
	return page;
}

/* ---- --html ---- */

/* Each element that is begun is ended, in order. */
static void check_balanced(const char *page)
{
	const char *open[64], *at = page;
	size_t length[64], depth = 0;

	while ((at = strchr(at, '<'))) {
		const char *end = strchr(at, '>');
		size_t n;

		CHECK_FATAL(end != NULL);
		if (at[1] == '!' || end[-1] == '/') {
			at = end;
			continue;
		}
		at += at[1] == '/' ? 2 : 1;
		n = strspn(at, "abcdefghijklmnopqrstuvwxyz123456");
		CHECK_FATAL(n > 0);
		if (at[-1] == '/') {
			CHECK_FATAL(depth > 0);
			depth--;
			CHECK_FATAL(length[depth] == n && !strncmp(open[depth], at, n));
		} else {
			CHECK_FATAL(depth < 64);
			open[depth] = at;
			length[depth++] = n;
		}
		at = end;
	}
	CHECK_EQUAL(depth, 0);
}

/* Nothing that a browser would fetch, and nothing that runs. */
static void check_alone(const char *page)
{
	static const char *const foreign[] = {
		"http:",   "https:",  "//",    "src=",    "url(",
		"@import", "<script", "<link", "<iframe", "<img"
	};
	size_t i;

	for (i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		if (strstr(page, foreign[i]))
			test_fail(__FILE__, __LINE__, "the page has '%s'", foreign[i]);
}

/* Checks the page with an independent parser, where there is one. */
static void check_xml(const char *path)
{
	AUTO_TEXT *command = NULL;
	int status;

	if (asprintf(&command, "xmllint --noout --nonet '%s'", path) < 0)
		abort();
	status = access("/usr/bin/xmllint", X_OK) ? 0 : system(command);
	CHECK_EQUAL(status, 0);
}

static void test_html(void)
{
	const char *const texts[] = { MACHINE("A <\\\"B\\\" & C>"),
				      line_make("map_cycle", "a <b> & c", 10, 12, 0.1, 0.02),
				      line_make("map_cycle", "wide", 1, 4000, 0.1, 0.0001),
				      COUNT("12"),
				      FEW("few rounds"),
				      SKIPPED("launch", "a kernel"),
				      SKIPPED("not_of_this_version", "a"),
				      NULL };
	AUTO_TEXT *folder = folder_make(), *run = file_make(folder, "run", texts);
	char *path = folder_path(folder, "page.html"), *page;
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--with", run, "--html", path } });
	CHECK(!strcmp(outcome.out, "") && !strcmp(outcome.err, ""));
	page = page_read(path);
	check_alone(page);
	check_balanced(page);
	check_xml(path);
	CHECK(strstr(page, "a &lt;b&gt; &amp; c") && !strstr(page, "<b>"));
	CHECK(strstr(page, "A &lt;&quot;B&quot; &amp; C&gt;, 2 CPUs"));
	CHECK(strstr(page, "hetmap: median 10.0 us, 99th percentile 20.0 us; the peer: median "
			   "12.0 us, 99th percentile 24.0 us; 100 rounds."));
	CHECK(strstr(page, "prefers-color-scheme: dark"));
	CHECK(strstr(page, "skipped: no such device"));
	free(page);

	CHECK_RUN(2, &outcome,
		  &(struct command){ .args = { "bench", "--with", run, "--html",
					       "/no/such/folder/page.html" } });
	CHECK(strstr(outcome.err, "cannot write '/no/such/folder/page.html'"));
	CHECK_RUN(
		3, &outcome,
		&(struct command){ .args = { "bench", "--with", run, "--html", "/dev/full" } });
	CHECK(strstr(outcome.err, "No space left on device"));
	free((char *)texts[1]);
	free((char *)texts[2]);
	free(path);
}

/* A page of figures measured just now, beside the table. */
static void test_html_measured(void)
{
	char *at;
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "page.html"),
		  *page = NULL;
	AUTO(outcome) outcome = { 0 };
	int n = 0;

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--html", path, "--rounds", "9",
					       "map_cycle", "launch" } });
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, "every page written"));
	page = page_read(path);
	check_alone(page);
	check_balanced(page);
	check_xml(path);
	/* Two lanes of map_cycle's two cases have nine dots each, at least. */
	for (at = page; (at = strstr(at, "<circle ")); at++)
		n++;
	CHECK(n >= 36);
}

/* ---- --claims ---- */

static const char *const published[] = { "37% less time",   "10 ns",
					 "18% more frames", "23% less transfer time",
					 "under 5 ms",      "17% to 6%" };

#define N_CLAIM (sizeof(published) / sizeof(published[0]))

static void test_claims(void)
{
	const char *const texts[] = {
		MACHINE("A"),
		line_make("transfer_1g", "soft:0", 5, 10, 0.1, 0.01),
		line_make("zero_copy", "against a host pointer", 9, 10, 0.1, 0.01),
		SKIPPED("zero_copy", "against copies"),
		line_make("prefetch_gain", "sequential frames", 4, 5, 0.1, 0.01),
		line_make("particles", "share of communication, 4 ranks, shared pages", 6, 17,
			  0.1, 0.01),
		NULL
	};
	char *line, *rest;
	AUTO_TEXT *folder = folder_make(), *run = file_make(folder, "run", texts);
	AUTO(outcome) outcome = { 0 };
	size_t i, n;

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--claims", "--with", run } });
	check_lines(outcome.out);
	for (i = 0; i < N_CLAIM; i++)
		CHECK(strstr(outcome.out, published[i]));
	CHECK(strstr(outcome.out, "50% less time (ratio 0.500, 95%: 0.490 to 0.510): "
				  "transfer_1g, soft:0"));
	CHECK(strstr(outcome.out, "not measured in this run: no such device"));
	CHECK(strstr(outcome.out, "25% more frames (ratio 0.800"));
	CHECK(strstr(outcome.out, "17.0% to 6.0% (ratio 0.353"));

	CHECK_RUN(
		0, &outcome,
		&(struct command){ .args = { "bench", "--claims", "--json", "--with", run } });
	for (line = strtok_r(outcome.out, "\n", &rest), n = 0; line;
	     line = strtok_r(NULL, "\n", &rest), n++) {
		json_t *object = json_loads(line, 0, NULL);
		size_t measured;

		CHECK_FATAL(json_is_object(object) && n < N_CLAIM);
		CHECK(!strcmp(string_of(object, "published"), published[n]));
		measured = json_array_size(json_object_get(object, "measured"));
		CHECK_EQUAL(measured, n == 0 || n == 2 || n == 5);
		CHECK(!json_object_get(object, "not_measured") == !!measured);
		json_decref(object);
	}
	CHECK_EQUAL(n, N_CLAIM);
	free((char *)texts[1]);
	free((char *)texts[2]);
	free((char *)texts[4]);
	free((char *)texts[5]);
}

/* ---- --markdown ---- */

/* The figures in the page's row of a case are those of its line of JSON. */
static void check_markdown_row(const char *page, const json_t *object)
{
	double ratio, low, high;
	char *head, digits[64];
	const char *rest;

	if (asprintf(&head, "| %s | ", string_of(object, "case")) < 0)
		abort();
	rest = rest_of(page, head);
	free(head);
	if (sscanf(rest, "%*[^|]| %*[^|]| %*[^|]| %lf | %lf to %lf", &ratio, &low, &high) !=
	    3) {
		test_fail(__FILE__, __LINE__, "no row of a table: %s", rest);
		return;
	}
	snprintf(digits, sizeof(digits), "%.2f", real_of(object, "ratio"));
	CHECK(ratio == strtod(digits, NULL));
	snprintf(digits, sizeof(digits), "%.3f",
		 json_number_value(json_array_get(json_object_get(object, "ratio_95"), 0)));
	CHECK(low == strtod(digits, NULL) && low <= high);
}

static void test_markdown(void)
{
	char *line, *rest;
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	AUTO(outcome) run = { 0 }, page = { 0 };
	int n = 0;

	CHECK_RUN(0, &run,
		  &(struct command){ .args = { "bench", "--json", "--rounds", "9", "map_cycle",
					       "launch" } });
	file_write(folder, "run", run.out, strlen(run.out));
	path = folder_path(folder, "run");
	CHECK_RUN(0, &page,
		  &(struct command){ .args = { "bench", "--markdown", "--with", path } });
	for (line = strtok_r(run.out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		json_t *object = json_loads(line, 0, NULL);

		CHECK_FATAL(json_is_object(object));
		if (json_object_get(object, "ratio")) {
			check_markdown_row(page.out, object);
			n++;
		}
		json_decref(object);
	}
	CHECK(n >= 2);
	CHECK(strstr(page.out, "| 37% less time |") && strstr(page.out, "## The machine"));
}

/* The page of results matches what this command makes of the run beside it. */
static void test_performance_page(void)
{
	AUTO_TEXT *page = page_read("tools/perf/bench/results/performance.md");
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--markdown", "--with",
					       "tools/perf/bench/results/performance.json" } });
	CHECK(!strcmp(outcome.out, page));
}

static const struct test tests[] = {
	{ "html", test_html, 0, 0 },
	{ "html_measured", test_html_measured, 60, 0 },
	{ "claims", test_claims, 0, 0 },
	{ "markdown", test_markdown, 60, 0 },
	{ "performance_page", test_performance_page, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "bench_pages", tests)
