// SPDX-License-Identifier: MIT
/* Types of a .npy file's elements: see npy_type.h. */
#include "format/npy/npy_type.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <hetmap/npy.h>

#include "base/err.h"
#include "base/util.h"
#include "format/npy/npy.h"

/* numpy keeps it in an int. */
#define SIZE_MOST INT32_MAX
/* Structures in structures; numpy's only limit is Python's stack. */
#define DEPTH_MOST 16

/* ---- names ---- */

/*
 * Types of a fixed size; short names have a byte order in front. Names that follow C's types
 * mean the types of x86-64 and arm64, where numpy writes such files.
 */
static const struct known {
	const char *name;
	uint32_t dtype;
	uint32_t size;
	bool whole; /* a name without a byte order in front */
} known[] = {
	{ "b1", HM_DTYPE_BOOL, 1, false },
	{ "i1", HM_DTYPE_I8, 1, false },
	{ "u1", HM_DTYPE_U8, 1, false },
	{ "i2", HM_DTYPE_I16, 2, false },
	{ "u2", HM_DTYPE_U16, 2, false },
	{ "i4", HM_DTYPE_I32, 4, false },
	{ "u4", HM_DTYPE_U32, 4, false },
	{ "i8", HM_DTYPE_I64, 8, false },
	{ "u8", HM_DTYPE_U64, 8, false },
	{ "f2", HM_DTYPE_F16, 2, false },
	{ "f4", HM_DTYPE_F32, 4, false },
	{ "f8", HM_DTYPE_F64, 8, false },
	{ "f16", HM_NPY_OPAQUE, 16, false },
	{ "c8", HM_DTYPE_C64, 8, false },
	{ "c16", HM_NPY_OPAQUE, 16, false },
	{ "c32", HM_NPY_OPAQUE, 32, false },
	/* Letters of C's types. */
	{ "?", HM_DTYPE_BOOL, 1, false },
	{ "b", HM_DTYPE_I8, 1, false },
	{ "B", HM_DTYPE_U8, 1, false },
	{ "h", HM_DTYPE_I16, 2, false },
	{ "H", HM_DTYPE_U16, 2, false },
	{ "i", HM_DTYPE_I32, 4, false },
	{ "I", HM_DTYPE_U32, 4, false },
	{ "l", HM_DTYPE_I64, 8, false },
	{ "L", HM_DTYPE_U64, 8, false },
	{ "q", HM_DTYPE_I64, 8, false },
	{ "Q", HM_DTYPE_U64, 8, false },
	{ "p", HM_DTYPE_I64, 8, false },
	{ "P", HM_DTYPE_U64, 8, false },
	{ "e", HM_DTYPE_F16, 2, false },
	{ "f", HM_DTYPE_F32, 4, false },
	{ "d", HM_DTYPE_F64, 8, false },
	{ "g", HM_NPY_OPAQUE, 16, false },
	{ "F", HM_DTYPE_C64, 8, false },
	{ "D", HM_NPY_OPAQUE, 16, false },
	{ "G", HM_NPY_OPAQUE, 32, false },
	{ "c", HM_NPY_OPAQUE, 1, false },
	/* Names. */
	{ "bool", HM_DTYPE_BOOL, 1, true },
	{ "bool_", HM_DTYPE_BOOL, 1, true },
	{ "int8", HM_DTYPE_I8, 1, true },
	{ "uint8", HM_DTYPE_U8, 1, true },
	{ "int16", HM_DTYPE_I16, 2, true },
	{ "uint16", HM_DTYPE_U16, 2, true },
	{ "int32", HM_DTYPE_I32, 4, true },
	{ "uint32", HM_DTYPE_U32, 4, true },
	{ "int64", HM_DTYPE_I64, 8, true },
	{ "uint64", HM_DTYPE_U64, 8, true },
	{ "float16", HM_DTYPE_F16, 2, true },
	{ "float32", HM_DTYPE_F32, 4, true },
	{ "float64", HM_DTYPE_F64, 8, true },
	{ "float128", HM_NPY_OPAQUE, 16, true },
	{ "complex64", HM_DTYPE_C64, 8, true },
	{ "complex128", HM_NPY_OPAQUE, 16, true },
	{ "complex256", HM_NPY_OPAQUE, 32, true },
	{ "byte", HM_DTYPE_I8, 1, true },
	{ "ubyte", HM_DTYPE_U8, 1, true },
	{ "short", HM_DTYPE_I16, 2, true },
	{ "ushort", HM_DTYPE_U16, 2, true },
	{ "intc", HM_DTYPE_I32, 4, true },
	{ "uintc", HM_DTYPE_U32, 4, true },
	{ "int", HM_DTYPE_I64, 8, true },
	{ "uint", HM_DTYPE_U64, 8, true },
	{ "int_", HM_DTYPE_I64, 8, true },
	{ "long", HM_DTYPE_I64, 8, true },
	{ "ulong", HM_DTYPE_U64, 8, true },
	{ "longlong", HM_DTYPE_I64, 8, true },
	{ "ulonglong", HM_DTYPE_U64, 8, true },
	{ "intp", HM_DTYPE_I64, 8, true },
	{ "uintp", HM_DTYPE_U64, 8, true },
	{ "half", HM_DTYPE_F16, 2, true },
	{ "single", HM_DTYPE_F32, 4, true },
	{ "double", HM_DTYPE_F64, 8, true },
	{ "float", HM_DTYPE_F64, 8, true },
	{ "longdouble", HM_NPY_OPAQUE, 16, true },
	{ "csingle", HM_DTYPE_C64, 8, true },
	{ "cdouble", HM_NPY_OPAQUE, 16, true },
	{ "complex", HM_NPY_OPAQUE, 16, true },
	{ "clongdouble", HM_NPY_OPAQUE, 32, true },
	{ "str", HM_NPY_OPAQUE, 0, true },
	{ "bytes", HM_NPY_OPAQUE, 0, true },
	{ "void", HM_NPY_OPAQUE, 0, true },
};

