// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: every call with arguments that it takes, bad
 * values in one member after the other, and every call to a device that was taken away.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "lib/hetsim_argument.h"
#include "lib/rig.h"
#include "sim/sim_tests.h"

#define BOUND (1ull << 40) /* where the buffer is bound */
#define FREE (1ull << 41)  /* where nothing is */

/* Compares every byte: a call must not touch the members that it does not write. */
static bool is_same(const union hetsim_argument *a, const union hetsim_argument *b)
{
	const unsigned char *x = (const void *)a, *y = (const void *)b;

	return !memcmp(x, y, sizeof(*a));
}

/* An open file that has something for every call to name. */
struct world {
	int fd;
	struct hetsim_buffer buffer, spare; /* the spare ones are there to be given up */
	uint32_t queue, spare_queue;
	uint64_t seqno; /* done */
	int dmabuf, event, timeline;
	struct hetsim_command nothing;
	struct hetsim_use use; /* of the buffer */
	struct hetsim_page page;
	bool mirrors; /* the device has the calls of the mirror */
};

/* ---- arguments with which a call succeeds ---- */

static void fill_buffer_call(const struct world *world, unsigned long cmd,
			     union hetsim_argument *arg)
{
	switch (cmd) {
	case HETSIM_BUFFER_CREATE:
		arg->buffer_create.length = PAGE;
		arg->buffer_create.place = HETSIM_PLACE_SYSTEM;
		break;
	case HETSIM_BUFFER_CLOSE:
		arg->buffer_close.handle = world->spare.handle;
		break;
	case HETSIM_BUFFER_RESIZE:
		arg->buffer_resize.handle = world->buffer.handle;
		arg->buffer_resize.length = PAGE;
		break;
	case HETSIM_BUFFER_INFO:
		arg->buffer_info.handle = world->buffer.handle;
		break;
	case HETSIM_BUFFER_MOVE:
		arg->buffer_move.handle = world->buffer.handle;
		arg->buffer_move.length = PAGE;
		arg->buffer_move.place = HETSIM_PLACE_SYSTEM;
		break;
	case HETSIM_BUFFER_SAMPLE:
		arg->buffer_sample.handle = world->buffer.handle;
		arg->buffer_sample.action = HETSIM_SAMPLE_START;
		break;
	case HETSIM_BUFFER_WHEN_LOST:
		arg->buffer_when_lost.handle = world->buffer.handle;
		break;
	case HETSIM_EXPORT:
		arg->export.handle = world->buffer.handle;
		arg->export.flags = HETSIM_EXPORT_WRITE;
		break;
	case HETSIM_IMPORT:
		arg->import.fd = world->dmabuf;
		break;
	case HETSIM_BIND:
		arg->bind.handle = world->buffer.handle;
		arg->bind.flags = HETSIM_BIND_WRITE;
		arg->bind.address = FREE;
		arg->bind.length = PAGE;
		break;
	case HETSIM_UNBIND:
		arg->unbind.address = BOUND;
		arg->unbind.length = PAGE;
		break;
	}
}

static void fill_queue_call(const struct world *world, unsigned long cmd,
			    union hetsim_argument *arg)
{
	switch (cmd) {
	case HETSIM_QUEUE_DESTROY:
		arg->queue_destroy.queue = world->spare_queue;
		break;
	case HETSIM_SUBMIT:
		arg->submit.queue = world->queue;
		arg->submit.commands = (uintptr_t)&world->nothing;
		arg->submit.n_commands = 1;
		arg->submit.command_size = sizeof(world->nothing);
		arg->submit.uses = (uintptr_t)&world->use;
		arg->submit.n_uses = 1;
		break;
	case HETSIM_WAIT:
		arg->wait.queue = world->queue;
		arg->wait.seqno = world->seqno;
		break;
	case HETSIM_FENCE_FD:
		arg->fence_fd.queue = world->queue;
		arg->fence_fd.seqno = world->seqno;
		break;
	case HETSIM_QUEUE_EVENT:
		arg->queue_event.queue = world->queue;
		arg->queue_event.seqno = world->seqno;
		arg->queue_event.eventfd = world->event;
		break;
	case HETSIM_TIMELINE_WAIT:
		arg->timeline_wait.fd = world->timeline;
		break;
	case HETSIM_TIMELINE_SIGNAL:
		arg->timeline_signal.fd = world->timeline;
		break;
	case HETSIM_INJECT:
		arg->inject.kind = HETSIM_INJECT_LATENCY;
		arg->inject.target = world->queue;
		break;
	case HETSIM_ADVISE:
		arg->advise.address = FREE;
		arg->advise.length = PAGE;
		break;
	case HETSIM_PREFETCH:
		arg->prefetch.queue = world->spare_queue;
		arg->prefetch.location = HETSIM_LOCATION_HOST;
		arg->prefetch.address = FREE;
		arg->prefetch.length = PAGE;
		break;
	case HETSIM_RANGE_QUERY:
		arg->range_query.address = FREE;
		arg->range_query.length = PAGE;
		arg->range_query.pages = (uintptr_t)&world->page;
		break;
	}
}

