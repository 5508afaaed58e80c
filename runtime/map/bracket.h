/* SPDX-License-Identifier: MIT */
/* The functions behind brackets; view.c chooses among them when views come and go. */
#ifndef HETMAP_BRACKET_H
#define HETMAP_BRACKET_H

#include "core/core.h"

/* CPU and all users see the same bytes at once. */
bracket_function bracket_nothing;
/* Some view needs to be told. */
bracket_function bracket_views_begin;
bracket_function bracket_views_end;
/* The device has to bring bytes to where the CPU reaches them, of HM_CAP_BRACKET. */
bracket_function bracket_device_begin;
bracket_function bracket_device_end;

/*
 * The CPU's turn, between hm_fence_wait() and the next launch that names the map: one access at
 * a time. Its end needs a use of the map in flight, or the map's own end, so that its objects
 * stay: a launching thread must not wait for buffer->lock.
 */
int bracket_turn_begin(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access);
/* *@ret_access: the access of the turn; HM_NONE if there was no turn. May be NULL. */
int bracket_turn_end(struct hm_map *map, uint32_t *ret_access);

/* Chooses the functions for @map. @begin, @end: some view needs to be told. */
void bracket_choose(struct hm_map *map, bool begin, bool end);

/*
 * Writes out the map's combines, if a bracket with @access may have written. Called while the
 * bracket is open. Costs one load where there are none.
 */
static inline int bracket_write_out(struct hm_map *map, uint32_t access)
{
	write_out_function *write_out =
		atomic_load_explicit(&map->write_out, memory_order_acquire);

	return unlikely(write_out != NULL) && access & HM_WRITE ? write_out(map) : 0;
}

#endif
