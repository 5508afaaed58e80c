// SPDX-License-Identifier: MIT
/* Each rule of the safetensors format, by a file that breaks it, and legal files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/safetensors_support.h"

#define UNTOUCHED ((void *)0x10)

/* One entry, and one of 4 bytes from @begin to @end. */
#define ENTRY(name, members) "\"" name "\":{" members "}"
#define U8(begin, end, shape) \
	"\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]"
#define ONE(members) "{" ENTRY("t", members) "}"

struct rule {
	const char *what; /* of the file */
	const char *header;
	uint64_t data;
	const char *text; /* is in the sentence; NULL: the file is legal */
};

static const struct rule rules[] = {
	/* JSON */
	{ "no JSON", "nothing", 0, "a JSON object" },
	{ "blanks only", "    ", 0, "ends where a JSON object" },
	{ "an array", "[]", 0, "'[' where a JSON object" },
	{ "a string", "\"t\"", 0, "a JSON object" },
	{ "cut off", "{\"t\":{\"dtype\"", 0, "ends where ':'" },
	{ "no comma", "{\"__metadata__\":{}\"t\":1}", 0, "',' or '}'" },
	{ "a comma too many", "{\"__metadata__\":{},}", 0, "a string" },
	{ "a word behind", "{} x", 0, "byte 11: 'x' where nothing but blanks" },
	{ "a zero behind", "{}\x01", 0, "0x01 where nothing but blanks" },
	{ "a byte order mark", "\xef\xbb\xbf{}", 0, "a JSON object" },
	{ "blanks before and behind", " \n\t\r{ } \n ", 0, NULL },
	{ "nothing in it", "{}", 0, NULL },
	{ "an escape that is none", "{\"\\x\":1}", 0, "one of" },
	{ "half of a character", "{\"\\ud800\":1}", 0, "surrogate" },
	{ "the other half", "{\"\\udc00\":1}", 0, "half of a character" },
	{ "a pair that is none", "{\"\\ud800\\u0041\":1}", 0, "no character" },
	{ "a zero in a name", "{\"a\\u0000b\":1}", 0, "\\u0000" },
	{ "a line break in a name", "{\"a\nb\":1}", 0, "escape those below 0x20" },
	{ "no UTF-8", "{\"\xff\":1}", 0, "UTF-8" },
	{ "overlong UTF-8", "{\"\xc0\xaf\":1}", 0, "UTF-8" },
	{ "a surrogate in UTF-8", "{\"\xed\xa0\x80\":1}", 0, "UTF-8" },
	{ "beyond Unicode", "{\"\xf4\x90\x80\x80\":1}", 0, "UTF-8" },
	{ "cut UTF-8", "{\"\xe2\x82", 0, "UTF-8" },
	{ "UTF-8", "{" ENTRY("\xe2\x82\xac", U8("0", "4", "[4]")) "}", 4, NULL },
	/* Entries */
	{ "an entry that is none", "{\"t\":5}", 0, "tensor \"t\": byte 13: '5'" },
	{ "no dtype", ONE("\"shape\":[4],\"data_offsets\":[0,4]"), 4,
	  "\"t\": it has no dtype" },
	{ "no shape", ONE("\"dtype\":\"U8\",\"data_offsets\":[0,4]"), 4, "it has no shape" },
	{ "no data_offsets", ONE("\"dtype\":\"U8\",\"shape\":[4]"), 4,
	  "it has no data_offsets" },
	{ "members of others", ONE(U8("0", "4", "[4]") ",\"stride\":[1],\"x\":{\"y\":null}"), 4,
	  NULL },
	{ "one of them twice", ONE(U8("0", "4", "[4]") ",\"x\":1,\"x\":1"), 4,
	  "it has \"x\" twice" },
	{ "one that is no JSON", ONE(U8("0", "4", "[4]") ",\"x\":yes"), 4, "a JSON value" },
	{ "a member twice", ONE(U8("0", "4", "[4]") ",\"shape\":[4]"), 4,
	  "it has shape twice" },
	{ "a type that is none", ONE("\"dtype\":\"F31\",\"shape\":[4],\"data_offsets\":[0,4]"),
	  4, "tensor \"t\": its dtype, \"F31\"" },
	{ "a type in small letters",
	  ONE("\"dtype\":\"u8\",\"shape\":[4],\"data_offsets\":[0,4]"), 4, "\"u8\"" },
	{ "a type that is no string", ONE("\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]"),
	  4, "a string" },
	{ "a name twice",
	  "{" ENTRY("t", U8("0", "4", "[4]")) "," ENTRY("t", U8("4", "8", "[4]")) "}", 8,
	  "tensor \"t\" is there twice" },
	{ "a name twice, by an escape",
	  "{" ENTRY("t", U8("0", "4", "[4]")) "," ENTRY("\\u0074", U8("4", "8", "[4]")) "}", 8,
	  "tensor \"t\" is there twice" },
	{ "no name", "{" ENTRY("", U8("0", "4", "[4]")) "}", 4, NULL },
	/* Numbers */
	{ "a shape that is none", ONE(U8("0", "4", "4")), 4, "a JSON array" },
	{ "a fraction", ONE(U8("0", "4", "[4.0]")), 4, "4.0 is no whole number" },
	{ "an exponent", ONE(U8("0", "4", "[4e0]")), 4, "4e0 is no whole number" },
	{ "below 0", ONE(U8("0", "4", "[-4]")), 4, "-4 is below 0" },
	{ "a 0 before", ONE(U8("0", "4", "[04]")), 4, "no digit behind a 0" },
	{ "no digit", ONE(U8("0", "4", "[-]")), 4, "a digit" },
	{ "a string", ONE(U8("0", "4", "[\"4\"]")), 4, "a whole number" },
	{ "beyond 2^63", ONE(U8("0", "9223372036854775808", "[4]")), 4, "beyond 2^63 - 1" },
	{ "beyond 2^64", ONE(U8("0", "36893488147419103233", "[4]")), 4, "beyond 2^63 - 1" },
	{ "one offset", ONE("\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4]"), 4,
	  "1 number, not 2" },
	{ "three offsets", ONE("\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,4]"), 4,
	  "more than 2" },
	{ "an end before the begin", ONE(U8("4", "0", "[4]")), 4, "behind their end, 0" },
	/* Sizes */
	{ "too few bytes for the shape", ONE(U8("0", "4", "[5]")), 4,
	  "4 bytes, its dtype (U8) and shape need 5" },
	{ "too many", ONE(U8("0", "4", "[3]")), 4, "need 3" },
	{ "of the type", ONE("\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,4]"), 4,
	  "need 8" },
	{ "a product beyond 2^64", ONE(U8("0", "4", "[4294967296,4294967296,4]")), 4,
	  "tensor \"t\": the product of its shape" },
	{ "bits beyond 2^64", ONE(U8("0", "4", "[4611686018427387905]")), 4,
	  "beyond 2^64 bits" },
	{ "a product beyond 2^64, then 0", ONE(U8("0", "0", "[4294967296,4294967296,0]")), 0,
	  "the product of its shape" },
	{ "0, then anything", ONE(U8("0", "0", "[0,4294967296,4294967296]")), 0, NULL },
	{ "no dimension", ONE(U8("0", "1", "[]")), 1, NULL },
	{ "no dimension, no bytes", ONE(U8("0", "0", "[]")), 0, "need 1" },
	{ "half a byte", ONE("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]"), 2,
	  "3 elements of F4, of 4 bits each, end inside of a byte" },
	{ "two quarters of a byte",
	  ONE("\"dtype\":\"F6_E2M3\",\"shape\":[2],\"data_offsets\":[0,2]"), 2,
	  "end inside of a byte" },
	{ "six bits by four",
	  ONE("\"dtype\":\"F6_E3M2\",\"shape\":[2,2],\"data_offsets\":[0,3]"), 3, NULL },
	/* Places */
	{ "a hole before", ONE(U8("1", "5", "[4]")), 5, "tensor \"t\" begins at byte 1" },
	{ "a hole between",
	  "{" ENTRY("a", U8("0", "4", "[4]")) "," ENTRY("b", U8("5", "9", "[4]")) "}", 9,
	  "tensor \"b\" begins at byte 5 of the data: the one before it ends at 4" },
	{ "an overlap",
	  "{" ENTRY("a", U8("0", "4", "[4]")) "," ENTRY("b", U8("3", "7", "[4]")) "}", 7,
	  "tensor \"b\" begins at byte 3" },
	{ "the same place",
	  "{" ENTRY("a", U8("0", "4", "[4]")) "," ENTRY("b", U8("0", "4", "[4]")) "}", 4,
	  "tensor \"b\" begins at byte 0" },
	{ "nothing inside of another",
	  "{" ENTRY("a", U8("0", "4", "[4]")) "," ENTRY("b", U8("2", "2", "[0]")) "}", 4,
	  "tensor \"b\" begins at byte 2" },
	{ "nothing between two, listed last",
	  "{" ENTRY("a", U8("4", "8", "[4]")) "," ENTRY("b", U8("0", "4", "[4]")) "," ENTRY(
		  "c", U8("4", "4", "[0]")) "}",
	  8, NULL },
	{ "a hole behind", ONE(U8("0", "4", "[4]")), 5, "the tensors end at byte 4" },
	{ "bytes and no tensor", "{}", 1, "the tensors end at byte 0" },
	{ "an end beyond the file", ONE(U8("0", "4", "[4]")), 3,
	  "tensor \"t\" ends at byte 4" },
	{ "an end far beyond", ONE(U8("0", "2000000000000000000", "[2000000000000000000]")), 3,
	  "ends at byte 2000000000000000000" },
	/* __metadata__ */
	{ "metadata that are none", "{\"__metadata__\":[]}", 0, "__metadata__: byte" },
	{ "none of them", "{\"__metadata__\": null}", 0, NULL },
	{ "none of them, twice", "{\"__metadata__\":null,\"__metadata__\":{}}", 0,
	  "__metadata__ is there twice" },
	{ "no null", "{\"__metadata__\":nul}", 0, "a JSON object" },
	{ "null for a string", "{\"__metadata__\":{\"a\":null}}", 0, "a string" },
	{ "a number in them", "{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: \"a\": byte" },
	{ "an object in them", "{\"__metadata__\":{\"a\":{}}}", 0, "a string" },
	{ "a key twice", "{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0,
	  "\"a\" is there twice" },
	{ "they twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0,
	  "__metadata__ is there twice" },
	{ "alone", "{\"__metadata__\":{\"a\":\"\",\"b\":\"c\"}}", 0, NULL },
	/* Characters that a terminal would act upon stay out of sentences. */
	{ "an escape sequence", "{\"\\u001b[2J\\u009b\":5}", 0, "tensor \"?[2J?" },
};

