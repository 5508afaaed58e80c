// SPDX-License-Identifier: MIT
/*
 * A recording's formats of tracepoints: by them the data of each are read, wherever it was
 * recorded [trace-event-read.c of perf's tools/perf/util]. Each length is one of a stranger.
 */
#include <stdlib.h>
#include <string.h>

#include "recording_private.h"

#define FORMAT_MOST (UINT64_C(64) << 10)

/* The bytes that are left to read; short_of: more was asked for. */
struct bytes {
	const char *at, *end;
	bool short_of;
};

static const char *skip(struct bytes *bytes, uint64_t n)
{
	const char *at = bytes->at;

	if (n > (uint64_t)(bytes->end - bytes->at)) {
		bytes->short_of = true;
		bytes->at = bytes->end;
		return bytes->end;
	}
	bytes->at += n;
	return at;
}

/* Of 8 bytes, or of 4. */
static uint64_t number(struct bytes *bytes, size_t size)
{
	const char *at = skip(bytes, size);
	uint64_t wide = 0;
	uint32_t narrow = 0;

	if (bytes->short_of)
		return 0;
	if (size == sizeof(wide)) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return narrow;
}

static const char *word(struct bytes *bytes)
{
	const char *end = memchr(bytes->at, '\0', (size_t)(bytes->end - bytes->at));

	if (!end) {
		bytes->short_of = true;
		return "";
	}
	return skip(bytes, (uint64_t)(end - bytes->at) + 1);
}

static void take_format(struct recorded_attrs *attrs, const char *system, const char *text,
			uint64_t length)
{
	char *copy;

	if (length > FORMAT_MOST || attrs->n_point == N_POINT)
		return;
	copy = malloc(length + 1);
	if (!copy)
		return;
	memcpy(copy, text, length);
	copy[length] = '\0';
	if (point_parse(system, copy, &attrs->point[attrs->n_point]))
		attrs->n_point++;
	free(copy);
}

static void skip_sized(struct bytes *bytes)
{
	skip(bytes, number(bytes, sizeof(uint64_t)));
}

static void take_all(struct recorded_attrs *attrs, struct bytes *bytes)
{
	uint64_t n, n_system, length;
	const char *system, *text;

	for (n = number(bytes, sizeof(uint32_t)); n && !bytes->short_of; n--)
		skip_sized(bytes); /* of ftrace's own */
	n_system = number(bytes, sizeof(uint32_t));
	for (; n_system && !bytes->short_of; n_system--) {
		system = word(bytes);
		n = number(bytes, sizeof(uint32_t));
		for (; n && !bytes->short_of; n--) {
			length = number(bytes, sizeof(uint64_t));
			text = skip(bytes, length);
			if (!bytes->short_of)
				take_format(attrs, system, text, length);
		}
	}
}

void recorded_points_take(struct recorded_attrs *attrs, const char *data, uint64_t length)
{
	static const char magic[] = { 23, 8, 68, 't', 'r', 'a', 'c', 'i', 'n', 'g' };
	struct bytes bytes = { .at = data, .end = data + length };
	const char *at = skip(&bytes, sizeof(magic));

	if (bytes.short_of || memcmp(at, magic, sizeof(magic)) != 0)
		return;
	word(&bytes); /* the version */
	skip(&bytes, 2 + sizeof(uint32_t));
	if (strcmp(word(&bytes), "header_page") != 0)
		return;
	skip_sized(&bytes);
	if (strcmp(word(&bytes), "header_event") != 0)
		return;
	skip_sized(&bytes);
	take_all(attrs, &bytes);
}

const struct point_layout *recorded_point(const struct recorded_attrs *attrs, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < attrs->n_point; i++)
		if (attrs->point[i].id == id)
			return &attrs->point[i];
	return NULL;
}
