// SPDX-License-Identifier: MIT
/* .npz files: stored members in place, zip64, compressed ones, broken ones; types by name. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/tokens/tokens.h"
#include "lib/inject.h"
#include "format/safetensors_support.h"
#include "format/tokens_support.h"

#define UTF8 (1u << 11)

struct bytes {
	unsigned char at[65536];
	size_t n;
};

/* An array that is written to an archive. */
struct member {
	const char *name, *descr, *shape;
	size_t length;   /* bytes of its array */
	unsigned method; /* 0: stored */
	unsigned flags;
	bool zip64, fortran;
};

static void put(struct bytes *bytes, const void *from, size_t n)
{
	CHECK_FATAL(bytes->n + n <= sizeof(bytes->at));
	memcpy(bytes->at + bytes->n, from, n);
	bytes->n += n;
}

static void put_number(struct bytes *bytes, uint64_t value, size_t width)
{
	size_t i;

	for (i = 0; i < width; i++)
		bytes->at[bytes->n + i] = i < 8 ? (unsigned char)(value >> (8 * i)) : 0;
	bytes->n += width;
	CHECK_FATAL(bytes->n < sizeof(bytes->at));
}

/* A .npy file whose bytes count from 0 on; returns its length. */
static size_t put_npy(struct bytes *bytes, const struct member *member)
{
	size_t begin = bytes->n, i;
	char header[256];
	int n = snprintf(header, sizeof(header),
			 "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", member->descr,
			 member->fortran ? "True" : "False", member->shape);

	put(bytes, "\x93NUMPY\1\0", 8);
	put_number(bytes, (uint64_t)n, 2);
	put(bytes, header, (size_t)n);
	for (i = 0; i < member->length; i++)
		put_number(bytes, i, 1);
	return bytes->n - begin;
}

/* An entry of the directory for the member at @at with @size bytes. */
static void put_entry(struct bytes *bytes, const struct member *member, uint64_t at,
		      uint64_t size)
{
	put(bytes, "PK\1\2\x2d\0\x2d\0", 8);
	put_number(bytes, member->flags, 2);
	put_number(bytes, member->method, 2);
	put_number(bytes, 0, 8);
	put_number(bytes, member->zip64 ? UINT32_MAX : size, 4);
	put_number(bytes, member->zip64 ? UINT32_MAX : size, 4);
	put_number(bytes, strlen(member->name), 2);
	put_number(bytes, member->zip64 ? 28 : 0, 2);
	put_number(bytes, 0, 10);
	put_number(bytes, member->zip64 ? UINT32_MAX : at, 4);
	put(bytes, member->name, strlen(member->name));
	if (!member->zip64)
		return;
	put_number(bytes, 1, 2);
	put_number(bytes, 24, 2);
	put_number(bytes, size, 8);
	put_number(bytes, size, 8);
	put_number(bytes, at, 8);
}

/* The end, of zip64 if @zip64; the directory is at @directory. */
static void put_end(struct bytes *bytes, size_t n, uint64_t directory, bool zip64)
{
	uint64_t size = bytes->n - directory, at = bytes->n;

	if (zip64) {
		put(bytes, "PK\6\6", 4);
		put_number(bytes, 44, 8);
		put_number(bytes, 0x2d002d, 4);
		put_number(bytes, 0, 8);
		put_number(bytes, n, 8);
		put_number(bytes, n, 8);
		put_number(bytes, size, 8);
		put_number(bytes, directory, 8);
		put(bytes, "PK\6\7", 4);
		put_number(bytes, 0, 4);
		put_number(bytes, at, 8);
		put_number(bytes, 1, 4);
	}
	put(bytes, "PK\5\6", 4);
	put_number(bytes, 0, 4);
	put_number(bytes, zip64 ? UINT16_MAX : n, 2);
	put_number(bytes, zip64 ? UINT16_MAX : n, 2);
	put_number(bytes, zip64 ? UINT32_MAX : size, 4);
	put_number(bytes, zip64 ? UINT32_MAX : directory, 4);
	put_number(bytes, 7, 2);
	put(bytes, "comment", 7);
}

