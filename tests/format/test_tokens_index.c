// SPDX-License-Identifier: MIT
/* Pairs of tokens and an index: Megatron's and datatrove's; documents; broken ones. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/tokens/tokens.h"
#include "format/tokens/tokens_index.h"
#include "lib/inject.h"
#include "format/safetensors_support.h"
#include "format/tokens_support.h"

#define UNTOUCHED ((void *)0x10)

#define DOCUMENTS 300

/* Sequences of Megatron's, and how many each document has. */
struct pair {
	char *folder;
	char *bin, *idx; /* or .ds and .ds.index */
	uint64_t n;      /* tokens */
	uint64_t end[DOCUMENTS];
};

struct bytes {
	char *at;
	size_t n;
};

static void put(struct bytes *bytes, const void *from, size_t n)
{
	bytes->at = realloc(bytes->at, bytes->n + n + 1);
	CHECK_FATAL(bytes->at != NULL);
	memcpy(bytes->at + bytes->n, from, n);
	bytes->n += n;
}

/* Numbers are little-endian, as this machine's. */
static void put_number(struct bytes *bytes, uint64_t value, size_t width)
{
	put(bytes, &value, width);
}

static void write_bytes(const char *folder, const char *name, struct bytes *bytes)
{
	file_write(folder, name, bytes->at ? bytes->at : "", bytes->n);
	free(bytes->at);
	*bytes = (struct bytes){ 0 };
}

/* Lengths of documents: some are empty, some have one token, some are long. */
static uint64_t length_at(uint64_t document)
{
	static const uint64_t lengths[] = { 0, 1, 2, 17, 16, 33, 250, 5, 0, 1 };

	return lengths[document * 7 % 10];
}

static struct pair pair_begin(const char *tokens, const char *index)
{
	struct pair pair = { .folder = folder_make() };
	uint64_t i;

	for (i = 0; i < DOCUMENTS; i++)
		pair.end[i] = pair.n += length_at(i);
	pair.bin = folder_path(pair.folder, tokens);
	pair.idx = folder_path(pair.folder, index);
	return pair;
}

static void pair_end(struct pair *pair)
{
	free(pair->bin);
	free(pair->idx);
	folder_remove(pair->folder);
}

AUTO_END(pair, pair_end)

static void write_tokens(const struct pair *pair, const char *name, size_t width)
{
	struct bytes bytes = { 0 };
	uint64_t i;

	for (i = 0; i < pair->n; i++)
		put_number(&bytes, token_at(i), width);
	write_bytes(pair->folder, name, &bytes);
}

/* A header of Megatron's. */
static void put_header(struct bytes *bytes, unsigned int type, uint64_t sequences,
		       uint64_t entries)
{
	put(bytes, "MMIDIDX\0\0", 9);
	put_number(bytes, 1, 8);
	put_number(bytes, type, 1);
	put_number(bytes, sequences, 8);
	put_number(bytes, entries, 8);
}

/* Documents of up to three sequences; @modes: bytes of a model with images behind all. */
static void write_megatron(const struct pair *pair, unsigned int type, size_t width, bool modes)
{
	struct bytes lengths = { 0 }, pointers = { 0 }, documents = { 0 }, bytes = { 0 };
	uint64_t i, part, left, at = 0, sequences = 0;

	put_number(&documents, 0, 8);
	for (i = 0; i < DOCUMENTS; i++) {
		for (left = length_at(i); left; left -= part) {
			part = left > 3 && sequences % 3 ? left / 2 : left;
			put_number(&lengths, part, 4);
			put_number(&pointers, at * width, 8);
			at += part;
			sequences++;
		}
		put_number(&documents, sequences, 8);
	}
	put_header(&bytes, type, sequences, DOCUMENTS + 1);
	put(&bytes, lengths.at, lengths.n);
	put(&bytes, pointers.at, pointers.n);
	put(&bytes, documents.at, documents.n);
	for (i = 0; modes && i < sequences; i++)
		put_number(&bytes, i % 2, 1);
	write_bytes(pair->folder, "a.idx", &bytes);
	write_tokens(pair, "a.bin", width);
	free(lengths.at);
	free(pointers.at);
	free(documents.at);
}

