// SPDX-License-Identifier: MIT
/* Writes a file of tensors: checks and orders them, and makes the header. */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/pieces/new_file.h"
#include "format/text/utf8.h"
#include "format/safetensors/safetensors.h"
#include "base/sys.h"

#define METADATA "__metadata__"

/* Alignment of the data, and of tensors whose length is a multiple of it. */
#define BLOCK 4096ull

struct item {
	const struct hm_tensor_source *source;
	uint64_t bytes;
};

struct header {
	char *text; /* NULL: only counted */
	uint64_t length;
};

/* ---- the tensors ---- */

static int check_item(const struct hm_tensor_source *source, struct item *ret_item)
{
	int r;

	if (!source->name)
		return err_set(-EINVAL, "its name is NULL");
	if (!utf8_is(source->name, strlen(source->name)))
		return err_set(-EINVAL, "its name is no UTF-8");
	if (!strcmp(source->name, METADATA))
		return err_set(-EINVAL, "the name is the format's own");
	if (!hm_dtype_name(source->dtype))
		return err_set(-EINVAL, "dtype %u is unknown", source->dtype);
	if (source->rank > HM_TENSOR_RANK_MAX)
		return err_set(-EINVAL, "%u dimensions: up to %u can be", source->rank,
			       HM_TENSOR_RANK_MAX);
	if (source->rank && !source->shape)
		return err_set(-EINVAL, "%u dimensions, and shape is NULL", source->rank);
	r = safetensors_bytes(source->dtype, source->shape, source->rank, &ret_item->bytes);
	if (r)
		return r;
	if (ret_item->bytes && !source->data)
		return err_set(-EINVAL, "%" PRIu64 " bytes, and data is NULL", ret_item->bytes);
	ret_item->source = source;
	return 0;
}

static int check_items(const struct hm_safetensors_desc *desc, struct item *item)
{
	struct names names = { 0 };
	char shown[SHOWN_MAX];
	uint64_t i, total = 0;
	const char *name;
	int r = 0;

	for (i = 0; !r && i < desc->n_tensors; i++) {
		name = desc->tensors[i].name;
		r = check_item(&desc->tensors[i], &item[i]);
		if (!r)
			r = names_add(&names, name, strlen(name), 0);
		if (r == -EEXIST)
			r = err_set(-EINVAL, "the name is there twice");
		/* Half the range of an off_t: the header must fit, too. */
		if (!r && item[i].bytes > INT64_MAX / 2 - total)
			r = err_set(-EFBIG, "the tensors are beyond 2^62 bytes");
		total += item[i].bytes;
		if (r)
			err_prefix(r, "tensor %" PRIu64 ", %s", i,
				   name ? name_shown(name, shown) : "NULL");
	}
	names_free(&names);
	return r;
}

static int check_metadata(const struct hm_safetensors_desc *desc)
{
	const struct hm_metadata *pair;
	struct names keys = { 0 };
	char shown[SHOWN_MAX];
	uint64_t i;
	int r = 0;

	for (i = 0; !r && i < desc->n_metadata; i++) {
		pair = &desc->metadata[i];
		if (!pair->key || !pair->value) {
			r = err_set(-EINVAL, "metadata %" PRIu64 ": key or value is NULL", i);
			break;
		}
		r = names_add(&keys, pair->key, strlen(pair->key), 0);
		if (r == -EEXIST)
			r = err_set(-EINVAL, "metadata %s: the key is there twice",
				    name_shown(pair->key, shown));
		else if (!r && (!utf8_is(pair->key, strlen(pair->key)) ||
				!utf8_is(pair->value, strlen(pair->value))))
			r = err_set(-EINVAL, "metadata %s: it is no UTF-8",
				    name_shown(pair->key, shown));
	}
	names_free(&keys);
	return r;
}

/* The order that hm_safetensors_write() documents. */
static int by_place(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	uint32_t x_bits = hm_dtype_bits(x->source->dtype) & ~7u;
	uint32_t y_bits = hm_dtype_bits(y->source->dtype) & ~7u;
	bool x_blocks = x->bytes % BLOCK == 0, y_blocks = y->bytes % BLOCK == 0;

	if (x_blocks != y_blocks)
		return x_blocks ? -1 : 1;
	if (!x_blocks && x_bits != y_bits)
		return x_bits > y_bits ? -1 : 1;
	return strcmp(x->source->name, y->source->name);
}

/* ---- the header ---- */

static void put(struct header *header, const char *text, size_t length)
{
	if (header->text)
		memcpy(header->text + header->length, text, length);
	header->length += length;
}

static void put_text(struct header *header, const char *text)
{
	put(header, text, strlen(text));
}

static void put_number(struct header *header, uint64_t number)
{
	char text[24];

	put(header, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, number));
}

static void put_string(struct header *header, const char *string)
{
	char escape[8];

	put_text(header, "\"");
	for (; *string; string++) {
		if (*string == '"' || *string == '\\')
			put(header, escape,
			    (size_t)snprintf(escape, sizeof(escape), "\\%c", *string));
		else if ((unsigned char)*string < 0x20)
			put(header, escape,
			    (size_t)snprintf(escape, sizeof(escape), "\\u%04x",
					     (unsigned char)*string));
		else
			put(header, string, 1);
	}
	put_text(header, "\"");
}

