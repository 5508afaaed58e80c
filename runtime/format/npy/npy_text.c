// SPDX-License-Identifier: MIT
/* Parses the Python literals of a .npy file's header: see npy_text.h. */
#include "format/npy/npy_text.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "format/text/utf8.h"

int npy_text_begin(struct npy_text *text, const char *from, size_t length, uint32_t version)
{
	*text = (struct npy_text){ from, from, from + length, version };
	/* In Latin-1 each byte is a character. */
	if (version < 3 || utf8_is(from, length))
		return 0;
	return err_set(-EBADMSG, "its header is not in UTF-8, as that of version 3.0 is");
}

/* Takes the next character as the file has it; an escape is several characters. */
static uint32_t take_character(const struct npy_text *text, const char **at)
{
	return text->version < 3 ? (unsigned char)*(*at)++ : utf8_take(at);
}

int npy_text_broken(const struct npy_text *text, const char *expected)
{
	const char *at = text->begin;
	size_t n = 0;

	if (text->at == text->end)
		return err_set(-EBADMSG, "its header ends where %s should be", expected);
	for (; at < text->at; n++)
		take_character(text, &at);
	return err_set(-EBADMSG, "its header has no %s at character %zu", expected, n);
}

const char *npy_text_show(const struct npy_text *text, const char *from, size_t length,
			  char *to, size_t size)
{
	const char *end = from + length;
	size_t n = 0, cut = 0, bytes;
	uint32_t code;
	char one[4];

	while (from < end) {
		code = take_character(text, &from);
		/* C0 and C1, the characters that control a terminal. */
		if (code < 0x20 || (code >= 0x7f && code < 0xa0))
			code = '?';
		bytes = (size_t)(utf8_put(one, code) - one);
		if (n + bytes >= size) {
			memcpy(to + cut, "...", 4);
			return to;
		}
		memcpy(to + n, one, bytes);
		n += bytes;
		if (n + 4 <= size)
			cut = n;
	}
	to[n] = '\0';
	return to;
}

void npy_text_skip_space(struct npy_text *text)
{
	while (text->at < text->end && *text->at && strchr(" \t\r\n\f", *text->at))
		text->at++;
}

bool npy_text_take(struct npy_text *text, char sign)
{
	npy_text_skip_space(text);
	if (text->at == text->end || *text->at != sign)
		return false;
	text->at++;
	return true;
}

bool npy_text_is(struct npy_text *text, char sign)
{
	npy_text_skip_space(text);
	return text->at < text->end && *text->at == sign;
}

/* Takes the quote that a string begins with. 0: there is none. */
static char take_quote(struct npy_text *text)
{
	npy_text_skip_space(text);
	if (text->at == text->end || (*text->at != '\'' && *text->at != '"'))
		return 0;
	return *text->at++;
}

int npy_text_take_string(struct npy_text *text, const char **ret_string, size_t *ret_length)
{
	const char *begin;
	char quote = take_quote(text);

	if (!quote)
		return npy_text_broken(text, "string");
	begin = text->at;
	while (text->at < text->end && *text->at != quote) {
		if (*text->at == '\\' || *text->at == '\n' || !*text->at)
			return npy_text_broken(text, "plain string");
		text->at++;
	}
	if (text->at == text->end)
		return npy_text_broken(text, "end of a string");
	*ret_string = begin;
	*ret_length = (size_t)(text->at++ - begin);
	return 0;
}

/* ---- names, which may have escapes ---- */

/* Takes digits of @bits bits each, at most @most. *@ret_n is their number. */
static uint32_t take_digits(const char **at, const char *end, uint32_t most, uint32_t bits,
			    uint32_t *ret_n)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	uint32_t value = 0, n = 0, digit;
	const char *which;

	for (; n < most && *at < end && **at; n++, (*at)++) {
		which = strchr(digits, **at);
		digit = which ? (uint32_t)(which - digits) : UINT32_MAX;
		/* The capitals are behind the small letters. */
		digit = digit > 15 && which ? digit - 6 : digit;
		if (digit >> bits)
			break;
		value = value << bits | digit;
	}
	*ret_n = n;
	return value;
}

/*
 * Takes an escape, behind its backslash, of those that repr() and people write. UINT32_MAX: Python
 * has no such escape.
 */
