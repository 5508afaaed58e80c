// SPDX-License-Identifier: MIT
/* Models of several files by their index, and slices of tensors. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/inject.h"
#include "format/safetensors_support.h"

#define INDEX "model.safetensors.index.json"
#define SHARD(name, bytes) \
	"{\"" name "\":{\"dtype\":\"U8\",\"shape\":[" bytes "],\"data_offsets\":[0," bytes "]}}"

static char *model_folder(void)
{
	char *folder = folder_make();

	tensors_file(folder, "two.safetensors",
		     "{\"c\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
		     "\"__metadata__\":{\"k\":\"second\",\"only\":\"here\"}}",
		     3);
	tensors_file(folder, "one.safetensors",
		     "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]},"
		     "\"a\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]},"
		     "\"__metadata__\":{\"k\":\"first\"}}",
		     6);
	return folder;
}

static char *put_index(const char *folder, const char *text)
{
	file_write(folder, INDEX, text, strlen(text));
	return folder_path(folder, INDEX);
}

static void shards(void)
{
	static const char *const names[] = { "a", "b", "c" };
	struct hm_safetensors_info all = { .struct_size = sizeof(all) };
	struct hm_tensor_info info = { .struct_size = sizeof(info) };
	struct hm_shard_info shard = { .struct_size = sizeof(shard) };
	AUTO_TEXT *folder = model_folder(), *path = NULL;
	struct hm_safetensors *safetensors;
	struct hm_tensor *tensor;
	const char *value;
	unsigned int before;
	uint64_t i;

	path = put_index(folder, "{\"metadata\":{\"total_size\":9,\"x\":[1.5e3,-2,true,null,"
				 "{\"y\":\"z\"},[]]},\"weight_map\":{\"c\":\"two.safetensors\","
				 "\"a\":\"one.safetensors\",\"b\":\"one.safetensors\"}}\n");
	make_table();
	before = test_holding_now().fds;
	safetensors = tensors_open(path);
	/* Each is opened once. */
	CHECK_EQUAL(test_holding_now().fds, before + 2);
	CHECK_OK(hm_safetensors_query(safetensors, &all));
	CHECK_EQUAL(all.shards, 2);
	CHECK_EQUAL(all.tensors, 3);
	CHECK_EQUAL(all.bytes, 9);
	for (i = 0; i < 3; i++) {
		CHECK_OK(hm_safetensors_tensor(safetensors, HM_TENSORS_BY_OFFSET, i, &info));
		CHECK(!strcmp(info.name, names[i]));
		CHECK_EQUAL(info.shard, i == 2);
		CHECK_EQUAL(tensor_info(safetensors, names[i]).index, i);
	}
	CHECK_OK(hm_safetensors_shard(safetensors, 1, &shard));
	CHECK(strstr(shard.path, "/two.safetensors") != NULL);
	CHECK_EQUAL(shard.first, 2);
	CHECK_EQUAL(shard.tensors, 1);
	CHECK_OK(hm_safetensors_view(safetensors, 2, NULL, 0, 0, 0, &tensor));
	CHECK_EQUAL(*(unsigned char *)hm_tensor_address(tensor), data_byte(0));
	hm_tensor_unref(tensor);
	CHECK_OK(hm_safetensors_metadata_find(safetensors, "k", &value));
	CHECK(!strcmp(value, "first"));
	CHECK_OK(hm_safetensors_metadata_find(safetensors, "only", &value));
	CHECK(!strcmp(value, "here"));
	hm_safetensors_unref(safetensors);

	/* By the folder, from inside of it, and by a link, as caches of models have them. */
	hm_safetensors_unref(tensors_open(folder));
	CHECK(!chdir(folder));
	hm_safetensors_unref(tensors_open(INDEX));
	CHECK(!rename("two.safetensors", "blob") && !symlink("blob", "two.safetensors"));
	hm_safetensors_unref(tensors_open(INDEX));
	CHECK(!chdir("/"));
}

