// SPDX-License-Identifier: MIT
/* GGUF files that are written: read back, byte for byte, and replaced whole or not at all. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf_support.h"
#include "lib/inject.h"

static unsigned char bytes[512];

static const uint64_t six[] = { 3, 2 }, five[] = { 5 }, blocks[] = { 64 }, none[] = { 4, 0 };

static const struct hm_gguf_source sources[] = {
	{ "f", HM_GGML_F32, 2, six, bytes },           { "b", HM_GGML_I8, 1, five, bytes + 1 },
	{ "q", HM_GGML_Q4_0, 1, blocks, bytes + 2 },   { "empty", HM_GGML_F16, 2, none, NULL },
	{ "scalar", HM_GGML_F64, 0, NULL, bytes + 3 },
};

#define N (sizeof(sources) / sizeof(sources[0]))

static const char *const strings[] = { "one", "", "\xc3\xa9" };
static const uint16_t numbers[] = { 1, 65535 };
static const float real = 1.5f;
static const uint8_t yes = 1;
static const int64_t low = -5;

static const struct hm_gguf_pair pairs[] = {
	{ "general.architecture", HM_GGUF_STRING, 0, 0, &strings[0] },
	{ "strings", HM_GGUF_ARRAY, HM_GGUF_STRING, 3, strings },
	{ "numbers", HM_GGUF_ARRAY, HM_GGUF_U16, 2, numbers },
	{ "real", HM_GGUF_F32, 0, 0, &real },
	{ "yes", HM_GGUF_BOOL, 0, 0, &yes },
	{ "low", HM_GGUF_I64, 0, 0, &low },
	{ "empty", HM_GGUF_ARRAY, HM_GGUF_U8, 0, NULL },
};

#define N_PAIR (sizeof(pairs) / sizeof(pairs[0]))

static struct hm_gguf_desc desc_of(uint64_t alignment)
{
	unsigned int i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 7 + 1);
	return (struct hm_gguf_desc){
		.struct_size = sizeof(struct hm_gguf_desc),
		.alignment = alignment,
		.tensors = sources,
		.n_tensors = N,
		.metadata = pairs,
		.n_metadata = N_PAIR,
	};
}

static void check_tensor(struct hm_gguf *gguf, const struct hm_gguf_source *source)
{
	struct hm_gguf_tensor_info info = gguf_tensor_of(gguf, source->name);
	unsigned char got[64] = { 0 };

	CHECK(info.type == source->type && info.rank == source->rank);
	CHECK(!info.rank || !memcmp(info.ne, source->ne, info.rank * sizeof(*info.ne)));
	CHECK_OK_FATAL(hm_gguf_read(gguf, info.index, got, sizeof(got)));
	CHECK(!info.bytes || !memcmp(got, source->data, info.bytes));
}

static void reads_back(void)
{
	static const uint64_t alignments[] = { 0, 8, 32, 64, 65536 };
	struct hm_gguf_info info = { .struct_size = sizeof(info) };
	struct hm_gguf_value value = { .struct_size = sizeof(value) };
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a.gguf");
	uint64_t index, alignment;
	struct hm_gguf_desc desc;
	struct hm_gguf *gguf;
	size_t i, k;

	for (i = 0; i < 5; i++) {
		desc = desc_of(alignments[i]);
		alignment = alignments[i] ? alignments[i] : 32;
		CHECK_OK_FATAL(hm_gguf_write(path, &desc));
		gguf = gguf_opened(path);
		CHECK_OK(hm_gguf_query(gguf, &info));
		CHECK(info.version == 3 && !info.swapped && info.alignment == alignment);
		CHECK(info.tensors == N && info.metadata == N_PAIR + (alignment != 32));
		for (k = 0; k < N; k++)
			check_tensor(gguf, &sources[k]);
		CHECK(value_of(gguf, "real").f64 == 1.5 && value_of(gguf, "low").i64 == -5);
		CHECK(value_of(gguf, "yes").u64 == 1 && value_of(gguf, "empty").count == 0);
		CHECK(!strcmp(value_of(gguf, "general.architecture").string, "one"));
		CHECK_OK_FATAL(hm_gguf_metadata_find(gguf, "strings", &index));
		CHECK_OK_FATAL(hm_gguf_element(gguf, index, 2, &value));
		CHECK(!strcmp(value.string, strings[2]) && value.length == 2);
		CHECK_OK_FATAL(hm_gguf_element(gguf, index + 1, 1, &value));
		CHECK(value.u64 == 65535);
		hm_gguf_unref(gguf);
	}
}

/* The n-th call fails: the old file is whole. */
static void undone(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a");
	struct hm_gguf_info info = { .struct_size = sizeof(info) };
	struct hm_gguf_desc first = desc_of(0), desc = desc_of(0);
	struct hm_gguf *gguf;
	bool failed = true;
	unsigned int n;
	int r;

	first.n_tensors = 1;
	make_table();
	inject_install();
	for (n = 1; failed; n++) {
		CHECK_OK_FATAL(hm_gguf_write(path, &first));
		inject_arm(n, INJECT_ONE);
		r = hm_gguf_write(path, &desc);
		failed = inject_disarm();
		gguf = gguf_opened(path);
		CHECK_OK(hm_gguf_query(gguf, &info));
		hm_gguf_unref(gguf);
		CHECK(info.tensors == 1 || info.tensors == N);
		CHECK(r || info.tensors == N);
	}
	CHECK(n > 10);
}

