/* SPDX-License-Identifier: MIT */
/*
 * A JSON text in memory [RFC 8259], read once from front to back, without a tree: its
 * strings are unescaped where they are. What jansson refuses is refused here (bytes that
 * are no UTF-8, \u0000, integers beyond 2^63 - 1, more than the one value); keys that occur
 * twice are the caller's to find, by names.h, but for those in a value that is skipped.
 */
#ifndef HETMAP_FORMAT_JSON_H
#define HETMAP_FORMAT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
	char *at; /* the next byte */
	char *end;
	const char *begin;
	uint64_t base; /* of begin in its file: errors have the file's offsets */
};

/* In the text, with a '\0' behind it; it has none inside. */
struct json_string {
	const char *text;
	size_t length;
};

void json_begin(struct json *json, char *text, size_t length, uint64_t base);

/*
 * All return 0, or -EBADMSG with a text that says what is at which byte.
 *
 *     json_open(json, '{');
 *     for (more = 0; json_more(json, '}', &more) == 0 && more;)
 *             json_key(json, &key), json_string(json, &value);
 *     json_close(json);
 */
int json_open(struct json *json, char bracket);
/* *@more is 0 at first; then whether another element comes. @bracket closes. */
int json_more(struct json *json, char bracket, int *more);
int json_string(struct json *json, struct json_string *ret_string);
int json_key(struct json *json, struct json_string *ret_key);
/* Without fraction and exponent, not below 0. */
int json_integer(struct json *json, uint64_t *ret_number);
/* Whatever value is next. -ENOMEM, too. */
int json_skip(struct json *json);
/* Only white space is left. */
int json_close(struct json *json);

/* Where the next token is, in the file. */
uint64_t json_offset(struct json *json);

/* UTF-8 [RFC 3629], and no '\0': of names that are written. */
bool json_is_utf8(const char *text);

#endif
