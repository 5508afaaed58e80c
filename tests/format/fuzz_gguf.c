// SPDX-License-Identifier: MIT
/*
 * Fuzzes the reader of GGUF headers. The input is a file. If the file is taken, each tensor
 * must be in it, aligned, and behind the one before, and each array must have its bytes in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
};

static void differ(const char *what, const char *name)
{
	fprintf(stderr, "%s: %s\n", what, name);
	abort();
}

static int read_input(void *user, void *to, uint64_t length, uint64_t offset)
{
	const struct input *input = user;

	if (offset > input->size || length > input->size - offset)
		differ("a read beyond the file", "");
	memcpy(to, input->data + offset, length);
	return 0;
}

static void check_tensors(const struct gguf_file *file)
{
	uint64_t end = file->data, bytes;
	const struct gguf_type *type;
	uint32_t i;

	for (i = 0; i < file->n_tensor; i++) {
		const struct gguf_tensor *tensor = &file->tensor[i];

		if (tensor->offset < end || (tensor->offset - file->data) % file->alignment)
			differ("not behind the one before, or not aligned", tensor->name);
		end = tensor->offset + tensor->bytes;
		if (end < tensor->offset || end > file->size)
			differ("beyond the file", tensor->name);
		if (gguf_type_find(tensor->type, &type) ||
		    gguf_bytes(type, tensor->ne, tensor->rank, &bytes) ||
		    bytes != tensor->bytes)
			differ("of another size", tensor->name);
		if (strlen(tensor->name) != tensor->name_length)
			differ("a name of another length", tensor->name);
	}
}

static void check_values(const struct gguf_file *file)
{
	uint32_t i;

	for (i = 0; i < file->n_value; i++) {
		const struct gguf_value *value = &file->value[i];

		if (value->offset > file->size || value->bytes > file->size - value->offset)
			differ("beyond the file", value->key);
		if (value->kind == HM_GGUF_ARRAY && gguf_kind_bytes(value->element) &&
		    value->bytes != value->count * gguf_kind_bytes(value->element))
			differ("an array of another size", value->key);
		if (value->text && value->text[value->bytes])
			differ("a string without an end", value->key);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };
	struct scan scan = { .read = read_input, .user = &input, .size = size };
	struct gguf_file file = { .size = size };

	if (scan_begin(&scan))
		abort();
	if (!gguf_parse(&file, 0, &scan)) {
		check_tensors(&file);
		check_values(&file);
	}
	scan_end(&scan);
	gguf_file_free(&file);
	return 0;
}
