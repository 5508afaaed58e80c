// SPDX-License-Identifier: MIT
/*
 * The access hook: sets it, calls it, and counts its answers.
 *
 * There are two slots, one of which is current. A call counts itself into the current slot and
 * checks that the slot is still current: then a thread that sets another hook sees the count,
 * and waits for it to reach 0 before it returns, after which the slot may be filled again. A
 * hook is therefore called without a lock, and a slow hook delays no thread except one that
 * sets the next hook.
 */
#include "hook/hook.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/buffer.h"
#include "base/callback.h"
#include "share/share.h"
#include "base/sys.h"

struct hook_slot {
	hm_access_hook *hook; /* written while the slot is not current, and not in use */
	void *user;
	_Atomic uint32_t running; /* threads inside it, or about to find it replaced */
};

_Atomic(struct hook_slot *) hook_current;

static struct hook_slot slots[2];

static pthread_mutex_t set_mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the next two */
static pthread_cond_t drained = PTHREAD_COND_INITIALIZER;
static bool draining; /* a thread waits for the slot that is not current */

/* The slot of the hook that this thread is in: the hook's own calls are not asked about. */
static _Thread_local const struct hook_slot *inside;

static _Thread_local uint64_t refusals; /* of calls of this thread */

static const char *const names[] = {
	[HM_ACCESS_OPEN] = "open",           [HM_ACCESS_CREATE] = "create",
	[HM_ACCESS_FROM_FILE] = "from_file", [HM_ACCESS_MAP] = "map",
	[HM_ACCESS_RESIZE] = "resize",       [HM_ACCESS_PROTECT] = "protect",
	[HM_ACCESS_LOCK] = "lock",           [HM_ACCESS_EXPORT] = "export",
	[HM_ACCESS_IMPORT] = "import",       [HM_ACCESS_SEND] = "send",
	[HM_ACCESS_RECEIVE] = "receive",     [HM_ACCESS_LAUNCH] = "launch",
	[HM_ACCESS_SEAL] = "seal",
};

_Static_assert(ARRAY_SIZE(names) <= HM_ACCESS_MAX, "the counters have no more room");

static struct {
	_Atomic uint64_t asked, refused;
} counters[ARRAY_SIZE(names)];

const char *hm_access_name(uint32_t operation)
{
	return operation < ARRAY_SIZE(names) ? names[operation] : NULL;
}

int hm_access_query(struct hm_access_counters *ret_counters)
{
	struct hm_access_counters now = { .operations = ARRAY_SIZE(names) };
	size_t i;
	int r;

	err_begin();
	if (!ret_counters)
		return err_set(-EINVAL, "hm_access_query: ret_counters is NULL");
	r = struct_check_out(ret_counters->struct_size, sizeof(now), sizeof(now),
			     "hm_access_counters");
	if (r)
		return r;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		now.asked[i] = atomic_load_explicit(&counters[i].asked, memory_order_relaxed);
		now.refused[i] =
			atomic_load_explicit(&counters[i].refused, memory_order_relaxed);
	}
	struct_write(ret_counters, &now, ret_counters->struct_size);
	return 0;
}

/* ---- the slots ---- */

static void leave(struct hook_slot *slot)
{
	if (atomic_fetch_sub(&slot->running, 1) != 1 || atomic_load(&hook_current) == slot)
		return;
	pthread_mutex_lock(&set_mutex);
	pthread_cond_broadcast(&drained);
	pthread_mutex_unlock(&set_mutex);
}

/*
 * Sequentially consistent, as hm_access_hook_set() is: one of the two sees the other's store.
 */
static struct hook_slot *enter(void)
{
	struct hook_slot *slot;

	while ((slot = atomic_load(&hook_current))) {
		atomic_fetch_add(&slot->running, 1);
		if (likely(atomic_load(&hook_current) == slot))
			break;
		leave(slot);
	}
	return slot;
}

int hm_access_hook_set(hm_access_hook *hook, void *user)
{
	struct hook_slot *old, *next = NULL;

	err_begin();
	if (inside)
		return err_set(-EDEADLK, "hm_access_hook_set: a hook would wait for itself: "
					 "set another one outside of it");
	fork_init();
	pthread_mutex_lock(&set_mutex);
	while (draining)
		pthread_cond_wait(&drained, &set_mutex);
	old = atomic_load(&hook_current);
	if (hook) {
		next = old == &slots[0] ? &slots[1] : &slots[0];
		next->hook = hook;
		next->user = user;
	}
	atomic_store(&hook_current, next);
	if (old) {
		draining = true;
		while (atomic_load(&old->running))
			pthread_cond_wait(&drained, &set_mutex);
		draining = false;
		pthread_cond_broadcast(&drained);
	}
	pthread_mutex_unlock(&set_mutex);
	return 0;
}

void hook_fork_child(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(slots); i++)
		atomic_store(&slots[i].running, inside == &slots[i]);
	draining = false;
	pthread_mutex_init(&set_mutex, NULL);
	pthread_cond_init(&drained, NULL);
}

/* ---- asking ---- */

/* 'launch "saxpy" on "opencl:0", 8192 bytes' */
static void describe(const struct hm_access_request *request, char *text, size_t size)
{
	const char *what = request->path   ? request->path :
			   request->buffer ? request->buffer :
					     request->kernel;
	const char *where = request->device ? request->device : request->accel;
	uint64_t bytes = request->length ? request->length : request->size;
	char amount[32] = "";

	if (bytes)
		snprintf(amount, sizeof(amount), ", %" PRIu64 " bytes", bytes);
	snprintf(text, size, "%s%s%.256s%s%s%s%s%s", names[request->operation],
		 what ? " \"" : "", what ? what : "", what ? "\"" : "",
		 where ? (request->operation == HM_ACCESS_OPEN ? " \"" : " on \"") : "",
		 where ? where : "", where ? "\"" : "", amount);
}

