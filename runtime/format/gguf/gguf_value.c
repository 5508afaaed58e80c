// SPDX-License-Identifier: MIT
/* GGUF's metadata: numbers, strings, and the elements of arrays, read for their first user. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "format/gguf/gguf.h"
#include "map/map.h"

#define PREFIX sizeof(uint64_t) /* the length before a string */

void gguf_loaded_free(struct gguf_loaded *loaded)
{
	if (loaded)
		free(loaded->start);
	free(loaded);
}

static int changed(const struct gguf_value *value)
{
	char shown[SHOWN_MAX];

	return err_set(-EBADMSG,
		       "the array %s has changed since the file was opened: a program wrote to "
		       "the file",
		       name_shown(value->key, shown));
}

/* Finds the strings of an array, and ends each with a '\0', in place of the next one's length. */
static int index_strings(const struct gguf_value *value, bool swapped,
			 struct gguf_loaded *loaded)
{
	uint64_t at = 0, length, i;

	loaded->start = sys_calloc(value->count + 1, sizeof(*loaded->start));
	if (!loaded->start)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " strings", value->count);
	for (i = 0; i < value->count; i++) {
		if (value->bytes - at < PREFIX)
			return changed(value);
		length = number_load(loaded->bytes + at, PREFIX, swapped);
		if (length > value->bytes - at - PREFIX)
			return changed(value);
		loaded->bytes[at] = '\0';
		loaded->start[i] = at + PREFIX;
		at += PREFIX + length;
	}
	if (at != value->bytes)
		return changed(value);
	loaded->bytes[at] = '\0';
	loaded->start[i] = at + PREFIX;
	return 0;
}

static int load(struct hm_gguf *gguf, const struct gguf_value *value,
		struct gguf_loaded **ret_loaded)
{
	const struct gguf_file *file = &gguf->file[value->file];
	struct gguf_loaded *loaded;
	int r;

	loaded = sys_calloc(1, sizeof(*loaded) + value->bytes + 1);
	if (!loaded)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " bytes of metadata",
			       value->bytes);
	r = pieces_pread(file->map->buffer, loaded->bytes, value->bytes, value->offset);
	if (!r && value->kind == HM_GGUF_ARRAY && value->element == HM_GGUF_STRING)
		r = index_strings(value, file->swapped, loaded);
	if (r) {
		gguf_loaded_free(loaded);
		return err_prefix(r, "%s", file->path);
	}
	*ret_loaded = loaded;
	return 0;
}

/* The bytes of an array or of a long string. */
static int get_loaded(struct hm_gguf *gguf, struct gguf_value *value,
		      struct gguf_loaded **ret_loaded)
{
	struct gguf_loaded *loaded = atomic_load_explicit(&value->loaded, memory_order_acquire);
	int r = 0;

	if (loaded) {
		*ret_loaded = loaded;
		return 0;
	}
	pthread_mutex_lock(&gguf->lock);
	loaded = atomic_load(&value->loaded);
	if (!loaded) {
		r = load(gguf, value, &loaded);
		if (!r)
			atomic_store(&value->loaded, loaded);
	}
	pthread_mutex_unlock(&gguf->lock);
	if (!r)
		*ret_loaded = loaded;
	return r;
}

int gguf_text(struct hm_gguf *gguf, struct gguf_value *value, const char **ret_text)
{
	struct gguf_loaded *loaded = NULL;
	int r;

	if (value->text) {
		*ret_text = value->text;
		return 0;
	}
	r = get_loaded(gguf, value, &loaded);
	if (!r)
		*ret_text = loaded->bytes;
	return r;
}

static void set_whole(int64_t number, struct hm_gguf_value *ret_value)
{
	ret_value->i64 = number;
	ret_value->u64 = number < 0 ? 0 : (uint64_t)number;
	ret_value->f64 = (double)number;
}