static void fill(const struct world *world, const struct hetsim_call_entry *call,
		 union hetsim_argument *arg)
{
	memset(arg, 0, sizeof(*arg));
	arg->size = call->size;
	if (call->cmd == HETSIM_HANDSHAKE) {
		arg->handshake.version_major = HETSIM_VERSION_MAJOR;
		arg->handshake.version_minor = HETSIM_VERSION_MINOR;
	}
	fill_buffer_call(world, call->cmd, arg);
	fill_queue_call(world, call->cmd, arg);
}

static int bind_at(const struct world *world, uint64_t address)
{
	return hetsim_call(world->fd, HETSIM_BIND,
			   SIZED(hetsim_bind, .handle = world->buffer.handle,
				 .address = address, .length = PAGE));
}

static int unbind_at(const struct world *world, uint64_t address)
{
	return hetsim_call(world->fd, HETSIM_UNBIND,
			   SIZED(hetsim_unbind, .address = address, .length = PAGE));
}

/* Undoes the change of a call that has succeeded with @arg. */
static void undo(struct world *world, unsigned long cmd, union hetsim_argument *arg)
{
	switch (cmd) {
	case HETSIM_BUFFER_CREATE:
		CHECK_EQUAL(hetsim_close_handle(world->fd, arg->buffer_create.handle), 0);
		break;
	case HETSIM_BUFFER_CLOSE:
		CHECK_EQUAL(hetsim_buffer_create(world->fd, PAGE, HETSIM_PLACE_SYSTEM, 0,
						 &world->spare),
			    0);
		break;
	case HETSIM_BUFFER_SAMPLE:
		arg->buffer_sample.action = HETSIM_SAMPLE_STOP;
		CHECK_EQUAL(hetsim_call(world->fd, cmd, arg), 0);
		break;
	case HETSIM_EXPORT:
		CHECK_EQUAL(close(arg->export.fd), 0);
		break;
	case HETSIM_BIND:
		CHECK_EQUAL(unbind_at(world, FREE), 0);
		break;
	case HETSIM_UNBIND:
		CHECK_EQUAL(bind_at(world, BOUND), 0);
		break;
	case HETSIM_QUEUE_CREATE:
		arg->queue_destroy.queue = arg->queue_create.queue;
		arg->size = sizeof(arg->queue_destroy);
		CHECK_EQUAL(hetsim_call(world->fd, HETSIM_QUEUE_DESTROY, arg), 0);
		break;
	case HETSIM_QUEUE_DESTROY:
		world->spare_queue = hetsim_queue_make(world->fd, HETSIM_QUEUE_COUNTER, 0);
		break;
	case HETSIM_FENCE_FD:
		CHECK_EQUAL(close(arg->fence_fd.fd), 0);
		break;
	case HETSIM_TIMELINE_CREATE:
		CHECK_EQUAL(close(arg->timeline_create.fd), 0);
		break;
	case HETSIM_MIRROR_EVENTS:
		CHECK_EQUAL(close(arg->mirror_events.fd), 0);
		break;
	}
}

static struct world world_make(void)
{
	struct world world = { 0 };
	struct hetsim_timeline_create timeline = { .size = sizeof(timeline) };
	struct hetsim_mirror mirror = { .size = sizeof(mirror) };
	uint64_t address;
	int status;

