// SPDX-License-Identifier: MIT
/* A report as text: advice first, then the tables behind it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "report.h"

#define WIDTH 79
#define NAME_WIDTH 28
#define NAME_WIDTH_LEAST 20
#define FUNCTION_WIDTH 60
#define BAR_WIDTH 40

/* At most @width columns: the end of a path says more than its beginning. */
char *report_name(const char *name, size_t width)
{
	char *shown = text_escape(name), *text;
	size_t length = strlen(shown);

	if (length <= width)
		return shown;
	text = text_format("...%s", shown + length - (width - 3));
	free(shown);
	return text;
}

char *report_site(const struct site *site)
{
	const char *function = site->function;
	const char *from = function && site->file ? site->file : site->module;
	char *shown = function ? report_name(function, FUNCTION_WIDTH) : NULL;
	char *where = from ? text_escape(from) : NULL, *text;

	if (site->changed && where)
		text = text_format("%s+0x%" PRIx64 " (changed since)", where,
				   site->named->offset);
	else if (function && site->file)
		text = text_format("%s (%s:%d)", shown, where, site->line);
	else if (function && where)
		text = text_format("%s (%s)", shown, where);
	else if (function || where)
		text = text_format("%s", function ? shown : where);
	else
		text = text_format("code at 0x%" PRIx64, site->ip);
	free(where);
	free(shown);
	return text;
}

static const char *time_of(uint64_t ns, char text[TEXT_MAX])
{
	return ns ? text_seconds((double)ns / 1e9, text) : "-";
}

static uint64_t faults_of(const struct counted *counted)
{
	return counted->minor + counted->major;
}

static char *pattern_of(const struct counted *counted)
{
	char gap[TEXT_MAX];
	int64_t pages = llabs(counted->stride);

	switch (counted->pattern) {
	case PATTERN_SEQUENTIAL:
		return text_format("sequential%s", counted->stride < 0 ? ", back" : "");
	case PATTERN_STRIDED:
		return text_format("every %s", text_bytes((uint64_t)pages * 4096, gap));
	case PATTERN_RANDOM:
		return text_format("random");
	default:
		return text_format("-");
	}
}

/* ---- the parts ---- */

static void heading(const struct report *report)
{
	const struct analysis *analysis = &report->analysis;
	uint64_t minor = 0, major = 0, in_faults = analysis->minor.sum + analysis->major.sum;
	char faults[TEXT_MAX], a[TEXT_MAX], b[TEXT_MAX], all[TEXT_MAX], lost[TEXT_MAX];
	char *of = text_escape(report->command[0] ? report->command : report->path);
	uint32_t i;

	for (i = 0; i < analysis->n_counted; i++) {
		minor += analysis->counted[i]->minor;
		major += analysis->counted[i]->major;
	}
	puts(of);
	free(of);
	printf("  %s%s page faults in %s", analysis->share == RECORDED_SAMPLES ? "about " : "",
	       text_count(analysis->faults, faults),
	       text_seconds((double)report->duration_ns / 1e9, all));
	if (analysis->has_latency)
		printf(", %s minor and %s major; %s in them, as traced", text_count(minor, a),
		       text_count(major, b), text_seconds((double)in_faults / 1e9, lost));
	putchar('\n');
	for (i = 0; i < report->n_missing; i++) {
		fputs("  ! ", stdout);
		text_wrap(report->missing[i], 4, 4, WIDTH);
	}
}

static void print_advice(const struct report *report)
{
	const char *unknown = advice_unknown(report);
	char gain[TEXT_MAX];
	uint32_t i;

	puts("\nAdvice");
	if (!report->n_advice && unknown) {
		fputs("  ", stdout);
		text_wrap(unknown, 2, 2, WIDTH);
	} else if (!report->n_advice) {
		puts("  None: nothing here would gain 2 % of the time.");
	}
	for (i = 0; i < report->n_advice && i < report->rows; i++) {
		const struct advice *advice = &report->advice[i];
		char *name = text_escape(advice->of->name);
		char *line = advice->gain_ns >= 0 ?
				     text_format("%s: %s. Expected gain: %s %s.", name,
						 advice->text,
						 advice->at_most ? "at most" : "about",
						 text_seconds(advice->gain_ns / 1e9, gain)) :
				     text_format("%s: %s.", name, advice->text);

		printf("  %u. ", i + 1);
		text_wrap(line, 5, 5, WIDTH);
		fputs("     ", stdout);
		text_wrap(advice->evidence, 5, 5, WIDTH);
		free(line);
		free(name);
	}
}

/* Reads and writes, where that was told of any. */
static void print_access(const struct analysis *analysis, const struct counted *counted)
{
	char reads[TEXT_MAX], writes[TEXT_MAX];
	bool known = counted->reads + counted->writes || !faults_of(counted);

	if (analysis->has_access)
		printf(" %9s %9s", known ? text_count(counted->reads, reads) : "unknown",
		       known ? text_count(counted->writes, writes) : "unknown");
}

