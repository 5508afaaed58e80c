// SPDX-License-Identifier: MIT
/* hetmap inspect: tokens, raw ones of the type that the user says, and shards of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/npy.h>
#include <hetmap/tokens.h>

#include "command.h"
#include "inspect.h"
#include "text.h"

struct opened {
	struct hm_tokens *tokens;
	struct hm_tokens_info info;
	struct hm_tokens_shard_info *shard; /* info.shards of them */
	char **name;
	char *all; /* how many tokens there are */
};

static bool is(const struct inspect_head *head)
{
	return head->raw->dtype != TYPE_NOT_GIVEN && !head->folder;
}

static void close_handle(void *handle)
{
	struct opened *opened = handle;
	uint32_t i;

	for (i = 0; opened->name && i < opened->info.shards; i++)
		free(opened->name[i]);
	free(opened->name);
	free(opened->all);
	free(opened->shard);
	hm_tokens_unref(opened->tokens);
	free(opened);
}

static void add_note(struct contents *contents, const char *key, const char *value)
{
	contents->note[contents->n_note++] = (struct contents_note){ key, value };
}

/* @all where each shard has @flag, @some where not all have it. */
static void add_flag(const struct opened *opened, struct contents *contents, uint32_t flag,
		     const char *key, const char *all, const char *some)
{
	uint32_t i, n = 0;

	for (i = 0; i < opened->info.shards; i++)
		n += !!(opened->shard[i].flags & flag);
	if (n)
		add_note(contents, key, n == opened->info.shards ? all : some);
}

static void add_notes(struct opened *opened, struct contents *contents)
{
	char count[TEXT_MAX];

	if (opened->info.shards > 1) {
		opened->all = text_format("%s tokens of %s",
					  text_count(opened->info.tokens, count),
					  hm_dtype_name(opened->info.dtype));
		add_note(contents, "in all", opened->all);
	}
	/* As inspect_npy.c tells it of one file. */
	add_flag(opened, contents, HM_NPY_FORTRAN, "order", "Fortran's (first index fastest)",
		 "in some files Fortran's");
	add_flag(opened, contents, HM_NPY_SWAPPED, "byte order", "not this machine's",
		 "in some files not this machine's");
}

static void fill_shard(const struct opened *opened, uint32_t i, struct contents *contents)
{
	const struct hm_tokens_shard_info *shard = &opened->shard[i];
	uint64_t bits = hm_dtype_bits(opened->info.dtype);

	contents->file[i] = (struct contents_file){
		.path = shard->path,
		.address = hm_map_address(shard->map),
		.size = shard->size,
		.data_offset = shard->offset,
	};
	contents->part[i] = (struct contents_part){
		.name = opened->name[i],
		.dtype = hm_dtype_name(opened->info.dtype),
		.bits = bits,
		.rank = 1,
		.shape = &shard->tokens,
		.file = i,
		.offset = shard->offset,
		.bytes = shard->tokens * (bits / 8),
	};
}

static int fill(struct opened *opened, struct contents *contents)
{
	uint32_t n = opened->info.shards, i;
	int r = 0;

	opened->shard = calloc(n, sizeof(*opened->shard));
	opened->name = calloc(n, sizeof(*opened->name));
	contents->file = calloc(n, sizeof(*contents->file));
	contents->part = calloc(n, sizeof(*contents->part));
	contents->note = calloc(3, sizeof(*contents->note));
	if (!opened->shard || !opened->name || !contents->file || !contents->part ||
	    !contents->note)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the list");
	contents->part_word = n == 1 ? "array" : "shard";
	contents->n_file = contents->n_part = n;
	for (i = 0; i < n && !r; i++) {
		opened->shard[i].struct_size = sizeof(opened->shard[i]);
		r = hm_tokens_shard(opened->tokens, i, &opened->shard[i]);
		opened->name[i] = n == 1 ? strdup("tokens") : text_format("shard %u", i);
		fill_shard(opened, i, contents);
	}
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot list it");
	add_notes(opened, contents);
	return 0;
}

/* Do all files name their own type? */
static bool all_npy(const struct contents *contents, const struct opened *opened)
{
	uint32_t i;

	for (i = 0; i < contents->n_file && opened->shard[i].npy; i++)
		;
	return i == contents->n_file;
}

static int read_contents(const struct inspect_head *head, struct contents *ret_contents)
{
	const struct hm_tokens_desc desc = raw_tokens_desc(head->raw);
	struct contents contents = { .close = close_handle };
	struct opened *opened = calloc(1, sizeof(*opened));
	int r;

	if (!opened)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the list");
	opened->info.struct_size = sizeof(opened->info);
	r = hm_tokens_open(head->paths, head->n_path, &desc, &opened->tokens);
	if (!r)
		r = hm_tokens_query(opened->tokens, &opened->info);
	if (r) {
		close_handle(opened);
		return raw_tokens_open_failed(head->raw, head->n_npy < head->n_path, r);
	}
	contents.handle = opened;
	r = fill(opened, &contents);
	*ret_contents = contents;
	if (!r && all_npy(&contents, opened))
		r = raw_tokens_check_other(head->raw, "inspect", head->path,
					   hm_dtype_name(opened->info.dtype));
	return r;
}

const struct inspect_kind inspect_tokens = {
	.name = "tokens",
	.text = "numbers one behind another: any files, with --dtype",
	.is = is,
	.read = read_contents,
};
