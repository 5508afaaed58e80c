// SPDX-License-Identifier: MIT
/*
 * The header of a safetensors file: read once, as a stream, and checked against the rules of the
 * format. Every error names the tensor.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/text/json.h"
#include "format/safetensors/safetensors.h"
#include "base/sys.h"

#define METADATA "__metadata__"

/* Value of tensor.shard until place(): the index does not list the tensor for its file. */
#define NOT_LISTED UINT32_MAX

int safetensors_room(void **list, uint64_t n, uint64_t *room, size_t size)
{
	uint64_t more;
	void *larger;

	if (n <= *room)
		return 0;
	more = max_u64(2 * *room, max_u64(n, 16));
	larger = sys_calloc(more, size);
	if (!larger)
		return err_set(-ENOMEM, "no memory for a list of %" PRIu64, more);
	if (*list)
		memcpy(larger, *list, *room * size);
	free(*list);
	*list = larger;
	*room = more;
	return 0;
}

int safetensors_bytes(uint32_t dtype, const uint64_t *shape, uint32_t rank, uint64_t *ret_bytes)
{
	uint64_t elements = 1, bits;
	uint32_t i;

	for (i = 0; i < rank; i++)
		if (__builtin_mul_overflow(elements, shape[i], &elements))
			return err_set(-EOVERFLOW,
				       "the product of its shape is beyond 2^64 (at "
				       "dimension %u, %" PRIu64 ")",
				       i, shape[i]);
	if (__builtin_mul_overflow(elements, hm_dtype_bits(dtype), &bits))
		return err_set(-EOVERFLOW, "%" PRIu64 " elements of %s are beyond 2^64 bits",
			       elements, hm_dtype_name(dtype));
	if (bits % 8)
		return err_set(-EINVAL,
			       "%" PRIu64 " elements of %s, of %u bits each, end inside of "
			       "a byte",
			       elements, hm_dtype_name(dtype), hm_dtype_bits(dtype));
	*ret_bytes = bits / 8;
	return 0;
}

/* ---- an entry: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} ---- */

enum { ENTRY_DTYPE = 1u << 0, ENTRY_SHAPE = 1u << 1, ENTRY_OFFSETS = 1u << 2 };

static const struct {
	const char *key;
	uint32_t bit;
} members[] = {
	{ "dtype", ENTRY_DTYPE },
	{ "shape", ENTRY_SHAPE },
	{ "data_offsets", ENTRY_OFFSETS },
};

static int read_dtype(struct jtext *json, struct tensor *tensor)
{
	struct jtext_string name;
	char shown[SHOWN_MAX];
	int r;

	r = jtext_string(json, &name);
	if (r)
		return r;
	/* Usually the same as the tensor before. */
	if (!strcmp(hm_dtype_name(tensor->dtype), name.text))
		return 0;
	if (dtype_find(name.text, &tensor->dtype))
		return err_set(-EBADMSG, "its dtype, %s, is none of the format's",
			       name_shown(name.text, shown));
	return 0;
}

static int read_shape(struct hm_safetensors *safetensors, struct jtext *json,
		      struct tensor *tensor)
{
	uint64_t extent;
	int more = 0, r;

	tensor->shape = safetensors->n_extent;
	tensor->rank = 0;
	r = jtext_open(json, '[');
	while (!r) {
		r = jtext_more(json, ']', &more);
		if (r || !more)
			break;
		r = jtext_integer(json, &extent);
		if (r)
			break;
		if (tensor->rank == HM_TENSOR_RANK_MAX) {
			r = err_set(-EOPNOTSUPP, "it has more than %u dimensions",
				    HM_TENSOR_RANK_MAX);
			break;
		}
		r = safetensors_room((void **)&safetensors->extents, safetensors->n_extent + 1,
				     &safetensors->room_extent, sizeof(extent));
		if (r)
			break;
		safetensors->extents[safetensors->n_extent++] = extent;
		tensor->rank++;
	}
	return r;
}

