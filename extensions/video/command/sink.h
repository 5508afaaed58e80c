/* SPDX-License-Identifier: MIT */
/* Sink: where the pictures go. */
#ifndef HETMAP_VIDEO_SINK_H
#define HETMAP_VIDEO_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include <hetmap/hetmap.h>
#include <hetmap/frame.h>

struct sink {
	const char *folder; /* of PNG files; NULL: pictures are thrown away */
	bool many;          /* decoders: their number is in the name */
	uint64_t bytes_copied;
};

/* Is it "null", or "png:DIR"? */
bool sink_is_known(const char *name);
/* Makes the folder. An exit status; a failure is reported. */
int sink_open(struct sink *sink, const char *name, bool many);
/*
 * Takes an XRGB8888 picture, with no work on it under way. An exit status; a failure is
 * reported.
 */
int sink_take(struct sink *sink, struct hm_frame *frame, unsigned int decoder, uint64_t number);

#endif
