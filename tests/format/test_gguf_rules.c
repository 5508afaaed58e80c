// SPDX-License-Identifier: MIT
/* GGUF files that are wrong: cut off anywhere, with lengths that lie, with flipped bits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/gguf_support.h"

static struct gguf_made made;

/* Uses all that there is, which must be within the file. */
static void use(struct hm_gguf *gguf)
{
	struct hm_gguf_tensor_info tensor = { .struct_size = sizeof(tensor) };
	struct hm_gguf_value value = { .struct_size = sizeof(value) };
	struct hm_gguf_file_info file = { .struct_size = sizeof(file) };
	struct hm_gguf_info info = { .struct_size = sizeof(info) };
	uint64_t i, k, n, found;

	CHECK_OK_FATAL(hm_gguf_query(gguf, &info));
	CHECK_OK_FATAL(hm_gguf_file(gguf, 0, &file));
	for (i = 0; i < info.tensors; i++) {
		CHECK_OK_FATAL(hm_gguf_at(gguf, i, &tensor));
		CHECK(tensor.offset <= file.size && tensor.bytes <= file.size - tensor.offset);
		CHECK(tensor.offset % info.alignment == 0 || !tensor.bytes);
		CHECK_OK(hm_gguf_find(gguf, tensor.name, &found));
		CHECK_EQUAL(found, i);
	}
	for (i = 0; i < info.metadata; i++) {
		CHECK_OK_FATAL(hm_gguf_metadata(gguf, i, &value));
		n = value.count;
		for (k = 0; k < n; k++) {
			CHECK_OK_FATAL(hm_gguf_element(gguf, i, k, &value));
			CHECK(value.kind != HM_GGUF_STRING || !value.string[value.length]);
		}
	}
}

static int open_made(const char *folder, size_t n, struct hm_gguf **ret_gguf)
{
	return hm_gguf_open(made_file(&made, n, folder, "a"), 0, ret_gguf);
}

/* Cut off at each byte. */
static void cut_off(void)
{
	AUTO_TEXT *folder = folder_make();
	struct hm_gguf *gguf;
	unsigned int big;
	size_t n;
	int r;

	for (big = 0; big < 2; big++) {
		made_whole(&made, 3, big);
		for (n = 0; n < made.n; n++) {
			gguf = (void *)0x10;
			r = open_made(folder, n, &gguf);
			CHECK(r == -EBADMSG || (!n && r));
			CHECK(gguf == (void *)0x10 && *hm_errmsg());
		}
	}
}

/* One bit or byte is another one: an error, or a description that holds. */
static void flipped(void)
{
	uint64_t seed = test_seed();
	unsigned int turns = test_is_slow() ? 300 : 3000, i, k;
	AUTO_TEXT *folder = folder_make();
	struct hm_gguf *gguf;
	size_t at;
	int r;

	for (i = 0; i < turns; i++) {
		made_whole(&made, 2 + (i & 1), i & 2);
		for (k = 0; k <= i % 3; k++) {
			at = (size_t)test_random(&seed) % (made.n - 100);
			if (i & 4)
				made.bytes[at] = (unsigned char)test_random(&seed);
			else
				made.bytes[at] ^= (unsigned char)(1u << test_random(&seed) % 8);
		}
		r = open_made(folder, made.n, &gguf);
		if (r) {
			CHECK(r == -EBADMSG || r == -EOPNOTSUPP || r == -EINVAL);
			CHECK(*hm_errmsg());
			continue;
		}
		use(gguf);
		hm_gguf_unref(gguf);
	}
}

/* ---- one rule each ---- */

struct tensor_case {
	uint32_t type, rank;
	uint64_t ne[HM_GGUF_RANK_MAX + 1], offset;
	int error;
	const char *text;
};

