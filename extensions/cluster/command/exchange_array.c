// SPDX-License-Identifier: MIT
/*
 * hetmap run particles: particles and halos through arrays. Inside a node a rank reads its
 * neighbours' cells and boxes where they lie.
 */
#include <errno.h>
#include <hetmap/error.h>
#include <stdlib.h>

#include "particles.h"

#define FIRST_LOOK 64 /* travellers that are asked for at once, of another node */

struct array_side {
	struct hm_array *cells[2]; /* a row is a layer */
	struct hm_array *boxes;    /* a row is a box: two of each rank, DOWN and UP */
	struct cell *halo[2];      /* of layers on other nodes */
	struct traveller *in;      /* of boxes on other nodes */
};

static int make_cells(struct sim *sim, struct hm_array **ret_array)
{
	struct hm_array_part *parts = calloc((size_t)sim->ranks, sizeof(*parts));
	MPI_Comm comm = MPI_COMM_WORLD;
	struct hm_array_desc desc = { .struct_size = sizeof(desc),
				      .dimensions = 2,
				      .element = sizeof(struct cell),
				      .shape = { sim->cells[2], sim->layer_cells },
				      .distribution = HM_ARRAY_BY_HAND,
				      .parts = parts,
				      .n_parts = (uint32_t)sim->ranks,
				      .name = "cells" };
	int i, r;

	if (!parts)
		return hm_error_set(-ENOMEM, "no memory for %d parts", sim->ranks);
	for (i = 0; i < sim->ranks; i++) {
		parts[i].row = sim->first[i];
		parts[i].rows = sim->first[i + 1] - sim->first[i];
		parts[i].rank = (uint32_t)i;
	}
	r = hm_array_create(&comm, &desc, ret_array);
	free(parts);
	return r;
}

static int make_boxes(struct sim *sim, struct hm_array **ret_array)
{
	MPI_Comm comm = MPI_COMM_WORLD;
	struct hm_array_desc desc = { .struct_size = sizeof(desc),
				      .dimensions = 2,
				      .element = sizeof(struct traveller),
				      .shape = { 2 * (uint64_t)sim->ranks, sim->out_most },
				      .chunk = 2,
				      .name = "boxes" };

	return hm_array_create(&comm, &desc, ret_array);
}

static void end(struct sim *sim)
{
	struct array_side *side = sim->array;

	if (!side)
		return;
	hm_array_unref(side->boxes);
	hm_array_unref(side->cells[1]);
	hm_array_unref(side->cells[0]);
	free(side->halo[0]);
	free(side->halo[1]);
	free(side->in);
	free(side);
	sim->array = NULL;
}

static int begin(struct sim *sim)
{
	struct array_side *side = calloc(1, sizeof(*side));
	struct hm_array_part part;
	int i, r = 0;

	if (!side)
		return hm_error_set(-ENOMEM, "no memory for arrays");
	sim->array = side;
	for (i = 0; !r && i < 2; i++) {
		side->halo[i] = calloc(sim->layer_cells, sizeof(struct cell));
		r = make_cells(sim, &side->cells[i]);
		if (!r)
			r = hm_array_local(side->cells[i], 0, &part);
		if (!r)
			sim->cell[i] =
				(struct cell *)part.address - part.row * sim->layer_cells;
	}
	side->in = calloc(sim->out_most, sizeof(*side->in));
	if (!r && (!side->halo[0] || !side->halo[1] || !side->in))
		r = hm_error_set(-ENOMEM, "no memory for halos");
	if (!r)
		r = make_boxes(sim, &side->boxes);
	if (!r)
		r = hm_array_local(side->boxes, 0, &part);
	if (!r) {
		sim->out[DOWN] = part.address;
		sim->out[UP] = sim->out[DOWN] + sim->out_most;
	} else {
		end(sim);
	}
	return r;
}

/* Elements from @first on of a row that is on another node. */
static int get_row(struct hm_array *array, uint64_t row, uint64_t first, uint64_t n, void *to)
{
	struct hm_array_range range = { .start = { row, first }, .count = { 1, n } };

	return hm_array_get(array, &range, to, NULL);
}

