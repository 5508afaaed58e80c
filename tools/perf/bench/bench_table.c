// SPDX-License-Identifier: MIT
/* Rows of a run as a table for a terminal: at most 80 columns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_options.h"
#include "bench_run.h"

const char *bench_figure(double value, const char *unit, char text[TEXT_MAX])
{
	int digits = fabs(value) < 9.995 ? 2 : fabs(value) < 999.5 ? 1 : 0;

	snprintf(text, TEXT_MAX, "%.*f %s", digits, value, unit);
	return text;
}

const char *bench_target_text(const struct bench_row *row, char text[2 * TEXT_MAX])
{
	text[0] = '\0';
	if (row->kind == TARGET_RATIO)
		snprintf(text, 2 * TEXT_MAX, "<= %.2f", row->target);
	if (row->kind == TARGET_VALUE)
		snprintf(text, 2 * TEXT_MAX, "<= %.4g %s", row->target, row->unit);
	return text;
}

#define NAME_COLUMNS 24

/* The benchmark whose head was printed last. */
static char headed[64];

static void head(const struct bench_row *row)
{
	const char *summary = bench_summary(row->bench);
	char *name;

	if (!strncmp(headed, row->bench, sizeof(headed) - 1))
		return;
	if (!headed[0])
		printf("%-26s%10s%10s%10s%6s  %s\n", "", "median", "p99", "peer", "ratio",
		       "target");
	snprintf(headed, sizeof(headed), "%s", row->bench);
	name = text_escape(row->bench);
	printf("%s%s%s\n", name, summary ? ": " : "", summary ? summary : "");
	free(name);
}

/* "60.4 to 60.6", or that there were too few rounds. */
static char *range(const struct bench_interval *interval, const char *unit)
{
	char low[TEXT_MAX], high[TEXT_MAX];

	if (!bench_interval_known(interval))
		return text_format("unknown");
	if (!unit)
		return text_format("%.3f to %.3f", interval->low, interval->high);
	return text_format("%s to %s", bench_figure(interval->low, unit, low),
			   bench_figure(interval->high, unit, high));
}

static void details(const struct bench_row *row)
{
	char *ours = range(&row->value_95, row->unit);
	char *peer = range(&row->peer_95, row->unit);
	char *ratio = range(&row->ratio_95, NULL), *text;
	char p99[TEXT_MAX];

	text = text_format("95%% of %u rounds: median %s, peer %s (its p99 %s), ratio %s",
			   row->rounds, ours, peer, bench_figure(row->peer_p99, row->unit, p99),
			   ratio);
	printf("    ");
	text_wrap(text, 4, 6, 80);
	free(text);
	free(ratio);
	free(peer);
	free(ours);
}

void bench_table_name(const char *name)
{
	if (text_columns(name) > NAME_COLUMNS)
		printf("  %s\n", name);
	printf("  %-*s", NAME_COLUMNS, text_columns(name) > NAME_COLUMNS ? "" : name);
}

void bench_table_row(const struct bench_row *row)
{
	char value[TEXT_MAX], p99[TEXT_MAX], peer[TEXT_MAX], target[2 * TEXT_MAX];
	char *name = text_escape(row->name);

	head(row);
	if (row->skipped) {
		char *reason = text_escape(row->skipped);

		bench_table_name(name);
		printf("  skipped: ");
		text_wrap(reason, 37, 28, 80);
		free(reason);
		goto out;
	}
	bench_target_text(row, target);
	bench_table_name(name);
	/* A figure that large has no room for a fraction, and needs none. */
	printf("%10s%10s%10s %5.*f%s%s%s\n", bench_figure(row->value, row->unit, value),
	       bench_figure(row->p99, row->unit, p99),
	       bench_figure(row->peer_value, row->unit, peer), row->ratio < 100 ? 2 : 0,
	       row->ratio, *target ? "  " : "", target,
	       !*target           ? "" :
	       bench_row_met(row) ? " met" :
				    " MISSED");
	if (bench_options.verbose && row->rounds)
		details(row);
	if (row->note) {
		char *note = text_escape(row->note);

		printf("    ");
		text_wrap(note, 4, 4, 80);
		free(note);
	}
out:
	free(name);
}
