// SPDX-License-Identifier: MIT
/* Numbers and names as people read them. */
#include "text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

const char *text_bytes(uint64_t bytes, char text[TEXT_MAX])
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1023.95 && unit < 6) {
		value /= 1024;
		unit++;
	}
	if (!unit)
		snprintf(text, TEXT_MAX, "%" PRIu64 " %s", bytes,
			 bytes == 1 ? "byte" : "bytes");
	else if (value >= 99.95 || value == (double)(uint64_t)value)
		snprintf(text, TEXT_MAX, "%.0f %s", value, units[unit]);
	else
		snprintf(text, TEXT_MAX, "%.1f %s", value, units[unit]);
	return text;
}

const char *text_count(uint64_t number, char text[TEXT_MAX])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, number);
	char *to = text;
	int i;

	for (i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return text;
}

const char *text_seconds(double seconds, char text[TEXT_MAX])
{
	const char *unit = "s";
	double value = seconds;

	if (seconds < 0.001) {
		value = seconds * 1e6;
		unit = "us";
	} else if (seconds < 1) {
		value = seconds * 1e3;
		unit = "ms";
	}
	snprintf(text, TEXT_MAX,
		 value >= 100 ? "%.0f %s" :
		 value >= 10  ? "%.1f %s" :
				"%.2f %s",
		 value, unit);
	return text;
}

const char *text_rate(double bytes, char text[TEXT_MAX])
{
	if (bytes >= 1e8)
		snprintf(text, TEXT_MAX, "%.1f GB/s", bytes / 1e9);
	else if (bytes >= 1e5)
		snprintf(text, TEXT_MAX, "%.1f MB/s", bytes / 1e6);
	else
		snprintf(text, TEXT_MAX, "%.1f kB/s", bytes / 1e3);
	return text;
}

/* Length of the printable UTF-8 sequence at @s, or 0. */
static size_t utf8_length(const unsigned char *s)
{
	uint32_t c;
	size_t n, i;

	if (*s < 0x80)
		return 0;
	n = (*s & 0xe0) == 0xc0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : (*s & 0xf8) == 0xf0 ? 4 : 0;
	if (!n)
		return 0;
	c = *s & (0x7fu >> n);
	for (i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	/* Overlong, surrogates, beyond Unicode. */
	if (c < (n == 2 ? 0x80u :
		 n == 3 ? 0x800u :
			  0x10000u) ||
	    c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	/* C1 controls; marks that turn the direction of the text around them. */
	if (c < 0xa0 || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	    (c >= 0x2066 && c <= 0x2069))
		return 0;
	return n;
}

static char *escape(const char *name, bool keep_utf8)
{
	const unsigned char *from = (const unsigned char *)name;
	char *text = malloc(strlen(name) * 4 + 1);
	char *to = text;
	size_t n;

	if (!text)
		abort();
	while (*from) {
		n = keep_utf8 ? utf8_length(from) : 0;
		if (n) {
			memcpy(to, from, n);
			to += n;
			from += n;
			continue;
		}
		if (*from == '\n' || *from == '\t' || *from == '\r' || *from == '\\') {
			*to++ = '\\';
			*to++ = *from == '\n' ? 'n' :
				*from == '\t' ? 't' :
				*from == '\r' ? 'r' :
						'\\';
		} else if (*from < 0x20 || *from >= 0x7f) {
			to += sprintf(to, "\\x%02x", *from);
		} else {
			*to++ = (char)*from;
		}
		from++;
	}
	*to = '\0';
	return text;
}

char *text_escape(const char *name)
{
	return escape(name, output.utf8);
}

/*
 * JSON has escapes of its own for control characters, and jansson writes them:
 * a name that is valid UTF-8 goes through unchanged, so that it can be used.
 */
char *text_escape_json(const char *name)
{
	const unsigned char *at = (const unsigned char *)name;
	bool valid = true;
	char *text;

	while (*at && valid) {
		size_t n = *at < 0x80 ? 1 : utf8_length(at);

		/* Refused for a terminal only: U+0080 to U+009F and the like. */
		valid = n > 0;
		at += n;
	}
	if (!valid)
		return escape(name, true);
	text = strdup(name);
	if (!text)
		abort();
	return text;
}

char *text_message(const char *message)
{
	static const char further[] = "\n        ";
	const unsigned char *from = (const unsigned char *)message;
	char *text = malloc(strlen(message) * strlen(further) + 1);
	char *to = text;
	size_t n;

	if (!text)
		abort();
	while (*from) {
		n = output.utf8 ? utf8_length(from) : 0;
		if (!n && (*from == '\t' || (*from >= 0x20 && *from < 0x7f)))
			n = 1;
		if (n) {
			memcpy(to, from, n);
			to += n;
			from += n;
		} else {
			to += *from == '\n' ? sprintf(to, "%s", further) :
					      sprintf(to, "\\x%02x", *from);
			from++;
		}
	}
	*to = '\0';
	return text;
}

/* @text with each ' as @quote. free() it. */
static char *quote_inside(const char *text, const char *quote)
{
	char *inside = malloc(strlen(text) * 4 + 1), *to = inside;

	if (!inside)
		abort();
	for (; *text; text++)
		to += *text == '\'' ? sprintf(to, "%s", quote) : sprintf(to, "%c", *text);
	*to = '\0';
	return inside;
}

char *text_shell(const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_+:,./-";
	const char *before = *path == '-' ? "./" : "";
	char *shown = text_escape(path), *inside, *word;

	if (*path && !path[strspn(path, plain)]) {
		word = text_format("%s%s", before, path);
	} else if (!strcmp(shown, path)) {
		inside = quote_inside(path, "'\\''");
		word = text_format("%s'%s'", before, inside);
		free(inside);
	} else {
		/* The shell's escapes in $'' are those of text_escape(). */
		inside = quote_inside(shown, "\\'");
		word = text_format("%s$'%s'", before, inside);
		free(inside);
	}
	free(shown);
	return word;
}

char *text_files(const char *const *paths, size_t n)
{
	char *first = text_escape(paths[0]), *text, count[TEXT_MAX];

	if (n == 1)
		return first;
	text = text_format("%s and %s further file%s", first, text_count(n - 1, count),
			   n == 2 ? "" : "s");
	free(first);
	return text;
}

size_t text_columns(const char *text)
{
	size_t columns = 0;

	for (; *text; text++)
		columns += ((unsigned char)*text & 0xc0) != 0x80;
	return columns;
}

void text_wrap(const char *message, size_t column, size_t indent, size_t width)
{
	char *shown = text_message(message);
	const char *text = shown;
	bool first = true;

	while (*text) {
		size_t n = strcspn(text, " \n");
		char word[512];
		size_t columns;

		if (!n && *text == ' ') {
			text++;
			continue;
		}
		snprintf(word, sizeof(word), "%.*s", (int)n, text);
		columns = text_columns(word);
		if (!first && column + 1 + columns > width) {
			printf("\n%*s", (int)indent, "");
			column = indent;
		} else if (!first) {
			putchar(' ');
			column++;
		}
		fputs(word, stdout);
		column += columns;
		first = false;
		text += n;
		if (*text == '\n') {
			printf("\n%*s", (int)indent, "");
			column = indent;
			first = true;
		}
		text += *text != '\0';
	}
	putchar('\n');
	free(shown);
}

char *text_format(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		abort();
	va_end(args);
	return text;
}
