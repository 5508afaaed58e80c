// SPDX-License-Identifier: MIT
/* hetmap stat: the report for people. */
#include "stat.h"

#include <linux/capability.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"

#define WIDTH 80
#define INDENT 4
#define SAID_MAX 48

/* "12,345", or "0.33" where the mean is no whole number and small. */
static const char *count(double value, char text[TEXT_MAX])
{
	if (fabs(value) >= 99.5 || value == floor(value)) {
		*text = '-';
		text_count((uint64_t)fabs(round(value)), text + (value < 0));
	} else {
		snprintf(text, TEXT_MAX, "%.*f", fabs(value) < 9.95 ? 2 : 1, value);
	}
	return text;
}

static const char *amount(double value, enum stat_unit unit, char text[TEXT_MAX])
{
	switch (unit) {
	case UNIT_SECONDS:
		return value > 0 ? text_seconds(value, text) : "0 s";
	case UNIT_BYTES:
		return text_bytes((uint64_t)round(value), text);
	default:
		return count(value, text);
	}
}

/* "± 2.1 %", or nothing where there is no deviation to speak of. */
static const char *deviation(const struct stat_figure *figure, bool utf8, char text[TEXT_MAX])
{
	*text = '\0';
	if (figure->n > 1 && figure->mean != 0)
		snprintf(text, TEXT_MAX, "%s %.1f %%", utf8 ? "±" : "+-",
			 100 * figure_deviation(figure) / fabs(figure->mean));
	return text;
}

/* At column @at, in lines of at most WIDTH; further ones begin at INDENT. */
static void wrap(FILE *out, const char *text, size_t at)
{
	while (*text) {
		size_t word = strcspn(text, " ");

		if (at > INDENT && at + word > WIDTH) {
			fprintf(out, "\n%*s", INDENT, "");
			at = INDENT;
		}
		fprintf(out, "%.*s", (int)word, text);
		at += word;
		text += word;
		if (*text == ' ') {
			text++;
			/* The blank that a line would end in is left out. */
			if (at + 1 + strcspn(text, " ") <= WIDTH) {
				fputc(' ', out);
				at++;
			} else {
				at = WIDTH + 1;
			}
		}
	}
	fputc('\n', out);
}

static void note(FILE *out, const char *text)
{
	fputs("  ", out);
	wrap(out, text, 2);
}

/* A remark that the reader of the figure needs. */
static void remark_on(const struct stat_result *result, enum stat_id id, char text[SAID_MAX])
{
	const struct stat_metric *metric = &result->metrics[id];
	double wall = result->metrics[STAT_WALL].figure.mean;
	bool user = metric->source == SOURCE_PERF_USER;

	*text = '\0';
	if (metric->figure.n < result->runs)
		snprintf(text, SAID_MAX, "in %u of %u runs", metric->figure.n, result->runs);
	else if (metric->share < 0.9995)
		snprintf(text, SAID_MAX, "scaled, %.1f %% of time%s", 100 * metric->share,
			 user ? "; user" : "");
	else if (user)
		snprintf(text, SAID_MAX, "user mode only");
	else if (id == STAT_TASK_CLOCK && wall > 0)
		snprintf(text, SAID_MAX, "%.2f CPUs busy", metric->figure.mean / wall);
	else if (id == STAT_PAGE_TABLES)
		snprintf(text, SAID_MAX, "sampled, largest of %u", result->looks);
	else if (id == STAT_RSS && metric->source == SOURCE_LOOKS)
		snprintf(text, SAID_MAX, "sampled");
	else if (id == STAT_RSS)
		snprintf(text, SAID_MAX, "of the largest process");
	else if (metric->source == SOURCE_USAGE && id != STAT_USER && id != STAT_SYSTEM)
		snprintf(text, SAID_MAX, "by wait4(2)");
}

static void metric_line(const struct stat_result *result, enum stat_id id, bool utf8, FILE *out)
{
	const struct stat_metric *metric = &result->metrics[id];
	char value[TEXT_MAX], off[TEXT_MAX], said[SAID_MAX];

	fprintf(out, "  %-20s", stat_metrics[id].name);
	if (!metric->figure.n) {
		fputs("not counted: ", out);
		wrap(out, metric->why, 35);
		return;
	}
	remark_on(result, id, said);
	deviation(&metric->figure, utf8, off);
	fprintf(out, "%12s", amount(metric->figure.mean, stat_metrics[id].unit, value));
	/* Columns, not bytes. */
	if (*off || *said)
		fprintf(out, "  %s%*s", off, *said ? (int)(12 - text_columns(off)) : 0, "");
	fprintf(out, "%s\n", said);
}

