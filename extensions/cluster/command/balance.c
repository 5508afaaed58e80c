// SPDX-License-Identifier: MIT
/*
 * hetmap run particles: layers go to ranks that have time. The times are those of CPUs, so that
 * ranks that share a CPU do not wait into each other's figures. A border moves by a layer at a
 * time: its particles go to the neighbour as those that travel do.
 */
#include <errno.h>
#include <hetmap/error.h>
#include <stdlib.h>
#include <string.h>

#include "particles.h"

#define ALLOWED 1.10   /* of the mean: the busiest rank */
#define WORTH 0.98     /* of the busiest rank's time before: what a move must lead to */
#define LAYERS_LEAST 2 /* of a rank: a particle reaches neighbours only */

/* The time of the busiest rank, if the borders are @first. */
static double busiest(const struct sim *sim, const double *cost, const uint32_t *first)
{
	double most = 0, sum;
	uint32_t layer;
	int i;

	for (i = 0; i < sim->ranks; i++) {
		sum = 0;
		for (layer = first[i]; layer < first[i + 1]; layer++)
			sum += cost[layer];
		if (sum > most)
			most = sum;
	}
	return most;
}

/* The cost of each layer, by the particles in it: the same on all ranks. */
static double layer_costs(struct sim *sim, double *cost)
{
	uint32_t layers = sim->cells[2], layer, i;
	double own = 0, total = 0;

	memset(cost, 0, layers * sizeof(*cost));
	for (layer = sim->first[sim->rank]; layer < sim->first[sim->rank + 1]; layer++) {
		for (i = 0; i < sim->layer_cells; i++)
			cost[layer] +=
				(double)sim
					->cell[sim->now][(uint64_t)layer * sim->layer_cells + i]
					.n;
		own += cost[layer];
	}
	for (layer = sim->first[sim->rank]; layer < sim->first[sim->rank + 1]; layer++)
		cost[layer] = own > 0 ? cost[layer] / own * sim->recent :
					sim->recent / (sim->first[sim->rank + 1] -
						       sim->first[sim->rank]);
	MPI_Allreduce(MPI_IN_PLACE, cost, (int)layers, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (layer = 0; layer < layers; layer++)
		total += cost[layer];
	return total;
}

/* Each border goes one layer towards where it should be. */
static void shift(const struct sim *sim, const double *cost, double total, uint32_t *first)
{
	uint32_t layer = 0;
	double sum = 0;
	int i;

	memcpy(first, sim->first, ((size_t)sim->ranks + 1) * sizeof(*first));
	for (i = 1; i < sim->ranks; i++) {
		double target = total * i / sim->ranks;

		while (layer < sim->cells[2] && sum + cost[layer] / 2 < target)
			sum += cost[layer++];
		if (layer > sim->first[i] &&
		    sim->first[i + 1] - (sim->first[i] + 1) >= LAYERS_LEAST)
			first[i]++;
		else if (layer < sim->first[i] &&
			 sim->first[i] - 1 - first[i - 1] >= LAYERS_LEAST)
			first[i]--;
		if (first[i] - first[i - 1] < LAYERS_LEAST)
			first[i] = sim->first[i];
	}
}

/* Writes the borders to come to @first: rank 0 decides, as sums may differ in their last bits. */
static void decide(struct sim *sim, const double *cost, double total, uint32_t *first)
{
	double before = busiest(sim, cost, sim->first);

	if (!sim->rank) {
		shift(sim, cost, total, first);
		if (before <= ALLOWED * total / sim->ranks ||
		    busiest(sim, cost, first) > WORTH * before)
			memcpy(first, sim->first, ((size_t)sim->ranks + 1) * sizeof(*first));
	}
	MPI_Bcast(first, sim->ranks + 1, MPI_UINT32_T, 0, MPI_COMM_WORLD);
}

int balance(struct sim *sim)
{
	double *cost, total;
	uint32_t *first;
	int i, moved = 0, r = 0;

	if (sim->ranks == 1)
		return 0;
	cost = calloc(sim->cells[2], sizeof(*cost));
	first = calloc((size_t)sim->ranks + 1, sizeof(*first));
	if (!cost || !first) {
		r = hm_error_set(-ENOMEM, "no memory to rebalance");
		goto out;
	}
	total = layer_costs(sim, cost);
	sim->recent = 0;
	decide(sim, cost, total, first);
	for (i = 1; i < sim->ranks; i++)
		moved += first[i] != sim->first[i];
	if (!moved)
		goto out;
	sim->moved += (uint64_t)moved;
	memcpy(sim->first, first, ((size_t)sim->ranks + 1) * sizeof(*first));
	r = sim->exchange->move(sim, sim->old);
out:
	free(cost);
	free(first);
	return r;
}
