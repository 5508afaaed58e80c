// SPDX-License-Identifier: MIT
/* Files of tokens that tests make, and batches of them. */
#include "format/tokens_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *tokens_file(const char *folder, const char *name, uint64_t first, uint64_t n)
{
	uint16_t *bytes = malloc(n * sizeof(*bytes) + 1);
	uint64_t i;

	CHECK_FATAL(bytes != NULL);
	for (i = 0; i < n; i++)
		bytes[i] = token_at(first + i);
	file_write(folder, name, (const char *)bytes, n * sizeof(*bytes));
	free(bytes);
	return folder_path(folder, name);
}

char *tokens_npy(const char *folder, const char *name, unsigned int version, const char *descr,
		 bool fortran, const char *shape, const void *bytes, size_t length)
{
	size_t head = version == 1 ? 10 : 12, size;
	char header[256], *file;
	int n;

	n = snprintf(header, sizeof(header),
		     "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr,
		     fortran ? "True" : "False", shape);
	size = head + (size_t)n + length;
	file = calloc(1, size);
	CHECK_FATAL(file != NULL);
	memcpy(file, "\x93NUMPY", 6);
	file[6] = (char)version;
	file[8] = (char)n;
	memcpy(file + head, header, (size_t)n);
	memcpy(file + head + n, bytes, length);
	file_write(folder, name, file, size);
	free(file);
	return folder_path(folder, name);
}

struct hm_tokens *tokens_open(const char *path, const struct hm_tokens_desc *desc)
{
	struct hm_tokens *tokens;

	CHECK_OK_FATAL(hm_tokens_open(&path, 1, desc, &tokens));
	return tokens;
}

struct hm_tokens_info tokens_info(struct hm_tokens *tokens)
{
	struct hm_tokens_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_tokens_query(tokens, &info));
	return info;
}

/* ---- batches ---- */

const struct hm_batches_desc batches_usual = {
	.struct_size = sizeof(batches_usual),
	.order = HM_BATCHES_SHUFFLED,
	.dtype = HM_DTYPE_I32,
	.block = BLOCK,
	.batch = BATCH,
	.seed = 5,
};

/* Three shards, whose ends are inside of blocks. */
struct token_scene token_scene_begin(void)
{
	struct token_scene scene = { 0 };
	static const uint64_t n[] = { 700, 5, N - 705 };
	uint64_t first = 0;
	char name[16];
	int i;

	scene.folder = folder_make();
	for (i = 0; i < 3; first += n[i++]) {
		snprintf(name, sizeof(name), "%d", i);
		scene.path[i] = tokens_file(scene.folder, name, first, n[i]);
	}
	CHECK_OK_FATAL(hm_tokens_open((const char *const *)scene.path, 3, NULL, &scene.tokens));
	return scene;
}

void token_scene_end(struct token_scene *scene)
{
	int i;

	hm_tokens_unref(scene->tokens);
	for (i = 0; i < 3; i++)
		free(scene->path[i]);
	folder_remove(scene->folder);
}

struct hm_batches *batches_make(const struct token_scene *scene,
				const struct hm_batches_desc *desc)
{
	struct hm_batches *batches;

	CHECK_OK_FATAL(hm_batches_create(scene->tokens, desc, &batches));
	return batches;
}

struct hm_batches_info batches_info(struct hm_batches *batches)
{
	struct hm_batches_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_batches_query(batches, &info));
	return info;
}

/* Compares x and y with the files, from the starts on. */
void batches_check(const struct hm_batch *batch, const int32_t *x, const int32_t *y)
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

struct hm_batch batches_next(struct hm_batches *batches)
{
	int32_t x[64 * BLOCK], y[64 * BLOCK];
	struct hm_batch batch = { .struct_size = sizeof(batch) };

	CHECK_OK_FATAL(hm_batches_next(batches, x, y, &batch));
	CHECK_FATAL(batch.blocks <= 64);
	batches_check(&batch, x, y);
	return batch;
}

struct hm_batches_state batches_state(struct hm_batches *batches)
{
	struct hm_batches_state state = { .struct_size = sizeof(state) };

	CHECK_OK_FATAL(hm_batches_get(batches, &state));
	return state;
}
