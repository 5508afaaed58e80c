/* SPDX-License-Identifier: MIT */
/*
 * Pieces, which are all that the rest of the library sees of a file's format, and the operations of
 * a format. A format is a folder under runtime/format/ with one struct format, and one row in
 * formats.c.
 */
#ifndef HETMAP_FORMAT_PIECES_H
#define HETMAP_FORMAT_PIECES_H

#include <hetmap/pieces.h>

#include "core/core.h"
#include "format/text/names.h"

/* First bytes of a file by which a format knows it; at least FOREIGN_BYTES. */
#define FORMAT_HEAD 512

struct piece {
	const char *name; /* UTF-8 */
	const char *type;
	uint32_t dtype; /* or HM_DTYPE_OPAQUE */
	uint32_t file;  /* not less than that of the piece before */
	uint32_t rank;
	const uint64_t *shape;
	uint64_t offset, bytes;
	uint64_t block_elements, block_bytes;
};

struct piece_file {
	const char *path;
	struct hm_map *map; /* of the whole file; NULL: there is none */
	uint64_t size;
	uint64_t data;     /* end of the header */
	uint32_t first, n; /* of its pieces; the library sets both */
};

/* Nothing in it changes once hm_pieces_open() has returned. */
struct hm_pieces {
	struct hm_object object;
	const struct format *format;
	const char *word; /* for one piece; at first the format's */
	char *path;       /* the caller's first one, copied */
	struct piece_file *file;
	struct piece *piece;
	struct hm_metadata *metadata;
	uint32_t n_file, n_piece, n_metadata;
	uint64_t ignored;
	struct names names; /* value: index of piece */
	void *data;         /* the format's: strings, shapes and maps are in it */
};

/* Facts about a file whose format is looked for. */
struct format_head {
	const char *path;
	bool folder;
	uint64_t size;
	uint32_t n; /* of bytes */
	unsigned char bytes[FORMAT_HEAD];
};

struct format_source {
	const char *const *path; /* n_path of them; the first one lives as long as the pieces */
	uint32_t n_path;         /* 1, except with FORMAT_NUMBERS */
	const struct hm_tokens_desc *raw;
	struct hm_device *device; /* "file" */
};

/* struct format.flags */
#define FORMAT_FOLDER (1u << 0)  /* takes a folder */
#define FORMAT_NUMBERS (1u << 1) /* takes several files, and raw numbers */
#define FORMAT_NAMED (1u << 2)   /* a file with a name of the format is never raw numbers */

struct format {
	const char *name;
	const char *text; /* in a few words, with the names of files: for messages */
	const char *word; /* for one piece */
	uint32_t flags;
	const char *suffix[3]; /* [optional] ends of its files' names */

	/* [optional] Do the file's first bytes say that it is of this format? */
	bool (*begins)(const struct format_head *head);
	/*
	 * Reads the headers, and fills @pieces: file, piece, metadata and their numbers by
	 * pieces_make(), ignored, data. Notes on the format for people are metadata. The caller
	 * checks the result, and calls close() after a failure, too. Texts begin with a path.
	 */
	int (*open)(const struct format_source *source, struct hm_pieces *pieces);
	/* Frees pieces->data, which may be NULL. */
	void (*close)(void *data);
};

/* ---- formats.c ---- */

/* NULL: the table has fewer rows. */
const struct format *format_at(uint32_t row);
/* Finds the format of the file at @path, or of @n_path files of which it is the first. */
int format_find(const char *path, uint32_t n_path, bool raw, const struct format **ret_format);

/* ---- pieces.c ---- */

/* Makes zeroed arrays of these lengths. -ENOMEM. For a format's open(). */
int pieces_make(struct hm_pieces *pieces, uint64_t n_file, uint64_t n_piece,
		uint64_t n_metadata);

/* hm_pieces_at() and hm_pieces_find() without their doors. */
struct hm_piece_info;
int pieces_at(struct hm_pieces *pieces, uint64_t index, struct hm_piece_info *ret_info);
int pieces_find_name(struct hm_pieces *pieces, const char *name, uint64_t *ret_index);

/* ---- types.c ---- */

/* Finds an enum hm_dtype by its name; -ENOENT, without a text. */
int dtype_find(const char *name, uint32_t *ret_dtype);
/* Sets the piece's type, its name and its block. @dtype: not HM_DTYPE_OPAQUE. */
void piece_set_type(struct piece *piece, uint32_t dtype);

/* ---- pieces_file.c ---- */

/* Maps the file at @path, read-only, as a buffer of @device, which is "file". */
int pieces_map_file(struct hm_device *device, const char *path, struct hm_map **ret_map);

/* Reads at @offset of the file of @buffer. -ENODATA: the file ends before. */
int pieces_pread(struct hm_buffer *buffer, void *to, uint64_t length, uint64_t offset);

#endif
