/* SPDX-License-Identifier: MIT */
/*
 * Objects in each state of tests/lifecycle/lifecycle_table.h, and each public operation as a
 * call on them, for tests/lifecycle/test_lifecycle.c to walk.
 */
#ifndef HETMAP_TESTS_LIFECYCLE_WORLD_H
#define HETMAP_TESTS_LIFECYCLE_WORLD_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include "core/conformance.h"
#include "lifecycle/lifecycle.h"

/* The place where an operation is made. */
enum life_place {
	LIFE_HERE,
	LIFE_IN_CHILD,    /* made by fork() */
	LIFE_IN_CALLBACK, /* in a view's callback, which a change of the map calls */
};

struct life_call;

/* One object of a noun, and the objects that it needs. */
#define LIFE_EARLIER "an earlier call failed"

struct life {
	const struct subject *subject;
	struct fixture f;
	uint32_t noun, state;
	enum life_place place;
	char text[512]; /* after the call, of hm_errmsg() */

	uint64_t n_before;          /* maps of the process */
	struct hm_buffer *original; /* here, too: the original of a received buffer */
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct hm_map *host_map; /* a map of the host's memory */
	struct hm_scope *scope;
	struct hm_view *view;
	struct hm_drm_view *drm_view;
	struct hm_device *node; /* drm_view's node */
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel, *waiting_kernel;
	struct hm_fence *fence;
	struct hm_guard guard, inner_guard;
	struct sigaction below;
	int pair[2]; /* two sockets; -1: none */
	int import;  /* a descriptor to take in; -1: none */

	/* Another thread, which goes on as soon as the gate is opened. */
	sem_t gate;
	bool waited_for; /* work, or another thread's change */
	pthread_t changer;
	bool has_changer;
	sem_t changing;
	const struct life_call *pending; /* for the callback */
	int pending_result;
	uint32_t pending_after;

	/* Results of calls. */
	struct hm_buffer *made_buffer;
	struct hm_map *made_map;
	struct hm_scope *made_scope;
	struct hm_view *made_view;
	struct hm_drm_view *made_drm_view;
	struct hm_fence *made_fence;
	void *made_memory;
	int made_fd;
	bool is_sent;                      /* the subject's buffers go to other processes */
	bool handled;                      /* the handler is installed */
	bool has_below;                    /* and another one above it */
	bool has_shadow;                   /* the buffer */
	unsigned int n_guard, n_installed; /* beyond the first */
	bool taken_away;                   /* the subject's device */
};

struct life_state {
	uint32_t noun, state;
	enum life_place place;
	/* False: not on this subject. */
	bool (*is_reached)(struct life *life);
	void (*enter)(struct life *life);
};

struct life_call {
	uint32_t noun;
	const char *function, *variant;
	int (*call)(struct life *life);
	/* Else it is -EOPNOTSUPP where it would succeed; NULL: as its capability says. */
	bool (*is_supported)(struct life *life);
	/* Else the variant is not about this subject; NULL: it is. */
	bool (*is_meant)(struct life *life);
	/* Before the state is entered; or NULL. */
	void (*prepare)(struct life *life);
};

extern const struct life_state life_states[];    /* each ends with an empty entry */
extern const struct life_call life_calls[];      /* on devices, buffers, maps */
extern const struct life_call life_calls_work[]; /* on all else */

/* Under tests/fake_drm.so the control of it, else NULL. */
const struct fake_drm_control *life_fake(void);

/* The objects of @noun, in its first state. */
void life_begin(struct life *life, const struct subject *subject, uint32_t noun);
void life_end(struct life *life);
/* Lets work and other threads' changes go on. */
void life_open_gate(struct life *life);
/* The state it is in: a mask, 0 where that can't be seen. */
uint32_t life_now(struct life *life);
/* Makes @call as the state says: on this thread, or in a callback. */
int life_make(struct life *life, const struct life_call *call, uint32_t *ret_after);

/* May the subject's device be taken away here, and another one come in its place? */
bool life_comes_back(struct life *life);
/* May it be taken away? */
bool life_can_go(struct life *life);
/* May it be sealed for good? */
bool life_can_freeze(struct life *life);
/* Does the subject's buffer go to other processes? */
bool life_is_sent(struct life *life);

/* ---- for the files of it ---- */

void life_change(struct life *life);
void life_take_away(struct life *life);
void life_bring_back(struct life *life);
void life_submit_waiting(struct life *life);
void life_make_view(struct life *life);
bool life_is_simulated(struct life *life);
bool life_can_protect(struct life *life);
bool life_can_change(struct life *life);
int life_fail(const struct hm_cpu_range *range, const struct hm_arg *args);
bool life_is_memfd(struct life *life);
bool life_exports_pin(struct life *life);
int life_queue_fill(struct life *life);
int life_queue_copy(struct life *life);
int life_queue_launch(struct life *life);
int life_map_lock(struct life *life);
int life_map_unlock(struct life *life);
int life_copy_in(struct life *life);
int life_copy_out(struct life *life);

#endif
