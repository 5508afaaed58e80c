// SPDX-License-Identifier: MIT
/*
 * Plane arithmetic of linear pictures, by a table of formats.
 *
 * A group is the smallest number of pixels of a row that all planes have whole samples of: two
 * where chroma has half of the columns, else one. A row has whole groups, and all strides are of
 * the same number of groups. Bytes of a group are powers of two, so that number is a multiple of
 * what the plane with the fewest bytes needs for its alignment.
 */
#include <inttypes.h>
#include <stdio.h>

#include "frame/frame.h"

#define FOURCC HM_FRAME_FOURCC

static const struct format {
	uint32_t fourcc;
	uint8_t n_planes;
	uint8_t columns;  /* pixels of a group */
	uint8_t rows;     /* rows of luma to one of chroma */
	uint8_t bytes[3]; /* of a group, by plane */
} formats[] = {
	{ FOURCC('N', 'V', '1', '2'), 2, 2, 2, { 2, 2 } },
	{ FOURCC('N', 'V', '2', '1'), 2, 2, 2, { 2, 2 } },
	{ FOURCC('N', 'V', '1', '6'), 2, 2, 1, { 2, 2 } },
	{ FOURCC('N', 'V', '6', '1'), 2, 2, 1, { 2, 2 } },
	{ FOURCC('N', 'V', '2', '4'), 2, 1, 1, { 1, 2 } },
	{ FOURCC('N', 'V', '4', '2'), 2, 1, 1, { 1, 2 } },
	{ FOURCC('P', '0', '1', '0'), 2, 2, 2, { 4, 4 } },
	{ FOURCC('P', '0', '1', '2'), 2, 2, 2, { 4, 4 } },
	{ FOURCC('P', '0', '1', '6'), 2, 2, 2, { 4, 4 } },
	{ FOURCC('Y', 'U', '1', '2'), 3, 2, 2, { 2, 1, 1 } },
	{ FOURCC('Y', 'V', '1', '2'), 3, 2, 2, { 2, 1, 1 } },
	{ FOURCC('Y', 'U', '1', '6'), 3, 2, 1, { 2, 1, 1 } },
	{ FOURCC('Y', 'V', '1', '6'), 3, 2, 1, { 2, 1, 1 } },
	{ FOURCC('Y', 'U', '2', '4'), 3, 1, 1, { 1, 1, 1 } },
	{ FOURCC('Y', 'V', '2', '4'), 3, 1, 1, { 1, 1, 1 } },
	{ FOURCC('Y', 'U', 'Y', 'V'), 1, 2, 1, { 4 } },
	{ FOURCC('Y', 'V', 'Y', 'U'), 1, 2, 1, { 4 } },
	{ FOURCC('U', 'Y', 'V', 'Y'), 1, 2, 1, { 4 } },
	{ FOURCC('V', 'Y', 'U', 'Y'), 1, 2, 1, { 4 } },
	{ FOURCC('X', 'R', '2', '4'), 1, 1, 1, { 4 } },
	{ FOURCC('A', 'R', '2', '4'), 1, 1, 1, { 4 } },
	{ FOURCC('X', 'B', '2', '4'), 1, 1, 1, { 4 } },
	{ FOURCC('A', 'B', '2', '4'), 1, 1, 1, { 4 } },
	{ FOURCC('R', 'X', '2', '4'), 1, 1, 1, { 4 } },
	{ FOURCC('R', 'A', '2', '4'), 1, 1, 1, { 4 } },
	{ FOURCC('B', 'X', '2', '4'), 1, 1, 1, { 4 } },
	{ FOURCC('B', 'A', '2', '4'), 1, 1, 1, { 4 } },
	{ FOURCC('R', '8', ' ', ' '), 1, 1, 1, { 1 } },
	{ FOURCC('R', '1', '6', ' '), 1, 1, 1, { 2 } },
	{ FOURCC('G', 'R', '8', '8'), 1, 1, 1, { 2 } },
};

