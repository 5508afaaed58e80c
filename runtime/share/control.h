/* SPDX-License-Identifier: MIT */
/*
 * The page by which the owner of shared buffers informs their receivers: a file of the process,
 * with a slot for each buffer. Only the owner can write it.
 *
 * All receivers of the process see all of its slots: serials and sizes of the other buffers
 * that it has sent, and no more than that.
 *
 * A slot is marked when its buffer has ended, and keeps the last size until it is used again;
 * slots are used in turn. A receiver detects the reuse by the serial, which no other buffer of
 * the process ever has: it reads the size, then the serial.
 *
 * F_SEAL_FUTURE_WRITE keeps the file the owner's alone to write; F_SEAL_SHRINK keeps a
 * receiver's look from faulting. A receiver checks and maps the file once, and finds it by its
 * identity for the next buffer of that owner. A message that names a file that came last over
 * the same socket saves even that look: the other end of a socket is one party, which had the
 * file.
 */
#ifndef HETMAP_CONTROL_H
#define HETMAP_CONTROL_H

#include "share/share.h"

#define CONTROL_MAGIC 0x50436d68u /* "hmCP" */
#define CONTROL_VERSION 3

/* A constant, since page_size() may differ between the two sides. */
#define CONTROL_BYTES 65536 /* a page of any machine */

/* A line of most caches, so that a write of one slot does not slow down readers of the next. */
struct control_head {
	uint32_t magic;
	uint32_t version;
	uint64_t owner_pid;
	uint64_t owner_start; /* owner_own_start() of it: pids are reused */
	uint64_t reserved[5];
};

struct control_slot {
	_Atomic uint64_t serial;  /* of the buffer; with CONTROL_LET_GO: it has ended */
	_Atomic uint64_t size;    /* receivers commit no more than this */
	_Atomic uint64_t resizes; /* resizes begun: counted before a byte is cut off */
	_Atomic uint64_t resized; /* resizes completed; if fewer, bytes are going */
	uint64_t reserved[4];
};

#define CONTROL_LET_GO (UINT64_C(1) << 63) /* no serial reaches it */

#define CONTROL_SLOTS (CONTROL_BYTES / sizeof(struct control_slot) - 1)

struct control_page {
	struct control_head head;
	struct control_slot slot[CONTROL_SLOTS];
};

_Static_assert(sizeof(struct control_page) == CONTROL_BYTES, "other builds read it");

/* Makes the owner's share of a buffer of @size bytes. */
int control_create(uint64_t serial, uint64_t size, struct share **ret_share);
/* Must come before the owner changes the size, and with it the bytes. */
void control_resizing(struct share *share);
/* Ends the change; @size is the new size. */
void control_publish(struct share *share, uint64_t size);

/*
 * Makes a receiver's share: checks the descriptors of the page and of its owner, which are the
 * share's from here on. @cookie: of the socket that they came over.
 */
int control_open(const int fds[SHARE_FDS], const struct share_message *message, uint64_t cookie,
		 struct share **ret_share);
/* The name by which a message names the page of an owner's share. */
uint64_t control_inode(const struct share *share);
/* The owner's latest values; @otherwise if the slot is another buffer's. */
uint64_t control_size(const struct share *share, uint64_t otherwise);
uint64_t control_resizes(const struct share *share, uint64_t otherwise);
/* True: no resize is under way. @ret_resizes: the number of resizes begun. */
bool control_is_resized(const struct share *share, uint64_t *ret_resizes);

/* True: the owner has dropped its last reference. */
bool control_is_let_go(struct share *share);
/* True: that, or the owner has ended, as far as this process can tell. */
bool control_owner_gone(struct share *share);

/* The descriptors to be sent on, which stay the share's. */
int control_fd(const struct share *share);
int control_owner_fd(const struct share *share); /* or -1 */
uint64_t control_owner_pid(const struct share *share);

/* Frees @share. */
void control_end(struct share *share);
/* Frees the share of a receive that failed, without keeping its file for the next one. */
void control_abandon(struct share *share);

void control_fork_prepare(void);
void control_fork_parent(void);
void control_fork_child(void);

#endif
