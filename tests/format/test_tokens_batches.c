// SPDX-License-Identifier: MIT
/* Batches of tokens: their order, its parts, going on, sizes, types. */
#include <errno.h>
#include <string.h>
#include <sys/vfs.h>

#include "format/tokens/tokens.h"
#include "base/sys.h"
#include "format/tokens_support.h"

#define UNTOUCHED ((void *)0x10)

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

/* These orders never change: a run repeated with another version gets the same one. */
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
	struct hm_batches_desc desc = batches_usual;
	struct hm_batch batch;
	uint64_t i, way;
	AUTO(token_scene) scene = token_scene_begin();

	for (way = 0; way < 2; way++) {
		if (way)
			CHECK_OK_FATAL(hm_handler_install(0));
		for (desc.order = 0; desc.order <= HM_BATCHES_IN_ORDER; desc.order++) {
			AUTO(hm_batches) *batches = batches_make(&scene, &desc);

			for (i = 0; i < 30; i++) {
				batch = batches_next(batches);
				CHECK_EQUAL(batch.number, i);
				CHECK_EQUAL(batch.blocks, BATCH);
				CHECK_EQUAL(batch.epoch, desc.order == HM_BATCHES_RANDOM ?
								 0 :
								 i * BATCH / 100);
				if (desc.order == HM_BATCHES_IN_ORDER)
					CHECK_EQUAL(batch.starts[0], i * BATCH % 100 * BLOCK);
			}
			CHECK_EQUAL(batches_info(batches).way,
				    way ? HM_BATCHES_MAPPED : HM_BATCHES_READ);
			CHECK_EQUAL(batches_info(batches).mapped, way ? 30 : 0);
			CHECK_EQUAL(batches_info(batches).batches, 30);
			CHECK_EQUAL(batches_info(batches).blocks, 100);
			CHECK(*batches_info(batches).why);
		}
	}
	CHECK_OK(hm_handler_remove());
}

static int on_nfs(int fd, struct statfs *ret_statfs)
{
	int r = fstatfs(fd, ret_statfs);

	ret_statfs->f_type = 0x6969;
	return r;
}

static void check_unmapped(struct token_scene *scene, const struct hm_tokens_desc *desc,
			   const char *cause)
{
	struct hm_tokens_shard_info shard = { .struct_size = sizeof(shard) };
	AUTO(hm_batches) *batches = NULL;
	int i;

	hm_tokens_unref(scene->tokens);
	CHECK_OK_FATAL(
		hm_tokens_open((const char *const *)scene->path, 3, desc, &scene->tokens));
	CHECK_OK(hm_tokens_shard(scene->tokens, 1, &shard));
	CHECK(!shard.map);
	batches = batches_make(scene, &batches_usual);
	for (i = 0; i < 30; i++)
		batches_next(batches);
	CHECK_EQUAL(batches_info(batches).way, HM_BATCHES_READ);
	CHECK_EQUAL(batches_info(batches).mapped, 0);
	CHECK(strstr(batches_info(batches).why, cause));
}

/* Reads on request, or for the file system: with a handler, too. */
static void unmapped(void)
{
	AUTO(token_scene) scene = token_scene_begin();
	AUTO(rig_handler) handler = rig_handler(0);

	check_unmapped(&scene, DESC(hm_tokens_desc, .flags = HM_TOKENS_READ),
		       "maps of the files were not wanted");
	sys_table.fstatfs = on_nfs;
	check_unmapped(&scene, NULL, "a network file system's errors");
	sys_table.fstatfs = fstatfs;
}

/* The same seed gives the same; another one does not. */
static void deterministic(void)
{
	struct hm_batches_desc desc = batches_usual;
	struct hm_batches *a, *b, *c;
	int i, n_same = 0;
	AUTO(token_scene) scene = token_scene_begin();

	for (desc.order = 0; desc.order < HM_BATCHES_IN_ORDER; desc.order++) {
		a = batches_make(&scene, &desc);
		hm_batches_unref(hm_batches_ref(a));
		b = batches_make(&scene, &desc);
		desc.seed++;
		c = batches_make(&scene, &desc);
		for (i = 0; i < 20; i++) {
			struct hm_batch of_a = batches_next(a), of_b = batches_next(b),
					of_c = batches_next(c);

			CHECK(!memcmp(of_a.starts, of_b.starts, BATCH * sizeof(uint64_t)));
			n_same += !memcmp(of_a.starts, of_c.starts, BATCH * sizeof(uint64_t));
		}
		hm_batches_unref(a);
		hm_batches_unref(b);
		hm_batches_unref(c);
	}
	CHECK_EQUAL(n_same, 0);
	CHECK(!hm_batches_ref(NULL));
}

