// SPDX-License-Identifier: MIT
/* A run as a page of Markdown: tools/perf/bench/results/performance.md is one. */
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"

/* Text that would begin a tag, unlike "<= 1.10". */
static bool begins_tag(const char *text)
{
	return *text == '<' && text[1] && text[1] != ' ' && text[1] != '=';
}

/* In a cell, or in a sentence. */
static void put(const char *text)
{
	for (; *text; text++) {
		if (strchr("|*`\\", *text) || begins_tag(text))
			putchar('\\');
		putchar(*text);
	}
}

static void machine(const struct bench_run *run)
{
	struct bench_fact facts[BENCH_FACTS];
	size_t i;

	bench_state_facts(run->machine, facts);
	puts("## The machine\n\n| | |\n|---|---|");
	for (i = 0; i < BENCH_FACTS; i++) {
		printf("| %s | ", facts[i].label);
		put(facts[i].text);
		puts(" |");
	}
	if (bench_state_busy(run->machine))
		puts("\nOther work ran beside, as the load tells: times are longer for it, and "
		     "the ratios less\ncertain than on a machine of one's own.");
}

/* ---- the table ---- */

static void interval(const struct bench_row *row)
{
	if (row->rounds && bench_interval_known(&row->ratio_95))
		printf("%.3f to %.3f", row->ratio_95.low, row->ratio_95.high);
}

static void row_print(const struct bench_row *row)
{
	char value[TEXT_MAX], p99[TEXT_MAX], peer[TEXT_MAX], target[2 * TEXT_MAX];

	printf("| ");
	put(row->name);
	printf(" | %s | %s | %s | %.2f | ", bench_figure(row->value, row->unit, value),
	       bench_figure(row->p99, row->unit, p99),
	       bench_figure(row->peer_value, row->unit, peer), row->ratio);
	interval(row);
	printf(" | ");
	if (row->kind != TARGET_NONE) {
		put(bench_target_text(row, target));
		printf("%s", bench_row_met(row) ? ", met" : ", **missed**");
	}
	puts(" |");
}

static void table(const struct bench_run *run)
{
	const char *headed = "";
	size_t i;

	puts("\n## Results\n\n"
	     "The ratio is our time, or size, over the peer's for equal work: lower is better, "
	     "and\n1.00 means that hetmap costs nothing. Both sides are medians, measured in "
	     "turns in one\nprocess. 95% is of the ratio: a bootstrap over the rounds of this "
	     "run; another run on\nanother day moves by more. A target that is missed is told, "
	     "and fails nothing.\n\n"
	     "| case | hetmap | p99 | peer | ratio | 95% | target |\n"
	     "|---|--:|--:|--:|--:|---|---|");
	for (i = 0; i < run->n; i++) {
		const struct bench_row *row = &run->rows[i];

		if (row->skipped)
			continue;
		if (strcmp(headed, row->bench) != 0) {
			printf("| **");
			put(row->bench);
			puts("** | | | | | | |");
		}
		headed = row->bench;
		row_print(row);
	}
}

static void notes(const struct bench_run *run)
{
	size_t i, n = 0;

	for (i = 0; i < run->n; i++) {
		const struct bench_row *row = &run->rows[i];

		if (!row->note)
			continue;
		if (!n++)
			puts("\n## What it comes to\n");
		printf("- ");
		put(row->bench);
		printf(": ");
		put(row->note);
		putchar('\n');
	}
}

static void skipped(const struct bench_run *run)
{
	size_t i, n = 0;

	for (i = 0; i < run->n; i++) {
		const struct bench_row *row = &run->rows[i];

		if (!row->skipped)
			continue;
		if (!n++)
			puts("\n## Skipped\n");
		printf("- ");
		put(row->bench);
		printf(", ");
		put(row->name);
		printf(": ");
		put(row->skipped);
		putchar('\n');
	}
}

/* ---- claims ---- */

static void claims(const struct bench_run *run)
{
	const struct bench_claim *claim;
	char text[512];
	size_t n, i;

	puts("\n## Published figures\n\n"
	     "Of mapping against copying, on other machines; and what was measured here.\n\n"
	     "| published | of | here |\n|---|---|---|");
	for (n = 0; (claim = bench_claim(n)); n++) {
		printf("| %s | ", claim->published);
		put(claim->what);
		printf(" | ");
		for (i = 0; i < BENCH_CLAIM_CASES && claim->cases[i].bench; i++) {
			bench_claim_text(run, claim, i, text, sizeof(text));
			printf("%s", i ? "; " : "");
			put(text);
		}
		puts(" |");
	}
}

/*
 * @with: the file of the run, whose name is that of the page and of the make target; NULL:
 * none.
 */
void bench_markdown(const struct bench_run *run, const char *with)
{
	const char *base = with ? strrchr(with, '/') : NULL;
	char name[64] = "performance";
	char *end;

	if (with) {
		snprintf(name, sizeof(name), "%s", base ? base + 1 : with);
		end = strrchr(name, '.');
		if (end)
			*end = '\0';
	}
	printf("<!-- SPDX-License-Identifier: MIT -->\n"
	       "<!-- Made by `make %s`: it is not edited by hand. -->\n"
	       "# Performance\n\n"
	       "One run of `hetmap bench`. [bench.md](../../../../docs/bench.md) says what each case\n"
	       "compares, [notes.md](notes.md) what moves the figures. [%s.json](%s.json)\n"
	       "has them in full, with intervals and samples of both sides.\n\n",
	       name, name, name);
	machine(run);
	table(run);
	notes(run);
	skipped(run);
	claims(run);
	printf("\n## How to reproduce\n\n"
	       "    make %s        # measures all of it, and writes this page anew\n"
	       "    hetmap bench --compare tools/perf/bench/results/%s.json    # does this machine "
	       "differ?\n"
	       "    hetmap bench --with tools/perf/bench/results/%s.json --html %s.html\n"
	       "\n"
	       "Let nothing else run meanwhile. The cases of sim:0, of dma-bufs and of DRM nodes "
	       "need a\nmachine that has these: `make performance-vm`, "
	       "[performance-vm.md](performance-vm.md).\n",
	       name, name, name, name);
}
