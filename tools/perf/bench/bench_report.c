// SPDX-License-Identifier: MIT
/* Reports of the cases: rows of this run, each printed at once. */
#include "bench_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "bench_options.h"
#include "common/command.h"

/* The run that is under way, and the benchmark that is. */
static struct bench_run *current;
static const char *running;

void bench_report_begin(struct bench_run *run, const char *bench)
{
	current = run;
	running = bench;
}

void bench_tell_machine(const struct bench_run *run)
{
	if (bench_options.markdown)
		return;
	if (output.json)
		bench_print_json(json_pack("{s:O, s:{s:I, s:i}}", "machine", run->machine,
					   "bootstrap", "seed", (json_int_t)bench_options.seed,
					   "resamples", BENCH_RESAMPLES));
	else
		bench_state_print(run->machine);
	if (!output.json && bench_options.verbose)
		printf("Intervals of ratios: a bootstrap, %d times, seed %" PRIu64 "\n",
		       BENCH_RESAMPLES, bench_options.seed);
}

void bench_tell_row(const struct bench_row *row)
{
	/* That is a page, and the only one on standard output. */
	if (bench_options.markdown)
		return;
	if (output.json)
		bench_print_json(bench_row_json(row));
	else
		bench_table_row(row);
	output_flush();
}

static char *copy(const char *text)
{
	return text_format("%s", text);
}

static struct bench_row *row_begin(const char *name)
{
	struct bench_row *row = bench_run_add(current);

	row->bench = copy(running);
	row->name = copy(name);
	return row;
}

/* Targets are of sizes that --short has not. */
static void aim(struct bench_row *row, enum bench_target kind, double target)
{
	if (bench_options.small)
		return;
	row->kind = kind;
	row->target = target;
}

void bench_report(const struct bench_result *result)
{
	struct bench_row *row = row_begin(result->name);

	row->unit = copy(result->unit);
	row->peer = copy(result->peer);
	row->value = row->p99 = result->value;
	row->peer_value = result->peer_value;
	row->ratio = row->peer_value > 0 ? row->value / row->peer_value : 0;
	aim(row, result->kind, result->target);
	if (result->note)
		row->note = copy(result->note);
	bench_tell_row(row);
}

static struct bench_interval scale_interval(const struct bench_interval *interval, double ns)
{
	return (struct bench_interval){ interval->low / ns, interval->high / ns };
}

static struct bench_dots scale_dots(const struct bench_dots *dots, double ns)
{
	struct bench_dots scaled = { .n = dots->n };
	unsigned int i;

	for (i = 0; i < dots->n; i++)
		scaled.at[i] = dots->at[i] / ns;
	return scaled;
}

/* @ours beside the peer's spread; the target is still missing. */
static struct bench_row *row_of(const struct bench_pair *pair, const struct bench_spread *ours,
				const struct bench_spread *peer,
				const struct bench_interval *ratio, const char *unit, double ns)
{
	struct bench_row *row = row_begin(pair->name);

	row->unit = copy(unit);
	row->peer = copy(pair->peer);
	row->value = ours->median / ns;
	row->p99 = ours->p99 / ns;
	row->peer_value = peer->median / ns;
	row->ratio = row->peer_value > 0 ? row->value / row->peer_value : 0;
	row->rounds = ours->n;
	row->peer_p99 = peer->p99 / ns;
	row->value_95 = scale_interval(&ours->interval, ns);
	row->peer_95 = scale_interval(&peer->interval, ns);
	row->ratio_95 = *ratio;
	row->ours_dots = scale_dots(&ours->dots, ns);
	row->peer_dots = scale_dots(&peer->dots, ns);
	return row;
}

void bench_report_pair(const struct bench_pair *pair, const struct bench_figures *figures,
		       const char *unit, double ns, enum bench_target kind, double target)
{
	struct bench_row *row =
		row_of(pair, &figures->ours, &figures->peer, &figures->ratio, unit, ns);

	aim(row, kind, target);
	bench_tell_row(row);
}

void bench_report_added(const struct bench_pair *pair, const struct bench_figures *figures,
			const char *unit, double ns, double target)
{
	struct bench_row *row =
		row_of(pair, &figures->added, &figures->peer, &figures->added_ratio, unit, ns);

	aim(row, TARGET_VALUE, target);
	bench_tell_row(row);
}

int bench_compare(const struct bench_pair *pair, void *user, const char *unit, double ns,
		  enum bench_target kind, double target)
{
	struct bench_figures figures;
	int r = bench_measure(pair, user, &figures);

	if (!r)
		bench_report_pair(pair, &figures, unit, ns, kind, target);
	return r;
}

void bench_skip(const char *name, const char *format, ...)
{
	struct bench_row *row = row_begin(name);
	va_list list;

	va_start(list, format);
	if (vasprintf(&row->skipped, format, list) < 0)
		abort();
	va_end(list);
	bench_plain(row->skipped);
	bench_tell_row(row);
}

int bench_fail(const char *name, int r, bool ours)
{
	const char *text = ours ? hm_errmsg() : strerror(-r);
	char *shown;

	/* Broken off by the user: nothing failed. */
	if (r == -EINTR && signals_pending())
		return r;
	shown = text_message(text[0] ? text : strerror(-r));
	fprintf(stderr, "hetmap: bench %s, %s: %s: %s\n", running, name,
		ours ? "hetmap" : "the peer", shown);
	free(shown);
	return r;
}
