// SPDX-License-Identifier: MIT
/* Raw tokens: their options, and which files these can't be of. */
#include "raw_tokens.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/pieces.h>

#include "common/text.h"
#include "job.h"

static const struct {
	const char *name; /* numpy's, and without "int" as it is in .npy files */
	const char *code;
	uint32_t dtype;
} types[] = {
	{ "uint8", "u1", HM_DTYPE_U8 },      { "int8", "i1", HM_DTYPE_I8 },
	{ "uint16", "u2", HM_DTYPE_U16 },    { "int16", "i2", HM_DTYPE_I16 },
	{ "uint32", "u4", HM_DTYPE_U32 },    { "int32", "i4", HM_DTYPE_I32 },
	{ "uint64", "u8", HM_DTYPE_U64 },    { "int64", "i8", HM_DTYPE_I64 },
	{ "float16", "f2", HM_DTYPE_F16 },   { "bfloat16", "bf16", HM_DTYPE_BF16 },
	{ "float32", "f4", HM_DTYPE_F32 },   { "float64", "f8", HM_DTYPE_F64 },
	{ "complex64", "c8", HM_DTYPE_C64 }, { "bool", "b1", HM_DTYPE_BOOL },
};

int tokens_type(const char *name, uint32_t *ret_dtype)
{
	uint32_t dtype;
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(name, types[i].name) || !strcmp(name, types[i].code)) {
			*ret_dtype = types[i].dtype;
			return 0;
		}
	for (dtype = 0; hm_dtype_name(dtype); dtype++)
		if (!strcmp(name, hm_dtype_name(dtype)) && hm_dtype_bits(dtype) % 8 == 0) {
			*ret_dtype = dtype;
			return 0;
		}
	return -EINVAL;
}

/* This machine's comes first. */
static const char *const byte_orders[] = {
	BYTE_ORDER == BIG_ENDIAN ? "big" : "little",
	BYTE_ORDER == BIG_ENDIAN ? "little" : "big",
};

const char *tokens_byte_order_name(bool swapped)
{
	return byte_orders[swapped];
}

static int take_byte_order(const char *name, const char **ret_byte_order)
{
	size_t i;

	for (i = 0; i < 2; i++)
		if (!strcmp(name, byte_orders[i])) {
			*ret_byte_order = byte_orders[i];
			return 0;
		}
	return -EINVAL;
}

int raw_tokens_take(const struct option_state *state, int option, struct raw_tokens *raw)
{
	const char *name = option < 0 ? "" : state->rows[option].name;
	const char *value = state->value;

	if (!strcmp(name, "dtype"))
		return tokens_type(value, &raw->dtype) ?
			       option_refuse(state, option, TOKENS_TYPES) :
			       0;
	if (!strcmp(name, "byte-order"))
		return take_byte_order(value, &raw->byte_order) ?
			       option_refuse(state, option, "little or big") :
			       0;
	if (strcmp(name, "offset"))
		return OPTION_END;
	raw->offset_given = true;
	return option_bytes(value, &raw->offset) ?
		       option_refuse(state, option, "bytes, as in 256, 4K") :
		       0;
}

struct hm_tokens_desc raw_tokens_desc(const struct raw_tokens *raw)
{
	bool swapped = raw->byte_order == byte_orders[1];

	return (struct hm_tokens_desc){
		.struct_size = sizeof(struct hm_tokens_desc),
		.flags = (raw->dtype == HM_DTYPE_BOOL ? HM_TOKENS_BOOL : 0) |
			 (swapped ? HM_TOKENS_SWAPPED : 0),
		.dtype = raw->dtype == TYPE_NOT_GIVEN ? 0 : raw->dtype,
		.offset = raw->offset,
	};
}

bool raw_tokens_are_npy(const void *bytes, size_t n)
{
	static const char magic[] = "\x93NUMPY";

	return n >= sizeof(magic) - 1 && !memcmp(bytes, magic, sizeof(magic) - 1);
}

bool raw_tokens_have_index(const char *path)
{
	struct hm_format_info info = { .struct_size = sizeof(info) };

	/* Without a description of raw files, no other file is one of tokens. */
	return !hm_pieces_probe(path, NULL, &info) && !strcmp(info.name, "tokens");
}