	world.fd = hetsim_begin(O_RDWR);
	CHECK_FATAL(
		!hetsim_buffer_create(world.fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &world.buffer));
	CHECK_FATAL(
		!hetsim_buffer_create(world.fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &world.spare));
	CHECK_FATAL(!bind_at(&world, BOUND));
	world.use.handle = world.buffer.handle;
	world.queue = hetsim_queue_make(world.fd, HETSIM_QUEUE_DMA_FENCE, 0);
	world.spare_queue = hetsim_queue_make(world.fd, HETSIM_QUEUE_COUNTER, 0);
	CHECK_FATAL(!hetsim_submit(world.fd, world.queue, &world.nothing, 1, &world.seqno));
	CHECK_FATAL(!hetsim_wait(world.fd, world.queue, world.seqno, 60000, &status, &address));
	world.dmabuf = hetsim_export(world.fd, world.buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(world.dmabuf >= 0);
	world.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK_FATAL(world.event >= 0);
	CHECK_FATAL(hetsim_call(world.fd, HETSIM_TIMELINE_CREATE, &timeline) == 0);
	world.timeline = timeline.fd;
	world.mirrors = hetsim_call(world.fd, HETSIM_MIRROR, &mirror) == 0;
	return world;
}

static void world_end(struct world *world)
{
	CHECK_EQUAL(close(world->timeline), 0);
	CHECK_EQUAL(close(world->event), 0);
	CHECK_EQUAL(close(world->dmabuf), 0);
	hetsim_close(world->fd);
}

AUTO_END(world, world_end)

/* With its arguments unchanged: 0, and its change is undone. */
static void succeed(struct world *world, const struct hetsim_call_entry *call)
{
	union hetsim_argument arg;
	int r;

	fill(world, call, &arg);
	r = hetsim_call(world->fd, call->cmd, &arg);
	if (r == -EOPNOTSUPP && !world->mirrors && call->cmd >= HETSIM_MIRROR)
		return; /* a driver without HETSIM_FEATURE_MIRROR */
	if (r)
		test_fail(__FILE__, __LINE__, "%s: %d", call->name, r);
	else
		undo(world, call->cmd, &arg);
}

/* ---- members that must be 0, unknown flags and values ---- */

struct field {
	unsigned long cmd;
	const char *name;
	uint32_t offset;
	uint32_t width;
	uint64_t known;  /* bits that mean something */
	uint64_t last;   /* of an enumeration; 0: it is none */
	bool of_command; /* of struct hetsim_command */
	bool of_use;     /* of struct hetsim_use */
};

#define FIELD(which, type, member)                        \
	.cmd = HETSIM_##which, .name = #type "." #member, \
	.offset = offsetof(struct hetsim_##type, member), \
	.width = sizeof(((struct hetsim_##type *)0)->member)

/* All that are called flags or __reserved, in the header's order. */
static const struct field bits[] = {
	{ FIELD(HANDSHAKE, handshake, flags), .known = HETSIM_HANDSHAKE_ZERO_WHEN_LOST },
	{ FIELD(QUERY, query, flags) },
	{ FIELD(BUFFER_CREATE, buffer_create, flags) },
	{ FIELD(BUFFER_CREATE, buffer_create, __reserved) },
	{ FIELD(BUFFER_RESIZE, buffer_resize, flags) },
	{ FIELD(BUFFER_RESIZE, buffer_resize, __reserved) },
	{ FIELD(BUFFER_MOVE, buffer_move, flags) },
	{ FIELD(BUFFER_MOVE, buffer_move, __reserved) },
	{ FIELD(EXPORT, export, flags), .known = HETSIM_EXPORT_WRITE },
	{ FIELD(EXPORT, export, __reserved) },
	{ FIELD(IMPORT, import, flags) },
	{ FIELD(BUFFER_SAMPLE, buffer_sample, __reserved) },
	{ FIELD(BUFFER_WHEN_LOST, buffer_when_lost, __reserved) },
	{ FIELD(BIND, bind, flags), .known = HETSIM_BIND_WRITE },
	{ FIELD(BIND, bind, __reserved) },
	{ FIELD(UNBIND, unbind, flags) },
	{ FIELD(UNBIND, unbind, __reserved) },
	{ FIELD(QUEUE_CREATE, queue_create, flags) },
	{ FIELD(QUEUE_CREATE, queue_create, __reserved) },
	{ FIELD(SUBMIT, command, flags), .of_command = true },
	{ FIELD(SUBMIT, submit, flags) },
	{ FIELD(SUBMIT, submit, __reserved) },
	{ FIELD(SUBMIT, submit, __reserved2) },
	{ FIELD(WAIT, wait, __reserved) },
	{ FIELD(FENCE_FD, fence_fd, flags) },
	{ FIELD(QUEUE_EVENT, queue_event, flags) },
	{ FIELD(TIMELINE_CREATE, timeline_create, flags) },
	{ FIELD(TIMELINE_CREATE, timeline_create, __reserved) },
	{ FIELD(SUBMIT, use, flags), .of_use = true,
	  .known = HETSIM_USE_WRITE | HETSIM_USE_WAIT_ONLY },
	{ FIELD(INJECT, inject, flags) },
	{ FIELD(MIRROR, mirror, flags) },
	{ FIELD(MIRROR, mirror, __reserved) },
	{ FIELD(PREFETCH, prefetch, flags), .known = HETSIM_PREFETCH_WRITE },
	{ FIELD(RANGE_QUERY, range_query, flags) },
	{ FIELD(MIRROR_EVENTS, mirror_events, flags) },
	{ FIELD(MIRROR_EVENTS, mirror_events, __reserved) },
	{ FIELD(LEARN, learn, flags) },
};

static const struct field enums[] = {
	{ FIELD(COUNTERS, counters, scope), .last = HETSIM_SCOPE_DEVICE },
	{ FIELD(BUFFER_CREATE, buffer_create, place), .last = HETSIM_PLACE_WINDOW },
	{ FIELD(BUFFER_CREATE, buffer_create, cache), .last = HETSIM_CACHE_COMBINE },
	{ FIELD(BUFFER_MOVE, buffer_move, place), .last = HETSIM_PLACE_WINDOW },
	{ FIELD(BUFFER_SAMPLE, buffer_sample, action), .last = HETSIM_SAMPLE_STOP },
	{ FIELD(BUFFER_WHEN_LOST, buffer_when_lost, when), .last = HETSIM_WHEN_LOST_SIGNAL },
	{ FIELD(BIND, bind, source), .last = HETSIM_SOURCE_PROCESS_RANGE },
	{ FIELD(QUEUE_CREATE, queue_create, type), .last = HETSIM_QUEUE_COUNTER },
	{ FIELD(SUBMIT, command, op), .last = HETSIM_OP_COMPARE, .of_command = true },
	{ FIELD(INJECT, inject, kind), .last = HETSIM_INJECT_UNPLUG },
	{ FIELD(ADVISE, advise, advice), .last = HETSIM_ADVISE_CACHE },
	{ FIELD(PREFETCH, prefetch, location), .last = HETSIM_LOCATION_DEVICE },
};

#define N_BITS (sizeof(bits) / sizeof(bits[0]))
#define N_ENUMS (sizeof(enums) / sizeof(enums[0]))

static const struct hetsim_call_entry *call_of(const struct field *field)
{
	unsigned int i;

	for (i = 0; i < HETSIM_N_CALLS - 1 && hetsim_calls[i].cmd != field->cmd; i++)
		;
	return &hetsim_calls[i];
}

static void put(void *structure, const struct field *field, uint64_t value, bool add)
{
	unsigned char *at = (unsigned char *)structure + field->offset;
	uint64_t wide;
	uint32_t narrow;

	if (field->width == sizeof(wide)) {
		memcpy(&wide, at, sizeof(wide));
		wide = add ? wide | value : value;
		memcpy(at, &wide, sizeof(wide));
	} else {
		memcpy(&narrow, at, sizeof(narrow));
		narrow = add ? narrow | (uint32_t)value : (uint32_t)value;
		memcpy(at, &narrow, sizeof(narrow));
	}
}

static void *place_of(struct world *world, const struct field *field,
		      union hetsim_argument *arg)
{
	if (field->of_command)
		return &world->nothing;
	return field->of_use ? (void *)&world->use : (void *)arg;
}

/* With what the device can't know in the member: EINVAL, and nothing is written. */
static void refuse(struct world *world, const struct field *field, uint64_t value, bool add)
{
	const struct hetsim_call_entry *call = call_of(field);
	union hetsim_argument arg, before;
	int r;

	fill(world, call, &arg);
	put(place_of(world, field, &arg), field, value, add);
	before = arg;
	r = hetsim_call(world->fd, call->cmd, &arg);
	memset(&world->nothing, 0, sizeof(world->nothing));
	world->use.flags = 0;
	if (r != -EINVAL)
		test_fail(__FILE__, __LINE__, "hetsim_%s 0x%llx: %d", field->name,
			  (unsigned long long)value, r);
	if (!is_same(&arg, &before))
		test_fail(__FILE__, __LINE__, "hetsim_%s: the call that failed has written",
			  field->name);
	if (!r)
		undo(world, call->cmd, &arg);
}

/* Counts flags and reserved members, so that a new one is not forgotten. */
static unsigned int count_in(const char *header)
{
	FILE *file = fopen(header, "re");
	unsigned int n = 0;
	char line[256];

	CHECK_FATAL(file != NULL);
	while (fgets(line, sizeof(line), file))
		n += line[0] == '\t' &&
		     (strstr(line, " flags;") || strstr(line, " __reserved"));
	fclose(file);
	return n;
}

static void test_unknown(void)
{
	unsigned int i, bit;
	int objects;
	AUTO(world) world = world_make();

	CHECK_EQUAL(count_in("include/uapi/hetsim.h") +
			    count_in("include/uapi/hetsim_buffer.h") +
			    count_in("include/uapi/hetsim_mirror.h") +
			    count_in("include/uapi/hetsim_queue.h") +
			    count_in("include/uapi/hetsim_timeline.h"),
		    N_BITS);
	objects = hetsim_objects();
	for (i = 0; i < N_BITS; i++) {
		for (bit = 0; bit < bits[i].width * 8; bit++)
			if (!(bits[i].known >> bit & 1))
				refuse(&world, &bits[i], 1ull << bit, true);
		succeed(&world, call_of(&bits[i]));
	}
	for (i = 0; i < N_ENUMS; i++) {
		refuse(&world, &enums[i], enums[i].last + 1, false);
		refuse(&world, &enums[i], 1u << 16, false);
		refuse(&world, &enums[i], UINT32_MAX, false);
		succeed(&world, call_of(&enums[i]));
	}
	CHECK_EQUAL(hetsim_objects(), objects);
}

/* ---- a device that was taken away ---- */

static void check_gone(const struct world *world)
{
	union hetsim_argument arg, before;
	unsigned int i;
	unsigned char byte = 1;
	int r;

	for (i = 0; i < HETSIM_N_CALLS; i++) {
		fill(world, &hetsim_calls[i], &arg);
		before = arg;
		r = hetsim_call(world->fd, hetsim_calls[i].cmd, &arg);
		if (r != -ENODEV)
			test_fail(__FILE__, __LINE__, "%s: %d", hetsim_calls[i].name, r);
		if (!is_same(&arg, &before))
			test_fail(__FILE__, __LINE__, "%s: the call that failed has written",
				  hetsim_calls[i].name);
	}
	CHECK_EQUAL(hetsim_pread(world->fd, &byte, 1, world->buffer.offset), -ENODEV);
	CHECK_EQUAL(hetsim_pwrite(world->fd, &byte, 1, world->buffer.offset), -ENODEV);
}

/* Objects of an open file can't be had any more, not even by the next device. */
static void test_gone(void)
{
	struct hetsim_command nothing = { 0 };
	unsigned int i;
	int bare, fresh;
	struct world world = world_make();

	TEST_NEEDS(hetsim_may_unplug(world.fd));
	for (i = 0; i < HETSIM_N_CALLS; i++)
		succeed(&world, &hetsim_calls[i]);
	bare = hetsim_open_bare(O_RDWR);
	CHECK_FATAL(bare >= 0);
	CHECK_EQUAL(hetsim_inject(world.fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	check_gone(&world);
	CHECK_EQUAL(hetsim_call(bare, HETSIM_HANDSHAKE,
				SIZED(hetsim_handshake, .version_major = HETSIM_VERSION_MAJOR)),
		    -ENODEV);

	hetsim_plug();
	check_gone(&world);
	fresh = hetsim_open(O_RDWR);
	CHECK_FATAL(fresh >= 0);
	CHECK_EQUAL(hetsim_run(fresh, hetsim_queue_make(fresh, HETSIM_QUEUE_DMA_FENCE, 0),
			       &nothing),
		    0);
	hetsim_close(bare);
	world_end(&world);
	hetsim_close(fresh);
	CHECK_EQUAL(hetsim_objects(), 0);
}

const struct test sim_calls_tests[] = {
	{ "unknown", test_unknown, 0, 0 },
	{ "gone", test_gone, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
