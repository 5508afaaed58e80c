// SPDX-License-Identifier: MIT
/*
 * A .npz file as a format: an archive of zip, each of whose members is a .npy file, in place. A
 * compressed member has no bytes that could be used in place, and is refused.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "core/segments.h"
#include "format/npy/npy.h"
#include "format/npz/zip.h"
#include "format/pieces/pieces.h"
#include "format/text/shown.h"
#include "format/text/utf8.h"

#define SUFFIX ".npy"
#define SUFFIX_LENGTH (sizeof(SUFFIX) - 1)
#define LOCAL_NAME 30 /* offset of the name in a member's local header */

struct npz_array {
	struct npy_header header;
	uint64_t offset; /* of the member's data */
	char *name;      /* the member's, without its suffix */
	char *order_key, *bytes_key;
};

struct npz_file {
	struct hm_map *map; /* holds a ref */
	struct npz_array *array;
	uint32_t n;
	uint32_t ignored;
	char misaligned[96];
};

static bool is_array(const char *name, size_t length)
{
	return length > SUFFIX_LENGTH &&
	       !memcmp(name + length - SUFFIX_LENGTH, SUFFIX, SUFFIX_LENGTH);
}

static bool is_named_so(const char *path)
{
	size_t length = strlen(path);

	return length > 4 && !strcmp(path + length - 4, ".npz");
}

/* Other archives, as .pt, have other names, and begin with a member that is no array. */
static bool begins(const struct format_head *head)
{
	const unsigned char *bytes = head->bytes;
	uint32_t length;

	if (head->n < LOCAL_NAME || memcmp(bytes, "PK\3\4", 4))
		return false;
	if (is_named_so(head->path))
		return true;
	length = bytes[26] | (uint32_t)bytes[27] << 8;
	return length <= head->n - LOCAL_NAME &&
	       is_array((const char *)bytes + LOCAL_NAME, length);
}

static void close_file(void *data)
{
	struct npz_file *npz = data;
	uint32_t i;

	for (i = 0; npz->array && i < npz->n; i++) {
		free(npz->array[i].name);
		free(npz->array[i].order_key);
		free(npz->array[i].bytes_key);
	}
	free(npz->array);
	hm_map_unref(npz->map);
	free(npz);
}

/* ---- members ---- */

/* @before, and @length bytes of @text behind it. */
static int join(const char *before, const char *text, size_t length, char **ret_text)
{
	size_t n = strlen(before);

	*ret_text = sys_calloc(1, n + length + 1);
	if (!*ret_text)
		return err_set(-ENOMEM, "no memory for a name of %zu bytes", n + length);
	memcpy(*ret_text, before, n);
	memcpy(*ret_text + n, text, length);
	return 0;
}

static bool is_ascii(const char *text, size_t length)
{
	size_t i;

	for (i = 0; i < length && !((unsigned char)text[i] & 0x80); i++)
		;
	return i == length;
}

static int check_member(const struct zip_member *member)
{
	if (memchr(member->name, '\0', member->length) ||
	    !utf8_is(member->name, member->length))
		return err_set(-EBADMSG, "its name is not in UTF-8");
	if (!(member->flags & ZIP_UTF8) && !is_ascii(member->name, member->length))
		return err_set(-EOPNOTSUPP, "its name is in an encoding that it does not tell");
	if (member->flags & ZIP_ENCRYPTED)
		return err_set(-EOPNOTSUPP, "it is encrypted");
	if (member->method == ZIP_STORED && member->bytes != member->unpacked)
		return err_set(-EBADMSG, "it is stored, and has %" PRIu64 " bytes as %" PRIu64,
			       member->unpacked, member->bytes);
	return 0;
}

static int add_array(struct npz_file *npz, int fd, const struct zip_member *member)
{
	struct npz_array *array = &npz->array[npz->n++];
	char shown[SHOWN_MAX];
	int r;

	r = join("", member->name, member->length - SUFFIX_LENGTH, &array->name);
	if (r)
		return r;
	r = check_member(member);
	if (!r)
		r = zip_find_data(fd, member, &array->offset);
	if (!r)
		r = npy_read_header(fd, array->offset, member->bytes, &array->header);
	return r ? err_prefix(r, "member %s", name_shown(array->name, shown)) : 0;
}

/* All compressed arrays are told of at once: the remedy is one for all. */
static int check_stored(const struct zip *zip)
{
	const struct zip_member *first = NULL;
	uint32_t n = 0, i;

	for (i = 0; i < zip->n; i++) {
		if (zip->member[i].method == ZIP_STORED ||
		    !is_array(zip->member[i].name, zip->member[i].length))
			continue;
		first = first ? first : &zip->member[i];
		n++;
	}
	if (!n)
		return 0;
	return err_set(
		-EOPNOTSUPP,
		"%u of its %u members are compressed (the first one by method %u): arrays "
		"can't be used in place; save them by numpy.savez(), not by "
		"numpy.savez_compressed()",
		n, zip->n, first->method);
}

