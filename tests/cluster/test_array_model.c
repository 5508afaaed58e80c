// SPDX-License-Identifier: MIT
/*
 * Arrays against a model: 1, 2, 4 and 7 ranks, on one node and on several, in each distribution,
 * with random puts, gets, stores and loads. Each rank has the whole model, since all ranks draw the
 * same numbers.
 */
#ifdef HAVE_CLUSTER
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/ranks.h"

#define ELEMENTS_MOST 20000
#define RANKS_MOST 16

struct model {
	struct hm_array *array;
	struct hm_array_desc desc;
	struct hm_array_part parts[64];
	uint32_t *expected;   /* all elements, in order; the element is of 4 bytes */
	unsigned char *taken; /* this epoch's writers */
	uint32_t *bytes;
	uint64_t n;
	uint64_t state; /* state of the random numbers that all ranks share */
};

static uint64_t below(uint64_t *state, uint64_t n)
{
	return test_random(state) % n;
}

static void draw_desc(struct model *model, uint32_t distribution, uint32_t dimensions)
{
	struct hm_array_desc *desc = &model->desc;
	uint64_t row = 0;
	uint32_t i;

	memset(desc, 0, sizeof(*desc));
	desc->struct_size = sizeof(*desc);
	desc->dimensions = dimensions;
	desc->element = sizeof(uint32_t);
	desc->distribution = distribution;
	model->n = 1;
	for (i = 0; i < dimensions; i++) {
		desc->shape[i] = 1 + below(&model->state, dimensions == 1 ? ELEMENTS_MOST :
							  dimensions == 2 ? 120 :
									    24);
		model->n *= desc->shape[i];
	}
	if (distribution != HM_ARRAY_BY_HAND) {
		desc->chunk = below(&model->state, 2) ? 0 : below(&model->state, 9);
		return;
	}
	for (i = 0; row < desc->shape[0]; i++) {
		uint64_t left = desc->shape[0] - row;

		model->parts[i].row = row;
		model->parts[i].rows = i == 63 ? left : 1 + below(&model->state, left);
		model->parts[i].rank = (uint32_t)below(&model->state, (uint64_t)ranks);
		row += model->parts[i].rows;
	}
	desc->parts = model->parts;
	desc->n_parts = i;
}

static void draw_range(const struct model *model, uint64_t *state, struct hm_array_range *range)
{
	uint32_t i;

	for (i = 0; i < model->desc.dimensions; i++) {
		range->start[i] = below(state, model->desc.shape[i] + 1);
		range->count[i] = below(state, model->desc.shape[i] - range->start[i] + 1);
		/* Whole indices, which make long runs, come often. */
		if (!below(state, 3)) {
			range->start[i] = 0;
			range->count[i] = model->desc.shape[i];
		}
	}
}

/* Calls @visit for each element of the range: its index in the array, and in the packed bytes. */
static void each(const struct model *model, const struct hm_array_range *range,
		 void (*visit)(void *user, uint64_t at, uint64_t packed), void *user)
{
	uint64_t position[HM_ARRAY_DIMENSIONS] = { 0 }, n = 1, packed;
	uint32_t i;

	for (i = 0; i < model->desc.dimensions; i++)
		n *= range->count[i];
	for (packed = 0; packed < n; packed++) {
		uint64_t at = 0, rest = packed;

		for (i = model->desc.dimensions; i-- > 0;) {
			position[i] = rest % range->count[i];
			rest /= range->count[i];
		}
		for (i = 0; i < model->desc.dimensions; i++)
			at = at * model->desc.shape[i] + range->start[i] + position[i];
		visit(user, at, packed);
	}
}

static bool overlaps;

static void look(void *user, uint64_t at, uint64_t packed)
{
	(void)packed;
	overlaps |= ((struct model *)user)->taken[at] != 0;
}

static uint32_t value;

static void write_model(void *user, uint64_t at, uint64_t packed)
{
	struct model *model = user;

	model->taken[at] = 1;
	model->expected[at] = value + (uint32_t)packed;
	model->bytes[packed] = value + (uint32_t)packed;
}

static uint64_t wrong;

static void compare(void *user, uint64_t at, uint64_t packed)
{
	const struct model *model = user;

	wrong += model->bytes[packed] != model->expected[at];
}

/* One write of each rank, none of which meets another; the model has them all. */
static void write_epoch(struct model *model)
{
	struct hm_array_range range;
	struct hm_array_part part;
	uint64_t ticket = 0, i;
	uint32_t index;
	int writer;

	memset(model->taken, 0, model->n);
	for (writer = 0; writer < ranks; writer++) {
		draw_range(model, &model->state, &range);
		value = (uint32_t)test_random(&model->state);
		overlaps = false;
		each(model, &range, look, model);
		if (overlaps)
			continue;
		each(model, &range, write_model, model);
		if (writer != rank)
			continue;
		RANK_OK(hm_array_put(model->array, &range, model->bytes, &ticket));
		RANK_OK(hm_array_wait(model->array, ticket));
	}
	/* Each rank stores into each part of its own that no put was in. */
	for (i = 0; i < model->desc.shape[0]; i += part.rows) {
		uint64_t row = model->n / model->desc.shape[0], first, k;

		RANK_OK(hm_array_at(model->array, i, &part));
		RANK_CHECK(part.row == i && part.rows);
		first = part.row * row;
		value = (uint32_t)test_random(&model->state);
		overlaps = false;
		for (k = 0; k < part.rows * row; k++)
			look(model, first + k, 0);
		if (overlaps)
			continue;
		for (k = 0; k < part.rows * row; k++)
			model->expected[first + k] = value + (uint32_t)k;
		if ((int)part.rank != rank)
			continue;
		for (index = 0;; index++) {
			struct hm_array_part own;

			RANK_OK(hm_array_local(model->array, index, &own));
			if (own.row != part.row)
				continue;
			RANK_CHECK(own.address == part.address && own.rows == part.rows);
			memcpy(own.address, &model->expected[first], 4 * part.rows * row);
			break;
		}
	}
}

