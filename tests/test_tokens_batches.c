// SPDX-License-Identifier: MIT
/* Batches of tokens: their order, its parts, going on, the thread that is ahead. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/tokens.h"
#include "inject.h"
#include "tokens_support.h"

#define UNTOUCHED ((void *)0x10)
#define BLOCK 16
#define BATCH 8
#define N (BLOCK * 100 + 9) /* 100 blocks, and some tokens that are in none */

static const struct hm_batches_desc usual = {
	.struct_size = sizeof(usual),
	.order = HM_BATCHES_SHUFFLED,
	.dtype = HM_DTYPE_I32,
	.block = BLOCK,
	.batch = BATCH,
	.seed = 5,
};

struct scene {
	char *folder, *path[3];
	struct hm_tokens *tokens;
};

/* Of three shards, whose ends are inside of blocks. */
static void set_up(struct scene *scene)
{
	static const uint64_t n[] = { 700, 5, N - 705 };
	uint64_t first = 0;
	char name[16];
	int i;

	scene->folder = folder_make();
	for (i = 0; i < 3; first += n[i++]) {
		snprintf(name, sizeof(name), "%d", i);
		scene->path[i] = tokens_file(scene->folder, name, first, n[i]);
	}
	CHECK_OK_FATAL(
		hm_tokens_open((const char *const *)scene->path, 3, NULL, &scene->tokens));
}

static void tear_down(struct scene *scene)
{
	int i;

	hm_tokens_unref(scene->tokens);
	for (i = 0; i < 3; i++)
		free(scene->path[i]);
	folder_remove(scene->folder);
}

static struct hm_batches *make(const struct scene *scene, const struct hm_batches_desc *desc)
{
	struct hm_batches *batches;

	CHECK_OK_FATAL(hm_batches_create(scene->tokens, desc, &batches));
	return batches;
}

static struct hm_batches_info query(struct hm_batches *batches)
{
	struct hm_batches_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_batches_query(batches, &info));
	return info;
}

/* x and y are what the files have from the starts on. */
static void check_batch(const struct hm_batch *batch, const int32_t *x, const int32_t *y)
{
	uint64_t i, j;

	for (i = 0; i < batch->blocks; i++)
		for (j = 0; j < BLOCK; j++) {
			if (x[i * BLOCK + j] != token_at(batch->starts[i] + j))
				test_fail(__FILE__, __LINE__, "x of block %d", (int)i);
			if (y && y[i * BLOCK + j] != token_at(batch->starts[i] + j + 1))
				test_fail(__FILE__, __LINE__, "y of block %d", (int)i);
		}
}

static struct hm_batch next(struct hm_batches *batches)
{
	int32_t x[64 * BLOCK], y[64 * BLOCK];
	struct hm_batch batch = { .struct_size = sizeof(batch) };

	CHECK_OK_FATAL(hm_batches_next(batches, x, y, &batch));
	CHECK_FATAL(batch.blocks <= 64);
	check_batch(&batch, x, y);
	return batch;
}

/* ---- the generator ---- */

