// SPDX-License-Identifier: MIT
/*
 * Fuzzes the reader of safetensors headers and indices, and compares each answer with that of
 * jansson's tree and of the format's rules, written down here once more. The input is a byte,
 * odd for an index, and the text; two bytes before a header give the length of the data.
 */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/safetensors/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The two answers differ; @what names the property. */
static void differ(const char *what, const char *name)
{
	fprintf(stderr, "%s: %s (%s)\n", what, name, hm_errmsg());
	abort();
}

/* ---- a header, as jansson has it ---- */

/* Numbers of an array; false: something else, or below 0. */
static bool numbers(const json_t *array, uint64_t *to, size_t *n, size_t most)
{
	size_t i;

	*n = json_array_size(array);
	if (!json_is_array(array) || *n > most)
		return false;
	for (i = 0; i < *n; i++) {
		const json_t *item = json_array_get(array, i);

		if (!json_is_integer(item) || json_integer_value(item) < 0)
			return false;
		to[i] = (uint64_t)json_integer_value(item);
	}
	return true;
}

struct expected {
	const char *name;
	uint32_t dtype;
	uint64_t shape[HM_TENSOR_RANK_MAX], begin, end;
	size_t rank;
};

static bool entry(const char *name, const json_t *json, struct expected *ret)
{
	const char *dtype = json_string_value(json_object_get(json, "dtype"));
	unsigned __int128 product = 1;
	uint64_t offsets[2];
	size_t n, i;

	ret->name = name;
	if (!json_is_object(json) || !dtype || dtype_find(dtype, &ret->dtype))
		return false;
	if (!numbers(json_object_get(json, "shape"), ret->shape, &ret->rank,
		     HM_TENSOR_RANK_MAX) ||
	    !numbers(json_object_get(json, "data_offsets"), offsets, &n, 2) || n != 2)
		return false;
	for (i = 0; i < ret->rank; i++) {
		product *= ret->shape[i];
		if (product > UINT64_MAX)
			return false;
	}
	product *= hm_dtype_bits(ret->dtype);
	ret->begin = offsets[0];
	ret->end = offsets[1];
	return product <= UINT64_MAX && product % 8 == 0 && ret->begin <= ret->end &&
	       product / 8 == ret->end - ret->begin;
}

