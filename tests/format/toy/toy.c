// SPDX-License-Identifier: MIT
/*
 * A format that test_new_format.sh adds to a copy of the library: a text of lines
 * "NAME, OFFSET, LENGTH" behind a first line "toy", and an empty line. Bytes follow it somewhere.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "map/map.h"
#include "format/pieces/pieces.h"

#define MAGIC "toy\n"
#define TEXT_BYTES 4096
#define PIECES_MAX 16

struct toy {
	struct hm_map *map; /* holds a ref */
	char text[TEXT_BYTES + 1];
	char name[PIECES_MAX][32];
	uint64_t offset[PIECES_MAX], bytes[PIECES_MAX];
	uint32_t n;
};

static bool begins(const struct format_head *head)
{
	return head->n >= strlen(MAGIC) && !memcmp(head->bytes, MAGIC, strlen(MAGIC));
}

static void close_toy(void *data)
{
	struct toy *toy = data;

	hm_map_unref(toy->map);
	free(toy);
}

static int read_lines(struct toy *toy, const char *path)
{
	const char *at = toy->text;
	int r;

	r = pieces_pread(toy->map->buffer, toy->text,
			 min_u64(TEXT_BYTES, hm_map_length(toy->map)), 0);
	if (r)
		return err_prefix(r, "%s", path);
	while ((at = strchr(at, '\n')) && *++at != '\n' && toy->n < PIECES_MAX) {
		if (sscanf(at, "%31[^,], %" SCNu64 ", %" SCNu64, toy->name[toy->n],
			   &toy->offset[toy->n], &toy->bytes[toy->n]) != 3)
			return err_set(-EBADMSG, "%s: line %u is not NAME, OFFSET, LENGTH",
				       path, toy->n + 2);
		toy->n++;
	}
	return 0;
}

static void fill(const struct toy *toy, const char *path, struct hm_pieces *pieces)
{
	uint32_t i;

	pieces->file[0] = (struct piece_file){
		.path = path,
		.map = toy->map,
		.size = hm_map_length(toy->map),
	};
	for (i = 0; i < toy->n; i++) {
		pieces->piece[i] = (struct piece){
			.name = toy->name[i],
			.rank = 1,
			.shape = &toy->bytes[i],
			.offset = toy->offset[i],
			.bytes = toy->bytes[i],
		};
		piece_set_type(&pieces->piece[i], HM_DTYPE_U8);
	}
	pieces->metadata[0] = (struct hm_metadata){ "note", "of a toy" };
}

static int open_toy(const struct format_source *source, struct hm_pieces *pieces)
{
	struct toy *toy;
	int r;

	toy = sys_calloc(1, sizeof(*toy));
	if (!toy)
		return err_set(-ENOMEM, "no memory for a toy");
	pieces->data = toy;
	r = pieces_map_file(source->device, source->path[0], &toy->map);
	if (!r)
		r = read_lines(toy, source->path[0]);
	if (!r)
		r = pieces_make(pieces, 1, toy->n, 1);
	if (r)
		return r;
	fill(toy, source->path[0], pieces);
	return 0;
}

const struct format toy_format = {
	.name = "toy",
	.text = "lines of NAME, OFFSET, LENGTH",
	.word = "part",
	.begins = begins,
	.open = open_toy,
	.close = close_toy,
};