static void put_archive(struct bytes *bytes, const struct member *members, size_t n, bool zip64)
{
	uint64_t at[8], size[8], directory;
	size_t i;

	CHECK_FATAL(n <= 8);
	for (i = 0; i < n; i++) {
		struct bytes *npy = calloc(1, sizeof(*npy));

		CHECK_FATAL(npy != NULL);
		at[i] = bytes->n;
		size[i] = put_npy(npy, &members[i]);
		put(bytes, "PK\3\4\x2d\0", 6);
		put_number(bytes, members[i].flags, 2);
		put_number(bytes, members[i].method, 2);
		put_number(bytes, 0, 8);
		/* numpy's: sizes are in an extra field. */
		put_number(bytes, UINT32_MAX, 4);
		put_number(bytes, UINT32_MAX, 4);
		put_number(bytes, strlen(members[i].name), 2);
		put_number(bytes, 20, 2);
		put(bytes, members[i].name, strlen(members[i].name));
		put_number(bytes, 1, 2);
		put_number(bytes, 16, 2);
		put_number(bytes, size[i], 8);
		put_number(bytes, size[i], 8);
		put(bytes, npy->at, npy->n);
		free(npy);
	}
	directory = bytes->n;
	for (i = 0; i < n; i++)
		put_entry(bytes, &members[i], at[i], size[i]);
	put_end(bytes, n, directory, zip64);
}

static char *write_archive(const char *folder, const struct bytes *bytes)
{
	file_write(folder, "a.npz", (const char *)bytes->at, bytes->n);
	return folder_path(folder, "a.npz");
}

static const struct member usual[] = {
	{ "a.npy", "<u2", "(5, 2)", 20, 0, 0, false, false },
	{ "b/c.npy", "<f8", "(3,)", 24, 0, 0, false, false },
	{ "\xc3\xa4.npy", "|u1", "(7,)", 7, 0, UTF8, false, false },
	{ "f.npy", ">i4", "(2, 3)", 24, 0, 0, false, true },
	{ "text", "<u2", "(1,)", 2, 0, 0, false, false },
};
#define N_USUAL (sizeof(usual) / sizeof(usual[0]))

static bool has_note(struct hm_pieces *pieces, const char *key, const char *value)
{
	struct hm_metadata note;
	uint64_t i;

	for (i = 0; !hm_pieces_metadata(pieces, i, &note); i++)
		if (!strcmp(note.key, key) && !strncmp(note.value, value, strlen(value)))
			return true;
	return false;
}

static void check_usual(const char *path)
{
	static const char *const names[] = { "a", "b/c", "\xc3\xa4", "f" };
	struct hm_pieces_file_info file = { .struct_size = sizeof(file) };
	struct hm_pieces_info info = { .struct_size = sizeof(info) };
	struct hm_piece_info piece = { .struct_size = sizeof(piece) };
	const unsigned char *at;
	uint64_t i, k, index;
	AUTO(hm_pieces) *pieces = pieces_open(path);

	CHECK_OK(hm_pieces_query(pieces, &info));
	CHECK(!strcmp(info.format, "npz"));
	CHECK_EQUAL(info.pieces, 4);
	CHECK_EQUAL(info.ignored, 1);
	CHECK_OK(hm_pieces_file(pieces, 0, &file));
	CHECK_FATAL(file.map != NULL);
	for (i = 0; i < 4; i++) {
		CHECK_OK_FATAL(hm_pieces_find(pieces, names[i], &index));
		CHECK_OK(hm_pieces_at(pieces, index, &piece));
		CHECK_EQUAL(piece.bytes, usual[i].length);
		at = (const unsigned char *)hm_map_address(file.map) + piece.offset;
		for (k = 0; k < piece.bytes; k++)
			CHECK_EQUAL(at[k], k);
	}
	CHECK_OK(hm_pieces_at(pieces, 0, &piece));
	CHECK(piece.dtype == HM_DTYPE_U16 && piece.rank == 2 && piece.shape[0] == 5);
	CHECK(has_note(pieces, "order of f", "Fortran's"));
	CHECK(has_note(pieces, "byte order of f", "not this machine's"));
	CHECK(!has_note(pieces, "order of a", ""));
	CHECK(has_note(pieces, "misaligned", ""));
}

