// SPDX-License-Identifier: MIT
/* Batches that keep to documents, beside a plain reader of the same files; bounds of tokens. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/tokens/tokens.h"
#include "lib/inject.h"
#include "format/tokens_support.h"

#define PAD_X 7
#define PAD_Y (-100)

/* Documents of these lengths, three times, in three files; the second file has no index. */
static const uint64_t lengths[] = { 0, 1, 2, 17, 16, 33, 250, 5, 0, 1, 18, 49 };
#define N_LENGTH (sizeof(lengths) / sizeof(lengths[0]))
#define RAW 100

struct row {
	uint64_t first, n;
};

/* The rows that a plain reader of the documents finds. */
struct scene {
	char *folder, *path[3];
	struct hm_tokens *tokens;
	uint64_t n_row, n_token;
	struct row row[256];
};

static void add_document(struct scene *scene, uint64_t n)
{
	uint64_t at;

	for (at = 0; at + 1 < n; at += BLOCK)
		scene->row[scene->n_row++] =
			(struct row){ scene->n_token + at,
				      n - at - 1 < BLOCK ? n - at - 1 : BLOCK };
	scene->n_token += n;
}

static char *add_datatrove(struct scene *scene, const char *name, const char *index)
{
	uint64_t first = scene->n_token, end[N_LENGTH], at = 0;
	size_t i;

	for (i = 0; i < N_LENGTH; i++) {
		add_document(scene, lengths[i]);
		end[i] = at += lengths[i];
	}
	file_write(scene->folder, index, (const char *)end, sizeof(end));
	return tokens_file(scene->folder, name, first, at);
}

static struct scene scene_begin(void)
{
	struct scene scene = { .folder = folder_make() };

	scene.path[0] = add_datatrove(&scene, "a.ds", "a.ds.index");
	scene.path[1] = tokens_file(scene.folder, "b", scene.n_token, RAW);
	add_document(&scene, RAW);
	scene.path[2] = add_datatrove(&scene, "c.ds", "c.ds.index");
	CHECK_OK_FATAL(hm_tokens_open((const char *const *)scene.path, 3, NULL, &scene.tokens));
	CHECK_EQUAL(tokens_info(scene.tokens).tokens, scene.n_token);
	CHECK_EQUAL(tokens_info(scene.tokens).documents, 2 * N_LENGTH + 1);
	return scene;
}

static void scene_end(struct scene *scene)
{
	int i;

	hm_tokens_unref(scene->tokens);
	for (i = 0; i < 3; i++)
		free(scene->path[i]);
	folder_remove(scene->folder);
}

AUTO_END(scene, scene_end)

static struct hm_batches_desc desc_of(uint32_t order, uint64_t seed)
{
	struct hm_batches_desc desc = batches_usual;

	desc.flags = HM_BATCHES_DOCUMENTS;
	desc.order = order;
	desc.seed = seed;
	desc.pad_x = PAD_X;
	desc.pad_y = PAD_Y;
	return desc;
}

/* x and y have the files' tokens up to the length, and padding behind it. */
static void check_row(uint64_t first, uint64_t n, const int32_t *x, const int32_t *y)
{
	uint64_t i;

	for (i = 0; i < BLOCK; i++) {
		CHECK_EQUAL(x[i], i < n ? token_at(first + i) : PAD_X);
		CHECK_EQUAL(y[i], i < n ? token_at(first + i + 1) : PAD_Y);
	}
}

static struct hm_batch next(struct hm_batches *batches)
{
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	int32_t x[BATCH * BLOCK], y[BATCH * BLOCK];
	uint64_t i;

	CHECK_OK_FATAL(hm_batches_next(batches, x, y, &batch));
	CHECK_FATAL(batch.lengths != NULL && batch.blocks == BATCH);
	for (i = 0; i < BATCH; i++)
		check_row(batch.starts[i], batch.lengths[i], x + i * BLOCK, y + i * BLOCK);
	return batch;
}

