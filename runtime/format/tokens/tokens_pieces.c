// SPDX-License-Identifier: MIT
/* Files of tokens as a format: the tokens of each file are a piece. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sys.h"
#include "format/pieces/pieces.h"
#include "format/tokens/tokens.h"
#include "format/tokens/tokens_index.h"

#define NAME_MAX_BYTES 24 /* "shard 4294967295" */
#define TOTAL_MAX 96

struct token_files {
	struct hm_tokens *tokens; /* holds a ref */
	char total[TOTAL_MAX], documents[TOTAL_MAX];
	char (*name)[NAME_MAX_BYTES]; /* of each shard */
};

static void close_files(void *data)
{
	struct token_files *files = data;

	hm_tokens_unref(files->tokens);
	free(files->name);
	free(files);
}

/*
 * Raw numbers begin like nothing; those with an index have a name, and the index. An index that
 * can't be read is one, too: open() tells why.
 */
static bool begins(const struct format_head *head)
{
	struct token_index index = { 0 };
	bool found;

	found = !head->folder && (token_index_find(head->path, &index) || index.kind);
	token_index_end(&index);
	err_clear();
	return found;
}

/* "6,000" */
static void put_count(uint64_t number, char *text, size_t size)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, number), i;
	size_t at = 0;

	for (i = 0; i < n && at + 2 < size; i++) {
		if (i && (n - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = '\0';
}

/* @all where each shard is so, @some where not all are. */
static void add_note(struct hm_pieces *pieces, uint32_t n, const char *key, const char *all,
		     const char *some)
{
	if (n)
		pieces->metadata[pieces->n_metadata++] =
			(struct hm_metadata){ key, n == pieces->n_file ? all : some };
}

static const char *index_name(uint32_t kind)
{
	return kind == HM_TOKENS_INDEX_MEGATRON ? "Megatron" : "datatrove";
}

static void add_notes(struct token_files *files, struct hm_pieces *pieces)
{
	const struct hm_tokens *tokens = files->tokens;
	uint32_t i, swapped = 0, fortran = 0, indexed = 0;
	char count[32];

	for (i = 0; i < tokens->n_shard; i++) {
		swapped += tokens->shard[i].swapped;
		fortran += tokens->shard[i].rank > 0;
		indexed += tokens->shard[i].index != HM_TOKENS_INDEX_NONE;
	}
	pieces->n_metadata = 0;
	if (tokens->n_shard > 1) {
		put_count(tokens->n, count, sizeof(count));
		snprintf(files->total, sizeof(files->total), "%s tokens of %s", count,
			 hm_dtype_name(tokens->dtype));
		add_note(pieces, pieces->n_file, "in all", files->total, NULL);
	}
	if (indexed) {
		put_count(tokens->n_document, count, sizeof(count));
		snprintf(files->documents, sizeof(files->documents), "%s, by the index of %s",
			 count,
			 tokens->n_shard == 1 ? index_name(tokens->shard[0].index) :
						"each file that has one");
		add_note(pieces, pieces->n_file, "documents", files->documents, NULL);
	}
	/* As for one .npy file. */
	add_note(pieces, fortran, "order", "Fortran's (first index fastest)",
		 "in some files Fortran's");
	add_note(pieces, swapped, "byte order", "not this machine's",
		 "in some files not this machine's");
}

static void fill(const struct token_files *files, struct hm_pieces *pieces)
{
	const struct hm_tokens *tokens = files->tokens;
	uint32_t i;

	for (i = 0; i < tokens->n_shard; i++) {
		const struct token_shard *shard = &tokens->shard[i];

		if (tokens->n_shard > 1)
			snprintf(files->name[i], NAME_MAX_BYTES, "shard %u", i);
		else
			snprintf(files->name[i], NAME_MAX_BYTES, "tokens");
		pieces->file[i] = (struct piece_file){
			.path = shard->path,
			.map = shard->map,
			.size = shard->size,
			.data = shard->offset,
		};
		pieces->piece[i] = (struct piece){
			.name = files->name[i],
			.file = i,
			.rank = 1,
			.shape = &shard->n,
			.offset = shard->offset,
			.bytes = shard->n * tokens->width,
		};
		piece_set_type(&pieces->piece[i], tokens->dtype);
	}
}

/* Only the caller knows the type of raw numbers. */
static int check_raw(const struct hm_tokens *tokens)
{
	uint32_t i;

	for (i = 0; i < tokens->n_shard; i++)
		if (tokens->shard[i].size && !tokens->shard[i].version &&
		    !tokens->shard[i].index)
			return err_set(-EINVAL,
				       "%s: it has no type of its own: pass hm_pieces_desc.raw",
				       tokens->shard[i].path);
	return 0;
}

static int open_files(const struct format_source *source, struct hm_pieces *pieces)
{
	struct token_files *files;
	int r;

	files = sys_calloc(1, sizeof(*files));
	if (!files)
		return err_set(-ENOMEM, "no memory for files of tokens");
	pieces->data = files;
	pieces->word = source->n_path > 1 ? "shard" : "array";
	r = tokens_open_paths(source->path, source->n_path, source->raw, &files->tokens);
	if (!r && !source->raw)
		r = check_raw(files->tokens);
	if (!r)
		r = pieces_make(pieces, source->n_path, source->n_path, 4);
	if (r)
		return r;
	files->name = sys_calloc(source->n_path, sizeof(*files->name));
	if (!files->name)
		return err_set(-ENOMEM, "no memory for %u names", source->n_path);
	fill(files, pieces);
	add_notes(files, pieces);
	return 0;
}

const struct format tokens_format = {
	.name = "tokens",
	.text = "numbers: *.bin with *.idx, *.ds with *.ds.index; any files, with --dtype",
	.word = "array",
	.flags = FORMAT_NUMBERS,
	.begins = begins,
	.open = open_files,
	.close = close_files,
};
