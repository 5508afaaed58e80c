// SPDX-License-Identifier: MIT
/* GGUF files that are right: metadata of every kind, tensors in place, split models, pieces. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/pieces.h>

#include "format/gguf_support.h"
#include "lib/inject.h"

static struct gguf_made made;

static void check_numbers(struct hm_gguf *gguf)
{
	CHECK(value_of(gguf, "u8").u64 == 200 && value_of(gguf, "u8").i64 == 200);
	CHECK(value_of(gguf, "i8").i64 == -3 && !value_of(gguf, "i8").u64);
	CHECK_EQUAL(value_of(gguf, "u16").u64, 65535);
	CHECK(value_of(gguf, "i16").i64 == -300);
	CHECK_EQUAL(value_of(gguf, "u32").u64, 1u << 31);
	CHECK(value_of(gguf, "i32").i64 == -70000);
	CHECK(value_of(gguf, "f32").f64 == 1.5 && !value_of(gguf, "f32").u64);
	CHECK(value_of(gguf, "bool").u64 == 1);
	CHECK(value_of(gguf, "u64").u64 == 1ull << 63 && !value_of(gguf, "u64").i64);
	CHECK(value_of(gguf, "i64").i64 == -5000000000);
	CHECK(value_of(gguf, "f64").f64 == -0.5);
	CHECK(value_of(gguf, "i8").f64 == -3.0);
}

static int element(struct hm_gguf *gguf, const char *key, uint64_t number,
		   struct hm_gguf_value *ret_value)
{
	uint64_t index = 0;

	*ret_value = (struct hm_gguf_value){ .struct_size = sizeof(*ret_value) };
	CHECK_OK_FATAL(hm_gguf_metadata_find(gguf, key, &index));
	return hm_gguf_element(gguf, index, number, ret_value);
}

static void check_arrays(struct hm_gguf *gguf)
{
	static const char *const strings[] = { "one", "", "three" };
	static const int64_t numbers[] = { 1, -2, 3 };
	struct hm_gguf_value value = value_of(gguf, "strings");
	uint64_t i;

	CHECK(value.kind == HM_GGUF_ARRAY && value.element_kind == HM_GGUF_STRING);
	CHECK(value.count == 3 && !value.string);
	for (i = 0; i < 3; i++) {
		CHECK_OK_FATAL(element(gguf, "strings", i, &value));
		CHECK(value.kind == HM_GGUF_STRING && !strcmp(value.string, strings[i]));
		CHECK_EQUAL(value.length, strlen(strings[i]));
		CHECK_OK_FATAL(element(gguf, "numbers", i, &value));
		CHECK(value.kind == HM_GGUF_I16 && value.i64 == numbers[i]);
	}
	CHECK_ERROR(-ERANGE, element(gguf, "strings", 3, &value));
	CHECK_ERROR(-ERANGE, element(gguf, "empty", 0, &value));
	CHECK(value_of(gguf, "empty").element_kind == HM_GGUF_F64);
	/* The value of another kind has one element. */
	CHECK_OK(element(gguf, "u8", 0, &value));
	CHECK(value.u64 == 200);
	CHECK_ERROR(-ERANGE, element(gguf, "u8", 1, &value));
	value = value_of(gguf, "text");
	CHECK(!strcmp(value.string, "h\xc3\xa9llo") && value.length == 6);
}

