/* SPDX-License-Identifier: MIT */
/* The operations whose undo paths are walked, and the worlds they run in. */
#ifndef HETMAP_TESTS_UNDO_H
#define HETMAP_TESTS_UNDO_H

#include "lib/support.h"

#define SIZE (8 * PAGE + 100)
#define MAX_SIZE (64 * PAGE)
#define UNTOUCHED ((void *)0x10)

/* Everything an operation may need or make; a NULL is missing. */
struct world {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_buffer *owner; /* of the same bytes, if buffer was received */
	struct hm_map *map;
	struct hm_map *second;
	struct hm_view *view;
	struct hm_scope *scope[2];
	void *pointer; /* from the short API */
	int fd;
	int socket[2];     /* connected to each other, or -1 */
	bool handled;      /* the handler of faults is installed */
	uint64_t resident; /* bytes of map, if an operation asks */
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
	UNDO_LOCKS,  /* where memory can be locked */
	UNDO_PAGES,  /* where the kernel brings pages in */
	UNDO_RIGHTS, /* where rights change by range */
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

/* ---- undo_access.c ---- */

int undo_map_query(struct world *world);
int undo_pointer_query(struct world *world);
int undo_budget_query(struct world *world);
int undo_bracket(struct world *world);
int undo_copy_in(struct world *world);
int undo_copy_out(struct world *world);
int undo_copy_out_blocked(struct world *world);
int undo_copy_between(struct world *world);
int undo_guard(struct world *world);
int undo_guard_blocked(struct world *world);
int undo_set_loss(struct world *world); /* to HM_LOSS_SHADOW */
int undo_shadow(struct world *world);
int undo_retire(struct world *world); /* all that is released is, by a thread */

/* ---- undo_pages.c ---- */

int undo_lock_all(struct world *world);
int undo_lock_on_fault(struct world *world);
int undo_lock_evicting(struct world *world);
int undo_lock_restore(struct world *world);
int undo_lock_budget(struct world *world);
int undo_unlock_middle(struct world *world);
int undo_advise_cold(struct world *world);
int undo_advise_huge(struct world *world);
int undo_prefetch_read(struct world *world);
int undo_prefetch_write(struct world *world);
int undo_sync_all(struct world *world);

/* ---- undo_resize.c ---- */

int undo_seal(struct world *world);
int undo_grow(struct world *world);
int undo_shrink(struct world *world);
int undo_shrink_by_bytes(struct world *world);
int undo_replace(struct world *world);
int undo_append(struct world *world);
int undo_move(struct world *world);

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
