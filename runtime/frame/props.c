// SPDX-License-Identifier: MIT
/* Facts about pictures, and their limits. */
#include <inttypes.h>

#include "frame/frame.h"

#define UNKNOWN 2 /* of each number of H.273 */
#define H273_MOST 255
#define CHROMA_MOST 6 /* Chroma420SampleLocType 5 */

void props_init(struct hm_frame_props *props, const struct hm_frame_rect *visible)
{
	*props = (struct hm_frame_props){
		.visible = *visible,
		.primaries = UNKNOWN,
		.transfer = UNKNOWN,
		.matrix = UNKNOWN,
		.range = HM_FRAME_RANGE_UNKNOWN,
		.timestamp = HM_FRAME_NO_TIME,
	};
}

int props_check_visible(const struct hm_frame_rect *visible, uint32_t width, uint32_t height)
{
	if (visible->width && visible->height && visible->x < width && visible->y < height &&
	    visible->width <= width - visible->x && visible->height <= height - visible->y)
		return 0;
	return err_set(-EINVAL,
		       "the visible part, %" PRIu32 " x %" PRIu32 " pixels at %" PRIu32
		       ", %" PRIu32 ", is not inside the coded picture, %" PRIu32 " x %" PRIu32,
		       visible->width, visible->height, visible->x, visible->y, width, height);
}

static int check_number(const char *what, uint32_t value, uint32_t most)
{
	if (value <= most)
		return 0;
	return err_set(-EINVAL, "hm_frame_props.%s %" PRIu32 " is above %" PRIu32, what, value,
		       most);
}

static int check_colour(const struct hm_frame_props *props)
{
	int r = check_number("primaries", props->primaries, H273_MOST);

	if (!r)
		r = check_number("transfer", props->transfer, H273_MOST);
	if (!r)
		r = check_number("matrix", props->matrix, H273_MOST);
	if (!r)
		r = check_number("range", props->range, HM_FRAME_RANGE_FULL);
	if (!r)
		r = check_number("chroma", props->chroma, CHROMA_MOST);
	return r;
}

static int check_time(const struct hm_frame_props *props)
{
	if (props->timestamp == HM_FRAME_NO_TIME ||
	    (props->time_base_num && props->time_base_den))
		return 0;
	return err_set(-EINVAL,
		       "timestamp %" PRId64 " in units of %" PRIu32 " / %" PRIu32
		       " s is no time: set time_base_num and time_base_den",
		       props->timestamp, props->time_base_num, props->time_base_den);
}

int props_set(struct hm_frame_props *props, uint32_t fields, const struct hm_frame_props *from,
	      const struct hm_frame_layout *layout)
{
	const uint32_t all = HM_FRAME_VISIBLE | HM_FRAME_COLOUR | HM_FRAME_TIME;
	int r = 0;

	if (fields & ~all)
		return err_set(-EINVAL,
			       "facts 0x%" PRIx32 " are unknown (HM_FRAME_VISIBLE, "
			       "HM_FRAME_COLOUR, HM_FRAME_TIME)",
			       fields & ~all);
	if (fields & HM_FRAME_VISIBLE)
		r = props_check_visible(&from->visible, layout->width, layout->height);
	if (!r && fields & HM_FRAME_COLOUR)
		r = check_colour(from);
	if (!r && fields & HM_FRAME_TIME)
		r = check_time(from);
	if (r)
		return r;
	if (fields & HM_FRAME_VISIBLE)
		props->visible = from->visible;
	if (fields & HM_FRAME_COLOUR) {
		props->primaries = from->primaries;
		props->transfer = from->transfer;
		props->matrix = from->matrix;
		props->range = from->range;
		props->chroma = from->chroma;
	}
	if (fields & HM_FRAME_TIME) {
		props->timestamp = from->timestamp;
		props->duration = from->duration;
		props->time_base_num = from->time_base_num;
		props->time_base_den = from->time_base_den;
	}
	return 0;
}