static void index_refused(void)
{
	static const struct {
		const char *weights;
		int error;
		const char *text;
	} cases[] = {
		{ "\"a\":\"one.safetensors\",\"b\":\"one.safetensors\",\"c\":\"three.safetensors\"",
		  -ENOENT, "three.safetensors" },
		{ "\"a\":\"one.safetensors\",\"b\":\"two.safetensors\",\"c\":\"two.safetensors\"",
		  -EBADMSG, "tensor \"b\" is not in " },
		{ "\"a\":\"one.safetensors\",\"b\":\"one.safetensors\",\"c\":\"two.safetensors\","
		  "\"d\":\"two.safetensors\"",
		  -EBADMSG, "tensor \"d\" is not in " },
		{ "\"a\":\"one.safetensors\",\"a\":\"one.safetensors\"", -EBADMSG,
		  "it is there twice" },
		{ "\"a\":\"../one.safetensors\"", -EBADMSG,
		  "tensor \"a\": file \"../one.safetensors\": \"..\"" },
		{ "\"a\":\"x/../../one.safetensors\"", -EBADMSG, "leads out" },
		{ "\"a\":\"x/..\"", -EBADMSG, "leads out" },
		{ "\"a\":\"/etc/passwd\"", -EBADMSG, "an absolute path" },
		{ "\"a\":\"./one.safetensors\"", -EBADMSG, "no plain path" },
		{ "\"a\":\"x//one.safetensors\"", -EBADMSG, "no plain path" },
		{ "\"a\":\"\"", -EBADMSG, "no plain path" },
		{ "\"a\":\"x/\"", -EBADMSG, "no plain path" },
		{ "\"a\":\"..one\"", -ENOENT, "..one" },
		{ "\"a\":5", -EBADMSG, "a string" },
		{ "", -EBADMSG, "names no file" },
	};
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{\"weight_map\":[]}",
		"{\"weight_map\":{}}x",
		"{\"weight_map\":{},\"weight_map\":{}}",
		"{\"metadata\":{\"a\":1,\"a\":2},\"weight_map\":{}}",
		"{\"metadata\":{\"a\":tru},\"weight_map\":{}}",
		"{\"metadata\":[1,],\"weight_map\":{}}",
		"{\"metadata\":99999999999999999999,\"weight_map\":{}}",
		"{\"metadata\":1.,\"weight_map\":{}}",
		"{\"metadata\":-,\"weight_map\":{}}",
		"{\"metadata\":1e+,\"weight_map\":{}}",
	};
	struct hm_safetensors *safetensors = UNTOUCHED;
	char *path, text[512];
	AUTO_TEXT *folder = model_folder(), *deep = NULL;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "{\"weight_map\":{%s}}", cases[i].weights);
		path = put_index(folder, text);
		CHECK_ERROR(cases[i].error, hm_safetensors_open(path, 0, &safetensors));
		if (!strstr(hm_errmsg(), cases[i].text) || !strstr(hm_errmsg(), path))
			test_fail(__FILE__, __LINE__, "no \"%s\" in: %s", cases[i].text,
				  hm_errmsg());
		free(path);
	}
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		path = put_index(folder, texts[i]);
		if (hm_safetensors_open(path, 0, &safetensors) != -EBADMSG)
			test_fail(__FILE__, __LINE__, "not refused: %s", texts[i]);
		free(path);
	}
	/* Values in one another, without end. */
	deep = malloc(100001);
	CHECK_FATAL(deep != NULL);
	memset(deep, '[', 100000);
	memcpy(deep, "{\"m\":", 5);
	deep[100000] = '\0';
	path = put_index(folder, deep);
	CHECK_ERROR(-EBADMSG, hm_safetensors_open(path, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "in one another") != NULL);

	free(path);
	path = put_index(folder, "");
	CHECK(!unlink(path) && !mkdir(path, 0700));
	CHECK_ERROR(-EINVAL, hm_safetensors_open(path, 0, &safetensors));
	CHECK(safetensors == UNTOUCHED);
	free(path);
}

