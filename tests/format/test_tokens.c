// SPDX-License-Identifier: MIT
/* Files of tokens: raw ones, numpy's, shards; widened to all types; and refused files. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/tokens/tokens.h"
#include "lib/inject.h"
#include "lib/python_support.h"
#include "base/sys.h"
#include "format/tokens_support.h"

#define UNTOUCHED ((void *)0x10)

static void check_values(struct hm_tokens *tokens, uint64_t first, uint64_t n)
{
	int64_t *values = calloc(n, sizeof(*values));
	uint64_t i;

	CHECK_FATAL(values != NULL);
	CHECK_OK_FATAL(hm_tokens_read(tokens, first, n, HM_DTYPE_I64, values));
	for (i = 0; i < n && values[i] == token_at(first + i); i++)
		;
	CHECK_EQUAL(i, n);
	free(values);
}

static void raw(void)
{
	struct hm_tokens_shard_info shard = { .struct_size = sizeof(shard) };
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, 100003);
	AUTO(hm_tokens) *tokens = tokens_open(path, NULL);
	struct hm_tokens_info info = tokens_info(tokens);

	CHECK_EQUAL(info.dtype, HM_DTYPE_U16);
	CHECK_EQUAL(info.shards, 1);
	CHECK_EQUAL(info.tokens, 100003);
	CHECK_EQUAL(info.bytes, 200006);
	CHECK_OK(hm_tokens_shard(tokens, 0, &shard));
	CHECK(!strcmp(shard.path, path));
	CHECK(shard.map != NULL);
	CHECK_EQUAL(shard.npy, 0);
	CHECK_EQUAL(shard.size, 200006);
	CHECK_EQUAL(shard.tokens, 100003);
	CHECK_ERROR(-ERANGE, hm_tokens_shard(tokens, 1, &shard));
	check_values(tokens, 0, 100003);
	check_values(tokens, 100002, 1);
	check_values(tokens, 12345, 70001);
	hm_tokens_unref(hm_tokens_ref(tokens));
}

/* The same with the handler: out of the map. */
static void mapped(void)
{
	CHECK_OK_FATAL(hm_handler_install(0));
	raw();
	CHECK_OK(hm_handler_remove());
}

/* Behind a header of a foreign kind: no token is aligned. */
static void at_an_offset(void)
{
	char bytes[3 + 2 * 1000];
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	AUTO(hm_tokens) *tokens = NULL;
	uint16_t value;
	int i;
	AUTO(rig_handler) handler = rig_handler(0);

	for (i = 0; i < 1000; i++) {
		value = token_at((uint64_t)i);
		memcpy(bytes + 3 + 2 * i, &value, 2);
	}
	file_write(folder, "a", bytes, sizeof(bytes));
	path = folder_path(folder, "a");
	tokens = tokens_open(path, DESC(hm_tokens_desc, .offset = 3));
	CHECK_EQUAL(tokens_info(tokens).tokens, 1000);
	check_values(tokens, 0, 1000);
}

/* One shard has a single token. */
static void shards(void)
{
	static const uint64_t n[] = { 5000, 1, 3, 70000, 2 };
	struct hm_tokens_shard_info shard = { .struct_size = sizeof(shard) };
	char *folder = folder_make(), *path[5], name[8];
	struct hm_tokens *tokens;
	uint64_t first = 0, i;

	for (i = 0; i < 5; first += n[i++]) {
		snprintf(name, sizeof(name), "%d", (int)i);
		path[i] = tokens_file(folder, name, first, n[i]);
	}
	CHECK_OK_FATAL(hm_tokens_open((const char *const *)path, 5, NULL, &tokens));
	CHECK_EQUAL(tokens_info(tokens).shards, 5);
	CHECK_EQUAL(tokens_info(tokens).tokens, first);
	CHECK_OK(hm_tokens_shard(tokens, 3, &shard));
	CHECK_EQUAL(shard.first, 5004);
	check_values(tokens, 0, first);
	CHECK_OK_FATAL(hm_handler_install(0));
	check_values(tokens, 0, first);
	for (i = 4990; i < 5010; i++)
		check_values(tokens, i, 9);
	CHECK_OK(hm_handler_remove());
	hm_tokens_unref(tokens);
	for (i = 0; i < 5; i++)
		free(path[i]);
	folder_remove(folder);
}

