// SPDX-License-Identifier: MIT
/* Rights of a range of a map. */
#include <stdlib.h>

#include "access.h"
#include "buffer.h"
#include "rlimits.h"
#include "map.h"
#include "remap.h"
#include "share.h"
#include "sys.h"

/* To take the rights of a whole map away and give them back allocates nothing. */
static struct rangemap *make_rights(struct hm_map *map, uint64_t offset, uint64_t length,
				    uint32_t access)
{
	struct rangemap *spare = map->spare_rights;

	/* Nothing lies behind the span: with a run for it no map would be of one run. */
	if (offset + length == map->span)
		length = UINT64_MAX - offset;
	if (offset || length != UINT64_MAX || !spare)
		return rangemap_set(map->rights, offset, length, access);
	map->spare_rights = NULL;
	spare->run[0].value = access;
	return spare;
}

static void put_rights(struct hm_map *map, struct rangemap *rights)
{
	if (rights->n == 1 && !map->spare_rights)
		map->spare_rights = rights;
	else
		free(rights);
}

static int protect_locked(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
			  bool buffer_held)
{
	struct rangemap *old = map->rights, *rights;
	struct registry_descriptor *staged;
	struct registry_entry entry;
	struct remap remap;
	int r;

	rights = make_rights(map, offset, length, access);
	if (!rights)
		return err_set(-ENOMEM, "no memory for a map's rights");
	map_entry(map, map->address, map->length, map->generation, rights, &entry);
	r = registry_stage(&entry, &staged);
	if (r) {
		r = err_set(r, "no memory for a map's rights");
		goto err_rights;
	}
	remap_init(&remap, map, offset, length);
	remap.new_rights = rights;
	remap.buffer_held = buffer_held;
	r = remap_freeze(&remap);
	if (r)
		goto err_staged;
	r = sys_mprotect(map->address + offset, length, prot_of_access(access));
	if (r) {
		r = rlimits_explain_map(r, length, "changing rights");
		goto err_thaw;
	}
	registry_commit(map->slot, staged);
	if (likely(remap.idle)) {
		map->rights = rights;
	} else {
		pthread_mutex_lock(&map->lock);
		map->rights = rights;
		pthread_mutex_unlock(&map->lock);
	}
	remap_thaw(&remap, true);
	put_rights(map, old);
	return 0;

err_thaw:
	/* Over several mappings mprotect() may have stopped half way. */
	map_apply_rights(map->address, old, offset, length);
	remap_thaw(&remap, false);
err_staged:
	registry_abandon(staged);
err_rights:
	put_rights(map, rights);
	return r;
}

static int protect(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
		   bool buffer_held)
{
	int r;

	r = remap_lock(map);
	if (r)
		return r;
	r = map_check_pages(map, offset, length, "hm_map_protect");
	if (!r && !(map->buffer->caps & HM_CAP_PROTECT))
		r = err_set(-EOPNOTSUPP, "%s: rights of this device's maps don't change",
			    map->buffer->name);
	if (!r)
		r = protect_locked(map, offset, map_pages(map, offset, length), access,
				   buffer_held);
	remap_unlock(map);
	return r;
}

int hm_map_protect(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	int r;

	r = map_check(map);
	if (r)
		return r;
	r = remap_check_access(map->buffer, access);
	if (!r)
		r = access_range(HM_ACCESS_PROTECT, map, offset, length, access, 0);
	if (r)
		return r;
	r = protect(map, offset, length, access, false);
	if (likely(r != REMAP_NEEDS_BUFFER))
		return r;
	r = buffer_lock(map->buffer);
	if (r)
		return r;
	r = protect(map, offset, length, access, true);
	buffer_unlock(map->buffer);
	return r;
}
