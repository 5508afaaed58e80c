// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: moves, binds and unbinds that are
 * submissions.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "sim/sim_tests.h"
#include "sim/sync_support.h"
#include "lib/rig.h"

#define ADDRESS (1ull << 40)
#define LENGTH (4 * PAGE)

/* An open device with a queue, a buffer and a timeline. */
struct world {
	int fd, timeline;
	uint32_t queue;
	struct hetsim_buffer buffer; /* in system memory */
	struct hetsim_sync wait, signal;
};

static struct world world_make(void)
{
	struct world world = { .fd = hetsim_begin(O_RDWR) };

	world.timeline = timeline_make(world.fd, 0);
	world.queue = hetsim_queue_make(world.fd, HETSIM_QUEUE_COUNTER, 60000);
	world.buffer = hetsim_buffer_make(world.fd, LENGTH, HETSIM_PLACE_SYSTEM);
	world.wait = (struct hetsim_sync){ .fd = world.timeline, .point = 1 };
	world.signal = (struct hetsim_sync){ .fd = world.timeline, .point = 2 };
	return world;
}

static void world_end(struct world *world)
{
	hetsim_buffer_drop(world->fd, &world->buffer);
	close(world->timeline);
	timeline_none_left(world->fd);
	hetsim_close(world->fd);
}

AUTO_END(world, world_end)

static struct hetsim_buffer_move move_of(struct world *world)
{
	return (struct hetsim_buffer_move){
		.size = sizeof(struct hetsim_buffer_move),
		.handle = world->buffer.handle,
		.place = HETSIM_PLACE_VRAM,
		.length = LENGTH,
		.queue = world->queue,
		.n_waits = 1,
		.n_signals = 1,
		.waits = (uintptr_t)&world->wait,
		.signals = (uintptr_t)&world->signal,
	};
}

static struct hetsim_bind bind_of(struct world *world)
{
	return (struct hetsim_bind){
		.size = sizeof(struct hetsim_bind),
		.flags = HETSIM_BIND_WRITE,
		.handle = world->buffer.handle,
		.address = ADDRESS,
		.length = LENGTH,
		.queue = world->queue,
		.n_waits = 1,
		.n_signals = 1,
		.waits = (uintptr_t)&world->wait,
		.signals = (uintptr_t)&world->signal,
	};
}

static struct hetsim_unbind unbind_of(struct world *world)
{
	return (struct hetsim_unbind){
		.size = sizeof(struct hetsim_unbind),
		.address = ADDRESS,
		.length = LENGTH,
		.queue = world->queue,
	};
}

static uint64_t in_vram(struct world *world)
{
	return hetsim_buffer_info(world->fd, world->buffer.handle).vram_bytes;
}

/* Pages move once the point is there, and stay where they are until then. */
static void test_move(void)
{
	AUTO(world) world = world_make();
	struct hetsim_buffer_move move = move_of(&world);

	world.buffer.bytes[0] = 7;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BUFFER_MOVE, &move), 0);
	CHECK_EQUAL(move.seqno, 1);
	CHECK(sync_is_waiting(world.fd, world.queue, move.seqno));
	CHECK_EQUAL(in_vram(&world), 0);
	CHECK_EQUAL(timeline_value(world.fd, world.timeline), 0);
	CHECK_EQUAL(timeline_signal(world.fd, world.timeline, 1), 0);
	CHECK_EQUAL(sync_status(world.fd, world.queue, move.seqno), 0);
	CHECK_EQUAL(timeline_value(world.fd, world.timeline), 2);
	CHECK_EQUAL(in_vram(&world), LENGTH);
	CHECK_EQUAL(hetsim_counters(world.fd, HETSIM_SCOPE_OPENER).moves, 1);

	/* Without waits, and back. */
	move.place = HETSIM_PLACE_SYSTEM;
	move.n_waits = move.n_signals = 0;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BUFFER_MOVE, &move), 0);
	CHECK_EQUAL(move.seqno, 2);
	CHECK_EQUAL(sync_status(world.fd, world.queue, move.seqno), 0);
	CHECK_EQUAL(in_vram(&world), 0);
	CHECK_EQUAL(world.buffer.bytes[0], 7);
}

