/* SPDX-License-Identifier: MIT */
/*
 * An open model of GGUF: its files, their tensors and their metadata. Except for the contents of
 * arrays, which are read for their first user, nothing in it changes once it is open.
 */
#ifndef HETMAP_FORMAT_GGUF_H
#define HETMAP_FORMAT_GGUF_H

#include <pthread.h>
#include <stdatomic.h>

#include <hetmap/gguf.h>

#include "core/core.h"
#include "format/gguf/gguf_scan.h"
#include "format/pieces/pieces.h"
#include "format/text/names.h"
#include "format/text/shown.h"

#define GGUF_MAGIC "GGUF"
#define GGUF_VERSION 3
#define GGUF_ALIGNMENT 32
/* The format's limit of a key, in bytes; here of a tensor's name, too. */
#define GGUF_NAME_MAX 65535

#define KEY_ALIGNMENT "general.alignment"
#define KEY_SPLIT_NO "split.no"
#define KEY_SPLIT_COUNT "split.count"
#define KEY_SPLIT_TENSORS "split.tensors.count"

/* A row of the types of tensors. */
struct gguf_type {
	const char *name;    /* NULL: no such type */
	const char *swapped; /* its name where numbers in it are swapped; NULL: none can be */
	uint32_t dtype;      /* or HM_DTYPE_OPAQUE */
	uint32_t block_elements, block_bytes; /* block_bytes 0: ggml has removed the type */
};

struct gguf_tensor {
	const char *name;
	uint32_t name_length;
	uint32_t type; /* index of the table */
	uint32_t file;
	uint32_t rank;
	const uint64_t *ne;    /* the fastest dimension first */
	const uint64_t *shape; /* the slowest first */
	uint64_t offset;       /* in its file */
	uint64_t bytes;
};

/* The bytes of an array or of a long string, and for strings where each begins. */
struct gguf_loaded {
	uint64_t *start; /* of each string, and the end; NULL: no strings */
	char bytes[];
};

struct gguf_value {
	const char *key;
	uint32_t key_length;
	uint32_t kind, element; /* enum hm_gguf_kind */
	uint32_t file;
	uint64_t count;
	uint64_t offset, bytes; /* in the file: of a string's text, of an array's elements */
	uint64_t bits;          /* of a number, in this machine's byte order */
	const char *text;       /* of a short string; NULL: it must be loaded */
	_Atomic(struct gguf_loaded *) loaded;
};

struct gguf_file {
	char *path;
	struct hm_map *map;
	uint64_t size, data, alignment;
	uint32_t version;
	bool swapped;
	struct gguf_tensor *tensor; /* by offset */
	struct gguf_value *value;   /* in the file's order */
	uint32_t n_tensor, n_value;
	uint64_t room_tensor, room_value;
	struct arena arena;
	/* Of a split model: a count of 0 is none. */
	uint64_t split_no, split_count, split_tensors;
};

struct hm_gguf {
	struct hm_object object;
	struct gguf_file *file;
	uint32_t n_file;
	uint32_t n_tensor, n_value;
	struct gguf_tensor **tensor; /* of all files */
	struct gguf_value **value;   /* likewise, without those that an earlier file has */
	struct names tensors, keys;  /* value: index of tensor and of value */
	pthread_mutex_t lock;        /* protects the making of loaded; a leaf */
};

/* ---- gguf_types.c ---- */

/* Errors: -EOPNOTSUPP: removed; -ERANGE: unknown. The text names the type. */
int gguf_type_find(uint32_t type, const struct gguf_type **ret_type);
/* Bytes of a tensor. -EBADMSG: not whole blocks; -EOVERFLOW. */
int gguf_bytes(const struct gguf_type *type, const uint64_t *ne, uint32_t rank,
	       uint64_t *ret_bytes);
/* Bytes of a number of a kind of metadata; 0: no number. */
uint32_t gguf_kind_bytes(uint32_t kind);
/* "string"; NULL: no such kind. */
const char *gguf_kind_name(uint32_t kind);

/* ---- gguf_header.c ---- */

/*
 * Parses the header that @scan reads, and fills @file, whose number is @number, and whose size is
 * set. Errors have no path in their text.
 */
int gguf_parse(struct gguf_file *file, uint32_t number, struct scan *scan);
/* Frees all that the file has. */
void gguf_file_free(struct gguf_file *file);

/* ---- gguf.c ---- */

/* hm_gguf_open() without its door. */
int gguf_open(const char *path, uint32_t flags, struct hm_gguf **ret_gguf);
/* 0, or -EINVAL or -EOWNERDEAD. */
int gguf_check(const struct hm_gguf *gguf, const void *result, const char *what);
/* -ERANGE, with the number of elements. */
int gguf_check_index(uint64_t index, uint64_t n, const char *what);
/* The type of a tensor that the header was read with: always known. */
const struct gguf_type *gguf_type_of(const struct gguf_tensor *tensor);
/* Are its numbers in another byte order than this machine's? */
bool gguf_is_swapped(const struct hm_gguf *gguf, const struct gguf_tensor *tensor);

/* ---- gguf_split.c ---- */

/* Does the name say which file of how many it is? *@ret_no counts from 0. */
bool gguf_split_is(const char *path, uint64_t *ret_no, uint64_t *ret_count);
/*
 * The path of file @no of @count, beside @path, which is one of them; the caller must free() it.
 * -ENOMEM.
 */
int gguf_split_path(const char *path, uint64_t no, uint64_t count, char **ret_path);
/* Checks that the files make one model. -EBADMSG. */
int gguf_split_check(const struct hm_gguf *gguf);

/* ---- gguf_value.c ---- */

/* Value of a number of metadata, as hm_gguf_value has it. */
void gguf_number(uint32_t kind, uint64_t bits, struct hm_gguf_value *ret_value);
void gguf_loaded_free(struct gguf_loaded *loaded);
/* The text of a string. -ENODATA, -EIO, -ENOMEM. */
int gguf_text(struct hm_gguf *gguf, struct gguf_value *value, const char **ret_text);

#endif
