// SPDX-License-Identifier: MIT
/*
 * Parses the head of a .npy file: the literals that numpy writes and reads back by
 * ast.literal_eval(), and no more of Python.
 */
#include "format/npy/npy.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "format/npy/npy_text.h"
#include "format/npy/npy_type.h"
#include "base/util.h"

#define MAGIC "\x93NUMPY"

/* ---- before the dict ---- */

bool npy_begins(const void *bytes, size_t length)
{
	return length >= strlen(MAGIC) && !memcmp(bytes, MAGIC, strlen(MAGIC));
}

int npy_begin(const void *from, size_t length, struct npy_header *ret_header,
	      uint32_t *ret_length)
{
	const unsigned char *bytes = from;
	uint32_t version, size, at = 8;

	if (length < 10 || !npy_begins(bytes, length))
		return err_set(-EBADMSG,
			       "it does not begin as a .npy file does (\"\\x93NUMPY\" "
			       "and a version)");
	version = bytes[6];
	if (version < 1 || version > 3 || bytes[7])
		return err_set(-EOPNOTSUPP,
			       "it is of version %u.%u: 1.0, 2.0 and 3.0 are known", version,
			       bytes[7]);
	size = bytes[8] | (uint32_t)bytes[9] << 8;
	at += 2;
	if (version > 1) {
		if (length < NPY_BEGIN_MAX)
			return err_set(-EBADMSG, "it ends inside of its header's length");
		size |= (uint32_t)bytes[10] << 16 | (uint32_t)bytes[11] << 24;
		at += 2;
	}
	if (size > NPY_HEADER_MAX)
		return err_set(-EOPNOTSUPP,
			       "its header has %u characters, and %u are the most (numpy's own "
			       "limit)",
			       size, NPY_HEADER_MAX);
	ret_header->version = version;
	ret_header->data = at + size;
	*ret_length = size;
	return 0;
}

/* ---- descr ---- */

/* Keeps the type's text for display: without quotes round a name, and cut to the room. */
static void keep_descr(const struct npy_text *text, const char *from, struct npy_header *header)
{
	size_t length = (size_t)(text->at - from);

	if (length >= 2 && (*from == '\'' || *from == '"')) {
		from++;
		length -= 2;
	}
	memset(header->descr, 0, sizeof(header->descr));
	npy_text_show(text, from, length, header->descr, sizeof(header->descr));
}

static int take_descr(struct npy_text *text, struct npy_header *header)
{
	struct npy_type type;
	const char *begin;
	int r;

	npy_text_skip_space(text);
	begin = text->at;
	r = npy_type_take(text, &type);
	if (r)
		return r;
	header->dtype = type.dtype;
	header->itemsize = type.size;
	header->swapped = type.swapped;
	header->bytes_only = type.dtype == HM_NPY_OPAQUE && type.padding;
	keep_descr(text, begin, header);
	return 0;
}

/* ---- shape ---- */

/* "()", "(3,)", "(3, 4)". */
static int take_shape(struct npy_text *text, struct npy_header *header)
{
	bool comma = false;
	int r;

	header->rank = 0;
	if (!npy_text_take(text, '('))
		return npy_text_broken(text, "shape, which begins with \"(\"");
	while (!npy_text_take(text, ')')) {
		if (header->rank && !comma)
			return npy_text_broken(text, "\",\" or \")\"");
		if (header->rank == HM_NPY_RANK_MAX)
			return err_set(-EOPNOTSUPP, "it has more than %u dimensions",
				       HM_NPY_RANK_MAX);
		r = npy_text_take_number(text, &header->shape[header->rank]);
		if (r)
			return r;
		header->rank++;
		comma = npy_text_take(text, ',');
	}
	/* "(3)" is a number. */
	if (header->rank == 1 && !comma)
		return npy_text_broken(text, "\",\" behind a shape's only number");
	return 0;
}

static int count(struct npy_header *header)
{
	uint32_t i;

	header->elements = 1;
	for (i = 0; i < header->rank; i++)
		if (__builtin_mul_overflow(header->elements, header->shape[i],
					   &header->elements))
			return err_set(-EOVERFLOW,
				       "the product of its shape is beyond 2^64 (at dimension "
				       "%u, %" PRIu64 ")",
				       i, header->shape[i]);
	if (__builtin_mul_overflow(header->elements, header->itemsize, &header->bytes))
		return err_set(-EOVERFLOW,
			       "%" PRIu64 " elements of %" PRIu64
			       " bytes each are beyond 2^64 bytes",
			       header->elements, header->itemsize);
	return 0;
}

/* ---- the dict ---- */

enum { DESCR = 1u << 0, FORTRAN_ORDER = 1u << 1, SHAPE = 1u << 2 };

static const struct {
	const char *name;
	uint32_t bit;
} keys[] = {
	{ "descr", DESCR },
	{ "fortran_order", FORTRAN_ORDER },
	{ "shape", SHAPE },
};

static int take_member(struct npy_text *text, struct npy_header *header, uint32_t *seen)
{
	uint32_t bit = 0;
	const char *key;
	size_t length, i;
	int r;

	r = npy_text_take_string(text, &key, &length);
	if (r)
		return r;
	for (i = 0; i < ARRAY_SIZE(keys); i++)
		if (length == strlen(keys[i].name) && !memcmp(key, keys[i].name, length))
			bit = keys[i].bit;
	if (!bit || *seen & bit)
		return err_set(-EBADMSG,
			       "its header has a key that is %s: it must have descr, "
			       "fortran_order and shape, once each",
			       bit ? "there twice" : "none of its own");
	*seen |= bit;
	if (!npy_text_take(text, ':'))
		return npy_text_broken(text, "\":\"");
	switch (bit) {
	case DESCR:
		return take_descr(text, header);
	case SHAPE:
		return take_shape(text, header);
	default:
		return npy_text_take_truth(text, &header->fortran);
	}
}

int npy_parse(const char *from, size_t length, struct npy_header *header)
{
	struct npy_header parsed = *header;
	struct npy_text text;
	bool comma = true;
	uint32_t seen = 0;
	int r;

	r = npy_text_begin(&text, from, length, header->version);
	if (r)
		return r;
	if (!npy_text_take(&text, '{'))
		return npy_text_broken(&text, "\"{\"");
	while (!npy_text_take(&text, '}')) {
		if (!comma)
			return npy_text_broken(&text, "\",\" or \"}\"");
		r = take_member(&text, &parsed, &seen);
		if (r)
			return r;
		comma = npy_text_take(&text, ',');
	}
	if (seen != (DESCR | FORTRAN_ORDER | SHAPE))
		return err_set(-EBADMSG, "its header lacks %s",
			       !(seen & DESCR) ? "descr" :
			       !(seen & SHAPE) ? "shape" :
						 "fortran_order");
	npy_text_skip_space(&text);
	if (text.at != text.end)
		return npy_text_broken(&text, "end");
	r = count(&parsed);
	if (r)
		return r;
	/* With one dimension, or none, both orders are the same. */
	parsed.fortran &= parsed.rank > 1;
	*header = parsed;
	return 0;
}