static struct row row_of(const struct hm_batch *batch, uint64_t i)
{
	return (struct row){ batch->starts[i], batch->lengths[i] };
}

static uint64_t find_row(const struct scene *scene, struct row row)
{
	uint64_t i;

	for (i = 0; i < scene->n_row; i++)
		if (scene->row[i].first == row.first && scene->row[i].n == row.n)
			break;
	return i;
}

/* The plain reader's rows, in its order, epoch after epoch. */
static void in_order(struct scene *scene)
{
	struct hm_batches_desc desc = desc_of(HM_BATCHES_IN_ORDER, 0);
	AUTO(hm_batches) *batches = NULL;
	struct hm_batch batch;
	uint64_t at = 0, i;

	CHECK_OK_FATAL(hm_batches_create(scene->tokens, &desc, &batches));
	CHECK_EQUAL(batches_info(batches).blocks, scene->n_row);
	while (at < 3 * scene->n_row) {
		batch = next(batches);
		for (i = 0; i < BATCH; i++, at++)
			CHECK_EQUAL(find_row(scene, row_of(&batch, i)), at % scene->n_row);
	}
}

/* Each row once an epoch, for each seed in the order that the blocks of a raw file have. */
static void shuffled(struct scene *scene)
{
	struct hm_batches_desc desc;
	struct hm_batches *batches;
	struct token_order order;
	struct hm_batch batch;
	uint64_t seed, at, i;

	for (seed = 0; seed < 4; seed++) {
		desc = desc_of(HM_BATCHES_SHUFFLED, seed);
		CHECK_OK_FATAL(hm_batches_create(scene->tokens, &desc, &batches));
		order_init(&order, HM_BATCHES_SHUFFLED, seed, scene->n_row + 1, 1);
		for (at = 0; at < 2 * scene->n_row;) {
			batch = next(batches);
			for (i = 0; i < BATCH; i++, at++)
				CHECK_EQUAL(find_row(scene, row_of(&batch, i)),
					    order_start(&order, at));
		}
		hm_batches_unref(batches);
	}
}

/* From any token on, up to the end of its document. */
static void at_random(struct scene *scene)
{
	struct hm_batches_desc desc = desc_of(HM_BATCHES_RANDOM, 3);
	AUTO(hm_batches) *batches = NULL;
	struct hm_batch batch;
	uint64_t i, k, left = 0, row;
	unsigned char seen[2048] = { 0 };

	CHECK_FATAL(scene->n_token < sizeof(seen));
	CHECK_OK_FATAL(hm_batches_create(scene->tokens, &desc, &batches));
	for (k = 0; k < 2000; k++) {
		batch = next(batches);
		for (i = 0; i < BATCH; i++) {
			/* The last row that begins at the token or before it. */
			for (row = 0; row + 1 < scene->n_row &&
				      scene->row[row + 1].first <= batch.starts[i];
			     row++)
				;
			for (left = scene->row[row].n;
			     left == BLOCK && row + 1 < scene->n_row &&
			     scene->row[row + 1].first == scene->row[row].first + BLOCK;
			     row++)
				left = scene->row[row + 1].n;
			left += scene->row[row].first - batch.starts[i];
			CHECK_EQUAL(batch.lengths[i], left < BLOCK ? left : BLOCK);
			seen[batch.starts[i]] = 1;
		}
	}
	/* All tokens that have another one behind them. */
	for (row = i = 0; row < scene->n_row; row++)
		for (k = 0; k < scene->row[row].n; k++)
			i += !seen[scene->row[row].first + k];
	CHECK_EQUAL(i, 0);
}

