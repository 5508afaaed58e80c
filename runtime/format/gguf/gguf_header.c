// SPDX-License-Identifier: MIT
/*
 * The header of a GGUF file: read once, as a stream, and checked against the rules of the format.
 * Errors name the key or the tensor. No length of the file is trusted before it was compared with
 * the file's size, and lists grow as entries come, whatever number the file has announced.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "format/gguf/gguf.h"
#include "format/text/foreign.h"
#include "format/text/utf8.h"

void gguf_file_free(struct gguf_file *file)
{
	uint32_t i;

	for (i = 0; i < file->n_value; i++)
		gguf_loaded_free(atomic_load(&file->value[i].loaded));
	free(file->value);
	free(file->tensor);
	arena_free(&file->arena);
	hm_map_unref(file->map);
	free(file->path);
}

/* Makes room in *@list for one more of @n entries of @size. */
static int make_room(void **list, uint64_t n, uint64_t *room, size_t size)
{
	uint64_t larger = max_u64(64, 2 * *room);
	void *moved;

	if (n < *room)
		return 0;
	if (n >= UINT32_MAX / 2)
		return err_set(-EBADMSG, "more than 2^31 entries");
	moved = sys_calloc(larger, size);
	if (!moved)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " entries", larger);
	if (n)
		memcpy(moved, *list, n * size);
	free(*list);
	*list = moved;
	*room = larger;
	return 0;
}

/* Reads a key, or the name of a tensor. */
static int read_name(struct gguf_file *file, struct scan *scan, const char **ret_name,
		     uint32_t *ret_length)
{
	const unsigned char *bytes = NULL;
	uint64_t length;
	char *name;
	int r;

	r = scan_u64(scan, &length);
	if (r)
		return err_prefix(r, "length of its name");
	if (length > GGUF_NAME_MAX)
		return err_set(-EBADMSG, "a name of %" PRIu64 " bytes: up to %u are allowed",
			       length, GGUF_NAME_MAX);
	r = scan_take(scan, length, &bytes);
	if (r)
		return err_prefix(r, "its name");
	if (memchr(bytes, 0, length) || !utf8_is((const char *)bytes, length))
		return err_set(-EBADMSG, "its name is no UTF-8, or has a '\\0' in it");
	name = arena_copy(&file->arena, bytes, length);
	if (!name)
		return err_set(-ENOMEM, "no memory for a name of %" PRIu64 " bytes", length);
	*ret_name = name;
	*ret_length = (uint32_t)length;
	return 0;
}

/*
 * All names are compared once the list is read. But a number that lies, with zeros behind it (of
 * which a sparse file has any amount), would make the list grow without an end before that.
 */
static bool is_same(const char *a, uint32_t a_length, const char *b, uint32_t b_length)
{
	return a_length == b_length && !memcmp(a, b, a_length);
}

/* ---- metadata ---- */

static int read_string(struct gguf_file *file, struct scan *scan, struct gguf_value *value)
{
	const unsigned char *bytes = NULL;
	int r;

	r = scan_u64(scan, &value->bytes);
	if (r)
		return r;
	value->offset = scan->at;
	if (value->bytes > SCAN_TAKE_MAX)
		return scan_skip(scan, value->bytes);
	r = scan_take(scan, value->bytes, &bytes);
	if (r)
		return r;
	value->text = arena_copy(&file->arena, bytes, value->bytes);
	if (!value->text)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " bytes", value->bytes);
	return 0;
}

static int read_array(struct scan *scan, struct gguf_value *value)
{
	uint32_t bytes;
	int r;

	r = scan_u32(scan, &value->element);
	if (!r)
		r = scan_u64(scan, &value->count);
	if (r)
		return r;
	value->offset = scan->at;
	if (value->element == HM_GGUF_ARRAY)
		return err_set(-EOPNOTSUPP, "it is an array of arrays");
	bytes = gguf_kind_bytes(value->element);
	if (!bytes && value->element != HM_GGUF_STRING)
		return err_set(-EBADMSG, "an array of kind %u, which the format does not have",
			       value->element);
	/* A string has its length, at least. */
	if (value->count > (scan->size - scan->at) / (bytes ? bytes : 8))
		return err_set(-EBADMSG,
			       "an array of %" PRIu64 " elements from byte %" PRIu64
			       " on, and the file ends at %" PRIu64,
			       value->count, scan->at, scan->size);
	if (bytes)
		r = scan_skip(scan, value->count * bytes);
	else
		r = scan_skip_strings(scan, value->count);
	value->bytes = scan->at - value->offset;
	return r;
}

static int read_value(struct gguf_file *file, struct scan *scan, struct gguf_value *value)
{
	const unsigned char *bytes = NULL;
	uint32_t n;
	int r;

	r = scan_u32(scan, &value->kind);
	if (r)
		return r;
	value->element = value->kind;
	value->count = 1;
	if (value->kind == HM_GGUF_STRING)
		return read_string(file, scan, value);
	if (value->kind == HM_GGUF_ARRAY)
		return read_array(scan, value);
	n = gguf_kind_bytes(value->kind);
	if (!n)
		return err_set(-EBADMSG, "kind %u, which the format does not have",
			       value->kind);
	value->offset = scan->at;
	r = scan_take(scan, n, &bytes);
	if (!r)
		value->bits = number_load(bytes, n, scan->swapped);
	return r;
}

