/* SPDX-License-Identifier: MIT */
/*
 * What the owner of shared buffers tells those who received them: a file of the process,
 * with a slot for each buffer. He alone can write it.
 *
 * All his receivers see all its slots: serials and sizes of what else he has sent, and no
 * more than that.
 *
 * When its buffer has ended a slot is marked, and has the last size until it is used
 * again, in turn. A receiver finds that by the serial, which no other buffer of the
 * process ever has: he reads the size, then the serial.
 *
 * F_SEAL_FUTURE_WRITE keeps the file the owner's alone to write; F_SEAL_SHRINK keeps a receiver's
 * look from faulting. A receiver checks and maps the file once, and finds it by its identity for
 * the next buffer of that owner. A message that names a file that came last over the same socket
 * saves even that look: the other end of a socket is one party, which had the file.
 */
#ifndef HETMAP_CONTROL_H
#define HETMAP_CONTROL_H

#include "share/share.h"

#define CONTROL_MAGIC 0x50436d68u /* "hmCP" */
#define CONTROL_VERSION 3

/* Not page_size(), which both sides need not have alike. */
#define CONTROL_BYTES 65536 /* a page of any machine */

/* A line of most caches: who writes one does not slow down who reads the next. */
struct control_head {
	uint32_t magic;
	uint32_t version;
	uint64_t owner_pid;
	uint64_t owner_start; /* owner_own_start() of it: pids are reused */
	uint64_t reserved[5];
};

struct control_slot {
	_Atomic uint64_t serial;  /* of whom it is; with CONTROL_LET_GO: was */
	_Atomic uint64_t size;    /* receivers commit no more than that */
	_Atomic uint64_t resizes; /* begun so far: counted up before a byte is cut off */
	_Atomic uint64_t resized; /* of these, over: until then bytes go one after the other */
	uint64_t reserved[4];
};

#define CONTROL_LET_GO (UINT64_C(1) << 63) /* no serial comes to that */

#define CONTROL_SLOTS (CONTROL_BYTES / sizeof(struct control_slot) - 1)

struct control_page {
	struct control_head head;
	struct control_slot slot[CONTROL_SLOTS];
};

_Static_assert(sizeof(struct control_page) == CONTROL_BYTES, "other builds read it");

/* The owner's, for a buffer of @size bytes. */
int control_create(uint64_t serial, uint64_t size, struct share **ret_share);
/* Before the owner changes the size, and bytes with it. */
void control_resizing(struct share *share);
/* It is over; @size: what it has now. */
void control_publish(struct share *share, uint64_t size);

/*
 * A receiver's: checks what is behind the descriptors of the page and of its owner, which
 * are the share's from here on. @cookie: of the socket that they came over.
 */
int control_open(const int fds[SHARE_FDS], const struct share_message *message, uint64_t cookie,
		 struct share **ret_share);
/* By what a message names the page of an owner's share. */
uint64_t control_inode(const struct share *share);
/* What the owner says now, or said last; @otherwise where the slot is another's. */
uint64_t control_size(const struct share *share, uint64_t otherwise);
uint64_t control_resizes(const struct share *share, uint64_t otherwise);
/* Is none of them under way? @ret_resizes: so many were begun. */
bool control_is_resized(const struct share *share, uint64_t *ret_resizes);

/* He has dropped his last reference. */
bool control_is_let_go(struct share *share);
/* That, or he has ended, as far as can be told. */
bool control_owner_gone(struct share *share);

/* To be sent on; they stay the share's. */
int control_fd(const struct share *share);
int control_owner_fd(const struct share *share); /* or -1 */
uint64_t control_owner_pid(const struct share *share);

/* Takes @share away. */
void control_end(struct share *share);
/* Likewise, of a receiver whom what came was no use to: nothing of it is kept. */
void control_abandon(struct share *share);

void control_fork_prepare(void);
void control_fork_parent(void);
void control_fork_child(void);

#endif