static void refuses(void)
{
	static const uint64_t huge[] = { 1ull << 40, 1ull << 40 }, large[] = { 1ull << 61 },
			      odd[] = { 33 };
	static const struct {
		struct hm_gguf_source source;
		int error;
		const char *text;
	} tensors[] = {
		{ { NULL, HM_GGML_I8, 1, five, bytes }, -EINVAL, "tensor 1: its name is NULL" },
		{ { "f", HM_GGML_I8, 1, five, bytes }, -EINVAL, "the name is there twice" },
		{ { "\xff", HM_GGML_I8, 1, five, bytes }, -EINVAL, "no UTF-8" },
		{ { "t", 4, 1, five, bytes }, -EOPNOTSUPP, "Q4_2" },
		{ { "t", 43, 1, five, bytes }, -ERANGE, "type 43" },
		{ { "t", HM_GGML_I8, 9, five, bytes }, -EINVAL, "9 dimensions" },
		{ { "t", HM_GGML_I8, 1, NULL, bytes }, -EINVAL, "ne is NULL" },
		{ { "t", HM_GGML_I8, 1, five, NULL }, -EINVAL, "data is NULL" },
		{ { "t", HM_GGML_Q4_0, 1, odd, bytes }, -EINVAL, "a block" },
		{ { "t", HM_GGML_I8, 2, huge, bytes }, -EOVERFLOW, "product" },
		{ { "t", HM_GGML_F64, 1, large, bytes }, -EOVERFLOW, "2^64" },
		{ { "t", HM_GGML_F16, 1, large, bytes }, -EFBIG, "2^62" },
		{ { "t", HM_GGML_I8, 1, five, (const void *)4096 }, -EFAULT, "tensor \"t\"" },
	};
	static const char *const null[] = { "a", NULL };
	static const struct {
		struct hm_gguf_pair pair;
		const char *text;
	} keys[] = {
		{ { NULL, HM_GGUF_U8, 0, 0, &yes }, "its key is NULL" },
		{ { "", HM_GGUF_U8, 0, 0, &yes }, "its key is empty" },
		{ { "general.architecture", HM_GGUF_U8, 0, 0, &yes }, "there twice" },
		{ { "general.alignment", HM_GGUF_U8, 0, 0, &yes }, "hm_gguf_desc.alignment" },
		{ { "k", 13, 0, 0, &yes }, "kind 13" },
		{ { "k", HM_GGUF_ARRAY, HM_GGUF_ARRAY, 1, &yes }, "arrays of arrays" },
		{ { "k", HM_GGUF_ARRAY, 13, 1, &yes }, "kind 13" },
		{ { "k", HM_GGUF_U8, 0, 0, NULL }, "data is NULL" },
		{ { "k", HM_GGUF_ARRAY, HM_GGUF_STRING, 2, null }, "string 1 is NULL" },
	};
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a");
	struct hm_gguf_source two[2] = { sources[0] };
	struct hm_gguf_pair two_pairs[2] = { pairs[0] };
	struct hm_gguf_desc desc = desc_of(0);
	size_t i;

	desc.tensors = two;
	desc.n_tensors = 2;
	for (i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
		two[1] = tensors[i].source;
		CHECK_ERROR(tensors[i].error, hm_gguf_write(path, &desc));
		CHECK_HAS(hm_errmsg(), tensors[i].text);
	}
	desc.n_tensors = 1;
	desc.metadata = two_pairs;
	desc.n_metadata = 2;
	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		two_pairs[1] = keys[i].pair;
		CHECK_ERROR(-EINVAL, hm_gguf_write(path, &desc));
		CHECK_HAS(hm_errmsg(), keys[i].text);
	}
	desc.n_metadata = 1;
	for (i = 1; i < 5; i++) {
		desc.alignment = (const uint64_t[]){ 0, 4, 48, 131072, 1ull << 32 }[i];
		CHECK_ERROR(-EINVAL, hm_gguf_write(path, &desc));
	}
	desc.alignment = 0;
	desc.flags = 1;
	CHECK_ERROR(-EINVAL, hm_gguf_write(path, &desc));
	desc.flags = 0;
	desc.tensors = NULL;
	CHECK_ERROR(-EINVAL, hm_gguf_write(path, &desc));
	CHECK_ERROR(-EINVAL, hm_gguf_write(path, NULL));
	CHECK_ERROR(-EINVAL, hm_gguf_write(NULL, &desc));
	desc.n_tensors = 0;
	CHECK_ERROR(-ENOENT, hm_gguf_write("/nowhere/a", &desc));
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "reads_back", reads_back, 0, 0 },
		{ "undone", undone, 0, 0 },
		{ "refuses", refuses, 0, 0 },
		{ 0 },
	};

	return harness_main(argc, argv, "gguf_write", tests);
}
