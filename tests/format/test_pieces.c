// SPDX-License-Identifier: MIT
/* Pieces: each format is found by a file's bytes, and looks alike. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hetmap/load.h>
#include <hetmap/tokens.h>

#include "format/safetensors_support.h"
#include "format/tokens_support.h"
#include "lib/inject.h"

#define MODEL                                                                   \
	"{\"__metadata__\":{\"k\":\"v\"},"                                      \
	"\"b\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"    \
	"\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[8],\"data_offsets\":[24,30]}," \
	"\"none\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[30,30]}}"

static struct hm_device *soft_open(void)
{
	return rig_device("soft:0");
}

static struct hm_pieces_info info_of(struct hm_pieces *pieces)
{
	struct hm_pieces_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_pieces_query(pieces, &info));
	return info;
}

static struct hm_piece_info piece_of(struct hm_pieces *pieces, uint64_t index)
{
	struct hm_piece_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_pieces_at(pieces, index, &info));
	CHECK_EQUAL(info.index, index);
	return info;
}

static struct hm_pieces_file_info file_of(struct hm_pieces *pieces, uint32_t file)
{
	struct hm_pieces_file_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_pieces_file(pieces, file, &info));
	return info;
}

/* The table has each format once, and ends. */
static void test_table(void)
{
	struct hm_format_info info = { .struct_size = sizeof(info) };
	char names[256] = " ", name[64];
	uint32_t i;

	for (i = 0; !hm_pieces_format(i, &info); i++) {
		snprintf(name, sizeof(name), " %s ", info.name);
		CHECK(!strstr(names, name));
		CHECK(*info.text && *info.word);
		strcat(names, name + 1);
	}
	CHECK(strstr(names, " npy ") && strstr(names, " safetensors ") &&
	      strstr(names, " tokens "));
	CHECK_ERROR(-ERANGE, hm_pieces_format(i, &info));
	CHECK_ERROR(-ERANGE, hm_pieces_format(UINT32_MAX, &info));
	info.struct_size = sizeof(info) + 1;
	CHECK_ERROR(-E2BIG, hm_pieces_format(0, &info));
	CHECK_ERROR(-EINVAL, hm_pieces_format(0, NULL));
}

/* A model of one file: its tensors in the order of their bytes. */
static void test_model(void)
{
	AUTO_TEXT *folder = folder_make(), *copy = NULL;
	const char *path = tensors_file(folder, "by_bytes", MODEL, 30);
	struct hm_metadata note;
	AUTO(hm_pieces) *pieces = NULL;
	struct hm_piece_info b, a;
	uint64_t index;

	/* The library keeps a path of its own. */
	copy = strdup(path);
	CHECK_FATAL(copy != NULL);
	CHECK_OK_FATAL(hm_pieces_open(copy, NULL, &pieces));
	memset(copy, 'x', strlen(copy));
	CHECK(!strcmp(info_of(pieces).format, "safetensors"));
	CHECK(!strcmp(info_of(pieces).word, "tensor"));
	CHECK(info_of(pieces).files == 1 && info_of(pieces).pieces == 3);
	CHECK_EQUAL(info_of(pieces).bytes, 30);
	CHECK(!strcmp(file_of(pieces, 0).path, path));
	CHECK_EQUAL(file_of(pieces, 0).data_offset, 8 + strlen(MODEL));
	CHECK_EQUAL(file_of(pieces, 0).pieces, 3);
	CHECK(hm_map_length(file_of(pieces, 0).map) == file_of(pieces, 0).size);
	b = piece_of(pieces, 0);
	a = piece_of(pieces, 1);
	CHECK(!strcmp(b.name, "b") && b.dtype == HM_DTYPE_F32 && !strcmp(b.type, "F32"));
	CHECK(b.rank == 2 && b.shape[0] == 3 && b.shape[1] == 2);
	CHECK(b.block_elements == 1 && b.block_bytes == 4 && b.bytes == 24);
	CHECK_EQUAL(b.offset, file_of(pieces, 0).data_offset);
	/* Types of less than a byte: the fewest elements that fill bytes. */
	CHECK(a.block_elements == 4 && a.block_bytes == 3 && a.bytes == 6);
	CHECK_OK(hm_pieces_find(pieces, "none", &index));
	CHECK_EQUAL(index, 2);
	CHECK_ERROR(-ENOENT, hm_pieces_find(pieces, "c", &index));
	CHECK_OK(hm_pieces_metadata(pieces, 0, &note));
	CHECK(!strcmp(note.key, "k") && !strcmp(note.value, "v"));
	CHECK_ERROR(-ERANGE, hm_pieces_metadata(pieces, 1, &note));
	CHECK(hm_pieces_ref(pieces) == pieces && !hm_pieces_ref(NULL));
	hm_pieces_unref(pieces);
	hm_pieces_unref(NULL);
}

