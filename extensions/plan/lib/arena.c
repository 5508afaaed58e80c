// SPDX-License-Identifier: MIT
/*
 * Places in the arena: holes by offset, and the last steps that touched each byte. A place that is
 * taken again must wait for these steps.
 */
#include <errno.h>
#include <string.h>

#include "plan.h"

int arena_init(struct arena *arena, uint64_t limit)
{
	int r;

	*arena = (struct arena){ .limit = limit, .free = limit };
	r = grow(&arena->hole, 0, &arena->hole_room, sizeof(*arena->hole));
	if (!r)
		r = grow(&arena->cell, 0, &arena->cell_room, sizeof(*arena->cell));
	if (r) {
		arena_drop(arena);
		return r;
	}
	arena->hole[arena->n_hole++] = (struct block){ 0, limit };
	arena->cell[arena->n_cell++] = (struct cell){ 0 };
	return 0;
}

void arena_drop(struct arena *arena)
{
	free(arena->hole);
	free(arena->cell);
	*arena = (struct arena){ 0 };
}

/* Index of the first hole that begins at @offset or after it. */
static uint32_t hole_at(const struct arena *arena, uint64_t offset)
{
	uint32_t low = 0, high = arena->n_hole;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (arena->hole[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int insert_hole(struct arena *arena, uint32_t at, struct block hole)
{
	int r = grow(&arena->hole, arena->n_hole, &arena->hole_room, sizeof(hole));

	if (r)
		return r;
	memmove(&arena->hole[at + 1], &arena->hole[at], (arena->n_hole - at) * sizeof(hole));
	arena->hole[at] = hole;
	arena->n_hole++;
	return 0;
}

static void remove_hole(struct arena *arena, uint32_t at)
{
	arena->n_hole--;
	memmove(&arena->hole[at], &arena->hole[at + 1],
		(arena->n_hole - at) * sizeof(arena->hole[0]));
}

int arena_place(struct arena *arena, uint64_t offset, uint64_t length)
{
	uint32_t at = hole_at(arena, offset);
	struct block *hole, rest;
	int r;

	if (at == arena->n_hole || arena->hole[at].offset > offset)
		at--;
	hole = &arena->hole[at];
	rest = (struct block){ offset + length, hole->offset + hole->length - offset - length };
	if (hole->offset == offset && rest.length) {
		*hole = rest;
	} else if (hole->offset == offset) {
		remove_hole(arena, at);
	} else {
		if (rest.length) {
			r = insert_hole(arena, at + 1, rest);
			if (r)
				return r;
		}
		arena->hole[at].length = offset - arena->hole[at].offset;
	}
	arena->free -= length;
	if (arena->end < offset + length)
		arena->end = offset + length;
	return 0;
}

int arena_give(struct arena *arena, uint64_t offset, uint64_t length)
{
	uint32_t at = hole_at(arena, offset);
	bool before = at && arena->hole[at - 1].offset + arena->hole[at - 1].length == offset;
	bool after = at < arena->n_hole && arena->hole[at].offset == offset + length;
	int r = 0;

	if (before && after) {
		arena->hole[at - 1].length += length + arena->hole[at].length;
		remove_hole(arena, at);
	} else if (before) {
		arena->hole[at - 1].length += length;
	} else if (after) {
		arena->hole[at].offset = offset;
		arena->hole[at].length += length;
	} else {
		r = insert_hole(arena, at, (struct block){ offset, length });
	}
	if (!r)
		arena->free += length;
	return r;
}

/* ---- stamps ---- */

/* Index of the cell that has @offset. */
static uint32_t cell_at(const struct arena *arena, uint64_t offset)
{
	uint32_t low = 0, high = arena->n_cell;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (arena->cell[middle].offset <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

struct stamp arena_stamp(const struct arena *arena, uint64_t offset, uint64_t length)
{
	struct stamp stamp = { 0 };
	uint32_t i, lane;

	for (i = cell_at(arena, offset);
	     i < arena->n_cell && arena->cell[i].offset < offset + length; i++)
		for (lane = 0; lane < HM_PLAN_LANES; lane++)
			if (stamp.after[lane] < arena->cell[i].stamp.after[lane])
				stamp.after[lane] = arena->cell[i].stamp.after[lane];
	return stamp;
}

static bool is_recent(const struct stamp *stamp, const struct stamp *recent)
{
	uint32_t lane;

	for (lane = 0; lane < HM_PLAN_LANES; lane++)
		if (recent->after[lane] && stamp->after[lane] >= recent->after[lane])
			return true;
	return false;
}

/* The first offset in @hole of so many bytes that no recent step has touched, or NOWHERE. */
static uint64_t find_quiet(const struct arena *arena, const struct block *hole, uint64_t length,
			   const struct stamp *recent)
{
	uint64_t from = hole->offset, end = hole->offset + hole->length;
	uint32_t i;

	for (i = cell_at(arena, from);
	     i < arena->n_cell && arena->cell[i].offset < from + length; i++) {
		if (!is_recent(&arena->cell[i].stamp, recent))
			continue;
		if (i + 1 == arena->n_cell)
			return NOWHERE;
		from = arena->cell[i + 1].offset;
	}
	return from <= end && end - from >= length ? from : NOWHERE;
}

uint64_t arena_find(const struct arena *arena, uint64_t length, struct stamp recent)
{
	const struct block *best = NULL, *best_quiet = NULL;
	uint64_t offset, quiet = NOWHERE;
	uint32_t i;

	for (i = 0; i < arena->n_hole; i++) {
		const struct block *hole = &arena->hole[i];

		if (hole->length < length)
			continue;
		if (!best || hole->length < best->length)
			best = hole;
		if (best_quiet && hole->length >= best_quiet->length)
			continue;
		offset = find_quiet(arena, hole, length, &recent);
		if (offset != NOWHERE) {
			best_quiet = hole;
			quiet = offset;
		}
	}
	if (best_quiet)
		return quiet;
	return best ? best->offset : NOWHERE;
}

/* Makes a cell begin at @offset; its index in *@ret_at. */
static int split(struct arena *arena, uint64_t offset, uint32_t *ret_at)
{
	uint32_t at = cell_at(arena, offset);
	int r;

	if (arena->cell[at].offset != offset) {
		r = grow(&arena->cell, arena->n_cell, &arena->cell_room, sizeof(struct cell));
		if (r)
			return r;
		memmove(&arena->cell[at + 1], &arena->cell[at],
			(arena->n_cell - at) * sizeof(struct cell));
		arena->n_cell++;
		arena->cell[++at].offset = offset;
	}
	*ret_at = at;
	return 0;
}

int arena_touch(struct arena *arena, uint64_t offset, uint64_t length, uint32_t lane,
		uint32_t count)
{
	struct stamp stamp = arena_stamp(arena, offset, length);
	uint32_t begin, end;
	int r;

	r = split(arena, offset, &begin);
	if (!r)
		r = split(arena, offset + length, &end);
	if (r)
		return r;
	stamp.after[lane] = count;
	arena->cell[begin].stamp = stamp;
	/* One place has one stamp from now on. */
	memmove(&arena->cell[begin + 1], &arena->cell[end],
		(arena->n_cell - end) * sizeof(struct cell));
	arena->n_cell -= end - begin - 1;
	return 0;
}
