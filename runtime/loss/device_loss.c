// SPDX-License-Identifier: MIT
/*
 * Pages that are gone from under live maps. The maps' users can't refuse: the bytes are gone
 * already.
 */
#include "loss/device_loss.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "core/device_link.h"
#include "loss/loss.h"
#include "map/map.h"
#include "fault/reach.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "fault/block_loss.h"
#include "base/reserve.h"
#include "map/resident.h"
#include "core/segments.h"
#include "base/sys.h"
#include "map/view.h"

/* ---- whole devices ---- */

static int put_run(void *user, uint64_t offset, uint64_t length, uint32_t access)
{
	struct hm_map *map = user;

	return loss_map_after(map->buffer, map->address + offset, map->offset + offset, length,
			      prot_of_access(access));
}

/* Each run keeps its rights, so that a touch meanwhile finds neither more nor less. */
int device_loss_put_range(struct hm_map *map, uint64_t offset, uint64_t length)
{
	return rangemap_each(map->rights, offset, length, put_run, map);
}

void device_loss_put_after(struct hm_map *map)
{
	uint64_t committed = buffer_pages(map->buffer, map->length);
	int r;

	r = device_loss_put_range(map, 0, committed);
	if (!r && committed < map->span)
		r = reserve_mend(map->address + committed, map->span - committed);
	if (r) {
		reserve_mend(map->address, map->span);
		return;
	}
	/*
	 * Keeps the map out of fork children. A failure does no harm: a child would have zeros.
	 */
	sys_madvise(map->address, map->span, MADV_DONTFORK);
}

/* Does not wait for work in flight: the device has ended it, or it finds zeros. */
static void lose_locked(struct hm_map *map)
{
	struct map_view *view = NULL;

	/* Set before the bytes change, because a reader of the bytes checks afterwards. */
	pthread_mutex_lock(&map->lock);
	map->lost = true;
	pthread_mutex_unlock(&map->lock);
	repair_claim(map, 0, map->span);
	device_loss_put_after(map);
	repair_release(map);
	reach_forget(map, 0, UINT64_MAX);
	if (map->locked)
		resident_note(map, NULL);
	registry_set_generation(map->slot, map->generation + 1);
	pthread_mutex_lock(&map->lock);
	map->generation++;
	pthread_mutex_unlock(&map->lock);
	map_note_lost(map);
	while ((view = view_behind(map, view)))
		if (view->hooks->lost)
			view->hooks->lost(view);
}

static void lose(struct hm_map *map, const void *user)
{
	if (buffer_lock(map->buffer))
		return;
	/* A map that was recovered since belongs to another backend pointer. */
	if (segments_link(map->buffer)->backend == user && !remap_lock(map)) {
		lose_locked(map);
		remap_unlock(map);
	}
	buffer_unlock(map->buffer);
}

/*
 * Read-locked while the library touches bytes outside of known maps. Readers never nest, and a
 * loss must not wait for an endless sequence of them.
 */
static pthread_rwlock_t touching = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

int device_loss_touch_begin(const struct hm_device *device, const struct device_link *link)
{
	int r;

	pthread_rwlock_rdlock(&touching);
	r = device_loss_check_link(device, link);
	if (r)
		pthread_rwlock_unlock(&touching);
	return r;
}

void device_loss_touch_end(void)
{
	pthread_rwlock_unlock(&touching);
}

void device_loss_fork_child(void)
{
	touching = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
}

void device_loss_maps(const void *backend)
{
	map_each(backend, lose, backend);
	/*
	 * A reader that begins from here on finds the device gone; earlier readers have ended.
	 */
	pthread_rwlock_wrlock(&touching);
	pthread_rwlock_unlock(&touching);
}

void device_loss_tell(const void *backend)
{
	/* The callback holds the locks of a change: a later call tells of the loss. */
	if (view_in_callback())
		return;
	device_loss_maps(backend);
	loss_tell(backend);
}

int device_loss_check_link(const struct hm_device *device, const struct device_link *link)
{
	uint32_t said = err_count();
	int r;

	if (unlikely(link != atomic_load(&device->link)))
		return err_set(
			-ENODEV,
			"%s was taken away and is back without its bytes: hm_device_recover() "
			"brings back buffers that have a loss policy, with "
			"HM_RECOVER_SHADOWED those of HM_LOSS_SHADOW, too; unref the others",
			device->name);
	r = device->ops->device_check(link->backend);
	return likely(!r) ? 0 : backend_explain(device->ops, said, r, "device_check");
}

int device_loss_check(struct hm_device *device)
{
	struct device_link *link = link_get(device);
	uint32_t said = err_count();
	int r;

	r = device->ops->device_check(link->backend);
	link_put(device, link);
	return backend_explain(device->ops, said, r, "device_check");
}

int device_loss_check_buffer(struct hm_buffer *buffer)
{
	struct segment_list *segments = segments_get(buffer);
	int r = device_loss_check_link(buffer->device, segments->link);

	segments_put(buffer, segments);
	return r;
}

int device_loss_ask(struct hm_device *device, const struct device_link *link)
{
	const struct hm_backend_ops *ops = device->ops;

	/* After any answer, device_check() knows. */
	if (!ops->device_check(link->backend))
		ops->device_ask(link->backend);
	return device_loss_check_link(device, link);
}

int device_loss_notice(struct hm_device *device, int r)
{
	struct device_link *link;

	r = block_loss_notice(r);
	if (likely(r != -ENODEV) || view_in_callback())
		return r;
	err_hold();
	/* mmap() may have been the first to meet the loss, so the backend is made to ask. */
	link = link_get(device);
	if (device_loss_ask(device, link))
		device_loss_tell(link->backend);
	link_put(device, link);
	err_release();
	return r;
}
