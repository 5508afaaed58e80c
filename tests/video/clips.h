/* SPDX-License-Identifier: MIT */
/* Clips that the command ffmpeg makes for each test, and their pictures by libavcodec alone. */
#ifndef HETMAP_TESTS_CLIPS_H
#define HETMAP_TESTS_CLIPS_H

#include <hetmap/video.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/command.h"

AUTO_UNREF(hm_video)

#define CLIP_ARGS 24

/* The size that an odd clip has. */
#define ODD_WIDTH 321
#define ODD_HEIGHT 243

/*
 * FOLDER/@name: one second of testsrc2 in @width x @height, 25 pictures, encoded as @options
 * say, up to a NULL. free() it. NULL: that is no ffmpeg that does it, and the test is left out.
 */
char *clip_make(const char *folder, const char *name, unsigned int width, unsigned int height,
		const char *const *options);
/* The first @length bytes of @path, and of the rest @wild ones that are random. free() it. */
char *clip_cut(const char *folder, const char *name, const char *path, uint64_t length,
	       uint64_t wild);
uint64_t clip_length(const char *path);

/* Options of clip_make(): a codec of 4:2:0, 8 bits. */
extern const char *const clip_h264[];
extern const char *const clip_mjpeg[];
extern const char *const clip_vp9[];
extern const char *const clip_mpeg2[];
extern const char *const clip_y4m[];

/* ---- the library ---- */

struct hm_device *host_device(void);
struct hm_video_desc video_desc(struct hm_device *device);
struct hm_video *video_open(struct hm_device *device, const char *path);
struct hm_video_info video_info(struct hm_video *video);

/* ---- the reference ---- */

/* A plain decoder, with memory of its own. */
struct plain {
	AVFormatContext *demuxer;
	AVCodecContext *decoder;
	AVPacket *packet;
	AVFrame *picture; /* the last one */
	int stream;
	bool drained;
};

bool plain_open(struct plain *plain, const char *path);
/* The next picture is in plain->picture; false: there is none. */
bool plain_next(struct plain *plain);
void plain_close(struct plain *plain);

/* dB of two pictures of @width x @height with 4 bytes a pixel, of which 3 count. */
double psnr(const uint8_t *a, uint64_t a_stride, const uint8_t *b, uint64_t b_stride,
	    unsigned int width, unsigned int height);

/*
 * @picture as libswscale makes BGR0 of it with that matrix (SWS_CS_*) and range, in @to with
 * rows of @stride bytes: SWS_POINT, which is each sample of chroma for the pixels that it covers.
 * @to has room for an even number of columns and rows.
 */
bool swscale_reference(const AVFrame *picture, int matrix, bool full, uint8_t *to, int stride);

#endif
