// SPDX-License-Identifier: MIT
/* Keys: a set of them by a hash table, and how rows find their groups. */
#include "keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

#define SLOTS_LEAST 64

/* ---- the set ---- */

/* FNV-1a, by 8 bytes where there are as many. */
static uint64_t hash_of(const void *bytes, uint32_t length)
{
	const unsigned char *at = bytes;
	uint64_t hash = 0xcbf29ce484222325 ^ length, word;

	for (; length >= 8; length -= 8, at += 8) {
		memcpy(&word, at, 8);
		hash = (hash ^ word) * 0x100000001b3;
		hash ^= hash >> 29;
	}
	for (; length; length--)
		hash = (hash ^ *at++) * 0x100000001b3;
	return hash ^ hash >> 32;
}

/* The slot that has the key, or the free one where it belongs. */
static uint32_t *find_slot(const struct key_set *set, const void *bytes, uint32_t length,
			   uint64_t hash)
{
	uint32_t at = (uint32_t)hash & (set->n_slot - 1);
	const struct key *key;

	for (; set->slot[at]; at = (at + 1) & (set->n_slot - 1)) {
		key = &set->key[set->slot[at] - 1];
		if (key->hash == hash && key->length == length &&
		    !memcmp(key->bytes, bytes, length))
			break;
	}
	return &set->slot[at];
}

static int grow_slots(struct key_set *set)
{
	struct key_set grown = *set;
	uint32_t i;

	grown.n_slot = set->n_slot ? set->n_slot * 2 : SLOTS_LEAST;
	grown.slot = calloc(grown.n_slot, sizeof(*grown.slot));
	if (!grown.slot)
		return -ENOMEM;
	for (i = 0; i < set->n; i++)
		*find_slot(&grown, set->key[i].bytes, set->key[i].length, set->key[i].hash) =
			i + 1;
	free(set->slot);
	*set = grown;
	return 0;
}

static int grow_keys(struct key_set *set)
{
	uint32_t room = set->room ? set->room * 2 : SLOTS_LEAST;
	struct key *key = realloc(set->key, room * sizeof(*key));

	if (!key)
		return -ENOMEM;
	set->key = key;
	set->room = room;
	return 0;
}

static int append(struct key_set *set, const void *bytes, uint32_t length, uint64_t hash)
{
	char *copy;
	int r;

	if (set->n >= GROUPS_MOST)
		return -E2BIG;
	r = set->n == set->room ? grow_keys(set) : 0;
	if (r)
		return r;
	copy = calloc(1, (size_t)length + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, length);
	set->key[set->n] = (struct key){ copy, length, set->n, hash };
	set->n++;
	return 0;
}

int key_set_add(struct key_set *set, const void *bytes, uint32_t length, uint32_t *ret_group)
{
	uint64_t hash = hash_of(bytes, length);
	uint32_t *slot;
	int r;

	if (set->n * 2 >= set->n_slot) {
		r = grow_slots(set);
		if (r)
			return r;
	}
	slot = find_slot(set, bytes, length, hash);
	if (!*slot) {
		r = append(set, bytes, length, hash);
		if (r)
			return r;
		*slot = set->n;
	}
	*ret_group = *slot - 1;
	return 0;
}

int key_set_find(const struct key_set *set, const void *bytes, uint32_t length,
		 uint32_t *ret_group)
{
	uint32_t slot = set->n ? *find_slot(set, bytes, length, hash_of(bytes, length)) : 0;

	if (!slot)
		return -ENOENT;
	*ret_group = slot - 1;
	return 0;
}

void key_set_end(struct key_set *set)
{
	uint32_t i;

	for (i = 0; i < set->n; i++)
		free(set->key[i].bytes);
	free(set->key);
	free(set->slot);
	*set = (struct key_set){ 0 };
}

/* ---- elements of arrays ---- */

static bool bit(const void *bits, uint64_t i)
{
	return ((const unsigned char *)bits)[i >> 3] >> (i & 7) & 1;
}

bool key_is_there(const struct ArrowArray *array, uint64_t i)
{
	const void *valid = array->n_buffers ? array->buffers[0] : NULL;

	return !valid || bit(valid, (uint64_t)array->offset + i);
}

/* A view: its length, and 12 bytes, or 4 of them, a number of a buffer and a place in it. */
static const char *view_text(const struct ArrowArray *array, uint64_t i, uint32_t *ret_length)
{
	const char *view = (const char *)array->buffers[1] + i * 16;
	int32_t length, buffer, place;

	memcpy(&length, view, 4);
	*ret_length = (uint32_t)length;
	if (length <= 12)
		return view + 4;
	memcpy(&buffer, view + 8, 4);
	memcpy(&place, view + 12, 4);
	return (const char *)array->buffers[2 + buffer] + place;
}

