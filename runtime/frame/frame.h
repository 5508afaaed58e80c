/* SPDX-License-Identifier: MIT */
/*
 * Frames and their pools.
 *
 * A frame of a pool is made once, and given out again and again: struct hm_frame stays with its
 * memory. Its state says which list of the pool it is on:
 *
 *	HELD -> FREE -> HELD            no work uses it when the last reference goes
 *	HELD -> BUSY -> FREE            work does: a later call of the pool looks again
 *
 * A published frame is HELD by the ready queue's reference, and is on the queue's list until a
 * consumer takes it.
 *
 * Locks: pool->lock protects the lists and the numbers. frame->lock protects the facts and the
 * fences, and may be taken under it. Neither is held over a call that makes or ends memory,
 * waits for a fence, looks at one, or may call the application.
 */
#ifndef HETMAP_RUNTIME_FRAME_H
#define HETMAP_RUNTIME_FRAME_H

#include <hetmap/frame.h>

#include "core/core.h"

#define FRAME_NAME_MAX 48

/* Longest frame: that of buffers. */
#define FRAME_BYTES_MAX (1ull << 62)

/* DRM_FORMAT_MOD_INVALID of drm_fourcc.h: the maker does not tell the modifier. */
#define FRAME_MODIFIER_UNTOLD 0x00ffffffffffffffull

enum frame_state {
	FRAME_HELD,
	FRAME_FREE,
	FRAME_BUSY,
};

/* Work on a frame. */
struct frame_fence {
	struct cds_list_head link; /* frame->fences */
	struct hm_fence *fence;    /* a reference */
	uint32_t access;
};

/* A buffer and a map of all of it, a reference each. */
struct frame_memory {
	struct hm_buffer *buffer;
	struct hm_map *map;
};

struct hm_frame {
	struct hm_object object;
	struct hm_frame_pool *pool; /* a hold; NULL: imported */
	struct hm_frame_layout layout;
	uint32_t n_memory;
	struct frame_memory memory[HM_FRAME_PLANES];

	/* Protected by pool->lock. */
	struct cds_list_head link; /* of the list that the state names, or of the ready queue */
	enum frame_state state;
	bool ready; /* on the ready queue */
	uint32_t index;
	uint64_t serial; /* of its acquisition */

	pthread_mutex_t lock; /* protects the fields below */
	bool published;
	struct hm_frame_props props;
	struct cds_list_head fences; /* frame_fence.link, oldest first */
	uint32_t n_fence;
};

struct hm_frame_pool {
	struct hm_object object;
	_Atomic uint32_t holds; /* the last reference's, and one for each frame */

	/* Constant. */
	struct hm_device *device; /* a reference */
	uint32_t flags;           /* HM_FRAME_POOL_* */
	uint32_t policy;          /* enum hm_frame_policy */
	uint32_t n_least, n_most;
	bool can_go; /* the device may be taken away */
	struct hm_frame_layout layout;
	struct hm_frame_rect visible;
	struct hm_buffer_desc desc; /* of each frame's buffer; its name is the one below */
	char name[FRAME_NAME_MAX + 1];

	pthread_mutex_t lock;     /* protects the fields below */
	pthread_cond_t returned;  /* a frame is free or busy, or there may be room for one */
	pthread_cond_t published; /* a picture is ready, or none will be */
	bool closed;              /* no references */
	bool ended;               /* hm_frame_pool_end() */
	struct cds_list_head free, busy, ready; /* hm_frame.link */
	uint32_t n_frame;                       /* including those that are being made */
	uint32_t n_making, n_free, n_busy, n_ready;
	uint64_t *used; /* bits of the indexes in use, n_used words */
	uint32_t n_used;
	uint32_t peak;
	uint64_t acquired, put, taken, oldest, newest, waited, waited_ns;
};

/* ---- layout.c ---- */

/* The planes of a linear picture; -EINVAL, -EOPNOTSUPP, -EOVERFLOW. */
int layout_make(uint32_t fourcc, uint32_t width, uint32_t height,
		const struct hm_frame_align *users, uint32_t n_users,
		struct hm_frame_layout *ret_layout);
/* Reads the strictest numbers of @users, with the least ones. -EINVAL. */
int layout_join(const struct hm_frame_align *users, uint32_t n_users,
		struct hm_frame_align *ret_align);
