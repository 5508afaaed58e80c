// SPDX-License-Identifier: MIT
/* Write-back of a map to storage. */
#include <inttypes.h>
#include <sys/mman.h>

#include "api/door.h"
#include "base/sys.h"
#include "fault/repair.h"
#include "map/bracket.h"
#include "map/map.h"
#include "map/remap.h"

static int write_back(struct hm_map *map, char *address, uint64_t offset, uint64_t length,
		      uint32_t flags)
{
	int r;

	r = sys_msync(address + offset, map_pages(map, offset, length),
		      flags & HM_SYNC_ASYNC ? MS_ASYNC : MS_SYNC);
	if (r)
		return err_set(r,
			       "writing back %" PRIu64 " bytes of %s from %" PRIu64
			       " on (msync): %s",
			       length, map->buffer->name, offset, err_name(r));
	return 0;
}

/*
 * Holds no lock while it waits: a server that does not answer makes it wait for ever, and
 * changes of the map, the loss of its device and the handler's installation must not wait as
 * well. A change by another thread that takes pages away meanwhile counts as a later one; but
 * if other bytes took their place (*ret_again), those were not written back.
 */
static int sync_once(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags,
		     bool *ret_again)
{
	uint32_t generation;
	char *address;
	int r;

	*ret_again = false;
	r = remap_lock(map);
	if (r)
		return r;
	r = map_check_pages(map, offset, length, "hm_map_sync");
	if (r || !(map->buffer->caps & HM_CAP_SYNC)) {
		remap_unlock(map);
		return r;
	}
	address = map->address;
	generation = map->generation;
	atomic_fetch_add(&map->n_sync, 1);
	remap_unlock(map);
	r = write_back(map, address, offset, length, flags);
	atomic_fetch_sub(&map->n_sync, 1);
	*ret_again = map->generation != generation;
	return r;
}

int map_sync(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags)
{
	int r, lost;
	bool again;

	r = map_check(map);
	if (r)
		return r;
	if (flags & ~HM_SYNC_ASYNC)
		return err_set(-EINVAL, "hm_map_sync: unknown flags 0x%x",
			       flags & ~HM_SYNC_ASYNC);
	r = bracket_write_out(map, HM_WRITE);
	if (r)
		return device_loss_notice(map->buffer->device, r);
	/* Before it, too: replacements of lost bytes may go while they are written back. */
	lost = repair_check(map, offset, length, NULL);
	do
		r = sync_once(map, offset, length, flags, &again);
	while (again);
	/* After it: replacements of lost pages belong to no file, and msync() answers 0. */
	if (!r)
		r = repair_check(map, offset, length, NULL);
	if (!r && lost)
		r = err_set(lost,
			    "%s: bytes that were lost under the map at %p were recovered "
			    "meanwhile, without the stores to their replacements",
			    map->buffer->name, (void *)map->address);
	return device_loss_notice(map->buffer->device, r);
}

int hm_map_sync(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags)
{
	err_begin();
	return map_sync(map, offset, length, flags);
}