/* The vectors of its authors: kat_vectors of Random123. */
static void philox(void)
{
	static const struct {
		uint32_t counter[4];
		uint64_t key;
		uint32_t number[4];
	} vectors[] = {
		{ { 0 }, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
		{ { ~0u, ~0u, ~0u, ~0u },
		  ~0ull,
		  { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
		{ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
		  0x299f31d0a4093822,
		  { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
	};
	uint32_t number[4];
	size_t i;

	for (i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		order_philox(vectors[i].counter, vectors[i].key, number);
		CHECK(!memcmp(number, vectors[i].number, sizeof(number)));
	}
}

/* For good: who repeats a run of another version gets the same. */
static void for_good(void)
{
	static const uint64_t random[] = { 936707, 951001, 52940, 158043 },
			      shuffled[] = { 585000, 919000, 995000, 15000 };
	struct token_order order;
	uint64_t i;

	order_init(&order, HM_BATCHES_RANDOM, 1337, 1000001, 1000);
	for (i = 0; i < 4; i++)
		CHECK_EQUAL(order_start(&order, i), random[i]);
	order_init(&order, HM_BATCHES_SHUFFLED, 1337, 1000001, 1000);
	for (i = 0; i < 4; i++)
		CHECK_EQUAL(order_start(&order, i * 700), shuffled[i]);
}

/* Any number of blocks: each once an epoch, in another order. */
static void permutations(void)
{
	static const uint64_t numbers[] = { 1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 1000, 4097 };
	unsigned char seen[4097];
	struct token_order order;
	uint64_t e, i, k, n, same;
	uint64_t first[4097];

	for (k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
		n = numbers[k];
		order_init(&order, HM_BATCHES_SHUFFLED, k, n * 10 + 1, 10);
		CHECK_EQUAL(order.blocks, n);
		for (e = 0; e < 3; e++) {
			memset(seen, 0, sizeof(seen));
			for (i = same = 0; i < n; i++) {
				uint64_t start = order_start(&order, e * n + i);

				CHECK_FATAL(start % 10 == 0 && start / 10 < n);
				CHECK(!seen[start / 10]++);
				if (!e)
					first[i] = start;
				same += first[i] == start;
			}
			/* One is where it was, on average. */
			CHECK(!e || n < 16 || same < 10);
		}
	}
}

/* No place is more likely: of 64 parts none is far from its share. */
static void evenly(void)
{
	struct token_order order;
	uint64_t counts[64] = { 0 }, i, start;

	order_init(&order, HM_BATCHES_RANDOM, 3, 1000064 + 77, 77);
	CHECK_EQUAL(order.starts, 1000064);
	for (i = 0; i < 64000; i++) {
		start = order_start(&order, i);
		CHECK_FATAL(start < order.starts);
		counts[start * 64 / order.starts]++;
	}
	for (i = 0; i < 64; i++)
		CHECK(counts[i] > 800 && counts[i] < 1200);
}

/* ---- batches ---- */

static void all_orders(void)
{
	struct hm_batches_desc desc = usual;
	struct hm_batches *batches;
	struct hm_batch batch;
	struct scene scene;
	uint64_t i, way;

	set_up(&scene);
	for (way = 0; way < 2; way++) {
		if (way)
			CHECK_OK_FATAL(hm_handler_install(0));
		for (desc.order = 0; desc.order <= HM_BATCHES_IN_ORDER; desc.order++) {
			batches = make(&scene, &desc);
			for (i = 0; i < 30; i++) {
				batch = next(batches);
				CHECK_EQUAL(batch.number, i);
				CHECK_EQUAL(batch.blocks, BATCH);
				CHECK_EQUAL(batch.epoch, desc.order == HM_BATCHES_RANDOM ?
								 0 :
								 i * BATCH / 100);
				if (desc.order == HM_BATCHES_IN_ORDER)
					CHECK_EQUAL(batch.starts[0], i * BATCH % 100 * BLOCK);
			}
			CHECK_EQUAL(query(batches).way,
				    way ? HM_BATCHES_MAPPED : HM_BATCHES_READ);
			CHECK_EQUAL(query(batches).mapped, way ? 30 : 0);
			CHECK_EQUAL(query(batches).batches, 30);
			CHECK_EQUAL(query(batches).blocks, 100);
			CHECK(*query(batches).why);
			hm_batches_unref(batches);
		}
	}
	CHECK_OK(hm_handler_remove());
	tear_down(&scene);
}

/* The same seed gives the same; another one does not. */
static void deterministic(void)
{
	struct hm_batches_desc desc = usual;
	struct hm_batches *a, *b, *c;
	struct scene scene;
	int i, n_same = 0;

	set_up(&scene);
	for (desc.order = 0; desc.order < HM_BATCHES_IN_ORDER; desc.order++) {
		a = make(&scene, &desc);
		b = make(&scene, &desc);
		desc.seed++;
		c = make(&scene, &desc);
		for (i = 0; i < 20; i++) {
			struct hm_batch of_a = next(a), of_b = next(b), of_c = next(c);

			CHECK(!memcmp(of_a.starts, of_b.starts, BATCH * sizeof(uint64_t)));
			n_same += !memcmp(of_a.starts, of_c.starts, BATCH * sizeof(uint64_t));
		}
		hm_batches_unref(a);
		hm_batches_unref(b);
		hm_batches_unref(c);
	}
	CHECK_EQUAL(n_same, 0);
	tear_down(&scene);
}

/* All members together have each block once an epoch, whatever their number. */
static void members(void)
{
	static const struct {
		uint32_t ranks, workers;
	} cases[] = { { 1, 1 }, { 2, 1 }, { 1, 3 }, { 3, 2 }, { 7, 1 } };
	struct hm_batches_desc desc = usual;
	uint64_t seen[100], i, k, b, turns;
	struct hm_batches *batches[8];
	struct hm_batch batch;
	struct scene scene;

	set_up(&scene);
	desc.batch = 1;
	for (k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		uint64_t n = (uint64_t)cases[k].ranks * cases[k].workers;

		desc.ranks = cases[k].ranks;
		desc.workers = cases[k].workers;
		for (i = 0; i < n; i++) {
			desc.rank = (uint32_t)i / desc.workers;
			desc.worker = (uint32_t)i % desc.workers;
			batches[i] = make(&scene, &desc);
		}
		memset(seen, 0, sizeof(seen));
		/* Three epochs, and up to the end of a turn of all. */
		turns = (300 + n - 1) / n;
		for (b = 0; b < turns; b++)
			for (i = 0; i < n; i++) {
				batch = next(batches[i]);
				CHECK_EQUAL(batch.epoch, (b * n + i) / 100);
				if (batch.epoch < 3)
					seen[batch.starts[0] / BLOCK]++;
			}
		for (i = 0; i < 100; i++)
			CHECK_EQUAL(seen[i], 3);
		for (i = 0; i < n; i++)
			hm_batches_unref(batches[i]);
	}
	tear_down(&scene);
}

static struct hm_batches_state state_of(struct hm_batches *batches)
{
	struct hm_batches_state state = { .struct_size = sizeof(state) };

	CHECK_OK_FATAL(hm_batches_get(batches, &state));
	return state;
}

/* What is set goes on as what it was got from, also with other sizes and members. */
static void resumed(void)
{
	struct hm_batches_desc desc = usual, two = usual;
	struct hm_batches *a, *b, *pair[2];
	struct hm_batches_state state;
	struct hm_batch of_a, of_b;
	struct scene scene;
	uint64_t i;

	set_up(&scene);
	for (desc.order = 0; desc.order <= HM_BATCHES_IN_ORDER; desc.order++) {
		desc.seed = 5;
		a = make(&scene, &desc);
		for (i = 0; i < 17; i++)
			next(a);
		state = state_of(a);
		CHECK_EQUAL(state.seed, 5);
		CHECK_EQUAL(state.position, 17 * BATCH);
		/* The state has the seed. */
		desc.seed = 99;
		b = make(&scene, &desc);
		CHECK_OK(hm_batches_set(b, &state));
		CHECK_EQUAL(state_of(b).position, 17 * BATCH);
		for (i = 0; i < 20; i++) {
			of_a = next(a);
			of_b = next(b);
			CHECK(!memcmp(of_a.starts, of_b.starts, BATCH * sizeof(uint64_t)));
		}
		hm_batches_unref(b);

		/* From one member to two, with half the batch each. */
		state = state_of(a);
		two.order = desc.order;
		two.ranks = 2;
		two.batch = BATCH / 2;
		for (two.rank = 0; two.rank < 2; two.rank++) {
			pair[two.rank] = make(&scene, &two);
			CHECK_OK(hm_batches_set(pair[two.rank], &state));
		}
		of_a = next(a);
		for (i = 0; i < 2; i++) {
			of_b = next(pair[i]);
			CHECK_EQUAL(of_b.starts[0], of_a.starts[i]);
			CHECK_EQUAL(of_b.starts[3], of_a.starts[6 + i]);
			CHECK_EQUAL(state_of(pair[i]).position, state_of(a).position);
			hm_batches_unref(pair[i]);
		}
		hm_batches_unref(a);
	}
	tear_down(&scene);
}

/* Sizes change: no block is left out or comes twice. */
static void ramps(void)
{
	static const uint64_t sizes[] = { 1, 4, 16, 64, 16, 4, 1, 64, 30 };
	uint64_t seen[100] = { 0 }, i, k, n = 0;
	struct hm_batches *batches;
	struct hm_batch batch;
	struct scene scene;

	set_up(&scene);
	batches = make(&scene, &usual);
	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		CHECK_OK(hm_batches_resize(batches, sizes[k]));
		batch = next(batches);
		CHECK_EQUAL(batch.blocks, sizes[k]);
		for (i = 0; i < batch.blocks; i++)
			seen[batch.starts[i] / BLOCK]++;
		n += sizes[k];
	}
	CHECK_EQUAL(n, 200);
	for (i = 0; i < 100; i++)
		CHECK_EQUAL(seen[i], 2);
	CHECK_ERROR(-EINVAL, hm_batches_resize(batches, 0));
	CHECK_ERROR(-EOVERFLOW, hm_batches_resize(batches, 1ull << 60));
	CHECK_EQUAL(query(batches).batch, 30);
	hm_batches_unref(batches);
	tear_down(&scene);
}

/* All types, into what only just takes them; y may be left out. */
static void types(void)
{
	struct hm_batches_desc desc = usual;
	uint64_t x[BATCH * BLOCK + 1], i;
	struct hm_batches *batches;
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	struct scene scene;

	set_up(&scene);
	desc.dtype = 0;
	batches = make(&scene, &desc);
	CHECK_EQUAL(query(batches).dtype, HM_DTYPE_I64);
	x[BATCH * BLOCK] = 77;
	CHECK_OK(hm_batches_next(batches, x, NULL, &batch));
	for (i = 0; i < BATCH * BLOCK; i++)
		CHECK_EQUAL(x[i], token_at(batch.starts[i / BLOCK] + i % BLOCK));
	CHECK_EQUAL(x[BATCH * BLOCK], 77);
	hm_batches_unref(batches);
	desc.dtype = HM_DTYPE_U16;
	batches = make(&scene, &desc);
	CHECK_OK(hm_batches_next(batches, x, NULL, &batch));
	for (i = 0; i < BATCH * BLOCK; i++)
		CHECK_EQUAL(((uint16_t *)x)[i], token_at(batch.starts[i / BLOCK] + i % BLOCK));
	hm_batches_unref(batches);
	/* Too narrow: the batch stays the next one. */
	desc.dtype = HM_DTYPE_U8;
	batches = make(&scene, &desc);
	CHECK_ERROR(-EOVERFLOW, hm_batches_next(batches, x, NULL, &batch));
	CHECK_EQUAL(state_of(batches).position, 0);
	hm_batches_unref(batches);
	tear_down(&scene);
}

static void refused(void)
{
	static const struct {
		struct hm_batches_desc desc;
		int error;
	} cases[] = {
		{ { .block = 0, .batch = 1 }, -EINVAL },
		{ { .block = 1, .batch = 0 }, -EINVAL },
		{ { .block = 1, .batch = 1, .flags = 1 }, -EINVAL },
		{ { .block = 1, .batch = 1, .order = 3 }, -EINVAL },
		{ { .block = 1, .batch = 1, .rank = 1 }, -EINVAL },
		{ { .block = 1, .batch = 1, .worker = 3, .workers = 3 }, -EINVAL },
		{ { .block = N, .batch = 1 }, -ERANGE },
		{ { .block = 1, .batch = 1, .dtype = HM_DTYPE_F32 }, -EOPNOTSUPP },
		{ { .block = 1, .batch = 1ull << 61 }, -EOVERFLOW },
	};
	struct hm_batches *batches = UNTOUCHED;
	struct hm_batches_state state = { .struct_size = sizeof(state),
					  .position = 1ull << 62 };
	struct hm_batches_desc desc;
	struct scene scene;
	int64_t x[1];
	size_t i;

	set_up(&scene);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		desc = cases[i].desc;
		desc.struct_size = sizeof(desc);
		CHECK_ERROR(cases[i].error, hm_batches_create(scene.tokens, &desc, &batches));
	}
	CHECK_ERROR(-EINVAL, hm_batches_create(scene.tokens, NULL, &batches));
	CHECK_ERROR(-EINVAL, hm_batches_create(NULL, &usual, &batches));
	CHECK(batches == UNTOUCHED);
	/* As many tokens as a block and one. */
	desc = (struct hm_batches_desc){ .struct_size = sizeof(desc),
					 .block = N - 1,
					 .batch = 1 };
	hm_batches_unref(make(&scene, &desc));
	desc.block = 1;
	batches = make(&scene, &desc);
	CHECK_ERROR(-EINVAL, hm_batches_next(batches, NULL, NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_batches_next(batches, (char *)x + 1, NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_batches_next((struct hm_batches *)scene.tokens, x, NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_batches_set(batches, &state));
	CHECK_ERROR(-EINVAL, hm_batches_set(batches, NULL));
	CHECK_ERROR(-EINVAL, hm_batches_get(batches, NULL));
	CHECK_ERROR(-EINVAL, hm_batches_query(batches, NULL));
	CHECK_ERROR(-EINVAL, hm_batches_give(batches, 0));
	CHECK_ERROR(-EINVAL, hm_batches_start(batches, NULL, 1));
	CHECK_ERROR(-EINVAL, hm_batches_take(batches, 0,
					     &(struct hm_batch){
						     .struct_size = sizeof(struct hm_batch) }));
	CHECK_OK(hm_batches_stop(batches));
	CHECK_OK(hm_batches_next(batches, x, NULL, NULL));
	hm_batches_unref(batches);
	hm_batches_unref(NULL);
	tear_down(&scene);
}

/* ---- ahead ---- */

#define SLOTS 3

struct ahead {
	struct scene scene;
	struct hm_batches *batches;
	int32_t x[SLOTS][BATCH * BLOCK], y[SLOTS][BATCH * BLOCK];
	struct hm_batch_slot slot[SLOTS];
};

static void begin_ahead(struct ahead *ahead)
{
	int i;

	set_up(&ahead->scene);
	ahead->batches = make(&ahead->scene, &usual);
	for (i = 0; i < SLOTS; i++)
		ahead->slot[i] = (struct hm_batch_slot){ ahead->x[i], ahead->y[i] };
	CHECK_OK_FATAL(hm_batches_start(ahead->batches, ahead->slot, SLOTS));
}

static struct hm_batch take(struct ahead *ahead)
{
	struct hm_batch batch = { .struct_size = sizeof(batch) };

	CHECK_OK_FATAL(hm_batches_take(ahead->batches, UINT64_MAX, &batch));
	check_batch(&batch, ahead->x[batch.slot], ahead->y[batch.slot]);
	return batch;
}

/* The thread's batches are those that one's own calls give. */
static void ahead(void)
{
	static struct ahead ahead;
	struct hm_batch batch = { .struct_size = sizeof(batch) }, own;
	struct hm_batches *batches;
	uint64_t i;
	int32_t x[1];

	CHECK_OK_FATAL(hm_handler_install(0));
	begin_ahead(&ahead);
	batches = make(&ahead.scene, &usual);
	for (i = 0; i < 50; i++) {
		batch = take(&ahead);
		own = next(batches);
		CHECK_EQUAL(batch.number, i);
		CHECK_EQUAL(batch.slot, i % SLOTS);
		CHECK_EQUAL(batch.epoch, own.epoch);
		CHECK(!memcmp(batch.starts, own.starts, BATCH * sizeof(uint64_t)));
		CHECK_OK(hm_batches_give(ahead.batches, batch.slot));
	}
	CHECK_ERROR(-EBUSY, hm_batches_next(ahead.batches, x, NULL, NULL));
	CHECK_ERROR(-EBUSY, hm_batches_resize(ahead.batches, 1));
	CHECK_ERROR(-EBUSY, hm_batches_start(ahead.batches, ahead.slot, SLOTS));
	CHECK_ERROR(-EINVAL, hm_batches_give(ahead.batches, 0));
	CHECK_ERROR(-EINVAL, hm_batches_give(ahead.batches, SLOTS));
	/* All of them taken: there is nothing to wait for. */
	for (i = 0; i < SLOTS; i++)
		take(&ahead);
	CHECK_ERROR(-EBUSY, hm_batches_take(ahead.batches, UINT64_MAX, &batch));
	CHECK_OK(hm_batches_give(ahead.batches, 1));
	CHECK_OK(hm_batches_stop(ahead.batches));
	/* What was filled and not taken comes again. */
	CHECK_EQUAL(state_of(ahead.batches).position, 53 * BATCH);
	for (i = 0; i < SLOTS; i++)
		next(batches);
	own = next(batches);
	batch = next(ahead.batches);
	CHECK(!memcmp(batch.starts, own.starts, BATCH * sizeof(uint64_t)));
	hm_batches_unref(batches);
	hm_batches_unref(ahead.batches);
	tear_down(&ahead.scene);
	CHECK_OK(hm_handler_remove());
}

/* A thread that waits is let go by the end. */
static void *wait_for_one(void *user)
{
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	static int result;

	result = hm_batches_take(user, UINT64_MAX, &batch);
	return &result;
}

static void stopped(void)
{
	static struct ahead ahead;
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	struct hm_batch_slot one;
	pthread_t thread;
	void *result;
	int i;

	for (i = 0; i < 20; i++) {
		begin_ahead(&ahead);
		if (i % 2)
			take(&ahead);
		/* The last reference ends the thread. */
		if (i % 3)
			CHECK_OK(hm_batches_stop(ahead.batches));
		hm_batches_unref(ahead.batches);
		tear_down(&ahead.scene);
	}
	/* It fails at once, so that there is never one to take. */
	set_up(&ahead.scene);
	ahead.batches = make(&ahead.scene, &usual);
	CHECK(!truncate(ahead.scene.path[0], 0));
	one = (struct hm_batch_slot){ ahead.x[0], ahead.y[0] };
	CHECK_OK_FATAL(hm_batches_start(ahead.batches, &one, 1));
	CHECK_FATAL(!pthread_create(&thread, NULL, wait_for_one, ahead.batches));
	pthread_join(thread, &result);
	CHECK_EQUAL(*(int *)result, -ENODATA);
	/* The error stays; its text, too. */
	CHECK_ERROR(-ENODATA, hm_batches_take(ahead.batches, 1000, &batch));
	CHECK(strstr(hm_errmsg(), "cut off"));
	CHECK_OK(hm_batches_stop(ahead.batches));
	CHECK_EQUAL(state_of(ahead.batches).position, 0);
	hm_batches_unref(ahead.batches);
	tear_down(&ahead.scene);
}

/* A slot that is taken away from the thread: others go on in their turn only. */
static void timed_out(void)
{
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	static struct ahead ahead;
	int i;

	begin_ahead(&ahead);
	take(&ahead);
	/* Slot 0 is next after the others. */
	for (i = 1; i < SLOTS; i++) {
		batch = take(&ahead);
		if (i == 1)
			CHECK_OK(hm_batches_give(ahead.batches, batch.slot));
	}
	CHECK_ERROR(-ETIME, hm_batches_take(ahead.batches, 1000000, &batch));
	CHECK_ERROR(-ETIME, hm_batches_take(ahead.batches, 0, &batch));
	CHECK_OK(hm_batches_give(ahead.batches, 0));
	take(&ahead);
	hm_batches_unref(ahead.batches);
	tear_down(&ahead.scene);
}

/* ---- what fails ---- */

/* Cut off while batches are taken: an error, of this thread and of others; they live. */
static void cut_off(void)
{
	struct hm_batches_desc desc = usual;
	struct hm_batches *batches;
	struct scene scene;
	int32_t x[BATCH * BLOCK];
	int way, n, r;

	for (way = 0; way < 2; way++) {
		if (way)
			CHECK_OK_FATAL(hm_handler_install(0));
		set_up(&scene);
		desc.order = HM_BATCHES_IN_ORDER;
		batches = make(&scene, &desc);
		CHECK_OK(hm_batches_next(batches, x, NULL, NULL));
		CHECK(!truncate(scene.path[2], 900));
		for (n = 0, r = 0; !r && n < 100; n++)
			r = hm_batches_next(batches, x, NULL, NULL);
		CHECK_EQUAL(r, -ENODATA);
		CHECK(strstr(hm_errmsg(), scene.path[2]));
		CHECK_ERROR(-ENODATA, hm_batches_next(batches, x, NULL, NULL));
		hm_batches_unref(batches);
		tear_down(&scene);
	}
	CHECK_OK(hm_handler_remove());
}

/* The map that x is in is not to be written. */
static void not_to_be_written(void)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = 1 << 16 };
	struct hm_batches *batches;
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct scene scene;
	struct hm_map *map;

	CHECK_OK_FATAL(hm_handler_install(0));
	set_up(&scene);
	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	batches = make(&scene, &usual);
	CHECK_OK(hm_batches_next(batches, hm_map_address(map), NULL, NULL));
	CHECK_OK(hm_map_protect(map, 0, 1 << 16, HM_READ));
	CHECK_ERROR(-EACCES, hm_batches_next(batches, hm_map_address(map), NULL, NULL));
	CHECK_OK(hm_map_protect(map, 0, 1 << 16, HM_READ | HM_WRITE));
	CHECK_OK(hm_batches_next(batches, hm_map_address(map), NULL, NULL));
	hm_batches_unref(batches);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	tear_down(&scene);
	CHECK_OK(hm_handler_remove());
}

static void undone(void)
{
	int32_t x[SLOTS * BATCH * BLOCK];
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	struct hm_batch_slot slot[2] = { { x, NULL }, { x + BATCH * BLOCK, NULL } };
	struct hm_batches *batches;
	struct scene scene;
	unsigned int n;
	bool failed;
	int r;

	set_up(&scene);
	inject_install();
	for (n = 1, failed = true; failed; n++) {
		batches = UNTOUCHED;
		inject_arm(n, INJECT_ONE);
		r = hm_batches_create(scene.tokens, &usual, &batches);
		failed = inject_disarm();
		if (r)
			CHECK(failed && batches == UNTOUCHED && *hm_errmsg());
		else
			hm_batches_unref(batches);
	}
	CHECK(n > 5);
	/* A batch that failed is the next one still; what only asks may fail. */
	batches = make(&scene, &usual);
	for (n = 1, failed = true; failed; n++) {
		uint64_t before = state_of(batches).position;

		inject_arm(n, INJECT_ONE);
		r = hm_batches_next(batches, x, NULL, NULL);
		failed = inject_disarm();
		CHECK(!r || *hm_errmsg());
		CHECK_EQUAL(state_of(batches).position, before + (r ? 0 : BATCH));
	}
	CHECK(n > 5);
	for (n = 1, failed = true; failed; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_batches_resize(batches, BATCH);
		failed = inject_disarm();
		CHECK(!r || failed);
	}
	for (n = 1, failed = true; failed && n < 4; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_batches_start(batches, slot, 2);
		failed = inject_disarm();
		if (!r)
			CHECK_OK(hm_batches_stop(batches));
	}
	inject_always("madvise", EINVAL);
	CHECK_OK(hm_batches_start(batches, slot, 2));
	CHECK_OK(hm_batches_take(batches, UINT64_MAX, &batch));
	inject_disarm();
	hm_batches_unref(batches);
	tear_down(&scene);
}

/* ---- processes ---- */

static void use_in_child(void *user)
{
	struct ahead *ahead = user;
	struct hm_batch batch = { .struct_size = sizeof(batch) };

	CHECK_ERROR(-EOWNERDEAD, hm_batches_take(ahead->batches, UINT64_MAX, &batch));
	CHECK_ERROR(-EOWNERDEAD, hm_batches_next(ahead->batches, ahead->x[0], NULL, NULL));
	CHECK_ERROR(-EOWNERDEAD, hm_batches_stop(ahead->batches));
	hm_batches_unref(ahead->batches);
}

static void forked(void)
{
	static struct ahead ahead;
	int i;

	begin_ahead(&ahead);
	for (i = 0; i < 5; i++) {
		CHECK_EQUAL(test_fork(use_in_child, &ahead), 0);
		CHECK_OK(hm_batches_give(ahead.batches, take(&ahead).slot));
	}
	hm_batches_unref(ahead.batches);
	tear_down(&ahead.scene);
}

/* Four workers on one file, of which one is killed: the others have what is theirs. */
static void worker(const struct scene *scene, uint32_t number, int go)
{
	struct hm_batches_desc desc = usual;
	const char *const *paths = (const char *const *)scene->path;
	struct hm_tokens *tokens;
	struct hm_batches *batches;
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	int32_t x[BATCH * BLOCK];
	uint64_t i, j;
	char byte;

	desc.worker = number;
	desc.workers = 4;
	if (hm_handler_install(0) || hm_tokens_open(paths, 3, NULL, &tokens) ||
	    hm_batches_create(tokens, &desc, &batches))
		_exit(2);
	for (i = 0; i < 200; i++) {
		if (i == 100 && read(go, &byte, 1) != 0)
			_exit(3);
		if (hm_batches_next(batches, x, NULL, &batch))
			_exit(4);
		for (j = 0; j < BATCH * BLOCK; j++)
			if (x[j] != token_at(batch.starts[j / BLOCK] + j % BLOCK))
				_exit(5);
	}
	_exit(0);
}

static void killed(void)
{
	struct scene scene;
	int go[2], status;
	pid_t pid[4];
	uint32_t i;

	set_up(&scene);
	CHECK_FATAL(!pipe(go));
	for (i = 0; i < 4; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			close(go[1]);
			worker(&scene, i, go[0]);
		}
	}
	CHECK(!kill(pid[1], SIGKILL));
	CHECK_EQUAL(waitpid(pid[1], &status, 0), pid[1]);
	close(go[1]);
	for (i = 0; i < 4; i++) {
		if (i == 1)
			continue;
		CHECK_EQUAL(waitpid(pid[i], &status, 0), pid[i]);
		CHECK_EQUAL(status, 0);
	}
	close(go[0]);
	tear_down(&scene);
}

/* What is in RAM is announced no more after a while. */
static void quiet(void)
{
	struct hm_batches *batches;
	struct scene scene;
	int i;

	CHECK_OK_FATAL(hm_handler_install(0));
	set_up(&scene);
	batches = make(&scene, &usual);
	CHECK_EQUAL(query(batches).announcing, 1);
	for (i = 0; i < 200 && query(batches).announcing; i++)
		next(batches);
	CHECK_EQUAL(query(batches).announcing, 0);
	CHECK(query(batches).announced >= 16);
	CHECK(strstr(query(batches).why, "maps"));
	hm_batches_unref(batches);
	tear_down(&scene);
	CHECK_OK(hm_handler_remove());
}

static const struct test tests[] = {
	{ "philox", philox, 0, 0 },
	{ "for_good", for_good, 0, 0 },
	{ "permutations", permutations, 0, 0 },
	{ "evenly", evenly, 0, 0 },
	{ "all_orders", all_orders, 0, 0 },
	{ "deterministic", deterministic, 0, 0 },
	{ "members", members, 0, 0 },
	{ "resumed", resumed, 0, 0 },
	{ "ramps", ramps, 0, 0 },
	{ "types", types, 0, 0 },
	{ "refused", refused, 0, 0 },
	{ "ahead", ahead, 0, 0 },
	{ "stopped", stopped, 0, 0 },
	{ "timed_out", timed_out, 0, 0 },
	{ "cut_off", cut_off, 0, 0 },
	{ "not_to_be_written", not_to_be_written, 0, 0 },
	{ "undone", undone, 0, 0 },
	{ "forked", forked, 0, 0 },
	{ "killed", killed, 0, 0 },
	{ "quiet", quiet, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "tokens_batches", tests);
}