static const struct tensor_case tensors[] = {
	{ HM_GGML_F32, 1, { 4 }, 0, 0, "" },
	{ HM_GGML_F32, 0, { 0 }, 0, 0, "" },
	{ HM_GGML_F32, 2, { 0, 1ull << 62 }, 0, 0, "" },
	{ HM_GGML_F32, 8, { 1, 1, 1, 1, 1, 1, 1, 2 }, 0, 0, "" },
	{ HM_GGML_F32, 9, { 1 }, 0, -EOPNOTSUPP, "\"t\": it has 9 dimensions" },
	{ HM_GGML_F32, UINT32_MAX, { 1 }, 0, -EOPNOTSUPP, "dimensions" },
	{ HM_GGML_F32, 2, { 1ull << 40, 1ull << 40 }, 0, -EBADMSG, "product" },
	{ HM_GGML_F64, 1, { 1ull << 62 }, 0, -EBADMSG, "2^64 bytes" },
	{ HM_GGML_F32, 1, { 1ull << 60 }, 0, -EBADMSG, "cut off" },
	{ HM_GGML_F32, 1, { 4 }, 8, -EBADMSG, "a multiple of 32" },
	{ HM_GGML_F32, 1, { 4 }, 64, -EBADMSG, "cut off" },
	{ HM_GGML_F32, 1, { 4 }, 0xffffffffffffffe0, -EBADMSG, "cut off" },
	{ HM_GGML_Q4_0, 1, { 33 }, 0, -EBADMSG, "a block of Q4_0 has 32" },
	{ HM_GGML_Q4_0, 2, { 32, 3 }, 0, 0, "" },
	{ HM_GGML_Q4_0, 0, { 0 }, 0, -EBADMSG, "a block" },
	{ 4, 1, { 32 }, 0, -EOPNOTSUPP, "\"t\": type 4 is Q4_2" },
	{ 36, 1, { 32 }, 0, -EOPNOTSUPP, "IQ4_NL_4_4" },
	{ 999, 1, { 32 }, 0, -EOPNOTSUPP, "type 999 is unknown" },
};

static void check_refused(const char *folder, int error, const char *text)
{
	struct hm_gguf *gguf = NULL;
	int r = open_made(folder, made.n, &gguf);

	if (r != error || !strstr(r ? hm_errmsg() : "", text))
		test_fail(__FILE__, __LINE__, "%d, not %d with \"%s\": %s", r, error, text,
			  hm_errmsg());
	if (!r) {
		use(gguf);
		hm_gguf_unref(gguf);
	}
}

static void tensors_of_all_sorts(void)
{
	AUTO_TEXT *folder = folder_make();
	size_t i;

	for (i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
		const struct tensor_case *t = &tensors[i];

		made = (struct gguf_made){ 0 };
		made_begin(&made, 3, 1, 0);
		made_string(&made, "t");
		made_number(&made, t->rank, 4);
		for (uint32_t d = 0; d < t->rank && d <= HM_GGUF_RANK_MAX; d++)
			made_number(&made, t->ne[d], 8);
		made_number(&made, t->type, 4);
		made_number(&made, t->offset, 8);
		made_data(&made, 32, 64);
		check_refused(folder, t->error, t->text);
	}
}

static void begin(uint64_t n_tensor, uint64_t n_key)
{
	made = (struct gguf_made){ 0 };
	made_begin(&made, 3, n_tensor, n_key);
}

