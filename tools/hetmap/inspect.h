/* SPDX-License-Identifier: MIT */
/*
 * hetmap inspect: the contents of a data file. A kind of file is a row of the table in
 * inspect.c; the kind fills a struct contents, which is shown in one way.
 */
#ifndef HETMAP_INSPECT_H
#define HETMAP_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "raw_tokens.h"

/* Facts of a file that are known before its kind. */
struct inspect_head {
	const char *path;
	const char *const *paths; /* tokens: of all files; path is the first one */
	uint32_t n_path, n_npy;   /* n_npy: paths of files that name their own type */
	bool folder;
	uint64_t size;
	unsigned char bytes[64]; /* the first n of them */
	uint32_t n;
	const struct raw_tokens *raw;
};

/* A file, mapped as a whole. */
struct contents_file {
	const char *path;
	void *address; /* address of its map; NULL: its file system shares none */
	uint64_t size;
	uint64_t data_offset; /* end of the header */
};

/* A tensor, an array, a run of tokens. */
struct contents_part {
	const char *name;
	const char *dtype;
	uint64_t bits; /* bits of an element */
	uint32_t rank;
	const uint64_t *shape;
	uint32_t file;
	uint64_t offset; /* in its file */
	uint64_t bytes;
};

struct contents_note {
	const char *key;
	const char *value;
};

/* Has allocated members, and strings that belong to @handle. */
struct contents {
	const char *part_word; /* "tensor" */
	struct contents_file *file;
	struct contents_part *part;
	struct contents_note *note;
	uint64_t n_file, n_part, n_note;
	void *handle;
	void (*close)(void *handle);
};

struct inspect_kind {
	const char *name; /* "safetensors" */
	const char *text; /* for messages about other files */
	bool (*is)(const struct inspect_head *head);
	/* An exit status; a failure is told already. */
	int (*read)(const struct inspect_head *head, struct contents *ret_contents);
};

extern const struct inspect_kind inspect_safetensors;
extern const struct inspect_kind inspect_npy;
extern const struct inspect_kind inspect_tokens;

/* Shows at most @rows parts; 0: all. JSON has all. */
void inspect_show(const struct inspect_head *head, const struct inspect_kind *kind,
		  const struct contents *contents, uint64_t rows);

#endif
