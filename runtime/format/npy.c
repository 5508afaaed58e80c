// SPDX-License-Identifier: MIT
/*
 * The head of a .npy file, parsed: the literals that numpy writes and reads back, by
 * ast.literal_eval(), and no more of Python than these.
 */
#include "npy.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "err.h"
#include "util.h"

#define MAGIC "\x93NUMPY"

/* ---- what is before the dict ---- */

int npy_begin(const void *from, size_t length, struct npy_header *ret_header,
	      uint32_t *ret_length)
{
	const unsigned char *bytes = from;
	uint32_t version, size, at = 8;

	if (length < 10 || memcmp(bytes, MAGIC, 6) != 0)
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

/* ---- literals ---- */

struct text {
	const char *begin, *at, *end;
};

static int broken(const struct text *text, const char *expected)
{
	if (text->at == text->end)
		return err_set(-EBADMSG, "its header ends where %s should be", expected);
	return err_set(-EBADMSG, "its header has no %s at character %zu", expected,
		       (size_t)(text->at - text->begin));
}

static void skip_space(struct text *text)
{
	while (text->at < text->end && *text->at && strchr(" \t\r\n\f", *text->at))
		text->at++;
}

/* The sign, if it is next. */
static bool take(struct text *text, char sign)
{
	skip_space(text);
	if (text->at == text->end || *text->at != sign)
		return false;
	text->at++;
	return true;
}

/* Without escapes: nothing that is told here needs one. */
static int take_string(struct text *text, const char **ret_string, size_t *ret_length)
{
	const char *begin;
	char quote;

	skip_space(text);
	if (text->at == text->end || (*text->at != '\'' && *text->at != '"'))
		return broken(text, "string");
	quote = *text->at++;
	begin = text->at;
	while (text->at < text->end && *text->at != quote) {
		if (*text->at == '\\' || *text->at == '\n' || !*text->at)
			return broken(text, "plain string");
		text->at++;
	}
	if (text->at == text->end)
		return broken(text, "end of a string");
	*ret_string = begin;
	*ret_length = (size_t)(text->at++ - begin);
	return 0;
}

/* Python 2 wrote 10L. */
static int take_number(struct text *text, uint64_t *ret_number)
{
	const char *begin;
	uint64_t number = 0;

	skip_space(text);
	begin = text->at;
	while (text->at < text->end && *text->at >= '0' && *text->at <= '9') {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*text->at - '0'), &number))
			return err_set(-EBADMSG,
				       "its header has a number beyond 2^64 at character %zu",
				       (size_t)(begin - text->begin));
		text->at++;
	}
	if (text->at == begin)
		return broken(text, "number");
	/* 01 is no number of Python's. */
	if (*begin == '0' && number)
		return broken(&(struct text){ text->begin, begin, text->end }, "number");
	if (text->at < text->end && *text->at == 'L')
		text->at++;
	*ret_number = number;
	return 0;
}

static int take_truth(struct text *text, bool *ret_truth)
{
	size_t left;

	skip_space(text);
	left = (size_t)(text->end - text->at);
	if (left >= 4 && !memcmp(text->at, "True", 4)) {
		text->at += 4;
		*ret_truth = true;
		return 0;
	}
	if (left >= 5 && !memcmp(text->at, "False", 5)) {
		text->at += 5;
		*ret_truth = false;
		return 0;
	}
	return broken(text, "True or False");
}

/* ---- descr ---- */

static const struct {
	const char *name; /* kind, and bytes */
	uint32_t dtype;
} types[] = {
	{ "b1", HM_DTYPE_BOOL }, { "u1", HM_DTYPE_U8 },  { "i1", HM_DTYPE_I8 },
	{ "u2", HM_DTYPE_U16 },  { "i2", HM_DTYPE_I16 }, { "f2", HM_DTYPE_F16 },
	{ "u4", HM_DTYPE_U32 },  { "i4", HM_DTYPE_I32 }, { "f4", HM_DTYPE_F32 },
	{ "u8", HM_DTYPE_U64 },  { "i8", HM_DTYPE_I64 }, { "f8", HM_DTYPE_F64 },
	{ "c8", HM_DTYPE_C64 },
};

static int refuse_type(const char *name, size_t length)
{
	int shown = (int)(length < 32 ? length : 32);

	if (length && name[length - 1] == 'O')
		return err_set(-EOPNOTSUPP,
			       "its elements are Python objects (%.*s): pickles, which run "
			       "code when they are read",
			       shown, name);
	return err_set(-EOPNOTSUPP,
		       "its elements are %.*s: numbers and truth values of 1 to 8 bytes, and "
		       "c8, are supported",
		       shown, name);
}

