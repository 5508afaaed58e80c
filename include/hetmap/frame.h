/* SPDX-License-Identifier: MIT */
/*
 * Frame: a picture in memory of a device, that producers and consumers share without a copy.
 *
 * A frame pool makes frames of one format and size, each one a buffer with a map of all of it. A
 * producer acquires a frame, fills it and publishes it; a consumer takes it. With its last
 * reference the frame goes back to the pool. The pool gives a frame out again only after all work
 * on it has ended: the work that the library submitted, and the fences that were added to it.
 *
 *	producer                          consumer
 *	hm_frame_pool_acquire()
 *	hm_frame_query(), fill the planes
 *	hm_frame_set()
 *	hm_frame_fence_add(HM_WRITE)
 *	hm_frame_publish()                hm_frame_pool_take()
 *	hm_frame_unref()                  hm_frame_wait(HM_READ), or hm_frame_fence_get()
 *	                                  read the planes
 *	                                  hm_frame_fence_add(HM_READ)
 *	                                  hm_frame_unref()
 *
 * An address in a frame is a unified pointer like any other. The planes, the facts and the fences
 * of a frame are in ordinary memory: they are still there after the device was taken away.
 */
#ifndef HETMAP_FRAME_H
#define HETMAP_FRAME_H

#include <hetmap/fence.h>
#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_frame;
struct hm_frame_pool;

/* ---- formats ---- */

/*
 * A format is a DRM fourcc: the numbers of drm_fourcc.h. The library knows the planes of these:
 *
 *	NV12 NV21 NV16 NV61 NV24 NV42  8 bits, a plane of luma and one of both chroma
 *	P010 P012 P016                 the same as NV12 in 16-bit words
 *	YU12 YV12 YU16 YV16 YU24 YV24  8 bits, three planes
 *	YUYV YVYU UYVY VYUY            8 bits, one plane, two pixels in 4 bytes
 *	XR24 AR24 XB24 AB24 RX24 RA24 BX24 BA24  one plane, 4 bytes a pixel
 *	R8, R16, GR88                  one plane, 1 and 2 bytes a pixel
 *
 * HM_FRAME_FOURCC('N', 'V', '1', '2') is a fourcc; "R8  " is padded with spaces.
 */
