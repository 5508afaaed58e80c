/* SPDX-License-Identifier: MIT */
/*
 * The literals of Python's that a .npy file's header is made of, each taken off the front of
 * what is left: -EBADMSG, with a text, where the next one is another.
 */
#ifndef HETMAP_FORMAT_NPY_TEXT_H
#define HETMAP_FORMAT_NPY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct npy_text {
	const char *begin, *at, *end;
};

/* -EBADMSG: there is no @expected where the text is. */
int npy_text_broken(const struct npy_text *text, const char *expected);
void npy_text_skip_space(struct npy_text *text);
/* The sign, if it is next. */
bool npy_text_take(struct npy_text *text, char sign);
/* Is it next? Nothing is taken. */
bool npy_text_is(struct npy_text *text, char sign);
/* Without escapes: nothing that is told here needs one. */
int npy_text_take_string(struct npy_text *text, const char **ret_string, size_t *ret_length);
int npy_text_take_number(struct npy_text *text, uint64_t *ret_number);
int npy_text_take_truth(struct npy_text *text, bool *ret_truth);

#endif
