/* SPDX-License-Identifier: MIT */
/* hetmap inspect: the contents of a data file, whatever its format. */
#ifndef HETMAP_INSPECT_H
#define HETMAP_INSPECT_H

#include <stdint.h>

#include <hetmap/pieces.h>

/* The pieces of a file, and their files and notes, as arrays. Strings belong to the pieces. */
struct contents {
	struct hm_pieces_info info;
	struct hm_pieces_file_info *file;
	struct hm_piece_info *part;
	struct hm_metadata *note;
};

/* Shows at most @rows parts of @paths; 0: all. JSON has all. */
void inspect_show(const char *const *paths, uint32_t n_path, const struct contents *contents,
		  uint64_t rows);

#endif