/* All members together have each block once an epoch, whatever their number. */
static void members(void)
{
	static const struct {
		uint32_t ranks, workers;
	} cases[] = { { 1, 1 }, { 2, 1 }, { 1, 3 }, { 3, 2 }, { 7, 1 } };
	struct hm_batches_desc desc = batches_usual;
	uint64_t seen[100], i, k, b, turns;
	struct hm_batches *batches[8];
	struct hm_batch batch;
	AUTO(token_scene) scene = token_scene_begin();

	desc.batch = 1;
	for (k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		uint64_t n = (uint64_t)cases[k].ranks * cases[k].workers;

		desc.ranks = cases[k].ranks;
		desc.workers = cases[k].workers;
		for (i = 0; i < n; i++) {
			desc.rank = (uint32_t)i / desc.workers;
			desc.worker = (uint32_t)i % desc.workers;
			batches[i] = batches_make(&scene, &desc);
		}
		memset(seen, 0, sizeof(seen));
		/* Three epochs, and up to the end of a turn of all. */
		turns = (300 + n - 1) / n;
		for (b = 0; b < turns; b++)
			for (i = 0; i < n; i++) {
				batch = batches_next(batches[i]);
				CHECK_EQUAL(batch.epoch, (b * n + i) / 100);
				if (batch.epoch < 3)
					seen[batch.starts[0] / BLOCK]++;
			}
		for (i = 0; i < 100; i++)
			CHECK_EQUAL(seen[i], 3);
		for (i = 0; i < n; i++)
			hm_batches_unref(batches[i]);
	}
}

/* A set state goes on where its source was, also with other sizes and members. */
static void resumed(void)
{
	struct hm_batches_desc desc = batches_usual, two = batches_usual;
	struct hm_batches *a, *b, *pair[2];
	struct hm_batches_state state;
	struct hm_batch of_a, of_b;
	uint64_t i;
	AUTO(token_scene) scene = token_scene_begin();

	for (desc.order = 0; desc.order <= HM_BATCHES_IN_ORDER; desc.order++) {
		desc.seed = 5;
		a = batches_make(&scene, &desc);
		for (i = 0; i < 17; i++)
			batches_next(a);
		state = batches_state(a);
		CHECK_EQUAL(state.seed, 5);
		CHECK_EQUAL(state.position, 17 * BATCH);
		/* The state has the seed. */
		desc.seed = 99;
		b = batches_make(&scene, &desc);
		CHECK_OK(hm_batches_set(b, &state));
		CHECK_EQUAL(batches_state(b).position, 17 * BATCH);
		for (i = 0; i < 20; i++) {
			of_a = batches_next(a);
			of_b = batches_next(b);
			CHECK(!memcmp(of_a.starts, of_b.starts, BATCH * sizeof(uint64_t)));
		}
		hm_batches_unref(b);

		/* From one member to two, with half the batch each. */
		state = batches_state(a);
		two.order = desc.order;
		two.ranks = 2;
		two.batch = BATCH / 2;
		for (two.rank = 0; two.rank < 2; two.rank++) {
			pair[two.rank] = batches_make(&scene, &two);
			CHECK_OK(hm_batches_set(pair[two.rank], &state));
		}
		of_a = batches_next(a);
		for (i = 0; i < 2; i++) {
			of_b = batches_next(pair[i]);
			CHECK_EQUAL(of_b.starts[0], of_a.starts[i]);
			CHECK_EQUAL(of_b.starts[3], of_a.starts[6 + i]);
			CHECK_EQUAL(batches_state(pair[i]).position, batches_state(a).position);
			hm_batches_unref(pair[i]);
		}
		hm_batches_unref(a);
	}
}

/* Sizes change: no block is left out or comes twice. */
static void ramps(void)
{
	static const uint64_t sizes[] = { 1, 4, 16, 64, 16, 4, 1, 64, 30 };
	uint64_t seen[100] = { 0 }, i, k, n = 0;
	struct hm_batch batch;
	AUTO(token_scene) scene = token_scene_begin();
	AUTO(hm_batches) *batches = batches_make(&scene, &batches_usual);

	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		CHECK_OK(hm_batches_resize(batches, sizes[k]));
		batch = batches_next(batches);
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
	CHECK_EQUAL(batches_info(batches).batch, 30);
}

