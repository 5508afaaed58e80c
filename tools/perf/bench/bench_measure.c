// SPDX-License-Identifier: MIT
/* Measures two sides in turns, and reports on the samples. */
#include <errno.h>
#include <stdlib.h>

#include "bench.h"
#include "bench_options.h"
#include "common/command.h"

/* Samples; a round has the same index in each array. */
struct samples {
	double *ours, *peer;
	double *added; /* ours less the peer's */
};

/* For --short, so few that they still have no interval. */
static unsigned int rounds_of(const struct bench_pair *pair)
{
	if (bench_options.rounds)
		return bench_options.rounds;
	return bench_options.small && pair->rounds > 3 ? 3 : pair->rounds;
}

static int sample(const struct bench_pair *pair, void *user, bool ours, double *ret_ns)
{
	bench_side *side = ours ? pair->ours : pair->peer_side;
	int r = 0;

	if (pair->warm_each)
		r = side(user, ret_ns);
	return r ? r : side(user, ret_ns);
}

static int sample_all(const struct bench_pair *pair, void *user, unsigned int n,
		      struct samples *samples)
{
	unsigned int round;
	int r;

	for (round = 0; round < pair->warm_up + n; round++) {
		/* Warm-up samples land in a place that a later one overwrites. */
		unsigned int i = round < pair->warm_up ? 0 : round - pair->warm_up;
		unsigned int turn;

		if (signals_pending())
			return -EINTR;
		for (turn = 0; turn < 2; turn++) {
			bool is_ours = (round + turn) % 2 == 0;

			r = sample(pair, user, is_ours,
				   is_ours ? &samples->ours[i] : &samples->peer[i]);
			if (r)
				return bench_fail(pair->name, r, is_ours);
		}
		samples->added[i] = samples->ours[i] - samples->peer[i];
	}
	return 0;
}

static int sum_up(const struct bench_pair *pair, const struct samples *samples, unsigned int n,
		  struct bench_figures *ret_figures)
{
	uint64_t seed = bench_options.seed;
	int r;

	/* First: the rounds are needed as they came, and are sorted below. */
	r = bench_ratio_interval(samples->ours, samples->peer, n, seed, &ret_figures->ratio);
	if (!r)
		r = bench_ratio_interval(samples->added, samples->peer, n, seed,
					 &ret_figures->added_ratio);
	if (r)
		return bench_fail(pair->name, r, false);
	bench_spread_of(samples->ours, n, &ret_figures->ours);
	bench_spread_of(samples->peer, n, &ret_figures->peer);
	bench_spread_of(samples->added, n, &ret_figures->added);
	return 0;
}

int bench_measure(const struct bench_pair *pair, void *user, struct bench_figures *ret_figures)
{
	unsigned int n = rounds_of(pair);
	struct samples samples = {
		.ours = calloc(n, sizeof(double)),
		.peer = calloc(n, sizeof(double)),
		.added = calloc(n, sizeof(double)),
	};
	int r;

	if (!samples.ours || !samples.peer || !samples.added)
		r = bench_fail(pair->name, -ENOMEM, false);
	else
		r = sample_all(pair, user, n, &samples);
	if (!r)
		r = sum_up(pair, &samples, n, ret_figures);
	free(samples.ours);
	free(samples.peer);
	free(samples.added);
	return r;
}
