/* SPDX-License-Identifier: MIT */
/*
 * Display: pictures on a screen, by kernel mode setting of DRM. The frames are buffers of the
 * display's device, which leave it as dma-bufs: an accelerator writes into what is scanned out.
 */
#ifndef HETMAP_VIDEO_DISPLAY_H
#define HETMAP_VIDEO_DISPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include <hetmap/frame.h>
#include <hetmap/hetmap.h>

struct display;

struct display_info {
	char card[64];   /* "/dev/dri/card0" */
	char driver[32]; /* "virtio_gpu" */
	uint32_t connector, crtc, plane;
	uint32_t width, height; /* of the mode; 0: none was set yet */
	uint32_t rate;          /* pictures a second of the mode */
	uint32_t frames;
	uint64_t bytes; /* of all frames */
	uint64_t shown;
	uint64_t checked;  /* pictures whose scan-out was read back, and is right */
	bool writeback;    /* the card wrote back what was checked */
	uint64_t imported; /* of shown: frames that were allocated elsewhere, as they are */
	char not_imported[256]; /* why none is; "": all are, or none was tried */
};

/* All functions return 0 or a negative errno, with hm_errmsg(). */

/*
 * Opens a card node, NULL: the first one with a screen. Its frames are buffers of @device, if
 * that imports them, or else of "host". @check: each picture is read back.
 * -ENODEV: there is none, or no screen is connected. -EBUSY: another program has the screen.
 */
int display_open(const char *card, struct hm_device *device, bool check,
		 struct display **ret_display);
/*
 * An XRGB8888 frame whose visible part is @width x @height; the first call sets the mode's size.
 * On any thread. -ETIME: all frames are in use for @timeout_ns. -ERANGE: no mode is so large.
 */
int display_acquire(struct display *display, uint32_t width, uint32_t height,
		    uint64_t timeout_ns, struct hm_frame **ret_frame);
/*
 * Makes @frame, which was allocated elsewhere, ready for display_show() as it is: nothing is
 * converted, and nothing copied. The first call of this function or display_acquire() sets the
 * mode's size. On any thread.
 * -EOPNOTSUPP: the plane does not take its format, or the card does not import its memory. All
 * later calls say the same; convert into a frame of display_acquire().
 */
int display_import(struct display *display, struct hm_frame *frame);
/*
 * Shows a frame of display_acquire() or display_import() with no work on it under way, and waits
 * until the screen shows it. The frame is kept until another one has replaced it there.
 * -EIO: what is scanned out is not the frame (only with check).
 */
int display_show(struct display *display, struct hm_frame *frame);
void display_query(struct display *display, struct display_info *ret_info);
/* NULL is allowed. The screen shows what it did before. */
void display_close(struct display *display);

#endif