static void put_item(struct header *header, const struct item *item, uint64_t offset)
{
	uint32_t i;

	put_string(header, item->source->name);
	put_text(header, ":{\"dtype\":\"");
	put_text(header, hm_dtype_name(item->source->dtype));
	put_text(header, "\",\"shape\":[");
	for (i = 0; i < item->source->rank; i++) {
		put_text(header, i ? "," : "");
		put_number(header, item->source->shape[i]);
	}
	put_text(header, "],\"data_offsets\":[");
	put_number(header, offset);
	put_text(header, ",");
	put_number(header, offset + item->bytes);
	put_text(header, "]}");
}

static void put_all(struct header *header, const struct hm_safetensors_desc *desc,
		    const struct item *item)
{
	const char *comma = "";
	uint64_t i, offset = 0;

	put_text(header, "{");
	if (desc->n_metadata) {
		put_text(header, "\"" METADATA "\":{");
		for (i = 0; i < desc->n_metadata; i++) {
			put_text(header, i ? "," : "");
			put_string(header, desc->metadata[i].key);
			put_text(header, ":");
			put_string(header, desc->metadata[i].value);
		}
		put_text(header, "}");
		comma = ",";
	}
	for (i = 0; i < desc->n_tensors; i++) {
		put_text(header, comma);
		put_item(header, &item[i], offset);
		offset += item[i].bytes;
		comma = ",";
	}
	put_text(header, "}");
}

/* Writes the header with its length in front, and blanks behind it up to the data. */
static int make_header(const struct hm_safetensors_desc *desc, const struct item *item,
		       struct header *ret_header)
{
	struct header header = { 0 };
	uint64_t length, padded, word;

	put_all(&header, desc, item);
	length = sizeof(word) + header.length;
	padded = round_up(length, BLOCK);
	if (padded - sizeof(word) > HEADER_MAX)
		return err_set(-EFBIG,
			       "a header of %" PRIu64
			       " bytes: the format allows %llu: write the "
			       "tensors to several files",
			       padded - sizeof(word), HEADER_MAX);
	header.text = sys_calloc(1, padded);
	if (!header.text)
		return err_set(-ENOMEM, "no memory for a header of %" PRIu64 " bytes", padded);
	word = htole64(padded - sizeof(word));
	header.length = 0;
	put(&header, (const char *)&word, sizeof(word));
	put_all(&header, desc, item);
	memset(header.text + length, ' ', padded - length);
	header.length = padded;
	*ret_header = header;
	return 0;
}

static int write_parts(const char *path, const struct hm_safetensors_desc *desc,
		       const struct item *item, const struct header *header)
{
	struct new_file_part *part = sys_calloc(desc->n_tensors + 1, sizeof(*part));
	uint64_t i;
	int r;

	if (!part)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " tensors", desc->n_tensors);
	part[0] = (struct new_file_part){ .bytes = header->text, .length = header->length };
	for (i = 0; i < desc->n_tensors; i++)
		part[i + 1] = (struct new_file_part){
			.name = item[i].source->name,
			.bytes = item[i].source->data,
			.length = item[i].bytes,
		};
	r = new_file_write(path, part, desc->n_tensors + 1);
	free(part);
	return r;
}

static int read_desc(const struct hm_safetensors_desc *from,
		     struct hm_safetensors_desc *ret_desc)
{
	int r;

	if (!from)
		return err_set(-EINVAL, "desc is NULL");
	r = struct_read(ret_desc, sizeof(*ret_desc), from, from->struct_size, sizeof(*ret_desc),
			"hm_safetensors_desc");
	if (r)
		return r;
	if (ret_desc->flags)
		return err_set(-EINVAL, "flags 0x%x are unknown", ret_desc->flags);
	if ((ret_desc->n_tensors && !ret_desc->tensors) ||
	    (ret_desc->n_metadata && !ret_desc->metadata))
		return err_set(-EINVAL,
			       "%" PRIu64 " tensors and %" PRIu64
			       " strings of metadata, and a list is NULL",
			       ret_desc->n_tensors, ret_desc->n_metadata);
	return 0;
}

int hm_safetensors_write(const char *path, const struct hm_safetensors_desc *from)
{
	struct hm_safetensors_desc desc;
	struct header header = { 0 };
	struct item *item;
	int r;

	err_begin();
	if (!path)
		return err_set(-EINVAL, "hm_safetensors_write: path is NULL");
	r = read_desc(from, &desc);
	if (r)
		return err_prefix(r, "hm_safetensors_write");
	item = sys_calloc(max_u64(desc.n_tensors, 1), sizeof(*item));
	if (!item)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " tensors", desc.n_tensors);
	r = check_items(&desc, item);
	if (!r)
		r = check_metadata(&desc);
	if (r)
		goto out_free;
	qsort(item, desc.n_tensors, sizeof(*item), by_place);
	r = make_header(&desc, item, &header);
	if (!r)
		r = write_parts(path, &desc, item, &header);
	free(header.text);
out_free:
	free(item);
	return r ? err_prefix(r, "%s", path) : 0;
}