/* All types, into buffers of just their size; y may be left out. */
static void types(void)
{
	struct hm_batches_desc desc = batches_usual;
	uint64_t x[BATCH * BLOCK + 1], i;
	struct hm_batches *batches;
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	AUTO(token_scene) scene = token_scene_begin();

	desc.dtype = 0;
	batches = batches_make(&scene, &desc);
	CHECK_EQUAL(batches_info(batches).dtype, HM_DTYPE_I64);
	x[BATCH * BLOCK] = 77;
	CHECK_OK(hm_batches_next(batches, x, NULL, &batch));
	for (i = 0; i < BATCH * BLOCK; i++)
		CHECK_EQUAL(x[i], token_at(batch.starts[i / BLOCK] + i % BLOCK));
	CHECK_EQUAL(x[BATCH * BLOCK], 77);
	hm_batches_unref(batches);
	desc.dtype = HM_DTYPE_U16;
	batches = batches_make(&scene, &desc);
	CHECK_OK(hm_batches_next(batches, x, NULL, &batch));
	for (i = 0; i < BATCH * BLOCK; i++)
		CHECK_EQUAL(((uint16_t *)x)[i], token_at(batch.starts[i / BLOCK] + i % BLOCK));
	hm_batches_unref(batches);
	/* Too narrow: the batch stays the next one. */
	desc.dtype = HM_DTYPE_U8;
	batches = batches_make(&scene, &desc);
	CHECK_ERROR(-EOVERFLOW, hm_batches_next(batches, x, NULL, &batch));
	CHECK_EQUAL(batches_state(batches).position, 0);
	hm_batches_unref(batches);
}

static void refused(void)
{
	static const struct {
		struct hm_batches_desc desc;
		int error;
	} cases[] = {
		{ { .block = 0, .batch = 1 }, -EINVAL },
		{ { .block = 1, .batch = 0 }, -EINVAL },
		{ { .block = 1, .batch = 1, .flags = 2 }, -EINVAL },
		{ { .block = 1, .batch = 1, .order = 3 }, -EINVAL },
		{ { .block = 1, .batch = 1, .rank = 1 }, -EINVAL },
		{ { .block = 1, .batch = 1, .worker = 3, .workers = 3 }, -EINVAL },
		{ { .block = 1, .batch = 1, .ranks = 1 << 13, .workers = 1 << 12 }, -EINVAL },
		{ { .block = 1, .batch = 1, .ahead = 1025 }, -EINVAL },
		{ { .block = N, .batch = 1 }, -ERANGE },
		{ { .block = 1, .batch = 1, .dtype = HM_DTYPE_F32 }, -EOPNOTSUPP },
		{ { .block = 1, .batch = 1ull << 61 }, -EOVERFLOW },
	};
	struct hm_batches *batches = UNTOUCHED;
	struct hm_batches_desc desc;
	int64_t x[1];
	size_t i;
	AUTO(token_scene) scene = token_scene_begin();

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		desc = cases[i].desc;
		desc.struct_size = sizeof(desc);
		CHECK_ERROR(cases[i].error, hm_batches_create(scene.tokens, &desc, &batches));
	}
	CHECK_ERROR(-EINVAL, hm_batches_create(scene.tokens, NULL, &batches));
	CHECK_ERROR(-EINVAL, hm_batches_create(NULL, &batches_usual, &batches));
	CHECK(batches == UNTOUCHED);
	/* As many tokens as a block and one. */
	desc = (struct hm_batches_desc){ .struct_size = sizeof(desc),
					 .block = N - 1,
					 .batch = 1 };
	hm_batches_unref(batches_make(&scene, &desc));
	desc.block = 1;
	batches = batches_make(&scene, &desc);
	CHECK_ERROR(-EINVAL, hm_batches_next(batches, NULL, NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_batches_next(batches, (char *)x + 1, NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_batches_next((struct hm_batches *)scene.tokens, x, NULL, NULL));
	CHECK_ERROR(-EINVAL,
		    hm_batches_set(batches, DESC(hm_batches_state, .position = 1ull << 62)));
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
}

static const struct test tests[] = {
	{ "philox", philox, 0, 0 },
	{ "for_good", for_good, 0, 0 },
	{ "permutations", permutations, 0, 0 },
	{ "evenly", evenly, 0, 0 },
	{ "all_orders", all_orders, 0, 0 },
	{ "unmapped", unmapped, 0, 0 },
	{ "deterministic", deterministic, 0, 0 },
	{ "members", members, 0, 0 },
	{ "resumed", resumed, 0, 0 },
	{ "ramps", ramps, 0, 0 },
	{ "types", types, 0, 0 },
	{ "refused", refused, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "tokens_batches", tests)
