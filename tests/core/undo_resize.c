// SPDX-License-Identifier: MIT
/* The operations of undo_operations.c that change a buffer's size, or seal it. */
#include "core/undo.h"

int undo_seal(struct world *world)
{
	return hm_buffer_seal(world->buffer, 0);
}

int undo_grow(struct world *world)
{
	return hm_buffer_resize(world->buffer, 20 * PAGE + 7, 0);
}

int undo_shrink(struct world *world)
{
	return hm_buffer_resize(world->buffer, 4 * PAGE + 11, 0);
}

int undo_shrink_by_bytes(struct world *world)
{
	return hm_buffer_resize(world->buffer, SIZE - 50, 0);
}

int undo_replace(struct world *world)
{
	return hm_buffer_resize(world->buffer, 20 * PAGE + 7, HM_GROW_REPLACE);
}

int undo_append(struct world *world)
{
	return hm_buffer_resize(world->buffer, 20 * PAGE + 7, HM_GROW_APPEND);
}

int undo_move(struct world *world)
{
	return hm_buffer_resize(world->buffer, 2 * MAX_SIZE + 7, HM_MAY_MOVE);
}
