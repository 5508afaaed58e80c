// SPDX-License-Identifier: MIT
/* Measuring two sides in turns: medians and 99th percentiles. */
#include <errno.h>
#include <stdlib.h>

#include "../hetmap/command.h"
#include "bench.h"
#include "bench_options.h"

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts @samples. */
static double percentile(double *samples, unsigned int n, double share)
{
	unsigned int i = (unsigned int)(share * (n - 1) + 0.5);

	qsort(samples, n, sizeof(*samples), compare);
	return samples[i];
}

static int sample(const struct bench_pair *pair, void *user, bool ours, double *ret_ns)
{
	bench_side *side = ours ? pair->ours : pair->peer_side;
	int r = 0;

	if (pair->warm_each)
		r = side(user, ret_ns);
	return r ? r : side(user, ret_ns);
}

int bench_measure(const struct bench_pair *pair, void *user, struct bench_figures *ret_figures)
{
	unsigned int n = bench_options.rounds ? bench_options.rounds : pair->rounds;
	unsigned int round;
	double *ours, *peer, *added;
	int r = 0;

	ours = calloc(n, sizeof(*ours));
	peer = calloc(n, sizeof(*peer));
	added = calloc(n, sizeof(*added));
	if (!ours || !peer || !added) {
		r = bench_fail(pair->name, -ENOMEM, false);
		goto out;
	}
	for (round = 0; round < pair->warm_up + n; round++) {
		/* Warm-up samples land in a place that a later one overwrites. */
		unsigned int i = round < pair->warm_up ? 0 : round - pair->warm_up;
		unsigned int turn;

		if (signals_pending()) {
			r = -EINTR;
			goto out;
		}
		for (turn = 0; turn < 2; turn++) {
			bool is_ours = (round + turn) % 2 == 0;

			r = sample(pair, user, is_ours, is_ours ? &ours[i] : &peer[i]);
			if (r) {
				bench_fail(pair->name, r, is_ours);
				goto out;
			}
		}
		added[i] = ours[i] - peer[i];
	}
	*ret_figures = (struct bench_figures){
		.value = percentile(ours, n, 0.5),
		.p99 = percentile(ours, n, 0.99),
		.peer_value = percentile(peer, n, 0.5),
		.added = percentile(added, n, 0.5),
		.added_p99 = percentile(added, n, 0.99),
	};
out:
	free(ours);
	free(peer);
	free(added);
	return r;
}
