// SPDX-License-Identifier: MIT
/* A JSON text in memory, read once from front to back: see json.h. */
#include "format/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "format/text/names.h"
#include "format/text/utf8.h"

/* Depth of values in a value that is skipped; jansson's own limit. */
#define DEPTH_MAX 2048

/* Bytes of a string that stand for themselves: ASCII, without the ones below. */
static inline bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static inline void skip_blank(struct jtext *json)
{
	while (json->at < json->end && (*json->at == ' ' || *json->at == '\n' ||
					*json->at == '\r' || *json->at == '\t'))
		json->at++;
}

void jtext_begin(struct jtext *json, char *text, size_t length, uint64_t base)
{
	*json = (struct jtext){ .at = text, .end = text + length, .begin = text, .base = base };
}

uint64_t jtext_offset(struct jtext *json)
{
	skip_blank(json);
	return json->base + (uint64_t)(json->at - json->begin);
}

/* Cold: "byte 17: 'x' where ',' or '}' is expected". */
static int wrong(struct jtext *json, const char *expected)
{
	unsigned char c;

	if (json->at >= json->end)
		return err_set(-EBADMSG,
			       "byte %" PRIu64 ": the JSON text ends where %s is expected",
			       jtext_offset(json), expected);
	c = (unsigned char)*json->at;
	if (c > 0x20 && c < 0x7f)
		return err_set(-EBADMSG, "byte %" PRIu64 ": '%c' where %s is expected",
			       jtext_offset(json), c, expected);
	return err_set(-EBADMSG, "byte %" PRIu64 ": 0x%02x where %s is expected",
		       json->base + (uint64_t)(json->at - json->begin), c, expected);
}

int jtext_open(struct jtext *json, char bracket)
{
	skip_blank(json);
	if (json->at >= json->end || *json->at != bracket)
		return wrong(json, bracket == '{' ? "a JSON object" : "a JSON array");
	json->at++;
	return 0;
}

int jtext_more(struct jtext *json, char bracket, int *more)
{
	skip_blank(json);
	if (json->at < json->end && *json->at == bracket) {
		json->at++;
		*more = 0;
		return 0;
	}
	if (*more) {
		if (json->at >= json->end || *json->at != ',')
			return wrong(json, bracket == '}' ? "',' or '}'" : "',' or ']'");
		json->at++;
	}
	*more = 1;
	return 0;
}

/* ---- strings ---- */

