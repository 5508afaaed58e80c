/* SPDX-License-Identifier: MIT */
/* Frames to test: how pools are made and looked at, and pictures in frames. */
#ifndef HETMAP_TESTS_FRAME_SUPPORT_H
#define HETMAP_TESTS_FRAME_SUPPORT_H

#include "lib/support.h"

#define SECOND_NS 1000000000ull

/* A pool called "tested" of NV12 pictures of 64 x 32 pixels, which holds its device. */
struct hm_frame_pool *frame_pool(const char *device, enum hm_frame_policy policy,
				 uint32_t n_most);
/* Its numbers, which add up. */
struct hm_frame_pool_info frame_pool_info(struct hm_frame_pool *pool);
struct hm_frame_info frame_info(struct hm_frame *frame);
/* Without a wait, or abandons the test. */
struct hm_frame *frame_acquire(struct hm_frame_pool *pool);
struct hm_frame *frame_take(struct hm_frame_pool *pool);
/* Acquires, sets the timestamp, publishes and lets go. */
void frame_produce(struct hm_frame_pool *pool, int64_t timestamp);
/* Takes, returns the timestamp and lets go. */
int64_t frame_consume(struct hm_frame_pool *pool);
void frame_stamp(struct hm_frame *frame, int64_t timestamp);

/* A pattern in all planes, row by row, and only in the bytes of pixels; each byte is checked. */
void frame_fill(const struct hm_frame_info *info, uint32_t salt);
bool frame_holds(const struct hm_frame_info *info, uint32_t salt);

/* A plane by DRM's documentation: pixels of a row and rows to a sample, its bytes. */
struct frame_sample {
	uint8_t columns, rows, bytes;
};
struct frame_format {
	char name[5];
	uint8_t n_planes;
	struct frame_sample sample[3];
};
/* Ends with an entry without a name. */
extern const struct frame_format frame_formats[];
uint32_t frame_fourcc(const struct frame_format *format);

#endif