/* A box of another rank, in place, or brought. */
static int open_box(struct sim *sim, uint64_t row, const struct traveller **ret_box)
{
	struct array_side *side = sim->array;
	struct hm_array_part part;
	uint64_t look = sim->out_most < FIRST_LOOK ? sim->out_most : FIRST_LOOK;
	int r = hm_array_at(side->boxes, row, &part);

	if (!r && part.address) {
		*ret_box = (struct traveller *)part.address + (row - part.row) * sim->out_most;
		return 0;
	}
	*ret_box = side->in;
	if (!r)
		r = get_row(side->boxes, row, 0, look, side->in);
	if (!r)
		r = hm_array_wait(side->boxes, HM_ARRAY_ALL);
	if (r || side->in[0].n < look)
		return r;
	r = get_row(side->boxes, row, look, side->in[0].n + 1 - look, side->in + look);
	return r ? r : hm_array_wait(side->boxes, HM_ARRAY_ALL);
}

static int arrive(struct sim *sim)
{
	uint64_t ranks = (uint64_t)sim->ranks, rank = (uint64_t)sim->rank, i;
	const uint64_t rows[2] = { 2 * ((rank + ranks - 1) % ranks) + UP,
				   2 * ((rank + 1) % ranks) + DOWN };
	const struct traveller *box;
	int k, r;

	if (ranks == 1)
		return 0;
	r = hm_array_epoch(sim->array->boxes, 0);
	sim->arriving = true;
	for (k = 0; !r && k < 2; k++) {
		r = open_box(sim, rows[k], &box);
		for (i = 1; !r && i <= box[0].n; i++)
			sim_insert(sim, box[i].id, box[i].x, box[i].v);
	}
	sim->arriving = false;
	return r;
}

static int open_layer(struct sim *sim, uint32_t layer, struct cell *halo,
		      const struct cell **ret_layer)
{
	struct hm_array *cells = sim->array->cells[sim->now];
	struct hm_array_part part;
	int r = hm_array_at(cells, layer, &part);

	if (r)
		return r;
	*ret_layer = halo;
	if (!part.address)
		return get_row(cells, layer, 0, sim->layer_cells, halo);
	*ret_layer = (struct cell *)part.address + (layer - part.row) * sim->layer_cells;
	return 0;
}

static int halo(struct sim *sim)
{
	struct array_side *side = sim->array;
	uint32_t layers = sim->cells[2];
	int r = hm_array_epoch(side->cells[sim->now], 0);

	if (r || sim->ranks == 1)
		return r;
	r = open_layer(sim, (sim->first[sim->rank] + layers - 1) % layers, side->halo[DOWN],
		       &sim->below);
	if (!r)
		r = open_layer(sim, sim->first[sim->rank + 1] % layers, side->halo[UP],
			       &sim->above);
	return r ? r : hm_array_wait(side->cells[sim->now], HM_ARRAY_ALL);
}

static int move(struct sim *sim, const uint32_t *old)
{
	int i, k, r = 0;

	for (k = 0; k < 2; k++)
		for (i = 1; !r && i < sim->ranks; i++) {
			uint32_t now = sim->first[i];

			if (now > old[i])
				r = hm_array_move(sim->array->cells[k], old[i], now - old[i],
						  (uint32_t)i - 1);
			else if (now < old[i])
				r = hm_array_move(sim->array->cells[k], now, old[i] - now,
						  (uint32_t)i);
		}
	return r;
}

static int count(struct sim *sim, uint64_t *ret_messages, uint32_t *ret_nodes)
{
	struct hm_array *arrays[] = { sim->array->cells[0], sim->array->cells[1],
				      sim->array->boxes };
	struct hm_array_info info = { .struct_size = sizeof(info) };
	int i, r = 0;

	for (i = 0; !r && i < 3; i++) {
		r = hm_array_query(arrays[i], &info);
		*ret_messages += r ? 0 : info.messages;
	}
	*ret_nodes = info.nodes;
	return r;
}

const struct exchange_ops exchange_array = {
	.name = "array",
	.label = "arrays",
	.begin = begin,
	.end = end,
	.arrive = arrive,
	.halo = halo,
	.move = move,
	.count = count,
};