/* ---- widening ---- */

static const struct type {
	const char *descr; /* numpy's, without the byte order */
	uint32_t dtype, width;
	bool is_signed;
} types[] = {
	{ "u1", HM_DTYPE_U8, 1, false },  { "i1", HM_DTYPE_I8, 1, true },
	{ "u2", HM_DTYPE_U16, 2, false }, { "i2", HM_DTYPE_I16, 2, true },
	{ "u4", HM_DTYPE_U32, 4, false }, { "i4", HM_DTYPE_I32, 4, true },
	{ "u8", HM_DTYPE_U64, 8, false }, { "i8", HM_DTYPE_I64, 8, true },
};

#define N_TYPE (sizeof(types) / sizeof(types[0]))
#define N_VALUE 200

/* All of them a value that the type holds. */
static __int128 value_of(const struct type *type, uint64_t i, uint64_t seed)
{
	uint64_t random = (i + seed) * 0x9e3779b97f4a7c15u;
	unsigned int bits = 8 * type->width;

	random ^= random >> 29;
	random >>= 64 - bits;
	if (type->is_signed)
		return (int64_t)(random << (64 - bits)) >> (64 - bits);
	return random;
}

static bool holds(const struct type *type, __int128 value)
{
	unsigned int bits = 8 * type->width;

	if (type->is_signed)
		return value >= -((__int128)1 << (bits - 1)) && value < (__int128)1
										<< (bits - 1);
	return value >= 0 && value < (__int128)1 << bits;
}

static void put(unsigned char *to, uint32_t width, __int128 value, bool swapped)
{
	uint32_t i;

	for (i = 0; i < width; i++)
		to[swapped ? width - 1 - i : i] = (unsigned char)(value >> (8 * i));
}

/* Each value of @from that @to holds, in a row of those that it holds. */
static void check_pair(const struct type *from, const struct type *to, bool swapped)
{
	widen_function *widen = widen_find(to->dtype, from->dtype, swapped);
	unsigned char in[1 + N_VALUE * 8], expected[8];
	uint64_t out[N_VALUE], i, seed, bad;
	__int128 value;

	CHECK_FATAL(widen != NULL);
	for (seed = 0; seed < 3; seed++) {
		for (i = 0; i < N_VALUE; i++) {
			value = value_of(from, i, seed * 1000);
			put(in + 1 + i * from->width, from->width, holds(to, value) ? value : 1,
			    swapped);
		}
		CHECK(!widen(out, in + 1, N_VALUE));
		for (i = 0; i < N_VALUE; i++) {
			value = value_of(from, i, seed * 1000);
			put(expected, to->width, holds(to, value) ? value : 1, false);
			if (memcmp((char *)out + i * to->width, expected, to->width) != 0)
				test_fail(__FILE__, __LINE__, "%s%s to %s: value %d",
					  swapped ? "swapped " : "", from->descr, to->descr,
					  (int)i);
		}
	}
	/* One that does not fit, in the loop of steps and behind it. */
	for (i = 0; i < N_VALUE; i++) {
		value = value_of(from, i, 0);
		if (holds(to, value))
			continue;
		for (bad = 0; bad < N_VALUE; bad++)
			put(in + 1 + bad * from->width, from->width, 1, swapped);
		for (bad = 3; bad < N_VALUE; bad += N_VALUE - 4) {
			put(in + 1 + bad * from->width, from->width, value, swapped);
			CHECK(widen(out, in + 1, N_VALUE));
			put(in + 1 + bad * from->width, from->width, 1, swapped);
		}
	}
}

static void all_pairs(void)
{
	unsigned char bytes[200], turned[200];
	size_t i, j;

	for (i = 0; i < N_TYPE; i++)
		for (j = 0; j < N_TYPE; j++) {
			check_pair(&types[i], &types[j], false);
			check_pair(&types[i], &types[j], true);
		}
	CHECK(!widen_find(HM_DTYPE_F32, HM_DTYPE_U16, false));
	CHECK(!widen_find(HM_DTYPE_U16, HM_DTYPE_BOOL, true));
	CHECK(!widen_find(77, HM_DTYPE_U16, true));
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = turned[i] = (unsigned char)i;
	widen_swap(turned, HM_DTYPE_U32, 50);
	for (i = 0; i < sizeof(bytes); i++)
		CHECK_EQUAL(turned[i], bytes[i / 4 * 4 + 3 - i % 4]);
}