/* Each rank reads random ranges. */
static void read_epoch(struct model *model, uint64_t *own)
{
	struct hm_array_range range;
	struct hm_array_part part;
	uint64_t i, row = model->n / model->desc.shape[0];

	for (i = 0; i < 2; i++) {
		draw_range(model, own, &range);
		memset(model->bytes, 0x5a, 4 * model->n);
		RANK_OK(hm_array_get(model->array, &range, model->bytes, NULL));
		RANK_OK(hm_array_wait(model->array, HM_ARRAY_ALL));
		wrong = 0;
		each(model, &range, compare, model);
		if (wrong)
			rank_fail(__FILE__, __LINE__, "%" PRIu64 " elements are wrong", wrong);
	}
	for (i = 0; i < model->desc.shape[0]; i += part.rows) {
		RANK_OK(hm_array_at(model->array, i, &part));
		if (part.address)
			RANK_CHECK(!memcmp(part.address, &model->expected[i * row],
					   4 * part.rows * row));
	}
}

static void run_one(struct model *model, uint32_t distribution, uint32_t dimensions,
		    unsigned int rounds)
{
	struct hm_array_info info = { .struct_size = sizeof(info) };
	MPI_Comm comm = MPI_COMM_WORLD;
	uint64_t own, total = 0, part_bytes;
	unsigned int i;

	draw_desc(model, distribution, dimensions);
	own = model->state + (uint64_t)rank + 1;
	model->expected = calloc(model->n, 4);
	model->bytes = calloc(model->n, 4);
	model->taken = calloc(model->n, 1);
	RANK_OK(hm_array_create(&comm, &model->desc, &model->array));
	for (i = 0; i < rounds; i++) {
		write_epoch(model);
		RANK_OK(hm_array_epoch(model->array, 0));
		read_epoch(model, &own);
		RANK_OK(hm_array_epoch(model->array, 0));
	}
	RANK_OK(hm_array_query(model->array, &info));
	part_bytes = info.own_bytes;
	MPI_Allreduce(&part_bytes, &total, 1, MPI_UINT64_T, MPI_SUM, comm);
	RANK_CHECK(info.rank == (uint32_t)rank && info.ranks == (uint32_t)ranks);
	RANK_CHECK(info.bytes == 4 * model->n && total == info.bytes);
	RANK_CHECK(info.epochs == 2 * rounds && info.rows == model->desc.shape[0]);
	/* Ranks of a node send no messages. */
	RANK_CHECK(info.nodes > 1 || !(info.messages | info.sent | info.received));
	RANK_CHECK(!(info.flags & HM_ARRAY_PROGRESS) == (info.nodes == 1));
	RANK_CHECK(hm_array_ref(model->array) == model->array);
	hm_array_unref(model->array);
	hm_array_unref(model->array);
	free(model->expected);
	free(model->bytes);
	free(model->taken);
}

static void model_case(const char *argument)
{
	struct model model = { .state = strtoull(argument, NULL, 0) };
	const char *text = getenv("HETMAP_ROUNDS");
	unsigned int rounds = text ? (unsigned int)atoi(text) : 3;
	uint32_t distribution;

	for (distribution = 0; distribution < 3; distribution++)
		run_one(&model, distribution, 1 + distribution, rounds);
	run_one(&model, (uint32_t)below(&model.state, 3), 4, 1);
	ranks_say("as the model");
}

static void run_model(int n, int members)
{
	char seed[32];

	snprintf(seed, sizeof(seed), "%" PRIu64, test_seed());
	free(ranks_run(n, members, "model", seed, NULL));
}

static void one(void)
{
	run_model(1, 0);
}

static void two(void)
{
	run_model(2, 0);
	run_model(2, 1);
}

static void four(void)
{
	run_model(4, 0);
	run_model(4, 2);
}

static void seven(void)
{
	run_model(7, 0);
	run_model(7, 3);
}

static const struct rank_case cases[] = {
	{ "model", model_case },
	{ 0 },
};

static const struct test tests[] = {
	{ .name = "one", one },
	{ .name = "two", two, .seconds = 60 },
	{ .name = "four", four, .seconds = 60 },
	{ .name = "seven", seven, .seconds = 120 },
	{ 0 },
};

int main(int argc, char **argv)
{
	ranks_main(argc, argv, cases);
	return harness_main_once(argc, argv, "array_model", tests);
}
#else
#include "cluster/not_built.h"
#endif