static void stored(void)
{
	char *folder = folder_make(), *path;
	struct member members[N_USUAL];
	struct bytes *bytes;
	unsigned way;
	size_t i;

	for (way = 0; way < 4; way++) {
		bytes = calloc(1, sizeof(*bytes));
		CHECK_FATAL(bytes != NULL);
		memcpy(members, usual, sizeof(usual));
		for (i = 0; i < N_USUAL; i++)
			members[i].zip64 = way & 1;
		put_archive(bytes, members, N_USUAL, way & 2);
		path = write_archive(folder, bytes);
		check_usual(path);
		free(path);
		free(bytes);
	}
	folder_remove(folder);
}

static void refused(const char *path, int error, const char *says)
{
	struct hm_pieces *pieces = NULL;

	CHECK_ERROR(error, hm_pieces_open(path, NULL, &pieces));
	CHECK(pieces == NULL);
	if (!strstr(hm_errmsg(), says))
		test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", hm_errmsg(), says);
}

static void refused_members(const char *folder, const struct member *members, size_t n,
			    int error, const char *says)
{
	struct bytes *bytes = calloc(1, sizeof(*bytes));
	AUTO_TEXT *path = NULL;

	CHECK_FATAL(bytes != NULL);
	put_archive(bytes, members, n, false);
	path = write_archive(folder, bytes);
	refused(path, error, says);
	free(bytes);
}

static void members(void)
{
	static const struct member compressed[] = {
		{ "a.npy", "<u2", "(5, 2)", 20, 0, 0, false, false },
		{ "b.npy", "<u2", "(5, 2)", 20, 8, 0, false, false },
	};
	static const struct member encrypted = { "a.npy", "<u2", "(5, 2)", 20,
						 0,       1,     false,    false };
	static const struct member objects = { "a.npy", "|O", "(1,)", 20, 0, 0, false, false };
	static const struct member short_one = {
		"a.npy", "<u2", "(50,)", 20, 0, 0, false, false
	};
	static const struct member foreign = {
		"\xe4.npy", "<u2", "(5,)", 10, 0, 0, false, false
	};
	static const struct member twice[] = {
		{ "a.npy", "<u2", "(5, 2)", 20, 0, 0, false, false },
		{ "a.npy", "<u2", "(5, 2)", 20, 0, 0, false, false },
	};
	AUTO_TEXT *folder = folder_make();

	refused_members(folder, compressed, 2, -EOPNOTSUPP, "1 of its 2 members");
	refused_members(folder, compressed, 2, -EOPNOTSUPP,
			"save them by numpy.savez(), not by");
	refused_members(folder, &encrypted, 1, -EOPNOTSUPP, "member \"a\": it is encrypted");
	refused_members(folder, &objects, 1, -EOPNOTSUPP,
			"member \"a\": its elements are Python");
	refused_members(folder, &short_one, 1, -EBADMSG,
			"member \"a\": its array has 100 bytes");
	refused_members(folder, &foreign, 1, -EBADMSG, "not in UTF-8");
	refused_members(folder, twice, 2, -EBADMSG, "two arrays of the name \"a\"");
}

/* Members that share bytes: a directory of any length could have each be all of the file. */
static void shared_bytes(void)
{
	static const struct member array = { "a.npy", "<u2", "(5, 2)", 20, 0, 0, false, false };
	struct bytes *bytes = calloc(1, sizeof(*bytes)), *npy = calloc(1, sizeof(*npy));
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct member other = array;
	uint64_t directory, size;

	CHECK_FATAL(bytes && npy);
	size = put_npy(npy, &array);
	put_archive(bytes, &array, 1, false);
	/* Behind the one entry of the archive, and in place of its end, a second one. */
	bytes->n -= 22 + 7;
	directory = bytes->n - 46 - 5;
	other.name = "b.npy";
	put_entry(bytes, &other, 0, size);
	put_end(bytes, 2, directory, false);
	path = write_archive(folder, bytes);
	refused(path, -EBADMSG, "and the next member or the directory begins at 0");
	free(bytes);
	free(npy);
}

/* A member that is no array may be compressed: it is not used. */
static void others_compressed(void)
{
	static const struct member members[] = {
		{ "a.npy", "<u2", "(5, 2)", 20, 0, 0, false, false },
		{ "notes.json", "<u2", "(5, 2)", 20, 8, 0, false, false },
	};
	struct hm_pieces_info info = { .struct_size = sizeof(info) };
	struct bytes *bytes = calloc(1, sizeof(*bytes));
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	AUTO(hm_pieces) *pieces = NULL;

	CHECK_FATAL(bytes != NULL);
	put_archive(bytes, members, 2, false);
	path = write_archive(folder, bytes);
	CHECK_OK_FATAL(hm_pieces_open(path, NULL, &pieces));
	CHECK_OK(hm_pieces_query(pieces, &info));
	CHECK(info.pieces == 1 && info.ignored == 1);
	free(bytes);
}