/* All types of .npy files, both byte orders, to all types; as the array has it. */
static void npy_types(void)
{
	unsigned char bytes[60 * 8];
	char *folder = folder_make(), *path, descr[8];
	struct hm_tokens *tokens;
	int64_t values[60];
	size_t i, order, k;
	AUTO(rig_handler) handler = rig_handler(0);

	for (i = 0; i < N_TYPE; i++)
		for (order = 0; order < 2; order++) {
			snprintf(descr, sizeof(descr), "%c%s", order ? '>' : '<',
				 types[i].descr);
			for (k = 0; k < 60; k++)
				put(bytes + k * types[i].width, types[i].width, (__int128)k,
				    order);
			path = tokens_npy(folder, "a.npy", 1 + (unsigned int)(i % 3), descr,
					  false, "(3, 20)", bytes, 60 * types[i].width);
			tokens = tokens_open(path, NULL);
			CHECK_EQUAL(tokens_info(tokens).dtype, types[i].dtype);
			CHECK_EQUAL(tokens_info(tokens).tokens, 60);
			CHECK_OK(hm_tokens_read(tokens, 0, 60, HM_DTYPE_I64, values));
			for (k = 0; k < 60; k++)
				CHECK_EQUAL(values[k], k);
			hm_tokens_unref(tokens);
			free(path);
		}
	folder_remove(folder);
}

/* Element (i, j, k) is at i + 2 * (j + 3 * k) of the file; a row of C's order is asked for. */
static void fortran(void)
{
	struct hm_tokens_shard_info shard = { .struct_size = sizeof(shard) };
	uint16_t bytes[2 * 3 * 5], values[30];
	char *folder = folder_make(), *path[2];
	AUTO(hm_tokens) *tokens = NULL;
	int i, j, k, way;

	for (i = 0; i < 2; i++)
		for (j = 0; j < 3; j++)
			for (k = 0; k < 5; k++)
				bytes[i + 2 * (j + 3 * k)] = (uint16_t)((i * 3 + j) * 5 + k);
	path[0] =
		tokens_npy(folder, "a.npy", 1, "<u2", true, "(2, 3, 5)", bytes, sizeof(bytes));
	for (i = 0; i < 30; i++)
		bytes[i] = (uint16_t)(bytes[i] << 8 | bytes[i] >> 8);
	path[1] =
		tokens_npy(folder, "b.npy", 2, ">u2", true, "(2, 3, 5)", bytes, sizeof(bytes));
	CHECK_OK_FATAL(hm_tokens_open((const char *const *)path, 2, NULL, &tokens));
	CHECK_OK(hm_tokens_shard(tokens, 1, &shard));
	CHECK_EQUAL(shard.flags, HM_NPY_FORTRAN | HM_NPY_SWAPPED);
	CHECK_EQUAL(shard.npy, 2);
	for (way = 0; way < 2; way++) {
		if (way)
			CHECK_OK_FATAL(hm_handler_install(0));
		CHECK_OK(hm_tokens_read(tokens, 0, 30, HM_DTYPE_U16, values));
		for (i = 0; i < 30; i++)
			CHECK_EQUAL(values[i], i);
		/* Over the end of the first one. */
		CHECK_OK(hm_tokens_read(tokens, 17, 26, HM_DTYPE_U16, values));
		for (i = 0; i < 26; i++)
			CHECK_EQUAL(values[i], (17 + i) % 30);
	}
	CHECK_OK(hm_handler_remove());
	free(path[0]);
	free(path[1]);
	folder_remove(folder);
}