struct name {
	const char *at, *end;
};

static bool name_is(const struct name *name, const char *other)
{
	size_t length = (size_t)(name->end - name->at);

	return strlen(other) == length && !memcmp(name->at, other, length);
}

/* The digits in front, as a number that fits an int; -1: too large. No digits are 0. */
static int64_t take_digits(struct name *name)
{
	int64_t number = 0;

	for (; name->at < name->end && *name->at >= '0' && *name->at <= '9'; name->at++)
		if (number <= SIZE_MOST)
			number = number * 10 + (*name->at - '0');
	return number <= SIZE_MOST ? number : -1;
}

/* "[ns]", "[25s]", or nothing: the unit of a time. Divided units are never written. */
static bool is_unit(struct name name)
{
	static const char *const units[] = { "Y",  "M",  "W",  "D",  "h",  "m",  "s",
					     "ms", "us", "ns", "ps", "fs", "as", "generic" };
	size_t i;

	if (name.at == name.end)
		return true;
	if (name.end - name.at < 3 || *name.at++ != '[' || *--name.end != ']' ||
	    take_digits(&name) < 0)
		return false;
	for (i = 0; i < ARRAY_SIZE(units) && !name_is(&name, units[i]); i++)
		;
	return i < ARRAY_SIZE(units);
}

/* Times: 8 bytes, with any unit. */
static bool find_time(const struct name *name, struct npy_type *type)
{
	static const char *const begins[] = {
		"M8", "m8", "M", "m", "datetime64", "timedelta64"
	};
	size_t length = (size_t)(name->end - name->at), own, i;

	for (i = 0; i < ARRAY_SIZE(begins); i++) {
		own = strlen(begins[i]);
		if (length < own || memcmp(name->at, begins[i], own) ||
		    !is_unit((struct name){ name->at + own, name->end }))
			continue;
		*type = (struct npy_type){ .dtype = HM_NPY_OPAQUE, .size = 8 };
		return true;
	}
	return false;
}

/* Strings and bytes of a length: "S5", "U3", "V8". */
static bool find_bytes(struct name name, struct npy_type *type)
{
	int64_t n;
	char kind;

	if (name.at == name.end || !strchr("SaUV", *name.at))
		return false;
	kind = *name.at++;
	n = take_digits(&name);
	if (n < 0 || name.at < name.end)
		return false;
	/* A character of U has four bytes. */
	*type = (struct npy_type){
		.dtype = HM_NPY_OPAQUE,
		.size = (uint64_t)n * (kind == 'U' ? 4 : 1),
		.padding = kind == 'V',
	};
	return type->size <= SIZE_MOST;
}