static void names(void)
{
	static const uint64_t ne[] = { 8 };
	AUTO_TEXT *folder = folder_make();
	unsigned int i;

	begin(2, 0);
	made_tensor(&made, "t", HM_GGML_F32, 1, ne, 0);
	made_tensor(&made, "t", HM_GGML_F32, 1, ne, 32);
	made_data(&made, 32, 64);
	check_refused(folder, -EBADMSG, "two tensors of the name \"t\"");
	begin(2, 0);
	made_tensor(&made, "t", HM_GGML_F32, 1, ne, 0);
	made_tensor(&made, "u", HM_GGML_F32, 1, ne, 0);
	made_data(&made, 32, 64);
	check_refused(folder, -EBADMSG, "overlaps");
	begin(0, 2);
	made_key(&made, "k", HM_GGUF_U8, 1, 1);
	made_key(&made, "k", HM_GGUF_U8, 1, 1);
	check_refused(folder, -EBADMSG, "key \"k\" is there twice");
	begin(3, 0);
	made_tensor(&made, "t", HM_GGML_F32, 1, ne, 0);
	made_tensor(&made, "u", HM_GGML_F32, 1, ne, 32);
	made_tensor(&made, "t", HM_GGML_F32, 1, ne, 64);
	made_data(&made, 32, 96);
	check_refused(folder, -EBADMSG, "two tensors of the name \"t\"");
	begin(0, 3);
	made_key(&made, "k", HM_GGUF_U8, 1, 1);
	made_key(&made, "l", HM_GGUF_U8, 1, 1);
	made_key(&made, "k", HM_GGUF_U8, 1, 1);
	check_refused(folder, -EBADMSG, "key \"k\" is there twice");
	/* Told before the list has grown on: zeros are keys and tensors, too. */
	begin(0, 3);
	made_key(&made, "k", HM_GGUF_U8, 1, 1);
	made_key(&made, "k", HM_GGUF_U8, 1, 1);
	made_key(&made, "l", 13, 1, 1);
	check_refused(folder, -EBADMSG, "key \"k\" is there twice");
	begin(1ull << 60, 0);
	for (i = 0; i < 1000; i++)
		made_number(&made, 0, 1);
	check_refused(folder, -EBADMSG, "two tensors of the name \"\"");
	begin(0, 1ull << 60);
	for (i = 0; i < 1000; i++)
		made_number(&made, 0, 1);
	check_refused(folder, -EBADMSG, "key \"\" is there twice");
	begin(0, 1);
	made_key(&made, "\xff", HM_GGUF_U8, 1, 1);
	check_refused(folder, -EBADMSG, "no UTF-8");
	begin(0, 1);
	made_number(&made, 1, 8);
	made_number(&made, 0, 1);
	check_refused(folder, -EBADMSG, "'\\0'");
	begin(0, 1);
	made_number(&made, 65536, 8);
	for (i = 0; i < 1000; i++)
		made_number(&made, 'k', 8);
	check_refused(folder, -EBADMSG, "65536 bytes");
}

/* Lengths and numbers that the file does not have. */
static void lying_lengths(void)
{
	static const uint64_t lies[] = { 9,          1000,           UINT32_MAX,
					 1ull << 62, UINT64_MAX - 7, UINT64_MAX };
	AUTO_TEXT *folder = folder_make();
	uint32_t kind;
	size_t i;

	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		begin(lies[i], 0);
		check_refused(folder, -EBADMSG, "");
		begin(0, lies[i]);
		check_refused(folder, -EBADMSG, "");
		begin(0, 1);
		made_key(&made, "k", HM_GGUF_STRING, lies[i], 8);
		made_number(&made, 0, 8);
		check_refused(folder, -EBADMSG, "\"k\"");
		begin(0, 1);
		made_number(&made, lies[i], 8);
		check_refused(folder, -EBADMSG, "");
		for (kind = 0; kind <= HM_GGUF_F64; kind++) {
			if (kind == HM_GGUF_ARRAY)
				continue;
			begin(0, 1);
			made_key(&made, "k", HM_GGUF_ARRAY, kind, 4);
			made_number(&made, lies[i], 8);
			made_number(&made, 0, 8);
			check_refused(folder, -EBADMSG, "\"k\"");
		}
		/* The last string of an array. */
		begin(0, 1);
		made_key(&made, "k", HM_GGUF_ARRAY, HM_GGUF_STRING, 4);
		made_number(&made, 2, 8);
		made_string(&made, "s");
		made_number(&made, lies[i], 8);
		made_number(&made, 0, 8);
		check_refused(folder, -EBADMSG, "\"k\"");
	}
}

