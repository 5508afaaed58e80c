/* SPDX-License-Identifier: MIT */
/* Characters in UTF-8 [RFC 3629]. */
#ifndef HETMAP_FORMAT_UTF8_H
#define HETMAP_FORMAT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the length of the character at @at, 2 to 4 bytes; 0: ASCII, or no character. */
size_t utf8_length(const unsigned char *at, size_t room);
/* Takes the character off the front of *@at, which must have one. */
uint32_t utf8_take(const char **at);
/* Stores up to 4 bytes. Returns the end of them. */
char *utf8_put(char *to, uint32_t code);
/* Is all of @text UTF-8? ASCII is. */
bool utf8_is(const char *text, size_t length);

#endif
