// SPDX-License-Identifier: MIT
/* The statistics of hetmap bench, against known answers. */
#include "../../tools/perf/bench/bench_stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lib/harness.h"

/* The published sequence of splitmix64. */
static void test_sequence(void)
{
	static const uint64_t expected[] = { 6457827717110365317u, 3203168211198807973u,
					     9817491932198370423u, 4593380528125082431u,
					     16408922859458223821u };
	uint64_t state = 1234567;
	size_t i;

	for (i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		CHECK_EQUAL(bench_random(&state), expected[i]);
}

/* As tables of the binomial distribution have them; exact arithmetic gave the rest. */
static void test_median_rank(void)
{
	static const struct {
		unsigned int n, rank;
	} known[] = {
		{ 6, 1 },      { 7, 1 },      { 8, 1 },       { 9, 2 },    { 10, 2 },
		{ 12, 3 },     { 15, 4 },     { 20, 6 },      { 25, 8 },   { 30, 10 },
		{ 50, 18 },    { 51, 19 },    { 100, 40 },    { 101, 41 }, { 500, 228 },
		{ 1000, 469 }, { 2000, 956 }, { 8000, 3912 },
	};
	unsigned int rank = 77, n;
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		CHECK_EQUAL(bench_median_rank(known[i].n, &rank), 0);
		CHECK_EQUAL(rank, known[i].rank);
	}
	rank = 77;
	for (n = 0; n < BENCH_LEAST; n++)
		CHECK(bench_median_rank(n, &rank) == -ENODATA);
	CHECK_EQUAL(rank, 77);
	/* Far beyond the exponents of a double. */
	CHECK_EQUAL(bench_median_rank(1000000, &rank), 0);
	CHECK(rank > 499000 && rank < 499100);
}

static void test_spread(void)
{
	double samples[200];
	struct bench_spread spread;
	unsigned int i;

	/* 0 to 199 in some order. */
	for (i = 0; i < 200; i++)
		samples[i] = i * 77 % 200;
	bench_spread_of(samples, 100, &spread);
	CHECK_EQUAL(spread.n, 100);
	CHECK_EQUAL(spread.dots.n, 100);
	for (i = 0; i < 100; i++)
		CHECK(spread.dots.at[i] == samples[i] && (!i || samples[i - 1] < samples[i]));
	CHECK(spread.median == samples[50] && spread.p99 == samples[98]);
	/* The 40th of each end. */
	CHECK(spread.interval.low == samples[39] && spread.interval.high == samples[60]);

	for (i = 0; i < 200; i++)
		samples[i] = i * 77 % 200;
	bench_spread_of(samples, 200, &spread);
	CHECK_EQUAL(spread.dots.n, BENCH_DOTS);
	CHECK(spread.dots.at[0] == 0 && spread.dots.at[50] == 100 &&
	      spread.dots.at[BENCH_DOTS - 1] == 199);
}

static void test_few(void)
{
	double ours[] = { 3, 1, 2, 5, 4, 6 }, peer[] = { 1, 1, 1, 1, 1, 1 };
	struct bench_interval ratio;
	struct bench_spread spread;

	CHECK_EQUAL(bench_ratio_interval(ours, peer, 5, 1, &ratio), 0);
	CHECK(isnan(ratio.low) && isnan(ratio.high));
	CHECK_EQUAL(bench_ratio_interval(ours, peer, 6, 1, &ratio), 0);
	CHECK(ratio.low >= 1 && ratio.low < ratio.high && ratio.high <= 6);
	bench_spread_of(ours, 5, &spread);
	CHECK(isnan(spread.interval.low) && isnan(spread.interval.high));
	CHECK(spread.median == 3 && spread.dots.n == 5);
	bench_spread_of(ours, 1, &spread);
	CHECK(spread.median == 1 && spread.p99 == 1 && spread.dots.n == 1);
}

#define N 31

/* The same steps, written once more in another language, gave these results. */
static void test_ratio_known(void)
{
	static const struct {
		uint64_t seed;
		double low, high;
	} known[] = {
		{ 1, 0.9604341736694678, 1.1078431372549018 },
		{ 7, 0.9606617647058825, 1.1136029411764707 },
	};
	struct bench_interval ratio, again;
	double ours[N], peer[N];
	unsigned int i;

	for (i = 0; i < N; i++) {
		ours[i] = 10 + i * 7919 % 101 / 17.0;
		peer[i] = 9 + i * 104729 % 97 / 13.0;
	}
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		CHECK_EQUAL(bench_ratio_interval(ours, peer, N, known[i].seed, &ratio), 0);
		CHECK(fabs(ratio.low - known[i].low) < 1e-12);
		CHECK(fabs(ratio.high - known[i].high) < 1e-12);
		CHECK_EQUAL(bench_ratio_interval(ours, peer, N, known[i].seed, &again), 0);
		CHECK(ratio.low == again.low && ratio.high == again.high);
	}
}

/* Whatever a round's machine does to both sides, their ratio does not see it. */
static void test_ratio_paired(void)
{
	struct bench_interval ratio;
	double ours[N], peer[N];
	unsigned int i;

	for (i = 0; i < N; i++) {
		peer[i] = 1 + i * i;
		ours[i] = 2 * peer[i];
	}
	CHECK_EQUAL(bench_ratio_interval(ours, peer, N, 1, &ratio), 0);
	CHECK(ratio.low == 2 && ratio.high == 2);
	/* A peer that took no time has no ratio. */
	for (i = 0; i < N; i++)
		peer[i] = 0;
	CHECK_EQUAL(bench_ratio_interval(ours, peer, N, 1, &ratio), 0);
	CHECK(ratio.low == 0 && ratio.high == 0);
}

/* With a long tail, as times have. Medians: log 2 times @scale. */
static double exponential(uint64_t *state, double scale)
{
	return -scale * log(((double)(bench_random(state) >> 11) + 0.5) / 9007199254740992.0);
}

#define TRIALS 2000
#define RATIOS 400 /* a trial takes a thousand times as long */

/* How often is the truth inside? The same numbers each time: no chance is left to it. */
static void test_coverage(void)
{
	unsigned int medians = 0, ratios = 0, trial, i;
	struct bench_interval ratio;
	struct bench_spread spread;
	double ours[51], peer[51];
	uint64_t state = 1;

	for (trial = 0; trial < TRIALS; trial++) {
		for (i = 0; i < 51; i++) {
			ours[i] = exponential(&state, 3);
			peer[i] = exponential(&state, 2);
		}
		if (trial < RATIOS) {
			CHECK_EQUAL(bench_ratio_interval(ours, peer, 51, trial, &ratio), 0);
			ratios += ratio.low <= 1.5 && 1.5 <= ratio.high;
		}
		bench_spread_of(ours, 51, &spread);
		medians += spread.interval.low <= 3 * log(2) &&
			   3 * log(2) <= spread.interval.high;
	}
	/* 95.1% by the binomial distribution. */
	CHECK(medians > TRIALS * 0.94 && medians < TRIALS * 0.96);
	CHECK(ratios > RATIOS * 0.90 && ratios < RATIOS * 0.99);
}

static const struct test tests[] = {
	{ "sequence", test_sequence, 0, 0 },       { "median_rank", test_median_rank, 0, 0 },
	{ "spread", test_spread, 0, 0 },           { "few", test_few, 0, 0 },
	{ "ratio_known", test_ratio_known, 0, 0 }, { "ratio_paired", test_ratio_paired, 0, 0 },
	{ "coverage", test_coverage, 60, 0 },      { NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "bench_stats", tests)