static bool find_known(const struct name *name, bool ordered, struct npy_type *type)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++) {
		if (!name_is(name, known[i].name) || (ordered && known[i].whole))
			continue;
		*type = (struct npy_type){
			.dtype = known[i].dtype,
			.size = known[i].size,
			.padding = name_is(name, "void"),
		};
		return true;
	}
	return false;
}

static bool is_object(const struct name *name)
{
	static const char *const names[] = { "O", "O4", "O8", "object", "object_" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names) && !name_is(name, names[i]); i++)
		;
	return i < ARRAY_SIZE(names);
}

/* False for bytes without an order: single ones, or opaque ones. */
static bool has_order(const struct name *name, const struct npy_type *type)
{
	return type->size > 1 && !strchr("aSV", *name->at);
}

static int find_name(const char *text, size_t length, struct npy_type *ret_type)
{
	struct name name = { text, text + length };
	int shown = (int)(length < 32 ? length : 32);
	bool ordered = length && strchr("<>|=", *text);

	if (ordered)
		name.at++;
	if (is_object(&name))
		return err_set(-EOPNOTSUPP,
			       "its elements are Python objects (%.*s): pickles, which run "
			       "code when they are read",
			       shown, text);
	if (!find_known(&name, ordered, ret_type) && !find_bytes(name, ret_type) &&
	    !find_time(&name, ret_type))
		return err_set(-EOPNOTSUPP,
			       "its elements are %.*s: that is none of numpy's types of a "
			       "fixed size",
			       shown, text);
	ret_type->swapped = ordered && *text == (BYTE_ORDER == LITTLE_ENDIAN ? '>' : '<') &&
			    has_order(&name, ret_type);
	return 0;
}

static int take_name(struct npy_text *text, struct npy_type *ret_type)
{
	const char *name;
	size_t length, i;
	int r;

	r = npy_text_take_string(text, &name, &length);
	if (r)
		return r;
	for (i = 0; i < length; i++)
		if ((unsigned char)name[i] <= ' ' || (unsigned char)name[i] > '~')
			return err_set(-EBADMSG, "the type of its elements is no type's name");
	return find_name(name, length, ret_type);
}

/* ---- structures ---- */

static int grow(uint64_t *size, uint64_t times, uint64_t by)
{
	if (__builtin_mul_overflow(*size, times, size) ||
	    __builtin_add_overflow(*size, by, size) || *size > SIZE_MOST)
		return err_set(-EOPNOTSUPP, "its elements have more bytes than numpy's may: %d",
			       SIZE_MOST);
	return 0;
}

/* An array as a field: "3", "(2, 3)". */
static int take_field_shape(struct npy_text *text, struct npy_type *type)
{
	bool comma = true;
	uint64_t n;
	int r = 0;

	if (!npy_text_take(text, '(')) {
		type->padding = true;
		r = npy_text_take_number(text, &n);
		return r ? r : grow(&type->size, n, 0);
	}
	/* "()" is no array. */
	type->padding |= !npy_text_is(text, ')');
	while (!r && !npy_text_take(text, ')')) {
		if (!comma)
			return npy_text_broken(text, "\",\" or \")\"");
		r = npy_text_take_number(text, &n);
		if (!r)
			r = grow(&type->size, n, 0);
		comma = npy_text_take(text, ',');
	}
	return r;
}

/*
 * Names and titles of the structures that are not complete yet. Those of an inner structure are
 * behind those of the outer one: numpy refuses two equal ones in one structure. A field has at
 * least eight characters for each.
 */
#define NAMES_MOST (NPY_HEADER_MAX / 8)

struct names_seen {
	uint32_t n;
	struct npy_string name[NAMES_MOST];
};

/* "name", or ("title", "name"). */
struct field_name {
	struct npy_string name, title;
	bool titled;
};

