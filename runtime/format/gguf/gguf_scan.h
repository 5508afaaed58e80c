/* SPDX-License-Identifier: MIT */
/*
 * A window on a file's header, read by read(2) as a stream, and memory for what is kept of it. A
 * header may have tens of megabytes, of which little is kept: the same few pages are read into
 * again and again, so that they stay in the processor's cache.
 */
#ifndef HETMAP_FORMAT_GGUF_SCAN_H
#define HETMAP_FORMAT_GGUF_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most bytes that scan_take() gives at once. */
#define SCAN_TAKE_MAX 65536
#define SCAN_BYTES (2u * SCAN_TAKE_MAX)

struct scan {
	/* Reads all of @length bytes at @offset. -errno, with a text. */
	int (*read)(void *user, void *to, uint64_t length, uint64_t offset);
	void *user;
	uint64_t size;        /* of the file */
	uint64_t at;          /* of the next byte, in the file */
	uint64_t begin;       /* of bytes, in the file */
	uint64_t n;           /* of bytes that are there */
	bool swapped;         /* numbers are not in this machine's byte order */
	unsigned char *bytes; /* SCAN_BYTES */
};

/* -ENOMEM. The other fields are the caller's to set. */
int scan_begin(struct scan *scan);
void scan_end(struct scan *scan);

/*
 * Takes the next @n bytes, at most SCAN_TAKE_MAX; they stay until the next call.
 * -EBADMSG: the file ends before.
 */
int scan_take(struct scan *scan, uint64_t n, const unsigned char **ret_bytes);
/* Steps over @n bytes. -EBADMSG: the file ends before. */
int scan_skip(struct scan *scan, uint64_t n);
int scan_u32(struct scan *scan, uint32_t *ret_number);
int scan_u64(struct scan *scan, uint64_t *ret_number);
/* Steps over @count strings, each a length and its bytes. -EBADMSG. */
int scan_skip_strings(struct scan *scan, uint64_t count);

/* A number of 1, 2, 4 or 8 bytes, in this machine's byte order, and zero above. */
uint64_t number_load(const void *bytes, uint32_t n, bool swapped);

/* ---- memory that is freed all at once ---- */

struct arena_block;

/* Must begin zeroed. */
struct arena {
	struct arena_block *block; /* the newest */
	size_t left;               /* bytes in it */
};

/* Aligned for a uint64_t. NULL: no memory. */
void *arena_take(struct arena *arena, size_t size);
/* Copies @n bytes, and a '\0'. NULL: no memory. */
char *arena_copy(struct arena *arena, const void *bytes, size_t n);
void arena_free(struct arena *arena);

#endif