const char *key_text(enum text_layout layout, const struct ArrowArray *array, uint64_t i,
		     uint32_t *ret_length)
{
	int64_t at[2];
	int32_t small[2];

	i += (uint64_t)array->offset;
	if (layout == TEXT_VIEW)
		return view_text(array, i, ret_length);
	if (layout == TEXT_LARGE) {
		memcpy(at, (const char *)array->buffers[1] + i * sizeof(*at), sizeof(at));
	} else {
		memcpy(small, (const char *)array->buffers[1] + i * sizeof(*small),
		       sizeof(small));
		at[0] = small[0];
		at[1] = small[1];
	}
	*ret_length = (uint32_t)(at[1] - at[0]);
	/* Empty texts alone need no bytes. */
	return *ret_length ? (const char *)array->buffers[2] + at[0] : "";
}

static int64_t offset_of(enum text_layout layout, const struct ArrowArray *array, uint64_t i)
{
	int64_t large;
	int32_t small;

	if (layout == TEXT_LARGE) {
		memcpy(&large, (const char *)array->buffers[1] + i * 8, sizeof(large));
		return large;
	}
	memcpy(&small, (const char *)array->buffers[1] + i * 4, sizeof(small));
	return small;
}

/* The last buffer has the sizes of those of the bytes [Arrow, The Arrow C data interface]. */
static int check_view(const struct ArrowArray *array, uint64_t i)
{
	const char *view = (const char *)array->buffers[1] + i * 16;
	const int64_t *sizes = array->buffers[array->n_buffers - 1];
	int32_t length, at[2];

	memcpy(&length, view, sizeof(length));
	memcpy(at, view + 8, sizeof(at));
	if (length >= 0 && length <= 12)
		return 0;
	if (length < 0 || at[0] < 0 || at[0] >= array->n_buffers - 3 || at[1] < 0 ||
	    (int64_t)at[1] + length > sizes[at[0]])
		return -EBADMSG;
	return 0;
}

int key_texts_check(enum text_layout layout, const struct ArrowArray *array, uint64_t from,
		    uint64_t n)
{
	const uint64_t outer = (uint64_t)array->offset;
	int64_t before, now;
	uint64_t i;
	int r = 0;

	if (!n || layout == TEXT_NONE)
		return 0;
	if (layout == TEXT_VIEW) {
		for (i = 0; !r && i < n; i++)
			if (key_is_there(array, from + i))
				r = check_view(array, outer + from + i);
		return r;
	}
	before = offset_of(layout, array, outer);
	for (i = 0; i <= n; i++, before = now) {
		now = offset_of(layout, array, outer + from + i);
		if (now < before)
			return -EBADMSG;
	}
	return before > offset_of(layout, array, outer + (uint64_t)array->length) ? -EBADMSG :
										    0;
}

#define NUMBER(type)                                                                     \
	do {                                                                             \
		type value;                                                              \
                                                                                         \
		memcpy(&value, (const char *)values + i * sizeof(value), sizeof(value)); \
		return (int64_t)value;                                                   \
	} while (0)

int64_t key_number(enum sum_type type, const void *values, uint64_t i)
{
	switch (type) {
	case SUM_BIT:
		return bit(values, i);
	case SUM_I8:
		NUMBER(int8_t);
	case SUM_U8:
		NUMBER(uint8_t);
	case SUM_I16:
		NUMBER(int16_t);
	case SUM_U16:
		NUMBER(uint16_t);
	case SUM_I32:
		NUMBER(int32_t);
	case SUM_U32:
		NUMBER(uint32_t);
	default:
		NUMBER(int64_t);
	}
}

/* ---- bindings ---- */

int keys_direct(struct keys *keys, int64_t least, int64_t most)
{
	uint64_t span = (uint64_t)most - (uint64_t)least + 1, i;
	uint32_t group;
	int64_t value;
	int r = 0;

	for (i = 0; !r && i < span; i++) {
		value = (int64_t)((uint64_t)least + i);
		r = key_set_add(&keys->set, &value, sizeof(value), &group);
	}
	if (!r) {
		keys->base = least;
		keys->span = span;
	}
	return r;
}

/* Memory of @n numbers of groups. */
static int make_memory(struct keys *keys, uint64_t n, uint32_t **ret_numbers)
{
	void *piece;
	int r;

	r = arena_take(keys->arena, (n ? n : 1) * sizeof(**ret_numbers), &piece);
	if (!r)
		*ret_numbers = piece;
	return r;
}

/* The chunk's indices are the keys, and a number of a group for each entry the way to groups. */
static int bind_dictionary(struct keys *keys, const struct hm_table_chunk *chunk,
			   struct sum_keys *binding)
{
	const struct ArrowArray *dictionary = chunk->dictionary;
	uint64_t n = (uint64_t)dictionary->length, i;
	uint32_t *remap, length;
	const char *text;
	int64_t number;
	int r;

