// SPDX-License-Identifier: MIT
/* hetmap run particles: a step, and what is asked of it. */
#include <errno.h>
#include <hetmap/error.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "particles.h"

double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double own_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool is_own(const struct sim *sim, uint32_t layer)
{
	return layer >= sim->first[sim->rank] && layer < sim->first[sim->rank + 1];
}

/* To the neighbour that is nearer, around the box. */
static void travel(struct sim *sim, uint32_t layer, uint64_t id, const double x[3],
		   const double v[3])
{
	uint32_t layers = sim->cells[2];
	uint32_t up = (layer + layers - (sim->first[sim->rank + 1] - 1)) % layers;
	uint32_t down = (sim->first[sim->rank] + layers - layer) % layers;
	struct traveller *box = sim->out[up <= down ? UP : DOWN], *one;

	/* A particle that comes in is no neighbour's: it was too fast. */
	if (sim->arriving || box[0].n + 1 >= sim->out_most) {
		sim->lost = true;
		return;
	}
	one = &box[++box[0].n];
	one->id = id;
	memcpy(one->x, x, sizeof(one->x));
	memcpy(one->v, v, sizeof(one->v));
}

void sim_insert(struct sim *sim, uint64_t id, const double x[3], const double v[3])
{
	uint32_t place[3], i;
	struct cell *cell;
	struct inner *inner;
	uint64_t at;

	for (i = 0; i < 3; i++) {
		place[i] = (uint32_t)(x[i] / sim->width[i]);
		/* Rounding may lead to the box's very end. */
		if (place[i] >= sim->cells[i])
			place[i] = sim->cells[i] - 1;
	}
	if (!is_own(sim, place[2])) {
		travel(sim, place[2], id, x, v);
		return;
	}
	at = ((uint64_t)place[2] * sim->cells[1] + place[1]) * sim->cells[0] + place[0];
	cell = &sim->cell[sim->now][at];
	inner = &sim->inner[sim->now][at];
	if (cell->n == CELL_MOST) {
		sim->lost = true;
		return;
	}
	for (i = 0; i < 3; i++) {
		cell->x[i][cell->n] = x[i];
		inner->v[i][cell->n] = v[i];
	}
	inner->id[cell->n] = id;
	cell->n++;
}

static uint64_t first_cell(const struct sim *sim, const uint32_t *first)
{
	return (uint64_t)first[sim->rank] * sim->layer_cells;
}

static uint64_t end_cell(const struct sim *sim, const uint32_t *first)
{
	return (uint64_t)first[sim->rank + 1] * sim->layer_cells;
}

/* From the old cells into the new ones. */
static void drift(struct sim *sim)
{
	const struct cell *cells = sim->cell[!sim->now];
	const struct inner *inners = sim->inner[!sim->now];
	uint64_t at, i;
	uint32_t k;

	sim->out[DOWN][0].n = sim->out[UP][0].n = 0;
	for (at = first_cell(sim, sim->first); at < end_cell(sim, sim->first); at++)
		sim->cell[sim->now][at].n = 0;
	for (at = first_cell(sim, sim->old); at < end_cell(sim, sim->old); at++)
		for (i = 0; i < cells[at].n; i++) {
			double x[3], v[3];

			for (k = 0; k < 3; k++) {
				v[k] = inners[at].v[k][i] + 0.5 * sim->dt * inners[at].f[k][i];
				x[k] = cells[at].x[k][i] + sim->dt * v[k];
				x[k] -= sim->size[k] * floor(x[k] / sim->size[k]);
			}
			sim_insert(sim, inners[at].id[i], x, v);
		}
}

/* A layer that this rank may read; *@shift: what its particles are moved by, around the box. */
static const struct cell *layer_at(const struct sim *sim, int64_t layer, double *shift)
{
	int64_t layers = sim->cells[2], in = (layer + layers) % layers;

	*shift = layer < 0 ? -sim->size[2] : layer >= layers ? sim->size[2] : 0;
	if (is_own(sim, (uint32_t)in))
		return sim->cell[sim->now] + (uint64_t)in * sim->layer_cells;
	return layer < sim->first[sim->rank] ? sim->below : sim->above;
}

