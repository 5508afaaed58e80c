/* SPDX-License-Identifier: MIT */
/*
 * Buffers shared by several processes: hm_buffer_send(), hm_buffer_receive(), and the size of a
 * received buffer.
 *
 * The descriptors of the control page and of the owner's process are sent beside the buffer's
 * own. The owner alone writes the page, and alone resizes the buffer. Receivers commit the size
 * in the page, and look again in every call: buffer_check() and map_check() look at the page,
 * and share_follow() changes the maps as hm_buffer_resize() does, without the backend's part.
 * Receivers bound the size by the first message and by the object behind the descriptor.
 */
#ifndef HETMAP_SHARE_H
#define HETMAP_SHARE_H

#include <fcntl.h>
#include <urcu/arch.h>

#include "core/core.h"

struct control_file;
struct control_slot;

struct share {
	struct control_file *file;
	struct control_slot *slot; /* receivers: read-only */
	uint32_t index;            /* of the slot in the file */
	uint32_t map_flags;        /* dmabuf_map_flags() of the object sent */
	uint64_t serial;           /* of the buffer, in its owner's process */
	int spare_fds[2];          /* receivers: descriptors of a file known already; or -1 */
	int object_fd; /* receivers: keeps a device's object from shrinking; or -1 */
	bool received;
	_Atomic bool let_go;   /* receivers: the slot is no longer this buffer's */
	uint64_t max_size;     /* the owner's */
	_Atomic uint64_t seen; /* receivers: the owner's size as the maps have it */
	uint64_t resizes_seen; /* last value read; under buffer->lock */
};

/* ---- share.c ---- */

/* Gives a received buffer and its maps the size that the owner's buffer has now. */
int share_follow(struct hm_buffer *buffer);

/* Called before and after the owner changes the size. Caller holds buffer->lock. */
void share_resizing_locked(struct hm_buffer *buffer);
/* The owner's size that the maps of a received buffer have taken over. */
uint64_t share_seen(const struct hm_buffer *buffer);
void share_publish_locked(struct hm_buffer *buffer);

/*
 * Refuses a resize that needs a new object, or the consent of another process.
 * -EBUSY, -EOWNERDEAD.
 */
int share_refuse_resize_locked(const struct hm_buffer *buffer, uint64_t new_size,
			       uint32_t flags);

/* Fills in sharing and owner_resizes of @info. Caller holds buffer->lock. */
void share_describe_locked(const struct hm_buffer *buffer, struct hm_buffer_info *info);

/* Ends the share of a buffer that ends. */
void share_end(struct hm_buffer *buffer);

static inline bool share_is_received(const struct hm_buffer *buffer)
{
	const struct share *share = atomic_load_explicit(&buffer->share, memory_order_acquire);

	return unlikely(share != NULL) && share->received;
}

/*
 * Every call on a buffer or on a map begins with one of these two, which include
 * share_follow().
 */
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

/* For a received buffer: the slow halves of the two functions below. */
bool share_owner_cuts(struct hm_buffer *buffer, uint64_t *ret_cuts);
bool share_owner_has_cut(const struct hm_buffer *buffer, uint64_t cuts);

/*
 * For a reader of a buffer's bytes up to @end: is a cut under way, in this process or in the
 * owner's? If so, the bytes read may be from before and from after the cut; so may they if
 * share_was_cut() says so afterwards, given *@ret_cuts. An owner that ended during a cut cuts
 * no more.
 */
static inline bool share_is_cut(struct hm_buffer *buffer, uint64_t end, uint64_t *ret_cuts)
{
	uint64_t over;

	if (unlikely(share_is_received(buffer)))
		return share_owner_cuts(buffer, ret_cuts);
	/* The order matters: a cut that begins after the first load is found by the second. */
	over = atomic_load_explicit(&buffer->cuts_over, memory_order_acquire);
	*ret_cuts = atomic_load_explicit(&buffer->cuts, memory_order_acquire);
	return unlikely(*ret_cuts != over) && end > atomic_load(&buffer->cut_to);
}