	r = make_memory(keys, n, &remap);
	for (i = 0; !r && i < n; i++) {
		/* The kernel counts rows of a missing entry as rows without a key. */
		remap[i] = UINT32_MAX;
		if (!key_is_there(dictionary, i))
			continue;
		if (keys->type.layout) {
			text = key_text(keys->type.layout, dictionary, i, &length);
			r = key_set_add(&keys->set, text, length, &remap[i]);
		} else {
			number = key_number(keys->type.sum, dictionary->buffers[1],
					    (uint64_t)dictionary->offset + i);
			r = key_set_add(&keys->set, &number, sizeof(number), &remap[i]);
		}
	}
	if (r)
		return r;
	binding->column.type = keys->index;
	binding->column.values = chunk->values;
	binding->span = n;
	binding->remap = remap;
	return 0;
}

static int find_number(struct keys *keys, const struct hm_table_chunk *chunk, uint64_t i,
		       uint32_t *ret_group)
{
	int64_t number = key_number(keys->type.sum, chunk->values, i);

	return key_set_add(&keys->set, &number, sizeof(number), ret_group);
}

/* A number of its group for each row: of texts, and of numbers that are far apart. */
static int bind_made(struct keys *keys, const struct hm_table_chunk *chunk,
		     struct sum_keys *binding)
{
	struct ArrowArray array = *chunk->array;
	const char *text, *last = NULL;
	uint32_t *numbers, length, last_length = 0, last_group = 0;
	uint64_t i;
	int r;

	array.offset = (int64_t)chunk->offset;
	r = make_memory(keys, chunk->rows, &numbers);
	for (i = 0; !r && i < chunk->rows; i++) {
		numbers[i] = UINT32_MAX;
		if (chunk->validity && !bit(chunk->validity, chunk->offset + i))
			continue;
		if (!keys->type.layout) {
			/* Without memory for its values the chunk has none. */
			if (chunk->values)
				r = find_number(keys, chunk, chunk->offset + i, &numbers[i]);
			continue;
		}
		text = key_text(keys->type.layout, &array, i, &length);
		/* Rows of one key often follow one another. */
		if (last && length == last_length && !memcmp(text, last, length)) {
			numbers[i] = last_group;
			continue;
		}
		r = key_set_add(&keys->set, text, length, &numbers[i]);
		last = text;
		last_length = length;
		last_group = numbers[i];
	}
	if (r)
		return r;
	binding->column.type = SUM_U32;
	binding->column.values = numbers;
	binding->span = GROUPS_MOST;
	return 0;
}

int keys_bind(struct keys *keys, const struct hm_table_chunk *chunk, struct sum_keys *ret_keys)
{
	struct sum_keys binding = { 0 };
	int r = 0;

	if (keys->index && chunk->dictionary && chunk->values) {
		r = bind_dictionary(keys, chunk, &binding);
	} else if (keys->span && chunk->values) {
		binding.column.type = keys->type.sum;
		binding.column.values = chunk->values;
		binding.base = keys->base;
		binding.span = keys->span;
	} else {
		r = bind_made(keys, chunk, &binding);
	}
	if (r)
		return r;
	if (chunk->values && binding.column.values == chunk->values) {
		binding.column.first = chunk->offset;
		binding.column.valid = chunk->validity;
		binding.column.valid_first = chunk->offset;
	}
	*ret_keys = binding;
	return 0;
}

/* ---- showing ---- */

char *key_shown(const struct keys *keys, uint32_t group, bool json)
{
	const struct key *key = &keys->set.key[group];
	char text[TYPE_TEXT_MAX];
	int64_t number;

	if (keys->type.layout)
		return json ? text_escape_json(key->bytes) : text_escape(key->bytes);
	memcpy(&number, key->bytes, sizeof(number));
	return text_format("%s", type_value_text(&keys->type, number, text));
}

static int compare_keys(const void *a, const void *b, void *user)
{
	const struct keys *keys = user;
	const struct key *x = &keys->set.key[*(const uint32_t *)a];
	const struct key *y = &keys->set.key[*(const uint32_t *)b];
	int64_t number[2];
	int order;

	if (!keys->type.layout) {
		memcpy(&number[0], x->bytes, sizeof(number[0]));
		memcpy(&number[1], y->bytes, sizeof(number[1]));
		if (keys->type.sum == SUM_U64)
			return ((uint64_t)number[0] > (uint64_t)number[1]) -
			       ((uint64_t)number[0] < (uint64_t)number[1]);
		return (number[0] > number[1]) - (number[0] < number[1]);
	}
	order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
	return order ? order : (x->length > y->length) - (x->length < y->length);
}

uint32_t *keys_sorted(const struct keys *keys)
{
	uint32_t *order = calloc((size_t)keys->set.n + 1, sizeof(*order)), i;

	if (!order)
		return NULL;
	for (i = 0; i < keys->set.n; i++)
		order[i] = i;
	qsort_r(order, keys->set.n, sizeof(*order), compare_keys, (void *)keys);
	return order;
}