#define LEAST_STRIDE 64
#define LEAST_PLANE 4096
#define MOST_ALIGNMENT (1u << 30)

static const struct format *find(uint32_t fourcc)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(formats); i++)
		if (formats[i].fourcc == fourcc)
			return &formats[i];
	return NULL;
}

const char *layout_name(uint32_t fourcc, char text[16])
{
	char name[4];
	unsigned int i;
	bool printable = true;

	for (i = 0; i < sizeof(name); i++) {
		name[i] = (char)(fourcc >> (8 * i));
		printable = printable && name[i] >= ' ' && name[i] <= '~';
	}
	if (printable)
		snprintf(text, 16, "%.4s", name);
	else
		snprintf(text, 16, "0x%08" PRIx32, fourcc);
	return text;
}

static int refuse(uint32_t fourcc)
{
	char text[16], known[ARRAY_SIZE(formats) * 5 + 1];
	size_t i, at = 0;

	for (i = 0; i < ARRAY_SIZE(formats); i++)
		at += (size_t)snprintf(known + at, sizeof(known) - at, " %.4s",
				       (const char *)&formats[i].fourcc);
	return err_set(-EOPNOTSUPP, "the planes of format %s are not known here: known are%s",
		       layout_name(fourcc, text), known);
}

uint32_t layout_planes(uint32_t fourcc)
{
	const struct format *format = find(fourcc);

	return format ? format->n_planes : 0;
}

/* Groups of a row. */
static uint64_t groups_of(const struct format *format, uint64_t width)
{
	return (width + format->columns - 1) / format->columns;
}

static uint32_t rows_of(const struct format *format, uint32_t height, uint32_t plane)
{
	if (!plane)
		return height;
	return (uint32_t)(((uint64_t)height + format->rows - 1) / format->rows);
}

void layout_rows(uint32_t fourcc, uint32_t width, uint32_t height, uint32_t plane,
		 uint32_t *ret_rows, uint64_t *ret_bytes)
{
	const struct format *format = find(fourcc);

	*ret_rows = rows_of(format, height, plane);
	*ret_bytes = groups_of(format, width) * format->bytes[plane];
}

/* ---- alignment ---- */

static int check_power(uint64_t value, uint32_t user, const char *what)
{
	if (!(value & (value - 1)) && value <= MOST_ALIGNMENT)
		return 0;
	return err_set(-EINVAL,
		       "user %" PRIu32 " of the frames: hm_frame_align.%s %" PRIu64
		       " is not a power of two up to 2^30",
		       user, what, value);
}

int layout_join(const struct hm_frame_align *users, uint32_t n_users,
		struct hm_frame_align *ret_align)
{
	struct hm_frame_align all = {
		.stride = LEAST_STRIDE,
		.plane = LEAST_PLANE,
		.size = LEAST_PLANE,
		.width = 1,
		.height = 1,
	};
	uint32_t i;
	int r = 0;

	if (n_users && !users)
		return err_set(-EINVAL, "n_users is %" PRIu32 ", and users is NULL", n_users);
	for (i = 0; i < n_users && !r; i++) {
		const struct hm_frame_align *user = &users[i];

		r = check_power(user->stride, i, "stride");
		if (!r)
			r = check_power(user->plane, i, "plane");
		if (!r)
			r = check_power(user->size, i, "size");
		if (!r)
			r = check_power(user->width, i, "width");
		if (!r)
			r = check_power(user->height, i, "height");
		if (!r && user->tail > MOST_ALIGNMENT)
			r = err_set(-EINVAL,
				    "user %" PRIu32 " of the frames: hm_frame_align.tail "
				    "%" PRIu64 " is above 2^30",
				    i, user->tail);
		all.stride = max_u64(all.stride, user->stride);
		all.plane = max_u64(all.plane, user->plane);
		all.size = max_u64(all.size, user->size);
		all.tail = max_u64(all.tail, user->tail);
		all.width = (uint32_t)max_u64(all.width, user->width);
		all.height = (uint32_t)max_u64(all.height, user->height);
	}
	if (!r)
		*ret_align = all;
	return r;
}

