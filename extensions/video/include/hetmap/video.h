/* SPDX-License-Identifier: MIT */
/*
 * Video: the pictures of a file or a camera as frames (hetmap/frame.h), in the library
 * libhetmap-video.
 *
 * A decoder of libavcodec writes straight into the frames of a pool: nothing is copied after the
 * decoder. Uncompressed files (.y4m, raw pictures) are read into the frames. An address in a
 * picture is a unified pointer, which launches take:
 *
 *	hm_video_open("clip.mp4", &desc, &video);
 *	while (!(r = hm_video_read(video, &frame))) {
 *		hm_frame_query(frame, &info);          planes, colour, time
 *		hm_queue_launch(...);                  the same bytes
 *		hm_frame_unref(frame);
 *	}
 *	if (r != -ENODATA)
 *		errx(1, "%s", hm_errmsg());
 *
 * libavcodec and libavformat write messages to standard error, unless the program has called
 * av_log_set_level(AV_LOG_QUIET) or av_log_set_callback(). This library does not, because both
 * are settings of the whole process.
 */
#ifndef HETMAP_VIDEO_H
#define HETMAP_VIDEO_H

#include <hetmap/device.h>
#include <hetmap/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_video;

/*
 * hm_video_desc.flags, for cameras and codecs: only this way of sharing memory. 0: the first one,
 * or the second one where the first is refused.
 */
#define HM_VIDEO_DMABUF (1u << 0) /* the driver writes into frames of a pool */
#define HM_VIDEO_EXPBUF (1u << 1) /* frames are made of buffers of the driver */

/* hm_video_info.memory: how a camera or a codec and frames share memory. */
enum hm_video_memory {
	HM_VIDEO_MEMORY_NONE = 0,   /* neither */
	HM_VIDEO_MEMORY_DMABUF = 1, /* as HM_VIDEO_DMABUF */
	HM_VIDEO_MEMORY_EXPBUF = 2, /* as HM_VIDEO_EXPBUF */
};

struct hm_video_desc {
	uint32_t struct_size;
	uint32_t flags; /* HM_VIDEO_* */
	/* Frames are made in this device, which CPUs write at any time (no HM_CAP_BRACKET). */
	struct hm_device *device; /* NULL: the device of pool */
	/* [optional] Several files may share a pool. NULL: the video makes its own one. */
	struct hm_frame_pool *pool;
	/*
	 * [optional] The input is raw: "FORMAT:WIDTHxHEIGHT", and "@RATE" behind that, a number or
	 * a fraction of pictures a second (25 by default). FORMAT is a fourcc, as NV12, or a name
	 * of FFmpeg, as yuv420p. NULL: the file says what it is. A camera is set to this format,
	 * a fourcc; NULL: the camera keeps its present one.
	 */
	const char *format;
	uint32_t threads; /* of the decoder, 64 at most; 0: one for each CPU, 8 at most */
	uint32_t n_most;  /* frames of the video's own pool at a time; 0: no limit */
	/* Longest wait for a frame, where all are in use. 0: 10 seconds. */
	uint64_t timeout_ns;
	const struct hm_frame_align *users; /* alignments of others, for the own pool */
	uint32_t n_users;
	uint32_t policy; /* of a camera, if no frame is free: enum hm_frame_policy */
	/*
	 * [optional] A V4L2 device that decodes, "v4l2:/dev/video1": the file is a bare stream of
	 * the format that the field format names by V4L2's four letters, as FWHT or H264. NULL:
	 * libavcodec decodes.
	 */
	const char *codec;
};

struct hm_video_info {
	uint32_t struct_size;
	uint32_t fourcc; /* of the last picture, or as the file announces; 0: not known yet */
	char decoder[32]; /* of libavcodec, or a codec's driver; "y4m", "raw", "v4l2": a camera */
	uint32_t width;   /* visible pixels, likewise */
	uint32_t height;   /* likewise */
	uint32_t rate_num; /* pictures a second: num / den; 0: unknown */
	uint32_t rate_den;
	uint64_t pictures; /* that hm_video_read() has returned */
	/*
	 * Bytes that this library copied after the decoder: 0, except with decoders of libavcodec
	 * that do not write into their caller's memory (no AV_CODEC_CAP_DR1).
	 */
	uint64_t bytes_copied;
	uint64_t repeated; /* pictures that were returned again: the same frame, as VP9 does */
	uint32_t in_place; /* 1: the decoder, or camera or codec, writes into frames */
	uint32_t memory;   /* enum hm_video_memory */
	/*
	 * Pictures of a camera that hm_video_read() does not return: dropped by the policy or,
	 * for lack of a buffer, by the driver, or damaged.
	 */
	uint64_t dropped;
};

