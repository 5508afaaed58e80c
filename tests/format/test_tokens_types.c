// SPDX-License-Identifier: MIT
/* Tokens that are no integers: copied as they are, in this machine's byte order, or widened. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/tokens/tokens.h"
#include "lib/python_support.h"
#include "format/tokens_support.h"

#define HALVES 65536

static const struct type {
	const char *name; /* numpy's, without the byte order */
	uint32_t dtype, width;
	uint32_t unit; /* bytes that are turned round together */
} types[] = {
	{ "b1", HM_DTYPE_BOOL, 1, 1 },        { NULL, HM_DTYPE_F8_E5M2, 1, 1 },
	{ NULL, HM_DTYPE_F8_E4M3, 1, 1 },     { NULL, HM_DTYPE_F8_E8M0, 1, 1 },
	{ NULL, HM_DTYPE_F8_E4M3FNUZ, 1, 1 }, { NULL, HM_DTYPE_F8_E5M2FNUZ, 1, 1 },
	{ "f2", HM_DTYPE_F16, 2, 2 },         { NULL, HM_DTYPE_BF16, 2, 2 },
	{ "f4", HM_DTYPE_F32, 4, 4 },         { "f8", HM_DTYPE_F64, 8, 8 },
	{ "c8", HM_DTYPE_C64, 8, 4 },
};

#define N_TYPE (sizeof(types) / sizeof(types[0]))
#define N_VALUE 200

static void make_values(unsigned char *bytes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		bytes[i] = (unsigned char)((i + 3) * 0x9e3779b1u >> 13);
}

static void turn(unsigned char *bytes, uint32_t unit, size_t n)
{
	unsigned char kept;
	size_t i, j;

	for (i = 0; i < n; i += unit)
		for (j = 0; j < unit / 2; j++) {
			kept = bytes[i + j];
			bytes[i + j] = bytes[i + unit - 1 - j];
			bytes[i + unit - 1 - j] = kept;
		}
}

/* All of them, out of the maps and by reading. */
static void check_same(struct hm_tokens *tokens, const struct type *type,
		       const unsigned char *expected)
{
	unsigned char *read = malloc(N_VALUE * 8);
	int way;

	CHECK_FATAL(read != NULL);
	CHECK_EQUAL(tokens_info(tokens).dtype, type->dtype);
	CHECK_EQUAL(tokens_info(tokens).tokens, N_VALUE);
	for (way = 0; way < 2; way++) {
		if (way)
			CHECK_OK_FATAL(hm_handler_install(0));
		memset(read, 0xee, N_VALUE * 8);
		CHECK_OK(hm_tokens_read(tokens, 0, N_VALUE, type->dtype, read));
		if (memcmp(read, expected, N_VALUE * type->width) != 0)
			test_fail(__FILE__, __LINE__, "%s is not what it was",
				  hm_dtype_name(type->dtype));
	}
	CHECK_OK(hm_handler_remove());
	free(read);
}

/* Raw files of each type, in both byte orders. */
static void raw(void)
{
	unsigned char bytes[N_VALUE * 8], turned[N_VALUE * 8];
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct hm_tokens *tokens;
	size_t i, length;

	make_values(bytes, sizeof(bytes));
	path = folder_path(folder, "a");
	for (i = 0; i < N_TYPE; i++) {
		struct hm_tokens_desc desc = { .struct_size = sizeof(desc),
					       .dtype = types[i].dtype };

		length = N_VALUE * types[i].width;
		desc.flags = types[i].dtype == HM_DTYPE_BOOL ? HM_TOKENS_BOOL : 0;
		file_write(folder, "a", (char *)bytes, length);
		tokens = tokens_open(path, &desc);
		check_same(tokens, &types[i], bytes);
		hm_tokens_unref(tokens);
		memcpy(turned, bytes, length);
		turn(turned, types[i].unit, length);
		file_write(folder, "a", (char *)turned, length);
		desc.flags |= HM_TOKENS_SWAPPED;
		tokens = tokens_open(path, &desc);
		check_same(tokens, &types[i], bytes);
		hm_tokens_unref(tokens);
	}
}

