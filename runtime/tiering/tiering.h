/* SPDX-License-Identifier: MIT */
/*
 * Tiering of a map: looks (look.c) say which blocks are touched, a plan (plan.c) says which of them
 * should move, and tiering.c moves them.
 */
#ifndef HETMAP_RUNTIME_TIERING_H
#define HETMAP_RUNTIME_TIERING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <hetmap/published.h>
#include <hetmap/tiering.h>

#include "base/object.h"

#define TIERING_HEAT_MOST 1000u
#define TIERING_MOVES 64u  /* that a tiering remembers */
#define TIERING_ROUND 256u /* blocks that one plan moves at most */
#define TIERING_REST 16u   /* looks that a block rests after it could not move */
/* The least heat of a block that is promoted, and the least by which it beats another one. */
#define TIERING_HOT 200u
#define TIERING_MARGIN 150u

enum tiering_place {
	TIERING_ABSENT, /* no page of the block is in memory, or it was not looked at */
	TIERING_FAST,
	TIERING_SLOW,
	TIERING_ELSEWHERE,
};

struct tiering_block {
	uint16_t heat;
	uint8_t place;  /* enum tiering_place, where most of its pages are */
	uint8_t rest;   /* looks during which it is not asked to move */
	bool touched;   /* in the last look */
	uint32_t bytes; /* in memory */
};

struct tiering_step {
	uint32_t block;
	uint32_t why; /* enum hm_tiering_why; HM_TIERING_HOT: to the fast tier */
};

struct hm_tiering {
	struct hm_object object;
	struct hm_map *map; /* a reference */
	uint64_t length;    /* of the map when the tiering was made; whole pages */
	uint32_t flags;
	uint32_t source;     /* enum hm_tiering_source */
	uint32_t fast, slow; /* nodes */
	uint64_t fast_bytes, bytes_per_second, block;
	uint32_t n; /* blocks */

	pthread_mutex_t lock; /* protects the fields below; a leaf but for the map's change */
	pthread_cond_t wake;
	bool has_thread, stop;
	pthread_t thread;
	bool looking;       /* a window is open */
	bool no_scan;       /* the kernel has no PAGEMAP_SCAN */
	bool counts_faults; /* so that windows without one need no scan */
	uint64_t faults;    /* of the process, as the window began */
	int status;
	uint64_t shortest, interval, window; /* ns */
	uint64_t tokens;                     /* bytes that may move now */
	uint64_t filled;                     /* time at which they were counted */
	uint32_t surveyed;                   /* block that is counted next */
	struct tiering_block *blocks;
	uint32_t *order; /* room for the plan */
	struct hm_tiering_info info;
	struct hm_tiering_move moves[TIERING_MOVES];
	uint64_t n_moves; /* ever */
};

/* ---- look.c: the caller holds the lock ---- */

/*
 * Opens a window: from now on touches are noticed. Errors, with a text: -ENODEV: the map is lost,
 * shorter, or shows replaced bytes; -EOPNOTSUPP; -EBUSY: the map is being changed.
 */
int look_open(struct hm_tiering *tiering);
/* Leaves a window open in which nothing was touched. Errors as above. */
int look_go_on(struct hm_tiering *tiering);
/* Closes it: sets touched of each block. Errors as above. */
int look_close(struct hm_tiering *tiering, uint32_t *ret_touched);
/* -EOPNOTSUPP, with a text: the kernel does not tell writes to private memory. */
int look_probe_soft_dirty(void);
/* Does the kernel count the faults of this process? */
bool look_probe_faults(void);
/* Address of a block, and its length. */
uint64_t look_block(const struct hm_tiering *tiering, uint32_t block, uint64_t *ret_length);

/* ---- plan.c: no system call ---- */

/* Heats the blocks that were touched, and cools the others. */
void plan_heat(struct tiering_block *blocks, uint32_t n);
/*
 * Chooses the blocks that move now, into @steps of TIERING_ROUND; returns their number. Their
 * bytes together are @tokens at most, and those on the fast tier afterwards are @fast_bytes at
 * most. @order: room for @n numbers.
 */
uint32_t plan_make(const struct tiering_block *blocks, uint32_t n, uint64_t fast_bytes,
		   uint64_t tokens, uint32_t *order, struct tiering_step *steps);
/* Heat that the hottest blocks of @fast_bytes have together. */
uint64_t plan_best(const struct tiering_block *blocks, uint32_t n, uint64_t fast_bytes,
		   uint32_t *order);

#endif