/* Files may have tensors that the index does not list for them: the index decides. */
static void unlisted(void)
{
	struct hm_safetensors_info all = { .struct_size = sizeof(all) };
	struct hm_shard_info shard = { .struct_size = sizeof(shard) };
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct hm_safetensors *safetensors;
	struct hm_tensor_info info;
	struct hm_tensor *tensor;
	uint64_t index;

	/* Each file has an "a" with other bytes. The listed one comes last. */
	tensors_file(folder, "1.safetensors",
		     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
		     "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]},"
		     "\"extra\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]}}",
		     9);
	tensors_file(folder, "2.safetensors",
		     "{\"extra\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
		     "\"a\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[1,7]}}",
		     7);
	path = put_index(folder, "{\"weight_map\":{\"a\":\"2.safetensors\","
				 "\"b\":\"1.safetensors\"}}");
	safetensors = tensors_open(path);
	CHECK_OK(hm_safetensors_query(safetensors, &all));
	CHECK_EQUAL(all.tensors, 2);
	CHECK_EQUAL(all.bytes, 9);
	CHECK_EQUAL(all.ignored, 3);
	CHECK_OK(hm_safetensors_shard(safetensors, 0, &shard));
	CHECK_EQUAL(shard.ignored, 2);
	CHECK_EQUAL(shard.tensors, 1);
	info = tensor_info(safetensors, "a");
	CHECK_EQUAL(info.shard, 1);
	CHECK_EQUAL(info.bytes, 6);
	CHECK_OK(hm_safetensors_view(safetensors, info.index, NULL, 0, 0, 0, &tensor));
	CHECK_EQUAL(*(unsigned char *)hm_tensor_address(tensor), data_byte(1));
	hm_tensor_unref(tensor);
	CHECK_EQUAL(tensor_info(safetensors, "b").index, 0);
	CHECK_ERROR(-ENOENT, hm_safetensors_find(safetensors, "extra", &index));
	hm_safetensors_unref(safetensors);
	/* The struct of an old caller ends before the field. */
	safetensors = tensors_open(path);
	all = (struct hm_safetensors_info){
		.struct_size = offsetof(struct hm_safetensors_info, ignored),
		.ignored = 77,
	};
	CHECK_OK(hm_safetensors_query(safetensors, &all));
	CHECK_EQUAL(all.ignored, 77);
	hm_safetensors_unref(safetensors);

	/* The rules hold for tensors that are not listed, too: a hole, a name twice. */
	tensors_file(folder, "2.safetensors",
		     "{\"extra\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
		     "\"a\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[2,8]}}",
		     8);
	CHECK_ERROR(-EBADMSG, hm_safetensors_open(path, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "tensor \"extra\" begins at byte 1") != NULL);
	tensors_file(folder, "2.safetensors",
		     "{\"extra\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
		     "\"extra\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
		     2);
	CHECK_ERROR(-EBADMSG, hm_safetensors_open(path, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "tensor \"extra\" is there twice") != NULL);
}

static void undone(void)
{
	AUTO_TEXT *folder = model_folder(), *path = NULL;

	path = put_index(folder, "{\"weight_map\":{\"c\":\"two.safetensors\","
				 "\"a\":\"one.safetensors\",\"b\":\"one.safetensors\"}}");
	tensors_open_failing(path, 20);
}

/* ---- slices ---- */

/* The bytes of a slice of 3 x 4 x 5 elements of 2 bytes, one by one. */
static void expect(const struct hm_slice slice[3], unsigned char *to)
{
	uint64_t i, j, k, at;

	for (i = slice[0].begin; i < slice[0].end; i++)
		for (j = slice[1].begin; j < slice[1].end; j++)
			for (k = slice[2].begin; k < slice[2].end; k++) {
				at = ((i * 4 + j) * 5 + k) * 2;
				*to++ = data_byte(at);
				*to++ = data_byte(at + 1);
			}
}

static bool together(const struct hm_slice s[3])
{
	uint64_t n[3] = { s[0].end - s[0].begin, s[1].end - s[1].begin, s[2].end - s[2].begin };

	if (!n[0] || !n[1] || !n[2])
		return true;
	if (n[1] == 4 && n[2] == 5)
		return true;
	if (n[0] == 1 && n[2] == 5)
		return true;
	return n[0] == 1 && n[1] == 1;
}