/* A queue binds memory, works on it, and lets go of it, all of which is submitted before. */
static void test_bind(void)
{
	struct hetsim_command fill = { .op = HETSIM_OP_FILL,
				       .destination = ADDRESS,
				       .length = LENGTH,
				       .value = 0x05050505 };
	struct hetsim_command late = fill;
	uint64_t filled = 0;
	uint32_t other;
	AUTO(world) world = world_make();
	struct hetsim_bind bind = bind_of(&world);
	struct hetsim_unbind unbind = unbind_of(&world);

	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), 0);
	CHECK_EQUAL(hetsim_submit(world.fd, world.queue, &fill, 1, &filled), 0);
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_UNBIND, &unbind), 0);
	CHECK_EQUAL(unbind.seqno, 3);
	CHECK(sync_is_waiting(world.fd, world.queue, unbind.seqno));
	CHECK_EQUAL(world.buffer.bytes[0], 0);
	CHECK_EQUAL(timeline_signal(world.fd, world.timeline, 1), 0);
	CHECK_EQUAL(sync_status(world.fd, world.queue, bind.seqno), 0);
	CHECK_EQUAL(sync_status(world.fd, world.queue, filled), 0);
	CHECK_EQUAL(sync_status(world.fd, world.queue, unbind.seqno), 0);
	CHECK_EQUAL(world.buffer.bytes[LENGTH - 1], 5);
	CHECK_EQUAL(timeline_value(world.fd, world.timeline), 2);

	/* The range is unbound. */
	late.value = 0x06060606;
	other = hetsim_queue_make(world.fd, HETSIM_QUEUE_DMA_FENCE, 60000);
	CHECK_EQUAL(hetsim_run(world.fd, other, &late), -EFAULT);
	CHECK_EQUAL(world.buffer.bytes[0], 5);
}

static int bind_status(struct world *world, struct hetsim_bind bind)
{
	CHECK_EQUAL(hetsim_call(world->fd, HETSIM_BIND, &bind), 0);
	return sync_status(world->fd, world->queue, bind.seqno);
}

static int unbind_status(struct world *world, struct hetsim_unbind unbind)
{
	CHECK_EQUAL(hetsim_call(world->fd, HETSIM_UNBIND, &unbind), 0);
	return sync_status(world->fd, world->queue, unbind.seqno);
}

/* The status of the submission is the answer that the call would have given. */
static void test_statuses(void)
{
	struct hetsim_buffer_move move;
	struct hetsim_unbind unbind;
	AUTO(world) world = world_make();
	struct hetsim_bind bind = bind_of(&world);

	bind.n_waits = bind.n_signals = 0;
	unbind = unbind_of(&world);
	CHECK_EQUAL(unbind_status(&world, unbind), -ENOENT);
	CHECK_EQUAL(bind_status(&world, bind), 0);
	CHECK_EQUAL(bind_status(&world, bind), -EEXIST);
	unbind.length = PAGE;
	CHECK_EQUAL(unbind_status(&world, unbind), -ERANGE);
	unbind.length = LENGTH;
	CHECK_EQUAL(unbind_status(&world, unbind), 0);
	bind.offset = PAGE;
	CHECK_EQUAL(bind_status(&world, bind), -ERANGE);
	move = move_of(&world);
	move.n_waits = move.n_signals = 0;
	move.offset = PAGE;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BUFFER_MOVE, &move), 0);
	CHECK_EQUAL(sync_status(world.fd, world.queue, move.seqno), -ERANGE);
	/* None of it has changed anything, nor holds up the queue. */
	bind.offset = 0;
	CHECK_EQUAL(bind_status(&world, bind), 0);
	CHECK_EQUAL(in_vram(&world), 0);
}

/* A call refuses at once each argument that it can check, and queues nothing. */
static void test_refused(void)
{
	struct hetsim_buffer_move move;
	struct hetsim_unbind unbind;
	struct hetsim_bind bind;
	uint64_t seqno = 0;
	AUTO(world) world = world_make();
	uint32_t fenced = hetsim_queue_make(world.fd, HETSIM_QUEUE_DMA_FENCE, 60000);

	bind = bind_of(&world), bind.queue = fenced;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), -EOPNOTSUPP);
	unbind = unbind_of(&world), unbind.queue = fenced;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_UNBIND, &unbind), -EOPNOTSUPP);
	move = move_of(&world), move.queue = fenced;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BUFFER_MOVE, &move), -EOPNOTSUPP);
	bind = bind_of(&world), bind.queue = 77;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), -ENOENT);
	unbind = unbind_of(&world), unbind.queue = 77;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_UNBIND, &unbind), -ENOENT);
	move = move_of(&world), move.queue = 77;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BUFFER_MOVE, &move), -ENOENT);

	bind = bind_of(&world), bind.handle = 999;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), -ENOENT);
	bind = bind_of(&world), bind.length = 0;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), -EINVAL);
	bind = bind_of(&world), bind.n_waits = HETSIM_MAX_SYNCS + 1;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), -EINVAL);
	bind = bind_of(&world), bind.waits = 64;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), -EFAULT);
	bind = bind_of(&world), bind.queue = 0; /* waits of no submission */
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), -EINVAL);
	move = move_of(&world), move.handle = 999;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BUFFER_MOVE, &move), -ENOENT);
	world.signal = (struct hetsim_sync){ .kind = HETSIM_SYNC_FENCE };
	move = move_of(&world);
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BUFFER_MOVE, &move), -EOPNOTSUPP);
	CHECK_EQUAL(hetsim_submit(world.fd, world.queue, &sync_nothing, 1, &seqno), 0);
	CHECK_EQUAL(seqno, 1);
	CHECK_EQUAL(sync_status(world.fd, world.queue, seqno), 0);
}