static void write_datatrove(const struct pair *pair, size_t width)
{
	struct bytes bytes = { 0 };
	uint64_t i;

	for (i = 0; i < DOCUMENTS; i++)
		put_number(&bytes, pair->end[i], 8);
	write_bytes(pair->folder, "a.ds.index", &bytes);
	write_tokens(pair, "a.ds", width);
}

/* All tokens and documents of the opened pair, which is the whole array. */
static void check_pair(struct hm_tokens *tokens, const struct pair *pair, uint32_t dtype)
{
	uint64_t *values = calloc(pair->n, sizeof(*values)), i, first, n, begin = 0;
	struct hm_tokens_info info = tokens_info(tokens);

	CHECK_FATAL(values != NULL);
	CHECK_EQUAL(info.dtype, dtype);
	CHECK_EQUAL(info.tokens, pair->n);
	CHECK_EQUAL(info.documents, DOCUMENTS);
	CHECK_OK(hm_tokens_read(tokens, 0, pair->n, HM_DTYPE_U64, values));
	for (i = 0; i < pair->n && values[i] == token_at(i); i++)
		;
	CHECK_EQUAL(i, pair->n);
	for (i = 0; i < DOCUMENTS; i++) {
		CHECK_OK_FATAL(hm_tokens_document(tokens, i, &first, &n));
		CHECK_EQUAL(first, begin);
		CHECK_EQUAL(n, pair->end[i] - begin);
		begin = pair->end[i];
	}
	CHECK_ERROR(-ERANGE, hm_tokens_document(tokens, DOCUMENTS, &first, &n));
	CHECK_ERROR(-EINVAL, hm_tokens_document(tokens, 0, NULL, &n));
	free(values);
}

static void refused(const char *path, int error, const char *says)
{
	struct hm_tokens *tokens = NULL;

	CHECK_ERROR(error, hm_tokens_open(&path, 1, NULL, &tokens));
	CHECK(tokens == NULL);
	if (!strstr(hm_errmsg(), says))
		test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", hm_errmsg(), says);
}

static void megatron(void)
{
	static const struct {
		uint32_t dtype;
		unsigned int type;
		size_t width;
	} types[] = {
		{ HM_DTYPE_I32, 4, 4 }, { HM_DTYPE_I64, 5, 8 },  { HM_DTYPE_U16, 8, 2 },
		{ HM_DTYPE_U32, 9, 4 }, { HM_DTYPE_U64, 10, 8 },
	};
	struct hm_tokens_shard_info shard = { .struct_size = sizeof(shard) };
	size_t i, way;
	AUTO(pair) pair = pair_begin("a.bin", "a.idx");

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		write_megatron(&pair, types[i].type, types[i].width, i == 1);
		for (way = 0; way < 2; way++) {
			AUTO(hm_tokens) *tokens = tokens_open(way ? pair.idx : pair.bin, NULL);

			check_pair(tokens, &pair, types[i].dtype);
			CHECK_OK(hm_tokens_shard(tokens, 0, &shard));
			CHECK(!strcmp(shard.path, pair.bin));
			CHECK_EQUAL(shard.index, HM_TOKENS_INDEX_MEGATRON);
			CHECK_EQUAL(shard.documents, DOCUMENTS);
		}
	}
}

