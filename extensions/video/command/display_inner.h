/* SPDX-License-Identifier: MIT */
/* Display: what its files share. */
#ifndef HETMAP_VIDEO_DISPLAY_INNER_H
#define HETMAP_VIDEO_DISPLAY_INNER_H

#include <pthread.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

#include "display.h"

#define DISPLAY_FRAMES 6

struct display_frame {
	struct hm_frame *frame;
	uint32_t fb;            /* id of the kernel's framebuffer */
	uint32_t width, height; /* visible, as it was acquired */
	bool on_screen;
};

struct display {
	int fd;
	bool check;
	struct hm_device *device; /* that imports the dma-bufs, if it can; NULL: host */
	struct hm_device *host;   /* that does otherwise */
	drmModeConnector *connector;
	drmModeCrtc *before; /* what the screen showed */
	drmModeModeInfo mode;
	struct display_info info;

	pthread_mutex_t lock; /* protects all below, and mode and info */
	struct display_frame frame[DISPLAY_FRAMES];
	uint32_t n_frame;
	struct display_frame *shown; /* NULL: none yet */
	bool flipped;                /* the event of the last flip has come */
};

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
/* Compares what the CRTC scans out, read by its framebuffer, with the frame. */
int display_frame_check(struct display *display, const struct display_frame *frame);

#endif