/* As many members as 16 bits can count: Python writes no record of zip64 for so many. */
static void many(void)
{
	static const struct member member = { .name = "x" };
	static const char head[] = { 'P', 'K', 3, 4, 10 };
	struct bytes *part = calloc(1, sizeof(*part));
	const size_t n = UINT16_MAX, local = 31, entry = 47;
	struct hm_pieces_info info = { .struct_size = sizeof(info) };
	AUTO_TEXT *folder = folder_make(), *path = NULL, *all = calloc(n + 1, local + entry);
	AUTO(hm_pieces) *pieces = NULL;
	size_t i;

	CHECK_FATAL(part && all);
	for (i = 0; i < n; i++) {
		memcpy(all + i * local, head, sizeof(head));
		all[i * local + 26] = 1;
		all[i * local + 30] = 'x';
		part->n = 0;
		put_entry(part, &member, i * local, 0);
		CHECK_EQUAL(part->n, entry);
		memcpy(all + n * local + i * entry, part->at, entry);
	}
	memset(part, 0, sizeof(*part));
	put(part, "PK\5\6", 4);
	put_number(part, 0, 4);
	put_number(part, n, 2);
	put_number(part, n, 2);
	put_number(part, n * entry, 4);
	put_number(part, n * local, 4);
	put_number(part, 0, 2);
	memcpy(all + n * (local + entry), part->at, part->n);
	file_write(folder, "a.npz", all, n * (local + entry) + part->n);
	path = folder_path(folder, "a.npz");
	CHECK_OK_FATAL(hm_pieces_open(path, NULL, &pieces));
	CHECK_OK(hm_pieces_query(pieces, &info));
	CHECK(info.pieces == 0 && info.ignored == n);
	free(part);
}

/* Cut off anywhere, and a byte turned anywhere: an error or pieces inside of the file. */
static void broken(void)
{
	struct bytes *whole = calloc(1, sizeof(*whole)), *other = calloc(1, sizeof(*other));
	struct hm_piece_info piece = { .struct_size = sizeof(piece) };
	char *folder = folder_make(), *path;
	struct hm_pieces *pieces;
	size_t i, k;

	CHECK_FATAL(whole && other);
	put_archive(whole, usual, N_USUAL, true);
	for (i = 4; i < whole->n; i++) {
		memcpy(other, whole, sizeof(*other));
		other->n = i;
		path = write_archive(folder, other);
		CHECK(hm_pieces_open(path, NULL, &pieces) < 0);
		free(path);
	}
	for (i = 0; i < whole->n; i++) {
		memcpy(other, whole, sizeof(*other));
		other->at[i] ^= (unsigned char)(i % 2 ? 0xff : 1 << i % 8);
		path = write_archive(folder, other);
		if (!hm_pieces_open(path, NULL, &pieces)) {
			for (k = 0; !hm_pieces_at(pieces, k, &piece); k++)
				CHECK(piece.offset + piece.bytes <= whole->n);
			hm_pieces_unref(pieces);
		}
		free(path);
	}
	free(whole);
	free(other);
	folder_remove(folder);
}

/* Numbers at the end that would overflow. */
static void hostile(void)
{
	static const uint64_t values[] = { UINT64_MAX, UINT64_MAX - 97, 1ull << 63,
					   1ull << 32 };
	struct bytes *whole = calloc(1, sizeof(*whole)), *other = calloc(1, sizeof(*other));
	char *folder = folder_make(), *path;
	struct hm_pieces *pieces;
	size_t end64, i, k;

	CHECK_FATAL(whole && other);
	put_archive(whole, usual, N_USUAL, true);
	end64 = whole->n - 7 - 22 - 20 - 56;
	for (k = 32; k <= 64; k += k == 48 ? 16 : 8)
		for (i = 0; i < 4; i++) {
			/* Numbers of members, size, offset; the place in the locator. */
			memcpy(other, whole, sizeof(*other));
			memcpy(other->at + end64 + k, &values[i], 8);
			path = write_archive(folder, other);
			CHECK(hm_pieces_open(path, NULL, &pieces) < 0);
			free(path);
		}
	free(whole);
	free(other);
	folder_remove(folder);
}

