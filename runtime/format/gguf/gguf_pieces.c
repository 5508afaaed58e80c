// SPDX-License-Identifier: MIT
/* GGUF as a format: each tensor is a piece, and each key of the metadata a note. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "format/gguf/gguf.h"

/* Bytes of a number's text. */
#define NUMBER_TEXT 40
/* Bytes of a string that is read for a note. */
#define STRING_MOST MIB(16)

static bool begins(const struct format_head *head)
{
	return head->n >= 4 && !memcmp(head->bytes, GGUF_MAGIC, 4);
}

static void fill_files(const struct hm_gguf *gguf, struct hm_pieces *pieces)
{
	uint32_t i;

	for (i = 0; i < gguf->n_file; i++) {
		const struct gguf_file *file = &gguf->file[i];

		pieces->file[i] = (struct piece_file){
			.path = file->path,
			.map = file->map,
			.size = file->size,
			.data = file->data,
		};
	}
}

static void fill_tensors(const struct hm_gguf *gguf, struct hm_pieces *pieces)
{
	uint32_t i;

	for (i = 0; i < gguf->n_tensor; i++) {
		const struct gguf_tensor *tensor = gguf->tensor[i];
		const struct gguf_type *type = gguf_type_of(tensor);
		bool swapped = gguf_is_swapped(gguf, tensor);

		pieces->piece[i] = (struct piece){
			.name = tensor->name,
			.type = swapped ? type->swapped : type->name,
			.dtype = swapped ? HM_DTYPE_OPAQUE : type->dtype,
			.file = tensor->file,
			.rank = tensor->rank,
			.shape = tensor->shape,
			.offset = tensor->offset,
			.bytes = tensor->bytes,
			.block_elements = type->block_elements,
			.block_bytes = type->block_bytes,
		};
	}
}

/* ---- notes ---- */

static int number_text(struct gguf_file *file, const struct gguf_value *value,
		       const char **ret_text)
{
	struct hm_gguf_value number = { 0 };
	char *text = arena_take(&file->arena, NUMBER_TEXT);

	if (!text)
		return err_set(-ENOMEM, "no memory for a note");
	gguf_number(value->kind, value->bits, &number);
	if (value->kind == HM_GGUF_BOOL)
		snprintf(text, NUMBER_TEXT, "%s", number.u64 ? "true" : "false");
	else if (value->kind == HM_GGUF_F32)
		snprintf(text, NUMBER_TEXT, "%.9g", number.f64);
	else if (value->kind == HM_GGUF_F64)
		snprintf(text, NUMBER_TEXT, "%.17g", number.f64);
	else if (number.u64)
		snprintf(text, NUMBER_TEXT, "%" PRIu64, number.u64);
	else
		snprintf(text, NUMBER_TEXT, "%" PRId64, number.i64);
	*ret_text = text;
	return 0;
}

/* Arrays are told by their length only: a vocabulary has megabytes. */
static int array_text(struct gguf_file *file, const struct gguf_value *value,
		      const char **ret_text)
{
	char *text = arena_take(&file->arena, 2 * NUMBER_TEXT);

	if (!text)
		return err_set(-ENOMEM, "no memory for a note");
	snprintf(text, 2 * NUMBER_TEXT, "array of %" PRIu64 " %s%s", value->count,
		 gguf_kind_name(value->element),
		 value->element == HM_GGUF_STRING && value->count != 1 ? "s" : "");
	*ret_text = text;
	return 0;
}

/* Nobody reads so long a text, and a file that lies must not take the memory. */
static int long_text(struct gguf_file *file, const struct gguf_value *value,
		     const char **ret_text)
{
	char *text = arena_take(&file->arena, NUMBER_TEXT);

	if (!text)
		return err_set(-ENOMEM, "no memory for a note");
	snprintf(text, NUMBER_TEXT, "string of %" PRIu64 " bytes", value->bytes);
	*ret_text = text;
	return 0;
}

static int add_note(struct hm_gguf *gguf, struct gguf_value *value, struct hm_metadata *note)
{
	struct gguf_file *file = &gguf->file[value->file];

	note->key = value->key;
	if (value->kind == HM_GGUF_STRING && value->bytes > STRING_MOST)
		return long_text(file, value, &note->value);
	if (value->kind == HM_GGUF_STRING)
		return gguf_text(gguf, value, &note->value);
	if (value->kind == HM_GGUF_ARRAY)
		return array_text(file, value, &note->value);
	return number_text(file, value, &note->value);
}

static int fill_notes(struct hm_gguf *gguf, struct hm_pieces *pieces)
{
	uint32_t i;
	int r = 0;

	for (i = 0; !r && i < gguf->n_value; i++)
		r = add_note(gguf, gguf->value[i], &pieces->metadata[i]);
	if (gguf->file[0].swapped)
		pieces->metadata[i] =
			(struct hm_metadata){ "byte order", "not this machine's" };
	return r;
}

static int open_model(const struct format_source *source, struct hm_pieces *pieces)
{
	struct hm_gguf *gguf = NULL;
	int r;

	r = gguf_open(source->path[0], 0, &gguf);
	if (r)
		return r;
	pieces->data = gguf;
	r = pieces_make(pieces, gguf->n_file, gguf->n_tensor,
			gguf->n_value + gguf->file[0].swapped);
	if (r)
		return r;
	fill_files(gguf, pieces);
	fill_tensors(gguf, pieces);
	return fill_notes(gguf, pieces);
}

static void close_model(void *data)
{
	hm_gguf_unref(data);
}

const struct format gguf_format = {
	.name = "gguf",
	.text = "quantised tensors, and each file of a split model: *.gguf",
	.word = "tensor",
	.flags = FORMAT_NAMED,
	.suffix = { ".gguf" },
	.begins = begins,
	.open = open_model,
	.close = close_model,
};
