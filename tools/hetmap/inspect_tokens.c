// SPDX-License-Identifier: MIT
/* hetmap inspect: raw tokens, of the type that the user says. */
#include <errno.h>
#include <stdlib.h>

#include <hetmap/tokens.h>

#include "command.h"
#include "inspect.h"
#include "job.h"

struct opened {
	struct hm_tokens *tokens;
	struct hm_tokens_shard_info info;
};

static bool is(const struct inspect_head *head)
{
	return head->dtype != TYPE_NOT_GIVEN && !head->folder;
}

static void close_handle(void *handle)
{
	struct opened *opened = handle;

	hm_tokens_unref(opened->tokens);
	free(opened);
}

static int fill(const struct inspect_head *head, struct opened *opened,
		struct contents *contents)
{
	const struct hm_tokens_shard_info *info = &opened->info;

	contents->file = calloc(1, sizeof(*contents->file));
	contents->part = calloc(1, sizeof(*contents->part));
	if (!contents->file || !contents->part)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the list");
	contents->n_file = contents->n_part = 1;
	contents->file[0] = (struct contents_file){
		.path = head->path,
		.address = hm_map_address(info->map),
		.size = info->size,
		.data_offset = info->offset,
	};
	contents->part[0] = (struct contents_part){
		.name = "tokens",
		.dtype = hm_dtype_name(head->dtype),
		.bits = hm_dtype_bits(head->dtype),
		.rank = 1,
		.shape = &opened->info.tokens,
		.offset = info->offset,
		.bytes = info->size - info->offset,
	};
	return 0;
}

static int read_contents(const struct inspect_head *head, struct contents *ret_contents)
{
	const struct hm_tokens_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_TOKENS_RAW | (head->dtype == HM_DTYPE_BOOL ? HM_TOKENS_BOOL : 0),
		.dtype = head->dtype,
	};
	struct contents contents = { .part_word = "array", .close = close_handle };
	struct opened *opened = calloc(1, sizeof(*opened));
	int r;

	if (!opened)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the list");
	opened->info.struct_size = sizeof(opened->info);
	r = hm_tokens_open(&head->path, 1, &desc, &opened->tokens);
	if (!r)
		r = hm_tokens_shard(opened->tokens, 0, &opened->info);
	if (r) {
		close_handle(opened);
		return fail_library(r == -EBADMSG || r == -ENODATA ? STATUS_WRONG :
								     STATUS_ENVIRONMENT,
				    r, NULL, "cannot open it");
	}
	contents.handle = opened;
	r = fill(head, opened, &contents);
	*ret_contents = contents;
	return r;
}

const struct inspect_kind inspect_tokens = {
	.name = "tokens",
	.text = "numbers one behind another: any file, with --dtype",
	.is = is,
	.read = read_contents,
};
