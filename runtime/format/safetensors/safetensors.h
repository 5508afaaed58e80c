/* SPDX-License-Identifier: MIT */
/*
 * An open model: one list of the tensors of all shards, by offset, and their names. Except for
 * by_name, nothing in it changes once hm_safetensors_open() has returned.
 */
#ifndef HETMAP_FORMAT_SAFETENSORS_H
#define HETMAP_FORMAT_SAFETENSORS_H

#include <pthread.h>

#include <hetmap/safetensors.h>

#include "core/core.h"
#include "format/pieces/pieces.h"
#include "format/text/names.h"
#include "format/text/shown.h"

/* The format's own limit of the header, in bytes. */
#define HEADER_MAX 100000000ull

struct tensor {
	uint32_t name; /* in names.name */
	uint32_t shard;
	uint32_t dtype;
	uint32_t rank;
	uint64_t shape;  /* first of its dimensions in hm_safetensors.extents */
	uint64_t offset; /* in its file */
	uint64_t bytes;
};

struct shard {
	char *path;
	char *header;       /* has names and metadata in it; NULL: not read yet */
	struct hm_map *map; /* of the whole file */
	uint64_t size;
	uint64_t data;     /* offset of the first tensor's bytes */
	uint64_t bytes;    /* of the n tensors */
	uint32_t first, n; /* in hm_safetensors.tensor */
	uint32_t ignored;  /* number of tensors that the index does not list for the file */
};

struct hm_safetensors {
	struct hm_object object;
	struct shard *shard;
	uint32_t n_shard;
	uint32_t n_tensor, room_tensor;
	struct tensor *tensor; /* by shard, then by offset */
	uint64_t *extents;     /* of all tensors */
	uint64_t n_extent, room_extent;
	struct names names; /* value: index of tensor */
	struct hm_metadata *metadata;
	uint32_t n_metadata, room_metadata;
	const struct weight_map *index; /* while an index is opened; NULL: all tensors count */
	pthread_mutex_t lock;           /* protects the field below; a leaf */
	uint32_t *by_name;              /* indexes of tensor; made for its first user */
};

/* ---- safetensors_header.c ---- */

/*
 * Parses the @length bytes at @header, and adds the tensors of @shard, whose size and data are
 * set. Changes the text and keeps using it. Errors have no path in their text.
 */
int safetensors_parse(struct hm_safetensors *safetensors, uint32_t shard, char *header,
		      uint64_t length);

/* Bytes of elements of @dtype in @shape. -EOVERFLOW; -EINVAL: not whole bytes. */
int safetensors_bytes(uint32_t dtype, const uint64_t *shape, uint32_t rank,
		      uint64_t *ret_bytes);

/* Makes room in *@list for @n elements of @size, and for some more. -ENOMEM. */
int safetensors_room(void **list, uint64_t n, uint64_t *room, size_t size);

/* ---- safetensors.c ---- */

/* hm_safetensors_open() without its door. */
int safetensors_open(const char *path, uint32_t flags, struct hm_safetensors **ret_safetensors);

/* ---- safetensors_shard.c ---- */

/* Opens, maps and parses shard @shard, with its path set. */
int safetensors_open_shard(struct hm_safetensors *safetensors, struct hm_device *device,
			   uint32_t shard);

/* ---- safetensors_index.c ---- */

/* Contents of an index: the files, and the file of each tensor. Strings are in text. */
struct weight_map {
	char *text;
	char **path; /* n_path of them, sorted */
	uint32_t n_path;
	struct names tensors; /* value: index of files */
	struct names files;   /* paths as in the index; value: index of path */
};

/* Reads the index at @path. */
int safetensors_index_read(const char *path, struct weight_map *ret_map);
/* Parses @length bytes at @text, which the map then owns, also on failure. @folder: "a/". */
int safetensors_index_parse(char *text, uint64_t length, const char *folder,
			    struct weight_map *ret_map);
/* Checks that each tensor of the index is in its file. -EBADMSG: one is not. */
int safetensors_index_check(const struct weight_map *map,
			    const struct hm_safetensors *safetensors);
void safetensors_index_free(struct weight_map *map);

/* ---- safetensors_folder.c ---- */

/* The model of a folder: its index, or its n_path files, sorted by name. */
struct folder_model {
	char *index; /* path of the index, or NULL */
	char **path;
	uint32_t n_path;
};

/* -ENOENT: no model, or not all of it; -EINVAL: several models. */
int safetensors_folder_find(const char *folder, struct folder_model *ret_model);
void safetensors_folder_free(struct folder_model *model);

/* ---- safetensors_slice.c ---- */

/* A slice, as runs of bytes in the file that are @stride apart. */
struct selection {
	const struct tensor *tensor;
	const char *path;                   /* of its file */
	struct hm_map *map;                 /* of all of the file */
	uint64_t shape[HM_TENSOR_RANK_MAX]; /* of the slice */
	uint64_t offset;                    /* of the first byte, in the file */
	uint64_t bytes;                     /* of all runs */
	uint64_t run;     /* bytes of one run; all of them where they are together */
	uint32_t n_outer; /* dimensions that count the runs, the slowest first */
	uint64_t count[HM_TENSOR_RANK_MAX];
	uint64_t stride[HM_TENSOR_RANK_MAX]; /* in bytes */
};

int safetensors_select(struct hm_safetensors *safetensors, uint64_t index,
		       const struct hm_slice *slices, uint32_t n_slices,
		       struct selection *ret_selection);
/* Copies all of it; @to must have room for it. */
int safetensors_copy(const struct selection *selection, void *to);

/* ---- safetensors_view.c ---- */

/*
 * Makes an hm_tensor of the selection, in place or copied, as hm_safetensors_view() describes it.
 * Of selection->tensor only dtype and rank are looked at. @name: for texts.
 */
int tensor_view(const struct selection *selection, const char *name, uint64_t alignment,
		uint32_t flags, struct hm_tensor **ret_tensor);

/* The public functions of these names, without their door: for callers inside the library. */
int safetensors_find(struct hm_safetensors *safetensors, const char *name, uint64_t *ret_index);
int safetensors_tensor(struct hm_safetensors *safetensors, uint32_t order, uint64_t index,
		       struct hm_tensor_info *ret_info);

#endif
