// SPDX-License-Identifier: MIT
/* Pieces of a file: opened by its format, checked alike for all formats, listed and found. */
#include "api/api.h"
#include "format/pieces/pieces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "format/text/shown.h"

#define FORMAT_INFO_LEAST sizeof(struct hm_format_info)
#define DESC_LEAST sizeof(struct hm_pieces_desc)
#define INFO_LEAST sizeof(struct hm_pieces_info)
#define FILE_INFO_LEAST sizeof(struct hm_pieces_file_info)
#define PIECE_INFO_LEAST sizeof(struct hm_piece_info)

static void destroy(struct hm_pieces *pieces)
{
	names_free(&pieces->names);
	free(pieces->metadata);
	free(pieces->piece);
	free(pieces->file);
	if (pieces->data)
		pieces->format->close(pieces->data);
	free(pieces->path);
	pieces->object.kind = OBJECT_FREED;
	free(pieces);
}

/* ---- for formats ---- */

int pieces_make(struct hm_pieces *pieces, uint64_t n_file, uint64_t n_piece,
		uint64_t n_metadata)
{
	if (max_u64(n_piece, max_u64(n_file, n_metadata)) >= UINT32_MAX)
		return err_set(-E2BIG, "%s: more than 2^32 pieces, files or notes",
			       pieces->format->name);
	pieces->file = sys_calloc(n_file + 1, sizeof(*pieces->file));
	pieces->piece = sys_calloc(n_piece + 1, sizeof(*pieces->piece));
	pieces->metadata = sys_calloc(n_metadata + 1, sizeof(*pieces->metadata));
	if (!pieces->file || !pieces->piece || !pieces->metadata)
		return err_set(-ENOMEM, "no memory for a list of %" PRIu64 " pieces", n_piece);
	pieces->n_file = (uint32_t)n_file;
	pieces->n_piece = (uint32_t)n_piece;
	pieces->n_metadata = (uint32_t)n_metadata;
	return 0;
}

/* ---- open ---- */

static int read_desc(const struct hm_pieces_desc *from, struct hm_pieces_desc *ret_desc)
{
	int r;

	*ret_desc = (struct hm_pieces_desc){ .struct_size = sizeof(*ret_desc) };
	if (!from)
		return 0;
	r = struct_read(ret_desc, sizeof(*ret_desc), from, from->struct_size, DESC_LEAST,
			"hm_pieces_desc");
	if (r)
		return r;
	if (ret_desc->flags || ret_desc->reserved)
		return err_set(-EINVAL, "hm_pieces_desc: flags 0x%x and reserved %u must be 0",
			       ret_desc->flags, ret_desc->reserved);
	if (ret_desc->n_more && !ret_desc->more)
		return err_set(-EINVAL, "hm_pieces_desc: n_more is %u, and more is NULL",
			       ret_desc->n_more);
	/* With the first one they are counted in 32 bits. */
	if (ret_desc->n_more == UINT32_MAX)
		return err_set(-EINVAL, "hm_pieces_desc: n_more is %u, and %u are the most",
			       ret_desc->n_more, UINT32_MAX - 1);
	return 0;
}

/* Opens the files with their format. */
static int open_files(struct hm_pieces *pieces, const char *path,
		      const struct hm_pieces_desc *desc)
{
	struct format_source source = { .n_path = 1 + desc->n_more, .raw = desc->raw };
	size_t size = strlen(path) + 1;
	const char **paths;
	int r;

	pieces->path = sys_calloc(1, size);
	if (!pieces->path)
		return err_set(-ENOMEM, "no memory for a path of %zu bytes", size);
	paths = sys_calloc(source.n_path, sizeof(*paths));
	if (!paths)
		return err_set(-ENOMEM, "no memory for %u paths", source.n_path);
	paths[0] = memcpy(pieces->path, path, size);
	if (desc->n_more)
		memcpy(paths + 1, desc->more, desc->n_more * sizeof(*paths));
	source.path = paths;
	r = device_open("file", &source.device);
	if (!r) {
		r = pieces->format->open(&source, pieces);
		hm_device_unref(source.device);
	}
	free(paths);
	return r;
}

