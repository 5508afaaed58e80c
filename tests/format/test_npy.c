// SPDX-License-Identifier: MIT
/* .npy files: each rule of the header, and arrays that numpy writes and reads. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"
#include "format/npy/npy.h"
#include "format/text/utf8.h"
#include "lib/python_support.h"
#include "format/tokens_support.h"

/* struct accepted.flags */
#define FORTRAN HM_NPY_FORTRAN
#define SWAPPED HM_NPY_SWAPPED

#define WITH(descr, shape) "{'descr': " descr ", 'fortran_order': False, 'shape': " shape "}"

static const struct accepted {
	const char *text;
	uint32_t dtype, rank, flags;
	uint64_t bytes;
} accepted[] = {
	{ "{'descr': '<u2', 'fortran_order': False, 'shape': (10,), }   \n", HM_DTYPE_U16, 1, 0,
	  20 },
	{ "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", HM_DTYPE_F32, 2,
	  FORTRAN, 24 },
	/* One dimension has no other order. */
	{ "{'descr': '<f4', 'fortran_order': True, 'shape': (6,), }\n", HM_DTYPE_F32, 1, 0,
	  24 },
	{ "{'descr': '>i8', 'fortran_order': False, 'shape': (), }\n", HM_DTYPE_I64, 0, SWAPPED,
	  8 },
	{ "{'descr': '>u1', 'fortran_order': False, 'shape': (0, 7)}", HM_DTYPE_U8, 2, 0, 0 },
	{ "{\"shape\":(3,4,),\"fortran_order\":False,\"descr\":\"|b1\"}", HM_DTYPE_BOOL, 2, 0,
	  12 },
	/* Python 2's. */
	{ "{'descr': '<c8', 'fortran_order': False, 'shape': (5L, 2L), }", HM_DTYPE_C64, 2, 0,
	  80 },
	{ WITH("[('a', '<i4', (3L,))]", "(2L,)"), HM_NPY_OPAQUE, 1, 0, 24 },
	/*
	 * Names of fields in the encoding of the version, with escapes. Another structure may have
	 * the same names.
	 */
	{ WITH("[('\xff', '<i4')]", "(2,)"), HM_NPY_OPAQUE, 1, 0, 8 },
	{ WITH("[('a\\\\b', '<i4'), ('it\\'s', '|u1'), (\"\\\"\", '|u1')]", "(2,)"),
	  HM_NPY_OPAQUE, 1, 0, 12 },
	{ WITH("[('\\n\\x85\\u200e\\U0001f600\\0\\q', '<i4')]", "(2,)"), HM_NPY_OPAQUE, 1, 0,
	  8 },
	{ WITH("[('a', '<i4'), ('b', [('a', '<i4'), ('b', '<i4')]), ('c', '|u1')]", "(2,)"),
	  HM_NPY_OPAQUE, 1, 0, 26 },
	/* An array without a name is padding. */
	{ WITH("[('', '|V4'), ('', '<i4', (2,)), ('', '<i4', 1), ('', 'void'), ('', '<i4')]",
	       "(2,)"),
	  HM_NPY_OPAQUE, 1, 0, 40 },
	/* Types that the library has not: opaque elements of so many bytes. */
	{ WITH("'<M8[ns]'", "(3,)"), HM_NPY_OPAQUE, 1, 0, 24 },
	{ WITH("'>c16'", "(3,)"), HM_NPY_OPAQUE, 1, SWAPPED, 48 },
	{ WITH("'>S5'", "(3,)"), HM_NPY_OPAQUE, 1, 0, 15 },
	{ WITH("'>U5'", "(3,)"), HM_NPY_OPAQUE, 1, SWAPPED, 60 },
	{ WITH("'|V0'", "(18446744073709551615,)"), HM_NPY_OPAQUE, 1, 0, 0 },
	{ WITH("'S2147483647'", "(2,)"), HM_NPY_OPAQUE, 1, 0, 4294967294 },
	{ WITH("[('a', '<i4'), ('', '|V4'), (('title', 'b'), [('c', '>f8', (2, 3)), "
	       "('d', '|u1', 3,),], (2,)), ]",
	       "(2,)"),
	  HM_NPY_OPAQUE, 1, SWAPPED, 220 },
	{ WITH("[('h\xc3\xb6"
	       "he', '|b1')]",
	       "(2,)"),
	  HM_NPY_OPAQUE, 1, 0, 2 },
	{ WITH("[]", "(2,)"), HM_NPY_OPAQUE, 1, 0, 0 },
	/* Other names that numpy reads. */
	{ WITH("'u2'", "(3,)"), HM_DTYPE_U16, 1, 0, 6 },
	{ WITH("'uint16'", "(3,)"), HM_DTYPE_U16, 1, 0, 6 },
	{ WITH("'<i'", "(3,)"), HM_DTYPE_I32, 1, 0, 12 },
	{ WITH("'>f'", "(3,)"), HM_DTYPE_F32, 1, SWAPPED, 12 },
	{ WITH("'|u2'", "(3,)"), HM_DTYPE_U16, 1, 0, 6 },
	{ "\n { 'descr' : '=f8' , 'shape' : ( 1 , ) , 'fortran_order' : False } \n",
	  HM_DTYPE_F64, 1, 0, 8 },
};