static int hex4(struct jtext *json, uint32_t *ret_code)
{
	uint32_t code = 0;
	int i;

	for (i = 0; i < 4; i++, json->at++) {
		char c = json->at < json->end ? *json->at : 0;

		if (c >= '0' && c <= '9')
			code = code << 4 | (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			code = code << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
		else
			return wrong(json, "a hexadecimal digit");
	}
	*ret_code = code;
	return 0;
}

/* Called behind "\u". A character takes no more bytes than its escape did. */
static int unescape_code(struct jtext *json, char **to)
{
	uint64_t offset = json->base + (uint64_t)(json->at - json->begin);
	uint32_t code, low;
	int r;

	r = hex4(json, &code);
	if (r)
		return r;
	if (!code)
		return err_set(-EBADMSG, "byte %" PRIu64 ": \\u0000 in a string", offset);
	if (code >= 0xd800 && code <= 0xdbff) {
		if (json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
			return wrong(json, "the second half of a surrogate pair");
		json->at += 2;
		r = hex4(json, &low);
		if (r)
			return r;
		if (low < 0xdc00 || low > 0xdfff)
			return err_set(-EBADMSG,
				       "byte %" PRIu64 ": \\u%04x\\u%04x is no character",
				       offset, code, low);
		code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
	} else if (code >= 0xdc00 && code <= 0xdfff) {
		return err_set(-EBADMSG, "byte %" PRIu64 ": \\u%04x is half of a character",
			       offset, code);
	}
	*to = utf8_put(*to, code);
	return 0;
}

static int unescape(struct jtext *json, char **to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	const char *which;

	json->at++;
	if (json->at < json->end && *json->at == 'u') {
		json->at++;
		return unescape_code(json, to);
	}
	which = json->at < json->end && *json->at ? strchr(from, *json->at) : NULL;
	if (!which)
		return wrong(json, "one of \"\\/bfnrtu");
	*(*to)++ = into[which - from];
	json->at++;
	return 0;
}

/* Starts at the first byte that is not plain, or at the closing quote. */
static int string_rest(struct jtext *json, char **ret_to)
{
	char *to = json->at;
	size_t n;
	int r;

	while (json->at < json->end && *json->at != '"') {
		unsigned char c = (unsigned char)*json->at;

		if (is_plain(c)) {
			*to++ = *json->at++;
			continue;
		}
		if (c == '\\') {
			r = unescape(json, &to);
			if (r)
				return r;
			continue;
		}
		n = utf8_length((unsigned char *)json->at, (size_t)(json->end - json->at));
		if (!n)
			return wrong(json, c < 0x20 ? "a character (escape those below 0x20)" :
						      "UTF-8");
		memmove(to, json->at, n);
		to += n;
		json->at += n;
	}
	*ret_to = to;
	return 0;
}

int jtext_string(struct jtext *json, struct jtext_string *ret_string)
{
	char *text, *to = NULL;
	int r;

	skip_blank(json);
	if (json->at >= json->end || *json->at != '"')
		return wrong(json, "a string");
	text = ++json->at;
	while (json->at < json->end && is_plain((unsigned char)*json->at))
		json->at++;
	r = string_rest(json, &to);
	if (r)
		return r;
	if (json->at >= json->end)
		return wrong(json, "the string's end");
	json->at++;
	/* The closing quote is behind all of it, so there is room. */
	*to = '\0';
	ret_string->text = text;
	ret_string->length = (size_t)(to - text);
	return 0;
}

int jtext_key(struct jtext *json, struct jtext_string *ret_key)
{
	int r;

	r = jtext_string(json, ret_key);
	if (r)
		return r;
	skip_blank(json);
	if (json->at >= json->end || *json->at != ':')
		return wrong(json, "':'");
	json->at++;
	return 0;
}

/* ---- numbers ---- */

static inline bool at_digit(const struct jtext *json)
{
	return json->at < json->end && *json->at >= '0' && *json->at <= '9';
}

static int digits(struct jtext *json)
{
	if (!at_digit(json))
		return wrong(json, "a digit");
	while (at_digit(json))
		json->at++;
	return 0;
}

/* Reads a number by its grammar; *@ret_whole: no fraction, no exponent. */
static int number(struct jtext *json, bool *ret_whole)
{
	char *first;
	int r;

	if (json->at < json->end && *json->at == '-')
		json->at++;
	first = json->at;
	r = digits(json);
	if (r)
		return r;
	if (*first == '0' && json->at - first > 1) {
		json->at = first + 1;
		return wrong(json, "no digit behind a 0");
	}
	*ret_whole = true;
	if (json->at < json->end && *json->at == '.') {
		*ret_whole = false;
		json->at++;
		r = digits(json);
		if (r)
			return r;
	}
	if (json->at < json->end && (*json->at | 0x20) == 'e') {
		*ret_whole = false;
		json->at++;
		if (json->at < json->end && (*json->at == '+' || *json->at == '-'))
			json->at++;
		return digits(json);
	}
	return 0;
}

/* The value of digits up to the next token. False: beyond 2^63 - 1 (or -2^63). */
static bool value_of(const char *at, const char *end, uint64_t *ret_value)
{
	bool negative = *at == '-';
	uint64_t value = 0;

	for (at += negative; at < end; at++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
			return false;
	*ret_value = value;
	return value <= (uint64_t)INT64_MAX + negative;
}

int jtext_integer(struct jtext *json, uint64_t *ret_number)
{
	uint64_t offset = jtext_offset(json), value;
	const char *first = json->at;
	bool whole;
	int r;

	if (json->at >= json->end || (*json->at != '-' && !at_digit(json)))
		return wrong(json, "a whole number");
	r = number(json, &whole);
	if (r)
		return r;
	if (!whole)
		return err_set(-EBADMSG, "byte %" PRIu64 ": %.*s is no whole number", offset,
			       (int)(json->at - first < 40 ? json->at - first : 40), first);
	if (!value_of(first, json->at, &value))
		return err_set(-EBADMSG, "byte %" PRIu64 ": a number beyond 2^63 - 1", offset);
	if (*first == '-' && value)
		return err_set(-EBADMSG, "byte %" PRIu64 ": -%" PRIu64 " is below 0", offset,
			       value);
	*ret_number = value;
	return 0;
}

/* ---- skipped values ---- */

static int skip_value(struct jtext *json, unsigned int depth);

static int skip_object(struct jtext *json, unsigned int depth)
{
	struct names keys = { 0 };
	struct jtext_string key;
	int more = 0, r;

	r = jtext_open(json, '{');
	while (!r) {
		r = jtext_more(json, '}', &more);
		if (r || !more)
			break;
		r = jtext_key(json, &key);
		if (!r)
			r = names_add(&keys, key.text, key.length, 0);
		if (r == -EEXIST)
			r = err_set(-EBADMSG, "byte %" PRIu64 ": a key that was there before",
				    jtext_offset(json));
		if (!r)
			r = skip_value(json, depth);
	}
	names_free(&keys);
	return r;
}

static int skip_array(struct jtext *json, unsigned int depth)
{
	int more = 0, r;

	r = jtext_open(json, '[');
	while (!r) {
		r = jtext_more(json, ']', &more);
		if (r || !more)
			break;
		r = skip_value(json, depth);
	}
	return r;
}

static bool take_word(struct jtext *json, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(json->end - json->at) < n || memcmp(json->at, word, n) != 0)
		return false;
	json->at += n;
	return true;
}

bool jtext_null(struct jtext *json)
{
	skip_blank(json);
	return take_word(json, "null");
}

static int skip_word(struct jtext *json)
{
	static const char *const words[] = { "true", "false", "null" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (take_word(json, words[i]))
			return 0;
	return wrong(json, "a JSON value");
}

static int skip_number(struct jtext *json)
{
	uint64_t offset = jtext_offset(json), value;
	const char *first = json->at;
	bool whole;
	int r;

	r = number(json, &whole);
	if (!r && whole && !value_of(first, json->at, &value))
		r = err_set(-EBADMSG, "byte %" PRIu64 ": a number beyond 64 bits", offset);
	return r;
}

static int skip_value(struct jtext *json, unsigned int depth)
{
	struct jtext_string string;

	if (depth >= DEPTH_MAX)
		return err_set(-EBADMSG, "byte %" PRIu64 ": more than %u values in one another",
			       jtext_offset(json), DEPTH_MAX);
	skip_blank(json);
	if (json->at >= json->end)
		return wrong(json, "a JSON value");
	switch (*json->at) {
	case '{':
		return skip_object(json, depth + 1);
	case '[':
		return skip_array(json, depth + 1);
	case '"':
		return jtext_string(json, &string);
	case '-':
	case '0' ... '9':
		return skip_number(json);
	default:
		return skip_word(json);
	}
}

int jtext_skip(struct jtext *json)
{
	return skip_value(json, 0);
}

int jtext_close(struct jtext *json)
{
	skip_blank(json);
	return json->at < json->end ? wrong(json, "nothing but blanks") : 0;
}
