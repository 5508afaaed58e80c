// SPDX-License-Identifier: MIT
/*
 * Models in several files, NAME-00001-of-00003.gguf and so on, as llama.cpp's gguf-split and the
 * gguf package make them: the names, and the keys that say which file of how many one is.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "format/gguf/gguf.h"

/* Digits of each number, and the whole end of a name. */
#define DIGITS 5
#define END "-00000-of-00000.gguf"
#define END_LENGTH (sizeof(END) - 1)

/* Reads DIGITS digits. */
static bool read_digits(const char *text, uint64_t *ret_number)
{
	uint64_t number = 0;
	int i;

	for (i = 0; i < DIGITS; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		number = number * 10 + (uint64_t)(text[i] - '0');
	}
	*ret_number = number;
	return true;
}

bool gguf_split_is(const char *path, uint64_t *ret_no, uint64_t *ret_count)
{
	size_t length = strlen(path);
	uint64_t no, count;
	const char *end;

	if (length < END_LENGTH)
		return false;
	end = path + length - END_LENGTH;
	if (*end != '-' || !read_digits(end + 1, &no) || memcmp(end + 6, "-of-", 4) != 0 ||
	    !read_digits(end + 10, &count) || strcmp(end + 15, ".gguf") != 0)
		return false;
	if (!no || no > count)
		return false;
	*ret_no = no - 1;
	*ret_count = count;
	return true;
}

int gguf_split_path(const char *path, uint64_t no, uint64_t count, char **ret_path)
{
	size_t length = strlen(path);
	char *made = sys_calloc(1, length + 1);

	if (!made)
		return err_set(-ENOMEM, "no memory for a path of %zu bytes", length + 1);
	memcpy(made, path, length - END_LENGTH);
	/* Numbers have at most DIGITS digits, since those of @path have. */
	snprintf(made + length - END_LENGTH, END_LENGTH + 1,
		 "-%05" PRIu64 "-of-%05" PRIu64 ".gguf", no + 1, count);
	*ret_path = made;
	return 0;
}

static int check_file(const struct hm_gguf *gguf, uint32_t number)
{
	const struct gguf_file *file = &gguf->file[number], *first = &gguf->file[0];

	if (file->split_count != gguf->n_file || file->split_no != number)
		return err_set(-EBADMSG,
			       "%s: it is file %u of %u by its name, and file %" PRIu64
			       " of %" PRIu64 " by its metadata",
			       file->path, number + 1, gguf->n_file, file->split_no + 1,
			       file->split_count);
	if (file->swapped != first->swapped)
		return err_set(-EBADMSG, "%s: its byte order differs from that of %s",
			       file->path, first->path);
	return 0;
}

int gguf_split_check(const struct hm_gguf *gguf)
{
	const struct gguf_file *first = &gguf->file[0];
	uint64_t tensors = 0;
	uint32_t i;
	int r = 0;

	for (i = 0; !r && i < gguf->n_file; i++) {
		r = check_file(gguf, i);
		tensors += gguf->file[i].n_tensor;
	}
	if (!r && first->split_tensors && first->split_tensors != tensors)
		r = err_set(-EBADMSG,
			    "%s: " KEY_SPLIT_TENSORS " is %" PRIu64
			    ", and the %u files have %" PRIu64 " tensors",
			    first->path, first->split_tensors, gguf->n_file, tensors);
	return r;
}