/* numpy's, in both byte orders; over the end of a shard, and in Fortran's order. */
static void npy(void)
{
	unsigned char bytes[N_VALUE * 8], turned[N_VALUE * 8], read[N_VALUE * 8];
	char *folder = folder_make(), *path[2], descr[8];
	struct hm_tokens *tokens;
	size_t i, k, length;
	uint32_t width;

	make_values(bytes, sizeof(bytes));
	for (i = 0; i < N_TYPE; i++) {
		if (!types[i].name)
			continue;
		width = types[i].width;
		length = N_VALUE * width;
		snprintf(descr, sizeof(descr), "<%s", types[i].name);
		path[0] = tokens_npy(folder, "a.npy", 1, descr, false, "(200,)", bytes, length);
		memcpy(turned, bytes, length);
		turn(turned, types[i].unit, length);
		snprintf(descr, sizeof(descr), ">%s", types[i].name);
		path[1] =
			tokens_npy(folder, "b.npy", 1, descr, true, "(2, 100)", turned, length);
		tokens = tokens_open(path[0], NULL);
		check_same(tokens, &types[i], bytes);
		hm_tokens_unref(tokens);
		CHECK_OK_FATAL(hm_tokens_open((const char *const *)path, 2, NULL, &tokens));
		CHECK_OK(hm_tokens_read(tokens, 150, 200, types[i].dtype, read));
		CHECK(!memcmp(read, bytes + 150 * width, 50 * width));
		for (k = 0; k < 150; k++)
			CHECK(!memcmp(read + (50 + k) * width,
				      bytes + (k / 100 + 2 * (k % 100)) * width, width));
		hm_tokens_unref(tokens);
		free(path[0]);
		free(path[1]);
	}
	folder_remove(folder);
}

/* Only pairs with a row of the table are taken. */
static void refused(void)
{
	static const struct {
		uint32_t from, to;
	} pairs[] = {
		{ HM_DTYPE_F32, HM_DTYPE_I64 },
		{ HM_DTYPE_F32, HM_DTYPE_F16 },
		{ HM_DTYPE_F32, HM_DTYPE_F64 },
		{ HM_DTYPE_F16, HM_DTYPE_BF16 },
		{ HM_DTYPE_F16, HM_DTYPE_U16 },
		{ HM_DTYPE_U16, HM_DTYPE_F16 },
		{ HM_DTYPE_F64, HM_DTYPE_C64 },
		{ HM_DTYPE_F16, HM_DTYPE_F4 },
		{ HM_DTYPE_F16, 1000 },
		{ HM_DTYPE_F16, HM_DTYPE_BOOL },
		{ HM_DTYPE_F8_E5M2, HM_DTYPE_U8 },
	};
	struct hm_tokens_desc desc = { .struct_size = sizeof(desc) };
	struct hm_batches_desc wanted = { .struct_size = sizeof(wanted),
					  .block = 1,
					  .batch = 1 };
	struct hm_batches *batches;
	char bytes[64] = "";
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct hm_tokens *tokens;
	uint64_t to[4];
	size_t i;

	file_write(folder, "a", bytes, sizeof(bytes));
	path = folder_path(folder, "a");
	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		desc.dtype = pairs[i].from;
		tokens = tokens_open(path, &desc);
		CHECK_ERROR(-EOPNOTSUPP, hm_tokens_read(tokens, 0, 1, pairs[i].to, to));
		CHECK(strstr(hm_errmsg(), "F16 and BF16 are made F32") != NULL);
		wanted.dtype = pairs[i].to;
		if (wanted.dtype)
			CHECK_ERROR(-EOPNOTSUPP, hm_batches_create(tokens, &wanted, &batches));
		hm_tokens_unref(tokens);
	}
	desc.dtype = HM_DTYPE_F4;
	CHECK_ERROR(-EINVAL, hm_tokens_open((const char *const *)&path, 1, &desc, &tokens));
	CHECK(strstr(hm_errmsg(), "whole bytes") != NULL);
}

/* ---- batches ---- */

