/* SPDX-License-Identifier: MIT */
/*
 * The head of a .npy file: magic, version, and a Python dict that describes the bytes behind it
 * [numpy/lib/format.py].
 */
#ifndef HETMAP_FORMAT_NPY_H
#define HETMAP_FORMAT_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hetmap/npy.h>

/* Magic, version, and the longer form of the length. */
#define NPY_BEGIN_MAX 12
/* numpy's own limit of the dict: a longer one requires the caller's trust there. */
#define NPY_HEADER_MAX 10000

struct npy_header {
	uint32_t version; /* major */
	uint32_t dtype;   /* or HM_NPY_OPAQUE */
	bool swapped;     /* not in this machine's byte order */
	bool fortran;     /* the first dimension is the fastest, and it matters */
	uint32_t rank;
	uint64_t shape[HM_NPY_RANK_MAX];
	uint64_t elements;
	uint64_t bytes; /* of all elements */
	uint64_t data;  /* offset in the file */
	uint64_t itemsize;
	bool bytes_only; /* elements are plain bytes, such as "|V2" */
	char descr[HM_NPY_DESCR_MAX];
};

/* Does a file that begins with these bytes say that it is a .npy file? */
bool npy_begins(const void *bytes, size_t length);

/*
 * Parses the first @length bytes of a file, NPY_BEGIN_MAX if it has so many, for the length and
 * the beginning of its dict.
 * Errors:
 *   -EBADMSG not a .npy file
 *   -EOPNOTSUPP another version, or too long
 */
int npy_begin(const void *bytes, size_t length, struct npy_header *ret_header,
	      uint32_t *ret_length);

/*
 * Parses the dict, @length bytes at @text, at most NPY_HEADER_MAX, in the encoding of @header's
 * version. Fills in the rest of @header, unchanged on failure.
 */
int npy_parse(const char *text, size_t length, struct npy_header *header);

/*
 * Reads the header of the @size bytes of a file from @base on, by pread(2), and checks that the
 * array is in them. Errors are those of hm_npy_query(), without a path in their text.
 */
int npy_read_header(int fd, uint64_t base, uint64_t size, struct npy_header *ret_header);

/* A type that the caller names for elements that are plain bytes, of its size. @raw: NULL: none. */
struct hm_tokens_desc;
void npy_name_type(struct npy_header *header, const struct hm_tokens_desc *raw);
/* Can elements of @itemsize plain bytes be of @dtype? */
bool npy_takes_type(uint64_t itemsize, uint32_t dtype);

/* The values of notes on an array. */
#define NPY_NOTE_FORTRAN "Fortran's (first index fastest)"
#define NPY_NOTE_SWAPPED "not this machine's"

/* Describes the array as a piece without a name; @base as for npy_read_header(). */
struct piece;
void npy_fill_piece(const struct npy_header *header, uint64_t base, struct piece *piece);

/* hm_npy_query() without its door. */
struct hm_npy_info;
int npy_query(const char *path, struct hm_npy_info *ret_info);

#endif
