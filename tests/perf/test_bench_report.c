// SPDX-License-Identifier: MIT
/* Reports of hetmap bench on a run: comparisons, and the contents that it accepts in files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/bench_files.h"
#include "lib/command.h"

static bool ends(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

/* ---- --compare ---- */

static const struct verdict {
	const char *name;
	double old_value, value, old_peer, peer, own, noise;
	const char *says;
} verdicts[] = {
	{ "within the noise", 10, 10.5, 10, 10, 0.1, 0.05, "no difference" },
	{ "bounds that touch", 10, 11, 10, 10, 0.1, 0.05, "no difference" },
	{ "ours is slower", 10, 11, 10, 10, 0.1, 0.01, "slower: ours" },
	{ "ours is faster", 10, 9, 10, 10, 0.1, 0.01, "faster: ours" },
	{ "the peer is faster", 10, 10, 10, 9, 0.1, 0.01, "slower: peer" },
	{ "the peer is slower", 10, 10, 10, 11, 0.1, 0.01, "faster: peer" },
	{ "both are faster", 10, 8, 10, 9, 0.1, 0.01, "unclear: both" },
	{ "both, apart", 10, 11, 10, 9, 0.1, 0.01, "slower: both" },
	{ "neither alone", 10, 10.3, 10, 9.8, 0.5, 0.01, "slower: neither" },
	{ "both as much slower", 10, 20, 10, 20, 0.1, 0.01, "no difference" },
};

#define N_VERDICT (sizeof(verdicts) / sizeof(verdicts[0]))

/* The file of one side; @old: of that one. */
static char *verdicts_file(const char *folder, bool old, const char *machine)
{
	const char *texts[N_VERDICT + 2] = { machine };
	char *path;
	size_t i;

	for (i = 0; i < N_VERDICT; i++) {
		const struct verdict *v = &verdicts[i];

		texts[i + 1] = line_make("map_cycle", v->name, old ? v->old_value : v->value,
					 old ? v->old_peer : v->peer, v->own, v->noise);
	}
	path = file_make(folder, old ? "old" : "new", texts);
	for (i = 0; i < N_VERDICT; i++)
		free((char *)texts[i + 1]);
	return path;
}

static void test_verdicts(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *old = verdicts_file(folder, true, MACHINE("A"));
	AUTO_TEXT *now = verdicts_file(folder, false, MACHINE("A"));
	AUTO(outcome) outcome = { 0 };
	size_t i;

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--compare", old, "--with", now } });
	check_lines(outcome.out);
	for (i = 0; i < N_VERDICT; i++) {
		const char *rest = rest_of(outcome.out, verdicts[i].name);

		if (!ends(rest, verdicts[i].says))
			test_fail(__FILE__, __LINE__, "%s: %s", verdicts[i].name, rest);
	}
	CHECK_HAS(rest_of(outcome.out, "ours is slower"), "10.0 us   11.0 us  1.000  1.100");
	CHECK(strstr(outcome.out, "2 faster, 4 slower, 1 unclear, 3 alike, 0 not compared"));
	CHECK(!strstr(outcome.out, "another machine") && !strstr(outcome.out, "Other work"));
}

/* The other columns are where they are, on a line of their own. */
static void test_long_name(void)
{
	const char *texts[] = { MACHINE("A"), NULL, NULL };
	AUTO_TEXT *folder = folder_make(), *line = NULL, *path = NULL;
	AUTO(outcome) outcome = { 0 };
	int i;

	texts[1] = line = line_make("map_cycle", "longer than its column has room for", 10, 10,
				    0.1, 0.01);
	path = file_make(folder, "run", texts);
	for (i = 0; i < 2; i++) {
		CHECK_RUN(0, &outcome,
			  &(struct command){ .args = { "bench", "--with", path,
						       i ? "--compare" : NULL, path } });
		check_lines(outcome.out);
		CHECK(strstr(outcome.out, "room for\n                             10.0 us "));
	}
}

/* On another machine only the ratios are comparable, and a change can't be blamed on a side. */
static void test_other_machine(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *old = verdicts_file(folder, true, MACHINE("A"));
	AUTO_TEXT *now = verdicts_file(folder, false, MACHINE("B"));
	AUTO(outcome) outcome = { 0 };
	const char *rest;

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--compare", old, "--with", now } });
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, " (cpu): ratios to the peer alone."));
	rest = rest_of(outcome.out, "ours is slower");
	CHECK(ends(rest, "slower") && !strstr(rest, "us"));
	CHECK(ends(rest_of(outcome.out, "within the noise"), "no difference"));
}

