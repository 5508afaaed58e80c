/* SPDX-License-Identifier: MIT */
/*
 * The lifecycles of lifecycle_table.h as data, and the state an object is in. For the checks of
 * builds with DEBUG=1, and for tests: the library has none of it otherwise.
 */
#ifndef HETMAP_LIFECYCLE_H
#define HETMAP_LIFECYCLE_H

#include "core/core.h"

struct hm_drm_view;

/* As they are numbered here: LC_MAP_LOST. */
enum lifecycle_noun {
	LC_DEVICE,
	LC_BUFFER,
	LC_MAP,
	LC_SCOPE,
	LC_BRACKET,
	LC_VIEW,
	LC_DRM_VIEW,
	LC_QUEUE,
	LC_FENCE,
	LC_LOCK,
	LC_HANDLER,
	LC_GUARD,
	LC_RETIREMENT,
	LC_NOUNS,
};

#define LIFECYCLE_STATE(noun, state, word, meaning) LC_##noun##_##state##_AT,
#define LIFECYCLE_WORLD(noun, from, to, cause)
#define LIFECYCLE_OTHERS(noun, from, to, cause)
#define LIFECYCLE_FAILED(noun, function, from, to)
#define LIFECYCLE_OP(noun, function, variant, capability, errors, ...)
/* In the order of the table, through all nouns. */
enum lifecycle_state_at {
#include "lifecycle/lifecycle_table.h"
	LC_STATES,
};
#undef LIFECYCLE_STATE

enum lifecycle_first {
	LC_DEVICE_FIRST = LC_DEVICE_OPEN_AT,
	LC_BUFFER_FIRST = LC_BUFFER_OWN_AT,
	LC_MAP_FIRST = LC_MAP_MAPPED_AT,
	LC_SCOPE_FIRST = LC_SCOPE_OPEN_AT,
	LC_BRACKET_FIRST = LC_BRACKET_CLOSED_AT,
	LC_VIEW_FIRST = LC_VIEW_ATTACHED_AT,
	LC_DRM_VIEW_FIRST = LC_DRM_VIEW_ATTACHED_AT,
	LC_QUEUE_FIRST = LC_QUEUE_OPEN_AT,
	LC_FENCE_FIRST = LC_FENCE_RUNNING_AT,
	LC_LOCK_FIRST = LC_LOCK_UNLOCKED_AT,
	LC_HANDLER_FIRST = LC_HANDLER_ABSENT_AT,
	LC_GUARD_FIRST = LC_GUARD_CLOSED_AT,
	LC_RETIREMENT_FIRST = LC_RETIREMENT_IN_PLACE_AT,
};

#define LIFECYCLE_STATE(noun, state, word, meaning) \
	LC_##noun##_##state = LC_##noun##_##state##_AT - LC_##noun##_FIRST,
/* From 0 for each noun: bits of its masks, indices of its cells. */
enum lifecycle_state {
#include "lifecycle/lifecycle_table.h"
};
#undef LIFECYCLE_STATE
#undef LIFECYCLE_WORLD
#undef LIFECYCLE_OTHERS
#undef LIFECYCLE_FAILED
#undef LIFECYCLE_OP

#define LC_STATES_MAX 12 /* for a noun */
#define LC_ERRORS_MAX 20 /* for an operation */

enum cell_kind {
	CELL_KEEPS,
	CELL_TO,
	CELL_MAY,
	CELL_NO,
	CELL_EITHER,
	CELL_WAITS,
	CELL_MAY_WAIT,
	CELL_ENDS,
	CELL_NONE,
};

struct lifecycle_cell {
	uint8_t kind;  /* enum cell_kind */
	bool moves;    /* CELL_NO: goes to @to all the same */
	bool any;      /* CELL_NO, CELL_TO: or with the error of work */
	uint8_t to;    /* CELL_TO, CELL_MAY: enum lifecycle_state */
	int16_t error; /* CELL_NO, CELL_EITHER: positive */
	int16_t other; /* CELL_NO, CELL_EITHER: another one, or 0 */
};

struct lifecycle_op {
	uint32_t noun;
	uint32_t n_cell;
	const char *function; /* "hm_map_lock" */
	const char *variant;  /* "", or which of its uses it is */
	uint64_t capability;  /* HM_CAP_*; 0: none */
	struct lifecycle_cell cell[LC_STATES_MAX];
	int16_t errors[LC_ERRORS_MAX]; /* besides; positive */
};

struct lifecycle_state_text {
	uint32_t noun;
	const char *name; /* "LOST" */
	const char *word; /* "lost" */
};

extern const char *const lifecycle_nouns[LC_NOUNS]; /* "map" */
/* The states of @noun are n of them from *ret_first on. */
uint32_t lifecycle_states(uint32_t noun, const struct lifecycle_state_text **ret_first);
/* The table; ends with an op without function. */
extern const struct lifecycle_op lifecycle_ops[];

/* The states, @state included, that a @function that failed there may leave. */
uint32_t lifecycle_after_failure(uint32_t noun, const char *function, uint32_t state);

/*
 * States that may follow @states without a call on the object that returns, these
 * included. @others: other threads may call, too.
 */
uint32_t lifecycle_follows(uint32_t noun, uint32_t states, bool others);

/*
 * Does the table allow that a call of @function, in one of the states @before, returned @r (0
 * or -errno), and left the object in one of @after? @after 0: it may be gone. @others: other
 * threads called meanwhile.
 */
bool lifecycle_allows(uint32_t noun, const char *function, uint32_t before, int r,
		      uint32_t after, bool others);

/*
 * The states an object may be in, as far as can be told without waiting, as a mask. No
 * call is made by the library's table of system calls; the thread's error text stays.
 */
uint32_t lifecycle_of_device(struct hm_device *device);
uint32_t lifecycle_of_buffer(struct hm_buffer *buffer);
uint32_t lifecycle_of_map(struct hm_map *map);
uint32_t lifecycle_of_view(struct hm_view *view);
uint32_t lifecycle_of_drm_view(struct hm_drm_view *view);
uint32_t lifecycle_of_queue(struct hm_queue *queue);
uint32_t lifecycle_of_fence(struct hm_fence *fence);
uint32_t lifecycle_of_scope(struct hm_scope *scope);
/* This thread's state; the guard's memory is not read, which may be anything before its begin. */
uint32_t lifecycle_of_guard(struct hm_guard *guard);
/* The process's state. The kernel is not asked for other handlers of its signals. */
uint32_t lifecycle_of_handler(void);
uint32_t lifecycle_of_retirement(void);

/*
 * Set by a test that changes the library's system calls: results may then be such as no table
 * has, and are not checked.
 */
extern bool lifecycle_is_lenient;

#endif
