// SPDX-License-Identifier: MIT
/* Safetensors as a format: each tensor of a file or of a model is a piece. */
#include <string.h>

#include "format/safetensors/safetensors.h"

/* A header's length, and behind it bytes that may be a JSON object. */
static bool begins(const struct format_head *head)
{
	uint64_t length = 0;
	uint32_t i;

	if (head->n <= sizeof(length))
		return false;
	for (i = 0; i < sizeof(length); i++)
		length |= (uint64_t)head->bytes[i] << 8 * i;
	while (i < head->n && strchr(" \t\r\n", head->bytes[i]) && head->bytes[i])
		i++;
	return length <= HEADER_MAX && length <= head->size - sizeof(length) && i < head->n &&
	       head->bytes[i] == '{';
}

static void fill_files(const struct hm_safetensors *safetensors, struct hm_pieces *pieces)
{
	uint32_t i;

	for (i = 0; i < safetensors->n_shard; i++) {
		const struct shard *shard = &safetensors->shard[i];

		pieces->file[i] = (struct piece_file){
			.path = shard->path,
			.map = shard->map,
			.size = shard->size,
			.data = shard->data,
		};
		pieces->ignored += shard->ignored;
	}
}

static void fill_tensors(const struct hm_safetensors *safetensors, struct hm_pieces *pieces)
{
	uint32_t i;

	for (i = 0; i < safetensors->n_tensor; i++) {
		const struct tensor *tensor = &safetensors->tensor[i];

		pieces->piece[i] = (struct piece){
			.name = safetensors->names.name[tensor->name].text,
			.file = tensor->shard,
			.rank = tensor->rank,
			.shape = safetensors->extents + tensor->shape,
			.offset = tensor->offset,
			.bytes = tensor->bytes,
		};
		piece_set_type(&pieces->piece[i], tensor->dtype);
	}
}

static int open_model(const struct format_source *source, struct hm_pieces *pieces)
{
	struct hm_safetensors *safetensors;
	int r;

	r = safetensors_open(source->path[0], 0, &safetensors);
	if (r)
		return r;
	pieces->data = safetensors;
	r = pieces_make(pieces, safetensors->n_shard, safetensors->n_tensor,
			safetensors->n_metadata);
	if (r)
		return r;
	fill_files(safetensors, pieces);
	fill_tensors(safetensors, pieces);
	if (safetensors->n_metadata)
		memcpy(pieces->metadata, safetensors->metadata,
		       safetensors->n_metadata * sizeof(*pieces->metadata));
	return 0;
}

static void close_model(void *data)
{
	hm_safetensors_unref(data);
}

const struct format safetensors_format = {
	.name = "safetensors",
	.text = "tensors: *.safetensors, *.safetensors.index.json, their folder",
	.word = "tensor",
	.flags = FORMAT_FOLDER | FORMAT_NAMED,
	.suffix = { ".safetensors", ".json" },
	.begins = begins,
	.open = open_model,
	.close = close_model,
};