/* By the thread, by two members, from a state. */
static void by_others(struct scene *scene)
{
	struct hm_batches_desc desc = desc_of(HM_BATCHES_IN_ORDER, 0);
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	int32_t x[2][BATCH * BLOCK], y[2][BATCH * BLOCK];
	const struct hm_batch_slot slots[] = { { x[0], y[0] }, { x[1], y[1] } };
	struct hm_batches *batches;
	uint64_t i, k;

	desc.ranks = 2;
	desc.rank = 1;
	CHECK_OK_FATAL(hm_batches_create(scene->tokens, &desc, &batches));
	CHECK_OK(hm_batches_set(batches, DESC(hm_batches_state, .position = 2)));
	CHECK_OK_FATAL(hm_batches_start(batches, slots, 2));
	for (k = 0; k < 20; k++) {
		CHECK_OK_FATAL(hm_batches_take(batches, UINT64_MAX, &batch));
		CHECK_FATAL(batch.lengths != NULL);
		for (i = 0; i < BATCH; i++) {
			CHECK_EQUAL(find_row(scene, row_of(&batch, i)),
				    (2 + 1 + 2 * (k * BATCH + i)) % scene->n_row);
			check_row(batch.starts[i], batch.lengths[i], x[batch.slot] + i * BLOCK,
				  y[batch.slot] + i * BLOCK);
		}
		CHECK_OK(hm_batches_give(batches, batch.slot));
	}
	CHECK_OK(hm_batches_stop(batches));
	hm_batches_unref(batches);
}

static void all_ways(void)
{
	int way;
	AUTO(scene) scene = scene_begin();

	for (way = 0; way < 2; way++) {
		if (way)
			CHECK_OK_FATAL(hm_handler_install(0));
		in_order(&scene);
		shuffled(&scene);
		at_random(&scene);
		by_others(&scene);
	}
	CHECK_OK(hm_handler_remove());
}

static void create_fails(struct hm_tokens *tokens, const struct hm_batches_desc *desc,
			 int error)
{
	struct hm_batches *batches = NULL;

	CHECK_ERROR(error, hm_batches_create(tokens, desc, &batches));
	CHECK(batches == NULL);
}

static void refused(void)
{
	const uint64_t ends[] = { 1, 1, 2, 3 };
	struct hm_batches_desc desc = desc_of(HM_BATCHES_IN_ORDER, 0);
	AUTO(hm_tokens) *tokens = NULL;
	AUTO_TEXT *path = NULL;
	AUTO(scene) scene = scene_begin();

	desc.dtype = HM_DTYPE_U16;
	create_fails(scene.tokens, &desc, -EINVAL);
	desc.pad_y = 65536;
	create_fails(scene.tokens, &desc, -EINVAL);
	desc.flags = 2;
	create_fails(scene.tokens, &desc, -EINVAL);
	/* No document of two tokens, and not because of the block's length. */
	file_write(scene.folder, "d.ds.index", (const char *)ends, sizeof(ends));
	path = tokens_file(scene.folder, "d.ds", 0, 3);
	tokens = tokens_open(path, NULL);
	desc = desc_of(HM_BATCHES_SHUFFLED, 0);
	create_fails(tokens, &desc, -ERANGE);
}

/* A program of before: the struct ends before the padding, which is 0. */
static void older(void)
{
	struct hm_batches_desc desc = desc_of(HM_BATCHES_IN_ORDER, 0);
	struct hm_batch batch = { .struct_size = offsetof(struct hm_batch, lengths) };
	int32_t x[BATCH * BLOCK];
	AUTO(hm_batches) *batches = NULL;
	AUTO(scene) scene = scene_begin();

	desc.struct_size = offsetof(struct hm_batches_desc, pad_x);
	CHECK_OK_FATAL(hm_batches_create(scene.tokens, &desc, &batches));
	CHECK_OK(hm_batches_next(batches, x, NULL, &batch));
	CHECK_EQUAL(x[0], token_at(batch.starts[0]));
	CHECK_EQUAL(x[1], 0);
}

