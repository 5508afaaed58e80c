// SPDX-License-Identifier: MIT
/*
 * hetsim under a kernel that makes each allocation fail in turn, as test_hetsim_failslab: the calls
 * of queues, fences and timelines, calls that are submissions, and those of the mirror.
 */
#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include "lib/hetsim.h"
#include "sim/failslab_scene.h"

#define BIND_AT 0x5000000000ull

static int run_queue_create(struct failslab_scene *scene)
{
	struct hetsim_queue_create arg = { .size = sizeof(arg) };

	return failslab_call(scene->fd, HETSIM_QUEUE_CREATE, &arg);
}

static int run_queue_destroy(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_QUEUE_DESTROY,
			     SIZED(hetsim_queue_destroy, .queue = scene->queue));
}

static int run_submit(struct failslab_scene *scene)
{
	struct hetsim_command fill = { .op = HETSIM_OP_FILL,
				       .destination = FAILSLAB_BOUND_AT,
				       .length = FAILSLAB_PAGES * PAGE };

	return failslab_call(scene->fd, HETSIM_SUBMIT,
			     SIZED(hetsim_submit, .queue = scene->queue,
				   .commands = (uintptr_t)&fill, .n_commands = 1,
				   .command_size = sizeof(fill)));
}

static int run_fence_fd(struct failslab_scene *scene)
{
	struct hetsim_fence_fd arg = { .size = sizeof(arg),
				       .queue = scene->queue,
				       .seqno = scene->seqno };
	int r = failslab_call(scene->fd, HETSIM_FENCE_FD, &arg);

	if (!r)
		scene->made = arg.fd;
	return r;
}

static int run_timeline_create(struct failslab_scene *scene)
{
	struct hetsim_timeline_create arg = { .size = sizeof(arg) };
	int r = failslab_call(scene->fd, HETSIM_TIMELINE_CREATE, &arg);

	if (!r)
		scene->made = arg.fd;
	return r;
}

/* Each kind of wait and signal. */
static int run_submit_syncs(struct failslab_scene *scene)
{
	struct hetsim_command nothing = { .op = HETSIM_OP_NOTHING };
	struct hetsim_sync waits[] = { { .kind = HETSIM_SYNC_FENCE, .fd = scene->fence },
				       { .fd = scene->timeline } };
	struct hetsim_sync signals[] = { { .fd = scene->timeline, .point = 1 },
					 { .kind = HETSIM_SYNC_FENCE } };
	struct hetsim_submit arg = { .size = sizeof(arg),
				     .queue = scene->queue,
				     .commands = (uintptr_t)&nothing,
				     .n_commands = 1,
				     .command_size = sizeof(nothing),
				     .waits = (uintptr_t)waits,
				     .signals = (uintptr_t)signals,
				     .n_waits = 2,
				     .n_signals = 2 };

	return failslab_call(scene->fd, HETSIM_SUBMIT, &arg);
}

/* Two buffers, one of which has a fence to wait for; a fence is left in both. */
static int run_submit_uses(struct failslab_scene *scene)
{
	struct hetsim_command nothing = { .op = HETSIM_OP_NOTHING };
	struct hetsim_use uses[] = { { scene->handle, HETSIM_USE_WRITE },
				     { scene->second, 0 } };

	return failslab_call(scene->fd, HETSIM_SUBMIT,
			     SIZED(hetsim_submit, .queue = scene->queue,
				   .commands = (uintptr_t)&nothing, .n_commands = 1,
				   .command_size = sizeof(nothing), .uses = (uintptr_t)uses,
				   .n_uses = 2));
}

/* The calls that may be submissions, as such. */
static int run_move_later(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_BUFFER_MOVE,
			     SIZED(hetsim_buffer_move, .handle = scene->handle,
				   .place = HETSIM_PLACE_VRAM, .length = FAILSLAB_PAGES * PAGE,
				   .queue = scene->counter));
}

static int run_bind_later(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_BIND,
			     SIZED(hetsim_bind, .handle = scene->handle, .address = BIND_AT,
				   .length = FAILSLAB_PAGES * PAGE, .queue = scene->counter));
}

static int run_unbind_later(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_UNBIND,
			     SIZED(hetsim_unbind, .address = FAILSLAB_BOUND_AT,
				   .length = FAILSLAB_PAGES * PAGE, .queue = scene->counter));
}

static int run_queue_event(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_QUEUE_EVENT,
			     SIZED(hetsim_queue_event, .queue = scene->queue,
				   .seqno = scene->seqno, .eventfd = scene->eventfd));
}

