/* SPDX-License-Identifier: MIT */
/*
 * Buffers that several processes have: hm_buffer_send, hm_buffer_receive, and what
 * keeps a receiver's idea of the size right.
 *
 * Beside the buffer's own descriptor goes that of its control page. Its owner alone
 * writes it, and alone resizes the buffer; receivers commit what it says, and look
 * again in every call.
 */
#ifndef HETMAP_SHARE_H
#define HETMAP_SHARE_H

#include "core.h"

#define CONTROL_MAGIC 0x50436d68u /* "hmCP" */
#define CONTROL_VERSION 1

/* At the start of a memfd of its own, sealed so that no peer writes it or cuts it off. */
struct control_page {
	uint32_t magic;
	uint32_t version;
	_Atomic uint64_t size;       /* receivers commit no more than that */
	_Atomic uint64_t generation; /* changes of size so far */
	uint64_t serial;             /* of the object, in its owner's process */
	_Atomic uint64_t owner_pid;  /* 0: the owner has let go of the buffer */
	uint64_t owner_start;        /* process_start() of it: pids are reused */
};

struct share {
	struct control_page *page; /* receivers: read-only */
	int fd;                    /* of the page, for further peers */
	int object_fd; /* receivers: keeps a device's object from shrinking; or -1 */
	bool received;
	bool owner_seen;       /* its pid means the same process here */
	uint64_t max_size;     /* the owner's */
	_Atomic uint64_t seen; /* receivers: page->size that the maps have */
};

/* ---- share.c ---- */

/* A receiver's buffer and its maps get the size that the owner's has now. */
int share_follow(struct hm_buffer *buffer);

/* The owner's size has changed. Caller holds buffer->lock. */
void share_publish_locked(struct hm_buffer *buffer);

/* -EBUSY, -EOWNERDEAD: what needs a new object, or another process's consent. */
int share_refuse_resize_locked(const struct hm_buffer *buffer, uint64_t new_size,
			       uint32_t flags);

/* HM_SHARING_*. Caller holds buffer->lock. */
uint32_t share_state_locked(const struct hm_buffer *buffer);

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

/* ---- control.c ---- */

/* The owner's page, for a buffer of @size bytes. */
int control_create(uint64_t serial, uint64_t size, struct share **ret_share);
/* A receiver's: checks what is behind @fd, which is the share's from here on. */
int control_open(int fd, struct share **ret_share);
/* Takes page, descriptor and @share away. */
void control_end(struct share *share);
/* The process that made the page is not there any more, as far as can be told. */
bool control_owner_gone(const struct share *share);

/* ---- share_message.c ---- */

#define SHARE_MAGIC 0x48536d68u /* "hmSH" */
#define SHARE_VERSION 1

enum { SHARE_FD_OBJECT, SHARE_FD_CONTROL, SHARE_FDS };

/* What is sent beside the two descriptors. All of it is checked against them. */
struct share_message {
	uint32_t magic;
	uint32_t version;
	uint32_t length;  /* of this */
	uint32_t access;  /* HM_READ | HM_WRITE */
	uint32_t cache;   /* enum hm_cache */
	uint32_t backing; /* enum hm_backing */
	uint64_t max_size;
	uint64_t page_size;
	uint64_t offset; /* in a file */
	uint64_t serial;
	char backend[16];
	uint64_t reserved[4]; /* 0 */
};

_Static_assert(sizeof(struct share_message) == 104, "no padding: other builds read it");

/* -ENOTSOCK, -EPROTOTYPE: only a connected socket of AF_UNIX carries descriptors. */
int share_check_socket(int socket, const char *what);
/* All of it or nothing. @fds stay the caller's. */
int share_message_send(int socket, const struct share_message *message,
		       const int fds[SHARE_FDS]);
/* On failure no descriptor is left of what came. */
int share_message_receive(int socket, struct share_message *ret_message,
			  int ret_fds[SHARE_FDS]);

#endif