static void test_compare_json(void)
{
	char *folder = folder_make(), *line, *rest;
	AUTO_TEXT *old = verdicts_file(folder, true, MACHINE("A"));
	AUTO_TEXT *now = verdicts_file(folder, false, MACHINE("A"));
	AUTO(outcome) outcome = { 0 };
	size_t n = 0;

	CHECK_RUN(0, &outcome,
		  &(struct command){
			  .args = { "bench", "--compare", old, "--with", now, "--json" } });
	for (line = strtok_r(outcome.out, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest), n++) {
		json_t *object = json_loads(line, 0, NULL);
		const char *verdict;

		CHECK_FATAL(json_is_object(object));
		CHECK(json_object_get(object, "compared") != NULL);
		if (n) {
			verdict = string_of(object, "verdict");
			CHECK(!strncmp(verdicts[n - 1].says, verdict, strlen(verdict)));
			CHECK(real_of(object, "old_ratio") > 0 && real_of(object, "ratio") > 0);
		}
		json_decref(object);
	}
	CHECK_EQUAL(n, N_VERDICT + 1);
	folder_remove(folder);
}

static void test_not_compared(void)
{
	AUTO_TEXT *folder = folder_make();
	const char *const old_texts[] = { MACHINE("A"),      COUNT("12"),
					  FEW("few rounds"), SKIPPED("launch", "a"),
					  FEW("gone"),       NULL };
	const char *const texts[] = { MACHINE("A"),
				      COUNT("13"),
				      FEW("few rounds"),
				      FEW("fresh"),
				      SKIPPED("launch", "kernel b"),
				      NULL };
	AUTO_TEXT *old = file_make(folder, "old", old_texts);
	AUTO_TEXT *now = file_make(folder, "new", texts);
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--compare", old, "--with", now } });
	check_lines(outcome.out);
	/* A count has no noise. */
	CHECK(ends(rest_of(outcome.out, "a count"), "slower: ours"));
	CHECK(ends(rest_of(outcome.out, "  few rounds"), "too few rounds"));
	CHECK(ends(rest_of(outcome.out, "  fresh"), "not in the old run"));
	CHECK(ends(rest_of(outcome.out, "  kernel b"), "skipped now"));
	CHECK(strstr(outcome.out,
		     "0 faster, 1 slower, 0 unclear, 0 alike, 3 not compared; 2 gone"));
	/* One benchmark alone. */
	CHECK_RUN(0, &outcome,
		  &(struct command){
			  .args = { "bench", "--compare", old, "--with", now, "sim_fault" } });
	CHECK(strstr(outcome.out, "a count") && !strstr(outcome.out, "few rounds"));
	CHECK(strstr(outcome.out, "0 not compared\n"));
}

/* ---- files that are no run ---- */

