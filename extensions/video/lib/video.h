/* SPDX-License-Identifier: MIT */
/* Video: the inside of libhetmap-video. */
#ifndef HETMAP_VIDEO_INNER_H
#define HETMAP_VIDEO_INNER_H

#include <hetmap/error.h>
#include <hetmap/hetmap.h>
#include <hetmap/video.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/pixdesc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define TEXT_SIZE 400

/* An error that comes back at each further call, with the text of the thread that met it. */
struct failure {
	int r; /* 0: none */
	char text[TEXT_SIZE];
};

/* What the frames of a pool must be for a picture. */
struct need {
	uint32_t fourcc;
	uint32_t width; /* pixels that the decoder may write */
	uint32_t height;
	uint32_t visible_width;
	uint32_t visible_height;
	uint64_t stride; /* alignment of each plane's rows */
	uint64_t tail;   /* bytes behind a plane that the decoder may touch */
};

/* The frames of a video: their pool, and those that the decoder has (memory.c). */
struct memory {
	struct hm_device *device;
	bool shared; /* the pool is the caller's */
	uint32_t n_most;
	uint64_t timeout_ns;
	struct hm_frame_align *users; /* the caller's */
	uint32_t n_users;

	pthread_mutex_t lock; /* protects all below: threads of the decoder ask for frames */
	struct hm_frame_pool *pool;
	struct hm_frame_layout layout; /* of the pool */
	struct need need;              /* that the own pool was made for */
	struct lent *lent;             /* list of the frames that the decoder has */
	struct failure failure;        /* the first one on a thread of the decoder */
};

/* A frame that the decoder has. It ends with libavcodec's last reference to its buffer. */
struct lent {
	struct lent *next;
	struct memory *memory;
	struct hm_frame *frame;
	struct hm_map *map;
	uint64_t bytes;
	bool delivered; /* to the caller, and its bracket is closed */
};

/* A kind of input. */
struct source {
	/* The next picture. 0, -ENODATA, or the error, with its text set. */
	int (*read)(struct hm_video *video, struct hm_frame **ret_frame);
	void (*close)(struct hm_video *video);
	/* [optional] Brings hm_video.info up to date. */
	void (*refresh)(struct hm_video *video);
};

struct hm_video {
	atomic_uint refs;
	pthread_mutex_t lock; /* protects all below, except memory, which has its own */
	const struct source *source;
	struct memory memory;
	struct hm_video_info info;
	struct failure failure; /* -ENODATA included */
	char *input;
	pid_t process; /* that opened it */
	uint32_t threads;

	/* libavcodec's (decode.c) */
	AVFormatContext *demuxer;
	AVCodecContext *decoder;
	AVPacket *packet;
	AVFrame *picture;
	AVRational time_base;
	int stream;
	int64_t last_end;     /* of the packets so far, in time_base; AV_NOPTS_VALUE: unknown */
	bool drained;         /* no packet is left for the decoder */
	struct failure later; /* damage: told after the pictures before it */

	/* Uncompressed pictures (raw.c) */
	FILE *file;
	enum AVPixelFormat format;
	struct hm_frame_props props;
	bool y4m;

	struct camera *camera; /* v4l2.c */
};

/* Keeps @r with hm_errmsg() in @failure, unless there is one already. Returns @r. */
int failure_keep(struct failure *failure, int r);
/* Sets the text of the failure for hm_errmsg() of this thread. Returns its error. */
int failure_tell(const struct failure *failure);

/* The fourcc of libavutil's format; 0: frames have no such format. (format.c) */
uint32_t format_fourcc(enum AVPixelFormat format);
enum AVPixelFormat format_of_fourcc(uint32_t fourcc);
/* By its fourcc or FFmpeg's name; AV_PIX_FMT_NONE: it is neither, or none of ours. */
enum AVPixelFormat format_by_name(const char *name, size_t length);
/* Of "yuv420p10le", for a text: never NULL. */
const char *format_name(enum AVPixelFormat format);
/* Full range by its name alone (yuvj420p). */
bool format_is_full(enum AVPixelFormat format);

/* ---- frames (memory.c) ---- */

/* @anywhere: the device may have brackets. */
int video_memory_begin(struct memory *memory, const struct hm_video_desc *desc, bool anywhere);
void video_memory_end(struct memory *memory);
/* A pool that fulfils @need is there afterwards. */
int video_memory_prepare(struct memory *memory, const struct need *need);
/* A frame that fulfils @need, with its state. */
int video_memory_acquire(struct memory *memory, const struct need *need,
			 struct hm_frame **ret_frame, struct hm_frame_info *ret_info);
/* AVCodecContext.get_buffer2, with the video in opaque. */
int video_memory_get_buffer(AVCodecContext *decoder, AVFrame *picture, int flags);
/* What a picture of the decoder needs. */
int video_memory_need(AVCodecContext *decoder, enum AVPixelFormat format, int width, int height,
		      struct need *ret_need);
/* The frame that @picture is in, and a reference to it; NULL: it is in no frame of ours. */
struct hm_frame *video_memory_deliver(struct memory *memory, const AVFrame *picture,
				      bool *ret_repeated);

/* ---- kinds of input ---- */

/* Each returns 0 or an error with its text; -ENOENT... of the file itself included. */
int decode_open(struct hm_video *video);
int raw_open(struct hm_video *video, const char *format);
bool raw_is_y4m(const char *input);
/* "640x480@25": size and, where @text has one, rate. */
bool raw_take_size(const char *text, struct hm_video_info *info);
bool camera_is_input(const char *input);
int camera_open(struct hm_video *video, const struct hm_video_desc *desc);

#endif