/* Reads tensor->offset and tensor->bytes, within the data section. */
static int read_offsets(struct jtext *json, struct tensor *tensor)
{
	uint64_t number[2] = { 0 };
	int more = 0, n, r;

	r = jtext_open(json, '[');
	for (n = 0; !r; n++) {
		r = jtext_more(json, ']', &more);
		if (r || !more)
			break;
		if (n == 2)
			return err_set(-EBADMSG, "data_offsets has more than 2 numbers");
		r = jtext_integer(json, &number[n]);
	}
	if (r)
		return r;
	if (n != 2)
		return err_set(-EBADMSG, "data_offsets has %d number%s, not 2", n,
			       n == 1 ? "" : "s");
	if (number[0] > number[1])
		return err_set(-EBADMSG,
			       "data_offsets begin at %" PRIu64 ", behind their end, %" PRIu64,
			       number[0], number[1]);
	tensor->offset = number[0];
	tensor->bytes = number[1] - number[0];
	return 0;
}

/* Skips a key that another program has added, as the format's own reader does. */
static int skip_member(struct jtext *json, const struct jtext_string *key, struct names *others)
{
	char shown[SHOWN_MAX];
	int r;

	r = names_add(others, key->text, key->length, 0);
	if (r == -EEXIST)
		return err_set(-EBADMSG, "it has %s twice", name_shown(key->text, shown));
	return r ? r : jtext_skip(json);
}

/* @others: the entry's keys so far that are none of the format's. */
static int read_member(struct hm_safetensors *safetensors, struct jtext *json,
		       struct tensor *tensor, uint32_t *seen, struct names *others)
{
	struct jtext_string key;
	size_t i;
	int r;

	r = jtext_key(json, &key);
	if (r)
		return r;
	for (i = 0; i < ARRAY_SIZE(members); i++)
		if (!strcmp(members[i].key, key.text))
			break;
	if (i == ARRAY_SIZE(members))
		return skip_member(json, &key, others);
	if (*seen & members[i].bit)
		return err_set(-EBADMSG, "it has %s twice", members[i].key);
	*seen |= members[i].bit;
	if (members[i].bit == ENTRY_DTYPE)
		return read_dtype(json, tensor);
	if (members[i].bit == ENTRY_SHAPE)
		return read_shape(safetensors, json, tensor);
	return read_offsets(json, tensor);
}

/* Does the length from begin to end fit dtype and shape? */
static int check_bytes(const struct hm_safetensors *safetensors, const struct tensor *tensor)
{
	const uint64_t *shape = safetensors->extents + tensor->shape;
	uint64_t bytes;
	int r;

	r = safetensors_bytes(tensor->dtype, shape, tensor->rank, &bytes);
	if (r)
		return -EBADMSG;
	if (bytes != tensor->bytes)
		return err_set(-EBADMSG,
			       "data_offsets give it %" PRIu64 " bytes, its dtype (%s) and "
			       "shape need %" PRIu64,
			       tensor->bytes, hm_dtype_name(tensor->dtype), bytes);
	return 0;
}

static int read_entry(struct hm_safetensors *safetensors, struct jtext *json,
		      struct tensor *tensor)
{
	struct names others = { 0 };
	uint32_t seen = 0;
	int more = 0, r;
	size_t i;

	r = jtext_open(json, '{');
	while (!r) {
		r = jtext_more(json, '}', &more);
		if (r || !more)
			break;
		r = read_member(safetensors, json, tensor, &seen, &others);
	}
	names_free(&others);
	if (r)
		return r;
	for (i = 0; i < ARRAY_SIZE(members); i++)
		if (!(seen & members[i].bit))
			return err_set(-EBADMSG, "it has no %s", members[i].key);
	return check_bytes(safetensors, tensor);
}

static int room_for_tensors(struct hm_safetensors *safetensors, uint64_t n)
{
	uint64_t room = safetensors->room_tensor;
	int r;

	r = safetensors_room((void **)&safetensors->tensor, n, &room,
			     sizeof(*safetensors->tensor));
	if (!r)
		safetensors->room_tensor = (uint32_t)room;
	return r;
}