static void check_slice(struct hm_safetensors *safetensors, const struct hm_slice s[3])
{
	struct hm_tensor_place place = { .struct_size = sizeof(place) };
	uint64_t bytes =
		2 * (s[0].end - s[0].begin) * (s[1].end - s[1].begin) * (s[2].end - s[2].begin);
	unsigned char wanted[120], got[120];
	struct hm_tensor *tensor;
	int r;

	expect(s, wanted);
	memset(got, 0xee, sizeof(got));
	CHECK_OK(hm_safetensors_read(safetensors, 0, s, 3, got, bytes));
	CHECK(!memcmp(got, wanted, bytes));
	CHECK(bytes == sizeof(got) || got[bytes] == 0xee);
	r = hm_safetensors_view(safetensors, 0, s, 3, 0, 0, &tensor);
	CHECK_EQUAL(r, together(s) ? 0 : -EXDEV);
	if (r)
		CHECK_OK_FATAL(hm_safetensors_view(safetensors, 0, s, 3, 0, HM_TENSOR_MAY_COPY,
						   &tensor));
	CHECK_OK(hm_tensor_query(tensor, &place));
	CHECK_EQUAL(place.copied, !!r);
	CHECK_EQUAL(place.bytes, bytes);
	CHECK_EQUAL(place.shape[1], s[1].end - s[1].begin);
	CHECK(!memcmp(place.address, wanted, bytes));
	hm_tensor_unref(tensor);
	if (bytes)
		CHECK_ERROR(-ENOSPC, hm_safetensors_read(safetensors, 0, s, 3, got, bytes - 1));
}

/* Every range of the first dimension and of another one; of the third, some. */
static void slices(void)
{
	static const struct hm_slice thirds[] = {
		{ 0, 5 }, { 0, 1 }, { 4, 5 }, { 1, 4 }, { 2, 2 }
	};
	const struct hm_slice wrong[] = { { 0, 4 }, { 2, 1 }, { 3, 4 } };
	AUTO(hm_safetensors) *safetensors = NULL;
	AUTO_TEXT *folder = folder_make();
	unsigned char got[120];
	struct hm_slice s[4];
	size_t i;

	safetensors = tensors_open(tensors_file(
		folder, "a",
		"{\"t\":{\"dtype\":\"F16\",\"shape\":[3,4,5],\"data_offsets\":[0,120]}}", 120));
	for (s[0].begin = 0; s[0].begin <= 3; s[0].begin++)
		for (s[0].end = s[0].begin; s[0].end <= 3; s[0].end++)
			for (s[1].begin = 0; s[1].begin <= 4; s[1].begin++)
				for (s[1].end = s[1].begin; s[1].end <= 4; s[1].end++)
					for (i = 0; i < sizeof(thirds) / sizeof(thirds[0]);
					     i++) {
						s[2] = thirds[i];
						check_slice(safetensors, s);
					}
	s[0] = (struct hm_slice){ 1, 3 };
	CHECK_OK(hm_safetensors_read(safetensors, 0, s, 1, got, 80));
	CHECK_EQUAL(got[0], data_byte(40));
	for (i = 0; i < 2; i++)
		CHECK_ERROR(-ERANGE,
			    hm_safetensors_read(safetensors, 0, wrong + i, 1, got, 120));
	CHECK(strstr(hm_errmsg(), "elements 2 to 1 of dimension 0 of tensor \"t\"") != NULL);
	CHECK_ERROR(-ERANGE, hm_safetensors_read(safetensors, 0, s, 4, got, 120));
	CHECK_ERROR(-EINVAL, hm_safetensors_read(safetensors, 0, NULL, 1, got, 120));
	CHECK_ERROR(-EINVAL, hm_safetensors_read(safetensors, 0, NULL, 0, NULL, 120));
	CHECK_ERROR(-ERANGE, hm_safetensors_read(safetensors, 1, NULL, 0, got, 120));
	CHECK_ERROR(-EFAULT, hm_safetensors_read(safetensors, 0, NULL, 0, (void *)4096, 120));
}

