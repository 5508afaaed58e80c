// SPDX-License-Identifier: MIT
/* Pages of a map: brought in, advised, locked. */
#include <inttypes.h>
#include <sys/mman.h>

#include "api/door.h"
#include "base/compat.h"
#include "base/sys.h"
#include "map/announce.h"
#include "map/map.h"
#include "map/remap.h"
#include "map/resident.h"

int map_prefetch(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	int r;

	r = map_check(map);
	if (r)
		return r;
	if (access != HM_READ && access != (HM_READ | HM_WRITE))
		return err_set(-EINVAL,
			       "hm_map_prefetch: access 0x%x is neither HM_READ nor "
			       "HM_READ | HM_WRITE",
			       access);
	r = remap_lock(map);
	if (r)
		return r;
	r = map_check_pages(map, offset, length, "hm_map_prefetch");
	if (!r)
		r = resident_check(map->buffer);
	if (r)
		goto out;
	if (!map_allows(map, offset, length, access)) {
		r = err_set(-EACCES,
			    "hm_map_prefetch: some of %" PRIu64 " bytes from %" PRIu64
			    " on lack that access: see hm_map_protect",
			    length, offset);
		goto out;
	}
	r = resident_populate(map, offset, map_pages(map, offset, length), access);
out:
	remap_unlock(map);
	return r;
}

int hm_map_prefetch(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	err_begin();
	return map_prefetch(map, offset, length, access);
}

static const struct {
	int madvise;
	const char *name;
} advices[] = {
	[HM_ADVICE_NORMAL] = { MADV_NORMAL, "MADV_NORMAL" },
	[HM_ADVICE_SEQUENTIAL] = { MADV_SEQUENTIAL, "MADV_SEQUENTIAL" },
	[HM_ADVICE_RANDOM] = { MADV_RANDOM, "MADV_RANDOM" },
	[HM_ADVICE_WILLNEED] = { MADV_WILLNEED, "MADV_WILLNEED" },
	[HM_ADVICE_COLD] = { MADV_COLD, "MADV_COLD" },
	[HM_ADVICE_PAGEOUT] = { MADV_PAGEOUT, "MADV_PAGEOUT" },
	[HM_ADVICE_HUGEPAGE] = { MADV_HUGEPAGE, "MADV_HUGEPAGE" },
	[HM_ADVICE_NOHUGEPAGE] = { MADV_NOHUGEPAGE, "MADV_NOHUGEPAGE" },
};

int hm_map_advise(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t advice)
{
	int r;

	err_begin();
	r = map_check(map);
	if (r)
		return r;
	if (advice >= ARRAY_SIZE(advices))
		return err_set(-EINVAL, "hm_map_advise: advice %u is unknown: 0 to %zu are",
			       advice, ARRAY_SIZE(advices) - 1);
	r = remap_lock(map);
	if (r)
		return r;
	r = map_check_pages(map, offset, length, "hm_map_advise");
	if (r)
		goto out;
	if (advice == HM_ADVICE_WILLNEED)
		r = announce_pages(map->buffer, map->address + offset,
				   map_pages(map, offset, length));
	else
		r = sys_madvise(map->address + offset, map_pages(map, offset, length),
				advices[advice].madvise);
	if (r == -EINVAL && resident_locked_in(map, offset, length))
		r = err_set(-EOPNOTSUPP,
			    "%s: locked pages take no %s: call hm_map_unlock() first",
			    map->buffer->name, advices[advice].name);
	else if (r == -EINVAL || r == -EBADF) /* EBADF: without a file, and without swap */
		r = err_set(-EOPNOTSUPP,
			    "%s: this kernel, or memory of this kind, does not take "
			    "%s",
			    map->buffer->name, advices[advice].name);
	else if (r)
		r = err_set(r, "%s on %" PRIu64 " bytes: %s", advices[advice].name, length,
			    err_name(r));
out:
	remap_unlock(map);
	return r;
}

#define LOCK_FLAGS \
	(HM_LOCK_ONFAULT | HM_LOCK_PARTIAL | HM_LOCK_PRIORITY(HM_LOCK_PRIORITIES - 1))

int hm_map_lock(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags,
		uint64_t *ret_locked)
{
	uint64_t locked = 0;
	int r;

	err_begin();
	r = map_check(map);
	if (r)
		return r;
	if (flags & ~LOCK_FLAGS)
		return err_set(-EINVAL, "hm_map_lock: unknown flags 0x%x", flags & ~LOCK_FLAGS);
	r = hook_range(HM_ACCESS_LOCK, map, offset, length, 0, flags);
	if (!r)
		r = resident_lock(map, offset, length, flags, &locked);
	if (!r && ret_locked)
		*ret_locked = min_u64(locked, length);
	return r;
}

int hm_map_unlock(struct hm_map *map, uint64_t offset, uint64_t length)
{
	int r;

	err_begin();
	r = map_check(map);
	return r ? r : resident_unlock(map, offset, length);
}
