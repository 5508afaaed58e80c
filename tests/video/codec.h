/* SPDX-License-Identifier: MIT */
/* Codecs of a machine under test: vicodec, whose encoder makes the streams of the tests. */
#ifndef HETMAP_TESTS_CODEC_H
#define HETMAP_TESTS_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "video/screen.h"

/* "v4l2:/dev/video2", vicodec's stateful decoder; false: the test is left out, and that is said. */
bool codec_find(char name[PATH_ROOM]);

/* Levels of a grey mark between the bars: of picture @number. */
#define MARK(number) (40 + 20 * ((number) % 10))
/* Where its middle is, in a picture of @height. */
#define MARK_ROW(height) ((height)*30 / 100)

/*
 * Appends @n pictures to @file, a stream of FWHT: the eight bars of bars_off(), the mark, and
 * noise, so that a picture is not small. The encoder gets XRGB8888, or else NV12 of BT.709 in
 * limited range.
 */
void codec_encode(const char *file, bool rgb, uint32_t width, uint32_t height, unsigned int n);

#endif