/* Each system call and allocation fails once. */
static void failing(void)
{
	struct bytes *bytes = calloc(1, sizeof(*bytes));
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct hm_pieces *pieces;
	bool failed = true;
	unsigned int n;
	int r;

	CHECK_FATAL(bytes != NULL);
	put_archive(bytes, usual, N_USUAL, true);
	path = write_archive(folder, bytes);
	inject_install();
	for (n = 1; failed; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_pieces_open(path, NULL, &pieces);
		failed = inject_disarm();
		if (r)
			CHECK(failed && *hm_errmsg());
		else
			hm_pieces_unref(pieces);
		inject_forgive();
	}
	CHECK(n > 20);
	free(bytes);
}

/* ---- types by name ---- */

static void by_name(void)
{
	static const uint16_t values[] = { 0x3f80, 0x4000, 0xc000 };
	struct hm_tokens_desc raw = { .struct_size = sizeof(raw), .dtype = HM_DTYPE_BF16 };
	const struct hm_pieces_desc desc = { .struct_size = sizeof(desc), .raw = &raw };
	struct hm_piece_info piece = { .struct_size = sizeof(piece) };
	struct hm_npy_info info = { .struct_size = sizeof(info) };
	char *folder = folder_make(), *path;
	const struct member member = { "a.npy", "|V1", "(4,)", 4, 0, 0, false, false };
	struct bytes *bytes = calloc(1, sizeof(*bytes));
	struct hm_pieces *pieces;
	struct hm_tokens *tokens;
	float floats[3];

	CHECK_FATAL(bytes != NULL);
	path = tokens_npy(folder, "b.npy", 1, "<V2", false, "(3,)", values, sizeof(values));
	CHECK_OK(hm_npy_query(path, &info));
	CHECK(info.dtype == HM_NPY_OPAQUE && info.flags & HM_NPY_BYTES);
	CHECK_OK_FATAL(hm_pieces_open(path, NULL, &pieces));
	CHECK_OK(hm_pieces_at(pieces, 0, &piece));
	CHECK_EQUAL(piece.dtype, HM_DTYPE_OPAQUE);
	hm_pieces_unref(pieces);
	CHECK_OK_FATAL(hm_pieces_open(path, &desc, &pieces));
	CHECK_OK(hm_pieces_at(pieces, 0, &piece));
	CHECK_EQUAL(piece.dtype, HM_DTYPE_BF16);
	CHECK(!strcmp(piece.type, "BF16"));
	hm_pieces_unref(pieces);
	/* Tokens of the type: 1, 2, -2. */
	tokens = tokens_open(path, &raw);
	CHECK_OK(hm_tokens_read(tokens, 0, 3, HM_DTYPE_F32, floats));
	CHECK(floats[0] > 0.9f && floats[0] < 1.1f && floats[2] < -1.9f);
	hm_tokens_unref(tokens);
	/* A type of another size is not theirs. */
	raw.dtype = HM_DTYPE_F8_E4M3;
	CHECK_ERROR(-EOPNOTSUPP, hm_tokens_open((const char *const *)&path, 1, &raw, &tokens));
	CHECK(strstr(hm_errmsg(), "hm_tokens_desc.dtype") != NULL);
	free(path);
	put_archive(bytes, &member, 1, false);
	path = write_archive(folder, bytes);
	CHECK_OK_FATAL(hm_pieces_open(path, &desc, &pieces));
	CHECK_OK(hm_pieces_at(pieces, 0, &piece));
	CHECK_EQUAL(piece.dtype, HM_DTYPE_F8_E4M3);
	hm_pieces_unref(pieces);
	free(path);
	free(bytes);
	folder_remove(folder);
}

static const struct test tests[] = {
	{ "shared_bytes", shared_bytes, 0, 0 },
	{ "stored", stored, 0, 0 },
	{ "members", members, 0, 0 },
	{ "broken", broken, 60, 0 },
	{ "hostile", hostile, 0, 0 },
	{ "failing", failing, 0, 0 },
	{ "by_name", by_name, 0, 0 },
	{ "many", many, 0, 0 },
	{ "others_compressed", others_compressed, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "npz", tests)
