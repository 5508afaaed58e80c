// SPDX-License-Identifier: MIT
/* .npy files: each rule of the header, and arrays that numpy writes and reads. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "format/npy.h"

/* struct accepted.flags */
#define FORTRAN HM_NPY_FORTRAN
#define SWAPPED HM_NPY_SWAPPED

static const struct accepted {
	const char *text;
	uint32_t dtype, rank, flags;
	uint64_t bytes;
} accepted[] = {
	{ "{'descr': '<u2', 'fortran_order': False, 'shape': (10,), }   \n", HM_DTYPE_U16, 1, 0,
	  20 },
	{ "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", HM_DTYPE_F32, 2,
	  FORTRAN, 24 },
	/* Of one dimension there is no other order. */
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
	{ "\n { 'descr' : '=f8' , 'shape' : ( 1 , ) , 'fortran_order' : False } \n",
	  HM_DTYPE_F64, 1, 0, 8 },
};

static void test_accepted(void)
{
	struct npy_header header;
	size_t i;

	for (i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		const struct accepted *a = &accepted[i];

		header = (struct npy_header){ .version = 1 };
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

#define WITH(descr, shape) "{'descr': " descr ", 'fortran_order': False, 'shape': " shape "}"
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
	{ WITH("[('a', '<i4')]", "(1,)"), -EOPNOTSUPP, "structures" },
	{ WITH("'<U5'", "(1,)"), -EOPNOTSUPP, "<U5" },
	{ WITH("'|S5'", "(1,)"), -EOPNOTSUPP, "|S5" },
	{ WITH("'<c16'", "(1,)"), -EOPNOTSUPP, "<c16" },
	{ WITH("'<f3'", "(1,)"), -EOPNOTSUPP, "<f3" },
	{ WITH("'<M8[s]'", "(1,)"), -EOPNOTSUPP, "<M8[s]" },
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

static void test_refused(void)
{
	struct npy_header header, before = { .version = 1, .dtype = 77 };
	size_t i;
	int r;

	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		memcpy(&header, &before, sizeof(header));
		r = npy_parse(refused[i].text, strlen(refused[i].text), &header);
		if (r != refused[i].error || !strstr(hm_errmsg(), refused[i].words))
			test_fail(__FILE__, __LINE__, "%s: %d, %s", refused[i].text, r,
				  hm_errmsg());
		CHECK_EQUAL(header.dtype, before.dtype);
		CHECK_EQUAL(header.rank, before.rank);
		CHECK_EQUAL(header.bytes, before.bytes);
	}
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
	if (!strstr(hm_errmsg(), words))
		test_fail(__FILE__, __LINE__, "'%s' is not in: %s", words, hm_errmsg());
	CHECK_EQUAL(info.version, 77);
}

/* A file of 1.0 with @text for a header and @data bytes behind it. */
static void write_npy(const char *folder, const char *name, const char *text, size_t data)
{
	static const char magic[] = { '\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0 };
	size_t length = strlen(text), size = 10 + length + data, i;
	char *bytes = calloc(1, size);

	CHECK_FATAL(bytes != NULL);
	memcpy(bytes, magic, sizeof(magic));
	bytes[8] = (char)(length & 255);
	bytes[9] = (char)(length >> 8);
	for (i = 0; i < length; i++)
		bytes[10 + i] = text[i];
	file_write(folder, name, bytes, size);
	free(bytes);
}

static void test_query(void)
{
	static const char text[] = WITH("'<u4'", "(3, 2)") "\n";
	struct hm_npy_info info = { .struct_size = sizeof(info) };
	char *folder = folder_make(), *path = folder_path(folder, "a.npy");
	char *none = folder_path(folder, "none");

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
	free(none);
	free(path);
	folder_remove(folder);
}

/* The command tells what the library does. */
static void test_inspect(void)
{
	char *folder = folder_make(), *path = folder_path(folder, "a");
	struct command command = { .args = { "inspect", "--json", path } };
	struct outcome outcome;
	json_t *json, *part;

	write_npy(folder, "a", "{'descr': '>u4', 'fortran_order': True, 'shape': (3, 2)}", 24);
	command_run(&command, &outcome);
	CHECK_EQUAL(outcome.status, 0);
	json = outcome_json(&outcome);
	outcome_free(&outcome);
	CHECK_FATAL(json != NULL);
	CHECK(!strcmp(string_of(json, "kind"), "npy"));
	CHECK_EQUAL(json_array_size(json_object_get(json, "metadata")), 2);
	part = json_array_get(json_object_get(json, "parts"), 0);
	CHECK(!strcmp(string_of(part, "dtype"), "U32"));
	CHECK_EQUAL(integer_of(part, "bytes"), 24);
	json_decref(json);
	write_npy(folder, "a", WITH("'<u4'", "(3, 2)"), 23);
	command_run(&command, &outcome);
	CHECK_EQUAL(outcome.status, 1);
	CHECK(strstr(outcome.out, "cut off") || strstr(outcome.err, "cut off"));
	outcome_free(&outcome);
	write_npy(folder, "a", WITH("'|O'", "(3, 2)"), 24);
	command_run(&command, &outcome);
	CHECK_EQUAL(outcome.status, 2);
	outcome_free(&outcome);
	free(path);
	folder_remove(folder);
}

/* What numpy itself writes, and what it refuses to read is refused. */
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
		"n.save(d + 's.npy', n.array(['a']))\n";
	static const struct {
		const char *name;
		uint32_t version, dtype, rank, flags;
		uint64_t bytes;
	} files[] = {
		{ "a.npy", 1, HM_DTYPE_U16, 1, 0, 2000 },
		{ "b.npy", 1, HM_DTYPE_F64, 2, HM_NPY_FORTRAN | HM_NPY_SWAPPED, 120 },
		{ "c.npy", 1, HM_DTYPE_BOOL, 0, 0, 1 },
		{ "d.npy", 3, HM_DTYPE_I64, 2, 0, 0 },
	};
	struct hm_npy_info info = { .struct_size = sizeof(info) };
	char *folder = folder_make(), *path;
	int status;
	size_t i;
	pid_t pid;

	pid = fork();
	if (!pid) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		execl("/usr/bin/python3", "python3", "-c", program, folder, NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	if (status) {
		test_skip("numpy",
			  "numpy is not installed (Debian: apt-get install python3-numpy)");
		folder_remove(folder);
		return;
	}
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
	path = folder_path(folder, "s.npy");
	check_query(path, -EOPNOTSUPP, "<U1");
	free(path);
	folder_remove(folder);
}

static const struct test tests[] = {
	{ "accepted", test_accepted, 10, 0 },
	{ "refused", test_refused, 10, 0 },
	{ "begin", test_begin, 10, 0 },
	{ "query", test_query, 10, 0 },
	{ "inspect", test_inspect, 60, TEST_ONCE },
	{ "numpy", test_numpy, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "npy", tests);
}
