// SPDX-License-Identifier: MIT
/*
 * Compares a run with an earlier one, by the ratios to the peer, which was measured in the same
 * rounds: a machine that got slower as a whole moves both.
 */
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"
#include "common/command.h"

enum verdict { SAME, FASTER, SLOWER, UNCLEAR, UNKNOWN, N_VERDICT };

static const char *const verdicts[] = {
	[SAME] = "no difference", [FASTER] = "faster",        [SLOWER] = "slower",
	[UNCLEAR] = "unclear",    [UNKNOWN] = "not compared",
};

struct comparison {
	const struct bench_row *now, *old;
	enum verdict verdict;
	const char *moved;  /* which side did, or that neither did by itself; NULL: unknown */
	const char *reason; /* why it was not compared */
};

/* -1, 1: @now is all below @old, or above; 0: they overlap. */
static int moved(const struct bench_interval *old, const struct bench_interval *now)
{
	return now->high < old->low ? -1 : now->low > old->high ? 1 : 0;
}

/* A figure that is no median has no noise. */
static struct bench_interval interval_of(const struct bench_row *row,
					 const struct bench_interval *interval, double figure)
{
	return row->rounds ? *interval : (struct bench_interval){ figure, figure };
}

/*
 * Sides that moved alike were moved by the machine: it is busier than it was, and that
 * does not weigh the same on both.
 */
static void find_who_moved(struct comparison *c)
{
	const struct bench_row *old = c->old, *now = c->now;
	struct bench_interval ours[2] = { interval_of(old, &old->value_95, old->value),
					  interval_of(now, &now->value_95, now->value) };
	struct bench_interval peers[2] = { interval_of(old, &old->peer_95, old->peer_value),
					   interval_of(now, &now->peer_95, now->peer_value) };
	int we = moved(&ours[0], &ours[1]), they = moved(&peers[0], &peers[1]);

	c->moved = we && they ? "both" : we ? "ours" : they ? "peer" : "neither";
	if (we && we == they)
		c->verdict = UNCLEAR;
}

static void judge(struct comparison *c, bool one_machine)
{
	struct bench_interval ratio[2];

	c->verdict = UNKNOWN;
	if (!c->old || c->old->skipped || c->now->skipped) {
		c->reason = c->now->skipped ? "skipped now" :
			    !c->old         ? "not in the old run" :
					      "skipped then";
		return;
	}
	if (strcmp(c->old->unit, c->now->unit) != 0 ||
	    strcmp(c->old->peer, c->now->peer) != 0 || !c->old->rounds != !c->now->rounds) {
		c->reason = "another peer or unit";
		return;
	}
	ratio[0] = interval_of(c->old, &c->old->ratio_95, c->old->ratio);
	ratio[1] = interval_of(c->now, &c->now->ratio_95, c->now->ratio);
	if (!bench_interval_known(&ratio[0]) || !bench_interval_known(&ratio[1])) {
		c->reason = "too few rounds";
		return;
	}
	switch (moved(&ratio[0], &ratio[1])) {
	case 0:
		c->verdict = SAME;
		return;
	case 1:
		c->verdict = SLOWER;
		break;
	default:
		c->verdict = FASTER;
	}
	if (one_machine)
		find_who_moved(c);
}

/* ---- showing ---- */

static void print_json(const struct comparison *c)
{
	json_t *line = json_pack("{s:b, s:s, s:s, s:s}", "compared", 1, "bench", c->now->bench,
				 "case", c->now->name, "verdict", verdicts[c->verdict]);

	if (c->verdict == UNKNOWN) {
		json_object_set_new(line, "reason", json_string(c->reason));
	} else {
		json_object_set_new(line, "old_ratio", json_real(c->old->ratio));
		json_object_set_new(line, "ratio", json_real(c->now->ratio));
	}
	if (c->moved)
		json_object_set_new(line, "moved", json_string(c->moved));
	bench_print_json(line);
}

static void print_row(const struct comparison *c, bool one_machine)
{
	char old[TEXT_MAX] = "-", now[TEXT_MAX] = "-";
	char *name = text_escape(c->now->name);

	if (c->verdict == UNKNOWN) {
		printf("  %-58s%s\n", name, c->reason);
		free(name);
		return;
	}
	if (one_machine) {
		bench_figure(c->old->value, c->old->unit, old);
		bench_figure(c->now->value, c->now->unit, now);
	}
	bench_table_name(name);
	printf("%10s%10s%7.3f%7.3f  %s", old, now, c->old->ratio, c->now->ratio,
	       verdicts[c->verdict]);
	if (c->moved)
		printf(": %s", c->moved);
	putchar('\n');
	free(name);
}

static double load_of(const struct bench_run *run)
{
	const json_t *load = json_object_get(run->machine, "load");

	return json_number_value(json_array_get(load, 0));
}

static void print_head(const struct bench_run *old, const struct bench_run *now,
		       const char *file, const char *differences)
{
	char *shown = text_escape(file), *text;

	if (*differences)
		text = text_format("Compared with %s, of another machine or another setting "
				   "(%s): ratios to the peer alone.",
				   shown, differences);
	else
		text = text_format("Compared with %s.", shown);
	putchar('\n');
	text_wrap(text, 0, 0, 80);
	free(text);
	free(shown);
	if (bench_state_busy(old->machine) || bench_state_busy(now->machine))
		printf("Other work ran beside: load %.2f then, %.2f now. It may be the "
		       "difference.\n",
		       load_of(old), load_of(now));
	printf("%-26s%10s%10s%7s%7s\n", "", "old", "new", "ratio", "ratio");
}

static void print_sum(const unsigned int n[N_VERDICT], const struct bench_run *old,
		      const struct bench_run *now)
{
	unsigned int gone = 0;
	size_t i;

	for (i = 0; i < old->n; i++)
		gone += !bench_run_find(now, old->rows[i].bench, old->rows[i].name);
	printf("%u faster, %u slower, %u unclear, %u alike, %u not compared", n[FASTER],
	       n[SLOWER], n[UNCLEAR], n[SAME], n[UNKNOWN]);
	if (gone)
		printf("; %u gone", gone);
	putchar('\n');
}

void bench_compare_runs(const struct bench_run *old, const struct bench_run *now,
			const char *file)
{
	char *differences = bench_state_differences(old->machine, now->machine);
	unsigned int n[N_VERDICT] = { 0 };
	const char *headed = "";
	size_t i;

	if (output.json)
		bench_print_json(json_pack("{s:s, s:s}", "compared", "machines", "differences",
					   differences));
	else
		print_head(old, now, file, differences);
	for (i = 0; i < now->n; i++) {
		struct comparison c = { .now = &now->rows[i] };

		c.old = bench_run_find(old, c.now->bench, c.now->name);
		judge(&c, !*differences);
		n[c.verdict]++;
		if (output.json) {
			print_json(&c);
			continue;
		}
		if (strcmp(headed, c.now->bench) != 0) {
			char *name = text_escape(c.now->bench);

			puts(name);
			free(name);
		}
		headed = c.now->bench;
		print_row(&c, !*differences);
	}
	if (!output.json)
		print_sum(n, old, now);
	free(differences);
}