/* Ends of names of files that are not raw. */
static const struct {
	const char *end, *says, *remedy;
	int status;
} named[] = {
	{ ".npy", "does not begin as a .npy file does", "get the file again, or, if it is raw",
	  STATUS_WRONG },
	{ ".npz", "is an archive by its name",
	  "hetmap inspect shows its arrays; unzip it, as its parts are .npy files; or, if it is raw",
	  STATUS_USAGE },
	{ ".safetensors", "has tensors by its name",
	  "hetmap run load takes it; or, if it is raw", STATUS_USAGE },
};

int raw_tokens_check_kind(const char *path)
{
	struct hm_format_info info = { .struct_size = sizeof(info) };

	if (hm_pieces_probe(path, NULL, &info) != -EOPNOTSUPP)
		return 0;
	return fail_library(STATUS_USAGE, -EOPNOTSUPP, NULL, "cannot take it");
}

static int check_name(const struct raw_tokens *raw, const char *command,
		      const struct input *input)
{
	const char *dot = strrchr(input->path, '.');
	char *remedy;
	int status;
	size_t i;

	if (!dot || raw->dtype != TYPE_NOT_GIVEN || raw->offset_given || raw->byte_order ||
	    !input->stat.st_size)
		return 0;
	for (i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		if (!strcmp(dot, named[i].end))
			break;
	if (i == sizeof(named) / sizeof(named[0]))
		return 0;
	status = raw_tokens_check_kind(input->path);
	if (status)
		return status;
	remedy = text_format("%s, give its --dtype", named[i].remedy);
	fail(named[i].status, EBADMSG, remedy, "%s: '%s' %s", command, input->shown,
	     named[i].says);
	free(remedy);
	return named[i].status;
}

static int check_size(const struct raw_tokens *raw, const char *command,
		      const struct input *input)
{
	uint64_t size = (uint64_t)input->stat.st_size;
	char count[TEXT_MAX];

	/* An empty file is told of as such, whatever is skipped. */
	if (!raw->offset || !size || raw->offset < size)
		return 0;
	return fail(STATUS_USAGE, EINVAL, "--offset is the number of bytes before the tokens",
		    "%s: --offset %" PRIu64 " is beyond '%s', which has %s byte%s", command,
		    raw->offset, input->shown, text_count(size, count), size == 1 ? "" : "s");
}

int raw_tokens_check(const struct raw_tokens *raw, const char *command,
		     const struct input *input)
{
	int status = check_name(raw, command, input);

	return status ? status : check_size(raw, command, input);
}

/*
 * The options for raw files may be wrong; a file that names its own type is broken. With files
 * of both kinds the options are blamed, and the text names the file.
 */
int raw_tokens_open_failed(const struct raw_tokens *raw, bool some, int r)
{
	int status = job_status_of(r);
	char *remedy = NULL;

	switch (-r) {
	case EBADMSG:
		status = some ? STATUS_USAGE : STATUS_WRONG;
		remedy = some ? text_format("--dtype gives the type of a raw file%s, and "
					    "--offset the length of its header",
					    raw->dtype == TYPE_NOT_GIVEN ?
						    ", uint16 by default" :
						    "") :
				strdup(FILE_CUT);
		break;
	case ENODATA:
		status = STATUS_WRONG;
		break;
	case EINVAL:
		status = STATUS_USAGE;
		remedy = some ? strdup("--dtype gives the type of raw files") : NULL;
		break;
	case EOPNOTSUPP:
	case EOVERFLOW:
	case ERANGE:
		status = STATUS_USAGE;
		break;
	}
	fail_library(status, r, remedy, "cannot open the tokens");
	free(remedy);
	return status;
}

int raw_tokens_check_other(const struct raw_tokens *raw, const char *command, const char *path,
			   const char *type)
{
	bool typed = raw->dtype != TYPE_NOT_GIVEN &&
		     (!type || strcmp(type, hm_dtype_name(raw->dtype)));
	const char *option = raw->offset_given ? "offset" :
			     raw->byte_order   ? "byte-order" :
			     typed             ? "dtype" :
						 NULL;
	char *remedy, *shown;

	if (!option)
		return 0;
	remedy = text_format("leave --%s away", option);
	shown = text_escape(path);
	fail(STATUS_USAGE, EINVAL, remedy,
	     "%s: --%s is for raw files, and '%s' names its own type%s%s", command, option,
	     shown, typed && type ? ": " : "", typed && type ? type : "");
	free(shown);
	free(remedy);
	return STATUS_USAGE;
}