/* The index decides: a copy that it does not list for this file does not count. */
static bool is_listed(const struct hm_safetensors *safetensors, uint32_t shard,
		      const struct jtext_string *name)
{
	const struct weight_map *index = safetensors->index;
	const struct name *listed;

	if (!index)
		return true;
	listed = names_find(&index->tensors, name->text, name->length);
	return listed && index->files.name[listed->value].value == shard;
}

static int refuse_twice(const struct hm_safetensors *safetensors, uint32_t shard,
			const struct name *old)
{
	char shown[SHOWN_MAX];

	/* Names of this shard have values from its first tensor on, also before place(). */
	if (old->value >= safetensors->shard[shard].first)
		return err_set(-EBADMSG, "tensor %s is there twice",
			       name_shown(old->text, shown));
	return err_set(-EBADMSG, "tensor %s is in %s, too", name_shown(old->text, shown),
		       safetensors->shard[safetensors->tensor[old->value].shard].path);
}

/* @ignored: names of this shard's tensors that the index does not list for it. */
static int add_tensor(struct hm_safetensors *safetensors, uint32_t shard, struct jtext *json,
		      const struct jtext_string *name, struct names *ignored)
{
	bool listed = is_listed(safetensors, shard, name);
	struct names *names = listed ? &safetensors->names : ignored;
	struct tensor tensor = { .name = names->n, .shard = listed ? shard : NOT_LISTED };
	char shown[SHOWN_MAX];
	int r;

	r = names_add(names, name->text, name->length, safetensors->n_tensor);
	if (r == -EEXIST)
		return refuse_twice(safetensors, shard,
				    names_find(names, name->text, name->length));
	if (r)
		return r;
	r = room_for_tensors(safetensors, safetensors->n_tensor + 1ull);
	if (r)
		return r;
	if (safetensors->n_tensor)
		tensor.dtype = safetensors->tensor[safetensors->n_tensor - 1].dtype;
	r = read_entry(safetensors, json, &tensor);
	if (r)
		return err_prefix(r, "tensor %s", name_shown(name->text, shown));
	safetensors->tensor[safetensors->n_tensor++] = tensor;
	return 0;
}

/* ---- __metadata__ ---- */

static int add_metadata(struct hm_safetensors *safetensors, struct jtext *json,
			struct names *keys)
{
	struct jtext_string key, value;
	uint64_t room = safetensors->room_metadata;
	char shown[SHOWN_MAX];
	int r;

	r = jtext_key(json, &key);
	if (r)
		return r;
	r = names_add(keys, key.text, key.length, 0);
	if (r == -EEXIST)
		return err_set(-EBADMSG, "%s is there twice", name_shown(key.text, shown));
	if (!r)
		r = jtext_string(json, &value);
	if (r)
		return err_prefix(r, "%s", name_shown(key.text, shown));
	r = safetensors_room((void **)&safetensors->metadata, safetensors->n_metadata + 1ull,
			     &room, sizeof(*safetensors->metadata));
	if (r)
		return r;
	safetensors->room_metadata = (uint32_t)room;
	safetensors->metadata[safetensors->n_metadata++] = (struct hm_metadata){
		.key = key.text,
		.value = value.text,
	};
	return 0;
}

static int read_metadata(struct hm_safetensors *safetensors, struct jtext *json)
{
	struct names keys = { 0 };
	int more = 0, r;

	/* Some writers write null for no strings. */
	if (jtext_null(json))
		return 0;
	r = jtext_open(json, '{');
	while (!r) {
		r = jtext_more(json, '}', &more);
		if (r || !more)
			break;
		r = add_metadata(safetensors, json, &keys);
	}
	names_free(&keys);
	return r ? err_prefix(r, METADATA) : 0;
}

/* ---- the whole header ---- */

