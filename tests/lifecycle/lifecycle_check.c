// SPDX-License-Identifier: MIT
/*
 * Builds with DEBUG=1: each public call on a device, buffer, map, view, queue, fence or scope,
 * and on the process's own state, is checked against the table of its lifecycle. The functions
 * below take the public names; those of runtime/ are compiled as unchecked_* (Makefile), and
 * calls within the library stay unchecked. A result that the table has not, or a state that
 * can't follow, ends the process: the library is wrong, or the table is.
 */
#include "lifecycle/lifecycle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/drm.h>
#include <hetmap/file.h>
#include <hetmap/guard.h>
#include <hetmap/lock.h>
#include <hetmap/retire.h>
#include <hetmap/sim.h>

#include "hook/hook.h"

struct call {
	uint32_t noun;
	const char *function;
	struct hm_object *object;
	uint32_t before; /* mask of states; 0: it is no such object */
	uint64_t number;
	uint32_t fork_gen; /* the process that began it */
	bool others;       /* other calls were inside then */
	bool hooked;       /* there was a hook, which may have refused */
};

/*
 * The number of calls inside is in INSIDE's bits, since other calls allow other states; the
 * number of calls ever made is above them. One word has both, or a call that began between two
 * reads would go unseen.
 */
#define CALL (UINT64_C(1) << 24)
#define INSIDE (CALL - 1)
static _Atomic uint64_t calls;

#define STATE_OF(name, type)                                       \
	static uint32_t state_of_##name(struct hm_object *object)  \
	{                                                          \
		return lifecycle_of_##name((struct type *)object); \
	}

STATE_OF(device, hm_device)
STATE_OF(buffer, hm_buffer)
STATE_OF(map, hm_map)
STATE_OF(view, hm_view)
STATE_OF(drm_view, hm_drm_view)
STATE_OF(queue, hm_queue)
STATE_OF(fence, hm_fence)
STATE_OF(scope, hm_scope)

/* No object of the library's, but memory of its caller's. */
static uint32_t state_of_guard(struct hm_object *guard)
{
	return lifecycle_of_guard((void *)guard);
}

/* The object of states that a process has once. */
static struct hm_object process;

static uint32_t state_of_handler(struct hm_object *object)
{
	(void)object;
	return lifecycle_of_handler();
}

static uint32_t state_of_retirement(struct hm_object *object)
{
	(void)object;
	return lifecycle_of_retirement();
}

/* Each range has a state of its own: only results are checked. */
static uint32_t state_of_locks(struct hm_object *object)
{
	(void)object;
	return 1u << LC_LOCK_UNLOCKED | 1u << LC_LOCK_LOCKED | 1u << LC_LOCK_WAITING;
}

static const struct {
	enum object_kind kind;
	uint32_t (*state_of)(struct hm_object *object);
} nouns[] = {
	[LC_DEVICE] = { OBJECT_DEVICE, state_of_device },
	[LC_BUFFER] = { OBJECT_BUFFER, state_of_buffer },
	[LC_MAP] = { OBJECT_MAP, state_of_map },
	[LC_VIEW] = { OBJECT_VIEW, state_of_view },
	[LC_DRM_VIEW] = { OBJECT_DRM_VIEW, state_of_drm_view },
	[LC_QUEUE] = { OBJECT_QUEUE, state_of_queue },
	[LC_FENCE] = { OBJECT_FENCE, state_of_fence },
	[LC_SCOPE] = { OBJECT_SCOPE, state_of_scope },
	[LC_LOCK] = { OBJECT_FREED, state_of_locks },
	[LC_HANDLER] = { OBJECT_FREED, state_of_handler },
	[LC_GUARD] = { OBJECT_FREED, state_of_guard },
	[LC_RETIREMENT] = { OBJECT_FREED, state_of_retirement },
};

static uint32_t state_of(uint32_t noun, struct hm_object *object)
{
	if (!object ||
	    (nouns[noun].kind != OBJECT_FREED && object->kind != (uint32_t)nouns[noun].kind))
		return 0;
	return nouns[noun].state_of(object);
}

