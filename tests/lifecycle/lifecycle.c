// SPDX-License-Identifier: MIT
/* The lifecycles as data; the state an object is in; states that may follow. */
#include "lifecycle/lifecycle.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "accel/accel.h"
#include "core/buffer.h"
#include "backend/drm/drm.h"
#include "fault/handler.h"
#include "loss/device_loss.h"
#include "map/protect.h"
#include "fault/repair.h"
#include "map/retire.h"
#include "share/share.h"

const char *const lifecycle_nouns[LC_NOUNS] = {
	[LC_DEVICE] = "device",
	[LC_BUFFER] = "buffer",
	[LC_MAP] = "map",
	[LC_SCOPE] = "scope",
	[LC_BRACKET] = "bracket",
	[LC_VIEW] = "view",
	[LC_DRM_VIEW] = "DRM view",
	[LC_QUEUE] = "queue",
	[LC_FENCE] = "fence",
	[LC_LOCK] = "lock",
	[LC_HANDLER] = "handler",
	[LC_GUARD] = "guard",
	[LC_RETIREMENT] = "retirement",
};

/* ---- the table ---- */

#define LIFECYCLE_STATE(noun_, state, word_, meaning) \
	{ .noun = LC_##noun_, .name = #state, .word = word_ },
#define LIFECYCLE_WORLD(noun, from, to, cause)
#define LIFECYCLE_OTHERS(noun, from, to, cause)
#define LIFECYCLE_FAILED(noun, function, from, to)
#define LIFECYCLE_OP(noun, function, variant, capability, errors, ...)
static const struct lifecycle_state_text states[] = {
#include "lifecycle/lifecycle_table.h"
};
#undef LIFECYCLE_STATE
#undef LIFECYCLE_WORLD
#undef LIFECYCLE_OTHERS
#undef LIFECYCLE_OP

struct other_step {
	uint8_t noun;
	uint8_t from;
	uint8_t to;
	bool by_call;
};

#define STEP(noun, from, to, by_call) \
	{ LC_##noun, LC_##noun##_##from, LC_##noun##_##to, by_call },
#define LIFECYCLE_STATE(noun, state, word, meaning)
#define LIFECYCLE_WORLD(noun, from, to, cause) STEP(noun, from, to, false)
#define LIFECYCLE_OTHERS(noun, from, to, cause) STEP(noun, from, to, true)
#define LIFECYCLE_OP(noun, function, variant, capability, errors, ...)
static const struct other_step steps[] = {
#include "lifecycle/lifecycle_table.h"
};
#undef LIFECYCLE_WORLD
#undef LIFECYCLE_OTHERS
#undef LIFECYCLE_FAILED

struct failed_step {
	uint8_t noun;
	uint8_t from;
	uint8_t to;
	const char *function;
};

#define LIFECYCLE_WORLD(noun, from, to, cause)
#define LIFECYCLE_OTHERS(noun, from, to, cause)
#define LIFECYCLE_FAILED(noun, function, from, to) \
	{ LC_##noun, LC_##noun##_##from, LC_##noun##_##to, #function },
static const struct failed_step failed_steps[] = {
#include "lifecycle/lifecycle_table.h"
};
#undef LIFECYCLE_WORLD
#undef LIFECYCLE_OTHERS
#undef LIFECYCLE_FAILED
#undef LIFECYCLE_OP

/* clang-format off */
#define KEEPS { .kind = CELL_KEEPS }
#define TO(state) { .kind = CELL_TO, .to = LC_##state }
#define TO_OR(state) { .kind = CELL_TO, .to = LC_##state, .any = true }
#define MAY(state) { .kind = CELL_MAY, .to = LC_##state }
#define NO(error_) { .kind = CELL_NO, .error = (error_) }
#define NO_TO(error_, state) \
	{ .kind = CELL_NO, .error = (error_), .to = LC_##state, .moves = true }
#define NO2(error_, other_) { .kind = CELL_NO, .error = (error_), .other = (other_) }
#define FAILED(error_) { .kind = CELL_NO, .error = (error_), .any = true }
#define EITHER(error_) { .kind = CELL_EITHER, .error = (error_) }
#define EITHER2(error_, other_) { .kind = CELL_EITHER, .error = (error_), .other = (other_) }
#define WAITS { .kind = CELL_WAITS }
#define MAY_WAIT { .kind = CELL_MAY_WAIT }
#define ENDS { .kind = CELL_ENDS }
#define NONE { .kind = CELL_NONE }
#define LIST(...) __VA_ARGS__
#define CELLS(...) (sizeof((struct lifecycle_cell[]){ __VA_ARGS__ }) / \
		    sizeof(struct lifecycle_cell))
/* clang-format on */
#define LIFECYCLE_WORLD(noun, from, to, cause)
#define LIFECYCLE_OTHERS(noun, from, to, cause)
#define LIFECYCLE_FAILED(noun, function, from, to)
#define LIFECYCLE_OP(noun_, function_, variant_, capability_, errors_, ...) \
	{                                                                   \
		.noun = LC_##noun_,                                         \
		.n_cell = CELLS(__VA_ARGS__),                               \
		.function = #function_,                                     \
		.variant = variant_,                                        \
		.capability = (capability_),                                \
		.cell = { __VA_ARGS__ },                                    \
		.errors = { LIST errors_ },                                 \
	},
const struct lifecycle_op lifecycle_ops[] = {
#include "lifecycle/lifecycle_table.h"
	{ .function = NULL },
};

bool lifecycle_is_lenient;

/* Errors that any call may meet: limits, signals, a descriptor that was closed elsewhere. */
static const int16_t common_errors[] = { ENOMEM, EMFILE, ENFILE, EINTR, EAGAIN, EIO, EBADF };

uint32_t lifecycle_states(uint32_t noun, const struct lifecycle_state_text **ret_first)
{
	uint32_t i, n = 0;

	for (i = 0; i < ARRAY_SIZE(states); i++)
		if (states[i].noun == noun && !n++)
			*ret_first = &states[i];
	return n;
}

/* ---- states that may follow ---- */

static uint32_t take_steps(uint32_t noun, uint32_t from, bool others)
{
	uint32_t i, to = from;

	for (i = 0; i < ARRAY_SIZE(steps); i++)
		if (steps[i].noun == noun && from & 1u << steps[i].from &&
		    (others || !steps[i].by_call))
			to |= 1u << steps[i].to;
	return to;
}

static uint32_t take_calls(uint32_t noun, uint32_t from)
{
	const struct lifecycle_op *op;
	uint32_t i, to = from;

	for (op = lifecycle_ops; op->function; op++)
		for (i = 0; op->noun == noun && i < op->n_cell; i++)
			if ((op->cell[i].kind == CELL_TO || op->cell[i].kind == CELL_MAY) &&
			    from & 1u << i)
				to |= 1u << op->cell[i].to;
	return to;
}

uint32_t lifecycle_follows(uint32_t noun, uint32_t from, bool others)
{
	uint32_t to = from, before;

	do {
		before = to;
		to = take_steps(noun, to, others);
		if (others)
			to = take_calls(noun, to);
	} while (to != before);
	return to;
}

static bool is_listed(const int16_t *errors, size_t n, int r)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (errors[i] && errors[i] == -r)
			return true;
	return false;
}

uint32_t lifecycle_after_failure(uint32_t noun, const char *function, uint32_t state)
{
	uint32_t i, after = 1u << state;

	for (i = 0; i < ARRAY_SIZE(failed_steps); i++)
		if (failed_steps[i].noun == noun && failed_steps[i].from == state &&
		    !strcmp(failed_steps[i].function, function))
			after |= 1u << failed_steps[i].to;
	return after;
}

static uint32_t after_success(const struct lifecycle_op *op, uint32_t state)
{
	const struct lifecycle_cell *cell = &op->cell[state];

	switch (cell->kind) {
	case CELL_NO:
	case CELL_NONE:
		return 0;
	case CELL_TO:
		return 1u << cell->to;
	case CELL_MAY:
		return 1u << cell->to | 1u << state;
	}
	return 1u << state;
}

/* The states in which one call in @state may leave the object with @r; 0: never so. */
static uint32_t outcome(const struct lifecycle_op *op, uint32_t state, int r)
{
	const struct lifecycle_cell *cell = &op->cell[state];

	if (!r)
		return after_success(op, state);
	if (cell->kind == CELL_NONE)
		return 0;
	if (cell->moves && r == -cell->error)
		return 1u << cell->to;
	if (cell->any && cell->kind == CELL_TO)
		return 1u << state | 1u << cell->to;
	if (cell->any || r == -cell->error || r == -cell->other ||
	    is_listed(op->errors, LC_ERRORS_MAX, r) ||
	    is_listed(common_errors, ARRAY_SIZE(common_errors), r) ||
	    (op->capability && r == -EOPNOTSUPP))
		return lifecycle_after_failure(op->noun, op->function, state);
	return 0;
}

bool lifecycle_allows(uint32_t noun, const char *function, uint32_t before, int r,
		      uint32_t after, bool others)
{
	uint32_t possible = lifecycle_follows(noun, before, others), state, left;
	const struct lifecycle_op *op;

	for (op = lifecycle_ops; op->function; op++) {
		if (op->noun != noun || strcmp(op->function, function))
			continue;
		for (state = 0; state < op->n_cell; state++) {
			if (!(possible & 1u << state))
				continue;
			left = outcome(op, state, r);
			if (!left)
				continue;
			/* A call that waited goes on as after the end of its wait. */
			if (op->cell[state].kind == CELL_WAITS ||
			    op->cell[state].kind == CELL_MAY_WAIT)
				left |= possible;
			if (!after || after & lifecycle_follows(noun, left, others))
				return true;
		}
	}
	return false;
}

/* ---- the present state ---- */

/* A device's look at itself may set an error text: the caller's stays. */
static bool is_device_gone(struct hm_device *device)
{
	int r;

	err_hold();
	r = device_loss_check(device);
	err_release();
	return r != 0;
}

/* Also if the device came back: the buffer is of the device before. */
static bool is_buffer_gone(struct hm_buffer *buffer)
{
	int r;

	err_hold();
	r = device_loss_check_buffer(buffer);
	err_release();
	return r != 0;
}

static bool is_inherited(const struct hm_object *object)
{
	return object->fork_gen != fork_generation;
}

uint32_t lifecycle_of_device(struct hm_device *device)
{
	if (is_inherited(&device->object))
		return 1u << LC_DEVICE_INHERITED;
	/* Whether it is there again is seen by opening it. */
	return is_device_gone(device) ? 1u << LC_DEVICE_GONE | 1u << LC_DEVICE_BACK :
					1u << LC_DEVICE_OPEN;
}

/* Not by sys.c: a test counts and fails only the library's own calls there. */
static int seals_of(const struct hm_buffer *buffer)
{
	int seals = -1;

	if (buffer_is(buffer, HM_MEMORY_SEALED))
		seals = fcntl(buffer->segment[0].fd, F_GET_SEALS);
	return seals < 0 ? 0 : seals;
}

static uint32_t of_buffer_locked(const struct hm_buffer *buffer)
{
	const struct share *share = buffer->share;
	int seals;

	/* Whether its owner has ended is found out by asking, which is a call's to do. */
	if (share && share->received)
		return 1u << LC_BUFFER_RECEIVED | 1u << LC_BUFFER_OWNER_GONE;
	seals = seals_of(buffer);
	if (seals & F_SEAL_WRITE)
		return 1u << LC_BUFFER_FROZEN;
	if (seals & F_SEAL_FUTURE_WRITE)
		return 1u << LC_BUFFER_SEALED;
	if (share)
		return 1u << LC_BUFFER_SENT;
	if (buffer->pinned)
		return 1u << LC_BUFFER_PINNED;
	return 1u << (buffer->exported ? LC_BUFFER_EXPORTED : LC_BUFFER_OWN);
}

uint32_t lifecycle_of_buffer(struct hm_buffer *buffer)
{
	const struct lifecycle_state_text *first;
	uint32_t mask;

	if (is_inherited(&buffer->object))
		return 1u << LC_BUFFER_INHERITED;
	if (is_buffer_gone(buffer))
		return 1u << LC_BUFFER_GONE;
	/* Held by another, or by this thread further up: any that a lock protects. */
	if (pthread_mutex_trylock(&buffer->lock))
		return (1u << lifecycle_states(LC_BUFFER, &first)) - 1 -
		       (1u << LC_BUFFER_INHERITED);
	mask = of_buffer_locked(buffer);
	buffer_unlock(buffer);
	return mask;
}

uint32_t lifecycle_of_map(struct hm_map *map)
{
	uint32_t mask;

	if (is_inherited(&map->object))
		return 1u << LC_MAP_INHERITED;
	if (atomic_load(&map->lost))
		return 1u << LC_MAP_LOST;
	if (atomic_load(&map->frozen))
		return 1u << LC_MAP_CHANGING | 1u << LC_MAP_CALLBACK;
	/* A state may be of another range than the call's, which is not known here. */
	mask = repair_has_replaced(map) ? 1u << LC_MAP_POISONED : 0;
	if (atomic_load(&map->narrowed))
		mask |= 1u << LC_MAP_NARROWED;
	if (map_brackets(map))
		mask |= 1u << LC_MAP_BRACKETED;
	if (atomic_load(&map->n_use))
		mask |= 1u << LC_MAP_IN_FLIGHT;
	/* Without a bracket, or work, it is mapped where it is not narrowed or poisoned. */
	if (!(mask & (1u << LC_MAP_BRACKETED | 1u << LC_MAP_IN_FLIGHT)))
		mask |= 1u << LC_MAP_MAPPED;
	return mask;
}

/* A view's states are those of its map, which is checked by its own calls. */
uint32_t lifecycle_of_view(struct hm_view *view)
{
	if (is_inherited((struct hm_object *)view))
		return 1u << LC_VIEW_INHERITED;
	return 1u << LC_VIEW_ATTACHED | 1u << LC_VIEW_CALLBACK | 1u << LC_VIEW_LOST;
}

static uint32_t of_drm_view_locked(const struct hm_drm_view *view)
{
	if (view->node->gone || view->error == -ENODEV)
		return 1u << LC_DRM_VIEW_GONE;
	/* Withdrawn pages of a view come back, or not, when the map's change ends. */
	if (view->changing || view->error == -EBUSY)
		return 1u << LC_DRM_VIEW_ATTACHED | 1u << LC_DRM_VIEW_CUT_OFF;
	if (view->error == -ERANGE)
		return 1u << LC_DRM_VIEW_CUT_OFF;
	return 1u << (view->n_hold ? LC_DRM_VIEW_HELD : LC_DRM_VIEW_ATTACHED);
}

uint32_t lifecycle_of_drm_view(struct hm_drm_view *view)
{
	uint32_t mask;

	if (is_inherited(&view->object))
		return 1u << LC_DRM_VIEW_INHERITED;
	pthread_mutex_lock(&view->lock);
	mask = of_drm_view_locked(view);
	pthread_mutex_unlock(&view->lock);
	return mask;
}

/* The states of its map, which other threads may change or lose at any time. */
uint32_t lifecycle_of_scope(struct hm_scope *scope)
{
	const struct hm_map *map = protect_scope_map(scope);

	if (is_inherited((struct hm_object *)scope))
		return 1u << LC_SCOPE_INHERITED;
	if (atomic_load(&map->lost))
		return 1u << LC_SCOPE_LOST;
	if (atomic_load(&map->frozen))
		return 1u << LC_SCOPE_OPEN | 1u << LC_SCOPE_CALLBACK;
	return 1u << LC_SCOPE_OPEN;
}

uint32_t lifecycle_of_guard(struct hm_guard *guard)
{
	switch (guard_place(guard)) {
	case GUARD_INNERMOST:
		return 1u << LC_GUARD_OPEN;
	case GUARD_OUTER:
		return 1u << LC_GUARD_OUTER;
	case GUARD_NOWHERE:
		break;
	}
	return 1u << LC_GUARD_CLOSED;
}

/* Whether its device is gone is found out by asking, which is a call's to do. */
uint32_t lifecycle_of_queue(struct hm_queue *queue)
{
	if (is_inherited(&queue->object))
		return 1u << LC_QUEUE_INHERITED;
	return 1u << LC_QUEUE_GONE |
	       1u << (atomic_load(&queue->n_wait) ? LC_QUEUE_WAITING : LC_QUEUE_OPEN);
}

uint32_t lifecycle_of_fence(struct hm_fence *fence)
{
	if (is_inherited(&fence->object))
		return 1u << LC_FENCE_INHERITED;
	if (atomic_load_explicit(&fence->state, memory_order_acquire) != FENCE_DONE)
		return 1u << LC_FENCE_RUNNING;
	return 1u << (fence->work.status ? LC_FENCE_FAILED : LC_FENCE_DONE);
}

uint32_t lifecycle_of_handler(void)
{
	if (handler_flags() == HANDLER_NONE)
		return 1u << LC_HANDLER_ABSENT;
	return 1u << LC_HANDLER_INSTALLED | 1u << LC_HANDLER_ABOVE | 1u << LC_HANDLER_CHAINED;
}

uint32_t lifecycle_of_retirement(void)
{
	return retire_is_on() ? 1u << LC_RETIREMENT_DEFERRED : 1u << LC_RETIREMENT_IN_PLACE;
}
