// SPDX-License-Identifier: MIT
/* hetmap report: reads a trace and says which parts were slow, as text, JSON, or a page. */
#include "perf/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "perf/read/nodes.h"
#include "perf/read/symbols.h"
#include "perf/record/storage.h"
#include "perf/record/trace_folder.h"
#include "perf/report/accel_cost.h"
#include "perf/report/page.h"
#include "subcommands.h"

#define ROWS 10
#define SITES_NAMED 1000
/* A recording is whole in its file at most so much later. */
#define WRITING_NS (UINT64_C(60) * 1000000000)

enum {
	OPTION_JSON,
	OPTION_HTML,
	OPTION_SVG,
	OPTION_FOLDED,
	OPTION_PERF_SCRIPT,
	OPTION_ROWS,
	OPTION_QUIET,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_JSON] = OPTION_ROW_JSON("the same as JSON"),
	[OPTION_HTML] = { 0, "html", "FILE",
			  "a page with pictures, in one file: addresses over\n"
			  "time, CPUs, latencies; \"-\" is standard output" },
	[OPTION_SVG] = { 0, "svg", "FILE",
			 "a picture of the buffer with the most faults, likewise" },
	[OPTION_FOLDED] = { 0, "folded", "FILE",
			    "lines of \"thread;function;buffer N\", as flame graphs\n"
			    "are made of, likewise" },
	[OPTION_PERF_SCRIPT] = { 0, "perf-script", "FILE",
				 "read the output of perf script in place of TRACE\n"
				 "(hetmap-report(1) has its options)" },
	[OPTION_ROWS] = { 'n', "rows", "N", "rows of each table (default: 10)" },
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

struct wish {
	const char *path;
	bool text;                       /* it is perf script's */
	const char *html, *svg, *folded; /* NULL: not wanted */
	uint32_t rows;                   /* of each table */
};

static void usage(void)
{
	puts("Usage: hetmap report [OPTION]... [TRACE]\n"
	     "\n"
	     "Reports on a trace, made by hetmap trace or by perf record -d -e page-faults\n"
	     "-c 1: the buffers of its page faults, their order, places in the code and cost,\n"
	     "and advice, with the figures behind it.\n"
	     "TRACE is a folder or a file of perf's; " TRACE_FOLDER " if left out.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap trace -- ./program && hetmap report\n"
	     "  hetmap report weights.trace --html weights.html\n"
	     "  hetmap report --json | jq '.advice[] | {text, gain_ns}'\n"
	     "\n"
	     "Exit status: 0 done; 2 usage, or no such trace, or it is none; 3 it can't be\n"
	     "read; 128 + n on signal n. See also hetmap-report(1).");
}

/* ---- further facts ---- */

/* perf's recordings have none. If one is there and can't be read, *ret_why says why. */
static json_t *read_about(const char *path, char **ret_why, bool *ret_missing)
{
	char *file = trace_folder_file(path, "about.json");
	json_error_t error;
	json_t *about = json_load_file(file, JSON_REJECT_DUPLICATES, &error);

	*ret_why = NULL;
	*ret_missing = false;
	/* Of a file, and no folder, it is ENOTDIR. */
	if (!about && access(file, F_OK))
		*ret_missing = errno == ENOENT;
	else if (!about && error.line > 0)
		*ret_why = text_format("line %d: %s", error.line, error.text);
	else if (!about)
		*ret_why = text_format("%s", error.text);
	else if (!json_is_object(about))
		*ret_why = text_format("it is no object");
	if (!json_is_object(about)) {
		json_decref(about);
		about = json_object();
	}
	free(file);
	return about;
}

