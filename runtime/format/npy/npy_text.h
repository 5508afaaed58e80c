/* SPDX-License-Identifier: MIT */
/*
 * Python literals of a .npy file's header, each taken off the front of the remaining text:
 * -EBADMSG, with a text, where the next literal is another.
 */
#ifndef HETMAP_FORMAT_NPY_TEXT_H
#define HETMAP_FORMAT_NPY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct npy_text {
	const char *begin, *at, *end;
};

/* -EBADMSG: @expected is missing at the text's position. */
int npy_text_broken(const struct npy_text *text, const char *expected);
void npy_text_skip_space(struct npy_text *text);
/* Takes the sign, if it is next. */
bool npy_text_take(struct npy_text *text, char sign);
/* Is the sign next? Takes nothing. */
bool npy_text_is(struct npy_text *text, char sign);
/* Without escapes: no string that matters here needs one. */
int npy_text_take_string(struct npy_text *text, const char **ret_string, size_t *ret_length);
int npy_text_take_number(struct npy_text *text, uint64_t *ret_number);
int npy_text_take_truth(struct npy_text *text, bool *ret_truth);

#endif