/* The same for version 3.0. */
static const struct accepted accepted_3[] = {
	{ WITH("[('\xe6\xb8\xa9\xe5\xba\xa6', '<i4')]", "(2,)"), HM_NPY_OPAQUE, 1, 0, 8 },
	{ WITH("[('a', '<i4', (3,))]", "(2,)"), HM_NPY_OPAQUE, 1, 0, 24 },
};

static void check_accepted(const struct accepted *a, size_t n, uint32_t version)
{
	struct npy_header header;

	for (; n; n--, a++) {
		header = (struct npy_header){ .version = version };
		if (npy_parse(a->text, strlen(a->text), &header)) {
			test_fail(__FILE__, __LINE__, "%s: %s", a->text, hm_errmsg());
			continue;
		}
		CHECK_EQUAL(header.dtype, a->dtype);
		CHECK_EQUAL(header.rank, a->rank);
		CHECK_EQUAL(header.bytes, a->bytes);
		CHECK_EQUAL(header.fortran, a->flags & FORTRAN ? 1 : 0);
		CHECK_EQUAL(header.swapped, a->flags & SWAPPED ? 1 : 0);
	}
}

static void test_accepted(void)
{
	check_accepted(accepted, sizeof(accepted) / sizeof(accepted[0]), 1);
	check_accepted(accepted, sizeof(accepted) / sizeof(accepted[0]), 2);
	check_accepted(accepted_3, sizeof(accepted_3) / sizeof(accepted_3[0]), 3);
}

#define NEST "[('a', [('a', [('a', [('a', "
#define TEN "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "

static const struct refused {
	const char *text;
	int error;
	const char *words;
} refused[] = {
	{ "", -EBADMSG, "ends where \"{\"" },
	{ "[]", -EBADMSG, "no \"{\"" },
	{ "{}", -EBADMSG, "lacks descr" },
	{ "{'descr': '<u2', 'shape': (1,)}", -EBADMSG, "lacks fortran_order" },
	{ "{'descr': '<u2', 'fortran_order': False}", -EBADMSG, "lacks shape" },
	{ "{'descr': '<u2', 'descr': '<u4', 'fortran_order': False, 'shape': (1,)}", -EBADMSG,
	  "there twice" },
	{ "{'descr': '<u2', 'fortran_order': False, 'shape': (1,), 'x': 1}", -EBADMSG,
	  "none of its own" },
	{ WITH("'<u2'", "(1,)") "x", -EBADMSG, "no end" },
	{ "{'descr': '<u2' 'fortran_order': False, 'shape': (1,)}", -EBADMSG,
	  "\",\" or \"}\"" },
	{ "{'descr' '<u2'}", -EBADMSG, "\":\"" },
	{ "{'descr': '<u2', 'fortran_order': 0, 'shape': (1,)}", -EBADMSG, "True or False" },
	{ "{'descr': '<u2', 'fortran_order': False, 'shape': (1,)", -EBADMSG, "ends where" },
	{ WITH("'<u2", "(1,)"), -EBADMSG, "" },
	{ WITH("'<\\x752'", "(1,)"), -EBADMSG, "plain string" },
	{ WITH("2", "(1,)"), -EBADMSG, "no string" },
	{ WITH("'\x01u2'", "(1,)"), -EBADMSG, "no type's name" },
	{ WITH("'|O'", "(1,)"), -EOPNOTSUPP, "Python objects" },
	{ WITH("'O'", "(1,)"), -EOPNOTSUPP, "Python objects" },
	{ WITH("'object'", "(1,)"), -EOPNOTSUPP, "Python objects" },
	{ WITH("[('a', '<i4'), ('b', '|O')]", "(1,)"), -EOPNOTSUPP, "Python objects" },
	{ WITH("[('a', [('b', '<i4'), ('c', 'O', (2,))], (0,))]", "(1,)"), -EOPNOTSUPP,
	  "Python objects" },
	{ WITH("'<f3'", "(1,)"), -EOPNOTSUPP, "<f3" },
	{ WITH("''", "(1,)"), -EOPNOTSUPP, "fixed size" },
	{ WITH("'<'", "(1,)"), -EOPNOTSUPP, "fixed size" },
	{ WITH("'<uint16'", "(1,)"), -EOPNOTSUPP, "<uint16" },
	{ WITH("'S2147483648'", "(1,)"), -EOPNOTSUPP, "fixed size" },
	{ WITH("'U536870912'", "(1,)"), -EOPNOTSUPP, "fixed size" },
	{ WITH("'S99999999999999999999'", "(1,)"), -EOPNOTSUPP, "fixed size" },
	{ WITH("'<M8[]'", "(1,)"), -EOPNOTSUPP, "<M8[]" },
	{ WITH("'<M8[B]'", "(1,)"), -EOPNOTSUPP, "<M8[B]" },
	{ WITH("'<M8[99999999999s]'", "(1,)"), -EOPNOTSUPP, "<M8[" },
	{ WITH("'i4,f4'", "(1,)"), -EOPNOTSUPP, "i4,f4" },
	{ WITH("[('a', 'S2000000000'), ('b', 'S2000000000')]", "(1,)"), -EOPNOTSUPP,
	  "more bytes than numpy" },
	{ WITH("[('a', '<i4', (65536, 65536))]", "(1,)"), -EOPNOTSUPP, "more bytes" },
	{ WITH("[('a', '<i4', 18446744073709551615)]", "(1,)"), -EOPNOTSUPP, "more bytes" },
	{ WITH(NEST NEST NEST NEST NEST "[]", "(1,)"), -EOPNOTSUPP, "more than 16" },
	/* A name or a title twice. */
	{ WITH("[('a', '<i4'), ('a', '<f4')]", "(1,)"), -EBADMSG, "titles that are 'a'" },
	{ WITH("[('a', '<i4'), (('a', 'b'), '<f4')]", "(1,)"), -EBADMSG, "are 'a'" },
	{ WITH("[(('a', 'a'), '<f4')]", "(1,)"), -EBADMSG, "are 'a'" },
	{ WITH("[('a', '<i4'), ('b', '<i4'), ('\\x61', '<f4')]", "(1,)"), -EBADMSG,
	  "are '\\x61'" },
	{ WITH("[('\xe9', '<i4'), ('\\xe9', '<f4')]", "(1,)"), -EBADMSG, "are '\\xe9'" },
	{ WITH("[('', '<i4'), ('', '<i4')]", "(1,)"), -EBADMSG, "are ''" },
	{ WITH("[('', '<i4', ()), ('', [])]", "(1,)"), -EBADMSG, "are ''" },
	{ WITH("[(('t', ''), '|V4'), (('u', ''), '|V4')]", "(1,)"), -EBADMSG, "are ''" },
	{ WITH("[('a', '<i4'), ('b', [('c', '<i4')]), ('a', '<i4')]", "(1,)"), -EBADMSG,
	  "are 'a'" },
	/* Escapes that Python does not have. */
	{ WITH("[('\\x6', '<i4')]", "(1,)"), -EBADMSG, "escape" },
	{ WITH("[('\\U00110000', '<i4')]", "(1,)"), -EBADMSG, "escape" },
	{ WITH("[('\\N{DIGIT ONE}', '<i4')]", "(1,)"), -EBADMSG, "escape" },
	{ WITH("[('a\\\n', '<i4')]", "(1,)"), -EBADMSG, "plain string" },
	{ "{'descr': [('a\\", -EBADMSG, "end of a string" },
	{ WITH("['<i4']", "(1,)"), -EBADMSG, "of a field" },
	{ WITH("[('a',)]", "(1,)"), -EBADMSG, "string" },
	{ WITH("[('a', '<i4' (2,))]", "(1,)"), -EBADMSG, "behind a field" },
	{ WITH("[('a', '<i4', (2 3))]", "(1,)"), -EBADMSG, "\",\" or \")\"" },
	{ WITH("[(('t' 'a'), '<i4')]", "(1,)"), -EBADMSG, "title" },
	{ WITH("[(('t', 'a', 'b'), '<i4')]", "(1,)"), -EBADMSG, "field's name" },
	{ WITH("[('a' '<i4')]", "(1,)"), -EBADMSG, "field's name" },
	{ WITH("[('a', '<i4') ('b', '<i4')]", "(1,)"), -EBADMSG, "\",\" or \"]\"" },
	{ WITH("[('a', '<i4')", "(1,)"), -EBADMSG, "" },
	{ WITH("'<u2'", "1"), -EBADMSG, "shape" },
	{ WITH("'<u2'", "(1)"), -EBADMSG, "only number" },
	{ WITH("'<u2'", "(1 2)"), -EBADMSG, "\",\" or \")\"" },
	{ WITH("'<u2'", "(-1,)"), -EBADMSG, "no number" },
	{ WITH("'<u2'", "(01,)"), -EBADMSG, "no number" },
	{ WITH("'<u2'", "(1.0,)"), -EBADMSG, "\",\" or \")\"" },
	{ WITH("'<u2'", "(,)"), -EBADMSG, "no number" },
	{ WITH("'<u2'", "(18446744073709551616,)"), -EBADMSG, "beyond 2^64" },
	{ WITH("'<u2'", "(4294967296, 4294967296)"), -EOVERFLOW, "dimension 1" },
	{ WITH("'<u2'", "(18446744073709551615,)"), -EOVERFLOW, "beyond 2^64 bytes" },
	{ WITH("'<u2'", "(" TEN TEN TEN TEN TEN TEN TEN ")"), -EOPNOTSUPP,
	  "more than 64 dimensions" },
};