/**
 * hm_video_open - open a file of pictures, or a camera
 * @input:     [in] path of a file, which libavformat reads, or .y4m or raw; "v4l2:/dev/video0"
 * @desc:      [in] device or pool must be set
 * @ret_video: [out] a reference; the caller must drop it with hm_video_unref()
 *
 * Takes the best video stream of the file. Formats of pictures: 8-bit 4:2:0, 4:2:2 and 4:4:4 in
 * three planes (YU12, YU16, YU24), NV12, NV21, NV16, NV24, P010, YUYV, UYVY and R8. Other ones,
 * such as 10 bits in three planes, are -EOPNOTSUPP here or in hm_video_read().
 *
 * A shared pool must have frames of the same format, of at least the decoder's size and with the
 * decoder's alignment: take the pool of a video of the same kind (hm_video_pool()).
 *
 * A camera is a V4L2 device that captures single-planar pictures of NV12, NV21, NV16, NV61, YU12,
 * YUYV, UYVY, XR24 or R8. The camera runs from the first hm_video_read() on, and the
 * policy decides what happens to pictures that nobody reads in time: HM_FRAME_DROP_OLDEST keeps
 * the newest ones, HM_FRAME_DROP_NEWEST the oldest ones, and with HM_FRAME_WAIT the driver
 * has no buffer and drops pictures. No byte is copied: see HM_VIDEO_DMABUF and HM_VIDEO_EXPBUF.
 * A camera has no shared pool, and its device may have brackets (HM_CAP_BRACKET), which the
 * consumer makes.
 *
 * A codec is a V4L2 device with a stateful decoder of single-planar buffers. It decodes the whole
 * file, in whose stream the device itself finds each picture; the pictures have no time. Their
 * formats and the shared memory are those of a camera. A picture is never dropped: the codec waits
 * for a frame. Pictures that change their size under way are -EOPNOTSUPP.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOENT:     there is no such file. Other errors of open(2) are returned likewise.
 *   -EBADMSG:    the file has no video that libavformat finds, or is damaged; or the header of
 *                a .y4m file is malformed.
 *   -EOPNOTSUPP: libavcodec has no decoder for the video (the text names it); the format of the
 *                pictures is none of the above; the device makes no buffers, or wants a bracket
 *                around each access of CPUs (HM_CAP_BRACKET); or a camera or codec has no
 *                single-planar pictures, does not decode the format, or is no V4L2 device.
 *   -EINVAL:     the format of a raw file does not parse; the camera has no such format or size;
 *                a flag or the policy is unknown, or a flag is given for a file; the name of a
 *                codec, or the format of its stream, does not parse; neither device nor pool is
 *                set; or threads is above 64.
 *   -EBUSY:      another process captures from the camera.
 *   -E2BIG:      struct_size is larger than this library knows.
 *
 * In addition the errors of hm_frame_pool_create().
 */
HM_API int hm_video_open(const char *input, const struct hm_video_desc *desc,
			 struct hm_video **ret_video);

/**
 * hm_video_read - return the next picture
 * @video:     [in]
 * @ret_frame: [out] a reference; the caller must drop it with hm_frame_unref()
 *
 * The facts of the frame are set: the visible part, the colour and the time. The decoder may go
 * on reading the frame, and never writes it again: consumers must not write it, either. A frame
 * goes back to its pool after the last reference of the consumers and of the decoder. A decoder
 * of H.264 holds up to 16 frames and one for each of its threads, so a pool with a limit needs
 * that many, and those that consumers hold.
 *
 * If the file is damaged, the call returns the pictures before the damage first, and then the
 * error, at each further call again.
 *
 * Thread safety: any thread; calls for one video wait for each other.
 *
 * Errors:
 *   -ENODATA:    the video has ended.
 *   -EBADMSG:    the file is damaged, or ends within a picture; the text has the number of the
 *                picture and what libavcodec says.
 *   -ETIME:      all frames of the pool stayed in use for timeout_ns, or no picture of a camera
 *                came; the text has the numbers. A camera may be read again.
 *   -EOPNOTSUPP: as for hm_video_open(), where a picture has another format than announced; or
 *                the frames of the shared pool are in a device with HM_CAP_BRACKET.
 *   -EINVAL:     a picture is larger than the frames of the shared pool, or has another format.
 *   -EIO:        the file can't be read.
 *   -ENODEV:     the camera was taken away.
 *
 * In addition the errors of hm_frame_pool_acquire() and, for the own pool,
 * hm_frame_pool_create().
 */
HM_API int hm_video_read(struct hm_video *video, struct hm_frame **ret_frame);

/**
 * hm_video_pool - return the pool that the frames come from
 * @video:    [in]
 * @ret_pool: [out] a reference; the caller must drop it with hm_frame_pool_unref()
 *
 * A video makes a new pool of its own if the pictures change their size or format.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the frames are made of buffers of a camera (HM_VIDEO_MEMORY_EXPBUF).
 *   -ENODATA: the file does not announce the format of its pictures, and none was read yet.
 */
HM_API int hm_video_pool(struct hm_video *video, struct hm_frame_pool **ret_pool);

/**
 * hm_video_query - report the present state of a video
 * @video:    [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread; waits for a call of hm_video_read() that is under way.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_video_query(struct hm_video *video, struct hm_video_info *ret_info);

/** hm_video_ref - take a reference; returns @video. NULL gives NULL. */
HM_API struct hm_video *hm_video_ref(struct hm_video *video);

/**
 * hm_video_unref - drop a reference; NULL is allowed
 *
 * The last reference ends the decoder and its threads. Frames outlive it.
 *
 * Thread safety: any thread, except a callback of libavcodec.
 */
HM_API void hm_video_unref(struct hm_video *video);

#ifdef __cplusplus
}
#endif

#endif
