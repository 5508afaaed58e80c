// SPDX-License-Identifier: MIT
/*
 * The page of "hetmap report --html", put together: its files are in the program as
 * texts, as they are in the tree.
 */
#include "page.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FILE_TEXT(name) ".incbin \"tools/perf/report/" name "\"\n"
#define TEXT(symbol, files)                                                                 \
	__asm__(".pushsection .rodata\n"                                                    \
		".globl " #symbol "\n.hidden " #symbol "\n" #symbol ":\n" files ".byte 0\n" \
		".popsection\n");                                                           \
	extern const char symbol[]

TEXT(page_frame, FILE_TEXT("page.html"));
/* Declared in page.h: other pages of hetmap look like this one. */
TEXT(page_style, FILE_TEXT("page.css"));
TEXT(page_words, FILE_TEXT("page_words.js"));
TEXT(page_script,
     FILE_TEXT("page_events.js") FILE_TEXT("page_data.js") FILE_TEXT("page_map.js")
	     FILE_TEXT("page_input.js") FILE_TEXT("page_tables.js") FILE_TEXT("page_begin.js"));

/* base64 of RFC 4648; @text has room for 4 letters for every 3 bytes that were begun. */
static void encode(const unsigned char *bytes, size_t n, char *text)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789+/";
	size_t i, k;

	for (i = 0; i < n; i += 3) {
		size_t left = n - i < 3 ? n - i : 3;
		uint32_t bits = 0;

		for (k = 0; k < left; k++)
			bits |= (uint32_t)bytes[i + k] << (16 - 8 * k);
		for (k = 0; k < 4; k++)
			*text++ = k <= left ? letters[bits >> (18 - 6 * k) & 63] : '=';
	}
}

json_t *page_base64(const unsigned char *bytes, size_t n)
{
	size_t letters = (n + 2) / 3 * 4;
	char *text = malloc(letters + 1);
	json_t *json;

	if (!text)
		return NULL;
	encode(bytes, n, text);
	json = json_stringn_nocheck(text, letters);
	free(text);
	return json;
}

/* ---- the page ---- */

struct sink {
	FILE *out;
	int r;
};

static void put(struct sink *sink, const char *text, size_t n)
{
	errno = 0;
	if (!sink->r && fwrite(text, 1, n, sink->out) != n)
		sink->r = errno ? -errno : -EIO;
}

/* In JSON "<" is inside of strings only, and here it could begin "</script>". */
static int put_json(const char *text, size_t n, void *user)
{
	struct sink *sink = user;

	while (n && !sink->r) {
		const char *less = memchr(text, '<', n);
		size_t before = less ? (size_t)(less - text) : n;

		put(sink, text, before);
		text += before;
		n -= before;
		if (less) {
			put(sink, "\\u003c", 6);
			text++;
			n--;
		}
	}
	return sink->r ? -1 : 0;
}

int page_fill(FILE *out, const char *frame, const struct page_part *parts, size_t n)
{
	struct sink sink = { out, 0 };
	const char *at = frame;
	size_t i;

	for (i = 0; i < n; i++) {
		const char *marker = strstr(at, parts[i].marker);

		put(&sink, at, (size_t)(marker - at));
		if (parts[i].text)
			put(&sink, parts[i].text, strlen(parts[i].text));
		else if (json_dump_callback(parts[i].data, put_json, &sink, JSON_COMPACT) &&
			 !sink.r)
			sink.r = -ENOMEM;
		at = marker + strlen(parts[i].marker);
	}
	put(&sink, at, strlen(at));
	if (!sink.r && fflush(out))
		sink.r = -errno;
	return sink.r;
}

int page_write(FILE *out, const json_t *report)
{
	const struct page_part parts[] = {
		{ "@STYLE@", page_style, NULL },
		{ "@DATA@", NULL, report },
		{ "@WORDS@", page_words, NULL },
		{ "@SCRIPT@", page_script, NULL },
	};

	if (!json_is_object(report))
		return -EINVAL;
	return page_fill(out, page_frame, parts, sizeof(parts) / sizeof(parts[0]));
}
