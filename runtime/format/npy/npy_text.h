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
	uint32_t version; /* of the format: 1 and 2 are in Latin-1, 3 is in UTF-8 */
};

/* What is between a string's quotes, as it is written: begin and length in the text. */
struct npy_string {
	uint16_t at, length;
};

/* -EBADMSG: it is not in the version's encoding. @length NPY_HEADER_MAX at most. */
int npy_text_begin(struct npy_text *text, const char *from, size_t length, uint32_t version);

/* -EBADMSG: there is no @expected where the text is. */
int npy_text_broken(const struct npy_text *text, const char *expected);
void npy_text_skip_space(struct npy_text *text);
/* Takes the sign, if it is next. */
bool npy_text_take(struct npy_text *text, char sign);
/* Is the sign next? Takes nothing. */
bool npy_text_is(struct npy_text *text, char sign);
/* Without escapes: no key and no type needs one. */
int npy_text_take_string(struct npy_text *text, const char **ret_string, size_t *ret_length);
/* With Python's escapes, but for names of characters, which repr() never writes. */
int npy_text_take_name(struct npy_text *text, struct npy_string *ret_name);
/* Are they the same characters, however they are written? */
bool npy_text_same(const struct npy_text *text, struct npy_string a, struct npy_string b);
/*
 * The @length bytes at @from of the text for a sentence or a terminal: UTF-8 of @size bytes at
 * most, with its '\0', that ends in "..." where it was cut. Returns @to.
 */
const char *npy_text_show(const struct npy_text *text, const char *from, size_t length,
			  char *to, size_t size);
int npy_text_take_number(struct npy_text *text, uint64_t *ret_number);
int npy_text_take_truth(struct npy_text *text, bool *ret_truth);

#endif