/* The same without documents, as fairseq writes: each sequence is one. */
static void fairseq(void)
{
	struct bytes lengths = { 0 }, pointers = { 0 }, bytes = { 0 };
	struct hm_tokens *tokens;
	uint64_t i;
	AUTO(pair) pair = pair_begin("a.bin", "a.idx");

	for (i = 0; i < DOCUMENTS; i++) {
		put_number(&lengths, length_at(i), 4);
		put_number(&pointers, (pair.end[i] - length_at(i)) * 4, 8);
	}
	put(&bytes, "MMIDIDX\0\0\1\0\0\0\0\0\0\0\x09", 18);
	put_number(&bytes, DOCUMENTS, 8);
	put(&bytes, lengths.at, lengths.n);
	put(&bytes, pointers.at, pointers.n);
	write_bytes(pair.folder, "a.idx", &bytes);
	write_tokens(&pair, "a.bin", 4);
	tokens = tokens_open(pair.bin, NULL);
	check_pair(tokens, &pair, HM_DTYPE_U32);
	hm_tokens_unref(tokens);
	CHECK_EQUAL(truncate(pair.bin, (off_t)(pair.n * 4 - 4)), 0);
	refused(pair.bin, -EBADMSG, "a.bin has");
	free(lengths.at);
	free(pointers.at);
}

static void datatrove(void)
{
	struct hm_tokens_shard_info shard = { .struct_size = sizeof(shard) };
	size_t width, way;
	AUTO(pair) pair = pair_begin("a.ds", "a.ds.index");

	for (width = 2; width <= 4; width += 2) {
		write_datatrove(&pair, width);
		for (way = 0; way < 2; way++) {
			AUTO(hm_tokens) *tokens = tokens_open(way ? pair.idx : pair.bin, NULL);

			check_pair(tokens, &pair, width == 2 ? HM_DTYPE_U16 : HM_DTYPE_U32);
			CHECK_OK(hm_tokens_shard(tokens, 0, &shard));
			CHECK_EQUAL(shard.index, HM_TOKENS_INDEX_DATATROVE);
		}
	}
}

/* A raw file, a pair and an empty file as one array; a raw one is one document. */
static void shards(void)
{
	struct hm_tokens_shard_info shard = { .struct_size = sizeof(shard) };
	const char *paths[4];
	AUTO(hm_tokens) *tokens = NULL;
	uint64_t first, n;
	AUTO_TEXT *raw = NULL, *empty = NULL;
	AUTO(pair) pair = pair_begin("a.ds", "a.ds.index");

	write_datatrove(&pair, 2);
	raw = tokens_file(pair.folder, "raw", 0, 10);
	empty = tokens_file(pair.folder, "empty", 0, 0);
	paths[0] = empty;
	paths[1] = raw;
	paths[2] = pair.bin;
	paths[3] = raw;
	CHECK_OK_FATAL(hm_tokens_open(paths, 4, NULL, &tokens));
	CHECK_EQUAL(tokens_info(tokens).documents, DOCUMENTS + 2);
	CHECK_OK(hm_tokens_document(tokens, 0, &first, &n));
	CHECK(first == 0 && n == 10);
	CHECK_OK(hm_tokens_document(tokens, DOCUMENTS, &first, &n));
	CHECK_EQUAL(first + n, 10 + pair.end[DOCUMENTS - 1]);
	CHECK_OK(hm_tokens_document(tokens, DOCUMENTS + 1, &first, &n));
	CHECK(first == 10 + pair.n && n == 10);
	CHECK_OK(hm_tokens_shard(tokens, 2, &shard));
	CHECK(shard.first_document == 1 && shard.documents == DOCUMENTS);
}

/* Without the index: HM_TOKENS_RAW, an .idx of another kind, none at all. */
static void without(void)
{
	struct hm_tokens *tokens;
	AUTO(pair) pair = pair_begin("a.bin", "a.idx");

	write_megatron(&pair, 8, 2, false);
	tokens = tokens_open(pair.bin, DESC(hm_tokens_desc, .flags = HM_TOKENS_RAW));
	CHECK_EQUAL(tokens_info(tokens).documents, 1);
	CHECK_EQUAL(tokens_info(tokens).tokens, pair.n);
	hm_tokens_unref(tokens);
	file_write(pair.folder, "a.idx", "something else", 14);
	tokens = tokens_open(pair.bin, NULL);
	CHECK_EQUAL(tokens_info(tokens).documents, 1);
	hm_tokens_unref(tokens);
	CHECK_EQUAL(unlink(pair.idx), 0);
	tokens = tokens_open(pair.bin, NULL);
	CHECK_EQUAL(tokens_info(tokens).documents, 1);
	hm_tokens_unref(tokens);
}