static const struct refused refused_3[] = {
	/* Version 3.0 is in UTF-8, and was never written by Python 2. */
	{ WITH("[('\xc3', '<i4')]", "(1,)"), -EBADMSG, "not in UTF-8" },
	{ WITH("'<i4'", "(1,)") "\xff", -EBADMSG, "not in UTF-8" },
	{ WITH("'<i4'", "(4L,)"), -EBADMSG, "\",\" or \")\" at character 52" },
	{ WITH("[('\xc3\xa9', '<i4', 2L)]", "(1,)"), -EBADMSG, "a field at character 25" },
	{ WITH("[('\xc3\xa9', '<i4'), ('\\351', '<f4')]", "(1,)"), -EBADMSG, "are '\\351'" },
	{ WITH("[('\xc3\xa9', '<i4'), ('\xc3\xa9', '<f4')]", "(1,)"), -EBADMSG,
	  "are '\xc3\xa9'" },
};

static void check_refused(const struct refused *refuse, size_t n, uint32_t version)
{
	struct npy_header header, before = { .version = version, .dtype = 77 };
	int r;

	for (; n; n--, refuse++) {
		memcpy(&header, &before, sizeof(header));
		r = npy_parse(refuse->text, strlen(refuse->text), &header);
		if (r != refuse->error || !strstr(hm_errmsg(), refuse->words))
			test_fail(__FILE__, __LINE__, "%s: %d, %s", refuse->text, r,
				  hm_errmsg());
		CHECK_EQUAL(header.dtype, before.dtype);
		CHECK_EQUAL(header.rank, before.rank);
		CHECK_EQUAL(header.bytes, before.bytes);
	}
}

static void test_refused(void)
{
	check_refused(refused, sizeof(refused) / sizeof(refused[0]), 1);
	check_refused(refused, sizeof(refused) / sizeof(refused[0]), 2);
	check_refused(refused_3, sizeof(refused_3) / sizeof(refused_3[0]), 3);
}

static void test_begin(void)
{
	static const struct {
		const char *bytes;
		size_t length;
		int error;
		uint32_t header;
		uint64_t data;
	} cases[] = {
		{ "\x93NUMPY\x01\x00\x76\x00", 10, 0, 118, 128 },
		{ "\x93NUMPY\x02\x00\x74\x00\x00\x00", 12, 0, 116, 128 },
		{ "\x93NUMPY\x03\x00\x74\x00\x00\x00", 12, 0, 116, 128 },
		{ "\x93NUMPY\x02\x00\x74\x00\x00", 11, -EBADMSG, 0, 0 },
		{ "\x93NUMPY\x01\x00\x76", 9, -EBADMSG, 0, 0 },
		{ "\x93NUMPX\x01\x00\x76\x00", 10, -EBADMSG, 0, 0 },
		{ "\x93NUMPY\x04\x00\x76\x00", 10, -EOPNOTSUPP, 0, 0 },
		{ "\x93NUMPY\x01\x01\x76\x00", 10, -EOPNOTSUPP, 0, 0 },
		{ "\x93NUMPY\x01\x00\xff\xff", 10, -EOPNOTSUPP, 0, 0 },
		{ "\x93NUMPY\x02\x00\x00\x00\x00\x80", 12, -EOPNOTSUPP, 0, 0 },
	};
	struct npy_header header;
	uint32_t length;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		header = (struct npy_header){ 0 };
		length = 0;
		CHECK_EQUAL(npy_begin(cases[i].bytes, cases[i].length, &header, &length),
			    cases[i].error);
		CHECK_EQUAL(length, cases[i].header);
		CHECK_EQUAL(header.data, cases[i].data);
	}
}

