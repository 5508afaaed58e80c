/* SPDX-License-Identifier: MIT */
/*
 * Inside of libhetmap-plan. A plan is two arrays: ranges and nodes. Compiling it makes, in this
 * order: an order of the nodes (order.c), the uses of each root range in that order (uses.c), and
 * steps with places in the arena (walk.c, over arena.c), which run.c runs. A root is a range that
 * is no view.
 */
#ifndef HETMAP_PLAN_INNER_H
#define HETMAP_PLAN_INNER_H

#include <hetmap/error.h>
#include <hetmap/plan.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define NOWHERE UINT64_MAX
#define NEVER UINT32_MAX

struct range {
	char *name;
	char *home;
	uint64_t length;
	uint64_t offset; /* of a view, in its root */
	uint32_t flags;
	uint32_t root; /* index; of a root its own */
};

struct node {
	char *name;
	struct hm_kernel *kernel;
	hm_plan_function *call;
	void *user;
	uint64_t grid[3];
	struct hm_plan_arg *args;
	uint32_t *after; /* numbers */
	uint32_t n_arg, n_after;
};

/* Indices are numbers less 1. */
struct hm_plan {
	atomic_uint references;
	struct range *range;
	struct node *node;
	uint32_t n_range, n_node;
	uint32_t range_room, node_room;
};

/* ---- uses.c ---- */

/* One node's accesses to a root, all arguments together. */
struct use {
	uint32_t at; /* position of the node in the order */
	bool read;   /* bytes from before are needed */
	bool write;
	bool whole; /* all bytes are written, none is read */
};

struct uses {
	struct use *use;      /* of root r: [first[r], first[r + 1]) */
	uint32_t *first;      /* n_range + 1 */
	uint32_t *node_first; /* of position p: node_root[node_first[p]] ... */
	uint32_t *node_root;  /* roots of the node */
	uint32_t *node_use;   /* index in use[] of the same */
};

/* @order: index of the node at each position. */
int uses_make(const struct hm_plan *plan, const uint32_t *order, struct uses *ret_uses);
void uses_free(struct uses *uses);

/* ---- order.c ---- */

/* Fills @order with n_node indices. */
int order_make(const struct hm_plan *plan, uint32_t *order);

/* ---- arena.c: places ---- */

struct block {
	uint64_t offset, length;
};

/* The last steps, by lane, that touched bytes: counts, as hm_plan_step.after has them. */
struct stamp {
	uint32_t after[HM_PLAN_LANES];
};

struct cell {
	uint64_t offset; /* to the next cell's */
	struct stamp stamp;
};

struct arena {
	uint64_t limit;     /* NOWHERE: none */
	uint64_t end;       /* highest byte ever used */
	uint64_t free;      /* bytes below the limit that are free */
	struct block *hole; /* by offset; the last one ends at the limit */
	uint32_t n_hole, hole_room;
	struct cell *cell; /* by offset */
	uint32_t n_cell, cell_room;
};

int arena_init(struct arena *arena, uint64_t limit);
void arena_drop(struct arena *arena);
/*
 * The offset of a free place of @length, or NOWHERE: if there is one, a place that no step of a
 * lane has touched from number recent.after[lane] on. 0: any does.
 */
uint64_t arena_find(const struct arena *arena, uint64_t length, struct stamp recent);
int arena_place(struct arena *arena, uint64_t offset, uint64_t length);
int arena_give(struct arena *arena, uint64_t offset, uint64_t length);
/* The latest of all steps that touched the bytes. */
struct stamp arena_stamp(const struct arena *arena, uint64_t offset, uint64_t length);
/* A step, number @count of @lane, touches the bytes. */
int arena_touch(struct arena *arena, uint64_t offset, uint64_t length, uint32_t lane,
		uint32_t count);

/* ---- walk.c, evict.c: the schedule ---- */

struct step {
	uint8_t kind, lane, home, final;
	uint32_t range; /* index of the root */
	uint32_t at;    /* position of the node */
	uint64_t offset, from;
	uint32_t after[HM_PLAN_LANES];
	uint32_t place; /* NODE: index of its first place */
};

