// SPDX-License-Identifier: MIT
/*
 * fork(2): every object of the parent answers -EOWNERDEAD in the child, which
 * is told by comparing one counter, without a system call. The registry's and
 * the views' locks, and those of DRM nodes and of the simulated devices' ports, are held across the
 * fork, so that the child finds them free and what they protect whole; no other
 * lock of a parent's object is ever taken in the child. Nor is an allocator called there.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "accel/engine/engine.h"
#include "hook/access.h"
#include "share/control.h"
#include "core/core.h"
#include "backend/drm/drm.h"
#include "fault/handler.h"
#include "map/lock_budget.h"
#include "loss/loss.h"
#include "loss/lost.h"
#include "tell/publish.h"
#include "ring/ring.h"
#include "backend/sim/port.h"
#include "soft/soft.h"
#include "tell/trace.h"

uint32_t fork_generation;

/* ---- what child handlers leave for later ---- */

struct left_over {
	struct left_over *next;
};

static _Atomic(struct left_over *) left_over;
static bool in_child; /* in its handlers, where no other thread is */

void fork_free(void *memory)
{
	struct left_over *it = memory;

	if (!in_child || !memory) {
		free(memory);
		return;
	}
	it->next = atomic_load_explicit(&left_over, memory_order_relaxed);
	atomic_store_explicit(&left_over, it, memory_order_relaxed);
}

static void free_left_over(void)
{
	struct left_over *it, *next;

	if (!atomic_load_explicit(&left_over, memory_order_relaxed))
		return;
	for (it = atomic_exchange(&left_over, NULL); it; it = next) {
		next = it->next;
		free(it);
	}
}

/* ---- handlers ---- */

static void prepare(void)
{
	/* First: it waits for the application's readers, who may wait for nobody. */
	retire_fork_prepare();
	pthread_mutex_lock(&view_mutex);
	sim_ports_fork_prepare();
	drm_fork_prepare();
	pthread_mutex_lock(&engine_binding_mutex);
	registry_fork_prepare();
	soft_fork_prepare();
	control_fork_prepare();
	publish_fork_prepare();
	trace_fork_prepare();
	ring_fork_prepare();
}

static void parent(void)
{
	ring_fork_parent();
	trace_fork_parent();
	publish_fork_parent();
	control_fork_parent();
	soft_fork_parent();
	registry_fork_parent();
	pthread_mutex_unlock(&engine_binding_mutex);
	drm_fork_parent();
	sim_ports_fork_parent();
	pthread_mutex_unlock(&view_mutex);
	retire_fork_parent();
}

static void child(void)
{
	fork_generation++;
	in_child = true;
	ring_fork_child();
	publish_fork_child();
	trace_fork_child();
	control_fork_child();
	access_fork_child();
	lock_budget_fork_child();
	lost_fork_child();
	loss_fork_child();
	handler_fork_child();
	soft_fork_child();
	registry_fork_child();
	pthread_mutex_unlock(&engine_binding_mutex);
	drm_fork_child();
	sim_ports_fork_child();
	pthread_mutex_unlock(&view_mutex);
	retire_fork_child();
	in_child = false;
}

static void init_once(void)
{
	pthread_atfork(prepare, parent, child);
	trace_init();
}

void fork_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_once);
	free_left_over();
}

int object_refuse(const struct hm_object *object, enum object_kind kind)
{
	static const struct {
		enum object_kind kind;
		const char *name;
	} names[] = {
		{ OBJECT_DEVICE, "device" },
		{ OBJECT_BUFFER, "buffer" },
		{ OBJECT_MAP, "map" },
		{ OBJECT_VIEW, "view" },
		{ OBJECT_ACCEL, "accelerator" },
		{ OBJECT_KERNEL, "kernel" },
		{ OBJECT_QUEUE, "queue" },
		{ OBJECT_FENCE, "fence" },
		{ OBJECT_DRM_VIEW, "DRM view" },
		{ OBJECT_SCOPE, "protection scope" },
		{ OBJECT_SAFETENSORS, "hm_safetensors" },
		{ OBJECT_TENSOR, "tensor" },
		{ OBJECT_READER, "hm_reader" },
		{ OBJECT_TOKENS, "hm_tokens" },
		{ OBJECT_BATCHES, "hm_batches" },
		{ OBJECT_LOAD, "load" },
		{ OBJECT_RING, "ring" },
	};
	const char *name = "object";
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].kind == kind)
			name = names[i].name;
	if (!object)
		return err_set(-EINVAL, "the %s is NULL", name);
	if (object->kind != (uint32_t)kind)
		return err_set(-EINVAL, "%p is no %s: freed already, or something else",
			       (const void *)object, name);
	return err_set(-EOWNERDEAD,
		       "this %s belongs to the parent process: after fork() the "
		       "child opens its own",
		       name);
}
