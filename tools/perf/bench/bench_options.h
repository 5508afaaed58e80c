/* SPDX-License-Identifier: MIT */
/* The options of `hetmap bench`. */
#ifndef HETMAP_BENCH_OPTIONS_H
#define HETMAP_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct bench_options {
	unsigned int rounds; /* 0: each case's own number */
	uint64_t seed;       /* seed of the intervals of ratios */
	bool verbose;
	bool small;          /* sizes and rounds that only show that a case works */
	const char *with;    /* file of a run, instead of measuring */
	const char *compare; /* file of an earlier run */
	const char *html;    /* file to write */
	bool claims;
	bool markdown;
};

extern struct bench_options bench_options;

#endif