/* Columns of a large matrix: by windows where they are near, else one by one. */
static void far_apart(void)
{
	static const struct {
		uint64_t rows, columns;
	} shapes[] = { { 700, 1000 }, { 40, 20000 }, { 3, 300000 } };
	char *folder = folder_make(), header[128];
	struct hm_safetensors *safetensors;
	struct hm_slice s[2];
	unsigned char *got;
	uint64_t rows, columns, i, j;
	size_t n;

	for (n = 0; n < sizeof(shapes) / sizeof(shapes[0]); n++) {
		rows = shapes[n].rows;
		columns = shapes[n].columns;
		snprintf(
			header, sizeof(header),
			"{\"t\":{\"dtype\":\"U8\",\"shape\":[%ju,%ju],\"data_offsets\":[0,%ju]}}",
			(uintmax_t)rows, (uintmax_t)columns, (uintmax_t)(rows * columns));
		safetensors = tensors_open(tensors_file(folder, "a", header, rows * columns));
		s[0] = (struct hm_slice){ 1, rows };
		s[1] = (struct hm_slice){ columns / 2, columns - 3 };
		got = malloc(rows * columns);
		CHECK_FATAL(got != NULL);
		CHECK_OK(hm_safetensors_read(safetensors, 0, s, 2, got, rows * columns));
		for (i = 1; i < rows; i++)
			for (j = 0; j < s[1].end - s[1].begin; j++)
				if (got[(i - 1) * (s[1].end - s[1].begin) + j] !=
				    data_byte(i * columns + s[1].begin + j)) {
					test_fail(__FILE__, __LINE__, "row %ju, %ju",
						  (uintmax_t)i, (uintmax_t)j);
					i = rows - 1;
					break;
				}
		free(got);
		hm_safetensors_unref(safetensors);
	}
	folder_remove(folder);
}

/* Elements that are no bytes. */
static void parts_of_bytes(void)
{
	struct hm_slice s[2] = { { 1, 3 }, { 0, 4 } };
	struct hm_safetensors *safetensors;
	AUTO_TEXT *folder = folder_make();
	unsigned char got[12];

	safetensors = tensors_open(tensors_file(
		folder, "a",
		"{\"t\":{\"dtype\":\"F6_E2M3\",\"shape\":[4,4],\"data_offsets\":[0,12]}}", 12));
	CHECK_OK(hm_safetensors_read(safetensors, 0, s, 2, got, 6));
	CHECK_EQUAL(got[0], data_byte(3));
	CHECK_EQUAL(got[5], data_byte(8));
	s[1].end = 2;
	CHECK_ERROR(-EOPNOTSUPP, hm_safetensors_read(safetensors, 0, s, 2, got, 12));
	CHECK(strstr(hm_errmsg(), "F6_E2M3 have 6 bits") != NULL);
	s[1] = (struct hm_slice){ 1, 4 };
	CHECK_ERROR(-EOPNOTSUPP, hm_safetensors_read(safetensors, 0, s, 2, got, 12));
	hm_safetensors_unref(safetensors);
	/* Rows that begin inside of a byte. */
	safetensors = tensors_open(tensors_file(
		folder, "a",
		"{\"t\":{\"dtype\":\"F4\",\"shape\":[4,3],\"data_offsets\":[0,6]}}", 6));
	s[0] = (struct hm_slice){ 2, 4 };
	CHECK_OK(hm_safetensors_read(safetensors, 0, s, 1, got, 3));
	CHECK_EQUAL(got[0], data_byte(3));
	s[0] = (struct hm_slice){ 1, 3 };
	CHECK_ERROR(-EOPNOTSUPP, hm_safetensors_read(safetensors, 0, s, 1, got, 3));
	s[0] = (struct hm_slice){ 0, 4 };
	s[1] = (struct hm_slice){ 0, 2 };
	CHECK_ERROR(-EOPNOTSUPP, hm_safetensors_read(safetensors, 0, s, 2, got, 4));
	hm_safetensors_unref(safetensors);
}

static const struct test tests[] = {
	{ "shards", shards, 0, 0 },
	{ "index_refused", index_refused, 0, 0 },
	{ "unlisted", unlisted, 0, 0 },
	{ "undone", undone, 0, 0 },
	{ "slices", slices, 0, 0 },
	{ "far_apart", far_apart, 0, 0 },
	{ "parts_of_bytes", parts_of_bytes, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "safetensors_model", tests)