static void check_query(const char *path, int error, const char *words)
{
	struct hm_npy_info info = { .struct_size = sizeof(info), .version = 77 };

	CHECK_EQUAL(hm_npy_query(path, &info), error);
	CHECK_HAS(hm_errmsg(), words);
	CHECK_EQUAL(info.version, 77);
}

/* A file of 1.0 with @text for a header and @data bytes behind it. */
static void write_npy(const char *folder, const char *name, const char *text, size_t data)
{
	static const char magic[] = { '\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0 };
	size_t length = strlen(text), size = 10 + length + data, i;
	AUTO_TEXT *bytes = calloc(1, size);

	CHECK_FATAL(bytes != NULL);
	memcpy(bytes, magic, sizeof(magic));
	bytes[8] = (char)(length & 255);
	bytes[9] = (char)(length >> 8);
	for (i = 0; i < length; i++)
		bytes[10 + i] = text[i];
	file_write(folder, name, bytes, size);
}

static void test_query(void)
{
	static const char text[] = WITH("'<u4'", "(3, 2)") "\n";
	struct hm_npy_info info = { .struct_size = sizeof(info) };
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a.npy");
	AUTO_TEXT *none = folder_path(folder, "none");

	write_npy(folder, "a.npy", text, 24);
	CHECK_OK_FATAL(hm_npy_query(path, &info));
	CHECK_EQUAL(info.version, 1);
	CHECK_EQUAL(info.dtype, HM_DTYPE_U32);
	CHECK_EQUAL(info.rank, 2);
	CHECK_EQUAL(info.shape[0], 3);
	CHECK_EQUAL(info.shape[1], 2);
	CHECK_EQUAL(info.shape[2], 0);
	CHECK_EQUAL(info.elements, 6);
	CHECK_EQUAL(info.bytes, 24);
	CHECK_EQUAL(info.itemsize, 4);
	CHECK(!strcmp(info.descr, "<u4"));
	CHECK_EQUAL(info.flags, 0);
	CHECK_EQUAL(info.offset, 10 + strlen(text));
	CHECK_EQUAL(info.offset % info.alignment, 0);
	CHECK(info.offset % (2 * info.alignment) != 0);
	CHECK_EQUAL(info.size, info.offset + 24);
	/* Another array may follow; a part of this one may not be missing. */
	write_npy(folder, "a.npy", text, 100);
	CHECK_OK(hm_npy_query(path, &info));
	write_npy(folder, "a.npy", text, 23);
	check_query(path, -EBADMSG, "cut off");
	CHECK_OK(truncate(path, 20));
	check_query(path, -EBADMSG, "ends inside of its header");
	CHECK_OK(truncate(path, 9));
	check_query(path, -EBADMSG, "does not begin");
	CHECK_OK(truncate(path, 0));
	check_query(path, -EBADMSG, "does not begin");
	check_query(folder, -EISDIR, "no regular file");
	check_query("/dev/null", -EINVAL, "no regular file");
	check_query(none, -ENOENT, "none");
	check_query(NULL, -EINVAL, "path is NULL");
	info.struct_size = 8;
	CHECK_EQUAL(hm_npy_query(path, &info), -EINVAL);
}

/* The command prints the library's answers. */
static void test_inspect(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a");
	struct command command = { .args = { "inspect", "--json", path } };
	AUTO(outcome) outcome = { 0 };
	json_t *json, *part;

	write_npy(folder, "a", "{'descr': '>u4', 'fortran_order': True, 'shape': (3, 2)}", 24);
	json = command_json(&command, 0);
	CHECK(!strcmp(string_of(json, "kind"), "npy"));
	CHECK_EQUAL(json_array_size(json_object_get(json, "metadata")), 2);
	part = json_array_get(json_object_get(json, "parts"), 0);
	CHECK(!strcmp(string_of(part, "dtype"), "U32"));
	CHECK_EQUAL(integer_of(part, "bytes"), 24);
	json_decref(json);
	write_npy(folder, "a", WITH("'<M8[ns]'", "(3, 2)"), 48);
	CHECK_RUN(0, &outcome, &command);
	json = outcome_json(&outcome);
	CHECK_FATAL(json != NULL);
	part = json_array_get(json_object_get(json, "parts"), 0);
	CHECK(!strcmp(string_of(part, "dtype"), "<M8[ns]"));
	CHECK_EQUAL(integer_of(part, "bytes"), 48);
	json_decref(json);
	/* A field is shown by its name; a terminal without UTF-8 gets its bytes. */
	write_npy(folder, "a", WITH("[('\xe9', '<u4')]", "(3,)"), 12);
	command_run(&command, &outcome);
	json = outcome_json(&outcome);
	CHECK_FATAL(json != NULL);
	part = json_array_get(json_object_get(json, "parts"), 0);
	CHECK(!strcmp(string_of(part, "dtype"), "[('\xc3\xa9', '<u4')]"));
	json_decref(json);
	command_run(&(struct command){ .args = { "inspect", path }, .env = { "LC_ALL=C" } },
		    &outcome);
	CHECK(strstr(outcome.out, "[('\\xc3\\xa9', '<u4')]") != NULL);
	write_npy(folder, "a", WITH("'<u4'", "(3, 2)"), 23);
	CHECK_RUN(1, &outcome, &command);
	CHECK(strstr(outcome.out, "cut off") || strstr(outcome.err, "cut off"));
	write_npy(folder, "a", WITH("'|O'", "(3, 2)"), 24);
	CHECK_RUN(2, &outcome, &command);
}

/* Files that numpy writes are read, and those that it refuses are refused. */
static void test_numpy(void)
{
	static const char program[] =
		"import sys, numpy as n\n"
		"from numpy.lib import format as f\n"
		"d = sys.argv[1] + '/'\n"
		"n.save(d + 'a.npy', n.arange(1000, dtype='<u2'))\n"
		"n.save(d + 'b.npy', n.asfortranarray(n.ones((3, 5), '>f8')))\n"
		"n.save(d + 'c.npy', n.zeros((), '?'))\n"
		"f.write_array(open(d + 'd.npy', 'wb'), n.zeros((2, 0), 'i8'), version=(3, 0))\n"
		"n.save(d + 'o.npy', n.array([None], object))\n"
		"n.save(d + 's.npy', n.array(['a']))\n"
		"n.save(d + 't.npy', n.arange('2001-01-01', '2001-01-08', dtype='M8[D]'))\n"
		"v = n.zeros((3, 4), n.dtype([('a', 'u2'), ('b', '>f8', 2)], align=True))\n"
		"n.save(d + 'v.npy', n.asfortranarray(v[:, :3]))\n"
		"n.save(d + 'w.npy', n.zeros(3, [('a', 'u2'), ('b', 'O')]))\n";
	static const struct {
		const char *name;
		uint32_t version, dtype, rank, flags;
		uint64_t bytes;
	} files[] = {
		{ "a.npy", 1, HM_DTYPE_U16, 1, 0, 2000 },
		{ "b.npy", 1, HM_DTYPE_F64, 2, HM_NPY_FORTRAN | HM_NPY_SWAPPED, 120 },
		{ "c.npy", 1, HM_DTYPE_BOOL, 0, 0, 1 },
		{ "d.npy", 3, HM_DTYPE_I64, 2, 0, 0 },
		{ "s.npy", 1, HM_NPY_OPAQUE, 1, 0, 4 },
		{ "t.npy", 1, HM_NPY_OPAQUE, 1, 0, 56 },
		{ "v.npy", 1, HM_NPY_OPAQUE, 2, HM_NPY_FORTRAN | HM_NPY_SWAPPED, 216 },
	};
	struct hm_npy_info info = { .struct_size = sizeof(info) };
	char *path;
	AUTO_TEXT *folder = folder_make();
	size_t i;

	if (!numpy_wrote(program, folder))
		return;
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		path = folder_path(folder, files[i].name);
		CHECK_OK_FATAL(hm_npy_query(path, &info));
		CHECK_EQUAL(info.version, files[i].version);
		CHECK_EQUAL(info.dtype, files[i].dtype);
		CHECK_EQUAL(info.rank, files[i].rank);
		CHECK_EQUAL(info.flags, files[i].flags);
		CHECK_EQUAL(info.bytes, files[i].bytes);
		CHECK_EQUAL(info.offset % 64, 0);
		free(path);
	}
	path = folder_path(folder, "o.npy");
	check_query(path, -EOPNOTSUPP, "Python objects");
	free(path);
	path = folder_path(folder, "w.npy");
	check_query(path, -EOPNOTSUPP, "Python objects");
	free(path);
}