/* The default is the type of the files. */
static void batches(void)
{
	static const uint32_t dtypes[] = { HM_DTYPE_BOOL, HM_DTYPE_F16, HM_DTYPE_F64 };
	unsigned char bytes[N_VALUE * 8], x[30 * 8 + 8], y[30 * 8 + 8];
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct hm_batches *made;
	struct hm_tokens *tokens;
	uint32_t width;
	size_t i, k;

	make_values(bytes, sizeof(bytes));
	file_write(folder, "a", (char *)bytes, sizeof(bytes));
	path = folder_path(folder, "a");
	for (i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		width = hm_dtype_bits(dtypes[i]) / 8;
		tokens = tokens_open(path, DESC(hm_tokens_desc,
						.flags = dtypes[i] ? 0 : HM_TOKENS_BOOL,
						.dtype = dtypes[i]));
		CHECK_OK_FATAL(
			hm_batches_create(tokens,
					  DESC(hm_batches_desc, .order = HM_BATCHES_SHUFFLED,
					       .block = 10, .batch = 3),
					  &made));
		CHECK_EQUAL(batches_info(made).dtype, dtypes[i]);
		CHECK_OK(hm_batches_next(made, x, y, &batch));
		for (k = 0; k < 3; k++) {
			CHECK(!memcmp(x + 10 * k * width, bytes + batch.starts[k] * width,
				      10 * width));
			CHECK(!memcmp(y + 10 * k * width, bytes + (batch.starts[k] + 1) * width,
				      10 * width));
		}
		hm_batches_unref(made);
		hm_tokens_unref(tokens);
	}
}

/* ---- widened ---- */

/* Any two NaNs are the same: processors set a bit in them. */
static bool same_float(uint32_t a, uint32_t b)
{
	return a == b || ((a & 0x7fffffff) > 0x7f800000 && (b & 0x7fffffff) > 0x7f800000 &&
			  !((a ^ b) & ~(1u << 22)));
}

static void check_halves(const char *path, const struct hm_tokens_desc *desc,
			 const uint32_t *expected)
{
	AUTO(hm_tokens) *tokens = tokens_open(path, desc);
	uint32_t *read = malloc(HALVES * sizeof(*read)), i;

	CHECK_FATAL(read != NULL);
	CHECK_OK(hm_tokens_read(tokens, 0, HALVES, HM_DTYPE_F32, read));
	for (i = 0; i < HALVES && same_float(read[i], expected[i]); i++)
		;
	if (i < HALVES)
		test_fail(__FILE__, __LINE__, "value %u: 0x%x, and it is 0x%x", i, read[i],
			  expected[i]);
	free(read);
}

/* Each value there is of F16, against numpy; of BF16 it is the upper half of one of F32. */
static void floats(void)
{
	static const char program[] = "import sys, numpy as n\n"
				      "d = sys.argv[1] + '/'\n"
				      "a = n.arange(65536, dtype='u2')\n"
				      "a.tofile(d + 'raw')\n"
				      "n.save(d + 'a.npy', a.view('f2'))\n"
				      "n.save(d + 'b.npy', a.view('f2').astype('>f2'))\n"
				      "a.view('f2').astype('f4').tofile(d + 'f4')\n";
	struct hm_tokens_desc desc = { .struct_size = sizeof(desc), .dtype = HM_DTYPE_F16 };
	uint32_t *expected = malloc(HALVES * sizeof(*expected)), i;
	char *path;
	AUTO_TEXT *folder = folder_make();
	FILE *file;

	CHECK_FATAL(expected != NULL);
	if (!numpy_wrote(program, folder)) {
		free(expected);
		return;
	}
	path = folder_path(folder, "f4");
	file = fopen(path, "re");
	CHECK_FATAL(file != NULL);
	CHECK_EQUAL(fread(expected, sizeof(*expected), HALVES, file), HALVES);
	fclose(file);
	free(path);
	path = folder_path(folder, "a.npy");
	check_halves(path, NULL, expected);
	free(path);
	path = folder_path(folder, "b.npy");
	check_halves(path, NULL, expected);
	free(path);
	path = folder_path(folder, "raw");
	check_halves(path, &desc, expected);
	desc.dtype = HM_DTYPE_BF16;
	for (i = 0; i < HALVES; i++)
		expected[i] = i << 16;
	check_halves(path, &desc, expected);
	desc.flags = HM_TOKENS_SWAPPED;
	for (i = 0; i < HALVES; i++)
		expected[i] = (i << 8 | i >> 8) << 16;
	check_halves(path, &desc, expected);
	free(path);
	free(expected);
}

static const struct test tests[] = {
	{ "raw", raw, 0, 0 },
	{ "npy", npy, 0, 0 },
	{ "refused", refused, 0, 0 },
	{ "batches", batches, 0, 0 },
	{ "floats", floats, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "tokens_types", tests)
