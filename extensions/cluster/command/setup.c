// SPDX-License-Identifier: MIT
/* hetmap run particles: box, lattice, velocities. */
#include <errno.h>
#include <hetmap/error.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "particles.h"

#define DENSITY 0.8442
#define TEMPERATURE 1.0
#define STEP 0.002
#define LONG 2 /* the lattice along z, in its width */

/* splitmix64: the same velocities whatever rank makes them. */
static double uniform(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* Cells of a lattice of 4 atoms each, k * k * LONG k of them. */
static uint32_t lattice_width(uint64_t atoms)
{
	uint32_t k = 1;

	while (4ull * LONG * (k + 1) * (k + 1) * (k + 1) <= atoms)
		k++;
	return k;
}

int sim_begin(struct sim *sim, const struct options *options)
{
	uint32_t k = lattice_width(options->atoms), i;
	double edge = cbrt(4 / DENSITY);
	uint64_t all;

	sim->options = options;
	sim->atoms = 4ull * LONG * k * k * k;
	sim->dt = STEP;
	for (i = 0; i < 3; i++) {
		sim->size[i] = edge * k * (i == 2 ? LONG : 1);
		/* With an uneven start the upper half of the box is empty. */
		if (i == 2 && options->uneven)
			sim->size[i] *= 2;
		sim->cells[i] = (uint32_t)(sim->size[i] / CUTOFF);
		sim->width[i] = sim->size[i] / sim->cells[i];
	}
	if (sim->cells[0] < 3)
		return hm_error_set(-EINVAL,
				    "%llu particles fill %u cells in a row, and 3 are needed: "
				    "take 864 or more",
				    (unsigned long long)sim->atoms, sim->cells[0]);
	if (sim->cells[2] < 2 * (uint32_t)sim->ranks && sim->ranks > 1)
		return hm_error_set(
			-EINVAL,
			"%llu particles make %u layers, and %d ranks need 2 each: take "
			"more particles or fewer ranks",
			(unsigned long long)sim->atoms, sim->cells[2], sim->ranks);
	sim->layer_cells = sim->cells[0] * sim->cells[1];
	all = (uint64_t)sim->layer_cells * sim->cells[2];
	sim->out_most = 1 + 2ull * sim->layer_cells * CELL_MOST / 2;
	sim->first = calloc((size_t)sim->ranks + 1, sizeof(*sim->first));
	sim->old = calloc((size_t)sim->ranks + 1, sizeof(*sim->old));
	sim->sums = calloc((size_t)sim->ranks, 3 * sizeof(*sim->sums));
	for (i = 0; i < 2; i++)
		sim->inner[i] = calloc(all, sizeof(*sim->inner[i]));
	if (!sim->first || !sim->old || !sim->sums || !sim->inner[0] || !sim->inner[1])
		return hm_error_set(-ENOMEM, "no memory for %llu cells",
				    (unsigned long long)all);
	for (i = 0; i <= (uint32_t)sim->ranks; i++)
		sim->old[i] = sim->first[i] =
			(uint32_t)((uint64_t)sim->cells[2] * i / (uint64_t)sim->ranks);
	return 0;
}

int sim_fill(struct sim *sim)
{
	static const double corner[4][3] = {
		{ 0, 0, 0 }, { 0.5, 0.5, 0 }, { 0.5, 0, 0.5 }, { 0, 0.5, 0.5 }
	};
	double edge = cbrt(4 / DENSITY), scale = sqrt(12 * TEMPERATURE), mean[3] = { 0 };
	uint32_t k = lattice_width(sim->options->atoms), i, c;
	uint64_t id, state = 20261201;
	double *v = malloc(3 * sim->atoms * sizeof(*v));
	uint64_t at;

	if (!v)
		return hm_error_set(-ENOMEM, "no memory for %llu velocities",
				    (unsigned long long)sim->atoms);
	for (at = 0; at < 3 * sim->atoms; at++) {
		v[at] = (uniform(&state) - 0.5) * scale;
		mean[at % 3] += v[at] / (double)sim->atoms;
	}
	for (id = 0; id < sim->atoms; id++) {
		uint64_t cell = id / 4;
		uint64_t place[3] = { cell % k, cell / k % k, cell / k / k };
		double x[3], own[3];
		uint32_t layer;

		c = (uint32_t)(id % 4);
		for (i = 0; i < 3; i++) {
			x[i] = edge * ((double)place[i] + corner[c][i] + 0.25);
			own[i] = v[3 * id + i] - mean[i];
		}
		layer = (uint32_t)(x[2] / sim->width[2]);
		if (layer >= sim->first[sim->rank] && layer < sim->first[sim->rank + 1])
			sim_insert(sim, id, x, own);
	}
	free(v);
	return 0;
}

void sim_end(struct sim *sim)
{
	free(sim->first);
	free(sim->old);
	free(sim->sums);
	free(sim->inner[0]);
	free(sim->inner[1]);
}