/* Rounds the size of a picture up. -EINVAL, -EOVERFLOW. */
int layout_round(const struct hm_frame_align *align, uint32_t *width, uint32_t *height);
/* Number of planes of a format, 0: not known. */
uint32_t layout_planes(uint32_t fourcc);
/* Rows of a plane of a linear picture, and bytes that a row needs. The format is known. */
void layout_rows(uint32_t fourcc, uint32_t width, uint32_t height, uint32_t plane,
		 uint32_t *ret_rows, uint64_t *ret_bytes);
/* "NV12", or "0x..." where that is no text, into @text of 16 bytes; returns @text. */
const char *layout_name(uint32_t fourcc, char text[16]);

/* ---- planes.c ---- */

/*
 * Checks planes that others have made, and fills in their bytes and rows. @sizes: bytes of each of
 * the @n_object objects. -EINVAL, -ERANGE, -EOVERFLOW, -EOPNOTSUPP.
 */
int planes_check(struct hm_frame_layout *layout, uint32_t n_object, const uint64_t *sizes);

/* ---- props.c ---- */

/* The facts of a picture about which nothing was said yet. */
void props_init(struct hm_frame_props *props, const struct hm_frame_rect *visible);
int props_check_visible(const struct hm_frame_rect *visible, uint32_t width, uint32_t height);
/* Checks and sets the facts that @fields names. -EINVAL. */
int props_set(struct hm_frame_props *props, uint32_t fields, const struct hm_frame_props *from,
	      const struct hm_frame_layout *layout);

/* ---- frame.c ---- */

/* Makes a frame with one reference, around memory that it takes over. -ENOMEM. */
int frame_make(const struct hm_frame_layout *layout, const struct hm_frame_rect *visible,
	       uint32_t n_memory, const struct frame_memory *memory,
	       struct hm_frame **ret_frame);
/* Ends a frame without references that is on no list. Drops its hold on its pool. */
void frame_end(struct hm_frame *frame);
/* As hm_frame_unref(); keeps the thread's texts. */
void frame_put(struct hm_frame *frame);

/* ---- objects.c ---- */

/* Memory of an imported frame. */
struct frame_import {
	uint32_t n;
	struct frame_memory memory[HM_FRAME_PLANES];
	uint64_t size[HM_FRAME_PLANES];
	uint32_t of[HM_FRAME_PLANES]; /* by the maker's object: index in memory */
};

/* Maps all of a buffer, taking over the reference, also on failure. */
int memory_map(struct hm_buffer *buffer, uint32_t flags, struct frame_memory *memory,
	       uint64_t *ret_size);
void memory_end(struct frame_memory *memory, uint32_t n);
/* Fills in all but the descriptors, which are -1. */
void frame_describe(struct hm_frame *frame, struct hm_frame_objects *objects);
int frame_check_flags(const char *what, uint32_t flags);
/* Checks the numbers that count others, and the size. */
int frame_check_objects(const struct hm_frame_objects *objects);
/* Makes a frame of memory, which stays the caller's on failure. Trusts nothing in @objects. */
int frame_wrap(const struct hm_frame_objects *objects, const struct frame_import *from,
	       struct hm_frame **ret_frame);

/* ---- fences.c ---- */

/*
 * Has all work on a frame ended, that which the library submitted and that of the fences? Looks
 * at it, without waiting. Forgets the fences if so. No locks are held.
 */
bool frame_is_idle(struct hm_frame *frame);
/* The same for a frame that others use: looks at its work, and then tells without a look. */
void frame_look(struct hm_frame *frame);
bool frame_seems_idle(struct hm_frame *frame);
/* Forgets the fences. */
void frame_drop_fences(struct hm_frame *frame);

/* ---- make.c ---- */

/* Makes a frame for which n_frame and n_making count already. */
int pool_make_frame(struct hm_frame_pool *pool, struct hm_frame **ret_frame);
/* For a frame that is on no list and ends. The caller holds pool->lock. */
void pool_forget_locked(struct hm_frame_pool *pool, const struct hm_frame *frame);

/* ---- acquire.c ---- */

/* A frame of the pool has lost its last reference. */
void pool_take_back(struct hm_frame *frame);
/* Looks again at the frames that were busy. No locks are held. */
void pool_sweep(struct hm_frame_pool *pool);
/* ---- frame_pool.c ---- */

/* With the last one the pool's description ends. */
void frame_pool_drop_hold(struct hm_frame_pool *pool);

#endif
