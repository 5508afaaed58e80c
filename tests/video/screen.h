/* SPDX-License-Identifier: MIT */
/* Cameras and screens of a machine under test: vivid, and the picture that a card scans out. */
#ifndef HETMAP_TESTS_SCREEN_H
#define HETMAP_TESTS_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#define PATH_ROOM 64

/* "/dev/video0" of the driver vivid; false: the test is left out, and that is said. */
bool vivid_find(char path[PATH_ROOM]);
/* The camera shows this pattern of its menu "Test Pattern", and no text. */
void vivid_show(const char *path, const char *pattern);

/* "/dev/dri/card1" of a driver; false: the test is left out, and that is said. */
bool card_find(const char *driver, char path[PATH_ROOM]);

/* A copy of the picture that a card scans out now, read through a descriptor of its own. */
struct scanned {
	uint32_t width, height, fourcc;
	uint64_t stride;
	uint8_t *bytes; /* free() it */
};

bool scanned_read(const char *card, struct scanned *ret_scanned);

/*
 * Eight bars of full colours from left to right, white first, in the upper left @width x @height
 * pixels of XRGB8888: how far the middle of a bar is off, at most, of 255.
 */
unsigned int bars_off(const uint8_t *pixels, uint64_t stride, uint32_t width, uint32_t height);

#endif
