// SPDX-License-Identifier: MIT
/* Statistics of samples: medians, 99th percentiles, and their uncertainty. */
#include "bench_stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OUTSIDE 0.05 /* share outside of an interval: half on each side */

uint64_t bench_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The greater one of the middle two: index n / 2. */
static double percentile(const double *sorted, unsigned int n, double share)
{
	return sorted[(unsigned int)(share * (n - 1) + 0.5)];
}

/* ---- one side ---- */

/*
 * How many of n samples are below their median is binomial with 1/2: k - 1 or fewer with
 * the sum of the first k terms, which is to be OUTSIDE / 2 at most.
 */
int bench_median_rank(unsigned int n, unsigned int *ret_rank)
{
	double term = -(double)n * log(2), sum = exp(term);
	unsigned int k;

	for (k = 0; sum <= OUTSIDE / 2 && k < n; k++) {
		term += log((double)(n - k) / (k + 1));
		sum += exp(term);
	}
	if (!k)
		return -ENODATA;
	*ret_rank = k;
	return 0;
}

static void keep(const double *sorted, unsigned int n, struct bench_dots *dots)
{
	unsigned int i;

	dots->n = n < BENCH_DOTS ? n : BENCH_DOTS;
	for (i = 0; i < dots->n; i++)
		dots->at[i] = dots->n == 1 ? sorted[0] :
					     percentile(sorted, n, i / (dots->n - 1.0));
}

void bench_spread_of(double *samples, unsigned int n, struct bench_spread *ret_spread)
{
	unsigned int rank;

	qsort(samples, n, sizeof(*samples), compare);
	*ret_spread = (struct bench_spread){
		.n = n,
		.median = percentile(samples, n, 0.5),
		.p99 = percentile(samples, n, 0.99),
		.interval = { NAN, NAN },
	};
	if (!bench_median_rank(n, &rank))
		ret_spread->interval =
			(struct bench_interval){ samples[rank - 1], samples[n - rank] };
	keep(samples, n, &ret_spread->dots);
}

/* ---- both sides ---- */

struct ranked {
	double value; /* first: compare() */
	unsigned int round;
};

struct bootstrap {
	struct ranked *ours, *peer; /* sorted */
	unsigned int *times;        /* each round was drawn */
	double *ratio;              /* ratio of each resample */
	unsigned int n;
};

static void rank_all(struct ranked *ranked, const double *samples, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		ranked[i] = (struct ranked){ .value = samples[i], .round = i };
	qsort(ranked, n, sizeof(*ranked), compare);
}

/*
 * As many rounds as there were, by runs of neighbours, a tenth of them each: neighbours share
 * the machine's other work, so that single ones would look more certain than they are.
 */
static void draw(struct bootstrap *b, uint64_t *state)
{
	unsigned int run = b->n < 20 ? 1 : b->n / 10;
	unsigned int left = b->n;

	memset(b->times, 0, b->n * sizeof(*b->times));
	while (left) {
		unsigned int at = (unsigned int)(bench_random(state) % b->n);
		unsigned int i;

		for (i = 0; i < run && left; i++, left--) {
			b->times[at]++;
			at = at + 1 < b->n ? at + 1 : 0;
		}
	}
}

static double median_drawn(const struct ranked *ranked, const struct bootstrap *b)
{
	unsigned int seen = b->times[ranked->round];

	while (seen <= b->n / 2)
		seen += b->times[(++ranked)->round];
	return ranked->value;
}

int bench_ratio_interval(const double *ours, const double *peer, unsigned int n, uint64_t seed,
			 struct bench_interval *ret_interval)
{
	struct bootstrap b = { .n = n };
	unsigned int i;
	int r = 0;

	if (n < BENCH_LEAST) {
		*ret_interval = (struct bench_interval){ NAN, NAN };
		return 0;
	}
	b.ours = calloc(n, sizeof(*b.ours));
	b.peer = calloc(n, sizeof(*b.peer));
	b.times = calloc(n, sizeof(*b.times));
	b.ratio = calloc(BENCH_RESAMPLES, sizeof(*b.ratio));
	if (!b.ours || !b.peer || !b.times || !b.ratio) {
		r = -ENOMEM;
		goto out;
	}
	rank_all(b.ours, ours, n);
	rank_all(b.peer, peer, n);
	for (i = 0; i < BENCH_RESAMPLES; i++) {
		double over;

		draw(&b, &seed);
		over = median_drawn(b.peer, &b);
		b.ratio[i] = over > 0 ? median_drawn(b.ours, &b) / over : 0;
	}
	qsort(b.ratio, BENCH_RESAMPLES, sizeof(*b.ratio), compare);
	ret_interval->low = percentile(b.ratio, BENCH_RESAMPLES, OUTSIDE / 2);
	ret_interval->high = percentile(b.ratio, BENCH_RESAMPLES, 1 - OUTSIDE / 2);
out:
	free(b.ours);
	free(b.peer);
	free(b.times);
	free(b.ratio);
	return r;
}