struct steps {
	struct step *step;
	uint64_t *place; /* for each root of each node, in the order of uses.node_root */
	uint32_t n_step, step_room, n_place, place_room;
	uint32_t n_lane[HM_PLAN_LANES];
	uint64_t bytes_in, bytes_out, bytes_moved, evictions, peak;
};

void steps_free(struct steps *steps);

/* State of a root while the walk goes on. */
struct root {
	uint64_t offset; /* NOWHERE: not in the arena */
	uint64_t size;   /* aligned; 0: in place, or no root */
	uint32_t next;   /* index in use[] of the next use, or of the end */
	uint32_t listed; /* index in the list of residents */
	uint32_t stored; /* steps of the lane out when its last one is done */
	bool there;      /* the place has the bytes */
	bool behind;     /* the host has the bytes, too */
	bool spilled;    /* and has them in memory of the schedule, not at home */
	bool pinned;
};

struct walk {
	const struct hm_plan *plan;
	const struct uses *uses;
	const uint32_t *order;
	struct root *root;
	uint32_t *resident; /* indices of roots */
	uint32_t n_resident;
	uint32_t at;
	uint32_t rank;   /* how to choose what leaves: evict.c */
	bool ahead;      /* copies run beside nodes: places of the last step are avoided */
	uint64_t random; /* state */
	struct arena arena;
	struct steps steps;
	struct victim *victim; /* room for all roots */
	bool *needs_spill;     /* by root: some step needs memory of the schedule */
};

struct victim {
	double score;
	uint32_t root;
};

#define RANKS 4 /* with numbers from RANKS on, choices have some chance in them */

/* Puts roots into walk->victim that should leave so that @bytes are free; their number. */
uint32_t evict_choose(struct walk *walk, uint64_t bytes);

/* All steps, for policy @policy; @size: aligned lengths by root. */
int walk_make(const struct hm_plan *plan, const uint32_t *order, const struct uses *uses,
	      const uint64_t *size, uint32_t policy, uint64_t budget, uint32_t rank,
	      struct steps *ret_steps, bool *needs_spill);
/* The most bytes that one node needs; *@ret_at: its position. */
uint64_t walk_smallest(const struct hm_plan *plan, const struct uses *uses,
		       const uint64_t *size, uint32_t policy, uint32_t *ret_at);

/* ---- compile.c, run.c ---- */

struct hm_schedule {
	atomic_uint references;
	struct hm_plan plan; /* a copy of its own */
	uint32_t *order;
	struct uses uses;
	uint64_t *size;
	uint64_t *spill; /* offsets by root, or NOWHERE */
	struct steps steps;
	uint64_t smallest, budget, bytes_spill;
	uint32_t policy, n_in_place;
	uint32_t tries; /* ways to choose that were compared */
	struct hm_accel *accel;
	struct hm_device *device, *host;
	char *arena, *spill_memory;
	struct hm_queue *queue;
	struct hm_map *between; /* of the arena, too: NULL where one window has all of it */
	uint64_t between_offset, window;
	uint32_t *lane_step[HM_PLAN_LANES]; /* indices of steps by lane */
	struct hm_arg *args;                /* of all nodes, by position */
	uint32_t *first_arg;
	struct hm_fence **fence; /* for the run that goes on: of each step of the lane of nodes */
	atomic_bool running;
	bool copies;               /* HM_PLAN_COPY */
	bool copying;              /* there are steps that copy */
	bool direct;               /* hm_plan_run() itself submits all: run.c */
	pthread_mutex_t ending;    /* protects the end of direct runs, and direct_run */
	struct hm_run *direct_run; /* the latest one; NULL: it is gone */
};

/* Work of nodes that is on its way at most; a queue of an engine has room for 2048. */
#define MOST_AHEAD 1536

/* ---- args.c ---- */

/* Fills schedule->args. @home: of each range; NULL: the plan's own. */
void args_make(struct hm_schedule *schedule, char *const *home);

/* ---- plan.c ---- */

void plan_clear(struct hm_plan *plan);
int plan_copy(const struct hm_plan *plan, struct hm_plan *ret_copy);
/* Makes room for one more element; 0 or -ENOMEM. */
int grow(void *array, uint32_t n, uint32_t *room, size_t size);

#endif