#define HM_FRAME_FOURCC(a, b, c, d) \
	((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

#define HM_FRAME_NV12 HM_FRAME_FOURCC('N', 'V', '1', '2')
#define HM_FRAME_P010 HM_FRAME_FOURCC('P', '0', '1', '0')
#define HM_FRAME_YUV420 HM_FRAME_FOURCC('Y', 'U', '1', '2')
#define HM_FRAME_YUYV HM_FRAME_FOURCC('Y', 'U', 'Y', 'V')
#define HM_FRAME_XRGB8888 HM_FRAME_FOURCC('X', 'R', '2', '4')
#define HM_FRAME_R8 HM_FRAME_FOURCC('R', '8', ' ', ' ')

/* A modifier is that of drm_fourcc.h, too: 0 is DRM_FORMAT_MOD_LINEAR, rows one after another. */
#define HM_FRAME_LINEAR 0ull

/* Most planes of a format, and most objects of a frame. */
#define HM_FRAME_PLANES 4

/*
 * The structs of planes, rectangles, alignments and layouts have no struct_size, because they are
 * members of other structs: they never change.
 */

/* Where a plane is. */
struct hm_frame_plane {
	uint64_t offset; /* of the first byte, in the plane's object */
	uint64_t stride; /* bytes from the start of a row to that of the next one */
	uint64_t bytes;  /* of the whole plane: stride times rows, if it is linear */
	uint32_t rows;   /* 0: the modifier has no rows */
	uint32_t object; /* index of the buffer; 0 in a frame of a pool */
};

/* Pixels from the upper left corner of the coded picture. */
struct hm_frame_rect {
	uint32_t x, y, width, height;
};

/*
 * What a user of frames needs: a decoder, an accelerator, a display. Each number is a power of
 * two; 0: the user needs nothing. Of several users the strictest number counts.
 */
struct hm_frame_align {
	uint64_t stride; /* bytes of a row, of each plane; 64 at least */
	uint64_t plane;  /* offset of a plane; 4096 at least */
	uint64_t size;   /* bytes of a frame; 4096 at least */
	uint64_t tail;   /* bytes behind each plane that may be touched; any number */
	uint32_t width;  /* pixels of the coded picture */
	uint32_t height; /* likewise */
};

/* The planes of a picture. */
struct hm_frame_layout {
	uint32_t fourcc;
	uint32_t n_planes;
	uint64_t modifier;
	uint32_t width;  /* coded: rounded up as the alignment says */
	uint32_t height; /* likewise */
	uint64_t bytes;  /* of a frame */
	struct hm_frame_plane plane[HM_FRAME_PLANES];
	uint64_t reserved[2];
};

/**
 * hm_frame_layout_query - compute the planes of a linear picture
 * @fourcc:        [in] a format that the library knows, see above
 * @width, @height: [in] pixels, from 1
 * @users:         [in, optional] alignments of @n_users users
 * @n_users:       [in] number of @users; 0: the least alignment
 * @ret_layout:    [out]
 *
 * The planes are in the order of the format, in one object, without a byte in common. A row of
 * plane i has all of the samples of a row of the picture; an odd size is rounded up to whole
 * samples of chroma. The strides have the proportion of the format: that of a chroma plane of
 * YU12 is half of that of the luma, that of NV12 is equal. A user that is told one stride can thus
 * compute the others. The stride of the luma may be rounded up further than its alignment needs.
 *
 * The call needs no device, and uses none.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:    the width or the height is 0, or an alignment is not a power of two up to 2^30
 *               (the tail: not up to 2^30).
 *   -EOPNOTSUPP: the library does not know the format; the text names those that it knows.
 *   -EOVERFLOW: the coded width or height is above 2^32 - 1, or a frame would have more than
 *               2^62 bytes.
 */
HM_API int hm_frame_layout_query(uint32_t fourcc, uint32_t width, uint32_t height,
				 const struct hm_frame_align *users, uint32_t n_users,
				 struct hm_frame_layout *ret_layout);

/* ---- what is in a picture ---- */

/* hm_frame_props.range: the values that samples use. */
enum hm_frame_range {
	HM_FRAME_RANGE_UNKNOWN = 0,
	HM_FRAME_RANGE_LIMITED = 1, /* VideoFullRangeFlag 0 of H.273: 16 to 235 */
	HM_FRAME_RANGE_FULL = 2,    /* VideoFullRangeFlag 1: 0 to 255 */
};

/* Facts of hm_frame_props, for hm_frame_set() and hm_frame_objects.fields */
#define HM_FRAME_VISIBLE (1u << 0) /* visible */
#define HM_FRAME_COLOUR (1u << 1)  /* primaries, transfer, matrix, range, chroma */
#define HM_FRAME_TIME (1u << 2)    /* timestamp, duration, time_base_* */

/* hm_frame_props.timestamp: none is known */
#define HM_FRAME_NO_TIME INT64_MIN

/*
 * Facts about a picture. The numbers of colour are those of ITU-T H.273, which H.264, HEVC, VP9
 * and AV1 use, and FFmpeg, too.
 */
struct hm_frame_props {
	struct hm_frame_rect visible; /* the part to show, inside the coded picture */
	uint32_t primaries;           /* ColourPrimaries; 1: BT.709, 2: unknown */
	uint32_t transfer;            /* TransferCharacteristics; 2: unknown */
	uint32_t matrix; /* MatrixCoefficients; 0: RGB, 1: BT.709, 2: unknown, 6: BT.601 */
	uint32_t range;  /* enum hm_frame_range */
	uint32_t chroma; /* Chroma420SampleLocType + 1; 0: unknown, 1: left, 2: center */
	uint32_t time_base_num; /* seconds: num / den */
	uint32_t time_base_den;
	uint32_t reserved;
	int64_t timestamp; /* in units of the time base; HM_FRAME_NO_TIME */
	int64_t duration;  /* likewise; 0: unknown */
	uint64_t reserved2[2];
};

/* hm_frame_info.flags */
#define HM_FRAME_PUBLISHED (1u << 0) /* hm_frame_publish() was called since it was acquired */
#define HM_FRAME_IMPORTED (1u << 1)  /* by hm_frame_import() or hm_frame_receive(): no pool */

/* The present state of a frame. Pointers are borrowed: they are valid as long as the frame is. */
struct hm_frame_info {
	uint32_t struct_size;
	uint32_t flags; /* HM_FRAME_PUBLISHED, HM_FRAME_IMPORTED */
	uint32_t fourcc;
	uint32_t n_planes;
	uint64_t modifier;
	uint32_t width;  /* coded */
	uint32_t height; /* likewise */
	struct hm_frame_plane plane[HM_FRAME_PLANES];
	void *address[HM_FRAME_PLANES]; /* of each plane's first byte: a unified pointer */
	struct hm_buffer *buffer[HM_FRAME_PLANES]; /* the objects */
	struct hm_map *map[HM_FRAME_PLANES]; /* a map of all of each object, for brackets */
	uint32_t n_objects;
	uint32_t index;  /* of the frame in its pool, from 0; reused once a frame has ended */
	uint64_t serial; /* counts acquisitions of the pool from 1; unique among its pictures */
	uint32_t refs;   /* references at this moment */
	uint32_t n_fences; /* added, and not seen done yet */
	struct hm_frame_props props;
};

/* ---- pools ---- */

/* What hm_frame_pool_acquire() does if all frames are in use. */
enum hm_frame_policy {
	HM_FRAME_WAIT = 0,        /* waits for one to come back */
	HM_FRAME_DROP_OLDEST = 1, /* drops the picture that waits longest for a consumer */
	HM_FRAME_DROP_NEWEST = 2, /* gives none: the producer drops its new picture */
};

/* hm_frame_pool_desc.flags */
#define HM_FRAME_POOL_POPULATE (1u << 0) /* pages of a new frame are present */

struct hm_frame_pool_desc {
	uint32_t struct_size;
	uint32_t flags;   /* HM_FRAME_POOL_* */
	const char *name; /* of the buffers, shown in /proc/self/maps; NULL: "frame" */
	uint32_t fourcc;
	uint32_t policy;   /* enum hm_frame_policy */
	uint64_t modifier; /* HM_FRAME_LINEAR, or with layout any other */
	uint32_t width;    /* pixels of the coded picture, before rounding up */
	uint32_t height;   /* likewise */
	/* The part that a new frame shows; width 0: all of width and height above. */
	struct hm_frame_rect visible;
	uint32_t n_least; /* frames that hm_frame_pool_create() makes, and that stay */
	uint32_t n_most;  /* frames that exist at a time; 0: no limit */
	const struct hm_frame_align *users; /* NULL: none */
	uint32_t n_users;
	uint32_t place; /* enum hm_place: hetmap/buffer.h */
	/*
	 * Planes as a driver wants them, all in object 0. NULL: as hm_frame_layout_query(). The
	 * call reads n_planes, bytes and plane. A format that the library does not know, and a
	 * modifier other than HM_FRAME_LINEAR, need a layout; the rows of its planes may be 0.
	 */
	const struct hm_frame_layout *layout;
	uint32_t numa_mode; /* enum hm_numa_mode: hetmap/buffer.h */
	uint32_t reserved;
	uint64_t numa_nodes; /* likewise */
};

/* frames is the sum of free, held, ready and busy. */
struct hm_frame_pool_info {
	uint32_t struct_size;
	uint32_t flags; /* HM_FRAME_POOL_* */
	char name[64];
	uint32_t policy; /* enum hm_frame_policy */
	uint32_t ended;  /* 1: hm_frame_pool_end() was called */
	uint32_t n_least;
	uint32_t n_most;
	uint32_t frames;         /* now */
	uint32_t free;           /* may be acquired at once */
	uint32_t held;           /* by producers and consumers */
	uint32_t ready;          /* published, and not taken yet */
	uint32_t busy;           /* without references, while work on them goes on */
	uint32_t frames_peak;    /* the most frames so far */
	uint64_t bytes;          /* of all frames now */
	uint64_t acquired;       /* so far */
	uint64_t published;      /* so far */
	uint64_t taken;          /* so far */
	uint64_t dropped_oldest; /* published pictures that HM_FRAME_DROP_OLDEST dropped */
	uint64_t dropped_newest; /* calls that HM_FRAME_DROP_NEWEST refused */
	uint64_t waited;         /* calls of hm_frame_pool_acquire() that had to wait */
	uint64_t waited_ns;      /* nanoseconds of all these waits */
	struct hm_frame_layout layout; /* of each frame */
};

/**
 * hm_frame_pool_create - make a pool of frames
 * @device:   [in] device with HM_CAP_CREATE; the pool takes a reference
 * @desc:     [in] fourcc, width and height must be set
 * @ret_pool: [out] a reference; the caller must drop it with hm_frame_pool_unref()
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     a flag or the policy is unknown; n_least is above n_most; the visible part is
 *                not inside the coded picture; the name has more than 48 bytes; the layout has
 *                no bytes, no plane, or a plane that is too short for the picture, is not in
 *                object 0, or shares bytes with another one; or as for hm_frame_layout_query().
 *   -ERANGE:     a plane of the layout ends behind the bytes; the text has the numbers.
 *   -EOPNOTSUPP: the device makes no buffers (HM_CAP_CREATE); the description has no layout,
 *                and the library does not know the format, or the modifier is not
 *                HM_FRAME_LINEAR; or the modifier is DRM_FORMAT_MOD_INVALID.
 *   -EOVERFLOW:  as for hm_frame_layout_query().
 *   -ENODEV:     the device was taken away.
 *
 * In addition the errors of hm_buffer_create() and hm_map_create(), for the n_least frames.
 */
HM_API int hm_frame_pool_create(struct hm_device *device, const struct hm_frame_pool_desc *desc,
				struct hm_frame_pool **ret_pool);

/**
 * hm_frame_pool_acquire - get a frame to put a picture into
 * @pool:       [in]
 * @timeout_ns: [in] nanoseconds, relative; 0 does not wait, UINT64_MAX waits for ever
 * @ret_frame:  [out] a reference; the caller must drop it with hm_frame_unref()
 *
 * The frame that came back last is given out first. If none is free, the call makes a new one, up
 * to n_most. If all are in use, the policy of the pool decides:
 *
 *	WAIT         waits for a frame, up to @timeout_ns.
 *	DROP_OLDEST  takes at once the picture out of the ready queue that waits there longest and
 *	             that nobody else holds, and counts it. If no picture can be dropped, because
 *	             consumers hold them or work on them goes on, the call waits as with WAIT.
 *	DROP_NEWEST  fails at once with -ENOBUFS, and counts that.
 *
 * No work uses the frame any more: the caller may write without a wait. The bytes are those of
 * an earlier picture, or zero. The facts (struct hm_frame_props) are the pool's: its visible
 * part, no colour, no time. If the device was taken away, the call ends the free frames in it; a
 * frame with pages that were lost and replaced (hetmap/guard.h) ends as well.
 *
 * Thread safety: any thread; any number of threads may wait. They are not served in order.
 *
 * Errors:
 *   -ETIME:   all frames are in use; the text says how many are held, ready and busy.
 *   -ENOBUFS: all frames are in use, and the policy is DROP_NEWEST.
 *   -EPIPE:   hm_frame_pool_end() was called.
 *   -ENODEV:  the device was taken away.
 *
 * In addition the errors of hm_buffer_create() and hm_map_create(), for a new frame.
 */
HM_API int hm_frame_pool_acquire(struct hm_frame_pool *pool, uint64_t timeout_ns,
				 struct hm_frame **ret_frame);

/**
 * hm_frame_publish - hand a picture to the consumers of its pool
 * @frame: [in] frame that hm_frame_pool_acquire() gave; the caller keeps its reference
 *
 * Puts the frame at the end of the pool's ready queue, which takes a reference. From here on the
 * facts stay as they are, and each consumer may read the bytes. Work of the producer that is not
 * done yet belongs into a fence: hm_frame_fence_add() with HM_WRITE before the call.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EBUSY: the frame was published before.
 *   -EPIPE: hm_frame_pool_end() was called, or the last reference to the pool was dropped.
 *   -EOPNOTSUPP: the frame was imported, and has no pool.
 */
HM_API int hm_frame_publish(struct hm_frame *frame);

/**
 * hm_frame_pool_take - take the picture out of the ready queue that waits there longest
 * @pool:       [in]
 * @timeout_ns: [in] nanoseconds, relative; 0 does not wait, UINT64_MAX waits for ever
 * @ret_frame:  [out] the queue's reference; the caller must drop it with hm_frame_unref()
 *
 * The producer's work may go on: see hm_frame_wait() and hm_frame_fence_get().
 *
 * Thread safety: any thread; each picture goes to one call.
 *
 * Errors:
 *   -ETIME: no picture was ready in time.
 *   -EPIPE: no picture is ready, and hm_frame_pool_end() was called.
 */
HM_API int hm_frame_pool_take(struct hm_frame_pool *pool, uint64_t timeout_ns,
			      struct hm_frame **ret_frame);

/**
 * hm_frame_pool_end - tell that no further picture comes
 * @pool: [in]
 *
 * Wakes all waiting threads. Pictures in the ready queue may still be taken. A second call does
 * nothing.
 *
 * Thread safety: any thread.
 *
 * Errors: only those that every function may have.
 */
HM_API int hm_frame_pool_end(struct hm_frame_pool *pool);

/**
 * hm_frame_pool_trim - give frames that are free back to the device
 * @pool:       [in]
 * @keep:       [in] frames to keep, of all that exist; below n_least: n_least
 * @ret_frames: [out, optional] number of frames that ended
 *
 * Thread safety: any thread.
 *
 * Errors: only those that every function may have.
 */
HM_API int hm_frame_pool_trim(struct hm_frame_pool *pool, uint32_t keep, uint32_t *ret_frames);

/**
 * hm_frame_pool_query - report the present state of a pool
 * @pool:     [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * The numbers are those of one moment.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_frame_pool_query(struct hm_frame_pool *pool, struct hm_frame_pool_info *ret_info);

/** hm_frame_pool_ref - take a reference; returns @pool. NULL gives NULL. */
HM_API struct hm_frame_pool *hm_frame_pool_ref(struct hm_frame_pool *pool);

/**
 * hm_frame_pool_unref - drop a reference; NULL is allowed
 * @pool: [in]
 *
 * The last reference drops the pictures of the ready queue. Frames outlive it: each ends with
 * its own last reference, and none can be published any more.
 *
 * Thread safety: any thread.
 */
HM_API void hm_frame_pool_unref(struct hm_frame_pool *pool);

/* ---- frames ---- */

/**
 * hm_frame_query - report the present state of a frame
 * @frame:    [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Also answers after the device was taken away.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_frame_query(struct hm_frame *frame, struct hm_frame_info *ret_info);

/**
 * hm_frame_set - set facts about a picture
 * @frame:  [in] frame that was not published yet, or an imported one
 * @fields: [in] facts that count: HM_FRAME_VISIBLE, HM_FRAME_COLOUR, HM_FRAME_TIME
 * @props:  [in]
 *
 * Sets all facts that @fields names or none.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: a field is unknown, or none is named; the visible part is empty or not inside the
 *            coded picture; a number of H.273 is above 255; the range or the chroma is
 *            unknown; or a timestamp comes with a time base of 0.
 *   -EBUSY:  the frame was published: its consumers may be reading the facts.
 */
HM_API int hm_frame_set(struct hm_frame *frame, uint32_t fields,
			const struct hm_frame_props *props);

/**
 * hm_frame_fence_add - add work that uses the bytes of a frame
 * @frame:  [in]
 * @fence:  [in] fence of any queue, imported or merged; the frame takes a reference
 * @access: [in] access of the work to the bytes: HM_READ, HM_WRITE or both
 *
 * Work that the library submits on an address in the frame keeps the frame out of the pool by
 * itself. A fence is for work outside of the library, and for consumers that shall wait for the
 * work on an accelerator.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: @access has an unknown bit or none, or @fence is not a fence.
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_frame_fence_add(struct hm_frame *frame, struct hm_fence *fence, uint32_t access);

/**
 * hm_frame_fence_get - return a fence of the work that an access must wait for
 * @frame:     [in]
 * @access:    [in] HM_READ: the work that writes; with HM_WRITE: all work
 * @ret_fence: [out] a reference, which the caller drops with hm_fence_unref(); NULL: no such
 *             work is under way, and none has failed
 *
 * The fence stands for the fences that were added so far. Work that the library submitted counts
 * only if its fence was added. Give the result to hm_queue_wait(), or wait for it.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: @access has an unknown bit or none.
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_frame_fence_get(struct hm_frame *frame, uint32_t access,
			      struct hm_fence **ret_fence);

/**
 * hm_frame_wait - wait for the work that an access must wait for
 * @frame:      [in]
 * @access:     [in] HM_READ: the work that writes; with HM_WRITE: all work
 * @timeout_ns: [in] nanoseconds, relative; 0 polls, UINT64_MAX waits for ever
 *
 * Waits for the fences that were added so far, each as hm_fence_wait() does. Work that the library
 * submitted counts only if its fence was added. CPU code that then touches the planes of a buffer
 * with HM_CAP_BRACKET brackets the access: hm_map_begin_cpu() with hm_frame_info.map.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ETIME:  the work is not done yet; wait again.
 *   -EINVAL: @access has an unknown bit or none.
 *   -ENOMEM: not enough memory is available.
 *
 * In addition the errors of hm_fence_wait(): the result of the first work that failed.
 */
HM_API int hm_frame_wait(struct hm_frame *frame, uint32_t access, uint64_t timeout_ns);

/** hm_frame_ref - take a reference; returns @frame. NULL gives NULL. */
HM_API struct hm_frame *hm_frame_ref(struct hm_frame *frame);

/**
 * hm_frame_unref - drop a reference; NULL is allowed
 * @frame: [in]
 *
 * With the last reference a frame goes back to its pool: at once if no work uses it, else once
 * that work is done. An imported frame ends. The call never waits.
 *
 * Thread safety: any thread.
 */
HM_API void hm_frame_unref(struct hm_frame *frame);

/* ---- other libraries and processes ---- */

/*
 * A frame as a set of descriptors: what DRM's AddFB2, VA-API's DRM PRIME 2, V4L2 and FFmpeg's
 * AVDRMFrameDescriptor take and give. hm_frame_export() fills it, hm_frame_import() reads it.
 */
struct hm_frame_objects {
	uint32_t struct_size;
	uint32_t fourcc;
	uint64_t modifier;
	uint32_t width;  /* coded */
	uint32_t height; /* likewise */
	uint32_t n_planes;
	uint32_t n_objects;
	int32_t fd[HM_FRAME_PLANES];    /* of each object; several may name the same one */
	uint64_t size[HM_FRAME_PLANES]; /* bytes of each object; import: 0: ask the object */
	struct hm_frame_plane plane[HM_FRAME_PLANES]; /* plane.object: index of fd */
	struct hm_frame_props props;                  /* import: those that fields names */
	uint32_t fields; /* import: HM_FRAME_VISIBLE and so on; export: all */
	uint32_t reserved;
};

/**
 * hm_frame_export - return file descriptors of the objects of a frame
 * @frame:       [in] the buffers have HM_CAP_EXPORT
 * @flags:       [in] HM_EXPORT_*: HM_EXPORT_DMABUF for another device or a display
 * @ret_objects: [in,out] the caller must set struct_size; the caller must close each fd
 *
 * The descriptors share the bytes of the frame, and keep them alive after the frame, its pool
 * and this process have ended. The pool does not see that they are in use: hold a reference to
 * the frame as long as another user reads it, or add a fence. Each fd is O_CLOEXEC; entries
 * beyond n_objects are -1.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 *
 * In addition the errors of hm_buffer_export().
 */
HM_API int hm_frame_export(struct hm_frame *frame, uint32_t flags,
			   struct hm_frame_objects *ret_objects);

/**
 * hm_frame_import - make a frame of objects of another process or library
 * @device:    [in] device with HM_CAP_IMPORT
 * @objects:   [in] the library keeps duplicates of the descriptors; the caller keeps its own
 * @flags:     [in] 0, or HM_BUFFER_READ_ONLY: the maps are for reading
 * @ret_frame: [out] a reference; the caller must drop it with hm_frame_unref()
 *
 * Planes may be in one object or in several. Descriptors of the same memory become one buffer.
 * If the library knows the format, and the picture is linear, it checks that each plane holds the
 * picture; plane.bytes and plane.rows may be 0 then. Else plane.bytes tells the size of a plane;
 * 0: to the end of its object.
 *
 * The frame has no pool. The library does not know when the maker of the frame uses the bytes
 * again: references and fences of the frame are those of this process only.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:    the width or the height is 0; n_planes or n_objects is 0, above
 *               HM_FRAME_PLANES, or not that of the format; a plane names an object that is
 *               not there, or its stride is too short; or a fact is as -EINVAL of
 *               hm_frame_set().
 *   -ERANGE:    a plane ends behind the end of its object; the text has the numbers.
 *   -EOVERFLOW: a plane's stride times its rows is above 2^62.
 *   -EOPNOTSUPP: the modifier is DRM_FORMAT_MOD_INVALID, which tells nothing; or the device
 *               imports no such object.
 *
 * In addition the errors of hm_buffer_import() and hm_map_create().
 */
HM_API int hm_frame_import(struct hm_device *device, const struct hm_frame_objects *objects,
			   uint32_t flags, struct hm_frame **ret_frame);

/**
 * hm_frame_send - give a frame to another process
 * @frame:  [in]
 * @socket: [in] connected, AF_UNIX, SOCK_STREAM or SOCK_SEQPACKET; the caller keeps it
 * @flags:  [in] HM_EXPORT_*, as for hm_buffer_send()
 *
 * Sends the objects as hm_buffer_send() does, and a header with the planes and the facts. The
 * bytes stay valid in the other process when this one drops the frame, or ends. The pool does not
 * see the receiver: hold a reference until it is done.
 *
 * Over a non-blocking socket the call waits up to 10 s once a part of the frame is under way.
 *
 * Thread safety: any thread; sends over one socket must follow one another.
 *
 * Errors:
 *   -EIO: only a part of the frame was sent; the caller must close the socket.
 *
 * In addition the errors of hm_buffer_send(); nothing was sent then.
 */
HM_API int hm_frame_send(struct hm_frame *frame, int socket, uint32_t flags);

/**
 * hm_frame_receive - take a frame that another process has sent
 * @device:    [in] as for hm_buffer_receive()
 * @socket:    [in] as for hm_frame_send()
 * @flags:     [in] 0, or HM_BUFFER_READ_ONLY: the maps are for reading
 * @ret_frame: [out] a reference; the caller must drop it with hm_frame_unref()
 *
 * A receiver does not trust the sender: planes are checked as by hm_frame_import(), and objects
 * as by hm_buffer_receive(). The frame has no pool, as one of hm_frame_import().
 *
 * Over a non-blocking socket the call waits up to 10 s for the rest of a frame that has begun to
 * come. After a failure other than -EAGAIN, -EINTR and those of the arguments the caller must
 * close the socket.
 *
 * Thread safety: any thread; receives over one socket must follow one another.
 *
 * Errors:
 *   -EAGAIN: the socket is non-blocking, and nothing is there.
 *   -EIO:    the socket is non-blocking, and the rest of a frame did not come in 10 s.
 *   -ECONNRESET: the peer has closed the socket, perhaps within a frame.
 *   -EPROTO: the message that came is no frame, or contradicts itself.
 *   -EOPNOTSUPP: as for hm_frame_import().
 *
 * In addition the errors of hm_buffer_receive() and hm_map_create().
 */
HM_API int hm_frame_receive(struct hm_device *device, int socket, uint32_t flags,
			    struct hm_frame **ret_frame);

#ifdef __cplusplus
}
#endif

#endif