static double cell_forces(struct sim *sim, int64_t x, int64_t y, int64_t z)
{
	int64_t nx = sim->cells[0], ny = sim->cells[1], dx, dy, dz;
	uint64_t at = ((uint64_t)z * sim->cells[1] + (uint64_t)y) * sim->cells[0] + (uint64_t)x;
	const struct cell *cell = &sim->cell[sim->now][at];
	struct inner *inner = &sim->inner[sim->now][at];
	double potential = 0, shift[3];

	memset(inner->f, 0, sizeof(inner->f));
	for (dz = -1; dz <= 1; dz++) {
		const struct cell *layer = layer_at(sim, z + dz, &shift[2]);

		for (dy = -1; dy <= 1; dy++) {
			int64_t iy = (y + dy + ny) % ny;

			shift[1] = y + dy < 0 ? -sim->size[1] : y + dy >= ny ? sim->size[1] : 0;
			for (dx = -1; dx <= 1; dx++) {
				int64_t ix = (x + dx + nx) % nx;

				shift[0] = x + dx < 0   ? -sim->size[0] :
					   x + dx >= nx ? sim->size[0] :
							  0;
				potential +=
					forces_add(cell, inner, &layer[iy * nx + ix], shift);
			}
		}
	}
	return potential / 2;
}

/* Forces of the own layers, and the other half of the kick. */
static void kick(struct sim *sim, double dt)
{
	uint64_t at, i;
	int64_t x, y, z;
	uint32_t k;

	sim->potential = 0;
	for (z = sim->first[sim->rank]; z < sim->first[sim->rank + 1]; z++)
		for (y = 0; y < sim->cells[1]; y++)
			for (x = 0; x < sim->cells[0]; x++)
				sim->potential += cell_forces(sim, x, y, z);
	for (at = first_cell(sim, sim->first); at < end_cell(sim, sim->first); at++) {
		struct inner *inner = &sim->inner[sim->now][at];

		for (i = 0; i < sim->cell[sim->now][at].n; i++)
			for (k = 0; k < 3; k++)
				inner->v[k][i] += 0.5 * dt * inner->f[k][i];
	}
}

/* The first call makes the forces of the beginning. */
int sim_step(struct sim *sim)
{
	double begin = seconds(), own = own_seconds(), between;
	bool first = !sim->step;
	int r;

	if (!first) {
		sim->now = !sim->now;
		drift(sim);
	}
	sim->recent += own_seconds() - own;
	between = seconds();
	sim->compute += between - begin;
	r = first ? 0 : sim->exchange->arrive(sim);
	if (!r)
		r = sim->exchange->halo(sim);
	if (r)
		return r;
	begin = seconds();
	sim->communicate += begin - between;
	own = own_seconds();
	kick(sim, first ? 0 : sim->dt);
	sim->recent += own_seconds() - own;
	sim->compute += seconds() - begin;
	memcpy(sim->old, sim->first, ((size_t)sim->ranks + 1) * sizeof(*sim->old));
	sim->step++;
	return 0;
}

void sim_energy(struct sim *sim, double *ret_total, double *ret_kinetic, uint64_t *ret_n)
{
	double mine[3] = { 0, sim->potential, 0 };
	uint64_t at, i;
	uint32_t k;

	for (at = first_cell(sim, sim->old); at < end_cell(sim, sim->old); at++) {
		mine[2] += (double)sim->cell[sim->now][at].n;
		for (i = 0; i < sim->cell[sim->now][at].n; i++)
			for (k = 0; k < 3; k++)
				mine[0] += 0.5 * sim->inner[sim->now][at].v[k][i] *
					   sim->inner[sim->now][at].v[k][i];
	}
	/* Added in the order of ranks, so that equal runs give equal bits. */
	MPI_Allgather(mine, 3, MPI_DOUBLE, sim->sums, 3, MPI_DOUBLE, MPI_COMM_WORLD);
	memset(mine, 0, sizeof(mine));
	for (i = 0; i < 3 * (uint64_t)sim->ranks; i++)
		mine[i % 3] += sim->sums[i];
	*ret_kinetic = mine[0];
	*ret_total = mine[0] + mine[1];
	*ret_n = (uint64_t)(mine[2] + 0.5);
}

int sim_check(struct sim *sim)
{
	int lost = sim->lost, any = 0;

	MPI_Allreduce(&lost, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (!any)
		return 0;
	return hm_error_set(
		-EIO, "a cell has more than %d particles, or too many travel, at step %llu",
		CELL_MOST, (unsigned long long)sim->step);
}