/* A folder: its files, an entry that the index does not list, and the first piece of each file. */
static void test_folder(void)
{
	static const char index[] = "{\"weight_map\":{\"a\":\"1.safetensors\","
				    "\"b\":\"2.safetensors\"}}";
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = NULL;

	tensors_file(folder, "1.safetensors",
		     "{\"a\":{\"dtype\":\"U8\",\"shape\":[99],\"data_offsets\":[0,99]}}", 99);
	tensors_file(folder, "2.safetensors",
		     "{\"a\":{\"dtype\":\"U8\",\"shape\":[7],\"data_offsets\":[0,7]},"
		     "\"b\":{\"dtype\":\"U8\",\"shape\":[50],\"data_offsets\":[7,57]}}",
		     57);
	file_write(folder, "model.safetensors.index.json", index, strlen(index));
	pieces = pieces_open(folder);
	CHECK(info_of(pieces).files == 2 && info_of(pieces).pieces == 2);
	CHECK_EQUAL(info_of(pieces).ignored, 1);
	CHECK(file_of(pieces, 1).first == 1 && file_of(pieces, 1).pieces == 1);
	CHECK_EQUAL(piece_of(pieces, 1).file, 1);
}

/* An array of numpy's, of a type that the library has and of one that it lacks. */
static void test_array(void)
{
	char *folder = folder_make(), *path;
	const char bytes[24] = "abcdefghijklmnopqrstuvw";
	struct hm_metadata note;
	struct hm_pieces *pieces;
	struct hm_piece_info array;

	path = tokens_npy(folder, "named_otherwise", 1, ">u4", true, "(3, 2)", bytes, 24);
	pieces = pieces_open(path);
	array = piece_of(pieces, 0);
	CHECK(!strcmp(info_of(pieces).format, "npy") && info_of(pieces).pieces == 1);
	CHECK(!strcmp(array.name, "array") && array.dtype == HM_DTYPE_U32);
	CHECK(array.rank == 2 && array.shape[0] == 3 && array.bytes == 24);
	CHECK_EQUAL(info_of(pieces).metadata, 2);
	CHECK_OK(hm_pieces_metadata(pieces, 1, &note));
	CHECK(!strcmp(note.key, "byte order"));
	CHECK(!memcmp((char *)hm_map_address(file_of(pieces, 0).map) + array.offset, bytes,
		      24));
	hm_pieces_unref(pieces);
	free(path);
	path = tokens_npy(folder, "a", 1, "<M8[ns]", false, "(3,)", bytes, 24);
	pieces = pieces_open(path);
	array = piece_of(pieces, 0);
	CHECK(array.dtype == HM_DTYPE_OPAQUE && !strcmp(array.type, "<M8[ns]"));
	CHECK(array.block_elements == 1 && array.block_bytes == 8);
	CHECK_EQUAL(info_of(pieces).metadata, 0);
	hm_pieces_unref(pieces);
	free(path);
	folder_remove(folder);
}

