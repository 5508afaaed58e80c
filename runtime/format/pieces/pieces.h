/* SPDX-License-Identifier: MIT */
/* Pieces of files: their types, and the files that they are in. */
#ifndef HETMAP_FORMAT_PIECES_H
#define HETMAP_FORMAT_PIECES_H

#include <hetmap/safetensors.h>

#include "core/core.h"

/* ---- types.c ---- */

/* Finds an enum hm_dtype by its name; -ENOENT, without a text. */
int dtype_find(const char *name, uint32_t *ret_dtype);

/* ---- pieces_file.c ---- */

/* Maps the file at @path, read-only, as a buffer of @device, which is "file". */
int pieces_map_file(struct hm_device *device, const char *path, struct hm_map **ret_map);

/* Reads at @offset of the file of @map. -ENODATA: the file ends before. */
int pieces_pread(struct hm_map *map, void *to, uint64_t length, uint64_t offset);

#endif
