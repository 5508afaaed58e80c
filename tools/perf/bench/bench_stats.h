/* SPDX-License-Identifier: MIT */
/* Statistics of samples: medians, 99th percentiles, and their uncertainty. */
#ifndef HETMAP_BENCH_STATS_H
#define HETMAP_BENCH_STATS_H

#include <stdint.h>

/* The bounds of 95%. Both NAN: fewer than BENCH_LEAST samples, there is none. */
struct bench_interval {
	double low, high;
};

/* With five, the least and the greatest have the median between them in 94% of cases. */
#define BENCH_LEAST 6

/* How often rounds are drawn anew for the interval of a ratio. */
#define BENCH_RESAMPLES 1000

/* Kept for plots: with as many, each is a percentile. */
#define BENCH_DOTS 101

struct bench_dots {
	unsigned int n;
	double at[BENCH_DOTS]; /* from the least to the greatest */
};

struct bench_spread {
	unsigned int n; /* samples */
	double median;
	double p99;
	struct bench_interval interval; /* interval of the median */
	struct bench_dots dots;         /* all of them, or as many, evenly spaced */
};

/* The next number of the sequence that *@state is in (splitmix64). */
uint64_t bench_random(uint64_t *state);

/*
 * The k-th least and the k-th greatest of @n samples have their distribution's median
 * between them with 95% at least, whatever the distribution: the greatest such k.
 * 0, or -ENODATA where there is none.
 */
int bench_median_rank(unsigned int n, unsigned int *ret_rank);

/* Sorts @samples, of which there is one at least. */
void bench_spread_of(double *samples, unsigned int n, struct bench_spread *ret_spread);

/*
 * The ratio of the medians of two sides that were measured round by round: a bootstrap
 * over rounds, the same sequence for the same @seed. 0 or -ENOMEM.
 */
int bench_ratio_interval(const double *ours, const double *peer, unsigned int n, uint64_t seed,
			 struct bench_interval *ret_interval);

#endif
