/* SPDX-License-Identifier: MIT */
/* Convert: pictures of YUV become XRGB8888, by a kernel on an accelerator. */
#ifndef HETMAP_VIDEO_CONVERT_H
#define HETMAP_VIDEO_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include <hetmap/frame.h>
#include <hetmap/hetmap.h>

/* How the colour of a picture was taken. */
struct convert_colour {
	const char *matrix; /* "BT.601", ... */
	const char *range;  /* "limited", "full" */
	bool guessed;       /* the picture does not say: by its size */
};

/* The kernel, in its forms. 0 or the error of hm_kernel_create(). */
int convert_create(struct hm_kernel **ret_kernel);
/* Does the kernel take pictures of this format? */
bool convert_takes(uint32_t fourcc);
/*
 * Launches the conversion of the visible part of @from into @to, an XRGB8888 frame of at least
 * that size. 0, or an error with its text: -EOPNOTSUPP for a format or a matrix that the kernel
 * has not.
 */
int convert_launch(struct hm_queue *queue, struct hm_kernel *kernel,
		   const struct hm_frame_info *from, const struct hm_frame_info *to,
		   struct hm_fence **ret_fence);
/* The same for a picture that is XRGB8888 already: a copy, by any accelerator. */
int convert_copy(struct hm_queue *queue, const struct hm_frame_info *from,
		 const struct hm_frame_info *to, struct hm_fence **ret_fence);
void convert_colour_of(const struct hm_frame_info *from, struct convert_colour *ret_colour);

#endif