/* The longest name that a file can have: there can be no index beside it. */
static void long_name(void)
{
	char name[256];
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	AUTO(hm_tokens) *tokens = NULL;

	memset(name, 'a', sizeof(name));
	memcpy(name + sizeof(name) - 4, ".ds", 4);
	path = tokens_file(folder, name, 0, 10);
	tokens = tokens_open(path, NULL);
	CHECK_EQUAL(tokens_info(tokens).tokens, 10);
}

/* As pieces: the type and the documents are known without a --dtype. */
static void pieces(void)
{
	struct hm_pieces_info info = { .struct_size = sizeof(info) };
	struct hm_piece_info piece = { .struct_size = sizeof(piece) };
	struct hm_metadata note;
	size_t way;
	AUTO(pair) pair = pair_begin("a.bin", "a.idx");

	write_megatron(&pair, 4, 4, false);
	for (way = 0; way < 2; way++) {
		AUTO(hm_pieces) *opened = pieces_open(way ? pair.idx : pair.bin);

		CHECK_OK(hm_pieces_query(opened, &info));
		CHECK_EQUAL(info.pieces, 1);
		CHECK_OK(hm_pieces_at(opened, 0, &piece));
		CHECK_EQUAL(piece.dtype, HM_DTYPE_I32);
		CHECK_EQUAL(piece.shape[0], pair.n);
		CHECK_OK(hm_pieces_metadata(opened, 0, &note));
		CHECK(!strcmp(note.key, "documents"));
		CHECK(!strcmp(note.value, "300, by the index of Megatron"));
	}
}

/* ---- broken ones ---- */

/* A stand-in of the index is an index: the tokens are not raw. */
static void stand_ins(void)
{
	static const char pointer[] =
		"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
	struct hm_pieces *pieces = NULL;
	struct hm_tokens *tokens;
	struct pair pair = pair_begin("a.bin", "a.idx");

	write_megatron(&pair, 4, 4, false);
	file_write(pair.folder, "a.idx", pointer, sizeof(pointer) - 1);
	refused(pair.bin, -EOPNOTSUPP, "git lfs pull");
	CHECK(strstr(hm_errmsg(), "a.idx") != NULL);
	CHECK_ERROR(-EOPNOTSUPP, hm_pieces_open(pair.bin, NULL, &pieces));
	CHECK(strstr(hm_errmsg(), "git lfs pull") != NULL);
	CHECK_EQUAL(unlink(pair.idx), 0);
	CHECK_EQUAL(symlink("../blobs/4d7a", pair.idx), 0);
	refused(pair.bin, -ENOENT, "it is a link to");
	CHECK_ERROR(-ENOENT, hm_pieces_open(pair.bin, NULL, &pieces));
	CHECK(strstr(hm_errmsg(), "it is a link to") != NULL);
	tokens = tokens_open(pair.bin, DESC(hm_tokens_desc, .flags = HM_TOKENS_RAW));
	CHECK_EQUAL(tokens_info(tokens).documents, 1);
	hm_tokens_unref(tokens);
	pair_end(&pair);
	pair = pair_begin("a.ds", "a.ds.index");
	write_datatrove(&pair, 2);
	file_write(pair.folder, "a.ds.index", pointer, sizeof(pointer) - 1);
	refused(pair.bin, -EOPNOTSUPP, "git lfs pull");
	pair_end(&pair);
}

/* The index, with @n bytes at @offset replaced. */
static void refused_with(const struct pair *pair, const struct bytes *whole, size_t offset,
			 uint64_t value, size_t n, int error, const char *says)
{
	struct bytes bytes = { 0 };

	put(&bytes, whole->at, whole->n);
	memcpy(bytes.at + offset, &value, n);
	write_bytes(pair->folder, strrchr(pair->idx, '/') + 1, &bytes);
	refused(pair->bin, error, says);
	refused(pair->idx, error, says);
}

static struct bytes index_bytes(const char *path)
{
	struct bytes bytes = { 0 };
	char room[65536];
	FILE *file = fopen(path, "rb");

