/* SPDX-License-Identifier: MIT */
/* Display: what its files share. */
#ifndef HETMAP_VIDEO_DISPLAY_INNER_H
#define HETMAP_VIDEO_DISPLAY_INNER_H

#include <pthread.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

#include "display.h"

#define DISPLAY_FRAMES 6
#define DISPLAY_IMPORTS 128 /* framebuffers of frames that were allocated elsewhere */

struct display_frame {
	struct hm_frame *frame;
	uint32_t fb;            /* id of the kernel's framebuffer */
	uint32_t width, height; /* visible, as it was acquired */
	bool on_screen;
};

/* A framebuffer in the memory of a frame that was allocated elsewhere. */
struct display_import {
	struct hm_buffer *buffer; /* a reference */
	uint64_t offset;          /* of the first plane */
	uint32_t fb;
};

/* The picture on the screen: a frame of the display's own, or an imported one. */
struct display_shown {
	struct display_frame *own;
	struct hm_frame *imported; /* a reference: its pool does not give it out meanwhile */
	uint32_t fb;               /* 0: nothing */
	uint32_t fourcc;
};

/* Where a card writes what it scans out; connector 0: it can't. */
struct display_writeback {
	uint32_t connector;
	uint32_t crtc_property, fb_property, fence_property;
	uint32_t screen_property; /* CRTC_ID of the screen's connector */
	bool alone;               /* the CRTC feeds either the screen or this connector */
	uint32_t handle, fb, stride;
	unsigned char *pixels; /* NULL: not made yet */
	uint64_t bytes;
};

struct display {
	int fd;
	bool check;
	struct hm_device *device; /* that imports the dma-bufs, if it can; NULL: host */
	struct hm_device *host;   /* that does otherwise */
	drmModeConnector *connector;
	drmModeCrtc *before; /* what the screen showed */
	bool touched;        /* it shows something else since */
	drmModeModeInfo mode;
	struct display_writeback writeback;
	struct display_info info;

	pthread_mutex_t lock; /* protects all below, and mode and info */
	struct display_frame frame[DISPLAY_FRAMES];
	uint32_t n_frame;
	struct display_import import[DISPLAY_IMPORTS]; /* that used last comes last */
	uint32_t n_import;
	struct display_shown shown;
	bool flipped; /* the event of the last flip has come */
};

/* Shows a framebuffer, and sets the mode. (display.c) */
int display_set_mode(struct display *display, uint32_t fb);

/* ---- what there is (display_pick.c) ---- */

/* Opens the card, and chooses connector, CRTC and plane. */
int display_pick(struct display *display, const char *card);
/* Chooses the smallest mode that shows @width x @height. */
int display_pick_mode(struct display *display, uint32_t width, uint32_t height);
void display_unpick(struct display *display);

/* ---- frames (display_frames.c) ---- */

/* A black frame of the mode's size. */
int display_frame_make(struct display *display, struct display_frame *ret_frame);
/* Makes all of it black. */
int display_frame_clear(struct display_frame *frame);
void display_frame_end(struct display *display, struct display_frame *frame);
/*
 * Compares what the CRTC scans out with the frame: what the card writes back, where it can, or
 * else what its framebuffer has. -EOPNOTSUPP: the frame has a format that can't be compared.
 */
int display_frame_check(struct display *display, struct hm_frame *frame);

/* ---- frames that were allocated elsewhere (display_import.c) ---- */

/* 0: display_import() did not take the frame. */
uint32_t display_import_fb_locked(struct display *display, const struct hm_frame_info *info);
void display_import_end(struct display *display);

/* ---- what the card writes back (display_writeback.c) ---- */

/* Looks for a connector. Sets the client's capabilities for that. */
void display_writeback_find(struct display *display);
/* XRGB8888 of the mode's size, until the next call. */
int display_writeback_read(struct display *display, const unsigned char **ret_pixels,
			   uint32_t *ret_stride);
void display_writeback_end(struct display *display);

#endif