static int add_arrays(struct npz_file *npz, const struct zip *zip, int fd)
{
	uint32_t i;
	int r;

	r = check_stored(zip);
	if (r)
		return r;
	npz->array = sys_calloc(zip->n + 1, sizeof(*npz->array));
	if (!npz->array)
		return err_set(-ENOMEM, "no memory for %u arrays", zip->n);
	for (i = 0; !r && i < zip->n; i++) {
		if (is_array(zip->member[i].name, zip->member[i].length))
			r = add_array(npz, fd, &zip->member[i]);
		else
			npz->ignored++;
	}
	return r;
}

static int read_arrays(struct npz_file *npz, const char *path)
{
	struct segment_list *list = segments_get(npz->map->buffer);
	int fd = list->segment[0].fd, r;
	struct zip zip;

	r = zip_begin(&zip, fd, hm_map_length(npz->map));
	if (!r)
		r = add_arrays(npz, &zip, fd);
	zip_end(&zip);
	segments_put(npz->map->buffer, list);
	return r ? err_prefix(r, "%s", path) : 0;
}

/* ---- pieces ---- */

static bool is_misaligned(const struct piece *piece)
{
	uint64_t unit = hm_dtype_bits(piece->dtype) / 8;

	/* Each half of a complex number has 4 bytes. */
	return unit && piece->bytes &&
	       piece->offset % (piece->dtype == HM_DTYPE_C64 ? 4 : unit);
}

static int add_note(struct hm_pieces *pieces, const char *what, const char *value,
		    const struct npz_array *array, char **ret_key)
{
	int r = join(what, array->name, strlen(array->name), ret_key);

	if (!r)
		pieces->metadata[pieces->n_metadata++] =
			(struct hm_metadata){ *ret_key, value };
	return r;
}

/* Facts that keep a consumer from taking an array as an array of C. */
static int add_notes(struct npz_file *npz, struct hm_pieces *pieces)
{
	uint32_t i, misaligned = 0;
	int r = 0;

	pieces->n_metadata = 0;
	for (i = 0; i < npz->n; i++)
		misaligned += is_misaligned(&pieces->piece[i]);
	if (misaligned) {
		snprintf(npz->misaligned, sizeof(npz->misaligned),
			 "%u of %u arrays, for their type", misaligned, npz->n);
		pieces->metadata[pieces->n_metadata++] =
			(struct hm_metadata){ "misaligned", npz->misaligned };
	}
	for (i = 0; !r && i < npz->n; i++) {
		struct npz_array *array = &npz->array[i];

		if (array->header.fortran)
			r = add_note(pieces, "order of ", NPY_NOTE_FORTRAN, array,
				     &array->order_key);
		if (!r && array->header.swapped)
			r = add_note(pieces, "byte order of ", NPY_NOTE_SWAPPED, array,
				     &array->bytes_key);
	}
	return r;
}

static int fill(struct npz_file *npz, const struct format_source *source,
		struct hm_pieces *pieces)
{
	uint32_t i;

	pieces->file[0] = (struct piece_file){
		.path = source->path[0],
		.map = npz->map,
		.size = hm_map_length(npz->map),
	};
	for (i = 0; i < npz->n; i++) {
		npy_name_type(&npz->array[i].header, source->raw);
		npy_fill_piece(&npz->array[i].header, npz->array[i].offset, &pieces->piece[i]);
		pieces->piece[i].name = npz->array[i].name;
	}
	pieces->ignored = npz->ignored;
	return add_notes(npz, pieces);
}

static int open_file(const struct format_source *source, struct hm_pieces *pieces)
{
	struct npz_file *npz;
	int r;

	npz = sys_calloc(1, sizeof(*npz));
	if (!npz)
		return err_set(-ENOMEM, "no memory for a .npz file");
	pieces->data = npz;
	r = pieces_map_file(source->device, source->path[0], &npz->map);
	if (!r)
		r = read_arrays(npz, source->path[0]);
	if (!r)
		r = pieces_make(pieces, 1, npz->n, 1 + 2 * (uint64_t)npz->n);
	return r ? r : fill(npz, source, pieces);
}

const struct format npz_format = {
	.name = "npz",
	.text = "arrays, as numpy.savez() writes them: *.npz",
	.word = "array",
	.suffix = { ".npz" },
	.begins = begins,
	.open = open_file,
	.close = close_file,
};
