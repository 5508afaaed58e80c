/* SPDX-License-Identifier: MIT */
/*
 * Buffers that several processes have: hm_buffer_send, hm_buffer_receive, and what
 * keeps a receiver's idea of the size right.
 *
 * Beside the buffer's own descriptor go those of its control page and of its owner's
 * process. The owner alone writes the page, and alone resizes the buffer; receivers commit
 * what it says, and look again in every call: buffer_check() and map_check() look at the page,
 * and share_follow() does for the maps what hm_buffer_resize() does, without the backend's part.
 * Receivers bound the size by what they were told first and by what is behind the descriptor.
 */
#ifndef HETMAP_SHARE_H
#define HETMAP_SHARE_H

#include <urcu/arch.h>

#include "core/core.h"

struct control_file;
struct control_slot;

struct share {
	struct control_file *file;
	struct control_slot *slot; /* receivers: read-only */
	uint32_t index;            /* of it in the file */
	uint32_t map_flags;        /* dmabuf_map_flags() of what is sent */
	uint64_t serial;           /* of the buffer, in its owner's process */
	int spare_fds[2];          /* receivers: came with it, and are known already; or -1 */
	int object_fd; /* receivers: keeps a device's object from shrinking; or -1 */
	bool received;
	_Atomic bool let_go;   /* receivers: the slot is no longer this buffer's */
	uint64_t max_size;     /* the owner's */
	_Atomic uint64_t seen; /* receivers: the owner's size that the maps have */
	uint64_t resizes_seen; /* what was told of them last; under buffer->lock */
};

/* ---- share.c ---- */

/* A receiver's buffer and its maps get the size that the owner's has now. */
int share_follow(struct hm_buffer *buffer);

/* The owner's size is about to change, and has changed. Caller holds buffer->lock. */
void share_resizing_locked(struct hm_buffer *buffer);
/* Of a received buffer: what its maps have of the owner's size. */
uint64_t share_seen(const struct hm_buffer *buffer);
void share_publish_locked(struct hm_buffer *buffer);

/* -EBUSY, -EOWNERDEAD: what needs a new object, or another process's consent. */
int share_refuse_resize_locked(const struct hm_buffer *buffer, uint64_t new_size,
			       uint32_t flags);

/* sharing and owner_resizes of @info. Caller holds buffer->lock. */
void share_describe_locked(const struct hm_buffer *buffer, struct hm_buffer_info *info);

/* The buffer ends. */
void share_end(struct hm_buffer *buffer);

static inline bool share_is_received(const struct hm_buffer *buffer)
{
	const struct share *share = atomic_load_explicit(&buffer->share, memory_order_acquire);

	return unlikely(share != NULL) && share->received;
}

/* What every call on a buffer and on a map begins with: share_follow() included. */
static inline int buffer_check(struct hm_buffer *buffer)
{
	int r = object_check((struct hm_object *)buffer, OBJECT_BUFFER);

	return likely(r || !share_is_received(buffer)) ? r : share_follow(buffer);
}

static inline int map_check(struct hm_map *map)
{
	int r = object_check((struct hm_object *)map, OBJECT_MAP);

	return likely(r || !share_is_received(map->buffer)) ? r : share_follow(map->buffer);
}

/* Of a received buffer: as the two below. */
bool share_owner_cuts(struct hm_buffer *buffer, uint64_t *ret_cuts);
bool share_owner_has_cut(const struct hm_buffer *buffer, uint64_t cuts);

/*
 * For a reader of a buffer's bytes up to @end: are they cut off at this moment, here or by the
 * process that owns it? Then what is read may be of before and of after; and also where
 * share_was_cut() says so afterwards, of *@ret_cuts. An owner who ended in the midst cuts no
 * more.
 */
static inline bool share_is_cut(struct hm_buffer *buffer, uint64_t end, uint64_t *ret_cuts)
{
	uint64_t over;

	if (unlikely(share_is_received(buffer)))
		return share_owner_cuts(buffer, ret_cuts);
	/* In this order: what is begun behind the first look is found by the second. */
	over = atomic_load_explicit(&buffer->cuts_over, memory_order_acquire);
	*ret_cuts = atomic_load_explicit(&buffer->cuts, memory_order_acquire);
	return unlikely(*ret_cuts != over) && end > atomic_load(&buffer->cut_to);
}

static inline bool share_was_cut(const struct hm_buffer *buffer, uint64_t end, uint64_t cuts)
{
	uint64_t now;

	/* After what the caller has read of the bytes, as a reader of a sequence lock. */
	cmm_smp_rmb();
	if (unlikely(share_is_received(buffer)))
		return share_owner_has_cut(buffer, cuts);
	now = atomic_load_explicit(&buffer->cuts, memory_order_acquire);
	/* Of one alone it is known what it left, as long as there is no other. */
	return unlikely(now != cuts) &&
	       (now != cuts + 1 || end > atomic_load(&buffer->cut_to) ||
		atomic_load(&buffer->cuts) != now);
}

/* ---- share_message.c ---- */

#define SHARE_MAGIC 0x48536d68u /* "hmSH" */
#define SHARE_VERSION 3

/* The last one is -1 where a sandbox keeps a process from having one of itself. */
enum { SHARE_FD_OBJECT, SHARE_FD_CONTROL, SHARE_FD_OWNER, SHARE_FDS };

/*
 * What is sent beside the descriptors. All of it is checked against them, but for
 * map_flags: how the object is to be mapped. A lie there shows other bytes of the same
 * object, or zeros, to the maps of who believes it, or fails them; the sender may write
 * those bytes anyway.
 */
struct share_message {
	uint32_t magic;
	uint32_t version;
	uint32_t length;  /* of this */
	uint32_t access;  /* HM_READ | HM_WRITE */
	uint32_t cache;   /* enum hm_cache; as a hint where the device does not tell */
	uint32_t backing; /* enum hm_backing */
	uint64_t max_size;
	uint64_t page_size;
	uint64_t offset; /* in a file */
	uint64_t serial; /* not 0 */
	char backend[16];
	uint64_t size;        /* if it is let go of on the way, the control page has none */
	uint32_t slot;        /* in the control page */
	uint32_t map_flags;   /* DMABUF_MAP_FLAGS */
	uint64_t page;        /* the control page's inode */
	uint64_t reserved[1]; /* 0 */
};

_Static_assert(sizeof(struct share_message) == 104, "no padding: other builds read it");

/*
 * -ENOTSOCK, -EPROTOTYPE: only a connected socket of AF_UNIX carries descriptors.
 * @ret_cookie: the socket's own number, or 0 where the kernel gives none.
 */
int share_check_socket(int socket, const char *what, uint64_t *ret_cookie);
/* All of it or nothing. @fds stay the caller's. */
int share_message_send(int socket, const struct share_message *message,
		       const int fds[SHARE_FDS]);
/* On failure no descriptor is left of what came, and *@ret_message is anything. */
int share_message_receive(int socket, struct share_message *ret_message,
			  int ret_fds[SHARE_FDS]);
/* Closes what there is of them. */
void share_message_close(const int *fds, uint32_t n);

#endif
