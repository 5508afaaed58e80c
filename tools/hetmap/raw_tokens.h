/* SPDX-License-Identifier: MIT */
/* Raw tokens: options for files that don't name their own type. Inspect and run share them. */
#ifndef HETMAP_RAW_TOKENS_H
#define HETMAP_RAW_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hetmap/tokens.h>

#include "common/command.h"
#include "common/input.h"

/* No number of enum hm_dtype; 0 is one. */
#define TYPE_NOT_GIVEN UINT32_MAX

struct raw_tokens {
	uint32_t dtype;         /* or TYPE_NOT_GIVEN */
	const char *byte_order; /* "little" or "big"; NULL: not given, this machine's */
	uint64_t offset;        /* offset of the first token, in each file */
	bool offset_given;
};

/*
 * Takes --dtype, --offset and --byte-order: 0, or STATUS_USAGE where the value is none, told
 * already; OPTION_END of any other option.
 */
int raw_tokens_take(const struct option_state *state, int option, struct raw_tokens *raw);

/* For messages about unknown types. */
#define TOKENS_TYPES \
	"uint8 to int64, float16, bfloat16, float32, float64, complex64, bool, or as F8_E4M3"

/* The type that numpy, or a file of tensors, calls so, of whole bytes: 0, or -EINVAL. */
int tokens_type(const char *name, uint32_t *ret_dtype);
/* "little" or "big", that @swapped files have. */
const char *tokens_byte_order_name(bool swapped);

/* The description for hm_tokens_open(). */
struct hm_tokens_desc raw_tokens_desc(const struct raw_tokens *raw);

/* Does the file name its own type? @bytes: the first @n bytes of it. */
bool raw_tokens_are_npy(const void *bytes, size_t n);

/* Has the file's pair an index, which names the type? */
bool raw_tokens_have_index(const char *path);

/* Those below: an exit status; a failure is told already. */

/*
 * Checks a raw file: it has bytes behind --offset; and without an option that says so, a file
 * with another kind's name is not raw.
 */
int raw_tokens_check(const struct raw_tokens *raw, const char *command,
		     const struct input *input);
/* A failure if the file is of a format that the library knows and does not read. */
int raw_tokens_check_kind(const char *path);
/* Prints a failure of hm_tokens_open(); @some: some of the files are raw. */
int raw_tokens_open_failed(const struct raw_tokens *raw, bool some, int r);
/*
 * Checks the options for @path, which is no raw file. @type: its type; NULL: unknown, or
 * several.
 */
int raw_tokens_check_other(const struct raw_tokens *raw, const char *command, const char *path,
			   const char *type);

#endif