static void alignment_of(uint32_t kind, uint64_t number, size_t n)
{
	begin(1, 1);
	made_key(&made, "general.alignment", kind, number, n);
	made_tensor(&made, "t", HM_GGML_I8, 1, (const uint64_t[]){ 64 }, 0);
	made_data(&made, number && number < 4096 ? number : 32, 64);
}

static void keys(void)
{
	AUTO_TEXT *folder = folder_make();

	alignment_of(HM_GGUF_U32, 1, 4);
	check_refused(folder, 0, "");
	alignment_of(HM_GGUF_U32, 64, 4);
	check_refused(folder, 0, "");
	alignment_of(HM_GGUF_U32, 0, 4);
	check_refused(folder, -EBADMSG, "it is 0, and must be a power of two");
	alignment_of(HM_GGUF_U32, 48, 4);
	check_refused(folder, -EBADMSG, "it is 48, and must be a power of two");
	alignment_of(HM_GGUF_U32, 1u << 31, 4);
	check_refused(folder, -EBADMSG, "of which the file has 0");
	alignment_of(HM_GGUF_U64, 32, 8);
	check_refused(folder, -EBADMSG, "kind is u64, and must be u32");
	begin(0, 1);
	made_key(&made, "k", HM_GGUF_ARRAY, HM_GGUF_ARRAY, 4);
	made_number(&made, 0, 8);
	check_refused(folder, -EOPNOTSUPP, "\"k\": it is an array of arrays");
	begin(0, 1);
	made_key(&made, "k", 13, 0, 8);
	check_refused(folder, -EBADMSG, "kind 13");
	begin(0, 1);
	made_key(&made, "k", HM_GGUF_ARRAY, 13, 4);
	made_number(&made, 0, 8);
	check_refused(folder, -EBADMSG, "kind 13");
	begin(0, 1);
	made_key(&made, "split.count", HM_GGUF_STRING, 0, 8);
	check_refused(folder, -EBADMSG, "must be a whole number");
	begin(0, 1);
	made_key(&made, "split.no", HM_GGUF_I32, (uint64_t)-1, 4);
	check_refused(folder, -EBADMSG, "it is -1, less than 0");
}

static void versions(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "none");
	struct hm_gguf *gguf;

	made = (struct gguf_made){ 0 };
	made_begin(&made, 1, 0, 0);
	check_refused(folder, -EOPNOTSUPP, "version 1");
	made = (struct gguf_made){ 0 };
	made_begin(&made, 4, 0, 0);
	check_refused(folder, -EOPNOTSUPP, "version 4");
	made = (struct gguf_made){ 0 };
	made_begin(&made, 0, 0, 0);
	check_refused(folder, -EBADMSG, "version 0");
	begin(0, 0);
	check_refused(folder, 0, "");
	made.bytes[0] = 'g';
	check_refused(folder, -EBADMSG, "does not begin with");
	memcpy(made.bytes, "PAR1", 4);
	check_refused(folder, -EOPNOTSUPP, "Parquet");
	CHECK_ERROR(-ENOENT, hm_gguf_open(path, 0, &gguf));
	CHECK_ERROR(-EINVAL, hm_gguf_open(path, 1, &gguf));
	CHECK_ERROR(-EINVAL, hm_gguf_open(NULL, 0, &gguf));
	CHECK_ERROR(-EINVAL, hm_gguf_open(path, 0, NULL));
}

int main(int argc, char **argv)
{
	static const struct test list[] = {
		{ "cut_off", cut_off, 0, 0 },
		{ "flipped", flipped, 60, 0 },
		{ "tensors", tensors_of_all_sorts, 0, 0 },
		{ "names", names, 0, 0 },
		{ "lying_lengths", lying_lengths, 0, 0 },
		{ "keys", keys, 0, 0 },
		{ "versions", versions, 0, 0 },
		{ 0 },
	};

	return harness_main(argc, argv, "gguf_rules", list);
}
