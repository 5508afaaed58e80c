// SPDX-License-Identifier: MIT
/*
 * Copying: buffers on the device for bytes that the engine can't reach, and the way back of
 * bytes written there.
 */
#include "accel/engine/engine.h"

#include <errno.h>
#include <stdlib.h>

#include "fault/fault.h"
#include "base/sys.h"

/*
 * Slots are bound above all addresses of a process, each with room for the longest range of any
 * kind of device.
 */
#define SLOT_BASE (1ull << 47)
#define SLOT_ROOM (1ull << 37)
#define SLOT_LEAST KIB(64)

struct engine_stage *engine_stage_new(void)
{
	struct engine_stage *stage = sys_calloc(1, sizeof(*stage));

	if (!stage)
		return NULL;
	atomic_init(&stage->refs, 1);
	pthread_mutex_init(&stage->lock, NULL);
	return stage;
}

void engine_stage_put(struct engine_stage *stage)
{
	if (!stage || atomic_fetch_sub(&stage->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&stage->lock);
	free(stage);
}

/* Copies all of it, in as many calls as the device wants. */
static int copy_all(struct sim_port *port, bool to_device, char *bytes, uint64_t length,
		    uint64_t offset)
{
	ssize_t n;

	while (length) {
		n = to_device ? port->ops->write(port->file, bytes, length, offset) :
				port->ops->read(port->file, bytes, length, offset);
		if (n == -EINTR)
			continue;
		/* The device of the map's bytes is gone. For completed work, its end tells. */
		if (n == -EFAULT && fault_check(bytes, length) == -ENODEV)
			return to_device ? -ENODEV : 0;
		if (n <= 0)
			return sim_port_explain(port, n ? (int)n : -EIO,
						to_device ? "copying to the device" :
							    "copying from the device");
		bytes += n;
		length -= (uint64_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

int engine_write(struct sim_port *port, const struct engine_slot *slot, const char *from,
		 uint64_t length)
{
	return copy_all(port, true, (char *)(uintptr_t)from, length, slot->object->offset);
}

int engine_read(struct sim_port *port, const struct engine_slot *slot, char *to,
		uint64_t length)
{
	return copy_all(port, false, to, length, slot->object->offset);
}

void engine_stage_drop(struct engine_stage *stage)
{
	pthread_mutex_lock(&stage->lock);
	stage->done = true;
	pthread_mutex_unlock(&stage->lock);
}

int engine_stage_back(struct sim_port *port, struct engine_stage *stage)
{
	uint32_t i;
	int r = 0;

	pthread_mutex_lock(&stage->lock);
	for (i = 0; !r && !stage->done && i < stage->n; i++)
		r = copy_all(port, false, stage->back[i].to, stage->back[i].length,
			     stage->back[i].from);
	if (!stage->done)
		stage->status = r;
	stage->done = true;
	r = stage->status;
	pthread_mutex_unlock(&stage->lock);
	return r;
}

/* ---- slots ---- */

static void end_slot(struct sim_port *port, struct engine_slot *slot)
{
	struct hetsim_unbind unbind = {
		.size = sizeof(unbind),
		.address = slot->address,
		.length = slot->length,
	};

	if (!slot->object)
		return;
	/* On a device that is gone the binding is, too. */
	sim_port_call(port, HETSIM_UNBIND, &unbind);
	sim_object_put(slot->object);
	slot->object = NULL;
	slot->length = 0;
}

void engine_slots_end(struct engine_queue *queue)
{
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(queue->slot); i++)
		end_slot(queue->engine->port, &queue->slot[i]);
}

static int bind_slot(struct sim_port *port, const struct engine_slot *slot)
{
	struct hetsim_bind bind = {
		.size = sizeof(bind),
		.flags = HETSIM_BIND_WRITE,
		.source = HETSIM_SOURCE_BUFFER,
		.handle = slot->object->handle,
		.address = slot->address,
		.length = slot->length,
	};

	return sim_port_call(port, HETSIM_BIND, &bind);
}

int engine_slot_get(struct engine_queue *queue, uint32_t index, uint64_t length)
{
	struct sim_port *port = queue->engine->port;
	struct engine_slot *slot = &queue->slot[index];
	struct hetsim_buffer_create create = {
		.size = sizeof(create),
		.length = round_up(max_u64(length, SLOT_LEAST), port->query.page_size),
		/* Where the CPU reaches all of it. */
		.place = port->query.window_bytes ? HETSIM_PLACE_SYSTEM : HETSIM_PLACE_VRAM,
		.cache = HETSIM_CACHE_BACK,
	};
	int r;

	if (slot->length >= length)
		return 0;
	end_slot(port, slot);
	r = sim_object_create(port, &create, &slot->object);
	if (r == -ENOSPC)
		return sim_port_explain_full(port, create.place, create.length, create.length,
					     "a buffer to copy through");
	if (r)
		return sim_port_explain(port, r, "a buffer to copy through");
	slot->address =
		SLOT_BASE + ((uint64_t)queue->number * HM_KERNEL_MAX_ARGS + index) * SLOT_ROOM;
	slot->length = create.length;
	r = bind_slot(port, slot);
	if (r) {
		r = sim_port_explain(port, r, "binding a buffer to copy through");
		sim_object_put(slot->object);
		slot->object = NULL;
		slot->length = 0;
	}
	return r;
}
