/* SPDX-License-Identifier: MIT */
/*
 * A JSON text in memory [RFC 8259], read once from front to back, without a tree: its
 * strings are unescaped where they are. What jansson refuses is refused here (bytes that
 * are no UTF-8, \u0000, integers beyond 2^63 - 1, more than the one value); keys that occur
 * twice are the caller's to find, by names.h, but for those in a value that is skipped.
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
	uint64_t base; /* of begin in its file: errors have the file's offsets */
};

/* In the text, with a '\0' behind it; it has none inside. */
struct jtext_string {
	const char *text;
	size_t length;
};

void jtext_begin(struct jtext *json, char *text, size_t length, uint64_t base);

/*
 * All return 0, or -EBADMSG with a text that says what is at which byte.
 *
 *     jtext_open(json, '{');
 *     for (more = 0; jtext_more(json, '}', &more) == 0 && more;)
 *             jtext_key(json, &key), jtext_string(json, &value);
 *     jtext_close(json);
 */
int jtext_open(struct jtext *json, char bracket);
/* *@more is 0 at first; then whether another element comes. @bracket closes. */
int jtext_more(struct jtext *json, char bracket, int *more);
int jtext_string(struct jtext *json, struct jtext_string *ret_string);
int jtext_key(struct jtext *json, struct jtext_string *ret_key);
/* Without fraction and exponent, not below 0. */
int jtext_integer(struct jtext *json, uint64_t *ret_number);
/* Whatever value is next. -ENOMEM, too. */
int jtext_skip(struct jtext *json);
/* Only white space is left. */
int jtext_close(struct jtext *json);

/* Where the next token is, in the file. */
uint64_t jtext_offset(struct jtext *json);

/* UTF-8 [RFC 3629], and no '\0': of names that are written. */
bool jtext_is_utf8(const char *text);

#endif