static void too_large(void)
{
	uint32_t values[300];
	char *folder = folder_make(), *path;
	struct hm_tokens *tokens;
	uint16_t narrow[300];
	int16_t with_sign[300];
	int i, way;

	for (i = 0; i < 300; i++)
		values[i] = 5;
	values[299] = 65536;
	values[100] = 40000;
	path = tokens_npy(folder, "a.npy", 1, "<u4", false, "(300,)", values, sizeof(values));
	tokens = tokens_open(path, NULL);
	for (way = 0; way < 2; way++) {
		if (way)
			CHECK_OK_FATAL(hm_handler_install(0));
		CHECK_OK(hm_tokens_read(tokens, 0, 299, HM_DTYPE_U16, narrow));
		CHECK_EQUAL(narrow[100], 40000);
		CHECK_ERROR(-EOVERFLOW, hm_tokens_read(tokens, 0, 300, HM_DTYPE_U16, narrow));
		CHECK(strstr(hm_errmsg(), "token 299 is 65536, which U16 can't hold"));
		CHECK_ERROR(-EOVERFLOW,
			    hm_tokens_read(tokens, 50, 200, HM_DTYPE_I16, with_sign));
		CHECK(strstr(hm_errmsg(), "token 100 is 40000, which I16 can't hold"));
	}
	CHECK_OK(hm_handler_remove());
	hm_tokens_unref(tokens);
	free(path);
	values[7] = (uint32_t)-3;
	path = tokens_npy(folder, "a.npy", 1, "<i4", false, "(300,)", values, sizeof(values));
	tokens = tokens_open(path, NULL);
	CHECK_ERROR(-EOVERFLOW,
		    hm_tokens_read(tokens, 0, 9, HM_DTYPE_U64, &(uint64_t[9]){ 0 }));
	CHECK(strstr(hm_errmsg(), "token 7 is -3, which U64 can't hold"));
	hm_tokens_unref(tokens);
	free(path);
	folder_remove(folder);
}

/* ---- refused ---- */

static void check_refused(const char *path, const struct hm_tokens_desc *desc, int error,
			  const char *words)
{
	struct hm_tokens *tokens = UNTOUCHED;

	CHECK_ERROR(error, hm_tokens_open(&path, 1, desc, &tokens));
	CHECK(tokens == UNTOUCHED);
	CHECK_HAS(hm_errmsg(), words);
}