static void print_vmstat(const struct stat_result *result, bool utf8, FILE *out)
{
	bool any = false;
	size_t i;

	if (!result->vmstat.n) {
		fprintf(out, "\nThe whole machine meanwhile: not known: %s\n",
			*result->vmstat.why ? result->vmstat.why :
					      "/proc/vmstat: nothing known");
		return;
	}
	fputs("\nThe whole machine meanwhile, other programs included (/proc/vmstat)\n\n", out);
	for (i = 0; i < result->vmstat.n; i++) {
		const struct stat_figure *change = &result->vmstat.rows[i].change;
		char value[TEXT_MAX], off[TEXT_MAX];

		if (!change->n || (!result->verbose && change->least == 0 && change->most == 0))
			continue;
		any = true;
		deviation(change, utf8, off);
		fprintf(out, "  %-30s%12s%s%s\n", result->vmstat.rows[i].name,
			count(change->mean, value), *off ? "  " : "", off);
	}
	if (!any)
		fputs("  none of its counters changed\n", out);
}

static const struct stat_zone *find_zone(const struct stat_free *in,
					 const struct stat_zone *zone)
{
	size_t i;

	for (i = 0; i < in->n; i++)
		if (in->zones[i].node == zone->node && !strcmp(in->zones[i].name, zone->name))
			return &in->zones[i];
	return NULL;
}

static void print_free(const struct stat_result *result, FILE *out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	size_t i;

	if (!result->before.n || !result->after.n) {
		fprintf(out, "\nFree memory: not known: %s\n",
			*result->before.why ? result->before.why : result->after.why);
		return;
	}
	fputs("\nFree memory, before -> after (/proc/buddyinfo)\n\n", out);
	fprintf(out, "  %-16s%-23s%-20s%s\n", "zone", "free", "in blocks >= 2 MiB",
		"unusable, order 9");
	for (i = 0; i < result->before.n; i++) {
		const struct stat_zone *a = &result->before.zones[i];
		const struct stat_zone *b = find_zone(&result->after, a);
		char name[40], from[TEXT_MAX], to[TEXT_MAX], amounts[2 * TEXT_MAX + 8];
		char shares[40];

		if (!b)
			continue;
		snprintf(name, sizeof(name), "node %u %s", a->node, a->name);
		snprintf(amounts, sizeof(amounts), "%s -> %s",
			 text_bytes(free_pages(a) * page, from),
			 text_bytes(free_pages(b) * page, to));
		snprintf(shares, sizeof(shares), "%.1f -> %.1f %%",
			 100 * free_share(a, 2 << 20), 100 * free_share(b, 2 << 20));
		fprintf(out, "  %-16s%-23s%-20s%.3f -> %.3f\n", name, amounts, shares,
			free_unusable(a, 9) / 1000.0, free_unusable(b, 9) / 1000.0);
	}
}

char *stat_refusal(const struct stat_result *result)
{
	bool capable = machine_capable(CAP_PERFMON) || machine_capable(CAP_SYS_ADMIN);
	const char *what = result->user_only ? "the kernel's side is not counted" :
					       "perf_event_open(2) is refused";
	char *text = NULL, *found;
	int level = -1;

	if (!result->refused)
		return NULL;
	if (!machine_read_all(result->root, "/proc/sys/kernel/perf_event_paranoid", &text))
		level = atoi(text);
	if (!text)
		found = text_format("%s (%s), and there is no "
				    "/proc/sys/kernel/perf_event_paranoid: a kernel without "
				    "CONFIG_PERF_EVENTS, or /proc is not mounted",
				    what, strerror(result->refused));
	else if (level > 1 && !capable)
		found = text_format("sudo sysctl kernel.perf_event_paranoid=1 allows all of "
				    "this: it is %d, and without CAP_PERFMON %s (%s)",
				    level, what, strerror(result->refused));
	else
		found = text_format("%s (%s) although perf_event_paranoid is %d%s: a "
				    "container's seccomp filter or a security module does "
				    "that; allow the call there, or run this outside",
				    what, strerror(result->refused), level,
				    capable ? " and CAP_PERFMON is there" : "");
	free(text);
	return found;
}

static void print_head(const struct stat_result *result, FILE *out)
{
	char *const *word;

	fputs("\nhetmap stat:", out);
	for (word = result->command; *word; word++) {
		char *shown = text_escape(*word);

		fprintf(out, " %s", shown);
		free(shown);
	}
	fputc('\n', out);
	if (result->runs > 1)
		fprintf(out, "  mean and standard deviation of %u runs\n", result->runs);
	if (result->runs < result->asked)
		fprintf(out, "  %u of %u runs were made", result->runs, result->asked);
	if (result->runs < result->asked && result->signal)
		fprintf(out, ": SIG%s came", sigabbrev_np(result->signal));
	fputs(result->runs < result->asked ? "\n\n" : "\n", out);
}

void stat_print(const struct stat_result *result, FILE *out)
{
	bool utf8 = output.utf8;
	char *refusal = stat_refusal(result);
	int i;

	print_head(result, out);
	if (refusal) {
		note(out, refusal);
		fputc('\n', out);
	}
	if (result->taken)
		note(out,
		     "The kernel took the counters away from a program that has set-user-ID, "
		     "or that you may not read: faults and switches are of wait4(2).\n");
	for (i = 0; i < N_STAT; i++)
		metric_line(result, (enum stat_id)i, utf8, out);
	print_vmstat(result, utf8, out);
	print_free(result, out);
	fputc('\n', out);
	free(refusal);
}
