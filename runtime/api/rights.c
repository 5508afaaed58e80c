// SPDX-License-Identifier: MIT
/* Rights of a map's pages, for a time or for good. */
#include "api/door.h"
#include "map/protect.h"
#include "map/remap.h"

int hm_map_protect(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	int r;

	err_begin();
	r = map_check(map);
	if (r)
		return r;
	r = remap_check_access(map->buffer, access);
	if (!r)
		r = hook_range(HM_ACCESS_PROTECT, map, offset, length, access, 0);
	return r ? r : protect_range(map, offset, length, access);
}

int hm_map_protect_begin(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
			 struct hm_scope **ret_scope)
{
	int r;

	err_begin();
	r = map_check(map);
	if (r)
		return r;
	if (!ret_scope)
		return err_set(-EINVAL, "hm_map_protect_begin: ret_scope is NULL");
	r = remap_check_access(map->buffer, access);
	if (!r)
		r = hook_range(HM_ACCESS_PROTECT, map, offset, length, access, 0);
	return r ? r : protect_begin(map, offset, length, access, ret_scope);
}

int hm_map_protect_end(struct hm_scope *scope)
{
	int r;

	err_begin();
	if (!scope)
		return 0;
	r = object_check((struct hm_object *)scope, OBJECT_SCOPE);
	return r ? r : protect_end(scope);
}
