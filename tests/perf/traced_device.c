// SPDX-License-Identifier: MIT
/* A program whose use of a simulated device is known: see TRACED_DEVICE_*. */
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>
#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "perf/traced.h"
#include "lib/units.h"

struct world {
	struct hm_device *device;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_buffer *weights, *unseen;
	struct hm_map *map;
	uint32_t handle;
};

static int make(struct world *world)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
				       .size = TRACED_DEVICE_PAGES * PAGE,
				       .name = "unseen" };

	/* That one is never touched, and is in the place before. */
	return hm_device_open("sim:0", &world->device) ||
	       hm_buffer_create(world->device, &desc, &world->unseen) ||
	       (desc.name = "weights",
		hm_buffer_create(world->device, &desc, &world->weights)) ||
	       hm_map_create(world->weights, NULL, &world->map) ||
	       hm_sim_buffer(world->weights, &world->handle) ||
	       hm_accel_open("sim:0", NULL, &world->accel) ||
	       hm_queue_create(world->accel, 0, &world->queue);
}

/* Their names are in a report, and so they are functions of their own. */
static __attribute__((noinline)) int traced_move(struct world *world, uint32_t place)
{
	struct hetsim_buffer_move move = { .size = sizeof(move),
					   .handle = world->handle,
					   .place = place,
					   .length = TRACED_DEVICE_PAGES * PAGE };

	return hm_sim_call(world->device, HETSIM_BUFFER_MOVE, &move);
}

static __attribute__((noinline)) int traced_evict(struct world *world)
{
	struct hetsim_inject inject = { .size = sizeof(inject),
					.kind = HETSIM_INJECT_EVICTION,
					.target = world->handle,
					.value = TRACED_DEVICE_PAGES * PAGE };

	return hm_sim_call(world->device, HETSIM_INJECT, &inject);
}

static int sample(struct world *world)
{
	struct hetsim_buffer_sample sample = { .size = sizeof(sample),
					       .handle = world->handle,
					       .action = HETSIM_SAMPLE_START };

	return hm_sim_call(world->device, HETSIM_BUFFER_SAMPLE, &sample);
}

static int work(struct world *world)
{
	struct hm_fence *fence;
	int i, r = 0;

	for (i = 0; i < TRACED_DEVICE_JOBS && !r; i++) {
		r = hm_queue_fill(world->queue, hm_map_address(world->map), (uint32_t)i, PAGE,
				  &fence);
		if (r)
			break;
		r = hm_fence_wait(fence, UINT64_MAX);
		hm_fence_unref(fence);
	}
	return r;
}

int traced_device(void)
{
	struct world world = { 0 };
	volatile char *bytes;
	size_t i;

	if (make(&world))
		return 97;
	bytes = hm_map_address(world.map);
	/* The first one brings in all of it. */
	bytes[5 * PAGE] = 1;
	if (traced_move(&world, HETSIM_PLACE_SYSTEM) ||
	    traced_move(&world, HETSIM_PLACE_VRAM) || traced_evict(&world) || sample(&world))
		return 96;
	for (i = 0; i < TRACED_DEVICE_SAMPLES; i++)
		bytes[i * PAGE] = 1;
	if (work(&world))
		return 95;
	hm_queue_unref(world.queue);
	hm_accel_unref(world.accel);
	hm_map_unref(world.map);
	hm_buffer_unref(world.weights);
	hm_buffer_unref(world.unseen);
	hm_device_unref(world.device);
	return 0;
}
