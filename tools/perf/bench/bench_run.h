/* SPDX-License-Identifier: MIT */
/*
 * A run: the state of its machine and a row for each case, measured just now or read from a
 * file, and its output.
 */
#ifndef HETMAP_BENCH_RUN_H
#define HETMAP_BENCH_RUN_H

#include <jansson.h>
#include <stdio.h>

#include "bench.h"
#include "common/text.h"

struct bench_row {
	char *bench;
	char *name;    /* name of the case */
	char *skipped; /* the reason; NULL: measured, with the members below */
	char *note;    /* a sentence on the meaning; or NULL */
	char *unit;
	char *peer;
	double value, p99, peer_value, ratio;
	enum bench_target kind;
	double target;
	unsigned int rounds; /* 0: figures, no medians, and no members below */
	double peer_p99;
	struct bench_interval value_95, peer_95, ratio_95;
	struct bench_dots ours_dots, peer_dots;
};

struct bench_run {
	json_t *machine; /* bench_state.c */
	struct bench_row *rows;
	size_t n;
};

/* ---- bench_run.c ---- */

/* A further row, empty; until the next one is added. */
struct bench_row *bench_run_add(struct bench_run *run);
/* NULL: there is none. */
const struct bench_row *bench_run_find(const struct bench_run *run, const char *bench,
				       const char *name);
/* Drops the rows of benchmarks that are not @wanted. */
void bench_run_select(struct bench_run *run, bool (*wanted)(const char *bench));
void bench_run_free(struct bench_run *run);

/* Control characters become blanks. Returns @text. */
char *bench_plain(char *text);

bool bench_row_met(const struct bench_row *row);
/* A new object, without the missing members. */
json_t *bench_row_json(const struct bench_row *row);
/* 0, or -EINVAL with a reason in @why. The row may hold some of it: bench_run_free(). */
int bench_row_parse(json_t *object, struct bench_row *row, char *why, size_t size);
/* Prints an object as a line, and drops it. */
void bench_print_json(json_t *object);

static inline bool bench_interval_known(const struct bench_interval *interval)
{
	return interval->low <= interval->high;
}

/* ---- bench_file.c ---- */

/* Reads a file of --json. Returns STATUS_DONE, or the status after the user was told. */
int bench_load(const char *path, struct bench_run *ret_run);

/* ---- bench_state.c: the machine ---- */

#define BENCH_FACTS 5

/* A line for people: "CPU", "AMD EPYC, 2 CPUs". */
struct bench_fact {
	const char *label;
	char text[256];
};

void bench_state_facts(const json_t *machine, struct bench_fact facts[BENCH_FACTS]);
/* The head of a table: two lines or so. */
void bench_state_print(const json_t *machine);
/* Had other programs half of the CPUs, or more, before the run? */
bool bench_state_busy(const json_t *machine);
/* Names of differing facts that make times incomparable, with blanks between; free() it. */
char *bench_state_differences(const json_t *a, const json_t *b);

/* ---- bench_table.c: for a terminal ---- */

/* "60.5 us", three or four digits. Returns @text. */
const char *bench_figure(double value, const char *unit, char text[TEXT_MAX]);
/* "<= 1.10"; nothing where there is no target. Returns @text. */
const char *bench_target_text(const struct bench_row *row, char text[2 * TEXT_MAX]);
/* The first column of a table; of a name that is longer the line goes on below it. */
void bench_table_name(const char *name);
/* With the head of its benchmark where that is another than the last row's. */
void bench_table_row(const struct bench_row *row);

/* ---- output of a run ---- */

/* One line of a benchmark; NULL: this program has none of that name. (bench_list.c) */
const char *bench_summary(const char *bench);

/* @file: the file of the old run. (bench_compare_file.c) */
void bench_compare_runs(const struct bench_run *old, const struct bench_run *now,
			const char *file);

/* (bench_html.c) */
void bench_html(const struct bench_run *run, FILE *out);
/* Text between tags or in an attribute. */
void bench_html_text(FILE *out, const char *text);

/* A drawing of the row's samples, and one of all rows' ratios. (bench_svg.c) */
void bench_svg_row(const struct bench_row *row, unsigned int id, FILE *out);
void bench_svg_ratios(const struct bench_run *run, FILE *out);

/* On standard output. (bench_markdown.c) */
void bench_markdown(const struct bench_run *run, const char *with);

/* ---- bench_claims.c: published figures ---- */

#define BENCH_CLAIM_CASES 3

/*
 * Kinds of published figures: a share of time saved, a time, a gain of frames a second, or two
 * shares.
 */
enum bench_claim_kind {
	CLAIM_SAVING,
	CLAIM_TIME,
	CLAIM_RATE,
	CLAIM_SHARE,
};

struct bench_claim {
	const char *published; /* "37% less time" */
	const char *what;      /* that was measured there */
	enum bench_claim_kind kind;
	struct {
		const char *bench;
		const char *name;   /* name of the case; NULL: on any device */
	} cases[BENCH_CLAIM_CASES]; /* up to one without a benchmark */
};

/* The n-th, from 0; NULL: there are no more. */
const struct bench_claim *bench_claim(size_t n);
/* Has a claim a case of this benchmark? */
bool bench_claimed(const char *bench);
/* The case's measured answer, "53% less time (ratio 0.470 ...", or why there is none. */
void bench_claim_text(const struct bench_run *run, const struct bench_claim *claim, size_t i,
		      char *text, size_t size);
void bench_claims_print(const struct bench_run *run);

#endif