/* Numbers without a header: only the caller knows their type. */
static void test_numbers(void)
{
	const struct hm_tokens_desc raw = { .struct_size = sizeof(raw), .dtype = HM_DTYPE_I32 };
	struct hm_pieces_desc desc = { .struct_size = sizeof(desc) };
	AUTO_TEXT *folder = folder_make(), *a = folder_path(folder, "a"), *npy = NULL,
		  *u2 = NULL;
	const char *more[1];
	struct hm_pieces *pieces = UNTOUCHED;

	file_write(folder, "a", "abcdefghijkl", 12);
	npy = tokens_npy(folder, "b.npy", 1, "<i4", false, "(2,)", "abcdefgh", 8);
	CHECK_ERROR(-EINVAL, hm_pieces_open(a, NULL, &pieces));
	u2 = tokens_npy(folder, "c.npy", 1, "<u2", false, "(2,)", "abcd", 4);
	more[0] = u2;
	desc.more = more;
	desc.n_more = 1;
	CHECK_ERROR(-EINVAL, hm_pieces_open(a, &desc, &pieces));
	CHECK(strstr(hm_errmsg(), "no type of its own") != NULL);
	CHECK(pieces == UNTOUCHED);
	more[0] = npy;
	desc.raw = &raw;
	CHECK_OK_FATAL(hm_pieces_open(a, &desc, &pieces));
	CHECK(!strcmp(info_of(pieces).format, "tokens"));
	CHECK(!strcmp(info_of(pieces).word, "shard"));
	CHECK(info_of(pieces).pieces == 2 && info_of(pieces).bytes == 20);
	CHECK(!strcmp(piece_of(pieces, 1).name, "shard 1"));
	CHECK(piece_of(pieces, 0).shape[0] == 3 && piece_of(pieces, 1).shape[0] == 2);
	hm_pieces_unref(pieces);
	desc.n_more = 0;
	CHECK_OK_FATAL(hm_pieces_open(a, &desc, &pieces));
	CHECK(!strcmp(piece_of(pieces, 0).name, "tokens"));
	hm_pieces_unref(pieces);
	/* The first bytes decide, also where numbers would do. */
	desc.raw = &raw;
	CHECK_OK_FATAL(hm_pieces_open(npy, &desc, &pieces));
	CHECK(!strcmp(info_of(pieces).format, "npy"));
	hm_pieces_unref(pieces);
}

static void finds(const char *path, const struct hm_pieces_desc *desc, const char *name)
{
	struct hm_format_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_pieces_probe(path, desc, &info));
	if (strcmp(info.name, name) != 0)
		test_fail(__FILE__, __LINE__, "%s is %s, not %s", path, info.name, name);
}

static void finds_none(const char *path, int r, const char *text)
{
	struct hm_format_info info = { .struct_size = sizeof(info), .name = UNTOUCHED };

	CHECK_ERROR(r, hm_pieces_probe(path, NULL, &info));
	if (!strstr(hm_errmsg(), text) || !strstr(hm_errmsg(), path))
		test_fail(__FILE__, __LINE__, "no '%s' in: %s", text, hm_errmsg());
	CHECK(info.name == UNTOUCHED);
}

/* By bytes first, then by name, which damaged files have, too. */
static void test_probe(void)
{
	const struct hm_tokens_desc numbers = { .struct_size = sizeof(numbers) };
	const struct hm_pieces_desc raw = { .struct_size = sizeof(raw), .raw = &numbers };
	char *folder = folder_make(), *path;

	finds(folder, NULL, "safetensors");
	finds(tensors_file(folder, "a.npy", "{}", 0), NULL, "safetensors");
	path = tokens_npy(folder, "a.safetensors", 1, "<i4", false, "(1,)", "abcd", 4);
	finds(path, NULL, "npy");
	file_write(folder, "a.safetensors", "damaged beyond what its bytes tell", 34);
	finds(path, NULL, "safetensors");
	finds(path, &raw, "safetensors");
	free(path);
	path = folder_path(folder, "a.npy");
	file_write(folder, "a.npy", "damaged beyond what its bytes tell", 34);
	finds(path, NULL, "npy");
	/* Raw numbers may be in files of that name. */
	finds(path, &raw, "tokens");
	file_write(folder, "a.npy", "PAR1 and so on", 14);
	finds_none(path, -EOPNOTSUPP, "Parquet");
	free(path);
	path = folder_path(folder, "a");
	file_write(folder, "a", "some text of no format", 22);
	finds_none(path, -EINVAL, "known are npy (");
	file_write(folder, "a", "", 0);
	finds_none(path, -ENODATA, "empty");
	CHECK(!unlink(path));
	finds_none(path, -ENOENT, "ENOENT");
	CHECK(!mkfifo(path, 0600));
	finds_none(path, -EINVAL, "no regular file");
	free(path);
	folder_remove(folder);
}