static void test_broken_files(void)
{
	static const struct {
		const char *texts[4];
		const char *says;
	} cases[] = {
		{ { "" }, "line 0: it ends before there is anything" },
		{ { "some text\n" }, "line 1: no object of JSON" },
		{ { "[1, 2]\n" }, "line 1: no object of JSON: another value" },
		{ { "{\"name\": \"another program's\"}\n" }, "line 1: no \"machine\"" },
		{ { MACHINE("A"), "{\"name\": \"another's\"}\n" }, "line 2: no case of a" },
		{ { MACHINE("A"), FEW("a"), "{\"bench\": \"grow\", \"case\": \"b\", \"un" },
		  "line 3: no object of JSON" },
		{ { MACHINE("A"), FEW("a"), FEW("a") }, "line 3: grow, a is there already" },
		{ { MACHINE("A"), MACHINE("A") }, "line 2: a second machine" },
		{ { "{\"machine\": [2]}\n" }, "line 1: \"machine\" has no \"cpu\"" },
		{ { MACHINE("A"),
		    "{\"bench\": \"grow\", \"case\": \"b\", \"unit\": \"us\", "
		    "\"value\": 1e300, \"p99\": 1, \"peer\": \"p\", \"peer_value\": 1, "
		    "\"ratio\": 1}\n" },
		  "line 2: a figure is beyond all measure" },
		{ { MACHINE("A"), "{\"bench\": \"grow\", \"case\": \"b\", \"unit\": 3}\n" },
		  "line 2: not all figures of a case" },
		{ { MACHINE("A"),
		    "{\"bench\": \"grow\", \"case\": \"b\", \"unit\": \"\\u001b[\", "
		    "\"value\": 1, \"p99\": 1, \"peer\": \"p\", \"peer_value\": 1, "
		    "\"ratio\": 1}\n" },
		  "line 2: \"unit\" is none" },
		{ { MACHINE("A"),
		    "{\"bench\": \"grow\", \"case\": \"b\", \"unit\": \"us\", "
		    "\"value\": 1, \"p99\": 1, \"peer\": \"p\", \"peer_value\": 1, "
		    "\"ratio\": 1, \"rounds\": 9, \"value_95\": [2, 1], "
		    "\"peer_value_95\": null, \"ratio_95\": null, " SAMPLES "}\n" },
		  "line 2: an interval is not two numbers" },
		{ { MACHINE("A"),
		    "{\"bench\": \"grow\", \"case\": \"b\", \"unit\": \"us\", "
		    "\"value\": 1, \"p99\": 1, \"peer\": \"p\", \"peer_value\": 1, "
		    "\"ratio\": 1, \"rounds\": 9, \"value_95\": null, "
		    "\"peer_value_95\": null, \"ratio_95\": null, "
		    "\"samples\": [2, 1], \"peer_samples\": [1]}\n" },
		  "line 2: samples are not" },
		{ { MACHINE("A"),
		    "{\"bench\": \"grow\", \"case\": \"b\", \"unit\": \"us\", "
		    "\"value\": 1, \"p99\": 1, \"peer\": \"p\", \"peer_value\": 1, "
		    "\"ratio\": 1, \"rounds\": -1}\n" },
		  "line 2: \"rounds\" is no number" },
	};
	static const char *const options[] = { "--compare", "--with" };
	AUTO_TEXT *folder = folder_make();
	AUTO(outcome) outcome = { 0 };
	size_t i, o;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *texts[5] = { NULL };
		char *path;

		memcpy(texts, cases[i].texts, sizeof(cases[i].texts));
		path = file_make(folder, "run", texts);
		for (o = 0; o < 2; o++) {
			CHECK_RUN(2, &outcome,
				  &(struct command){ .args = { "bench", options[o], path } });
			CHECK(!strcmp(outcome.out, ""));
			if (!strstr(outcome.err, cases[i].says))
				test_fail(__FILE__, __LINE__, "case %zu: %s", i, outcome.err);
		}
		free(path);
	}
}

static void test_unreadable_files(void)
{
	AUTO_TEXT *folder = folder_make(), *zeros = NULL,
		  *long_line = folder_path(folder, "long");
	AUTO(outcome) outcome = { 0 };
	FILE *file;
	int i;

	CHECK_RUN(2, &outcome,
		  &(struct command){ .args = { "bench", "--with", "/no/such/file" } });
	CHECK(strstr(outcome.err, "cannot open '/no/such/file'"));
	CHECK_RUN(2, &outcome, &(struct command){ .args = { "bench", "--compare", folder } });
	CHECK(strstr(outcome.err, "Is a directory"));

	file_sparse(folder, "zeros", 1 << 30);
	zeros = folder_path(folder, "zeros");
	CHECK_RUN(2, &outcome,
		  &(struct command){ .args = { "bench", "--with", zeros, "--json" } });
	check_failure_json(&outcome, EINVAL);
	CHECK(strstr(outcome.out, "line 1: it has a byte 0"));

	file = fopen(long_line, "we");
	CHECK_FATAL(file != NULL);
	for (i = 0; i < 300000; i++)
		fputs("[[[[[[[[", file);
	fclose(file);
	CHECK_RUN(2, &outcome, &(struct command){ .args = { "bench", "--with", long_line } });
	CHECK(strstr(outcome.err, "more than 1048576 bytes"));
}

/* ---- --with ---- */

/* Measured figures print like figures read from a file. */
static void test_round_trip(void)
{
	static const char *const cases[] = { "map_cycle", "launch", "protect_pair" };
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	AUTO(outcome) first = { 0 }, second = { 0 };

	CHECK_RUN(0, &first,
		  &(struct command){ .args = { "bench", "--json", "--rounds", "7", cases[0],
					       cases[1], cases[2] } });
	file_write(folder, "run", first.out, strlen(first.out));
	path = folder_path(folder, "run");
	CHECK_RUN(0, &second,
		  &(struct command){ .args = { "bench", "--json", "--with", path } });
	CHECK(!strcmp(first.out, second.out));
	CHECK_RUN(0, &second, &(struct command){ .args = { "bench", "-v", "--with", path } });
	check_lines(second.out);
	CHECK(strstr(second.out, "95% of 7 rounds: median ") != NULL);
	CHECK(strstr(second.out, "seed 1\n") != NULL);
}