static double number_of(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static char *command_of(const json_t *about)
{
	const json_t *words = json_object_get(about, "command"), *word;
	char *text = strdup(""), *longer;
	size_t i;

	json_array_foreach(words, i, word)
	{
		if (!json_is_string(word))
			continue;
		longer = text_format("%s%s%s", text, i ? " " : "", json_string_value(word));
		free(text);
		text = longer;
	}
	if (!*text && about_count(about, "pid")) {
		free(text);
		text = text_format("process %" PRIu64, about_count(about, "pid"));
	}
	return text;
}

static void read_costs(struct report *report)
{
	const json_t *costs = json_object_get(report->about, "costs");

	report->costs = (struct costs){
		.anon_fault = number_of(costs, "anon_fault_ns"),
		.file_fault = number_of(costs, "file_fault_ns"),
		.anon_populate = number_of(costs, "anon_populate_ns"),
		.anon_huge = number_of(costs, "anon_huge_ns"),
		.file_populate = number_of(costs, "file_populate_ns"),
	};
}

/* Only where it was traced, and no restart ago: elsewhere names and numbers mean nothing. */
static bool is_here(const struct report *report)
{
	char boot[STORAGE_BOOT_MAX];

	return storage_boot(boot) && !strcmp(boot, about_string(report->about, "boot"));
}

/*
 * A rate that was measured stays in the trace, if it may be written to, and the advice with it.
 */
static void remember(const struct report *report)
{
	char *file = trace_folder_file(report->path, "about.json");

	signals_end_at_once(false);
	json_dump_file(report->about, file, JSON_INDENT(1));
	signals_end_at_once(true);
	free(file);
}

static double rate_of(void *user, const struct object *object)
{
	struct report *report = user;
	json_t *rates = json_object_get(report->about, "storage");
	double rate = 0;
	char *file;

	if (!object->backed_by)
		return 0;
	file = text_escape_json(object->backed_by);
	rate = number_of(rates, file);
	if (rate <= 0 && is_here(report) &&
	    !storage_rate(&report->rates, object->backed_by, object->inode, &rate)) {
		if (!json_is_object(rates)) {
			rates = json_object();
			json_object_set_new(report->about, "storage", rates);
		}
		json_object_set_new(rates, file, json_real(rate));
		remember(report);
	}
	free(file);
	return rate > 0 ? rate : 0;
}

static double node_cost_of(void *user, uint32_t cpu_node, uint32_t memory_node)
{
	struct report *report = user;
	char name[64];
	double ns;

	snprintf(name, sizeof(name), "page_ns_node%" PRIu32 "_from_node%" PRIu32, memory_node,
		 cpu_node);
	ns = number_of(report->about, name);
	if (ns > 0 || !is_here(report) || nodes_measure(cpu_node, memory_node, &ns))
		return ns > 0 ? ns : 0;
	json_object_set_new(report->about, name, json_real(ns));
	remember(report);
	return ns;
}

static double prefetch_cost_of(void *user, const char *accel)
{
	struct report *report = user;
	char name[64];
	double ns;

	snprintf(name, sizeof(name), "prefetch_page_ns_%s", accel);
	ns = number_of(report->about, name);
	if (ns > 0 || !is_here(report) || accel_prefetch_cost(accel, &ns))
		return ns > 0 ? ns : 0;
	json_object_set_new(report->about, name, json_real(ns));
	remember(report);
	return ns;
}

static int read_report(struct report *report, uint32_t flags)
{
	const struct measures measures = { rate_of, node_cost_of, prefetch_cost_of, report };
	uint64_t begin, end;
	int status;

	report->about =
		read_about(report->path, &report->about_refused, &report->about_missing);
	status = analysis_read(report->path, flags, json_object_get(report->about, "nodes"),
			       &report->analysis);
	if (status)
		return status;
	/* Beside a text there is none. */
	report->about_missing = report->about_missing && !(flags & ANALYSIS_TEXT);
	report->command = command_of(report->about);
	read_costs(report);
	begin = about_count(report->about, "begin_ns");
	end = about_count(report->about, "end_ns");
	report->duration_ns = report->analysis.end_ns - report->analysis.begin_ns;
	if (begin && end > begin && end - begin >= report->duration_ns) {
		report->duration_ns = end - begin;
		report->analysis.begin_ns = begin;
	}
	report_find_missing(report);
	report->range_rows = ranges_rows(report->analysis.ranges, report->analysis.n_range,
					 &report->n_range_row);
	if (!report->range_rows || advice_find(report, &measures))
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the report");
	return 0;
}

/* Nothing is looked up for a text. perf does not tell when a recording began. */
static struct symbols_span when_recorded(const struct report *report, bool text)
{
	struct symbols_span span = { .to_ns = text ? 0 : symbols_recorded(report->path) };
	double began = number_of(report->about, "began");

	if (began > 0)
		span.from_ns = (uint64_t)(began * 1e9);
	else if (span.to_ns > report->duration_ns + WRITING_NS)
		span.from_ns = span.to_ns - report->duration_ns - WRITING_NS;
	return span;
}

/* ---- the outputs ---- */

static int write_page(const struct report *report, FILE *out)
{
	json_t *object = report_json(report, true);
	int r = object ? page_write(out, object) : -ENOMEM;

	json_decref(object);
	return r;
}

static int write_svg(const struct report *report, FILE *out)
{
	report_svg(report, out);
	return 0;
}

static int write_file(const char *path, const char *text, size_t length)
{
	struct stat st;
	bool whole = stat(path, &st) ||
		     S_ISREG(st.st_mode); /* and not a pipe, which may wait */
	FILE *out;
	int r;

	/* A part of it would pass for the whole. */
	if (whole)
		signals_end_at_once(false);
	out = fopen(path, "we");
	r = out ? 0 : -errno;
	if (out && fwrite(text, 1, length, out) != length)
		r = errno ? -errno : -EIO;
	if (out && fclose(out) && !r)
		r = -errno;
	if (out && r && whole)
		unlink(path);
	signals_end_at_once(true);
	return r;
}

/* To write it takes symbols of further files: that is over before a file is begun. */
static int make_file(const struct report *report, const char *path,
		     int (*write)(const struct report *report, FILE *out))
{
	size_t length;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);
	int r = out ? write(report, out) : -errno;

	if (out && fclose(out) && !r)
		r = -ENOMEM;
	if (!r)
		r = write_file(path, text, length);
	free(text);
	return r;
}