static int take_field_name(struct npy_text *text, struct field_name *ret_name)
{
	int r;

	*ret_name = (struct field_name){ 0 };
	ret_name->titled = npy_text_take(text, '(');
	if (!ret_name->titled)
		return npy_text_take_name(text, &ret_name->name);
	r = npy_text_take_name(text, &ret_name->title);
	if (!r && !npy_text_take(text, ','))
		r = npy_text_broken(text, "\",\" behind a field's title");
	if (!r)
		r = npy_text_take_name(text, &ret_name->name);
	npy_text_take(text, ',');
	if (!r && !npy_text_take(text, ')'))
		r = npy_text_broken(text, "\")\" behind a field's name");
	return r;
}

/* @first: index of the first name of the same structure. */
static int add_name(const struct npy_text *text, struct names_seen *seen, uint32_t first,
		    struct npy_string name)
{
	char shown[64];
	uint32_t i;

	for (i = first; i < seen->n; i++)
		if (npy_text_same(text, seen->name[i], name))
			return err_set(-EBADMSG,
				       "a structure has two fields or titles that are '%s'",
				       npy_text_show(text, text->begin + name.at, name.length,
						     shown, sizeof(shown)));
	if (seen->n == NAMES_MOST)
		return err_set(-EOPNOTSUPP, "its elements have more than %d fields",
			       NAMES_MOST);
	seen->name[seen->n++] = name;
	return 0;
}

static int add_names(const struct npy_text *text, struct names_seen *seen, uint32_t first,
		     const struct field_name *name, const struct npy_type *type)
{
	int r = 0;

	if (type->padding && !name->titled && !name->name.length)
		return 0;
	if (name->titled)
		r = add_name(text, seen, first, name->title);
	return r ? r : add_name(text, seen, first, name->name);
}

static int take_at(struct npy_text *text, uint32_t depth, struct names_seen *seen,
		   struct npy_type *ret_type);

/* ('name', type) or ('name', type, shape). */
static int take_field(struct npy_text *text, uint32_t depth, struct names_seen *seen,
		      uint32_t first, struct npy_type *ret_type)
{
	struct field_name name;
	int r;

	if (!npy_text_take(text, '('))
		return npy_text_broken(text, "\"(\" of a field");
	r = take_field_name(text, &name);
	if (!r && !npy_text_take(text, ','))
		r = npy_text_broken(text, "\",\" behind a field's name");
	if (!r)
		r = take_at(text, depth, seen, ret_type);
	if (!r && npy_text_take(text, ',') && !npy_text_is(text, ')')) {
		r = take_field_shape(text, ret_type);
		npy_text_take(text, ',');
	}
	if (!r && !npy_text_take(text, ')'))
		r = npy_text_broken(text, "\")\" behind a field");
	return r ? r : add_names(text, seen, first, &name, ret_type);
}

/* Takes one field behind another; a gap between them is a field without a name. */
static int take_fields(struct npy_text *text, uint32_t depth, struct names_seen *seen,
		       struct npy_type *ret_type)
{
	struct npy_type whole = { .dtype = HM_NPY_OPAQUE }, field;
	uint32_t first = seen->n;
	bool comma = true;
	int r;

	while (!npy_text_take(text, ']')) {
		if (!comma)
			return npy_text_broken(text, "\",\" or \"]\"");
		r = take_field(text, depth, seen, first, &field);
		if (!r)
			r = grow(&whole.size, 1, field.size);
		if (r)
			return r;
		whole.swapped |= field.swapped;
		comma = npy_text_take(text, ',');
	}
	/* The outer structure continues behind its own names. */
	seen->n = first;
	*ret_type = whole;
	return 0;
}

static int take_at(struct npy_text *text, uint32_t depth, struct names_seen *seen,
		   struct npy_type *ret_type)
{
	if (!npy_text_take(text, '['))
		return take_name(text, ret_type);
	if (depth == DEPTH_MOST)
		return err_set(-EOPNOTSUPP,
			       "its elements are structures in more than %d others",
			       DEPTH_MOST);
	return take_fields(text, depth + 1, seen, ret_type);
}

int npy_type_take(struct npy_text *text, struct npy_type *ret_type)
{
	struct names_seen seen;

	seen.n = 0;
	return take_at(text, 0, &seen, ret_type);
}
