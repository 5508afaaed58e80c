// SPDX-License-Identifier: MIT
/* Pages present (prefetch), kept (lock), or on their way out (advise). */
#include "resident.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "access.h"
#include "compat.h"
#include "rlimits.h"
#include "map.h"
#include "remap.h"
#include "share.h"
#include "sys.h"

/* ---- prefetch ---- */

int resident_check(const struct hm_buffer *buffer)
{
	if (buffer->caps & HM_CAP_POPULATE)
		return 0;
	return err_set(-EOPNOTSUPP, "%s: this device's pages can't be brought in ahead",
		       buffer->name);
}

int hm_map_prefetch(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
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

/* ---- lock ---- */

/* Values of hm_map.locked; 0: not locked. */
enum lock_kind {
	LOCKED = 1,
	LOCKED_ON_FAULT = 2,
};

static int add_locked(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	(void)offset;
	if (value)
		*(uint64_t *)user += length;
	return 0;
}

static uint64_t locked_in(const struct hm_map *map, uint64_t offset, uint64_t length)
{
	uint64_t bytes = 0;

	if (map->locked)
		rangemap_each(map->locked, offset, length, add_locked, &bytes);
	return bytes;
}

uint64_t resident_locked_bytes(const struct hm_map *map)
{
	return locked_in(map, 0, map->span);
}

static int unlock_if_not(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	if (!value)
		sys_munlock((char *)user + offset, length);
	return 0;
}

/* A failed mlock2() may have marked part of the range: back to what held. */
static void restore_locks(struct hm_map *map, uint64_t offset, uint64_t length)
{
	if (map->locked)
		rangemap_each(map->locked, offset, length, unlock_if_not, map->address);
	else
		sys_munlock(map->address + offset, length);
}

static int explain_lock(int r, uint64_t length, uint64_t wanted)
{
	uint64_t limit, locked, room = rlimits_lockable(&limit, &locked);
	char text[4][16];

	if (r == -EPERM)
		return err_set(r,
			       "RLIMIT_MEMLOCK is 0 and the process has not CAP_IPC_LOCK: "
			       "raise it to %" PRIu64 " bytes at least (ulimit -l, "
			       "LimitMEMLOCK= of the service)",
			       locked + wanted);
	if ((r == -ENOMEM || r == -EAGAIN) && room < wanted)
		return err_set(-ENOMEM,
			       "locking %s: RLIMIT_MEMLOCK is %s with %s locked "
			       "already, %" PRIu64 " bytes (%s) short: raise it to %" PRIu64
			       " bytes at least (ulimit -l, LimitMEMLOCK= of the service)",
			       format_bytes(length, text[0], 16),
			       format_bytes(limit, text[1], 16),
			       format_bytes(locked, text[2], 16), wanted - room,
			       format_bytes(wanted - room, text[3], 16), locked + wanted);
	/* Not the limit: a mapping too many, where the range is part of one. */
	return rlimits_explain_map(r, length, "locking");
}

/* Locks [offset, offset + length), whole pages, or nothing. */
static int lock_all(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags)
{
	uint64_t before = locked_in(map, offset, length);
	struct rangemap *base = map->locked, *locked;
	int r;

	if (!base) {
		base = rangemap_create(0, 0);
		if (!base)
			return err_set(-ENOMEM, "no memory to note a locked range");
	}
	locked = rangemap_set(base, offset, length,
			      flags & HM_LOCK_ONFAULT ? LOCKED_ON_FAULT : LOCKED);
	if (!locked) {
		r = err_set(-ENOMEM, "no memory to note a locked range");
		goto err_base;
	}
	r = sys_mlock2(map->address + offset, length,
		       flags & HM_LOCK_ONFAULT ? MLOCK_ONFAULT : 0);
	if (r) {
		restore_locks(map, offset, length);
		goto err_locked;
	}
	free(base);
	map->locked = locked;
	stats_add(&stats.bytes_locked, length - before);
	return 0;

err_locked:
	free(locked);
err_base:
	if (base != map->locked)
		free(base);
	return r;
}

/* Bytes from @offset on that the limit allows: those locked already cost nothing more. */
static uint64_t lockable(const struct hm_map *map, uint64_t offset, uint64_t length)
{
	uint64_t page = map->buffer->page_size, limit, locked, part = 0, next;
	uint64_t room = rlimits_lockable(&limit, &locked);

	if (room >= length)
		return length;
	for (next = round_down(room, page); next > part;) {
		part = next;
		next = min_u64(round_down(room, page) + locked_in(map, offset, part), length);
	}
	return part;
}

/* As much as the limit allows: asked for, then halved while others race us for it. */
static int lock_part(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags,
		     uint64_t *ret_locked)
{
	uint64_t page = map->buffer->page_size, part;
	int r;

	for (part = lockable(map, offset, length); part; part = round_down(part / 2, page)) {
		r = lock_all(map, offset, part, flags);
		if (!r)
			break;
		if (r != -ENOMEM && r != -EAGAIN && r != -EPERM)
			return r;
	}
	*ret_locked = part;
	return 0;
}

static int lock_range(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags,
		      uint64_t *ret_locked)
{
	uint64_t pages = map_pages(map, offset, length), part = 0;
	uint64_t wanted = pages - locked_in(map, offset, pages);
	int r, why;

	if (!map_allows(map, offset, length, HM_READ))
		return err_set(-EACCES,
			       "hm_map_lock: some of %" PRIu64 " bytes from %" PRIu64
			       " on have no access, and what can't be read can't be brought in",
			       length, offset);
	r = lock_all(map, offset, pages, flags);
	if (!r) {
		*ret_locked = length;
		return 0;
	}
	why = explain_lock(r, pages, wanted);
	if (!(flags & HM_LOCK_PARTIAL) || (why != -ENOMEM && why != -EPERM))
		return why;
	r = lock_part(map, offset, pages, flags, &part);
	if (r)
		return explain_lock(r, pages, wanted);
	*ret_locked = min_u64(part, length);
	return 0; /* with the sentence above: a smaller success says so */
}

int hm_map_lock(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags,
		uint64_t *ret_locked)
{
	uint64_t locked = 0;
	int r;

	r = map_check(map);
	if (r)
		return r;
	err_clear();
	if (flags & ~(HM_LOCK_ONFAULT | HM_LOCK_PARTIAL))
		return err_set(-EINVAL, "hm_map_lock: unknown flags 0x%x",
			       flags & ~(HM_LOCK_ONFAULT | HM_LOCK_PARTIAL));
	r = access_range(HM_ACCESS_LOCK, map, offset, length, 0, flags);
	if (!r)
		r = remap_lock(map);
	if (r)
		return r;
	r = map_check_pages(map, offset, length, "hm_map_lock");
	if (!r && !(map->buffer->caps & HM_CAP_LOCK))
		r = err_set(-EOPNOTSUPP,
			    "%s: mlock() does nothing for memory of this kind, "
			    "though it answers 0 (%s)",
			    map->buffer->name,
			    map->buffer->backing == HM_BACKING_HUGETLB ?
				    "huge pool pages are never swapped" :
				    "device memory");
	if (!r)
		r = lock_range(map, offset, length, flags, &locked);
	remap_unlock(map);
	if (!r && ret_locked)
		*ret_locked = locked;
	return r;
}

static int lock_run(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	if (!value)
		return 0;
	return sys_mlock2((char *)user + offset, length,
			  value == LOCKED_ON_FAULT ? MLOCK_ONFAULT : 0);
}

int resident_lock_again(const struct hm_map *map, char *address)
{
	uint64_t bytes;
	int r;

	if (!map->locked)
		return 0;
	r = rangemap_each(map->locked, 0, map->span, lock_run, address);
	if (!r)
		return 0;
	bytes = resident_locked_bytes(map);
	return explain_lock(r, bytes, bytes);
}

static int unlock_range(struct hm_map *map, uint64_t offset, uint64_t length)
{
	uint64_t before = locked_in(map, offset, length);
	struct rangemap *locked;
	int r;

	if (!before)
		return 0;
	locked = rangemap_set(map->locked, offset, length, 0);
	if (!locked)
		return err_set(-ENOMEM, "no memory to note an unlocked range");
	r = sys_munlock(map->address + offset, length);
	if (r) {
		/* Over several mappings munlock() may have stopped half way. */
		resident_lock_again(map, map->address);
		free(locked);
		return rlimits_explain_map(r, length, "unlocking");
	}
	free(map->locked);
	map->locked = locked;
	stats_sub(&stats.bytes_locked, before);
	return 0;
}

int hm_map_unlock(struct hm_map *map, uint64_t offset, uint64_t length)
{
	int r;

	r = map_check(map);
	if (r)
		return r;
	r = remap_lock(map);
	if (r)
		return r;
	r = map_check_pages(map, offset, length, "hm_map_unlock");
	if (!r)
		r = unlock_range(map, offset, map_pages(map, offset, length));
	remap_unlock(map);
	return r;
}

void resident_note(struct hm_map *map, struct rangemap *locked)
{
	stats_sub(&stats.bytes_locked, resident_locked_bytes(map));
	free(map->locked);
	map->locked = locked;
	stats_add(&stats.bytes_locked, resident_locked_bytes(map));
}

/* ---- advise ---- */

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
	r = sys_madvise(map->address + offset, map_pages(map, offset, length),
			advices[advice].madvise);
	if (r == -EINVAL && locked_in(map, offset, length))
		r = err_set(-EOPNOTSUPP,
			    "%s: locked pages take no %s: call hm_map_unlock() first",
			    map->buffer->name, advices[advice].name);
	else if (r == -EINVAL)
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