/* Checks a piece's place in its file, and its name. */
static int add_piece(struct hm_pieces *pieces, uint32_t index)
{
	const struct piece *piece = &pieces->piece[index];
	struct piece_file *file = &pieces->file[piece->file];
	char shown[SHOWN_MAX];
	int r;

	if (piece->bytes &&
	    (piece->offset > file->size || piece->bytes > file->size - piece->offset))
		return err_set(-EBADMSG,
			       "%s: %s %s has %" PRIu64 " bytes from %" PRIu64
			       " on, and the file has %" PRIu64,
			       file->path, pieces->word, name_shown(piece->name, shown),
			       piece->bytes, piece->offset, file->size);
	if (!file->n++)
		file->first = index;
	r = names_add(&pieces->names, piece->name, strlen(piece->name), index);
	if (r == -EEXIST)
		return err_set(-EBADMSG, "%s: there are two %ss of the name %s", file->path,
			       pieces->word, name_shown(piece->name, shown));
	return r;
}

static int add_pieces(struct hm_pieces *pieces)
{
	uint32_t i;
	int r;

	r = names_expect(&pieces->names, pieces->n_piece);
	for (i = 0; !r && i < pieces->n_piece; i++)
		r = add_piece(pieces, i);
	/* A file without pieces has its place in the order of the others. */
	for (i = 1; i < pieces->n_file; i++)
		if (!pieces->file[i].n)
			pieces->file[i].first =
				pieces->file[i - 1].first + pieces->file[i - 1].n;
	return r;
}

int hm_pieces_open(const char *path, const struct hm_pieces_desc *from,
		   struct hm_pieces **ret_pieces)
{
	const struct format *format = NULL;
	struct hm_pieces_desc desc;
	struct hm_pieces *pieces;
	int r;

	err_begin();
	if (!path || !ret_pieces)
		return err_set(-EINVAL, "hm_pieces_open: %s is NULL",
			       path ? "ret_pieces" : "path");
	r = read_desc(from, &desc);
	if (!r)
		r = format_find(path, 1 + desc.n_more, desc.raw, &format);
	if (r)
		return r;
	pieces = sys_calloc(1, sizeof(*pieces));
	if (!pieces)
		return err_set(-ENOMEM, "no memory for the pieces of %s", path);
	object_init(&pieces->object, OBJECT_PIECES);
	pieces->format = format;
	pieces->word = format->word;
	r = open_files(pieces, path, &desc);
	if (!r)
		r = add_pieces(pieces);
	if (r) {
		destroy(pieces);
		return r;
	}
	*ret_pieces = pieces;
	return 0;
}

struct hm_pieces *hm_pieces_ref(struct hm_pieces *pieces)
{
	if (pieces)
		object_ref(&pieces->object);
	return pieces;
}

void hm_pieces_unref(struct hm_pieces *pieces)
{
	if (pieces && object_put(&pieces->object))
		destroy(pieces);
}

/* ---- formats ---- */

static int check_format_info(const struct hm_format_info *info, const char *what)
{
	if (!info)
		return err_set(-EINVAL, "%s: ret_info is NULL", what);
	return struct_check_out(info->struct_size, sizeof(*info), FORMAT_INFO_LEAST,
				"hm_format_info");
}

static void write_format_info(const struct format *format, struct hm_format_info *ret_info)
{
	const struct hm_format_info info = {
		.name = format->name,
		.text = format->text,
		.word = format->word,
	};

	struct_write(ret_info, &info, ret_info->struct_size);
}

int hm_pieces_format(uint32_t index, struct hm_format_info *ret_info)
{
	int r;

	err_begin();
	r = check_format_info(ret_info, "hm_pieces_format");
	if (r)
		return r;
	if (!format_at(index))
		return err_set(-ERANGE, "there is no format %u", index);
	write_format_info(format_at(index), ret_info);
	return 0;
}

int hm_pieces_probe(const char *path, const struct hm_pieces_desc *from,
		    struct hm_format_info *ret_info)
{
	const struct format *format = NULL;
	struct hm_pieces_desc desc;
	int r;

	err_begin();
	r = check_format_info(ret_info, "hm_pieces_probe");
	if (!r && !path)
		r = err_set(-EINVAL, "hm_pieces_probe: path is NULL");
	if (!r)
		r = read_desc(from, &desc);
	if (!r)
		r = format_find(path, 1, desc.raw, &format);
	if (r)
		return r;
	write_format_info(format, ret_info);
	return 0;
}

/* ---- queries ---- */

static int check(const struct hm_pieces *pieces, const void *result, const char *what)
{
	if (!result)
		return err_set(-EINVAL, "%s: an argument is NULL", what);
	return object_check(pieces ? &pieces->object : NULL, OBJECT_PIECES);
}