/* "<u2", "|b1", ">f8": byte order, kind, bytes. */
static int take_type(struct text *text, struct npy_header *header)
{
	const char *name;
	size_t length, i;
	int r;

	skip_space(text);
	/* A list of fields: ('name', 'type') each. */
	if (text->at < text->end && *text->at == '[')
		return err_set(-EOPNOTSUPP,
			       "its elements are structures: numbers are supported");
	r = take_string(text, &name, &length);
	if (r)
		return r;
	for (i = 0; i < length; i++)
		if ((unsigned char)name[i] <= ' ' || (unsigned char)name[i] > '~')
			return err_set(-EBADMSG, "the type of its elements is no type's name");
	if (length != 3 || !strchr("<>|=", name[0]))
		return refuse_type(name, length);
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		if (memcmp(types[i].name, name + 1, 2) != 0)
			continue;
		header->dtype = types[i].dtype;
		/* Of one byte there is no order, whatever it says. */
		header->swapped = name[2] != '1' &&
				  name[0] == (BYTE_ORDER == LITTLE_ENDIAN ? '>' : '<');
		return 0;
	}
	return refuse_type(name, length);
}

/* ---- shape ---- */

/* "()", "(3,)", "(3, 4)". */
static int take_shape(struct text *text, struct npy_header *header)
{
	bool comma = false;
	int r;

	header->rank = 0;
	if (!take(text, '('))
		return broken(text, "shape, which begins with \"(\"");
	while (!take(text, ')')) {
		if (header->rank && !comma)
			return broken(text, "\",\" or \")\"");
		if (header->rank == HM_NPY_RANK_MAX)
			return err_set(-EOPNOTSUPP, "it has more than %u dimensions",
				       HM_NPY_RANK_MAX);
		r = take_number(text, &header->shape[header->rank]);
		if (r)
			return r;
		header->rank++;
		comma = take(text, ',');
	}
	/* "(3)" is a number. */
	if (header->rank == 1 && !comma)
		return broken(text, "\",\" behind a shape's only number");
	return 0;
}

static int count(struct npy_header *header)
{
	uint32_t bits = hm_dtype_bits(header->dtype), i;

	header->elements = 1;
	for (i = 0; i < header->rank; i++)
		if (__builtin_mul_overflow(header->elements, header->shape[i],
					   &header->elements))
			return err_set(-EOVERFLOW,
				       "the product of its shape is beyond 2^64 (at dimension "
				       "%u, %" PRIu64 ")",
				       i, header->shape[i]);
	if (__builtin_mul_overflow(header->elements, bits / 8, &header->bytes))
		return err_set(-EOVERFLOW, "%" PRIu64 " elements of %s are beyond 2^64 bytes",
			       header->elements, hm_dtype_name(header->dtype));
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

static int take_member(struct text *text, struct npy_header *header, uint32_t *seen)
{
	uint32_t bit = 0;
	const char *key;
	size_t length, i;
	int r;

	r = take_string(text, &key, &length);
	if (r)
		return r;
	for (i = 0; i < ARRAY_SIZE(keys); i++)
		if (length == strlen(keys[i].name) && !memcmp(key, keys[i].name, length))
			bit = keys[i].bit;
	if (!bit || *seen & bit)
		return err_set(-EBADMSG,
			       "its header has a key that is %s: descr, fortran_order and "
			       "shape, once each, are what it has to have",
			       bit ? "there twice" : "none of its own");
	*seen |= bit;
	if (!take(text, ':'))
		return broken(text, "\":\"");
	switch (bit) {
	case DESCR:
		return take_type(text, header);
	case SHAPE:
		return take_shape(text, header);
	default:
		return take_truth(text, &header->fortran);
	}
}

int npy_parse(const char *from, size_t length, struct npy_header *header)
{
	struct text text = { .begin = from, .at = from, .end = from + length };
	struct npy_header parsed = *header;
	bool comma = true;
	uint32_t seen = 0;
	int r;

	if (!take(&text, '{'))
		return broken(&text, "\"{\"");
	while (!take(&text, '}')) {
		if (!comma)
			return broken(&text, "\",\" or \"}\"");
		r = take_member(&text, &parsed, &seen);
		if (r)
			return r;
		comma = take(&text, ',');
	}
	if (seen != (DESCR | FORTRAN_ORDER | SHAPE))
		return err_set(-EBADMSG, "its header lacks %s",
			       !(seen & DESCR) ? "descr" :
			       !(seen & SHAPE) ? "shape" :
						 "fortran_order");
	skip_space(&text);
	if (text.at != text.end)
		return broken(&text, "end");
	r = count(&parsed);
	if (r)
		return r;
	/* Of one dimension, or none, the order is the same. */
	parsed.fortran &= parsed.rank > 1;
	*header = parsed;
	return 0;
}