static bool has_key(const struct gguf_value *value, const char *key)
{
	return value->key_length == strlen(key) && !memcmp(value->key, key, value->key_length);
}

/* Takes a number that the library itself must know. */
static int take_number(const struct gguf_value *value, uint64_t *ret_number)
{
	struct hm_gguf_value number = { 0 };

	if (!gguf_kind_bytes(value->kind) || value->kind == HM_GGUF_F32 ||
	    value->kind == HM_GGUF_F64 || value->kind == HM_GGUF_BOOL)
		return err_set(-EBADMSG, "its kind is %s, and must be a whole number",
			       gguf_kind_name(value->kind));
	gguf_number(value->kind, value->bits, &number);
	if (number.i64 < 0 && !number.u64)
		return err_set(-EBADMSG, "it is %" PRId64 ", less than 0", number.i64);
	*ret_number = number.u64;
	return 0;
}

static int take_known(struct gguf_file *file, const struct gguf_value *value)
{
	if (has_key(value, KEY_SPLIT_NO))
		return take_number(value, &file->split_no);
	if (has_key(value, KEY_SPLIT_COUNT))
		return take_number(value, &file->split_count);
	if (has_key(value, KEY_SPLIT_TENSORS))
		return take_number(value, &file->split_tensors);
	if (!has_key(value, KEY_ALIGNMENT))
		return 0;
	if (value->kind != HM_GGUF_U32)
		return err_set(-EBADMSG, "its kind is %s, and must be u32",
			       gguf_kind_name(value->kind));
	if (!value->bits || value->bits & (value->bits - 1))
		return err_set(-EBADMSG, "it is %" PRIu64 ", and must be a power of two",
			       value->bits);
	file->alignment = value->bits;
	return 0;
}

static int read_pair(struct gguf_file *file, uint32_t number, struct scan *scan)
{
	struct gguf_value *value;
	char shown[SHOWN_MAX];
	int r;

	r = make_room((void **)&file->value, file->n_value, &file->room_value, sizeof(*value));
	if (r)
		return r;
	value = &file->value[file->n_value];
	value->file = number;
	r = read_name(file, scan, &value->key, &value->key_length);
	if (r)
		return err_prefix(r, "key %u of the metadata", file->n_value);
	if (file->n_value &&
	    is_same(value->key, value->key_length, value[-1].key, value[-1].key_length))
		return err_set(-EBADMSG, "key %s is there twice",
			       name_shown(value->key, shown));
	r = read_value(file, scan, value);
	if (!r)
		r = take_known(file, value);
	if (r)
		return err_prefix(r, "key %s", name_shown(value->key, shown));
	file->n_value++;
	return 0;
}

/* ---- tensors ---- */

static int read_dimensions(struct gguf_file *file, struct scan *scan,
			   struct gguf_tensor *tensor)
{
	const unsigned char *bytes = NULL;
	uint64_t *ne;
	uint32_t i;
	int r;

	r = scan_u32(scan, &tensor->rank);
	if (r)
		return r;
	if (tensor->rank > HM_GGUF_RANK_MAX)
		return err_set(-EOPNOTSUPP, "it has %u dimensions: up to %u can be read",
			       tensor->rank, HM_GGUF_RANK_MAX);
	r = scan_take(scan, tensor->rank * sizeof(*ne), &bytes);
	if (r)
		return r;
	ne = arena_take(&file->arena, 2 * tensor->rank * sizeof(*ne));
	if (!ne)
		return err_set(-ENOMEM, "no memory for %u dimensions", tensor->rank);
	tensor->ne = ne;
	tensor->shape = ne + tensor->rank;
	for (i = 0; i < tensor->rank; i++) {
		ne[i] = number_load(bytes + i * sizeof(*ne), sizeof(*ne), scan->swapped);
		ne[2 * tensor->rank - 1 - i] = ne[i];
	}
	return 0;
}

static int read_rest(struct gguf_file *file, struct scan *scan, struct gguf_tensor *tensor)
{
	const struct gguf_type *type = NULL;
	int r;

	r = read_dimensions(file, scan, tensor);
	if (!r)
		r = scan_u32(scan, &tensor->type);
	if (!r)
		r = scan_u64(scan, &tensor->offset);
	if (r)
		return r;
	r = gguf_type_find(tensor->type, &type);
	if (r)
		return r == -ERANGE ? -EOPNOTSUPP : r;
	r = gguf_bytes(type, tensor->ne, tensor->rank, &tensor->bytes);
	return r == -EOVERFLOW ? -EBADMSG : r;
}