static void refused(void)
{
	struct hm_tokens_desc desc = { .struct_size = sizeof(desc), .dtype = HM_DTYPE_U32 };
	char *other;
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, 7);
	struct hm_tokens *tokens = UNTOUCHED;
	const char *both[2];
	uint64_t to[4];

	check_refused(path, &desc, -EBADMSG, "no whole tokens of U32");
	desc.dtype = HM_DTYPE_F6_E2M3;
	check_refused(path, &desc, -EINVAL, "F6_E2M3");
	desc.dtype = 1000;
	check_refused(path, &desc, -EINVAL, "unknown");
	desc = (struct hm_tokens_desc){ .struct_size = sizeof(desc), .offset = 15 };
	check_refused(path, &desc, -EBADMSG, "should begin at byte 15");
	desc.offset = 14;
	check_refused(path, &desc, -ENODATA, "no token");
	desc.offset = 13;
	check_refused(path, &desc, -EBADMSG, "no whole tokens");
	desc.offset = 0;
	desc.flags = 16;
	check_refused(path, &desc, -EINVAL, "flags 0x10");
	desc.flags = HM_TOKENS_BOOL;
	desc.dtype = HM_DTYPE_U8;
	check_refused(path, &desc, -EINVAL, "HM_TOKENS_BOOL");
	desc.struct_size = 4;
	check_refused(path, &desc, -EINVAL, "struct_size");
	check_refused(folder, NULL, -EISDIR, "");
	check_refused("/dev/null", NULL, -EINVAL, "");
	other = folder_path(folder, "none");
	check_refused(other, NULL, -ENOENT, "none");
	free(other);
	file_write(folder, "b", "", 0);
	other = folder_path(folder, "b");
	check_refused(other, NULL, -ENODATA, "");
	free(other);
	other = tokens_npy(folder, "c.npy", 1, "<M8[s]", false, "(1,)", "abcdefgh", 8);
	check_refused(other, NULL, -EOPNOTSUPP, "are of <M8[s]");
	free(other);
	other = tokens_npy(folder, "c.npy", 1, "|O", false, "(1,)", "abcdefgh", 8);
	check_refused(other, NULL, -EOPNOTSUPP, "Python objects");
	free(other);
	other = tokens_npy(folder, "c.npy", 1, "<u2", false, "(5,)", "abcdefgh", 8);
	check_refused(other, NULL, -EBADMSG, "cut off");
	/* As bytes it is a file as any: 10 + 57 + 8 of them, an odd number. */
	desc = (struct hm_tokens_desc){ .struct_size = sizeof(desc),
					.flags = HM_TOKENS_RAW,
					.dtype = HM_DTYPE_U8 };
	tokens = tokens_open(other, &desc);
	CHECK(tokens_info(tokens).tokens > 60);
	hm_tokens_unref(tokens);
	free(other);
	other = tokens_npy(folder, "c.npy", 1, "<u4", false, "(2,)", "abcdefgh", 8);
	both[0] = path;
	both[1] = other;
	tokens = UNTOUCHED;
	CHECK_ERROR(-EINVAL, hm_tokens_open(both, 2, NULL, &tokens));
	CHECK(strstr(hm_errmsg(), "of U32, and those of "));
	both[1] = NULL;
	CHECK_ERROR(-EINVAL, hm_tokens_open(both, 2, NULL, &tokens));
	CHECK_ERROR(-EINVAL, hm_tokens_open(NULL, 2, NULL, &tokens));
	CHECK_ERROR(-EINVAL, hm_tokens_open(both, 0, NULL, &tokens));
	CHECK_ERROR(-EINVAL, hm_tokens_open(both, 1, NULL, NULL));
	CHECK(tokens == UNTOUCHED);
	free(other);

	tokens = tokens_open(path, NULL);
	CHECK_ERROR(-ERANGE, hm_tokens_read(tokens, 7, 1, HM_DTYPE_I64, to));
	CHECK_ERROR(-ERANGE, hm_tokens_read(tokens, 4, 4, HM_DTYPE_I64, to));
	CHECK_ERROR(-ERANGE, hm_tokens_read(tokens, 1, UINT64_MAX, HM_DTYPE_I64, to));
	CHECK_ERROR(-EINVAL, hm_tokens_read(tokens, 0, 0, HM_DTYPE_I64, to));
	CHECK_ERROR(-EINVAL, hm_tokens_read(tokens, 0, 1, HM_DTYPE_I64, NULL));
	CHECK_ERROR(-EINVAL, hm_tokens_read(tokens, 0, 1, HM_DTYPE_I64, (char *)to + 1));
	CHECK_ERROR(-EOPNOTSUPP, hm_tokens_read(tokens, 0, 1, HM_DTYPE_F32, to));
	CHECK(strstr(hm_errmsg(), "tokens of U16 can't be made F32"));
	CHECK_ERROR(-EINVAL, hm_tokens_read(NULL, 0, 1, HM_DTYPE_I64, to));
	CHECK_ERROR(-EINVAL, hm_tokens_query(tokens, NULL));
	hm_tokens_unref(tokens);
	hm_tokens_unref(NULL);
	CHECK(!hm_tokens_ref(NULL));
}

/* ---- far, many, at once ---- */

static void beyond_4_gib(void)
{
	uint64_t n = (5ull << 30) / 4;
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a");
	uint32_t value = 77, read[3];
	AUTO(hm_tokens) *tokens = NULL;
	FILE *file;

	file_sparse(folder, "a", n * 4);
	file = fopen(path, "r+");
	CHECK_FATAL(file && !fseek(file, (long)(n - 2) * 4, SEEK_SET));
	CHECK_EQUAL(fwrite(&value, 4, 1, file), 1);
	CHECK(!fclose(file));
	tokens = tokens_open(path, DESC(hm_tokens_desc, .dtype = HM_DTYPE_U32));
	CHECK_EQUAL(tokens_info(tokens).tokens, n);
	CHECK_OK(hm_tokens_read(tokens, n - 3, 3, HM_DTYPE_U32, read));
	CHECK(read[0] == 0 && read[1] == 77 && read[2] == 0);
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_OK(hm_tokens_read(tokens, n - 3, 3, HM_DTYPE_U32, read));
	CHECK(read[0] == 0 && read[1] == 77 && read[2] == 0);
	CHECK_OK(hm_handler_remove());
}

