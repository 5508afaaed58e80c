/* SPDX-License-Identifier: MIT */
/*
 * Camera: a V4L2 device whose buffers are frames. A thread of its own takes finished pictures
 * from the driver and gives it empty buffers, in one of two ways (struct camera_way). A codec is
 * a camera that a compressed stream is given to.
 */
#ifndef HETMAP_VIDEO_CAMERA_H
#define HETMAP_VIDEO_CAMERA_H

#include "video.h"

#define CAMERA_BUFFERS 32 /* of a driver, at most: V4L2's VIDEO_MAX_FRAME */
#define CAMERA_FRAMES 64  /* of a pool, at most */
#define CAMERA_LOOK_MS 5  /* a wait is interrupted as often, to look at what has changed */

/* A finished picture, as the driver tells it. */
struct camera_picture {
	uint32_t index; /* of the driver's buffer */
	bool damaged;
	bool last; /* of a codec: no buffer is to be given back any more */
	struct hm_frame_props props;
};

/* How driver and frames share memory. Each function returns 0 or an error with its text. */
struct camera_way {
	uint32_t memory; /* enum hm_video_memory */
	uint32_t type;   /* enum v4l2_memory */
	/* All buffers exist and are the driver's. A failure leaves nothing behind. */
	int (*prepare)(struct camera *camera);
	/* The rest is on the camera's thread. Passes a picture on, or drops it. */
	int (*finish)(struct camera *camera, const struct camera_picture *picture);
	/* Gives the driver the buffers that have come back. */
	int (*refill)(struct camera *camera);
	/* On a consumer's thread: the next picture; -ETIME: none for @ms. */
	int (*take)(struct camera *camera, unsigned int ms, struct hm_frame **ret_frame);
	/* After the thread's end: drops all frames. */
	void (*close)(struct camera *camera);
};

/* State of a buffer of the driver. */
enum camera_state {
	CAMERA_QUEUED, /* the driver fills it */
	CAMERA_READY,  /* expbuf: has a picture that nobody has taken */
	CAMERA_TAKEN,  /* expbuf: a consumer has it */
};

struct camera_slot {
	struct hm_frame *frame;
	struct hm_frame_info info; /* of the frame; constant parts count */
	enum camera_state state;
};

struct camera {
	struct hm_video *video;
	char *name;               /* "v4l2:/dev/video0" */
	struct camera_feed *feed; /* of a codec; NULL: a camera (v4l2_codec.c) */
	struct hm_device *device;
	int fd;
	const struct camera_way *way;
	struct hm_frame_layout layout;
	struct hm_frame_props props; /* of each picture, without its time */
	uint32_t policy;
	uint32_t n_most;     /* frames of the pool that the caller allows; 0: no limit */
	uint32_t n_driver;   /* buffers that the driver has at a time, at least */
	uint32_t n_slot;     /* buffers of the driver */
	uint32_t image_size; /* bytes of a picture in a buffer */

	pthread_t thread;
	bool started;
	atomic_bool stop;
	uint64_t n_picture; /* the thread's: that were finished */
	bool ended;         /* likewise: the codec has given its last one */

	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t changed;
	struct camera_slot slot[CAMERA_BUFFERS];
	uint64_t dropped; /* without those that a pool counts */
	uint32_t sequence; /* of the last picture; the driver counts those that it dropped, too */
	bool counting;     /* there was one */
	struct failure failure; /* of the thread: it has ended */

	/* v4l2_dmabuf.c */
	struct hm_frame_pool *pool;
	/* By the frame's number in the pool, which is another one's if a broken frame ends. */
	struct camera_export {
		struct hm_buffer *buffer; /* a reference; NULL: none yet */
		int fd;                   /* dma-buf */
	} exports[CAMERA_FRAMES];

	/* v4l2_expbuf.c */
	uint32_t ready[CAMERA_BUFFERS]; /* slots, the oldest first */
	uint32_t n_ready;
};

extern const struct camera_way camera_dmabuf, camera_expbuf;

/* ---- the driver (v4l2.c) ---- */

int camera_ioctl(const struct camera *camera, unsigned long request, void *argument);
/* VIDIOC_REQBUFS; 0 buffers: the driver forgets all. */
int camera_request(struct camera *camera, uint32_t type, uint32_t n, uint32_t *ret_n);
/* VIDIOC_QBUF; @fd: of a dma-buf. */
int camera_queue(struct camera *camera, uint32_t index, int fd);
int camera_failed(const struct camera *camera, int r, const char *what);

/* ---- codecs (v4l2_codec.c) ---- */

/* Opens the stream, gives the driver its begin, and takes the format of its pictures. */
int codec_begin(struct camera *camera, const char *format);
void codec_end(struct camera *camera);
/* What to wait for by poll(2), and what to do then. */
short codec_events(const struct camera *camera);
int codec_serve(struct camera *camera, short events);
/* After the last picture: -ENODATA, or why there are no more, with its text. */
int codec_ended(const struct camera *camera);

/* ---- formats (v4l2_format.c) ---- */

/* Sets @format, or takes the present one: fills the camera's layout and facts. */
int camera_set_format(struct camera *camera, const char *format);

#endif
