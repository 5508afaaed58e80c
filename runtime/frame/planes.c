// SPDX-License-Identifier: MIT
/* Checks planes that the library did not lay out itself: a driver's, or another process's. */
#include <inttypes.h>

#include "frame/frame.h"

/*
 * What the plane needs from its offset on: the whole of it, or all but the padding of its last
 * row, where it is not told.
 */
static int fill_linear(struct hm_frame_layout *layout, uint32_t i, uint64_t room)
{
	struct hm_frame_plane *plane = &layout->plane[i];
	uint64_t row, least, whole;
	uint32_t rows;

	layout_rows(layout->fourcc, layout->width, layout->height, i, &rows, &row);
	if (plane->stride < row)
		return err_set(-EINVAL,
			       "plane %" PRIu32 ": a row of %" PRIu32 " pixels has %" PRIu64
			       " bytes, more than the stride, %" PRIu64,
			       i, layout->width, row, plane->stride);
	if (plane->rows && plane->rows < rows)
		return err_set(-EINVAL,
			       "plane %" PRIu32 " has %" PRIu32
			       " rows, and a picture of %" PRIu32 " rows needs %" PRIu32,
			       i, plane->rows, layout->height, rows);
	if (!plane->rows)
		plane->rows = rows;
	if (__builtin_mul_overflow(plane->stride, plane->rows, &whole) ||
	    whole > FRAME_BYTES_MAX)
		return err_set(-EOVERFLOW,
			       "plane %" PRIu32 ": %" PRIu32 " rows of %" PRIu64
			       " bytes are above 2^62 bytes",
			       i, plane->rows, plane->stride);
	least = whole - plane->stride + row;
	if (!plane->bytes)
		plane->bytes = room < whole && room >= least ? least : whole;
	if (plane->bytes < least)
		return err_set(-EINVAL,
			       "plane %" PRIu32 " has %" PRIu64 " bytes, and %" PRIu32
			       " rows of %" PRIu64 " bytes, %" PRIu64 " apart, need %" PRIu64,
			       i, plane->bytes, plane->rows, row, plane->stride, least);
	return 0;
}

static int check_plane(struct hm_frame_layout *layout, uint32_t i, uint32_t n_object,
		       const uint64_t *sizes)
{
	struct hm_frame_plane *plane = &layout->plane[i];
	uint64_t size, room;
	int r;

	if (plane->object >= n_object)
		return err_set(-EINVAL,
			       "plane %" PRIu32 " is in object %" PRIu32
			       ", and there are %" PRIu32,
			       i, plane->object, n_object);
	size = sizes[plane->object];
	room = size - min_u64(size, plane->offset);
	if (layout->modifier == HM_FRAME_LINEAR && layout_planes(layout->fourcc)) {
		r = fill_linear(layout, i, room);
		if (r)
			return r;
	} else if (!plane->bytes) {
		plane->bytes = max_u64(room, 1);
	}
	if (plane->bytes <= room)
		return 0;
	return err_set(-ERANGE,
		       "plane %" PRIu32 ": %" PRIu64 " bytes at %" PRIu64
		       " end behind the %" PRIu64 " bytes of object %" PRIu32,
		       i, plane->bytes, plane->offset, size, plane->object);
}

/* Do rows of the two planes alternate, as where a driver puts those of U and V side by side? */
static bool alternate(const struct hm_frame_layout *layout, uint32_t a, uint32_t b)
{
	const struct hm_frame_plane *one = &layout->plane[a], *other = &layout->plane[b];
	uint64_t apart, row, other_row;
	uint32_t rows;

	if (layout->modifier != HM_FRAME_LINEAR || !layout_planes(layout->fourcc) ||
	    one->stride != other->stride)
		return false;
	layout_rows(layout->fourcc, layout->width, layout->height, a, &rows, &row);
	layout_rows(layout->fourcc, layout->width, layout->height, b, &rows, &other_row);
	/* From the start of a row of the one to the start of the next row of the other. */
	apart = other->offset > one->offset ?
			(other->offset - one->offset) % one->stride :
			one->stride - 1 - (one->offset - other->offset - 1) % one->stride;
	return apart >= row && one->stride - apart >= other_row;
}

static int check_apart(const struct hm_frame_layout *layout, uint32_t a, uint32_t b)
{
	const struct hm_frame_plane *one = &layout->plane[a], *other = &layout->plane[b];

	if (one->object != other->object ||
	    !ranges_overlap(one->offset, one->bytes, other->offset, other->bytes) ||
	    (one->offset != other->offset && alternate(layout, a, b)))
		return 0;
	return err_set(-EINVAL,
		       "planes %" PRIu32 " and %" PRIu32 " share bytes: %" PRIu64 " at %" PRIu64
		       ", %" PRIu64 " at %" PRIu64 " of object %" PRIu32,
		       a, b, one->bytes, one->offset, other->bytes, other->offset, one->object);
}

int planes_check(struct hm_frame_layout *layout, uint32_t n_object, const uint64_t *sizes)
{
	uint32_t i, k, known = layout_planes(layout->fourcc);
	char text[16];
	int r;

	if (layout->modifier == FRAME_MODIFIER_UNTOLD)
		return err_set(
			-EOPNOTSUPP,
			"modifier DRM_FORMAT_MOD_INVALID does not tell where pixels are: "
			"ask the maker, or pass 0 if rows follow one another");
	if (!layout->n_planes || layout->n_planes > HM_FRAME_PLANES)
		return err_set(-EINVAL, "%" PRIu32 " planes are not in 1 to %d",
			       layout->n_planes, HM_FRAME_PLANES);
	if (layout->modifier == HM_FRAME_LINEAR && known && layout->n_planes != known)
		return err_set(-EINVAL, "%s has %" PRIu32 " planes, and not %" PRIu32,
			       layout_name(layout->fourcc, text), known, layout->n_planes);
	for (i = 0; i < layout->n_planes; i++) {
		r = check_plane(layout, i, n_object, sizes);
		for (k = 0; k < i && !r; k++)
			r = check_apart(layout, k, i);
		if (r)
			return r;
	}
	return 0;
}