/* Each allocation fails once. */
static void failing(void)
{
	struct hm_batches_desc desc = desc_of(HM_BATCHES_IN_ORDER, 0);
	int32_t x[2][BATCH * BLOCK], y[2][BATCH * BLOCK];
	const struct hm_batch_slot slots[] = { { x[0], y[0] }, { x[1], y[1] } };
	struct hm_batches *batches;
	bool failed = true;
	unsigned int n;
	int r;
	AUTO(scene) scene = scene_begin();

	inject_install();
	for (n = 1; failed; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_batches_create(scene.tokens, &desc, &batches);
		if (!r) {
			r = hm_batches_resize(batches, 1);
			if (!r)
				r = hm_batches_resize(batches, BATCH);
			if (!r)
				r = hm_batches_start(batches, slots, 2);
			hm_batches_unref(batches);
		}
		failed = inject_disarm();
		CHECK(!r || (failed && *hm_errmsg()));
		inject_forgive();
	}
	CHECK(n > 10);
}

/* ---- the vocabulary ---- */

static void bound(const char *folder, const char *descr, const void *values, size_t width,
		  uint64_t vocab, const char *says)
{
	struct hm_tokens_desc desc = { .struct_size = sizeof(desc), .vocab = vocab };
	AUTO_TEXT *path =
		tokens_npy(folder, "v.npy", 1, descr, false, "(100,)", values, 100 * width);
	struct hm_batches_desc batch = batches_usual;
	int64_t to[100], y[BATCH * BLOCK], x[BATCH * BLOCK];
	AUTO(hm_tokens) *tokens = tokens_open(path, &desc);
	AUTO(hm_batches) *batches = NULL;

	batch.dtype = HM_DTYPE_I64;
	batch.order = HM_BATCHES_IN_ORDER;
	CHECK_OK_FATAL(hm_batches_create(tokens, &batch, &batches));
	if (says) {
		CHECK_ERROR(-EDOM, hm_tokens_read(tokens, 0, 100, HM_DTYPE_I64, to));
		CHECK(strstr(hm_errmsg(), says) != NULL);
		CHECK_ERROR(-EDOM, hm_batches_next(batches, x, y, NULL));
		CHECK(strstr(hm_errmsg(), says) != NULL);
	} else {
		CHECK_OK(hm_tokens_read(tokens, 0, 100, HM_DTYPE_I64, to));
		CHECK_OK(hm_batches_next(batches, x, y, NULL));
	}
}

static void vocabulary(void)
{
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct hm_tokens *tokens = NULL;
	uint16_t u2[100] = { 0 };
	int16_t i2[100] = { 0 };
	int8_t i1[100] = { 0 };
	uint64_t u8[100] = { 0 };
	float f4[100] = { 0 };

	u2[70] = 50257;
	bound(folder, "<u2", u2, 2, 50258, NULL);
	bound(folder, "<u2", u2, 2, 50257, "token 70 is 50257, and the vocabulary has 50257");
	bound(folder, "<u2", u2, 2, 1ull << 40, NULL);
	/* The bytes are 0x51c4, turned. */
	bound(folder, ">u2", u2, 2, 0x51c5, NULL);
	bound(folder, ">u2", u2, 2, 0x51c4, "token 70 is 20932");
	i2[66] = -1;
	bound(folder, "<i2", i2, 2, 1 << 20, "token 66 is -1");
	i1[3] = -100;
	bound(folder, "|i1", i1, 1, 200, "token 3 is -100");
	u8[0] = UINT64_MAX;
	u8[1] = 9;
	bound(folder, "<u8", u8, 8, 1ull << 63, "token 0 is 18446744073709551615");
	path = tokens_npy(folder, "f.npy", 1, "<f4", false, "(100,)", f4, sizeof(f4));
	CHECK_ERROR(-EINVAL, hm_tokens_open((const char *const *)&path, 1,
					    DESC(hm_tokens_desc, .vocab = 5), &tokens));
}

static const struct test tests[] = {
	{ "all_ways", all_ways, 60, 0 },    { "refused", refused, 0, 0 },
	{ "older", older, 0, 0 },           { "failing", failing, 0, 0 },

	{ "vocabulary", vocabulary, 0, 0 }, { NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "tokens_documents", tests)