static int run_mirror(struct failslab_scene *scene)
{
	struct hetsim_mirror arg = { .size = sizeof(arg) };

	return failslab_call(scene->fd, HETSIM_MIRROR, &arg);
}

/* Of memory that is there: the device gets a chunk, or goes without. */
static int run_advise(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_ADVISE,
			     SIZED(hetsim_advise, .advice = HETSIM_ADVISE_ACCESSED_BY,
				   .address = (uintptr_t)scene & ~(PAGE - 1), .length = PAGE,
				   .value = 1));
}

static int run_prefetch(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_PREFETCH,
			     SIZED(hetsim_prefetch, .queue = scene->counter,
				   .location = HETSIM_LOCATION_DEVICE,
				   .address = (uintptr_t)scene & ~(PAGE - 1), .length = PAGE));
}

static int run_range_query(struct failslab_scene *scene)
{
	struct hetsim_page page;

	return failslab_call(scene->fd, HETSIM_RANGE_QUERY,
			     SIZED(hetsim_range_query,
				   .address = (uintptr_t)scene & ~(PAGE - 1), .length = PAGE,
				   .pages = (uintptr_t)&page));
}

static int run_mirror_events(struct failslab_scene *scene)
{
	struct hetsim_mirror_events arg = { .size = sizeof(arg) };
	int r = failslab_call(scene->fd, HETSIM_MIRROR_EVENTS, &arg);

	if (!r)
		scene->made = arg.fd;
	return r;
}

static void make_counter(struct failslab_scene *scene)
{
	struct hetsim_queue_create queue = { .size = sizeof(queue),
					     .type = HETSIM_QUEUE_COUNTER };

	CHECK_EQUAL(failslab_call(scene->fd, HETSIM_QUEUE_CREATE, &queue), 0);
	scene->counter = queue.queue;
}

static void mirror_it(struct failslab_scene *scene)
{
	make_counter(scene);
	CHECK_EQUAL(run_mirror(scene), 0);
}

/* A second buffer, and work that holds up users of both until the file is closed. */
static void make_uses(struct failslab_scene *scene)
{
	struct hetsim_buffer_create create = { .size = sizeof(create), .length = PAGE };
	struct hetsim_queue_create queue = { .size = sizeof(queue), .timeout_ms = 60000 };
	struct hetsim_inject stuck = { .size = sizeof(stuck),
				       .kind = HETSIM_INJECT_STUCK,
				       .value = 1 };
	uint32_t first = scene->queue;

	CHECK_EQUAL(failslab_call(scene->fd, HETSIM_BUFFER_CREATE, &create), 0);
	scene->second = create.handle;
	CHECK_EQUAL(failslab_call(scene->fd, HETSIM_QUEUE_CREATE, &queue), 0);
	scene->queue = stuck.target = queue.queue;
	CHECK_EQUAL(failslab_call(scene->fd, HETSIM_INJECT, &stuck), 0);
	CHECK_EQUAL(run_submit_uses(scene), 0);
	scene->queue = first;
}

static void make_syncs(struct failslab_scene *scene)
{
	CHECK_EQUAL(run_fence_fd(scene), 0);
	scene->fence = scene->made;
	CHECK_EQUAL(run_timeline_create(scene), 0);
	scene->timeline = scene->made;
}

static const struct failslab_step steps[] = {
	{ "queue create", run_queue_create, failslab_no_more, 3 },
	{ "queue destroy", run_queue_destroy, failslab_no_more, 1 },
	{ "submit", run_submit, failslab_no_more, 4 },
	{ "wait", failslab_wait, failslab_no_more, 2 },
	{ "fence fd", run_fence_fd, failslab_no_more, 4 },
	{ "queue event", run_queue_event, failslab_no_more, 3 },
	{ "timeline create", run_timeline_create, failslab_no_more, 4 },
	{ "submit syncs", run_submit_syncs, make_syncs, 9 },
	{ "submit uses", run_submit_uses, make_uses, 6 },
	{ "move later", run_move_later, make_counter, 3 },
	{ "bind later", run_bind_later, make_counter, 3 },
	{ "unbind later", run_unbind_later, make_counter, 3 },
	{ "mirror", run_mirror, failslab_no_more, 2 },
	{ "advise", run_advise, mirror_it, 3 },
	{ "prefetch", run_prefetch, mirror_it, 3 },
	{ "range query", run_range_query, mirror_it, 2 },
	{ "mirror events", run_mirror_events, mirror_it, 3 },
};

static void test_walk(void)
{
	failslab_walk(steps, sizeof(steps) / sizeof(steps[0]));
}

static const struct test tests[] = {
	{ "walk", test_walk, 30, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_failslab_work", tests)
