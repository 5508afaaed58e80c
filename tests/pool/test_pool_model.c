// SPDX-License-Identifier: MIT
/*
 * Pools against a model: every allocation keeps its bytes, overlaps no other one and is found;
 * and the waste of a pool on sequences of sizes as programs have them.
 *
 * HETMAP_ROUNDS above 1: with a million live allocations.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/pool_support.h"

struct block {
	char *pointer;
	uint64_t size;
	uint64_t mark; /* in its first and in its last bytes */
};

struct model {
	struct hm_pool *pool;
	struct block *block;
	uint64_t n, room;
	uint64_t live; /* bytes */
	uint64_t marks, random;
};

static uint64_t mark_bytes(const struct block *block)
{
	return block->size < sizeof(block->mark) ? block->size : sizeof(block->mark);
}

static void mark(struct model *model, struct block *block)
{
	block->mark = ++model->marks;
	memcpy(block->pointer, &block->mark, mark_bytes(block));
	memcpy(block->pointer + block->size - mark_bytes(block), &block->mark,
	       mark_bytes(block));
}

static bool is_marked(const struct block *block)
{
	uint64_t n = mark_bytes(block);

	/* One that is shorter than two marks has the last one. */
	if (block->size >= 2 * n && memcmp(block->pointer, &block->mark, n))
		return false;
	return !memcmp(block->pointer + block->size - n, &block->mark, n);
}

/* As malloc()s of programs: most are small. */
static uint64_t any_size(struct model *model)
{
	uint64_t random = test_random(&model->random);
	unsigned int kind = random & 255;

	random >>= 8;
	if (kind < 200)
		return 1 + random % 256;
	if (kind < 250)
		return 1 + random % 4096;
	if (kind < 255)
		return 1 + random % 65536;
	return 1 + random % 1500000;
}

static void find(const struct model *model, const struct block *block, uint64_t offset)
{
	struct hm_pointer_info at;

	CHECK_EQUAL(hm_pointer_find(block->pointer + offset, &at), 0);
	CHECK(at.base == block->pointer && at.length == block->size);
	CHECK(at.pool == model->pool);
}

static void add(struct model *model, uint64_t size)
{
	struct block *block = &model->block[model->n++];

	block->size = size;
	block->pointer = pool_take(model->pool, size);
	model->live += size;
	mark(model, block);
}

static void drop(struct model *model, uint64_t i)
{
	struct block *block = &model->block[i];

	CHECK_FATAL(is_marked(block));
	CHECK_OK(hm_pool_free(model->pool, block->pointer));
	model->live -= block->size;
	*block = model->block[--model->n];
}

static void resize(struct model *model, uint64_t i, uint64_t size)
{
	struct block *block = &model->block[i];

	CHECK_OK_FATAL(hm_pool_realloc(model->pool, block->pointer, size, HM_MAY_MOVE,
				       &block->pointer));
	if (size >= block->size && block->size >= 16)
		CHECK_FATAL(!memcmp(block->pointer, &block->mark, sizeof(block->mark)));
	model->live += size - block->size;
	block->size = size;
	mark(model, block);
}

static void step(struct model *model, uint64_t n)
{
	uint64_t random = test_random(&model->random);
	uint64_t i = model->n ? (random >> 16) % model->n : 0;

	if (model->n < n / 2 || (random % 100 < 45 && model->n < n))
		add(model, any_size(model));
	else if (random % 100 < 90)
		drop(model, i);
	else if (random % 100 < 94)
		resize(model, i, any_size(model));
	else
		find(model, &model->block[i], (random >> 32) % model->block[i].size);
}

static void model_begin(struct model *model, uint64_t n)
{
	*model = (struct model){ .room = n, .random = test_seed() };
	model->pool = pool_make("host", 0, 0);
	model->block = calloc(n, sizeof(model->block[0]));
	CHECK_FATAL(model->block != NULL);
}

static void model_end(struct model *model)
{
	struct hm_pool_info info = pool_info(model->pool);

	CHECK_EQUAL(info.live, model->live);
	CHECK_EQUAL(info.allocations, model->n);
	while (model->n)
		drop(model, model->n - 1);
	CHECK_OK(hm_pool_trim(model->pool, 0, NULL));
	info = pool_info(model->pool);
	CHECK_EQUAL(info.held, 0);
	hm_pool_unref(model->pool);
	free(model->block);
}

static void against_model(void)
{
	uint64_t n = pool_rounds() > 1 ? 1000000 : test_is_slow() ? 2000 : 20000, i;
	struct model model;

	model_begin(&model, n);
	for (i = 0; i < 8 * n; i++)
		step(&model, n);
	for (i = 0; i < model.n; i++) {
		CHECK_FATAL(is_marked(&model.block[i]));
		find(&model, &model.block[i], model.block[i].size - 1);
	}
	model_end(&model);
}