	CHECK_FATAL(file != NULL);
	put(&bytes, room, fread(room, 1, sizeof(room), file));
	fclose(file);
	return bytes;
}

static void broken_megatron(void)
{
	struct bytes whole, cut = { 0 };
	uint64_t sequences;
	size_t i, pointers, documents;
	AUTO(pair) pair = pair_begin("a.bin", "a.idx");

	write_megatron(&pair, 8, 2, false);
	whole = index_bytes(pair.idx);
	memcpy(&sequences, whole.at + 18, 8);
	pointers = 34 + 4 * sequences;
	documents = pointers + 8 * sequences;
	refused_with(&pair, &whole, 9, 2, 8, -EOPNOTSUPP, "version 2");
	refused_with(&pair, &whole, 17, 0, 1, -EOPNOTSUPP, "type 0");
	refused_with(&pair, &whole, 17, 11, 1, -EOPNOTSUPP, "type 11");
	refused_with(&pair, &whole, 17, 4, 1, -EOPNOTSUPP, "one behind another");
	refused_with(&pair, &whole, 18, UINT64_MAX, 8, -EBADMSG, "too few");
	refused_with(&pair, &whole, 18, UINT64_MAX / 12 + 2, 8, -EBADMSG, "too few");
	/* The size is one less than the sequences, which a sum that overflows would accept. */
	refused_with(&pair, &whole, 18, whole.n + 1, 8, -EBADMSG, "too few");
	refused_with(&pair, &whole, 18, sequences - 1, 8, -EBADMSG, "too many");
	refused_with(&pair, &whole, 26, UINT64_MAX / 8 + 2, 8, -EBADMSG, "too few");
	refused_with(&pair, &whole, 34, (uint32_t)-1, 4, -EBADMSG, "has -1 tokens");
	refused_with(&pair, &whole, 34, INT32_MAX, 4, -EBADMSG, "from byte 0 on");
	refused_with(&pair, &whole, pointers + 8, (uint64_t)-2, 8, -EBADMSG, "sequence 1");
	refused_with(&pair, &whole, pointers + 8, 0, 8, -EOPNOTSUPP, "one behind another");
	refused_with(&pair, &whole, documents, 1, 8, -EBADMSG, "begin with 0");
	refused_with(&pair, &whole, documents + 80, 0, 8, -EBADMSG, "ascend");
	refused_with(&pair, &whole, documents + 80, UINT64_MAX, 8, -EBADMSG, "ascend");
	/* Cut off anywhere: an error, at the latest by the size. */
	for (i = 9; i < whole.n; i += i < 40 ? 1 : 997) {
		put(&cut, whole.at, i);
		write_bytes(pair.folder, "a.idx", &cut);
		refused(pair.bin, -EBADMSG, "a.idx");
	}
	/* The tokens are fewer, more, none, or gone. */
	file_write(pair.folder, "a.idx", whole.at, whole.n);
	CHECK_EQUAL(truncate(pair.bin, (off_t)(pair.n * 2 - 2)), 0);
	refused(pair.idx, -EBADMSG, "a.bin has");
	CHECK_EQUAL(truncate(pair.bin, (off_t)(pair.n * 2 + 2)), 0);
	refused(pair.idx, -EBADMSG, "they are no pair");
	CHECK_EQUAL(truncate(pair.bin, 0), 0);
	refused(pair.idx, -EBADMSG, "a.bin has 0");
	CHECK_EQUAL(unlink(pair.bin), 0);
	refused(pair.idx, -ENOENT, "the tokens of");
	free(whole.at);
}