int layout_round(const struct hm_frame_align *align, uint32_t *width, uint32_t *height)
{
	uint64_t w = round_up(*width, align->width), h = round_up(*height, align->height);

	if (!w || !h)
		return err_set(-EINVAL,
			       "a picture of %" PRIu32 " x %" PRIu32 " pixels has no pixel",
			       *width, *height);
	if (w > UINT32_MAX || h > UINT32_MAX)
		return err_set(-EOVERFLOW,
			       "a picture of %" PRIu32 " x %" PRIu32
			       " pixels, rounded up to %" PRIu64 " x %" PRIu64
			       ", is above 2^32 - 1",
			       *width, *height, w, h);
	*width = (uint32_t)w;
	*height = (uint32_t)h;
	return 0;
}

/* ---- layout ---- */

static int too_long(const struct hm_frame_layout *layout, uint32_t plane)
{
	char text[16];

	return err_set(-EOVERFLOW,
		       "%s of %" PRIu32 " x %" PRIu32 " pixels: with plane %" PRIu32
		       ", of %" PRIu32 " rows at %" PRIu64
		       " bytes, a frame is above 2^62 bytes",
		       layout_name(layout->fourcc, text), layout->width, layout->height, plane,
		       layout->plane[plane].rows, layout->plane[plane].stride);
}

/* Groups of a row such that each stride is aligned. All numbers but @width are powers of two. */
static uint64_t padded_groups(const struct format *format, uint64_t width, uint64_t alignment)
{
	uint32_t i, fewest = format->bytes[0];

	for (i = 1; i < format->n_planes; i++)
		fewest = format->bytes[i] < fewest ? format->bytes[i] : fewest;
	return round_up(groups_of(format, width), max_u64(alignment / fewest, 1));
}

int layout_make(uint32_t fourcc, uint32_t width, uint32_t height,
		const struct hm_frame_align *users, uint32_t n_users,
		struct hm_frame_layout *ret_layout)
{
	const struct format *format = find(fourcc);
	struct hm_frame_layout layout = { .fourcc = fourcc, .modifier = HM_FRAME_LINEAR };
	struct hm_frame_align align;
	uint64_t groups;
	uint32_t i;
	int r;

	if (!format)
		return refuse(fourcc);
	r = layout_join(users, n_users, &align);
	if (!r)
		r = layout_round(&align, &width, &height);
	if (r)
		return r;
	layout.width = width;
	layout.height = height;
	layout.n_planes = format->n_planes;
	groups = padded_groups(format, width, align.stride);
	for (i = 0; i < format->n_planes; i++) {
		struct hm_frame_plane *plane = &layout.plane[i];

		plane->rows = rows_of(format, height, i);
		plane->stride = groups * format->bytes[i];
		plane->offset = round_up(layout.bytes, align.plane);
		/* The offset and the tail are below 2^63 together. */
		if (__builtin_mul_overflow(plane->stride, plane->rows, &plane->bytes) ||
		    plane->bytes > FRAME_BYTES_MAX - align.tail ||
		    plane->offset > FRAME_BYTES_MAX - align.tail - plane->bytes)
			return too_long(&layout, i);
		layout.bytes = plane->offset + plane->bytes + align.tail;
	}
	layout.bytes = round_up(layout.bytes, align.size);
	if (layout.bytes > FRAME_BYTES_MAX)
		return too_long(&layout, i - 1);
	*ret_layout = layout;
	return 0;
}

int hm_frame_layout_query(uint32_t fourcc, uint32_t width, uint32_t height,
			  const struct hm_frame_align *users, uint32_t n_users,
			  struct hm_frame_layout *ret_layout)
{
	err_begin();
	if (!ret_layout)
		return err_set(-EINVAL, "hm_frame_layout_query: ret_layout is NULL");
	return layout_make(fourcc, width, height, users, n_users, ret_layout);
}
