/* SPDX-License-Identifier: MIT */
/*
 * Writes a file that replaces another as a whole: under another name, then renamed. A map of the
 * file that was there before keeps its bytes, since it has the old inode.
 */
#ifndef HETMAP_FORMAT_NEW_FILE_H
#define HETMAP_FORMAT_NEW_FILE_H

#include <stdint.h>

/* Bytes of the new file, one part behind another. */
struct new_file_part {
	const char *name; /* of the tensor, for texts; NULL: bytes of the library's own */
	const void *bytes;
	uint64_t length;
};

/*
 * Writes the @n parts to a file at @path, and flushes it and its folder to storage. Errors are
 * those of hm_safetensors_write(), without a path in their text.
 */
int new_file_write(const char *path, const struct new_file_part *part, uint64_t n);

#endif
