// SPDX-License-Identifier: MIT
/*
 * Pages that are gone from under live maps. Nobody asks the maps' users: what was
 * there is not there any more, whatever they are about to do.
 */
#include "lost.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include "buffer.h"
#include "map.h"
#include "reach.h"
#include "remap.h"
#include "reserve.h"
#include "resident.h"
#include "sys.h"

#define ZERO_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED)

/* ---- every map of a device ---- */

/* Maps are collected some at a time: nothing is allocated where memory may be short. */
#define BATCH 32

struct batch {
	const void *backend; /* of which device; NULL: of any */
	uint64_t from;       /* addresses below were seen */
	uint32_t n;
	struct hm_map *maps[BATCH]; /* with references */
};

static int collect(void *user, const struct registry_entry *entry)
{
	struct batch *batch = user;

	if (entry->base < batch->from)
		return 0;
	if (batch->n == BATCH)
		return 1;
	/* A parent's map is not this process's to change. */
	if (entry->map->object.fork_gen != fork_generation ||
	    (batch->backend && entry->device->backend != batch->backend) ||
	    !object_try_ref(&entry->map->object))
		return 0;
	batch->maps[batch->n++] = entry->map;
	batch->from = entry->base + 1;
	return 0;
}

void lost_each_map(const void *backend, void (*visit)(struct hm_map *map, const void *user),
		   const void *user)
{
	struct batch batch = { .backend = backend };
	uint32_t i;
	int more;

	do {
		batch.n = 0;
		more = registry_each(batch.from, collect, &batch);
		for (i = 0; i < batch.n; i++) {
			visit(batch.maps[i], user);
			hm_map_unref(batch.maps[i]);
		}
	} while (more);
}

/* ---- whole devices ---- */

/* All rights first, then what they are: whoever touches meanwhile has those he had. */
static void put_zeros(struct hm_map *map)
{
	uint64_t committed = buffer_pages(map->buffer, map->length);
	void *mapped;

	if (sys_mmap(map->address, map->span, PROT_READ | PROT_WRITE, ZERO_FLAGS, -1, 0,
		     &mapped)) {
		reserve_mend(map->address, map->span);
		return;
	}
	/* What is not inherited stays so; a child that had zeros would be no harm. */
	sys_madvise(map->address, map->span, MADV_DONTFORK);
	map_apply_rights(map->address, map->rights, 0, committed);
	if (committed < map->span)
		sys_mprotect(map->address + committed, map->span - committed, PROT_NONE);
}

static void publish(struct hm_map *map)
{
	struct registry_descriptor *staged;
	struct registry_entry entry;

	map_entry(map, map->address, map->length, map->generation + 1, map->rights, &entry);
	if (!registry_stage(&entry, &staged))
		registry_commit(map->slot, staged);
	pthread_mutex_lock(&map->lock);
	map->generation++;
	map->lost = true;
	pthread_mutex_unlock(&map->lock);
}

/* None goes while change is held; those that still come are behind. */
static struct map_view *nth_view(struct hm_map *map, uint32_t n)
{
	struct map_view *view, *found = NULL;

	pthread_mutex_lock(&map->lock);
	cds_list_for_each_entry(view, &map->views, link)
		if (!n--) {
			found = view;
			break;
		}
	pthread_mutex_unlock(&map->lock);
	return found;
}

/* Work in flight is not waited for: its device has ended it, or it finds zeros. */
static void lose_locked(struct hm_map *map)
{
	struct map_view *view;
	uint32_t i;

	put_zeros(map);
	reach_forget(map, 0);
	if (map->locked)
		resident_note(map, NULL);
	publish(map);
	for (i = 0; (view = nth_view(map, i)); i++)
		if (view->hooks->lost)
			view->hooks->lost(view);
}

static void lose(struct hm_map *map, const void *user)
{
	(void)user;
	if (buffer_lock(map->buffer))
		return;
	if (!remap_lock(map)) {
		lose_locked(map);
		remap_unlock(map);
	}
	buffer_unlock(map->buffer);
}

/* Read by who touches bytes that are in no map that is known. */
static pthread_rwlock_t touching = PTHREAD_RWLOCK_INITIALIZER;

int lost_touch_begin(const struct hm_device *device)
{
	int r;

	pthread_rwlock_rdlock(&touching);
	r = lost_check(device);
	if (r)
		pthread_rwlock_unlock(&touching);
	return r;
}

void lost_touch_end(void)
{
	pthread_rwlock_unlock(&touching);
}

void lost_fork_child(void)
{
	touching = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
}

void lost_device(const void *backend)
{
	lost_each_map(backend, lose, NULL);
	/* Who begins from here on finds it gone; the others have ended. */
	pthread_rwlock_wrlock(&touching);
	pthread_rwlock_unlock(&touching);
}

int lost_check(const struct hm_device *device)
{
	return backend_explain(device->ops, device->ops->device_check(device->backend),
			       "device_check");
}

/* mmap() may have been the first to hear of it: then the backend is made to ask. */
static bool is_gone(struct hm_device *device)
{
	struct hm_device_info info = { 0 };

	if (!device->ops->device_check(device->backend))
		device->ops->device_query(device->backend, &info);
	return device->ops->device_check(device->backend);
}

int lost_notice(struct hm_device *device, int r)
{
	char text[ERR_TEXT_MAX];

	if (likely(r != -ENODEV))
		return r;
	snprintf(text, sizeof(text), "%s", hm_errmsg());
	if (is_gone(device))
		lost_device(device->backend);
	return err_set(r, "%s", text);
}