/* A bit of each byte turned: an error or a set of tokens, and no crash. */
static void flipped(void)
{
	struct bytes whole, other;
	struct hm_tokens *tokens;
	uint64_t first, n;
	const char *path;
	size_t i;
	AUTO(pair) pair = pair_begin("a.bin", "a.idx");

	write_megatron(&pair, 8, 2, false);
	whole = index_bytes(pair.idx);
	path = pair.idx;
	for (i = 9; i < whole.n; i += i < 200 ? 1 : 61) {
		other = (struct bytes){ 0 };
		put(&other, whole.at, whole.n);
		other.at[i] ^= (char)(1 << i % 8);
		write_bytes(pair.folder, "a.idx", &other);
		if (hm_tokens_open(&path, 1, NULL, &tokens))
			continue;
		for (n = tokens_info(tokens).documents; n--;) {
			uint64_t length;

			CHECK_OK(hm_tokens_document(tokens, n, &first, &length));
			CHECK(first + length <= pair.n);
		}
		hm_tokens_unref(tokens);
	}
	free(whole.at);
}

static void broken_datatrove(void)
{
	struct bytes whole;
	AUTO(pair) pair = pair_begin("a.ds", "a.ds.index");

	write_datatrove(&pair, 2);
	whole = index_bytes(pair.idx);
	refused_with(&pair, &whole, whole.n - 8, pair.n + 1, 8, -EBADMSG, "HM_TOKENS_RAW");
	refused_with(&pair, &whole, whole.n - 8, UINT64_MAX / 2 + 1, 8, -EBADMSG, "at 2 or 4");
	refused_with(&pair, &whole, 80, UINT64_MAX, 8, -EBADMSG, "the one before it");
	file_write(pair.folder, "a.ds.index", whole.at, whole.n - 3);
	refused(pair.bin, -EBADMSG, "no whole ends");
	file_write(pair.folder, "a.ds.index", "", 0);
	refused(pair.bin, -EBADMSG, "have 0 tokens");
	free(whole.at);
}

/* A product of 64 bits: more tokens than bytes, that overflow to the bytes of the file. */
static void huge_datatrove(void)
{
	struct token_index index = { .kind = HM_TOKENS_INDEX_DATATROVE };
	struct bytes bytes = { 0 };
	AUTO(pair) pair = pair_begin("a.ds", "a.ds.index");

	put_number(&bytes, (3ull << 61) - 1, 8);
	write_bytes(pair.folder, "a.ds.index", &bytes);
	index.path = strdup(pair.idx);
	index.tokens = strdup(pair.bin);
	CHECK_FATAL(index.path && index.tokens);
	CHECK_ERROR(-EBADMSG, token_index_read(&index, (1ull << 63) - 4));
	token_index_end(&index);
}

/* Each system call and allocation fails once: an error, and nothing is lost. */
static void failing(void)
{
	struct hm_tokens *tokens;
	bool failed = true;
	unsigned int n;
	const char *path;
	int r;
	AUTO(pair) pair = pair_begin("a.bin", "a.idx");

	write_megatron(&pair, 8, 2, false);
	path = pair.bin;
	inject_install();
	for (n = 1; failed; n++) {
		tokens = UNTOUCHED;
		inject_arm(n, INJECT_ONE);
		r = hm_tokens_open(&path, 1, NULL, &tokens);
		failed = inject_disarm();
		if (r) {
			CHECK(failed && tokens == UNTOUCHED && *hm_errmsg());
		} else {
			/* Never as raw tokens, for the index that could not be read. */
			CHECK_EQUAL(tokens_info(tokens).documents, DOCUMENTS);
			hm_tokens_unref(tokens);
		}
		inject_forgive();
	}
	CHECK(n > 15);
}

static const struct test tests[] = {
	{ "megatron", megatron, 0, 0 },
	{ "fairseq", fairseq, 0, 0 },
	{ "datatrove", datatrove, 0, 0 },
	{ "shards", shards, 0, 0 },
	{ "without", without, 0, 0 },
	{ "pieces", pieces, 0, 0 },
	{ "broken_megatron", broken_megatron, 0, 0 },
	{ "flipped", flipped, 0, 0 },
	{ "broken_datatrove", broken_datatrove, 0, 0 },
	{ "failing", failing, 60, 0 },
	{ "huge_datatrove", huge_datatrove, 0, 0 },
	{ "long_name", long_name, 0, 0 },
	{ "stand_ins", stand_ins, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "tokens_index", tests)
