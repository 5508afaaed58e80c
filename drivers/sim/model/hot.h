/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Hot pages: which pages of the host are used often enough to be in the memory of the device, of
 * which so many may be there.
 *
 * The object counts the uses of pages in a sketch: two counters for each page, which other pages
 * share, and of which the smaller one counts. Each use halves one counter in turn, so that a page
 * that was hot once does not stay so. A page comes with its second use while there is room; else
 * it takes the place of the one that counts least among a few, if it counts more by two.
 *
 * The object moves nothing, allocates nothing, takes no lock and makes no call: the caller
 * serialises the calls of one object, moves the pages, and tells with each use where the page is.
 */
#ifndef SIM_MODEL_HOT_H
#define SIM_MODEL_HOT_H

#include "shim.h"

#define HOT_NONE U64_MAX /* no page */
#define HOT_MOST BIT(28) /* slots: 1 TiB of pages */

struct hot_slot {
	u64 page;
	u32 next;  /* in its chain, or in that of free slots */
	bool used; /* has a page */
	bool fresh; /* the page is to come, and its next use was counted already */
};

struct hot {
	u32 n_slots;
	u32 n_used;
	u32 free; /* first of the chain */
	u32 hand; /* slots are looked at from here */
	u32 mask; /* of counters; chains are an eighth of that */
	u32 aged; /* next counter to halve */
	struct hot_slot *slot;
	u32 *chain;
	u8 *counter;
};

enum hot_answer {
	HOT_MISS,    /* the page is used at the host, and stays there */
	HOT_COMES,   /* the same, and the caller should move it to the device now */
	HOT_COUNTED, /* the use was counted before: the page has just come, or could not */
	HOT_HIT,     /* the page is used in the device's memory */
};

/* Bytes of memory, aligned for u64, that hot_init() takes for so many slots, from 1 to HOT_MOST. */
size_t hot_size(u32 n_slots);
/* @memory: the object, and all that it points to: it ends with it. */
struct hot *hot_init(void *memory, u32 n_slots);
/*
 * Notes a use. @there: the page is in the device's memory. With HOT_COMES, *@ret_leaves is the
 * page whose place it takes, which should go back to the host first; HOT_NONE: there was room.
 */
enum hot_answer hot_use(struct hot *hot, u64 page, bool there, u64 *ret_leaves);
/* Has the answer been that this page comes, without a use since? */
bool hot_comes(const struct hot *hot, u64 page);
/* The page has come, and its next use counts. */
void hot_came(struct hot *hot, u64 page);
/* The page is no more there, or will not be. */
void hot_drop(struct hot *hot, u64 page);
/* The next slot's page from *@at on, which moves behind it; HOT_NONE: there is no further one. */
u64 hot_next(const struct hot *hot, u32 *at);

#endif
