// SPDX-License-Identifier: MIT
/* hetmap run particles: particles and halos by MPI_Sendrecv, to compare with. */
#include <errno.h>
#include <hetmap/error.h>
#include <stdlib.h>
#include <string.h>

#include "particles.h"

enum { TAG_UP = 1, TAG_DOWN };

struct message_side {
	struct cell *cells[2];
	struct traveller *boxes; /* DOWN, UP, and the one that comes in */
	struct cell *halo[2];
	double *packed[2]; /* a layer: of each cell its number, then its coordinates */
};

static uint64_t packed_most(const struct sim *sim)
{
	return (uint64_t)sim->layer_cells * (1 + 3 * CELL_MOST);
}

static void end(struct sim *sim)
{
	struct message_side *side = sim->messages;
	int i;

	if (!side)
		return;
	for (i = 0; i < 2; i++) {
		free(side->cells[i]);
		free(side->halo[i]);
		free(side->packed[i]);
	}
	free(side->boxes);
	free(side);
	sim->messages = NULL;
}

static int begin(struct sim *sim)
{
	struct message_side *side = calloc(1, sizeof(*side));
	bool made = side != NULL;
	int i;

	sim->messages = side;
	for (i = 0; made && i < 2; i++) {
		side->cells[i] =
			calloc((uint64_t)sim->layer_cells * sim->cells[2], sizeof(struct cell));
		side->halo[i] = calloc(sim->layer_cells, sizeof(struct cell));
		side->packed[i] = calloc(packed_most(sim), sizeof(double));
		made = side->cells[i] && side->halo[i] && side->packed[i];
		sim->cell[i] = side->cells[i];
	}
	if (made)
		side->boxes = calloc(3 * sim->out_most, sizeof(struct traveller));
	if (!made || !side->boxes) {
		end(sim);
		return hm_error_set(-ENOMEM, "no memory for messages");
	}
	sim->out[DOWN] = side->boxes;
	sim->out[UP] = side->boxes + sim->out_most;
	return 0;
}

/* To the rank above while that below sends here, or the other way round. */
static int swap(const struct sim *sim, bool up, const void *from, uint64_t bytes, void *to,
		uint64_t most)
{
	int above = (sim->rank + 1) % sim->ranks;
	int below = (sim->rank + sim->ranks - 1) % sim->ranks;
	int tag = up ? TAG_UP : TAG_DOWN;

	if (bytes > INT32_MAX || most > INT32_MAX)
		return hm_error_set(-EOVERFLOW, "a message of %llu bytes",
				    (unsigned long long)most);
	if (MPI_Sendrecv(from, (int)bytes, MPI_BYTE, up ? above : below, tag, to, (int)most,
			 MPI_BYTE, up ? below : above, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
		return hm_error_set(-EREMOTEIO, "MPI_Sendrecv failed");
	return 0;
}

static int arrive(struct sim *sim)
{
	struct traveller *in = sim->messages->boxes + 2 * sim->out_most;
	uint64_t i;
	int k, r = 0;

	if (sim->ranks == 1)
		return 0;
	sim->arriving = true;
	for (k = 0; !r && k < 2; k++) {
		const struct traveller *box = sim->out[k ? DOWN : UP];

		r = swap(sim, !k, box, (box[0].n + 1) * sizeof(*box), in,
			 sim->out_most * sizeof(*in));
		for (i = 1; !r && i <= in[0].n; i++)
			sim_insert(sim, in[i].id, in[i].x, in[i].v);
	}
	sim->arriving = false;
	return r;
}

/* Returns the number of doubles. */
static uint64_t pack(const struct sim *sim, uint32_t layer, double *to)
{
	const struct cell *cell = sim->cell[sim->now] + (uint64_t)layer * sim->layer_cells;
	uint64_t used = 0;
	uint32_t i, k;

	for (i = 0; i < sim->layer_cells; i++) {
		to[used++] = (double)cell[i].n;
		for (k = 0; k < 3; k++) {
			memcpy(to + used, cell[i].x[k], cell[i].n * sizeof(double));
			used += cell[i].n;
		}
	}
	return used;
}

static void unpack(const struct sim *sim, const double *from, struct cell *cell)
{
	uint64_t used = 0;
	uint32_t i, k;

	for (i = 0; i < sim->layer_cells; i++) {
		cell[i].n = (uint64_t)from[used++];
		for (k = 0; k < 3; k++) {
			memcpy(cell[i].x[k], from + used, cell[i].n * sizeof(double));
			used += cell[i].n;
		}
	}
}

static int halo(struct sim *sim)
{
	struct message_side *side = sim->messages;
	uint64_t most = packed_most(sim) * sizeof(double), n;
	int k, r = 0;

	if (sim->ranks == 1)
		return 0;
	for (k = 0; !r && k < 2; k++) {
		n = pack(sim, k ? sim->first[sim->rank] : sim->first[sim->rank + 1] - 1,
			 side->packed[0]);
		r = swap(sim, !k, side->packed[0], n * sizeof(double), side->packed[1], most);
		if (!r)
			unpack(sim, side->packed[1], side->halo[k]);
	}
	sim->below = side->halo[0];
	sim->above = side->halo[1];
	return r;
}

/* Each rank has room for all layers. */
static int move(struct sim *sim, const uint32_t *old)
{
	(void)sim;
	(void)old;
	return 0;
}

const struct exchange_ops exchange_messages = {
	.name = "messages",
	.label = "MPI_Sendrecv",
	.begin = begin,
	.end = end,
	.arrive = arrive,
	.halo = halo,
	.move = move,
};