static int read_tensor(struct gguf_file *file, uint32_t number, struct scan *scan)
{
	struct gguf_tensor *tensor;
	char shown[SHOWN_MAX];
	int r;

	r = make_room((void **)&file->tensor, file->n_tensor, &file->room_tensor,
		      sizeof(*tensor));
	if (r)
		return r;
	tensor = &file->tensor[file->n_tensor];
	tensor->file = number;
	r = read_name(file, scan, &tensor->name, &tensor->name_length);
	if (r)
		return err_prefix(r, "tensor %u of the list", file->n_tensor);
	if (file->n_tensor &&
	    is_same(tensor->name, tensor->name_length, tensor[-1].name, tensor[-1].name_length))
		return err_set(-EBADMSG, "there are two tensors of the name %s",
			       name_shown(tensor->name, shown));
	r = read_rest(file, scan, tensor);
	if (r)
		return err_prefix(r, "tensor %s", name_shown(tensor->name, shown));
	file->n_tensor++;
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct gguf_tensor *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	/* An empty one may be where another begins. */
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Writers list tensors by their offsets. */
static void sort(struct gguf_file *file)
{
	uint32_t i;

	for (i = 1; i < file->n_tensor; i++)
		if (by_offset(&file->tensor[i - 1], &file->tensor[i]) > 0) {
			qsort(file->tensor, file->n_tensor, sizeof(*file->tensor), by_offset);
			return;
		}
}

/* Is it aligned, in the file, and behind @end, where the one before ends? */
static int check_place(const struct gguf_file *file, const struct gguf_tensor *tensor,
		       uint64_t end)
{
	uint64_t room = file->size - file->data;
	char shown[SHOWN_MAX];

	if (likely(is_aligned(tensor->offset, file->alignment) && tensor->offset <= room &&
		   tensor->bytes <= room - tensor->offset && tensor->offset >= end))
		return 0;
	name_shown(tensor->name, shown);
	if (!is_aligned(tensor->offset, file->alignment))
		return err_set(-EBADMSG,
			       "tensor %s is at byte %" PRIu64
			       " of the data, which is not a multiple of %" PRIu64,
			       shown, tensor->offset, file->alignment);
	if (tensor->offset < end)
		return err_set(-EBADMSG,
			       "tensor %s is at byte %" PRIu64
			       " of the data, and overlaps the one before, which ends at "
			       "%" PRIu64,
			       shown, tensor->offset, end);
	return err_set(-EBADMSG,
		       "tensor %s has %" PRIu64 " bytes from byte %" PRIu64
		       " of the data on, of which the file has %" PRIu64 ": it was cut off",
		       shown, tensor->bytes, tensor->offset, room);
}

/* Checks all places. Offsets become those of the file. */
static int place(struct gguf_file *file)
{
	struct gguf_tensor *tensor;
	uint64_t end = 0;
	uint32_t i;
	int r;

	for (i = 0; i < file->n_tensor; i++) {
		tensor = &file->tensor[i];
		r = check_place(file, tensor, end);
		if (r)
			return r;
		end = tensor->offset + tensor->bytes;
		tensor->offset += file->data;
	}
	return 0;
}

/* ---- the file ---- */

static int read_begin(struct gguf_file *file, struct scan *scan, uint64_t *ret_tensors,
		      uint64_t *ret_values)
{
	const unsigned char *bytes = NULL;
	int r;

	r = scan_take(scan, 8, &bytes);
	if (r)
		return r;
	if (memcmp(bytes, GGUF_MAGIC, 4) != 0) {
		r = foreign_check(bytes, 8);
		return r ? r : err_set(-EBADMSG, "it does not begin with \"GGUF\"");
	}
	file->version = (uint32_t)number_load(bytes + 4, 4, false);
	/* The byte order that makes the version a small number is the file's. */
	file->swapped = scan->swapped = !(file->version & 0xffff);
	file->version = (uint32_t)number_load(bytes + 4, 4, file->swapped);
	if (!file->version)
		return err_set(-EBADMSG, "it has version 0 of the format");
	if (file->version == 1)
		return err_set(-EOPNOTSUPP, "it has version 1 of the format, whose lengths "
					    "have 32 bits: make the file anew by a later "
					    "converter");
	if (file->version > GGUF_VERSION)
		return err_set(-EOPNOTSUPP,
			       "it has version %u of the format: 2 and %u can be read",
			       file->version, GGUF_VERSION);
	r = scan_u64(scan, ret_tensors);
	return r ? r : scan_u64(scan, ret_values);
}

int gguf_parse(struct gguf_file *file, uint32_t number, struct scan *scan)
{
	uint64_t n_tensor = 0, n_value = 0, i;
	int r;

	file->alignment = GGUF_ALIGNMENT;
	r = read_begin(file, scan, &n_tensor, &n_value);
	for (i = 0; !r && i < n_value; i++)
		r = read_pair(file, number, scan);
	for (i = 0; !r && i < n_tensor; i++)
		r = read_tensor(file, number, scan);
	if (r)
		return r;
	/* A file without tensors may end with its header. */
	file->data = round_up(scan->at, file->alignment);
	if (file->data < scan->at || file->data > file->size)
		file->data = file->size;
	sort(file);
	return place(file);
}
