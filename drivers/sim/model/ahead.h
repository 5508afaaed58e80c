/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Prefetch that learns: tells sequential, strided and random accesses apart, and says what to
 * bring in before it is asked for.
 *
 * The object works on units, which the caller chooses: chunks of pages, or pages. It knows nothing
 * of what a unit is, allocates nothing, takes no lock and makes no call: the caller serialises the
 * calls of one object, and does the work of a plan.
 *
 * A stream begins with the third access in a row that starts where another ended, or with the
 * fourth of the same step; accesses of other streams may come in between. Fewer would take random
 * accesses for streams by chance. From then on each access gets a plan that keeps a window of
 * units ahead of it. A batch that was used to its end doubles the window of its stream; one that
 * was left half unused halves it, and a stream with less than the least window ends.
 */
#ifndef SIM_MODEL_AHEAD_H
#define SIM_MODEL_AHEAD_H

#include "shim.h"

#define AHEAD_STREAMS 8	 /* that are followed at the same time */
#define AHEAD_SEEN 16	 /* last accesses that belong to no stream */
#define AHEAD_BATCHES 32 /* that wait for their use, of all streams */
#define AHEAD_AGE 64	 /* accesses after which a batch counts as unused */
#define AHEAD_ITEMS 64	 /* the most items of a batch */

/* @count pieces of @length units; the first at @start, each @stride behind the one before it. */
struct ahead_plan {
	u64 start;
	u64 length;
	long long stride;
	u32 count;
};

struct ahead_counts {
	u64 accesses;
	u64 sequential; /* accesses that went on where one had ended */
	u64 strided;	/* that repeated the step of their stream */
	u64 random;	/* accesses at no such place */
	u64 planned;	/* units of all plans */
	u64 used;	/* planned units that an access asked for later */
	u64 wasted;	/* those that none did */
	u64 doubled;	/* changes of a window */
	u64 halved;
};

struct ahead_stream {
	u64 last;	  /* where the last access began, */
	u64 length;	  /* its units, */
	u64 turn;	  /* and its number; 0: the stream is free */
	long long stride; /* from the access before it */
	u64 window;	  /* units */
	u64 left;	  /* items that are planned beyond the last access */
};

/* An access. */
struct ahead_seen {
	u64 start;
	u64 length; /* 0: none yet */
};

struct ahead_batch {
	struct ahead_plan plan; /* count 0: free */
	u32 stream;
	u32 next; /* items before this one were used, or passed over */
	u32 used; /* items */
	u64 turn; /* number of the access that it was planned at */
};

struct ahead {
	u64 least; /* window, in units */
	u64 most;
	bool strided_only; /* no plans for sequential streams */
	u64 turn; /* number of the last access */
	struct ahead_counts counts;
	struct ahead_stream stream[AHEAD_STREAMS];
	struct ahead_seen seen[AHEAD_SEEN];
	u32 n_seen;
	struct ahead_batch batch[AHEAD_BATCHES];
};

/* @least: the first window, from 1; @most: the largest, at least that. */
void ahead_init(struct ahead *ahead, u64 least, u64 most);
/*
 * Notes that units [@start, @start + @length) are asked for, planned or not. True: the caller
 * should bring in *@ret_plan now.
 */
bool ahead_access(struct ahead *ahead, u64 start, u64 length, struct ahead_plan *ret_plan);
/* Notes that planned units of the range went away, or were never brought in: they are wasted. */
void ahead_forget(struct ahead *ahead, u64 start, u64 length);
/* Counts all that is planned and unused as wasted, and forgets the streams. */
void ahead_end(struct ahead *ahead);

#endif
