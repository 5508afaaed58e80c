/* SPDX-License-Identifier: MIT */
/* The operations whose undo paths are walked, and the worlds they run in. */
#ifndef HETMAP_TESTS_UNDO_H
#define HETMAP_TESTS_UNDO_H

#include "support.h"

#define PAGE 4096ull
#define SIZE (8 * PAGE + 100)
#define MAX_SIZE (64 * PAGE)
#define UNTOUCHED ((void *)0x10)

/* Everything an operation may need or make; what is NULL is not there. */
struct world {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_buffer *owner; /* of the same bytes, if buffer was received */
	struct hm_map *map;
	struct hm_map *second;
	struct hm_view *view;
	struct hm_scope *scope[2];
	void *pointer; /* of the short API */
	int fd;
	int socket[2]; /* connected to each other, or -1 */
	/* Results: UNTOUCHED or -1 before the operation. */
	struct hm_device *ret_device;
	struct hm_buffer *ret_buffer;
	struct hm_map *ret_map;
	struct hm_view *ret_view;
	void *ret_pointer;
	int ret_fd;
};

/* Where it can be walked; its worlds are on undo_device. */
enum operation_place {
	UNDO_HOST,
	UNDO_ANYWHERE,
	UNDO_LOCKS, /* where memory can be locked */
};

struct operation {
	const char *name;
	void (*set_up)(struct world *world);
	int (*run)(struct world *world);
	/* Goes in steps, and one that was done stays: see buffer.h. */
	bool stepwise;
	enum operation_place place;
};

extern const char *undo_device;
extern const struct operation undo_operations[];
extern const unsigned int undo_n_operation;
bool undo_runs_on(const struct operation *operation, const char *device);

/* ---- undo_share_alloc.c ---- */

int undo_send_plain(struct world *world);
int undo_send_read_only(struct world *world);
int undo_receive(struct world *world);
int undo_follow_growth(struct world *world);
int undo_follow_shrink(struct world *world);
int undo_alloc(struct world *world);
int undo_realloc_grow(struct world *world);
int undo_realloc_shrink(struct world *world);
int undo_realloc_move(struct world *world);

void undo_set_up(const struct operation *operation, struct world *world);
void undo_tear_down(struct world *world);

/* ---- undo_state.c ---- */

struct undo_shape {
	struct hm_buffer_info buffer;
	struct hm_map_info map, second;
	struct hm_stats stats;
	uint64_t locked;
};

void undo_take_shape(const struct world *world, struct undo_shape *shape);
/* The bytes are there, and where the map may be written they can be. NULL: none. */
void undo_check_bytes(struct hm_map *map, const char *context);
/*
 * After @operation failed in @world, which looked like @before: with a text, without a
 * result, all as it was, and now that the cause is gone it succeeds.
 */
void undo_check_failure(const struct operation *operation, struct world *world,
			const struct undo_shape *before, const char *context);

#endif