/* ---- waste ---- */

/*
 * At the end the pool holds at most a third more than the live bytes, so that a quarter of it is
 * waste. Not for a few blocks: the last one may be new.
 */
static void check_waste(struct model *model, const char *what)
{
	struct hm_pool_info info;

	CHECK_OK(hm_pool_trim(model->pool, 0, NULL));
	info = pool_info(model->pool);
	if ((info.held - info.live) * 4 > info.held)
		test_fail(__FILE__, __LINE__,
			  "%s: %" PRIu64 " bytes of %" PRIu64 " are waste: %" PRIu64
			  " of rounding, %" PRIu64 " unused",
			  what, info.held - info.live, info.held, info.rounding, info.unused);
}

static uint64_t live_wanted(void)
{
	return pool_rounds() > 1 ? MIB(1024) : MIB(64);
}

static void fill(struct model *model, uint64_t (*size)(struct model *model))
{
	while (model->n < model->room && model->live < live_wanted())
		add(model, size(model));
}

/* Frees allocations until half of the bytes are left, in any order. */
static void halve(struct model *model)
{
	uint64_t live = model->live;

	while (model->live > live / 2)
		drop(model, test_random(&model->random) % model->n);
}

/* Objects of an interpreter: 16 to 512 bytes, by eights. */
static uint64_t size_of_objects(struct model *model)
{
	return 16 + test_random(&model->random) % 63 * 8;
}

/* Strings of a server: any length, more short ones. */
static uint64_t size_of_strings(struct model *model)
{
	uint64_t random = test_random(&model->random);

	return 1 + (random >> 8) % (16u << random % 10);
}

/* Tensors: multiples of 512 bytes, up to 1 MiB. */
static uint64_t size_of_tensors(struct model *model)
{
	uint64_t random = test_random(&model->random);

	return 512 * (1 + (random >> 8) % (8u << random % 9));
}

/* Buffers of a network: two sizes, just above powers of two. */
static uint64_t size_of_packets(struct model *model)
{
	return test_random(&model->random) & 1 ? 2048 + 320 : 9216;
}

/* Twice as long from time to time: arrays that grow. */
static uint64_t size_of_arrays(struct model *model)
{
	return 24ull << test_random(&model->random) % 14;
}

static const struct trace {
	const char *name;
	uint64_t (*size)(struct model *model);
} traces[] = {
	{ "objects", size_of_objects }, { "strings", size_of_strings },
	{ "tensors", size_of_tensors }, { "packets", size_of_packets },
	{ "arrays", size_of_arrays },
};

#define N_TRACE (sizeof(traces) / sizeof(traces[0]))

/* Each shape by itself: filled, half of it freed and filled again, some times. */
static void wastes_little(void)
{
	struct model model;
	unsigned int round;
	size_t i;

	for (i = 0; i < N_TRACE; i++) {
		model_begin(&model, live_wanted() / 64);
		for (round = 0; round < 3; round++) {
			fill(&model, traces[i].size);
			check_waste(&model, traces[i].name);
			halve(&model);
		}
		model_end(&model);
	}
}

/* Frees all but the @live bytes that are youngest, in the order in which they were made. */
static void drop_oldest(struct model *model, uint64_t live)
{
	uint64_t i, k;

	for (i = 0; i < model->n && model->live > live; i++) {
		CHECK_FATAL(is_marked(&model->block[i]));
		CHECK_OK(hm_pool_free(model->pool, model->block[i].pointer));
		model->live -= model->block[i].size;
	}
	for (k = i; k < model->n; k++)
		model->block[k - i] = model->block[k];
	model->n -= i;
}

/*
 * One shape after another in one pool, each time in the memory that the last one has left:
 * memory of one class must come back to others. Phases of programs end so, with most memory.
 */
static void changes_shape(void)
{
	struct model model;
	unsigned int i;

	model_begin(&model, live_wanted() / 16);
	for (i = 0; i < 2 * N_TRACE; i++) {
		const struct trace *trace = &traces[i % N_TRACE];

		drop_oldest(&model, live_wanted() / 8);
		fill(&model, trace->size);
		check_waste(&model, trace->name);
	}
	model_end(&model);
}

static const struct test tests[] = {
	{ .name = "against_model", .run = against_model, .seconds = 60 },
	{ .name = "wastes_little", .run = wastes_little, .seconds = 60 },
	{ .name = "changes_shape", .run = changes_shape, .seconds = 60 },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "pool_model", tests)