/* ---- the machine ---- */

static void unwrap(char *text)
{
	while ((text = strchr(text, '\n')))
		*text = ' ';
}

/* A machine that is made up: HETMAP_ROOT has its files. */
static void test_machine(void)
{
	static const char cpuinfo[] = "processor\t: 0\nmodel name\t: Quick One\n"
				      "flags\t\t: fpu hypervisor sse\n";
	static const char meminfo[] = "MemTotal:  2048 kB\nMemAvailable:  1024 kB\n";
	static const char thp[] = "always [madvise] never\n",
			  shmem[] = "always [advise] never\n";
	char *folder = folder_make(), root[4096];
	AUTO(outcome) outcome = { 0 };
	json_t *line, *machine;

	file_write(folder, "proc/cpuinfo", cpuinfo, strlen(cpuinfo));
	file_write(folder, "proc/meminfo", meminfo, strlen(meminfo));
	file_write(folder, "proc/loadavg", "1.50 2.00 3.00 1/2 3\n", 21);
	file_write(folder, "sys/kernel/mm/transparent_hugepage/enabled", thp, strlen(thp));
	file_write(folder, "sys/kernel/mm/transparent_hugepage/shmem_enabled", shmem,
		   strlen(shmem));
	file_write(folder, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
		   "powersave\n", 10);
	snprintf(root, sizeof(root), "HETMAP_ROOT=%s", folder);
	CHECK_RUN(
		0, &outcome,
		&(struct command){ .args = { "bench", "--json", "--rounds", "1", "map_cycle" },
				   .env = { root } });
	line = json_loads(outcome.out, JSON_DISABLE_EOF_CHECK, NULL);
	machine = json_object_get(line, "machine");
	CHECK_FATAL(json_is_object(machine));
	CHECK(!strcmp(string_of(machine, "cpu"), "Quick One"));
	CHECK(json_is_true(json_object_get(machine, "virtual")));
	CHECK_EQUAL(integer_of(machine, "memory"), 2048 * 1024);
	CHECK_EQUAL(integer_of(machine, "memory_available"), 1024 * 1024);
	CHECK(!strcmp(string_of(machine, "thp"), "madvise"));
	CHECK(!strcmp(string_of(machine, "thp_shmem"), "advise"));
	CHECK(!strcmp(string_of(machine, "governor"), "powersave"));
	CHECK(json_number_value(json_array_get(json_object_get(machine, "load"), 1)) == 2);
	CHECK_EQUAL(integer_of(json_object_get(line, "bootstrap"), "seed"), 1);
	json_decref(line);

	/* And as the head of a table; where there is nothing to read, it says that. */
	command_run(&(struct command){ .args = { "bench", "--rounds", "1", "map_cycle" },
				       .env = { root } },
		    &outcome);
	check_lines(outcome.out);
	unwrap(outcome.out);
	CHECK(!strncmp(outcome.out, "Quick One, ", 11));
	CHECK(strstr(outcome.out, " THP madvise, shared advise; "));
	CHECK(strstr(outcome.out, " powersave; ") && strstr(outcome.out, " load 1.50; "));
	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--rounds", "1", "map_cycle" },
				     .env = { "HETMAP_ROOT=/nonexistent" } });
	unwrap(outcome.out);
	CHECK(!strncmp(outcome.out, "unknown CPU, ", 13));
	CHECK(strstr(outcome.out, " THP unknown, shared unknown; "));
	folder_remove(folder);
}

static const struct test tests[] = {
	{ "long_name", test_long_name, 0, 0 },
	{ "verdicts", test_verdicts, 0, 0 },
	{ "other_machine", test_other_machine, 0, 0 },
	{ "compare_json", test_compare_json, 0, 0 },
	{ "not_compared", test_not_compared, 0, 0 },
	{ "broken_files", test_broken_files, 60, 0 },
	{ "unreadable_files", test_unreadable_files, 60, 0 },
	{ "round_trip", test_round_trip, 60, 0 },
	{ "machine", test_machine, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "bench_report", tests)