static void check_tensors(struct hm_gguf *gguf, bool swapped)
{
	struct hm_gguf_tensor_info a = gguf_tensor_of(gguf, "a"), b = gguf_tensor_of(gguf, "b");
	struct hm_gguf_tensor_info q = gguf_tensor_of(gguf, "q");
	struct hm_tensor_place place = { .struct_size = sizeof(place) };
	struct hm_tensor *tensor = NULL;
	unsigned char bytes[36];
	unsigned int i;

	/* By offset, whatever the order of the list. */
	CHECK(a.index == 0 && b.index == 1 && q.index == 2);
	CHECK(a.rank == 2 && a.ne[0] == 2 && a.ne[1] == 3 && a.shape[0] == 3 &&
	      a.shape[1] == 2);
	CHECK(a.type == HM_GGML_F32 && !strcmp(a.type_name, "F32") && a.bytes == 24);
	CHECK(a.dtype == (swapped ? (uint32_t)HM_DTYPE_OPAQUE : (uint32_t)HM_DTYPE_F32));
	CHECK(a.swapped == swapped && q.swapped == swapped);
	/* A byte has no order. */
	CHECK(b.dtype == HM_DTYPE_I8 && !b.swapped && b.bytes == 5);
	CHECK(q.dtype == HM_DTYPE_OPAQUE && q.block_elements == 32 && q.block_bytes == 18);
	CHECK(q.bytes == 36 && a.alignment >= 32 && q.offset == a.offset + 64);

	CHECK_OK_FATAL(hm_gguf_tensor(gguf, q.index, 32, 0, &tensor));
	CHECK_OK(hm_tensor_query(tensor, &place));
	CHECK(!place.copied && place.bytes == 36 && place.rank == 1 && place.shape[0] == 64);
	CHECK_OK(hm_gguf_read(gguf, q.index, bytes, sizeof(bytes)));
	for (i = 0; i < 36; i++)
		CHECK(((unsigned char *)hm_tensor_address(tensor))[i] == 64 + i &&
		      bytes[i] == 64 + i);
	hm_tensor_unref(tensor);
	CHECK_ERROR(-EXDEV, hm_gguf_tensor(gguf, 1, 4096, 0, &tensor));
	CHECK_OK_FATAL(hm_gguf_tensor(gguf, 1, 4096, HM_TENSOR_MAY_COPY, &tensor));
	CHECK_OK(hm_tensor_query(tensor, &place));
	CHECK(place.copied && ((unsigned char *)place.address)[4] == 36);
	hm_tensor_unref(tensor);
	CHECK_ERROR(-ENOSPC, hm_gguf_read(gguf, 0, bytes, 23));
	CHECK_ERROR(-ERANGE, hm_gguf_read(gguf, 3, bytes, sizeof(bytes)));
	CHECK_ERROR(-ERANGE, hm_gguf_tensor(gguf, 3, 0, 0, &tensor));
	CHECK_ERROR(-EINVAL, hm_gguf_tensor(gguf, 0, 3, 0, &tensor));
	CHECK_ERROR(-EINVAL, hm_gguf_tensor(gguf, 0, 0, 2, &tensor));
}

/* Both versions, both byte orders. */
static void reads(void)
{
	struct hm_gguf_info info = { .struct_size = sizeof(info) };
	struct hm_gguf_file_info file = { .struct_size = sizeof(file) };
	struct hm_gguf_tensor_info none = { .struct_size = sizeof(none) };
	struct hm_gguf_value value = { .struct_size = sizeof(value) };
	AUTO_TEXT *folder = folder_make();
	struct hm_gguf *gguf;
	uint64_t index;
	unsigned int i;
	bool big;

	for (i = 0; i < 4; i++) {
		big = i & 1;
		made_whole(&made, 2 + i / 2, big);
		gguf = gguf_opened(made_file(&made, made.n, folder, "a.gguf"));
		CHECK_OK(hm_gguf_query(gguf, &info));
		CHECK(info.version == 2 + i / 2 && info.files == 1 && info.big_endian == big);
		CHECK(info.swapped == (big == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)));
		CHECK(info.alignment == 32 && info.tensors == 3 && info.metadata == 15);
		CHECK_EQUAL(info.bytes, 24 + 5 + 36);
		CHECK_OK(hm_gguf_file(gguf, 0, &file));
		CHECK(file.size == made.n && file.data_offset == made.n - 100);
		CHECK(!file.first && file.tensors == 3);
		CHECK_ERROR(-ERANGE, hm_gguf_file(gguf, 1, &file));
		check_numbers(gguf);
		check_arrays(gguf);
		check_tensors(gguf, info.swapped);
		CHECK_ERROR(-ENOENT, hm_gguf_find(gguf, "c", &index));
		CHECK_ERROR(-ENOENT, hm_gguf_metadata_find(gguf, "c", &index));
		CHECK_ERROR(-ERANGE, hm_gguf_at(gguf, 3, &none));
		CHECK_ERROR(-ERANGE, hm_gguf_metadata(gguf, 15, &value));
		CHECK(hm_gguf_ref(gguf) == gguf && !hm_gguf_ref(NULL));
		hm_gguf_unref(gguf);
		hm_gguf_unref(gguf);
	}
	hm_gguf_unref(NULL);
}