static void test_arguments(void)
{
	struct hm_pieces_desc desc = { .struct_size = sizeof(desc) };
	struct hm_pieces_info info = { .struct_size = sizeof(info) };
	struct hm_pieces_file_info file = { .struct_size = sizeof(file) };
	struct hm_piece_info piece = { .struct_size = sizeof(piece) };
	struct hm_format_info format = { .struct_size = sizeof(format) };
	struct hm_pieces *pieces, *none = UNTOUCHED;
	AUTO_TEXT *folder = folder_make();
	const char *path = tensors_file(folder, "a", MODEL, 30);
	uint64_t index = 5;

	CHECK_ERROR(-EINVAL, hm_pieces_open(NULL, NULL, &none));
	CHECK_ERROR(-EINVAL, hm_pieces_open(path, NULL, NULL));
	desc.flags = 1;
	CHECK_ERROR(-EINVAL, hm_pieces_open(path, &desc, &none));
	desc.flags = 0;
	desc.n_more = 1;
	CHECK_ERROR(-EINVAL, hm_pieces_open(path, &desc, &none));
	CHECK_ERROR(-EINVAL, hm_pieces_probe(path, &desc, &format));
	/* No sum with the first path may overflow. */
	desc.more = &path;
	desc.n_more = UINT32_MAX;
	CHECK_ERROR(-EINVAL, hm_pieces_open(path, &desc, &none));
	CHECK_ERROR(-EINVAL, hm_pieces_probe(path, NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_pieces_probe(NULL, NULL, &format));
	CHECK(none == UNTOUCHED);
	pieces = pieces_open(path);
	CHECK_ERROR(-EINVAL, hm_pieces_query(pieces, NULL));
	CHECK_ERROR(-EINVAL, hm_pieces_query(NULL, &info));
	CHECK_ERROR(-ERANGE, hm_pieces_file(pieces, 1, &file));
	CHECK_ERROR(-ERANGE, hm_pieces_at(pieces, 3, &piece));
	CHECK_ERROR(-EINVAL, hm_pieces_find(pieces, NULL, &index));
	CHECK_ERROR(-EINVAL, hm_pieces_metadata(pieces, 0, NULL));
	CHECK_EQUAL(index, 5);
	info.struct_size = file.struct_size = piece.struct_size = format.struct_size = 1000;
	CHECK_ERROR(-E2BIG, hm_pieces_query(pieces, &info));
	CHECK_ERROR(-E2BIG, hm_pieces_file(pieces, 0, &file));
	CHECK_ERROR(-E2BIG, hm_pieces_at(pieces, 0, &piece));
	CHECK_ERROR(-E2BIG, hm_pieces_probe(path, NULL, &format));
	hm_pieces_unref(pieces);
}

/* Each call that can fail fails once: nothing is left open, and the result is untouched. */
static void open_failing(const char *path, const struct hm_pieces_desc *desc)
{
	struct hm_pieces *pieces;
	bool failed = true;
	unsigned int n;
	int r;

	for (n = 1; failed; n++) {
		pieces = UNTOUCHED;
		inject_arm(n, INJECT_ONE);
		r = hm_pieces_open(path, desc, &pieces);
		failed = inject_disarm();
		if (r)
			CHECK(failed && pieces == UNTOUCHED && *hm_errmsg());
		else
			hm_pieces_unref(pieces);
		inject_forgive();
	}
	CHECK(n > 10);
}

static void test_failures(void)
{
	const struct hm_tokens_desc numbers = { .struct_size = sizeof(numbers) };
	AUTO_TEXT *folder = folder_make(), *npy = NULL, *plain = folder_path(folder, "plain");

	npy = tokens_npy(folder, "a.npy", 1, "<i4", false, "(1,)", "abcd", 4);
	file_write(folder, "plain", "abcdefgh", 8);
	inject_install();
	open_failing(tensors_file(folder, "a", MODEL, 30), NULL);
	open_failing(npy, NULL);
	open_failing(plain, DESC(hm_pieces_desc, .raw = &numbers));
}

static void check_place(struct hm_load *load, const struct hm_load_place *place,
			const void *bytes, uint64_t n)
{
	struct hm_load_info info = { .struct_size = sizeof(info) };

	CHECK_EQUAL(place->bytes, n);
	CHECK_OK_FATAL(hm_load_query(load, &info));
	CHECK_OK_FATAL(hm_map_begin_cpu(info.map, place->offset, n, HM_READ));
	CHECK(!memcmp(place->address, bytes, n));
	CHECK_OK(hm_map_end_cpu(info.map, place->offset, n, HM_READ));
}

/* A load takes pieces of any format: an array, and tokens with a header before them. */
static void test_load(void)
{
	const struct hm_tokens_desc numbers = { .struct_size = sizeof(numbers), .offset = 2 };
	struct hm_load_place place = { .struct_size = sizeof(place) };
	char *folder = folder_make(), *path, bytes[9000];
	AUTO(hm_device) *device = soft_open();
	struct hm_pieces *pieces;
	struct hm_load *load;
	size_t i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)data_byte(i);
	path = tokens_npy(folder, "a", 1, "|S3", false, "(3000,)", bytes, sizeof(bytes));
	pieces = pieces_open(path);
	CHECK_OK_FATAL(hm_load_create(device, pieces, NULL, &load));
	hm_pieces_unref(pieces);
	CHECK_OK_FATAL(hm_load_find(load, "array", &place));
	check_place(load, &place, bytes, sizeof(bytes));
	hm_load_unref(load);
	free(path);

	file_write(folder, "a", bytes, sizeof(bytes));
	path = folder_path(folder, "a");
	CHECK_OK_FATAL(hm_pieces_open(path, DESC(hm_pieces_desc, .raw = &numbers), &pieces));
	CHECK_OK_FATAL(hm_load_create(device, pieces, NULL, &load));
	hm_pieces_unref(pieces);
	CHECK_OK_FATAL(hm_load_piece(load, 0, &place));
	check_place(load, &place, bytes + 2, sizeof(bytes) - 2);
	hm_load_unref(load);
	free(path);
	folder_remove(folder);
}