/*
 * Files of an element whose type has such a name; "expected" has the answers of numpy's own
 * reader: bytes (-1: it reads none), name here, whether it is swapped.
 */
static const char names_program[] =
	"import sys, numpy as n, struct, warnings\n"
	"warnings.simplefilter('ignore')\n"
	"names = ('u2 <u2 =u2 |u2 >u2 uint16 float32 i <i >i f <f >f d >d e g >g h H b B l L '\n"
	"'q Q p P I |i ? |? <? b1 <b1 =b1 i1 u1 >u1 c F D G c8 >c8 c16 >c16 c32 f16 >f16 S S4 '\n"
	"'|S4 >S4 S04 U U1 <U1 >U3 |U2 =U2 V8 |V8 >V8 S0 V0 M8 m8 <M8[ns] >M8[ns] <M8[25s] '\n"
	"'<m8[D] M8[Y] m8[3W] m8[generic] m8[as] M m datetime64 datetime64[ns] timedelta64[D] '\n"
	"'int8 uint8 int16 int32 uint32 int64 uint64 float16 float64 float128 complex64 '\n"
	"'complex128 complex256 bool int float complex str bytes half single double longdouble '\n"
	"'intc uintc intp uintp uint byte ubyte short ushort long ulong longlong ulonglong '\n"
	"'csingle cdouble clongdouble O |O object b2 i3 u16 f3 f12 u0 i16 c1 M4 e2 d8 h2 l8 ?1 '\n"
	"'<<i4 <uint16 >float32 <datetime64 < i4: m8[] m8[B] m8[-1s] m8[s M8[s]x '\n"
	"'M8[2147483648s] unsigned Float32 Bool x').split()\n"
	"names += [[('a', '<i4'), ('b', '>f8', (2, 3))], [(('t', 'a'), 'u1'), ('', '|V3')],\n"
	"  [('a', [('b', '<c16'), ('c', 'S3', 2)], (4,)), ('d', 'M8[ms]')], [('a', 'O')],\n"
	"  [('a', [('b', 'O', (2,))])], [('a', 'x')],\n"
	"  [('a', 'u1'), ('a', 'u1')], [(('a', 'a'), 'u1')], [(('t', 'a'), 'u1'), ('t', 'u1')],\n"
	"  [('a', 'u1'), ('b', [('a', 'u1'), ('b', 'u1')])], [('', 'u1'), ('', 'u1')],\n"
	"  [('', 'V4'), ('', 'V4')], [('', 'i4', (2,)), ('', 'i4', 1)], [('', [])] * 2,\n"
	"  [('', 'i4', ()), ('', 'i4', ())], [(('t', ''), 'V4'), (('u', ''), 'V4')],\n"
	"  [('', 'void'), ('', 'V')], [('\\\\', 'u1'), ('\\'', 'u1'), ('\"', 'u1')],\n"
	"  [('a\\n\\0\\x85\\u200e\\U0001f600', 'u1')], [('\\xe9', 'u1')], [('\\u6e29', 'u1')]]\n"
	"ours = dict(b1='BOOL', i1='I8', u1='U8', i2='I16', u2='U16', i4='I32', u4='U32',\n"
	"  i8='I64', u8='U64', f2='F16', f4='F32', f8='F64', c8='C64')\n"
	"swapped = lambda t: any(swapped(t[k]) for k in t.names) if t.names else \\\n"
	"  swapped(t.base) if t.shape else t.str[0] == '>'\n"
	"with open(sys.argv[1] + '/expected', 'w') as out:\n"
	"  for i, (v, name) in enumerate((v, name) for v in (1, 3) for name in names):\n"
	"    head = repr({'descr': name, 'fortran_order': False, 'shape': (3,)})\n"
	"    head = head.encode('utf8' if v == 3 else 'latin1', 'replace')\n"
	"    path = '%s/%d.npy' % (sys.argv[1], i)\n"
	"    with open(path, 'wb') as file:\n"
	"      file.write(b'\\x93NUMPY' + bytes((v, 0)) + struct.pack('<H' if v == 1 else '<I',\n"
	"        len(head)) + head + bytes(999))\n"
	"    try:\n"
	"      t = n.load(path).dtype\n"
	"      out.write('%d %s %d\\n' % (t.itemsize, ours.get(t.str[1:], '-'), swapped(t)))\n"
	"    except (ValueError, TypeError):\n"
	"      out.write('-1 - 0\\n')\n";