static void print_objects(const struct report *report)
{
	const struct analysis *analysis = &report->analysis;
	int width = analysis->has_access ? NAME_WIDTH_LEAST : NAME_WIDTH;
	char faults[TEXT_MAX], major[TEXT_MAX], cost[TEXT_MAX];
	uint32_t i;

	printf("\n%-*s %-8s %11s%s %9s %9s  %s\n", width, "Buffer", "kind", "faults",
	       analysis->has_access ? "     reads    writes" : "", "major", "time", "order");
	for (i = 0; i < analysis->n_counted && i < report->rows; i++) {
		const struct counted *counted = analysis->counted[i];
		const struct object *object = counted->object;
		char *name = report_name(object->name, (size_t)width);
		char *order = pattern_of(counted);
		char *kind = text_escape(object->device ? object->device :
							  object_kind_name(object->kind));

		printf("%-*s %-8s %11s", width, name, kind,
		       text_count(faults_of(counted), faults));
		print_access(analysis, counted);
		printf(" %9s %9s  %s\n",
		       analysis->has_latency ? text_count(counted->major, major) : "-",
		       time_of(counted->minor_ns + counted->major_ns, cost), order);
		free(order);
		free(kind);
		free(name);
	}
	if (analysis->n_counted > report->rows)
		printf("... and %s more (--rows)\n",
		       text_count(analysis->n_counted - report->rows, faults));
}

/* Calls that changed its mappings, and how. */
static void print_calls(const struct report *report)
{
	const struct analysis *analysis = &report->analysis;
	char text[N_OBJECT_CALL][TEXT_MAX], *name;
	uint32_t i, call, n = 0;

	for (i = 0; i < analysis->n_counted && n < report->rows; i++) {
		const struct object *object = analysis->counted[i]->object;
		uint64_t sum = 0;

		for (call = 0; call < N_OBJECT_CALL; call++) {
			sum += object->calls[call];
			text_count(object->calls[call], text[call]);
		}
		if (!sum)
			continue;
		if (!n++)
			printf("\n%-*s %9s %9s %9s %9s\n", NAME_WIDTH, "Calls on", "madvise",
			       "mprotect", "mremap", "munmap");
		name = report_name(object->name, NAME_WIDTH);
		printf("%-*s %9s %9s %9s %9s\n", NAME_WIDTH, name, text[OBJECT_MADVISE],
		       text[OBJECT_MPROTECT], text[OBJECT_MREMAP], text[OBJECT_MUNMAP]);
		free(name);
	}
}

static void print_sites(const struct report *report)
{
	const struct analysis *analysis = &report->analysis;
	char faults[TEXT_MAX], cost[TEXT_MAX];
	uint32_t i;

	printf("\n%-*s %11s %9s  %s\n", NAME_WIDTH, "Call site of", "faults", "time",
	       "function");
	for (i = 0; i < analysis->n_site && i < report->rows; i++) {
		const struct site *site = analysis->sites[i];
		char *name = report_name(site->of->object->name, NAME_WIDTH);
		char *where = report_site(site);

		printf("%-*s %11s %9s  %s\n", NAME_WIDTH, name,
		       text_count(site->faults, faults), time_of(site->time_ns, cost), where);
		free(where);
		free(name);
	}
}

/* Powers of two: eight classes in one line. */
static void print_latency(const char *what, const struct latency *latency)
{
	uint64_t lines[LATENCY_CLASSES / 8] = { 0 }, most = 0;
	uint32_t i, first = LATENCY_CLASSES, last = 0, bar;
	char p50[TEXT_MAX], p99[TEXT_MAX], n[TEXT_MAX];

	if (!latency->n)
		return;
	for (i = 0; i < LATENCY_CLASSES; i++)
		lines[i / 8] += latency->count[i];
	for (i = 0; i < LATENCY_CLASSES / 8; i++) {
		if (!lines[i])
			continue;
		if (first == LATENCY_CLASSES)
			first = i;
		last = i;
		if (lines[i] > most)
			most = lines[i];
	}
	printf("\nTime of a %s fault, as traced: half of them within %s, 99 %% within %s\n",
	       what, text_seconds((double)latency_at(latency, 0.5) / 1e9, p50),
	       text_seconds((double)latency_at(latency, 0.99) / 1e9, p99));
	for (i = first; i <= last; i++) {
		printf("  < %9s %11s  ",
		       text_seconds((double)latency_end(8 * i + 7) / 1e9, p50),
		       text_count(lines[i], n));
		for (bar = 0; bar < lines[i] * BAR_WIDTH / most; bar++)
			fputs(output.utf8 ? "\u2588" : "#", stdout);
		putchar('\n');
	}
}

void report_text(const struct report *report)
{
	heading(report);
	print_advice(report);
	if (!report->analysis.n_counted) {
		report_ranges_text(report);
		return;
	}
	print_objects(report);
	report_nodes_text(report);
	report_ranges_text(report);
	report_devices_text(report);
	print_calls(report);
	print_sites(report);
	print_latency("minor", &report->analysis.minor);
	print_latency("major", &report->analysis.major);
}