/* Tensors are pieces, and keys are notes. */
static void are_pieces(void)
{
	struct hm_pieces_info info = { .struct_size = sizeof(info) };
	struct hm_piece_info piece = { .struct_size = sizeof(piece) };
	AUTO_TEXT *folder = folder_make();
	struct hm_metadata note;
	struct hm_pieces *pieces = NULL;
	const char *path;

	made_whole(&made, 3, false);
	path = made_file(&made, made.n, folder, "any name");
	CHECK_OK_FATAL(hm_pieces_open(path, NULL, &pieces));
	CHECK_OK(hm_pieces_query(pieces, &info));
	CHECK(!strcmp(info.format, "gguf") && info.pieces == 3 && info.metadata == 15);
	CHECK_OK(hm_pieces_at(pieces, 2, &piece));
	CHECK(!strcmp(piece.type, "Q4_0") && piece.dtype == HM_DTYPE_OPAQUE);
	CHECK(piece.block_elements == 32 && piece.block_bytes == 18);
	CHECK_OK(hm_pieces_at(pieces, 0, &piece));
	CHECK(piece.shape[0] == 3 && piece.shape[1] == 2);
	CHECK_OK(hm_pieces_metadata(pieces, 13, &note));
	CHECK(!strcmp(note.key, "strings") && !strcmp(note.value, "array of 3 strings"));
	CHECK_OK(hm_pieces_metadata(pieces, 1, &note));
	CHECK(!strcmp(note.value, "-3"));
	hm_pieces_unref(pieces);

	made_whole(&made, 3, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
	CHECK_OK_FATAL(hm_pieces_open(made_file(&made, made.n, folder, "b"), NULL, &pieces));
	CHECK_OK(hm_pieces_at(pieces, 0, &piece));
	CHECK(piece.dtype == HM_DTYPE_OPAQUE && strstr(piece.type, "-endian"));
	CHECK_OK(hm_pieces_metadata(pieces, 15, &note));
	CHECK(!strcmp(note.key, "byte order"));
	hm_pieces_unref(pieces);
}

/* ---- split models ---- */

static void make_shard(const char *folder, const char *name, unsigned int no,
		       unsigned int count, unsigned int total)
{
	const char tensor[] = { (char)('a' + no), 0 };

	made = (struct gguf_made){ 0 };
	made_begin(&made, 3, 1, no ? 3 : 4);
	made_key(&made, "split.no", HM_GGUF_U16, no, 2);
	made_key(&made, "split.count", HM_GGUF_U16, count, 2);
	made_key(&made, "split.tensors.count", HM_GGUF_I32, total, 4);
	if (!no)
		made_key(&made, "k", HM_GGUF_U8, 7, 1);
	made_tensor(&made, tensor, HM_GGML_I8, 1, (const uint64_t[]){ 8 }, 0);
	made_data(&made, 32, 8);
	made_file(&made, made.n, folder, name);
}

static int open_in(const char *folder, const char *name, struct hm_gguf **ret_gguf)
{
	AUTO_TEXT *path = folder_path(folder, name);

	return hm_gguf_open(path, 0, ret_gguf);
}

static void opens_all_files(void)
{
	static const char *const names[] = { "m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
					     "m-00003-of-00003.gguf" };
	struct hm_gguf_info info = { .struct_size = sizeof(info) };
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct hm_gguf *gguf = NULL;
	unsigned int i;

	for (i = 0; i < 3; i++)
		make_shard(folder, names[i], i, 3, 3);
	for (i = 0; i < 3; i++) {
		CHECK_OK_FATAL(open_in(folder, names[i], &gguf));
		CHECK_OK(hm_gguf_query(gguf, &info));
		CHECK(info.files == 3 && info.tensors == 3 && info.metadata == 4);
		CHECK(gguf_tensor_of(gguf, "c").file == 2 &&
		      gguf_tensor_of(gguf, "a").file == 0);
		CHECK(value_of(gguf, "split.no").u64 == 0 && value_of(gguf, "k").u64 == 7);
		hm_gguf_unref(gguf);
	}
	/* Files that do not belong together. */
	make_shard(folder, names[1], 1, 3, 4);
	make_shard(folder, names[0], 0, 3, 4);
	CHECK_ERROR(-EBADMSG, open_in(folder, names[1], &gguf));
	CHECK(strstr(hm_errmsg(), "split.tensors.count is 4"));
	make_shard(folder, names[0], 0, 3, 3);
	make_shard(folder, names[1], 2, 3, 3);
	CHECK_ERROR(-EBADMSG, open_in(folder, names[0], &gguf));
	CHECK_ERROR(-EBADMSG, open_in(folder, names[1], &gguf));
	make_shard(folder, names[1], 0, 1, 1);
	CHECK_ERROR(-EBADMSG, open_in(folder, names[0], &gguf));
	/* A key twice in a further file, and in the first one, too. */
	made = (struct gguf_made){ 0 };
	made_begin(&made, 3, 0, 4);
	made_key(&made, "k", HM_GGUF_U8, 7, 1);
	made_key(&made, "split.no", HM_GGUF_U16, 1, 2);
	made_key(&made, "split.count", HM_GGUF_U16, 3, 2);
	made_key(&made, "k", HM_GGUF_U8, 8, 1);
	made_file(&made, made.n, folder, names[1]);
	make_shard(folder, names[0], 0, 3, 2);
	CHECK_ERROR(-EBADMSG, open_in(folder, names[0], &gguf));
	CHECK(strstr(hm_errmsg(), "key \"k\" is there twice"));
	make_shard(folder, names[0], 0, 3, 3);
	/* The missing one is named. */
	path = folder_path(folder, names[1]);
	unlink(path);
	CHECK_ERROR(-ENOENT, open_in(folder, names[2], &gguf));
	CHECK(strstr(hm_errmsg(), names[1]) && strstr(hm_errmsg(), "file 2 of the 3"));
	make_shard(folder, "other.gguf", 0, 3, 3);
	CHECK_ERROR(-EINVAL, open_in(folder, "other.gguf", &gguf));
	CHECK(strstr(hm_errmsg(), "-00001-of-00003.gguf"));
	/* A name alone makes no split model. */
	make_shard(folder, "x-00002-of-00003.gguf", 0, 1, 1);
	CHECK_OK_FATAL(open_in(folder, "x-00002-of-00003.gguf", &gguf));
	hm_gguf_unref(gguf);
}

/* ---- long contents ---- */

/* Strings across the window's end, longer than it, and an array that is read when it is used. */
static void reads_long_ones(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "long"), *text = NULL;
	const char *strings[2000];
	struct hm_gguf_pair pairs[2] = {
		{ "strings", HM_GGUF_ARRAY, HM_GGUF_STRING, 2000, strings },
		{ "text", HM_GGUF_STRING, 0, 0, &strings[0] },
	};
	struct hm_gguf_value value;
	struct hm_gguf *gguf;
	size_t length = 300000;
	unsigned int i;

	text = malloc(length + 1);
	CHECK_FATAL(text != NULL);
	memset(text, 'x', length);
	text[length] = '\0';
	for (i = 0; i < 2000; i++)
		strings[i] = text + (i % 500 ? length - i : 0);
	CHECK_OK_FATAL(
		hm_gguf_write(path, DESC(hm_gguf_desc, .metadata = pairs, .n_metadata = 2)));
	gguf = gguf_opened(path);
	value = value_of(gguf, "text");
	CHECK(value.length == length && !strcmp(value.string, text));
	for (i = 0; i < 2000; i += 7) {
		CHECK_OK_FATAL(element(gguf, "strings", i, &value));
		CHECK(value.length == strlen(strings[i]) && !strcmp(value.string, strings[i]));
	}
	hm_gguf_unref(gguf);

	/* Cut off before it is used: an error, and no signal. */
	gguf = gguf_opened(path);
	CHECK_FATAL(!truncate(path, 4096));
	CHECK_ERROR(-ENODATA, element(gguf, "strings", 1999, &value));
	hm_gguf_unref(gguf);
}