static void test_numpy_names(void)
{
	struct hm_npy_info info = { .struct_size = sizeof(info) };
	char *path, name[16], type[16];
	AUTO_TEXT *folder = folder_make();
	int i, size, swapped, r, n_read = 0;
	FILE *expected;

	if (!numpy_wrote(names_program, folder))
		return;
	path = folder_path(folder, "expected");
	expected = fopen(path, "re");
	free(path);
	CHECK_FATAL(expected != NULL);
	for (i = 0; fscanf(expected, "%d %15s %d", &size, type, &swapped) == 3; i++) {
		snprintf(name, sizeof(name), "%d.npy", i);
		path = folder_path(folder, name);
		r = hm_npy_query(path, &info);
		n_read += !r;
		if (!r != (size >= 0) ||
		    (!r &&
		     (info.itemsize != (uint64_t)size || info.bytes != 3 * info.itemsize ||
		      !!(info.flags & HM_NPY_SWAPPED) != swapped ||
		      strcmp(info.dtype == HM_NPY_OPAQUE ? "-" : hm_dtype_name(info.dtype),
			     type))))
			test_fail(
				__FILE__, __LINE__,
				"file %d: numpy has %d bytes of %s, %d; here %d, %s, %d bytes",
				i, size, type, swapped, r, r ? hm_errmsg() : info.descr,
				(int)info.itemsize);
		free(path);
	}
	CHECK(i > 300 && n_read > 200);
	fclose(expected);
}

