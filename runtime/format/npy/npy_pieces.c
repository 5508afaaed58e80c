// SPDX-License-Identifier: MIT
/* A .npy file as a format: one piece, which is the array. */
#include <stdlib.h>

#include <hetmap/tokens.h>

#include "base/sys.h"
#include "core/segments.h"
#include "format/npy/npy.h"
#include "format/pieces/pieces.h"

struct npy_file {
	struct npy_header header;
	struct hm_map *map; /* holds a ref */
};

static bool begins(const struct format_head *head)
{
	return npy_begins(head->bytes, head->n);
}

static void close_file(void *data)
{
	struct npy_file *npy = data;

	hm_map_unref(npy->map);
	free(npy);
}

static int read_header(struct npy_file *npy, const char *path)
{
	struct segment_list *list = segments_get(npy->map->buffer);
	int r;

	r = npy_read_header(list->segment[0].fd, 0, hm_map_length(npy->map), &npy->header);
	segments_put(npy->map->buffer, list);
	return r ? err_prefix(r, "%s", path) : 0;
}

/* Facts that keep a consumer from taking the array as an array of C. */
static void add_notes(const struct npy_header *header, struct hm_pieces *pieces)
{
	uint32_t n = 0;

	if (header->fortran)
		pieces->metadata[n++] = (struct hm_metadata){ "order", NPY_NOTE_FORTRAN };
	if (header->swapped)
		pieces->metadata[n++] = (struct hm_metadata){ "byte order", NPY_NOTE_SWAPPED };
}

bool npy_takes_type(uint64_t itemsize, uint32_t dtype)
{
	/* 0 is BOOL, and no type was named. */
	return dtype && itemsize && hm_dtype_bits(dtype) == itemsize * 8;
}

void npy_name_type(struct npy_header *header, const struct hm_tokens_desc *raw)
{
	if (raw && header->bytes_only && npy_takes_type(header->itemsize, raw->dtype))
		header->dtype = raw->dtype;
}

void npy_fill_piece(const struct npy_header *header, uint64_t base, struct piece *piece)
{
	*piece = (struct piece){
		.type = header->descr,
		.dtype = header->dtype,
		.rank = header->rank,
		.shape = header->shape,
		.offset = base + header->data,
		.bytes = header->bytes,
		.block_elements = 1,
		.block_bytes = header->itemsize,
	};
	if (header->dtype != HM_NPY_OPAQUE)
		piece_set_type(piece, header->dtype);
}

static void fill(const struct npy_file *npy, const char *path, struct hm_pieces *pieces)
{
	const struct npy_header *header = &npy->header;

	pieces->file[0] = (struct piece_file){
		.path = path,
		.map = npy->map,
		.size = hm_map_length(npy->map),
		.data = header->data,
	};
	npy_fill_piece(header, 0, &pieces->piece[0]);
	pieces->piece[0].name = "array";
	add_notes(header, pieces);
}

static int open_file(const struct format_source *source, struct hm_pieces *pieces)
{
	struct npy_file *npy;
	int r;

	npy = sys_calloc(1, sizeof(*npy));
	if (!npy)
		return err_set(-ENOMEM, "no memory for a .npy file");
	pieces->data = npy;
	r = pieces_map_file(source->device, source->path[0], &npy->map);
	if (!r)
		r = read_header(npy, source->path[0]);
	if (!r)
		r = pieces_make(pieces, 1, 1, npy->header.fortran + npy->header.swapped);
	if (r)
		return r;
	npy_name_type(&npy->header, source->raw);
	fill(npy, source->path[0], pieces);
	return 0;
}

const struct format npy_format = {
	.name = "npy",
	.text = "an array, as numpy.save() writes it: *.npy",
	.word = "array",
	.suffix = { ".npy" },
	.begins = begins,
	.open = open_file,
	.close = close_file,
};
