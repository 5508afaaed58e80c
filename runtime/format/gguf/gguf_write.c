// SPDX-License-Identifier: MIT
/* Writes a file of GGUF: checks the keys and the tensors, makes the header, and adds padding. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "format/gguf/gguf.h"
#include "format/pieces/new_file.h"
#include "format/text/utf8.h"

#define ALIGNMENT_LEAST 8
#define ALIGNMENT_MOST 65536

struct header {
	char *bytes; /* NULL: only counted */
	uint64_t length;
};

/* ---- checks ---- */

static int check_name(const char *name, const char *what, struct names *names)
{
	size_t length;
	int r;

	if (!name)
		return err_set(-EINVAL, "its %s is NULL", what);
	length = strlen(name);
	if (length > GGUF_NAME_MAX)
		return err_set(-EINVAL, "its %s has %zu bytes: up to %u can be", what, length,
			       GGUF_NAME_MAX);
	if (!utf8_is(name, length))
		return err_set(-EINVAL, "its %s is no UTF-8", what);
	r = names_add(names, name, length, 0);
	return r == -EEXIST ? err_set(-EINVAL, "the %s is there twice", what) : r;
}

static int check_strings(const char *const *string, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		if (!string[i])
			return err_set(-EINVAL, "string %" PRIu64 " is NULL", i);
	return 0;
}

/* Kind and number of the C values at pair->data. */
static uint32_t kind_of(const struct hm_gguf_pair *pair, uint64_t *ret_count)
{
	bool array = pair->kind == HM_GGUF_ARRAY;

	*ret_count = array ? pair->count : 1;
	return array ? pair->element_kind : pair->kind;
}

static int check_pair(const struct hm_gguf_pair *pair, struct names *keys)
{
	uint64_t count;
	uint32_t kind = kind_of(pair, &count);
	int r;

	r = check_name(pair->key, "key", keys);
	if (r)
		return r;
	if (!*pair->key)
		return err_set(-EINVAL, "its key is empty, which ggml refuses to read");
	if (!strcmp(pair->key, KEY_ALIGNMENT))
		return err_set(-EINVAL, "hm_gguf_desc.alignment sets this key");
	if (kind == HM_GGUF_ARRAY)
		return err_set(-EINVAL, "arrays of arrays can't be written");
	if (!gguf_kind_name(kind))
		return err_set(-EINVAL, "kind %u is unknown", kind);
	if (count && !pair->data)
		return err_set(-EINVAL, "data is NULL");
	if (count > INT64_MAX / 16)
		return err_set(-EFBIG, "an array of %" PRIu64 " elements", count);
	return kind == HM_GGUF_STRING ? check_strings(pair->data, count) : 0;
}

static int check_source(const struct hm_gguf_source *source, struct names *names,
			uint64_t *ret_bytes)
{
	const struct gguf_type *type = NULL;
	int r;

	r = check_name(source->name, "name", names);
	if (!r)
		r = gguf_type_find(source->type, &type);
	if (r)
		return r;
	if (source->rank > HM_GGUF_RANK_MAX)
		return err_set(-EINVAL, "%u dimensions: up to %u can be", source->rank,
			       HM_GGUF_RANK_MAX);
	if (source->rank && !source->ne)
		return err_set(-EINVAL, "%u dimensions, and ne is NULL", source->rank);
	r = gguf_bytes(type, source->ne, source->rank, ret_bytes);
	if (r)
		return r == -EBADMSG ? -EINVAL : r;
	if (*ret_bytes && !source->data)
		return err_set(-EINVAL, "%" PRIu64 " bytes, and data is NULL", *ret_bytes);
	/* Half the range of an off_t: the header must fit, too. */
	return *ret_bytes > INT64_MAX / 2 ? err_set(-EFBIG, "it has more than 2^62 bytes") : 0;
}

static int check_all(const struct hm_gguf_desc *desc, uint64_t *bytes)
{
	struct names keys = { 0 }, names = { 0 };
	uint64_t i, total = 0;
	int r = 0;

	for (i = 0; !r && i < desc->n_metadata; i++) {
		r = check_pair(&desc->metadata[i], &keys);
		if (r)
			err_prefix(r, "key %" PRIu64 " of the metadata", i);
	}
	for (i = 0; !r && i < desc->n_tensors; i++) {
		r = check_source(&desc->tensors[i], &names, &bytes[i]);
		if (!r && bytes[i] > INT64_MAX / 2 - total)
			r = err_set(-EFBIG, "the tensors are beyond 2^62 bytes");
		if (!r)
			total += round_up(bytes[i], desc->alignment);
		if (r)
			err_prefix(r, "tensor %" PRIu64, i);
	}
	names_free(&keys);
	names_free(&names);
	return r;
}

/* ---- the header ---- */

static void put(struct header *header, const void *bytes, uint64_t length)
{
	if (header->bytes && length)
		memcpy(header->bytes + header->length, bytes, length);
	header->length += length;
}

static void put_u32(struct header *header, uint32_t number)
{
	put(header, &number, sizeof(number));
}

static void put_u64(struct header *header, uint64_t number)
{
	put(header, &number, sizeof(number));
}

static void put_string(struct header *header, const char *string)
{
	uint64_t length = strlen(string);

	put_u64(header, length);
	put(header, string, length);
}

