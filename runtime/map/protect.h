/* SPDX-License-Identifier: MIT */
/*
 * Rights of a map: those it was given, less what open scopes take away.
 *
 * hm_map.rights is what holds. While scopes are open hm_map.base has the rights without
 * them; else it is NULL, and the two would be the same. Both change with map->change
 * held.
 */
#ifndef HETMAP_PROTECT_H
#define HETMAP_PROTECT_H

#include "core/core.h"

/*
 * The base as it is once [offset, offset + length) is fresh; NULL where no scope is
 * open. -ENOMEM, with a text.
 */
int protect_stage_base(const struct hm_map *map, uint64_t offset, uint64_t length,
		       struct rangemap **ret_base);
/*
 * It came true, and the map has @pages bytes in whole pages: scopes end there. Takes
 * *base over. Cannot fail.
 */
void protect_commit_base(struct hm_map *map, struct rangemap **base, uint64_t pages);

/* Why the range lacks @access, for an error text: " (...)", or "". */
const char *protect_cause(struct hm_map *map, uint64_t offset, uint64_t length,
			  uint32_t access);

/* Whose rights it takes away. */
const struct hm_map *protect_scope_map(const struct hm_scope *scope);

#endif