static void each(void)
{
	struct hm_safetensors *safetensors;
	AUTO_TEXT *folder = folder_make();
	const char *path;
	size_t i;
	int r;

	for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		path = tensors_file(folder, "a.safetensors", rules[i].header, rules[i].data);
		safetensors = UNTOUCHED;
		r = hm_safetensors_open(path, 0, &safetensors);
		if (!rules[i].text) {
			if (r)
				test_fail(__FILE__, __LINE__, "%s: %s", rules[i].what,
					  hm_errmsg());
			else
				hm_safetensors_unref(safetensors);
			continue;
		}
		if (r != -EBADMSG || safetensors != UNTOUCHED)
			test_fail(__FILE__, __LINE__, "%s: %d", rules[i].what, r);
		if (!strstr(hm_errmsg(), rules[i].text) || !strstr(hm_errmsg(), path))
			test_fail(__FILE__, __LINE__, "%s: the sentence is: %s", rules[i].what,
				  hm_errmsg());
		if (!r)
			hm_safetensors_unref(safetensors);
	}
}

/* The first 8 bytes: the length of the header. */
static void header_length(void)
{
	static const struct {
		uint64_t length, size;
		int error;
		const char *text;
	} cases[] = {
		{ 0, 10, -EBADMSG, "its header is empty" },
		{ 3, 10, -EBADMSG, "ends behind the file, which has 10" },
		{ 100000000, 100000007, -EBADMSG, "ends behind the file" },
		/* A header that is there but too long; or no header at all. */
		{ 100000001, 200000000, -EOPNOTSUPP, "the format allows 100000000: store the" },
		{ 100000001, 100000008, -EBADMSG, "it is no safetensors file" },
		{ UINT64_MAX, 10, -EBADMSG, "the format allows" },
		{ UINT64_MAX, 8, -EBADMSG, "the format allows" },
		{ 0x7b22, 7, -EBADMSG, "it has 7 bytes" },
		/* A hole of a file: the largest header that there may be, of zeros. */
		{ 100000000, 100000008, -EBADMSG, "nothing but blanks" },
	};
	struct hm_safetensors *safetensors = UNTOUCHED;
	AUTO_TEXT *folder = folder_make();
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_ERROR(cases[i].error,
			    hm_safetensors_open(tensors_odd_file(folder, "a", "{}",
								 cases[i].length,
								 cases[i].size),
						0, &safetensors));
		CHECK_HAS(hm_errmsg(), cases[i].text);
	}
	CHECK(safetensors == UNTOUCHED);
}