static void many_opens(void)
{
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, 10);
	unsigned int before;
	int i;

	make_table();
	before = test_holding_now().fds;
	for (i = 0; i < 10000; i++) {
		hm_tokens_unref(tokens_open(path, NULL));
		if (i % 1000 == 0)
			CHECK_EQUAL(test_holding_now().fds, before);
	}
	CHECK_EQUAL(test_holding_now().fds, before);
}

static void *read_all(void *user)
{
	int i;

	for (i = 0; i < 30; i++)
		check_values(user, (uint64_t)i, 5000);
	return NULL;
}

static void by_threads(void)
{
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, 6000);
	AUTO(hm_tokens) *tokens = tokens_open(path, NULL);
	pthread_t thread[4];
	int i;
	AUTO(rig_handler) handler = rig_handler(0);

	for (i = 0; i < 4; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, read_all, tokens));
	for (i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

static void use_in_child(void *user)
{
	int64_t value;

	CHECK_ERROR(-EOWNERDEAD, hm_tokens_read(user, 0, 1, HM_DTYPE_I64, &value));
	CHECK_ERROR(-EOWNERDEAD, hm_tokens_query(user, DESC(hm_tokens_info)));
	hm_tokens_unref(user);
}

static void forked(void)
{
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, 10);
	AUTO(hm_tokens) *tokens = tokens_open(path, NULL);

	CHECK_EQUAL(test_fork(use_in_child, tokens), 0);
	check_values(tokens, 0, 10);
}

/* ---- numpy ---- */

static void numpy(void)
{
	static const char program[] =
		"import sys, numpy as n\n"
		"from numpy.lib import format as f\n"
		"d = sys.argv[1] + '/'\n"
		"a = (n.arange(6000, dtype='u8') * 7 + n.arange(6000, dtype='u8') // 65521)"
		".astype('u2')\n"
		"a.tofile(d + '0')\n"
		"n.save(d + '1', a)\n"
		"n.save(d + '2', a.astype('>i4'))\n"
		"n.save(d + '3', a.reshape(20, 30, 10).astype('u8'))\n"
		"n.save(d + '4', n.asfortranarray(a.reshape(20, 30, 10)))\n"
		"n.save(d + '5', n.asfortranarray(a.reshape(60, 100)).astype('>u8'))\n"
		"f.write_array(open(d + '6.npy', 'wb'), a.astype('>u2'), version=(2, 0))\n"
		"f.write_array(open(d + '7.npy', 'wb'), a.astype('i8'), version=(3, 0))\n"
		"m = n.memmap(d + '8', dtype='u2', mode='w+', shape=(6000,))\n"
		"m[:] = a; m.flush()\n";
	char *path, name[16];
	AUTO_TEXT *folder = folder_make();
	struct hm_tokens *tokens;
	int i;

	if (!numpy_wrote(program, folder))
		return;
	CHECK_OK_FATAL(hm_handler_install(0));
	for (i = 0; i < 9; i++) {
		snprintf(name, sizeof(name), i % 8 ? "%d.npy" : "%d", i);
		path = folder_path(folder, name);
		tokens = tokens_open(path, NULL);
		CHECK_EQUAL(tokens_info(tokens).tokens, 6000);
		check_values(tokens, 0, 6000);
		check_values(tokens, 1234, 777);
		hm_tokens_unref(tokens);
		free(path);
	}
	CHECK_OK(hm_handler_remove());
}

static const struct test tests[] = {
	{ "raw", raw, 0, 0 },
	{ "mapped", mapped, 0, 0 },
	{ "at_an_offset", at_an_offset, 0, 0 },
	{ "shards", shards, 0, 0 },
	{ "all_pairs", all_pairs, 0, 0 },
	{ "npy_types", npy_types, 0, 0 },
	{ "fortran", fortran, 0, 0 },
	{ "too_large", too_large, 0, 0 },
	{ "refused", refused, 0, 0 },
	{ "beyond_4_gib", beyond_4_gib, 0, 0 },
	{ "many_opens", many_opens, 60, 0 },
	{ "by_threads", by_threads, 0, 0 },
	{ "forked", forked, 0, 0 },
	{ "numpy", numpy, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "tokens", tests)