static int by_place(const void *a, const void *b)
{
	const struct expected *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static bool is_strings(json_t *json)
{
	const char *key;
	json_t *value;

	if (!json_is_object(json))
		return false;
	json_object_foreach(json, key, value) if (!json_is_string(value)) return false;
	return true;
}

/* Is it legal? Then *@ret_list has the tensors by their place. */
static bool rules(json_t *header, uint64_t data, struct expected **ret_list, size_t *ret_n)
{
	struct expected *list = calloc(json_object_size(header) + 1, sizeof(*list));
	uint64_t end = 0;
	size_t n = 0, i;
	const char *key;
	json_t *value;
	bool legal;

	if (!list)
		abort();
	legal = json_is_object(header);
	json_object_foreach(header, key, value)
	{
		if (!strcmp(key, "__metadata__"))
			legal = legal && (json_is_null(value) || is_strings(value));
		else
			legal = legal && entry(key, value, &list[n++]);
	}
	if (legal)
		qsort(list, n, sizeof(*list), by_place);
	for (i = 0; legal && i < n; i++) {
		legal = list[i].begin == end && list[i].end <= data;
		end = list[i].end;
	}
	*ret_list = list;
	*ret_n = n;
	return legal && end == data;
}

static void compare(const struct hm_safetensors *got, json_t *header,
		    const struct expected *list, size_t n)
{
	json_t *metadata = json_object_get(header, "__metadata__");
	size_t i;

	if (got->n_tensor != n)
		differ("another number of tensors", "");
	if (got->n_metadata != json_object_size(metadata))
		differ("another number of strings", "");
	for (i = 0; i < got->n_metadata; i++) {
		const char *value =
			json_string_value(json_object_get(metadata, got->metadata[i].key));

		if (!value || strcmp(value, got->metadata[i].value) != 0)
			differ("another string", got->metadata[i].key);
	}
	for (i = 0; i < n; i++) {
		const struct name *name =
			names_find(&got->names, list[i].name, strlen(list[i].name));
		const struct tensor *tensor;

		if (!name)
			differ("not found", list[i].name);
		tensor = &got->tensor[name->value];
		if (tensor->dtype != list[i].dtype || tensor->rank != list[i].rank ||
		    tensor->bytes != list[i].end - list[i].begin ||
		    tensor->offset != list[i].begin + got->shard->data ||
		    memcmp(got->extents + tensor->shape, list[i].shape,
			   list[i].rank * sizeof(uint64_t)) != 0)
			differ("another tensor", list[i].name);
	}
}

/* To jansson a number may end with a byte of 0; JSON has none anywhere. */
static json_t *load(const uint8_t *text, size_t length, json_error_t *ret_error)
{
	memset(ret_error, 0, sizeof(*ret_error));
	if (memchr(text, 0, length))
		return NULL;
	return json_loadb((const char *)text, length, JSON_REJECT_DUPLICATES, ret_error);
}

static void fuzz_header(const uint8_t *text, size_t length, uint64_t data)
{
	struct hm_safetensors got = { .n_shard = 1 };
	struct expected *list = NULL;
	struct shard shard = { .path = (char *)"" };
	json_error_t error;
	json_t *header;
	char *copy;
	size_t n = 0;
	bool legal;
	int r;

	copy = malloc(length + 1);
	if (!copy)
		abort();
	memcpy(copy, text, length);
	shard.data = sizeof(uint64_t) + length;
	shard.size = shard.data + data;
	got.shard = &shard;
	r = safetensors_parse(&got, 0, copy, length);

	header = load(text, length, &error);
	legal = rules(header, data, &list, &n);
	if (legal != !r)
		differ(legal ? "legal, and refused" : "not legal, and taken", error.text);
	if (legal)
		compare(&got, header, list, n);
	free(list);
	json_decref(header);
	names_free(&got.names);
	free(got.metadata);
	free(got.extents);
	free(got.tensor);
	free(copy);
}

/* ---- an index ---- */

/* Some files are refused that JSON has nothing against. */
static bool is_plain(const char *path)
{
	return *path && *path != '/' && path[strlen(path) - 1] != '/' && !strstr(path, "//") &&
	       !strstr(path, "..") && strcmp(path, ".") != 0 && strncmp(path, "./", 2) != 0 &&
	       !strstr(path, "/./") &&
	       (strlen(path) < 2 || strcmp(path + strlen(path) - 2, "/.") != 0);
}

static void check_index(const struct weight_map *map, json_t *weights)
{
	const struct name *name;
	const char *key, *path;
	json_t *value;

	if (!json_is_object(weights) || json_object_size(weights) != map->tensors.n)
		differ("another weight_map", "");
	json_object_foreach(weights, key, value)
	{
		name = names_find(&map->tensors, key, strlen(key));
		if (!name || !json_is_string(value))
			differ("not in the weight_map", key);
		path = map->path[map->files.name[name->value].value];
		if (strncmp(path, "a/", 2) != 0 ||
		    strcmp(path + 2, json_string_value(value)) != 0)
			differ("another file", key);
	}
}

static bool may_be_refused(json_t *weights)
{
	const char *key, *path;
	json_t *value;

	if (!json_is_object(weights) || !json_object_size(weights))
		return true;
	json_object_foreach(weights, key, value)
	{
		path = json_string_value(value);
		if (!path || !is_plain(path))
			return true;
	}
	return false;
}

static void fuzz_index(const uint8_t *text, size_t length)
{
	struct weight_map map;
	json_error_t error;
	json_t *index;
	char *copy;
	int r;

	copy = malloc(length + 1);
	if (!copy)
		abort();
	memcpy(copy, text, length);
	r = safetensors_index_parse(copy, length, "a/", &map);
	index = load(text, length, &error);
	if (!r) {
		/* In values that are skipped, a real number's size is nobody's. */
		if (index)
			check_index(&map, json_object_get(index, "weight_map"));
		else if (json_error_code(&error) != json_error_numeric_overflow &&
			 json_error_code(&error) != json_error_stack_overflow)
			differ("no JSON, and taken", error.text);
		safetensors_index_free(&map);
	} else if (json_is_object(index) &&
		   !may_be_refused(json_object_get(index, "weight_map"))) {
		differ("legal, and refused", "");
	}
	json_decref(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 1 && data[0] & 1)
		fuzz_index(data + 1, size - 1);
	else if (size > 3)
		fuzz_header(data + 3, size - 3, (uint64_t)data[1] | (uint64_t)data[2] << 8);
	return 0;
}