void gguf_number(uint32_t kind, uint64_t bits, struct hm_gguf_value *ret_value)
{
	uint32_t low = (uint32_t)bits;
	float real;

	switch (kind) {
	case HM_GGUF_I8:
		set_whole((int8_t)bits, ret_value);
		break;
	case HM_GGUF_I16:
		set_whole((int16_t)bits, ret_value);
		break;
	case HM_GGUF_I32:
		set_whole((int32_t)bits, ret_value);
		break;
	case HM_GGUF_I64:
		set_whole((int64_t)bits, ret_value);
		break;
	case HM_GGUF_F32:
		memcpy(&real, &low, sizeof(real));
		ret_value->f64 = (double)real;
		break;
	case HM_GGUF_F64:
		memcpy(&ret_value->f64, &bits, sizeof(ret_value->f64));
		break;
	case HM_GGUF_BOOL:
		set_whole(bits != 0, ret_value);
		break;
	default:
		ret_value->u64 = bits;
		ret_value->i64 = bits > INT64_MAX ? 0 : (int64_t)bits;
		ret_value->f64 = (double)bits;
	}
}

/* ---- for programs ---- */

static int check(struct hm_gguf *gguf, uint64_t index, const struct hm_gguf_value *result,
		 const char *what)
{
	int r = gguf_check(gguf, result, what);

	if (!r)
		r = struct_check_out(result->struct_size, sizeof(*result), sizeof(*result),
				     "hm_gguf_value");
	return r ? r : gguf_check_index(index, gguf->n_value, "key");
}

static int describe(struct hm_gguf *gguf, struct gguf_value *value,
		    struct hm_gguf_value *ret_value)
{
	*ret_value = (struct hm_gguf_value){
		.kind = value->kind,
		.element_kind = value->element,
		.file = value->file,
		.key = value->key,
		.count = value->count,
	};
	if (value->kind == HM_GGUF_STRING) {
		ret_value->length = value->bytes;
		return gguf_text(gguf, value, &ret_value->string);
	}
	if (value->kind != HM_GGUF_ARRAY)
		gguf_number(value->kind, value->bits, ret_value);
	return 0;
}

int hm_gguf_metadata(struct hm_gguf *gguf, uint64_t index, struct hm_gguf_value *ret_value)
{
	struct hm_gguf_value value;
	int r;

	err_begin();
	r = check(gguf, index, ret_value, "hm_gguf_metadata");
	if (!r)
		r = describe(gguf, gguf->value[index], &value);
	if (!r)
		struct_write(ret_value, &value, ret_value->struct_size);
	return r;
}

int hm_gguf_metadata_find(struct hm_gguf *gguf, const char *key, uint64_t *ret_index)
{
	const struct name *found;
	char shown[SHOWN_MAX];
	int r;

	err_begin();
	r = gguf_check(gguf, ret_index, "hm_gguf_metadata_find");
	if (r)
		return r;
	if (!key)
		return err_set(-EINVAL, "hm_gguf_metadata_find: key is NULL");
	found = names_find(&gguf->keys, key, strlen(key));
	if (!found)
		return err_set(-ENOENT, "there is no key %s among the %u of %s",
			       name_shown(key, shown), gguf->n_value, gguf->file[0].path);
	*ret_index = found->value;
	return 0;
}

static int describe_element(struct hm_gguf *gguf, struct gguf_value *value, uint64_t element,
			    struct hm_gguf_value *ret_value)
{
	uint32_t n = gguf_kind_bytes(value->element);
	struct gguf_loaded *loaded = NULL;
	int r;

	if (value->kind != HM_GGUF_ARRAY)
		return describe(gguf, value, ret_value);
	r = get_loaded(gguf, value, &loaded);
	if (r)
		return r;
	*ret_value = (struct hm_gguf_value){
		.kind = value->element,
		.element_kind = value->element,
		.file = value->file,
		.key = value->key,
		.count = 1,
	};
	if (loaded->start) {
		ret_value->string = loaded->bytes + loaded->start[element];
		ret_value->length =
			loaded->start[element + 1] - PREFIX - loaded->start[element];
	} else {
		gguf_number(value->element,
			    number_load(loaded->bytes + element * n, n,
					gguf->file[value->file].swapped),
			    ret_value);
	}
	return 0;
}

int hm_gguf_element(struct hm_gguf *gguf, uint64_t index, uint64_t element,
		    struct hm_gguf_value *ret_value)
{
	struct hm_gguf_value value;
	int r;

	err_begin();
	r = check(gguf, index, ret_value, "hm_gguf_element");
	if (!r)
		r = gguf_check_index(element, gguf->value[index]->count, "element");
	if (!r)
		r = describe_element(gguf, gguf->value[index], element, &value);
	if (!r)
		struct_write(ret_value, &value, ret_value->struct_size);
	return r;
}
