/* SPDX-License-Identifier: MIT */
/* Sink: where the pictures go. */
#ifndef HETMAP_VIDEO_SINK_H
#define HETMAP_VIDEO_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include <hetmap/hetmap.h>
#include <hetmap/frame.h>

#include "display.h"

struct sink {
	const char *folder;      /* of PNG files; NULL: none are written */
	struct display *display; /* NULL: pictures are not shown */
	bool many;               /* decoders: their number is in the name */
	uint64_t bytes_copied;
};

/* Is it "null", "png:DIR", "display", or "display:CARD"? */
bool sink_is_known(const char *name);
/*
 * Makes the folder, or opens the display for work in @device, which with @check reads each picture
 * back. An exit status; a failure is reported.
 */
int sink_open(struct sink *sink, const char *name, struct hm_device *device, bool many,
	      bool check);
void sink_close(struct sink *sink);
/*
 * Takes an XRGB8888 picture, or for a display one of display_import(), with no work on it under
 * way. An exit status; a failure is
 * reported.
 */
int sink_take(struct sink *sink, struct hm_frame *frame, unsigned int decoder, uint64_t number);

#endif
