/* SPDX-License-Identifier: MIT */
/* Characters in UTF-8 [RFC 3629]. */
#ifndef HETMAP_FORMAT_UTF8_H
#define HETMAP_FORMAT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at @at, 2 to 4; 0: it is none, or one of ASCII. */
size_t utf8_length(const unsigned char *at, size_t room);
/* Takes the character off the front of @at, where one is. */
uint32_t utf8_take(const char **at);
/* Puts up to 4 bytes; returns what is behind them. */
char *utf8_put(char *to, uint32_t code);
/* All of @text, ASCII included. */
bool utf8_is(const char *text, size_t length);

#endif