static int make(const struct report *report, const char *path,
		int (*write)(const struct report *report, FILE *out))
{
	char *shown;
	int r;

	if (!strcmp(path, "-")) {
		r = write(report, stdout);
		/* Output that it does not take is told once, at the end: output_finish(). */
		if (!output_flush()) {
			output_failed(r);
			return 0;
		}
	} else {
		r = make_file(report, path, write);
	}
	if (!r)
		return 0;
	shown = text_escape(path);
	fail(STATUS_ENVIRONMENT, r, NULL, "cannot write '%s': %s", shown, strerror(-r));
	free(shown);
	return STATUS_ENVIRONMENT;
}

static int show(const struct report *report, const struct wish *wish)
{
	json_t *object;
	int status = 0;

	if (wish->html)
		status = make(report, wish->html, write_page);
	if (!status && wish->svg)
		status = make(report, wish->svg, write_svg);
	if (!status && wish->folded)
		status = make(report, wish->folded, report_folded);
	if (status || (!output.json && (wish->html || wish->svg || wish->folded)))
		return status;
	if (!output.json) {
		report_text(report);
		return 0;
	}
	object = report_json(report, false);
	if (!object)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the report");
	output_object(object);
	return 0;
}

static void free_report(struct report *report)
{
	uint32_t i;

	for (i = 0; i < report->n_advice; i++) {
		free(report->advice[i].text);
		free(report->advice[i].evidence);
	}
	for (i = 0; i < report->n_missing; i++)
		free(report->missing[i]);
	free(report->advice);
	free(report->range_rows);
	free(report->missing);
	free(report->command);
	free(report->about_refused);
	json_decref(report->about);
	analysis_free(&report->analysis);
}

static int name_trace(struct wish *wish, const char *path)
{
	if (wish->path)
		return fail(STATUS_USAGE, EINVAL, NULL,
			    "report: more than one trace was named");
	wish->path = path;
	return 0;
}