static void put_pair(struct header *header, const struct hm_gguf_pair *pair)
{
	uint64_t count, i;
	uint32_t kind = kind_of(pair, &count);

	put_string(header, pair->key);
	put_u32(header, pair->kind);
	if (pair->kind == HM_GGUF_ARRAY) {
		put_u32(header, kind);
		put_u64(header, count);
	}
	if (kind != HM_GGUF_STRING) {
		put(header, pair->data, count * gguf_kind_bytes(kind));
		return;
	}
	for (i = 0; i < count; i++)
		put_string(header, ((const char *const *)pair->data)[i]);
}

static void put_all(struct header *header, const struct hm_gguf_desc *desc,
		    const uint64_t *bytes)
{
	const uint32_t alignment = (uint32_t)desc->alignment;
	const struct hm_gguf_pair aligned = {
		.key = KEY_ALIGNMENT,
		.kind = HM_GGUF_U32,
		.data = &alignment,
	};
	bool told = alignment != GGUF_ALIGNMENT;
	uint64_t i, offset = 0;
	uint32_t d;

	put(header, GGUF_MAGIC, 4);
	put_u32(header, GGUF_VERSION);
	put_u64(header, desc->n_tensors);
	put_u64(header, desc->n_metadata + told);
	for (i = 0; i < desc->n_metadata; i++)
		put_pair(header, &desc->metadata[i]);
	if (told)
		put_pair(header, &aligned);
	for (i = 0; i < desc->n_tensors; i++) {
		const struct hm_gguf_source *source = &desc->tensors[i];

		put_string(header, source->name);
		put_u32(header, source->rank);
		for (d = 0; d < source->rank; d++)
			put_u64(header, source->ne[d]);
		put_u32(header, source->type);
		put_u64(header, offset);
		offset += round_up(bytes[i], desc->alignment);
	}
}

/* Makes the header, with zeros behind it up to the data. */
static int make_header(const struct hm_gguf_desc *desc, const uint64_t *bytes,
		       struct header *ret_header)
{
	struct header header = { 0 };
	uint64_t padded;

	put_all(&header, desc, bytes);
	padded = round_up(header.length, desc->alignment);
	header.bytes = sys_calloc(1, padded);
	if (!header.bytes)
		return err_set(-ENOMEM, "no memory for a header of %" PRIu64 " bytes", padded);
	header.length = 0;
	put_all(&header, desc, bytes);
	header.length = padded;
	*ret_header = header;
	return 0;
}

/* ---- the file ---- */

static int write_parts(const char *path, const struct hm_gguf_desc *desc, const uint64_t *bytes,
		       const struct header *header)
{
	struct new_file_part *part = sys_calloc(2 * desc->n_tensors + 1, sizeof(*part));
	void *zeros = part ? sys_calloc(1, desc->alignment) : NULL;
	uint64_t i, n = 0;
	int r;

	if (!zeros) {
		free(part);
		return err_set(-ENOMEM, "no memory for %" PRIu64 " tensors", desc->n_tensors);
	}
	part[n++] = (struct new_file_part){ .bytes = header->bytes, .length = header->length };
	for (i = 0; i < desc->n_tensors; i++) {
		part[n++] = (struct new_file_part){
			.name = desc->tensors[i].name,
			.bytes = desc->tensors[i].data,
			.length = bytes[i],
		};
		part[n++] = (struct new_file_part){
			.bytes = zeros,
			.length = round_up(bytes[i], desc->alignment) - bytes[i],
		};
	}
	r = new_file_write(path, part, n);
	free(zeros);
	free(part);
	return r;
}

static int read_desc(const struct hm_gguf_desc *from, struct hm_gguf_desc *ret_desc)
{
	int r;

	if (!from)
		return err_set(-EINVAL, "desc is NULL");
	r = struct_read(ret_desc, sizeof(*ret_desc), from, from->struct_size, sizeof(*ret_desc),
			"hm_gguf_desc");
	if (r)
		return r;
	if (ret_desc->flags)
		return err_set(-EINVAL, "flags 0x%x are unknown", ret_desc->flags);
	if (!ret_desc->alignment)
		ret_desc->alignment = GGUF_ALIGNMENT;
	if (ret_desc->alignment & (ret_desc->alignment - 1) ||
	    ret_desc->alignment < ALIGNMENT_LEAST || ret_desc->alignment > ALIGNMENT_MOST)
		return err_set(-EINVAL,
			       "the alignment is %" PRIu64
			       ", and must be a power of two from %u to %u",
			       ret_desc->alignment, ALIGNMENT_LEAST, ALIGNMENT_MOST);
	if ((ret_desc->n_tensors && !ret_desc->tensors) ||
	    (ret_desc->n_metadata && !ret_desc->metadata))
		return err_set(-EINVAL,
			       "%" PRIu64 " tensors and %" PRIu64 " keys, and a list is NULL",
			       ret_desc->n_tensors, ret_desc->n_metadata);
	return 0;
}

int hm_gguf_write(const char *path, const struct hm_gguf_desc *from)
{
	struct header header = { 0 };
	struct hm_gguf_desc desc;
	uint64_t *bytes;
	int r;

	err_begin();
	if (!path)
		return err_set(-EINVAL, "hm_gguf_write: path is NULL");
	r = read_desc(from, &desc);
	if (r)
		return err_prefix(r, "hm_gguf_write");
	bytes = sys_calloc(max_u64(desc.n_tensors, 1), sizeof(*bytes));
	if (!bytes)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " tensors", desc.n_tensors);
	r = check_all(&desc, bytes);
	if (!r)
		r = make_header(&desc, bytes, &header);
	if (!r)
		r = write_parts(path, &desc, bytes, &header);
	free(header.bytes);
	free(bytes);
	return r ? err_prefix(r, "%s", path) : 0;
}