/* -ERANGE, with the number of elements. */
static int check_index(uint64_t index, uint64_t n, const char *what)
{
	if (index < n)
		return 0;
	return err_set(-ERANGE, "there is no %s %" PRIu64 ": there are %" PRIu64, what, index,
		       n);
}

int hm_pieces_query(struct hm_pieces *pieces, struct hm_pieces_info *ret_info)
{
	struct hm_pieces_info info = { 0 };
	uint32_t i;
	int r;

	err_begin();
	r = check(pieces, ret_info, "hm_pieces_query");
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(info), INFO_LEAST,
				     "hm_pieces_info");
	if (r)
		return r;
	info.files = pieces->n_file;
	info.format = pieces->format->name;
	info.word = pieces->word;
	info.pieces = pieces->n_piece;
	info.metadata = pieces->n_metadata;
	info.ignored = pieces->ignored;
	for (i = 0; i < pieces->n_piece; i++)
		info.bytes += pieces->piece[i].bytes;
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

int hm_pieces_file(struct hm_pieces *pieces, uint32_t number,
		   struct hm_pieces_file_info *ret_info)
{
	const struct piece_file *file;
	int r;

	err_begin();
	r = check(pieces, ret_info, "hm_pieces_file");
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(*ret_info), FILE_INFO_LEAST,
				     "hm_pieces_file_info");
	if (!r)
		r = check_index(number, pieces->n_file, "file");
	if (r)
		return r;
	file = &pieces->file[number];
	struct_write(ret_info,
		     &(struct hm_pieces_file_info){
			     .path = file->path,
			     .map = file->map,
			     .size = file->size,
			     .data_offset = file->data,
			     .first = file->first,
			     .pieces = file->n,
		     },
		     ret_info->struct_size);
	return 0;
}

int pieces_at(struct hm_pieces *pieces, uint64_t index, struct hm_piece_info *ret_info)
{
	const struct piece *piece;
	uint64_t lowest;
	int r;

	r = check(pieces, ret_info, "hm_pieces_at");
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(*ret_info), PIECE_INFO_LEAST,
				     "hm_piece_info");
	if (!r)
		r = check_index(index, pieces->n_piece, "piece");
	if (r)
		return r;
	piece = &pieces->piece[index];
	lowest = piece->offset & -piece->offset;
	struct_write(ret_info,
		     &(struct hm_piece_info){
			     .dtype = piece->dtype,
			     .rank = piece->rank,
			     .file = piece->file,
			     .name = piece->name,
			     .type = piece->type,
			     .shape = piece->shape,
			     .index = index,
			     .offset = piece->offset,
			     .bytes = piece->bytes,
			     .alignment = lowest ? min_u64(lowest, page_size()) : page_size(),
			     .block_elements = piece->block_elements,
			     .block_bytes = piece->block_bytes,
		     },
		     ret_info->struct_size);
	return 0;
}

int pieces_find_name(struct hm_pieces *pieces, const char *name, uint64_t *ret_index)
{
	const struct name *found;
	char shown[SHOWN_MAX];
	int r;

	r = check(pieces, ret_index, "hm_pieces_find");
	if (r)
		return r;
	if (!name)
		return err_set(-EINVAL, "hm_pieces_find: name is NULL");
	found = names_find(&pieces->names, name, strlen(name));
	if (!found)
		return err_set(-ENOENT, "there is no %s %s among the %u of %s%s", pieces->word,
			       name_shown(name, shown), pieces->n_piece,
			       pieces->n_file ? pieces->file[0].path : "no file",
			       pieces->n_file > 1 ? " and its further files" : "");
	*ret_index = found->value;
	return 0;
}

int hm_pieces_metadata(struct hm_pieces *pieces, uint64_t index,
		       struct hm_metadata *ret_metadata)
{
	int r;

	err_begin();
	r = check(pieces, ret_metadata, "hm_pieces_metadata");
	if (!r)
		r = check_index(index, pieces->n_metadata, "note");
	if (r)
		return r;
	*ret_metadata = pieces->metadata[index];
	return 0;
}

int hm_pieces_at(struct hm_pieces *pieces, uint64_t index, struct hm_piece_info *ret_info)
{
	err_begin();
	return pieces_at(pieces, index, ret_info);
}

int hm_pieces_find(struct hm_pieces *pieces, const char *name, uint64_t *ret_index)
{
	err_begin();
	return pieces_find_name(pieces, name, ret_index);
}