static void dimensions(void)
{
	char *folder = folder_make(), header[1024];
	struct hm_safetensors *safetensors;
	int n, i, length;

	for (n = HM_TENSOR_RANK_MAX; n <= HM_TENSOR_RANK_MAX + 1; n++) {
		length = snprintf(
			header, sizeof(header),
			"{\"t\":{\"dtype\":\"I16\",\"data_offsets\":[0,2],\"shape\":[1");
		for (i = 1; i < n; i++)
			length += snprintf(header + length, sizeof(header) - (size_t)length,
					   ",1");
		snprintf(header + length, sizeof(header) - (size_t)length, "]}}");
		if (n == HM_TENSOR_RANK_MAX) {
			safetensors = tensors_open(tensors_file(folder, "a", header, 2));
			CHECK_EQUAL(tensor_info(safetensors, "t").rank, n);
			hm_safetensors_unref(safetensors);
		} else {
			CHECK_ERROR(-EOPNOTSUPP,
				    hm_safetensors_open(tensors_file(folder, "a", header, 2), 0,
							&safetensors));
			CHECK(strstr(hm_errmsg(), "tensor \"t\": it has more than 64") != NULL);
		}
	}
	folder_remove(folder);
}

/* Long names are cut in sentences, between characters. */
static void long_names(void)
{
	char *folder = folder_make(), header[1024], name[601];
	AUTO(hm_safetensors) *safetensors = NULL;
	size_t length;
	int i;

	for (i = 0; i < 300; i++)
		memcpy(name + 2 * i, "\xc3\xa4", 3);
	for (i = 0; i < 2; i++) {
		snprintf(header, sizeof(header), "{\"%s\":5}", name + i * 2);
		CHECK_ERROR(-EBADMSG, hm_safetensors_open(tensors_file(folder, "a", header, 0),
							  0, &safetensors));
		CHECK(strstr(hm_errmsg(), "\xc3\xa4\"...: byte ") != NULL);
		name[0] = 'x';
		name[1] = 'y';
	}
	/* And found by all of it. */
	length = (size_t)snprintf(header, sizeof(header), "{\"%s\":{" U8("0", "4", "[4]") "}}",
				  name);
	CHECK(length < sizeof(header));
	safetensors = tensors_open(tensors_file(folder, "a", header, 4));
	CHECK(!strcmp(tensor_info(safetensors, name).name, name));
	folder_remove(folder);
}

static const struct test tests[] = {
	{ "each", each, 0, 0 },
	{ "header_length", header_length, 60, 0 },
	{ "dimensions", dimensions, 0, 0 },
	{ "long_names", long_names, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "safetensors_rules", tests)