static const char *words(uint32_t noun, uint32_t mask, char *text, size_t size)
{
	const struct lifecycle_state_text *first = NULL;
	uint32_t i, n = lifecycle_states(noun, &first);
	size_t length = 0;

	text[0] = '\0';
	for (i = 0; i < n; i++)
		if (mask & 1u << i && length < size)
			length += (size_t)snprintf(text + length, size - length, "%s%s",
						   length ? " or " : "", first[i].word);
	return mask ? text : "none, or ended";
}

static void refuse(const struct call *call, int r, uint32_t after, bool others)
{
	char before_text[256], after_text[256];

	if (lifecycle_is_lenient)
		return;
	fprintf(stderr,
		"hetmap: lifecycle: %s of a %s that was \"%s\" gave %s, and it is \"%s\" now"
		"%s: tests/lifecycle/lifecycle_table.h does not have that\n",
		call->function, lifecycle_nouns[call->noun],
		words(call->noun, call->before, before_text, sizeof(before_text)),
		r ? err_name(r) : "0", words(call->noun, after, after_text, sizeof(after_text)),
		others ? " (other calls ran beside it)" : "");
	if (r)
		fprintf(stderr, "hetmap: lifecycle: its text was: %s\n", hm_errmsg());
	abort();
}

static void begin(struct call *call, uint32_t noun, const char *function, void *object)
{
	uint64_t before;

	call->noun = noun;
	call->function = function;
	call->object = object;
	call->fork_gen = fork_generation;
	call->hooked = hook_hooked();
	before = atomic_fetch_add(&calls, CALL + 1);
	call->number = before / CALL + 1;
	call->others = before & INSIDE;
	call->before = state_of(noun, object);
}

static void end(struct call *call, int r, bool lives)
{
	uint32_t after = lives && call->before ? state_of(call->noun, call->object) : 0;
	bool others = call->others || atomic_load(&calls) / CALL != call->number;
	bool good;

	/* Work goes on while brackets change the map's states. */
	if (call->noun == LC_MAP && call->before & after & 1u << LC_MAP_IN_FLIGHT)
		after |= 1u << LC_MAP_MAPPED;
	/* The changing thread need not be in a call: the device may change the map. */
	if (call->noun == LC_MAP && (call->before | after) & 1u << LC_MAP_CHANGING)
		others = true;
	atomic_fetch_sub(&calls, 1);
	/* A callback has forked: to the child that it was in, all is the parent's now. */
	if (call->fork_gen != fork_generation)
		return;
	if (r > 0) /* some calls have such results: they are successes */
		r = 0;
	/* A hook refuses with any error: the table has it as a shortage. */
	if (r < 0 && (call->hooked || hook_hooked()))
		r = -ENOMEM;
	if (call->before)
		good = lifecycle_allows(call->noun, call->function, call->before, r, after,
					others);
	else
		good = r == -EINVAL || !lives || (!call->object && !r);
	if (!good)
		refuse(call, r, after, others);
}

