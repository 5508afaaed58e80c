// SPDX-License-Identifier: MIT
/* Characters in UTF-8: see utf8.h. */
#include "format/text/utf8.h"

size_t utf8_length(const unsigned char *at, size_t room)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t code;
	size_t n, i;

	if (*at >= 0xc2 && *at <= 0xdf)
		n = 2;
	else if (*at >= 0xe0 && *at <= 0xef)
		n = 3;
	else if (*at >= 0xf0 && *at <= 0xf4)
		n = 4;
	else
		return 0;
	if (n > room)
		return 0;
	code = *at & (0x7fu >> n);
	for (i = 1; i < n; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at[i] & 0x3f);
	}
	if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return n;
}

uint32_t utf8_take(const char **at)
{
	unsigned char first = (unsigned char)*(*at)++;
	uint32_t code = first;
	unsigned int n;

	if (first < 0x80)
		return first;
	n = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
	for (code &= 0x3fu >> n; n; n--)
		code = code << 6 | ((unsigned char)*(*at)++ & 0x3f);
	return code;
}

char *utf8_put(char *to, uint32_t code)
{
	if (code < 0x80) {
		*to++ = (char)code;
		return to;
	}
	if (code < 0x800) {
		*to++ = (char)(0xc0 | code >> 6);
	} else {
		if (code < 0x10000) {
			*to++ = (char)(0xe0 | code >> 12);
		} else {
			*to++ = (char)(0xf0 | code >> 18);
			*to++ = (char)(0x80 | (code >> 12 & 0x3f));
		}
		*to++ = (char)(0x80 | (code >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (code & 0x3f));
	return to;
}

bool utf8_is(const char *text, size_t length)
{
	size_t n;

	for (; length; text += n, length -= n) {
		n = (unsigned char)*text < 0x80 ?
			    1 :
			    utf8_length((const unsigned char *)text, length);
		if (!n)
			return false;
	}
	return true;
}