/* The n-th call fails: nothing is leaked, and nothing is returned. */
static void opens_failing(void)
{
	AUTO_TEXT *folder = folder_make();
	struct hm_gguf *gguf;
	bool failed = true;
	const char *path;
	unsigned int n;
	int r;

	made_whole(&made, 3, false);
	path = made_file(&made, made.n, folder, "a");
	make_table();
	inject_install();
	for (n = 1; failed; n++) {
		gguf = (void *)0x10;
		inject_arm(n, INJECT_ONE);
		r = hm_gguf_open(path, 0, &gguf);
		failed = inject_disarm();
		if (r)
			CHECK(failed && gguf == (void *)0x10 && *hm_errmsg());
		else
			hm_gguf_unref(gguf);
		inject_forgive();
	}
	CHECK(n > 10);
}

static void types(void)
{
	struct hm_gguf_type_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_gguf_type(HM_GGML_Q6_K, &info));
	CHECK(!strcmp(info.name, "Q6_K") && info.block_elements == 256 &&
	      info.block_bytes == 210);
	CHECK(info.dtype == HM_DTYPE_OPAQUE);
	CHECK_OK(hm_gguf_type(HM_GGML_BF16, &info));
	CHECK(info.dtype == HM_DTYPE_BF16 && info.block_elements == 1);
	CHECK_ERROR(-EOPNOTSUPP, hm_gguf_type(4, &info));
	CHECK(strstr(hm_errmsg(), "Q4_2"));
	CHECK_ERROR(-EOPNOTSUPP, hm_gguf_type(31, &info));
	CHECK(strstr(hm_errmsg(), "Q4_0_4_4"));
	CHECK_OK(hm_gguf_type(HM_GGML_Q2_0, &info));
	CHECK(info.block_elements == 64 && info.block_bytes == 18);
	CHECK_ERROR(-ERANGE, hm_gguf_type(43, &info));
	CHECK_ERROR(-EINVAL, hm_gguf_type(0, NULL));
}

