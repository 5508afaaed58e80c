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

/* The text between a string's quotes, with its escapes: its place in the header, and its length. */
struct npy_string {
	uint16_t at, length;
};

/* Begins @text. -EBADMSG: not in the encoding of @version. @length is at most NPY_HEADER_MAX. */
int npy_text_begin(struct npy_text *text, const char *from, size_t length, uint32_t version);

/* -EBADMSG: @expected is missing at the text's position. */
int npy_text_broken(const struct npy_text *text, const char *expected);
void npy_text_skip_space(struct npy_text *text);
/* Takes the sign, if it is next. */
bool npy_text_take(struct npy_text *text, char sign);
/* Is the sign next? Takes nothing. */
bool npy_text_is(struct npy_text *text, char sign);
/* Refuses escapes: no key and no type needs one. */
int npy_text_take_string(struct npy_text *text, const char **ret_string, size_t *ret_length);
/* Accepts Python's escapes except names of characters, which repr() never writes. */
int npy_text_take_name(struct npy_text *text, struct npy_string *ret_name);
/* Do the names have the same characters, whatever escapes they are written with? */
bool npy_text_same(const struct npy_text *text, struct npy_string a, struct npy_string b);
/*
 * Converts the @length bytes at @from, which are in the text, for a sentence or a terminal: UTF-8
 * of @size bytes at most, with its '\0'. A cut text ends in "...". Returns @to.
 */
const char *npy_text_show(const struct npy_text *text, const char *from, size_t length,
			  char *to, size_t size);
int npy_text_take_number(struct npy_text *text, uint64_t *ret_number);
int npy_text_take_truth(struct npy_text *text, bool *ret_truth);

#endif