static int by_offset(const void *a, const void *b)
{
	const struct tensor *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	/* Tensors of no bytes: in the order of the list. */
	return x->name < y->name ? -1 : x->name > y->name;
}

/* The header usually has them in order. */
static void sort(struct tensor *tensor, uint32_t n)
{
	uint32_t i;

	for (i = 1; i < n; i++)
		if (by_offset(&tensor[i - 1], &tensor[i]) > 0) {
			qsort(tensor, n, sizeof(*tensor), by_offset);
			return;
		}
}

/*
 * Checks: no hole, no overlap, the last byte is the file's. Offsets become those of the file.
 * Tensors that the index does not list leave the list.
 */
static int place(struct hm_safetensors *safetensors, struct shard *shard,
		 const struct names *ignored)
{
	struct tensor *tensor = safetensors->tensor + shard->first;
	uint64_t end = 0, data = shard->size - shard->data;
	struct name *name;
	char shown[SHOWN_MAX];
	uint32_t i, n = 0;
	bool listed;

	for (i = 0; i < shard->n; i++) {
		listed = tensor[i].shard != NOT_LISTED;
		name = &(listed ? &safetensors->names : ignored)->name[tensor[i].name];
		if (tensor[i].offset != end)
			return err_set(-EBADMSG,
				       "tensor %s begins at byte %" PRIu64
				       " of the data: the one before it ends at %" PRIu64
				       ", and neither holes nor overlaps are allowed",
				       name_shown(name->text, shown), tensor[i].offset, end);
		end += tensor[i].bytes;
		if (end > data)
			return err_set(-EBADMSG,
				       "tensor %s ends at byte %" PRIu64
				       " of the data, of which the file has %" PRIu64,
				       name_shown(name->text, shown), end, data);
		if (!listed)
			continue;
		tensor[n] = tensor[i];
		tensor[n].offset += shard->data;
		shard->bytes += tensor[n].bytes;
		name->value = shard->first + n++;
	}
	if (end != data)
		return err_set(-EBADMSG,
			       "the tensors end at byte %" PRIu64
			       " of the data, of which the file has %" PRIu64
			       ": it was cut off, or is longer than it says",
			       end, data);
	shard->ignored = shard->n - n;
	shard->n = n;
	safetensors->n_tensor = shard->first + n;
	return 0;
}

static int read_header(struct hm_safetensors *safetensors, uint32_t number, struct jtext *json,
		       struct names *ignored)
{
	bool has_metadata = false;
	struct jtext_string name;
	int more = 0, r;

	r = jtext_open(json, '{');
	while (!r) {
		r = jtext_more(json, '}', &more);
		if (r || !more)
			break;
		r = jtext_key(json, &name);
		if (r)
			break;
		if (strcmp(name.text, METADATA) != 0) {
			r = add_tensor(safetensors, number, json, &name, ignored);
		} else if (has_metadata) {
			r = err_set(-EBADMSG, METADATA " is there twice");
		} else {
			has_metadata = true;
			r = read_metadata(safetensors, json);
		}
	}
	return r ? r : jtext_close(json);
}

int safetensors_parse(struct hm_safetensors *safetensors, uint32_t number, char *header,
		      uint64_t length)
{
	struct shard *shard = &safetensors->shard[number];
	struct names ignored = { 0 };
	struct jtext json;
	int r;

	/* Never NULL, even without elements. */
	r = safetensors_room((void **)&safetensors->extents, 1, &safetensors->room_extent,
			     sizeof(*safetensors->extents));
	if (!r)
		r = room_for_tensors(safetensors, 1);
	if (r)
		return r;
	shard->first = safetensors->n_tensor;
	jtext_begin(&json, header, length, sizeof(uint64_t));
	r = read_header(safetensors, number, &json, &ignored);
	if (!r) {
		shard->n = safetensors->n_tensor - shard->first;
		sort(safetensors->tensor + shard->first, shard->n);
		r = place(safetensors, shard, &ignored);
	}
	names_free(&ignored);
	return r;
}