static int refuse(const struct hm_access_request *request, int r, const char *reason)
{
	char what[512];

	if (r > 0 || r < -4095)
		r = -EACCES;
	stats_add(&counters[request->operation].refused, 1);
	refusals++;
	describe(request, what, sizeof(what));
	return err_set(r, "the access hook refused %s: %s", what,
		       reason[0] ? reason : err_name(r));
}

uint64_t hook_refusals(void)
{
	return refusals;
}

int hook_ask(struct hm_access_request *request)
{
	char reason[HM_ACCESS_REASON_MAX] = "";
	struct hook_slot *slot;
	struct callback callback;
	int r;

	if (inside)
		return 0;
	slot = enter();
	if (!slot)
		return 0;
	request->struct_size = sizeof(*request);
	request->pid = (uint32_t)getpid();
	request->thread = (uint32_t)gettid();
	request->uid = geteuid();
	request->gid = getegid();
	stats_add(&counters[request->operation].asked, 1);
	inside = slot;
	callback = callback_begin();
	r = slot->hook(slot->user, request, reason);
	callback_end(callback);
	inside = NULL;
	leave(slot);
	reason[sizeof(reason) - 1] = '\0';
	return r ? refuse(request, r, reason) : 0;
}

int hook_ask_create(const struct hm_device *device, const struct hm_buffer_desc *desc)
{
	struct hm_access_request request = {
		.operation = HM_ACCESS_CREATE,
		.device = device->name,
		.buffer = desc->name ? desc->name : "buffer",
		.size = desc->size,
		.max_size = max_u64(desc->max_size, desc->size),
		.access = access_of_flags(desc->flags),
		.flags = desc->flags,
		.place = desc->place,
	};

	return hook_ask(&request);
}

/* Fills in the fields of a buffer. */
static int read_buffer(struct hm_buffer *buffer, struct hm_access_request *request)
{
	int r = buffer_lock(buffer);

	if (r)
		return r;
	request->size = buffer->size;
	request->max_size = buffer->max_size;
	buffer_unlock(buffer);
	request->device = buffer->device->name;
	request->buffer = buffer->name;
	request->serial = buffer->serial;
	return 0;
}

static int ask_leaving(uint32_t operation, struct hm_buffer *buffer, uint32_t flags,
		       struct hm_access_request *request)
{
	int r = read_buffer(buffer, request);

	if (r)
		return r;
	request->operation = operation;
	request->access = flags & HM_EXPORT_READ_ONLY ? HM_READ : buffer->access;
	request->flags = flags;
	return hook_ask(request);
}

int hook_ask_export(struct hm_buffer *buffer, uint32_t flags)
{
	struct hm_access_request request = { 0 };

	return ask_leaving(HM_ACCESS_EXPORT, buffer, flags, &request);
}

static void read_peer(int socket, struct hm_access_request *request)
{
	struct ucred peer;

	if (sys_peer(socket, &peer))
		return;
	request->peer_pid = (uint32_t)peer.pid;
	request->peer_uid = peer.uid;
	request->peer_gid = peer.gid;
}

int hook_ask_send(struct hm_buffer *buffer, int socket, uint32_t flags)
{
	struct hm_access_request request = { 0 };

	read_peer(socket, &request);
	return ask_leaving(HM_ACCESS_SEND, buffer, flags, &request);
}

int hook_ask_receive(const struct hm_device *device, int socket, int fd, uint64_t size,
		     uint32_t access, const struct hm_buffer_desc *desc)
{
	struct hm_access_request request = {
		.operation = HM_ACCESS_RECEIVE,
		.device = device->name,
		.buffer = desc->name ? desc->name : "received",
		.size = size,
		.max_size = size,
		.access = access & access_of_flags(desc->flags),
		.flags = desc->flags,
	};
	char path[PATH_MAX];
	int r;

	r = hook_read_path(fd, path);
	if (r)
		return r;
	request.path = path;
	read_peer(socket, &request);
	return hook_ask(&request);
}

int hook_ask_resize(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags)
{
	struct hm_access_request request = { .operation = HM_ACCESS_RESIZE, .flags = flags };
	int r = read_buffer(buffer, &request);

	if (r)
		return r;
	request.size = new_size;
	request.access = buffer->access;
	return hook_ask(&request);
}

int hook_ask_seal(struct hm_buffer *buffer, uint32_t flags)
{
	struct hm_access_request request = { .operation = HM_ACCESS_SEAL, .flags = flags };
	int r = read_buffer(buffer, &request);

	if (r)
		return r;
	request.access = HM_READ;
	return hook_ask(&request);
}

int hook_ask_map(struct hm_buffer *buffer, const struct hm_map_desc *desc)
{
	struct hm_access_request request = {
		.operation = HM_ACCESS_MAP,
		.offset = desc->offset,
		.length = desc->length,
		.access = desc->access,
		.flags = desc->flags,
	};
	int r = read_buffer(buffer, &request);

	if (r)
		return r;
	if (!request.length && request.offset < request.size)
		request.length = request.size - request.offset;
	return hook_ask(&request);
}

int hook_ask_range(uint32_t operation, struct hm_map *map, uint64_t offset, uint64_t length,
		   uint32_t access, uint32_t flags)
{
	struct hm_access_request request = {
		.operation = operation,
		.device = map->buffer->device->name,
		.buffer = map->buffer->name,
		.serial = map->buffer->serial,
		.size = atomic_load_explicit(&map->length, memory_order_relaxed),
		.max_size = map->span,
		.offset = offset,
		.length = length,
		.access = access,
		.flags = flags,
	};

	return hook_ask(&request);
}
