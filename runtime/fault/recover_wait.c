// SPDX-License-Identifier: MIT
/* Waits for the users of a buffer before its bytes come back. */
#include "fault/recover_wait.h"

#include <errno.h>
#include <time.h>

#include "core/buffer.h"
#include "loss/loss.h"
#include "map/map.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "base/sys.h"

/* Time between two looks at the users that hold a recovery up. */
#define MOMENT_NS 200000

/* Finds a map of the buffer that is in use, with a reference. Caller holds buffer->lock. */
static struct hm_map *find_busy_locked(struct hm_buffer *buffer, bool part)
{
	struct hm_map *map;

	cds_list_for_each_entry(map, &buffer->maps, buffer_link)
		if ((!part || repair_has_replaced(map)) &&
		    (atomic_load(&map->n_use) || map_brackets(map)) &&
		    object_try_ref(&map->object))
			return map;
	return NULL;
}

/*
 * Waits for the work until @deadline, an absolute time, or a moment for the owner of a bracket.
 */
static int wait_for_map(struct hm_map *map, uint64_t deadline)
{
	const struct timespec moment = { .tv_nsec = MOMENT_NS };
	uint64_t now = time_now_ns();
	uint32_t n;
	int r = -ETIME;

	if (atomic_load(&map->n_use)) {
		if (now < deadline)
			r = map_use_wait(map, 0, UINT64_MAX / 2, HM_WRITE, deadline - now);
		if (r != -ETIME && r != -EINPROGRESS)
			return 0; /* even if the work has failed */
		return err_prefix(-EBUSY, "work on a map that began before the loss");
	}
	n = map_brackets(map);
	if (now < deadline || !n) {
		nanosleep(&moment, NULL);
		return 0;
	}
	return err_set(-EBUSY,
		       "%u brackets on the map at %p began before this and are open still: "
		       "hm_map_end_cpu() ends them",
		       n, (void *)map->address);
}

int recover_wait(struct hm_buffer *buffer, const struct loss *loss, bool part)
{
	const struct timespec moment = { .tv_nsec = MOMENT_NS };
	uint64_t deadline = time_now_ns() + REMAP_TIMEOUT_NS;
	struct hm_map *map;
	int r;

	/* The recovery must be told after the loss. */
	while (loss_is_being_told(loss)) {
		if (time_now_ns() >= deadline)
			return err_set(-EBUSY, "%s: its lost callback has not returned",
				       buffer->name);
		nanosleep(&moment, NULL);
	}
	do {
		r = buffer_lock(buffer);
		if (r)
			return r;
		map = find_busy_locked(buffer, part);
		buffer_unlock(buffer);
		if (!map)
			return 0;
		r = wait_for_map(map, deadline);
		hm_map_unref(map);
	} while (!r);
	return r;
}