static uint32_t take_escape(const char **at, const char *end)
{
	static const char from[] = "\\'\"abfnrtv", into[] = "\\'\"\a\b\f\n\r\t\v";
	static const struct {
		char letter;
		uint32_t digits;
	} codes[] = { { 'x', 2 }, { 'u', 4 }, { 'U', 8 } };
	const char *which;
	uint32_t code, n;
	size_t i;

	code = take_digits(at, end, 3, 3, &n);
	if (n)
		return code;
	for (i = 0; i < ARRAY_SIZE(codes); i++)
		if (**at == codes[i].letter) {
			(*at)++;
			code = take_digits(at, end, codes[i].digits, 4, &n);
			return n == codes[i].digits && code <= 0x10ffff ? code : UINT32_MAX;
		}
	if (**at == 'N')
		return UINT32_MAX;
	which = strchr(from, **at);
	/* Any other character stands for itself, and so does the backslash before it. */
	if (!which)
		return '\\';
	(*at)++;
	return (uint32_t)(unsigned char)into[which - from];
}

/* Takes the next character of a name. UINT32_MAX: Python has no such escape. */
static uint32_t take_code(const struct npy_text *text, const char **at, const char *end)
{
	uint32_t code = take_character(text, at);

	return code == '\\' ? take_escape(at, end) : code;
}

int npy_text_take_name(struct npy_text *text, struct npy_string *ret_name)
{
	const char *begin, *at;
	char quote = take_quote(text);

	if (!quote)
		return npy_text_broken(text, "string");
	begin = text->at;
	for (; text->at < text->end && *text->at != quote; text->at++) {
		/* An escaped quote does not end the string. */
		if (*text->at == '\\' && text->at + 1 < text->end)
			text->at++;
		if (*text->at == '\n' || !*text->at)
			return npy_text_broken(text, "plain string");
	}
	if (text->at == text->end)
		return npy_text_broken(text, "end of a string");
	for (at = begin; at < text->at;)
		if (take_code(text, &at, text->at) == UINT32_MAX)
			return npy_text_broken(&(struct npy_text){ text->begin, at, text->end,
								   text->version },
					       "escape that Python knows");
	*ret_name = (struct npy_string){
		.at = (uint16_t)(begin - text->begin),
		.length = (uint16_t)(text->at++ - begin),
	};
	return 0;
}

bool npy_text_same(const struct npy_text *text, struct npy_string a, struct npy_string b)
{
	const char *x = text->begin + a.at, *y = text->begin + b.at;
	const char *x_end = x + a.length, *y_end = y + b.length;

	while (x < x_end && y < y_end)
		if (take_code(text, &x, x_end) != take_code(text, &y, y_end))
			return false;
	return x == x_end && y == y_end;
}

/* ---- numbers and truth ---- */

/* Python 2 wrote 10L. Version 3.0 is younger than that. */
int npy_text_take_number(struct npy_text *text, uint64_t *ret_number)
{
	const char *begin;
	uint64_t number = 0;

	npy_text_skip_space(text);
	begin = text->at;
	while (text->at < text->end && *text->at >= '0' && *text->at <= '9') {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*text->at - '0'), &number))
			return err_set(-EBADMSG,
				       "its header has a number beyond 2^64 at character %zu",
				       (size_t)(begin - text->begin));
		text->at++;
	}
	if (text->at == begin)
		return npy_text_broken(text, "number");
	/* 01 is no number in Python. */
	if (*begin == '0' && number)
		return npy_text_broken(&(struct npy_text){ text->begin, begin, text->end,
							   text->version },
				       "number");
	if (text->version < 3 && text->at < text->end && *text->at == 'L')
		text->at++;
	*ret_number = number;
	return 0;
}

int npy_text_take_truth(struct npy_text *text, bool *ret_truth)
{
	size_t left;

	npy_text_skip_space(text);
	left = (size_t)(text->end - text->at);
	if (left >= 4 && !memcmp(text->at, "True", 4)) {
		text->at += 4;
		*ret_truth = true;
		return 0;
	}
	if (left >= 5 && !memcmp(text->at, "False", 5)) {
		text->at += 5;
		*ret_truth = false;
		return 0;
	}
	return npy_text_broken(text, "True or False");
}