/* The name is kept as the file has it, and printed fit for a terminal. */
static void test_descr(void)
{
	struct npy_header header = { .version = 1 };
	char text[512], fields[256] = "", field[16];
	int i;

	snprintf(text, sizeof(text), WITH(" '<M8[ns]'", "(3,)"));
	CHECK(!npy_parse(text, strlen(text), &header));
	CHECK(!strcmp(header.descr, "<M8[ns]"));
	snprintf(text, sizeof(text), WITH("[('\x1b\xc3', '<u2')]", "(3,)"));
	CHECK(!npy_parse(text, strlen(text), &header));
	CHECK(!strcmp(header.descr, "[('?\xc3\x83', '<u2')]"));
	/* Names of a file of version 3.0; escapes are shown as the file has them. */
	header.version = 3;
	snprintf(text, sizeof(text),
		 WITH("[('\xe6\xb8\xa9\xe5\xba\xa6\xc2\x85', '<u2')]", "(3,)"));
	CHECK(!npy_parse(text, strlen(text), &header));
	CHECK(!strcmp(header.descr, "[('\xe6\xb8\xa9\xe5\xba\xa6?', '<u2')]"));
	snprintf(text, sizeof(text), WITH("[('\\n', '<u2')]", "(3,)"));
	CHECK(!npy_parse(text, strlen(text), &header));
	CHECK(!strcmp(header.descr, "[('\\n', '<u2')]"));
	/* Cut between characters: "[('", 40 characters of three bytes, and the dots. */
	for (i = 0; i < 50; i++)
		strcat(fields, "\xe6\xb8\xa9");
	snprintf(text, sizeof(text), WITH("[('%s', '<u2')]", "(3,)"), fields);
	CHECK(!npy_parse(text, strlen(text), &header));
	CHECK(utf8_is(header.descr, strlen(header.descr)));
	CHECK(!strcmp(header.descr + 3 + 40 * 3, "..."));
	fields[0] = '\0';
	for (i = 0; i < 14; i++) {
		snprintf(field, sizeof(field), "('%c', '<u2'),", 'a' + i);
		strcat(fields, field);
	}
	snprintf(text, sizeof(text), "{'descr': [%s], 'fortran_order': False, 'shape': (3,)}",
		 fields);
	CHECK(!npy_parse(text, strlen(text), &header));
	CHECK_EQUAL(strlen(header.descr), HM_NPY_DESCR_MAX - 1);
	CHECK(!strcmp(header.descr + HM_NPY_DESCR_MAX - 4, "..."));
	CHECK_EQUAL(header.itemsize, 28);
}

static const struct test tests[] = {
	{ "accepted", test_accepted, 10, 0 },
	{ "refused", test_refused, 10, 0 },
	{ "begin", test_begin, 10, 0 },
	{ "query", test_query, 10, 0 },
	{ "inspect", test_inspect, 60, TEST_ONCE },
	{ "numpy", test_numpy, 60, TEST_ONCE },
	{ "numpy_names", test_numpy_names, 60, TEST_ONCE },
	{ "descr", test_descr, 10, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "npy", tests)
