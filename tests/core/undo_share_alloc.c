// SPDX-License-Identifier: MIT
/* The operations of undo_operations.c that share a buffer, and those of the short API. */
#include "core/undo.h"

int undo_send_plain(struct world *world)
{
	return hm_buffer_send(world->buffer, world->socket[0], 0);
}

int undo_send_read_only(struct world *world)
{
	return hm_buffer_send(world->buffer, world->socket[0], HM_EXPORT_READ_ONLY);
}

int undo_receive(struct world *world)
{
	return hm_buffer_receive(world->device, world->socket[1], NULL, &world->ret_buffer);
}

/* The owner's resize, and the call by which the receiver learns of it. */
static int follow(struct world *world, uint64_t size)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	int r = hm_buffer_resize(world->owner, size, 0);

	return r ? r : hm_buffer_query(world->buffer, &info);
}

int undo_follow_growth(struct world *world)
{
	return follow(world, 20 * PAGE + 7);
}

int undo_follow_shrink(struct world *world)
{
	return follow(world, 4 * PAGE + 11);
}
int undo_alloc(struct world *world)
{
	return hm_alloc(world->device, SIZE, HM_READ | HM_WRITE, &world->ret_pointer);
}

int undo_realloc_grow(struct world *world)
{
	return hm_realloc(world->pointer, 20 * PAGE, 0, &world->ret_pointer);
}

int undo_realloc_shrink(struct world *world)
{
	return hm_realloc(world->pointer, PAGE, 0, &world->ret_pointer);
}

int undo_realloc_move(struct world *world)
{
	int r = hm_realloc(world->pointer, 128ull << 20, HM_MAY_MOVE, &world->ret_pointer);

	if (!r)
		world->pointer = world->ret_pointer;
	return r;
}
