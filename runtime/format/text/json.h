/* SPDX-License-Identifier: MIT */
/*
 * A JSON text in memory [RFC 8259], read once from front to back, without a tree: strings are
 * unescaped in place. The parser refuses everything that jansson refuses (bytes that are no
 * UTF-8, \u0000, integers beyond 2^63 - 1, more than one value). The caller must find keys that
 * occur twice, by names.h, except for those in a value that is skipped.
 *
 * jansson's own names begin with json_, and a program may have both.
 */
#ifndef HETMAP_FORMAT_JSON_H
#define HETMAP_FORMAT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jtext {
	char *at; /* the next byte */
	char *end;
	const char *begin;
	uint64_t base; /* offset of begin in its file: errors tell offsets in the file */
};

/* A string in the text, with a '\0' behind it, and none inside. */
struct jtext_string {
	const char *text;
	size_t length;
};

void jtext_begin(struct jtext *json, char *text, size_t length, uint64_t base);

/*
 * All functions return 0, or -EBADMSG with a text that tells the problem and its byte.
 *
 *     jtext_open(json, '{');
 *     for (more = 0; jtext_more(json, '}', &more) == 0 && more;)
 *             jtext_key(json, &key), jtext_string(json, &value);
 *     jtext_close(json);
 */
int jtext_open(struct jtext *json, char bracket);
/* *@more must be 0 at first; then tells whether another element comes. @bracket closes. */
int jtext_more(struct jtext *json, char bracket, int *more);
int jtext_string(struct jtext *json, struct jtext_string *ret_string);
int jtext_key(struct jtext *json, struct jtext_string *ret_key);
/* Reads a number without fraction and exponent, not below 0. */
int jtext_integer(struct jtext *json, uint64_t *ret_number);
/* Takes a null, if one is next. */
bool jtext_null(struct jtext *json);
/* Skips the next value of any kind. -ENOMEM, too. */
int jtext_skip(struct jtext *json);
/* Checks that only white space is left. */
int jtext_close(struct jtext *json);

/* Offset of the next token in the file. */
uint64_t jtext_offset(struct jtext *json);

#endif