static int take_option(const struct option_state *state, int option, void *user)
{
	struct wish *wish = user;
	uint64_t number;
	int status;

	switch (option) {
	case OPTION_HTML:
		wish->html = state->value;
		break;
	case OPTION_SVG:
		wish->svg = state->value;
		break;
	case OPTION_FOLDED:
		wish->folded = state->value;
		break;
	case OPTION_PERF_SCRIPT:
		wish->text = true;
		return name_trace(wish, state->value);
	default:
		status = option_take_number(state, option, 1, 1000000,
					    "a number from 1 to 1000000", &number);
		if (!status)
			wish->rows = (uint32_t)number;
		return status;
	}
	return 0;
}

static int take_argument(const struct option_state *state, void *user)
{
	return name_trace(user, state->value);
}

static bool is_same(const char *path, const struct stat *st)
{
	struct stat other;

	return !stat(path, &other) && other.st_dev == st->st_dev && other.st_ino == st->st_ino;
}

/* Is @out the trace, or one of the files that it is made of? */
static bool is_of_trace(const char *trace, const char *out)
{
	static const char *const names[] = { "perf.data", "about.json" };
	char *real = realpath(out, NULL), *file;
	bool found = false;
	struct stat st;
	size_t i;

	if (real && !stat(real, &st)) {
		found = is_same(trace, &st);
		for (i = 0; i < 2 && !found; i++) {
			file = trace_folder_file(trace, names[i]);
			found = is_same(file, &st);
			free(file);
		}
		*strrchr(real, '/') = '\0';
		file = trace_folder_file(trace, "maps");
		found = found || (!stat(real, &st) && is_same(file, &st));
		free(file);
	}
	free(real);
	return found;
}

/* Each goes to a place of its own, which is none of the trace's. */
static int check_outputs(const struct wish *wish, const char *trace)
{
	const struct {
		const char *option, *path;
	} outputs[] = { { "--json", output.json ? "-" : NULL },
			{ "--html", wish->html },
			{ "--svg", wish->svg },
			{ "--folded", wish->folded } };
	const size_t n = sizeof(outputs) / sizeof(outputs[0]);
	size_t i, j;

	for (i = 0; i < n; i++) {
		const char *path = outputs[i].path;

		for (j = i + 1; path && j < n; j++)
			if (outputs[j].path && !strcmp(path, outputs[j].path))
				return fail(
					STATUS_USAGE, EINVAL,
					"name another file for one of them; one can be \"-\"",
					"report: %s and %s go to the same place",
					outputs[i].option, outputs[j].option);
		if (path && strcmp(path, "-") && is_of_trace(trace, path)) {
			char *shown = text_escape(path);

			fail(STATUS_USAGE, EINVAL, "name another file",
			     "report: %s '%s' would overwrite its own trace", outputs[i].option,
			     shown);
			free(shown);
			return STATUS_USAGE;
		}
	}
	return 0;
}

int report_main(int argc, char **argv)
{
	static const struct option_table table = {
		.command = "report",
		.rows = rows,
		.usage = usage,
		.option = take_option,
		.argument = take_argument,
	};
	struct report report = { .rates.measure = storage_measure };
	struct wish wish = { .rows = ROWS };
	struct symbols_span recorded;
	int status;

	if (!option_walk(&table, argc, argv, &wish, &status))
		return status;
	report.rows = wish.rows;
	report.path = wish.path ? wish.path : TRACE_FOLDER;
	status = check_outputs(&wish, report.path);
	if (status)
		return status;
	/* Where it waits for a pipe, say, or for debug information from elsewhere. */
	signals_end_at_once(true);
	status = read_report(&report, (wish.text ? ANALYSIS_TEXT : 0) |
					      (wish.folded ? ANALYSIS_STACKS : 0));
	if (!status) {
		recorded = when_recorded(&report, wish.text);
		report.symbols = symbols_find(&report.analysis, SITES_NAMED, &recorded);
		report_find_unnamed(&report);
		status = show(&report, &wish);
		symbols_free(report.symbols);
	}
	free_report(&report);
	return status;
}