/* The object that is looked at is the first parameter. */
#define CHECKED(noun, function, parameters, object, ...)         \
	int unchecked_##function parameters;                     \
	int function parameters                                  \
	{                                                        \
		struct call call;                                \
		int r;                                           \
                                                                 \
		begin(&call, LC_##noun, #function, object);      \
		r = unchecked_##function(object, ##__VA_ARGS__); \
		end(&call, r, true);                             \
		return r;                                        \
	}

#define CHECKED_PROCESS(noun, function, parameters, ...)      \
	int unchecked_##function parameters;                  \
	int function parameters                               \
	{                                                     \
		struct call call;                             \
		int r;                                        \
                                                              \
		begin(&call, LC_##noun, #function, &process); \
		r = unchecked_##function(__VA_ARGS__);        \
		end(&call, r, true);                          \
		return r;                                     \
	}

/* The object may have ended, whatever the result. */
#define CHECKED_LAST(noun, function, type)                  \
	int unchecked_##function(type *object);             \
	int function(type *object)                          \
	{                                                   \
		struct call call;                           \
		int r;                                      \
                                                            \
		begin(&call, LC_##noun, #function, object); \
		r = unchecked_##function(object);           \
		end(&call, r, false);                       \
		return r;                                   \
	}

#define CHECKED_REF(noun, function, type)                   \
	type *unchecked_##function(type *object);           \
	type *function(type *object)                        \
	{                                                   \
		struct call call;                           \
                                                            \
		begin(&call, LC_##noun, #function, object); \
		unchecked_##function(object);               \
		end(&call, 0, true);                        \
		return object;                              \
	}

#define CHECKED_VOID(noun, function, type, lives)           \
	void unchecked_##function(type *object);            \
	void function(type *object)                         \
	{                                                   \
		struct call call;                           \
                                                            \
		begin(&call, LC_##noun, #function, object); \
		unchecked_##function(object);               \
		end(&call, 0, lives);                       \
	}

/* clang-format off */
CHECKED(DEVICE, hm_device_query, (struct hm_device *device, struct hm_device_info *ret_info),
	device, ret_info)
CHECKED(DEVICE, hm_buffer_create, (struct hm_device *device, const struct hm_buffer_desc *desc,
	struct hm_buffer **ret_buffer), device, desc, ret_buffer)
CHECKED(DEVICE, hm_buffer_from_file, (struct hm_device *device, const char *path, int fd,
	const struct hm_buffer_desc *desc, struct hm_buffer **ret_buffer),
	device, path, fd, desc, ret_buffer)
CHECKED(DEVICE, hm_buffer_import, (struct hm_device *device, int fd,
	const struct hm_buffer_desc *desc, struct hm_buffer **ret_buffer),
	device, fd, desc, ret_buffer)
CHECKED(DEVICE, hm_buffer_receive, (struct hm_device *device, int socket,
	const struct hm_buffer_desc *desc, struct hm_buffer **ret_buffer),
	device, socket, desc, ret_buffer)
CHECKED(DEVICE, hm_pool_create, (struct hm_device *device, const struct hm_pool_desc *desc,
	struct hm_pool **ret_pool), device, desc, ret_pool)
CHECKED(DEVICE, hm_frame_pool_create, (struct hm_device *device,
	const struct hm_frame_pool_desc *desc, struct hm_frame_pool **ret_pool),
	device, desc, ret_pool)
CHECKED(DEVICE, hm_frame_import, (struct hm_device *device,
	const struct hm_frame_objects *objects, uint32_t flags, struct hm_frame **ret_frame),
	device, objects, flags, ret_frame)
CHECKED(DEVICE, hm_frame_receive, (struct hm_device *device, int socket, uint32_t flags,
	struct hm_frame **ret_frame), device, socket, flags, ret_frame)
CHECKED(DEVICE, hm_alloc, (struct hm_device *device, uint64_t size, uint32_t access,
	void *ret_pointer), device, size, access, ret_pointer)
CHECKED(DEVICE, hm_sim_call, (struct hm_device *device, unsigned long cmd, void *argument),
	device, cmd, argument)
CHECKED(DEVICE, hm_device_recover, (struct hm_device *device, uint32_t flags,
	struct hm_recover_info *ret_info), device, flags, ret_info)
CHECKED(DEVICE, hm_device_stats_get, (struct hm_device *device,
	struct hm_device_stats *ret_stats), device, ret_stats)
CHECKED_REF(DEVICE, hm_device_ref, struct hm_device)
CHECKED_VOID(DEVICE, hm_device_unref, struct hm_device, false)

CHECKED(BUFFER, hm_buffer_query, (struct hm_buffer *buffer, struct hm_buffer_info *ret_info),
	buffer, ret_info)
CHECKED(BUFFER, hm_buffer_export, (struct hm_buffer *buffer, uint32_t flags, int *ret_fd),
	buffer, flags, ret_fd)
CHECKED(BUFFER, hm_buffer_send, (struct hm_buffer *buffer, int socket, uint32_t flags),
	buffer, socket, flags)
CHECKED(BUFFER, hm_buffer_resize, (struct hm_buffer *buffer, uint64_t new_size, uint32_t flags),
	buffer, new_size, flags)
CHECKED(BUFFER, hm_map_create, (struct hm_buffer *buffer, const struct hm_map_desc *desc,
	struct hm_map **ret_map), buffer, desc, ret_map)
CHECKED(BUFFER, hm_sim_buffer, (struct hm_buffer *buffer, uint32_t *ret_handle),
	buffer, ret_handle)
CHECKED(BUFFER, hm_drm_buffer_handle, (struct hm_buffer *buffer, uint64_t offset,
	struct hm_drm_handle *ret_handle), buffer, offset, ret_handle)
CHECKED(BUFFER, hm_buffer_set_loss, (struct hm_buffer *buffer, const struct hm_loss_desc *desc),
	buffer, desc)
CHECKED(BUFFER, hm_buffer_seal, (struct hm_buffer *buffer, uint32_t flags), buffer, flags)
CHECKED(BUFFER, hm_buffer_shadow, (struct hm_buffer *buffer, uint64_t offset, uint64_t length),
	buffer, offset, length)
CHECKED(BUFFER, hm_buffer_stats_get, (struct hm_buffer *buffer,
	struct hm_buffer_stats *ret_stats), buffer, ret_stats)
CHECKED_REF(BUFFER, hm_buffer_ref, struct hm_buffer)
CHECKED_VOID(BUFFER, hm_buffer_unref, struct hm_buffer, false)

CHECKED(MAP, hm_map_query, (struct hm_map *map, struct hm_map_info *ret_info), map, ret_info)
CHECKED(MAP, hm_map_protect, (struct hm_map *map, uint64_t offset, uint64_t length,
	uint32_t access), map, offset, length, access)
CHECKED(MAP, hm_map_protect_begin, (struct hm_map *map, uint64_t offset, uint64_t length,
	uint32_t access, struct hm_scope **ret_scope), map, offset, length, access, ret_scope)
CHECKED(MAP, hm_map_lock, (struct hm_map *map, uint64_t offset, uint64_t length,
	uint32_t flags, uint64_t *ret_locked), map, offset, length, flags, ret_locked)
CHECKED(MAP, hm_map_unlock, (struct hm_map *map, uint64_t offset, uint64_t length),
	map, offset, length)
CHECKED(MAP, hm_map_advise, (struct hm_map *map, uint64_t offset, uint64_t length,
	uint32_t advice), map, offset, length, advice)
CHECKED(MAP, hm_map_prefetch, (struct hm_map *map, uint64_t offset, uint64_t length,
	uint32_t access), map, offset, length, access)
CHECKED(MAP, hm_map_sync, (struct hm_map *map, uint64_t offset, uint64_t length,
	uint32_t flags), map, offset, length, flags)
CHECKED(MAP, hm_map_persist, (struct hm_map *map, uint64_t offset, uint64_t length),
	map, offset, length)
CHECKED(MAP, hm_file_publish, (struct hm_map *map, uint64_t offset, uint64_t bytes),
	map, offset, bytes)
CHECKED(MAP, hm_file_refresh, (struct hm_map *map, uint64_t offset, uint64_t bytes),
	map, offset, bytes)
CHECKED(MAP, hm_map_begin_cpu, (struct hm_map *map, uint64_t offset, uint64_t length,
	uint32_t access), map, offset, length, access)
CHECKED(MAP, hm_map_end_cpu, (struct hm_map *map, uint64_t offset, uint64_t length,
	uint32_t access), map, offset, length, access)
CHECKED(MAP, hm_view_create, (struct hm_map *map, uint64_t offset, uint64_t length,
	const struct hm_view_ops *ops, void *user, struct hm_view **ret_view),
	map, offset, length, ops, user, ret_view)
CHECKED(MAP, hm_combine_create, (struct hm_map *map, const struct hm_combine_desc *desc,
	struct hm_combine **ret_combine), map, desc, ret_combine)
CHECKED(MAP, hm_tiering_create, (struct hm_map *map, const struct hm_tiering_desc *desc,
	struct hm_tiering **ret_tiering), map, desc, ret_tiering)
CHECKED(MAP, hm_drm_view_create, (struct hm_map *map, uint64_t offset, uint64_t length,
	struct hm_device *device, uint32_t access, struct hm_drm_view **ret_view),
	map, offset, length, device, access, ret_view)
CHECKED_REF(MAP, hm_map_ref, struct hm_map)
CHECKED_VOID(MAP, hm_map_unref, struct hm_map, false)

CHECKED_VOID(VIEW, hm_view_unref, struct hm_view, false)

CHECKED(DRM_VIEW, hm_drm_view_hold, (struct hm_drm_view *view, struct hm_drm_handle *ret_handle),
	view, ret_handle)
CHECKED_VOID(DRM_VIEW, hm_drm_view_release, struct hm_drm_view, true)
CHECKED_VOID(DRM_VIEW, hm_drm_view_unref, struct hm_drm_view, false)

CHECKED(QUEUE, hm_queue_launch, (struct hm_queue *queue, struct hm_kernel *kernel,
	const uint64_t grid[3], const struct hm_arg *args, uint32_t n_arg,
	struct hm_fence **ret_fence), queue, kernel, grid, args, n_arg, ret_fence)
CHECKED(QUEUE, hm_queue_copy, (struct hm_queue *queue, void *to, const void *from,
	uint64_t length, struct hm_fence **ret_fence), queue, to, from, length, ret_fence)
CHECKED(QUEUE, hm_queue_fill, (struct hm_queue *queue, void *to, uint32_t word,
	uint64_t length, struct hm_fence **ret_fence), queue, to, word, length, ret_fence)
CHECKED(QUEUE, hm_queue_wait, (struct hm_queue *queue, struct hm_fence *fence), queue, fence)
CHECKED(QUEUE, hm_sim_queue, (struct hm_queue *queue, uint32_t *ret_number),
	queue, ret_number)
CHECKED_REF(QUEUE, hm_queue_ref, struct hm_queue)
CHECKED_VOID(QUEUE, hm_queue_unref, struct hm_queue, false)

CHECKED(FENCE, hm_fence_wait, (struct hm_fence *fence, uint64_t timeout_ns), fence, timeout_ns)
CHECKED(FENCE, hm_fence_query, (struct hm_fence *fence, struct hm_fence_info *ret_info),
	fence, ret_info)
CHECKED(FENCE, hm_fence_fd, (struct hm_fence *fence, int *ret_fd), fence, ret_fd)
CHECKED(FENCE, hm_fence_export_dmabuf, (struct hm_fence *fence, int fd, uint32_t access),
	fence, fd, access)
CHECKED(FENCE, hm_fence_export_syncobj, (struct hm_fence *fence, int fd, uint32_t handle,
	uint64_t point), fence, fd, handle, point)
CHECKED_REF(FENCE, hm_fence_ref, struct hm_fence)
CHECKED_VOID(FENCE, hm_fence_unref, struct hm_fence, false)

CHECKED_LAST(SCOPE, hm_map_protect_end, struct hm_scope)

CHECKED(GUARD, hm_guard_enter, (struct hm_guard *guard), guard)
CHECKED(GUARD, hm_guard_end, (struct hm_guard *guard), guard)

CHECKED_PROCESS(LOCK, hm_lock_budget_set, (uint64_t bytes), bytes)
CHECKED_PROCESS(LOCK, hm_lock_budget_query, (struct hm_lock_budget *ret_budget), ret_budget)
CHECKED_PROCESS(LOCK, hm_lock_restore, (uint64_t *ret_locked), ret_locked)

CHECKED_PROCESS(HANDLER, hm_handler_install, (uint32_t flags), flags)
CHECKED_PROCESS(HANDLER, hm_handler_remove, (void))
CHECKED_PROCESS(HANDLER, hm_handler_chained, (void))
CHECKED_PROCESS(HANDLER, hm_handler_query, (struct hm_handler_info *ret_info), ret_info)

CHECKED_PROCESS(RETIREMENT, hm_retire_set, (const struct hm_retire_desc *desc), desc)
CHECKED_PROCESS(RETIREMENT, hm_retire_flush, (void))