/* Without a queue they work as before, for older callers, too. */
static void test_at_once(void)
{
	struct hetsim_unbind unbind;
	AUTO(world) world = world_make();
	struct hetsim_bind bind = bind_of(&world);

	bind.queue = bind.n_waits = bind.n_signals = 0;
	bind.waits = bind.signals = 0;
	bind.seqno = 77;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), 0);
	CHECK_EQUAL(bind.seqno, 0);
	unbind = unbind_of(&world);
	unbind.queue = 99; /* not read */
	unbind.seqno = 77;
	unbind.size = offsetof(struct hetsim_unbind, queue);
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_UNBIND, &unbind), 0);
	CHECK_EQUAL(unbind.seqno, 77);
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_UNBIND, &unbind), -ENOENT);
}

/* The handle is closed under a bind, which keeps the buffer. */
static void test_closed(void)
{
	struct hetsim_command fill = { .op = HETSIM_OP_FILL,
				       .destination = ADDRESS,
				       .length = LENGTH };
	struct hetsim_buffer spare = { 0 };
	struct hetsim_buffer_move move;
	struct hetsim_bind bind;
	struct world world = world_make();

	CHECK_FATAL(!hetsim_buffer_create(world.fd, LENGTH, HETSIM_PLACE_SYSTEM, 0, &spare));
	bind = bind_of(&world), bind.handle = spare.handle;
	move = move_of(&world), move.handle = spare.handle, move.n_signals = 0;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), 0);
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BUFFER_MOVE, &move), 0);
	CHECK_EQUAL(hetsim_close_handle(world.fd, spare.handle), 0);
	CHECK_EQUAL(timeline_signal(world.fd, world.timeline, 1), 0);
	CHECK_EQUAL(sync_status(world.fd, world.queue, bind.seqno), 0);
	CHECK_EQUAL(sync_status(world.fd, world.queue, move.seqno), 0);
	CHECK_EQUAL(hetsim_run(world.fd, world.queue, &fill), 0);
	world_end(&world);
}

/* The queue goes first: nothing is bound or moved, and nothing is left. */
static void test_destroyed(void)
{
	struct hetsim_buffer_move move;
	AUTO(world) world = world_make();
	int objects = hetsim_objects();
	struct hetsim_bind bind = bind_of(&world);

	bind.waits = (uintptr_t) &
		     (struct hetsim_sync){ .fd = world.timeline, .point = SYNC_NEVER };
	move = move_of(&world), move.n_signals = 0;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), 0);
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BUFFER_MOVE, &move), 0);
	CHECK(sync_is_waiting(world.fd, world.queue, bind.seqno));
	sync_destroy_queue(world.fd, world.queue);
	CHECK_EQUAL(timeline_value(world.fd, world.timeline), 2);
	CHECK_EQUAL(in_vram(&world), 0);
	CHECK_EQUAL(hetsim_objects(), objects - (objects > 0));
	bind = bind_of(&world);
	bind.queue = bind.n_waits = bind.n_signals = 0;
	bind.waits = bind.signals = 0;
	CHECK_EQUAL(hetsim_call(world.fd, HETSIM_BIND, &bind), 0);
}

const struct test sim_later_tests[] = {
	{ "move", test_move, 0, SIM_REACHED }, { "bind", test_bind, 0, 0 },
	{ "statuses", test_statuses, 0, 0 },   { "refused", test_refused, 0, 0 },
	{ "at_once", test_at_once, 0, 0 },     { "closed", test_closed, 0, 0 },
	{ "destroyed", test_destroyed, 0, 0 }, { NULL, NULL, 0, 0 },
};
