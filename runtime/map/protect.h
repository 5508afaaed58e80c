/* SPDX-License-Identifier: MIT */
/*
 * Rights of a map: those it was given, less those that open scopes take away.
 *
 * hm_map.rights are in force. While scopes are open, hm_map.base has the rights without them;
 * without scopes it is NULL, since the two would be equal. Both change with map->change held.
 */
#ifndef HETMAP_PROTECT_H
#define HETMAP_PROTECT_H

#include "core/core.h"

/*
 * Makes the base for a map in which [offset, offset + length) is fresh; NULL if no scope is
 * open.
 * -ENOMEM, with a text.
 */
int protect_stage_base(const struct hm_map *map, uint64_t offset, uint64_t length,
		       struct rangemap **ret_base);
/*
 * Ends a change that succeeded: the map has @pages bytes in whole pages, and scopes end there.
 * Takes *base over. Cannot fail.
 */
void protect_commit_base(struct hm_map *map, struct rangemap **base, uint64_t pages);

/* The reason why the range lacks @access, for an error text: " (...)", or "". */
const char *protect_cause(struct hm_map *map, uint64_t offset, uint64_t length,
			  uint32_t access);

/* The map from which the scope takes rights. */
const struct hm_map *protect_scope_map(const struct hm_scope *scope);

/* hm_map_protect() and its scopes on arguments that are checked. */
int protect_range(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access);
int protect_begin(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
		  struct hm_scope **ret_scope);
int protect_end(struct hm_scope *scope);

#endif