/* Blocks whose parts are single bytes are the same in either byte order. */
static void has_no_order(void)
{
	static const uint64_t ne[] = { 64 };
	struct hm_piece_info piece = { .struct_size = sizeof(piece) };
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = NULL;
	struct hm_gguf *gguf;
	const char *path;

	made = (struct gguf_made){ .big = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ };
	made_begin(&made, 3, 3, 0);
	made_tensor(&made, "m", HM_GGML_MXFP4, 1, ne, 0);
	made_tensor(&made, "n", HM_GGML_NVFP4, 1, ne, 64);
	made_tensor(&made, "q", HM_GGML_Q8_0, 1, ne, 128);
	made_data(&made, 32, 128 + 68);
	path = made_file(&made, made.n, folder, "a.gguf");
	gguf = gguf_opened(path);
	CHECK(!gguf_tensor_of(gguf, "m").swapped && !gguf_tensor_of(gguf, "n").swapped);
	CHECK(gguf_tensor_of(gguf, "q").swapped);
	hm_gguf_unref(gguf);
	CHECK_OK_FATAL(hm_pieces_open(path, NULL, &pieces));
	CHECK_OK(hm_pieces_at(pieces, 0, &piece));
	CHECK(!strcmp(piece.type, "MXFP4"));
	CHECK_OK(hm_pieces_at(pieces, 2, &piece));
	CHECK(!strncmp(piece.type, "Q8_0 ", 5));
}

/* A string of which a sparse file has any amount is no note. */
static void has_short_notes(void)
{
	AUTO_TEXT *folder = folder_make();
	struct hm_metadata note;
	AUTO(hm_pieces) *pieces = NULL;
	const char *path;

	made = (struct gguf_made){ 0 };
	made_begin(&made, 3, 0, 1);
	made_key(&made, "k", HM_GGUF_STRING, 1ull << 30, 8);
	path = made_file(&made, made.n, folder, "a.gguf");
	CHECK_EQUAL(truncate(path, (off_t)(made.n + (1ull << 30))), 0);
	CHECK_OK_FATAL(hm_pieces_open(path, NULL, &pieces));
	CHECK_OK(hm_pieces_metadata(pieces, 0, &note));
	CHECK(!strcmp(note.value, "string of 1073741824 bytes"));
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "reads", reads, 0, 0 },
		{ "are_pieces", are_pieces, 0, 0 },
		{ "opens_all_files", opens_all_files, 0, 0 },
		{ "reads_long_ones", reads_long_ones, 0, 0 },
		{ "opens_failing", opens_failing, 0, 0 },
		{ "types", types, 0, 0 },
		{ "has_no_order", has_no_order, 0, 0 },
		{ "has_short_notes", has_short_notes, 0, 0 },
		{ 0 },
	};

	return harness_main(argc, argv, "gguf", tests);
}
