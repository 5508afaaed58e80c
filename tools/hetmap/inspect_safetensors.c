// SPDX-License-Identifier: MIT
/* hetmap inspect: safetensors files, and models of several of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>
#include <hetmap/safetensors.h>

#include "command.h"
#include "input.h"
#include "inspect.h"

/* The format's own limit of the header. */
#define HEADER_MAX 100000000u

static bool ends_in(const char *path, const char *end)
{
	size_t length = strlen(path);

	return length >= strlen(end) && !strcmp(path + length - strlen(end), end);
}

/* By the file's name; or by a header's length before bytes that may be a JSON object. */
static bool is(const struct inspect_head *head)
{
	uint64_t length = 0;
	uint32_t i;

	if (head->folder || ends_in(head->path, ".safetensors") ||
	    ends_in(head->path, ".safetensors.index.json"))
		return true;
	if (head->n <= sizeof(length))
		return false;
	for (i = 0; i < sizeof(length); i++)
		length |= (uint64_t)head->bytes[i] << 8 * i;
	while (i < head->n && strchr(" \t\r\n", head->bytes[i]) && head->bytes[i])
		i++;
	return length <= HEADER_MAX && length <= head->size - sizeof(length) && i < head->n &&
	       head->bytes[i] == '{';
}

static void close_handle(void *handle)
{
	hm_safetensors_unref(handle);
}

static int fill(struct hm_safetensors *safetensors, struct contents *contents)
{
	struct hm_tensor_info tensor = { .struct_size = sizeof(tensor) };
	struct hm_shard_info shard = { .struct_size = sizeof(shard) };
	struct hm_metadata metadata;
	uint64_t i;
	int r = 0;

	for (i = 0; !r && i < contents->n_file; i++) {
		r = hm_safetensors_shard(safetensors, (uint32_t)i, &shard);
		contents->file[i] = (struct contents_file){
			.path = shard.path,
			.address = hm_map_address(shard.map),
			.size = shard.size,
			.data_offset = shard.data_offset,
		};
	}
	for (i = 0; !r && i < contents->n_part; i++) {
		r = hm_safetensors_tensor(safetensors, HM_TENSORS_BY_OFFSET, i, &tensor);
		contents->part[i] = (struct contents_part){
			.name = tensor.name,
			.dtype = hm_dtype_name(tensor.dtype),
			.bits = hm_dtype_bits(tensor.dtype),
			.rank = tensor.rank,
			.shape = tensor.shape,
			.file = tensor.shard,
			.offset = tensor.offset,
			.bytes = tensor.bytes,
		};
	}
	for (i = 0; !r && i < contents->n_note; i++) {
		r = hm_safetensors_metadata(safetensors, i, &metadata);
		contents->note[i] = (struct contents_note){ metadata.key, metadata.value };
	}
	return r;
}

static int read_contents(const struct inspect_head *head, struct contents *ret_contents)
{
	struct hm_safetensors_info info = { .struct_size = sizeof(info) };
	struct contents contents = { .part_word = "tensor", .close = close_handle };
	struct hm_safetensors *safetensors;
	int r;

	r = hm_safetensors_open(head->path, 0, &safetensors);
	if (r)
		return input_model_failed(r, NULL);
	input_model_remark(safetensors);
	r = hm_safetensors_query(safetensors, &info);
	contents.handle = safetensors;
	contents.n_file = info.shards;
	contents.n_part = info.tensors;
	contents.n_note = info.metadata;
	contents.file = calloc(info.shards + 1, sizeof(*contents.file));
	contents.part = calloc(info.tensors + 1, sizeof(*contents.part));
	contents.note = calloc(info.metadata + 1, sizeof(*contents.note));
	*ret_contents = contents;
	if (!contents.file || !contents.part || !contents.note)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the list");
	if (!r)
		r = fill(safetensors, &contents);
	return r ? fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot list it") : 0;
}

const struct inspect_kind inspect_safetensors = {
	.name = "safetensors",
	.text = "tensors: *.safetensors, *.safetensors.index.json, their folder",
	.is = is,
	.read = read_contents,
};