/* Tokens that are read, and not mapped, have no pages to load from. */
static void test_no_map(void)
{
	const struct hm_tokens_desc numbers = { .struct_size = sizeof(numbers),
						.flags = HM_TOKENS_READ };
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a");
	AUTO(hm_device) *device = soft_open();
	struct hm_load *load = UNTOUCHED;
	AUTO(hm_pieces) *pieces = NULL;

	file_write(folder, "a", "abcdefgh", 8);
	CHECK_OK_FATAL(hm_pieces_open(path, DESC(hm_pieces_desc, .raw = &numbers), &pieces));
	CHECK(!file_of(pieces, 0).map);
	CHECK_ERROR(-EOPNOTSUPP, hm_load_create(device, pieces, NULL, &load));
	CHECK(strstr(hm_errmsg(), "is not mapped") && load == UNTOUCHED);
}

static const struct test tests[] = {
	{ "table", test_table, 0, 0 },
	{ "model", test_model, 0, 0 },
	{ "folder", test_folder, 0, 0 },
	{ "array", test_array, 0, 0 },
	{ "numbers", test_numbers, 0, 0 },
	{ "probe", test_probe, 0, 0 },
	{ "arguments", test_arguments, 0, 0 },
	{ "failures", test_failures, 60, 0 },
	{ "load", test_load, 60, 0 },
	{ "no_map", test_no_map, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "pieces", tests)