static inline bool share_was_cut(const struct hm_buffer *buffer, uint64_t end, uint64_t cuts)
{
	uint64_t now;

	/*
	 * Orders the reads of the bytes before the loads below, as a reader of a sequence lock
	 * does.
	 */
	cmm_smp_rmb();
	if (unlikely(share_is_received(buffer)))
		return share_owner_has_cut(buffer, cuts);
	now = atomic_load_explicit(&buffer->cuts, memory_order_acquire);
	/*
	 * After a single cut, cut_to tells which bytes are left, if no other cut has begun
	 * since.
	 */
	return unlikely(now != cuts) &&
	       (now != cuts + 1 || end > atomic_load(&buffer->cut_to) ||
		atomic_load(&buffer->cuts) != now);
}

/* ---- share_message.c ---- */

#define SHARE_MAGIC 0x48536d68u /* "hmSH" */
#define SHARE_VERSION 4

/*
 * Properties of memory that the sender tells, and that the receiver's buffer must have, too.
 * Memory without any of them is an object of a device.
 */
#define SHARE_MEMORY (HM_MEMORY_SEALED | HM_MEMORY_STORAGE | HM_MEMORY_SPARSE | MEMORY_HUGE)

/* The last one is -1 where a sandbox keeps a process from opening a pidfd of itself. */
enum { SHARE_FD_OBJECT, SHARE_FD_CONTROL, SHARE_FD_OWNER, SHARE_FDS };

/*
 * The message sent beside the descriptors. All fields are checked against the descriptors,
 * except map_flags: how the object must be mapped. False map_flags show a receiver's maps other
 * bytes of the same object, or zeros, or make them fail; the sender may write those bytes
 * anyway.
 */
struct share_message {
	uint32_t magic;
	uint32_t version;
	uint32_t length; /* of this struct */
	uint32_t access; /* HM_READ | HM_WRITE */
	uint32_t cache;  /* enum hm_cache; a hint, for devices that do not tell */
	uint32_t memory; /* SHARE_MEMORY */
	uint64_t max_size;
	uint64_t page_size;
	uint64_t offset; /* in a file */
	uint64_t serial; /* not 0 */
	char backend[16];
	uint64_t size;        /* for a buffer let go on the way, whose slot has none */
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
/* Sends all of the message or nothing. @fds stay the caller's. */
int share_message_send(int socket, const struct share_message *message,
		       const int fds[SHARE_FDS]);
/* A failure closes all descriptors that came, and leaves *@ret_message undefined. */
int share_message_receive(int socket, struct share_message *ret_message,
			  int ret_fds[SHARE_FDS]);
/* Closes the descriptors that are not negative. */
void share_message_close(const int *fds, uint32_t n);

/* ---- share_send.c ---- */

/* True: the seals forbid punching holes [hugetlbfs_punch_hole()]. */
static inline bool share_is_kept(int seals)
{
	return seals >= 0 && seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE);
}

/* True: SHARE_MEMORY @memory is an object of a device, about which only the device decides. */
static inline bool share_is_object(uint32_t memory)
{
	return !(memory & (HM_MEMORY_SEALED | HM_MEMORY_STORAGE));
}

/*
 * Memory that another process can cut off would kill receivers that touch it. The device "soft"
 * refuses for that reason, too: its memory goes when it is unplugged. -EOPNOTSUPP.
 */
int share_check_sendable_locked(const struct hm_buffer *buffer, uint32_t flags);
/*
 * Takes a slot of the control page with the first send, which the buffer keeps, and describes
 * the buffer, whose object is @fd. The caller holds buffer->lock.
 */
int share_begin_locked(struct hm_buffer *buffer, uint32_t flags, int fd,
		       struct share_message *ret_message);

/* ---- share_receive.c ---- */

/* Checks all fields that can be checked without the descriptors. @max_size: 0, or the most. */
int share_check_message(const struct share_message *message, uint64_t max_size);
/*
 * A touch beyond a file's end is a SIGBUS, so no more than the file's size is accepted. A
 * dma-buf's size never changes, and has been checked.
 */
int share_check_size(const struct hm_buffer *buffer, uint64_t size);
/* -EPROTO: the owner says a size that is not in 1 to @most. */
int share_explain_size(const struct hm_buffer *buffer, uint64_t size, uint64_t most);
/* Makes a buffer of a checked message. Takes @fds over, also if it fails. */
int share_take(struct hm_device *device, int fds[SHARE_FDS],
	       const struct share_message *message, uint64_t cookie,
	       const struct hm_buffer_desc *desc, struct hm_buffer **ret_buffer);

#endif
