// SPDX-License-Identifier: MIT
/*
 * soft:N: each call is repeated with the 1st, 2nd, 3rd... system call or allocation
 * failing, until none is left to fail. A call that failed has changed nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/inject.h"
#include "soft/soft.h"

#include <uapi/hetsim.h>

#define ADDRESS (1ull << 32)
#define CALLS_MAX 100 /* far more than any call makes */
#define UNTOUCHED 0x5a5a5a5a

struct world {
	struct soft_file *file, *other, *reader;
	struct hetsim_buffer_create buffer; /* on file, bound at ADDRESS */
	int exported;                       /* a read-only descriptor of it */
	char *bytes;                        /* its map, to be sampled */
	uint32_t queue;                     /* whose work waits for other users of it */
	int timeline;                       /* which its work signals */
	/* Results. */
	struct soft_file *ret_file;
	uint32_t ret_handle; /* on file, or other */
	int ret_fd;
};

struct operation {
	const char *name;
	int (*run)(struct world *world);
	uint32_t further; /* buffers of a page besides */
};

static int call(struct soft_file *file, unsigned long cmd, void *argument)
{
	return soft_call(file, cmd, argument);
}

/* ---- a map that is known of ---- */

static void pages_changed(void *user, uint32_t handle)
{
	(void)user;
	(void)handle;
}

static void lost(void *user)
{
	(void)user;
}

static int visit_maps(void *user, uint32_t handle, soft_visit *visit, void *context)
{
	struct world *world = user;

	return world->bytes && handle == world->buffer.handle ?
		       visit(context, world->bytes, 0, MIB(1)) :
		       0;
}

static const struct soft_hooks hooks = {
	.pages = pages_changed,
	.lost = lost,
	.maps = visit_maps,
};

static int sample(struct world *world, uint32_t action, uint32_t *counts)
{
	return call(world->file, HETSIM_BUFFER_SAMPLE,
		    SIZED(hetsim_buffer_sample, .handle = world->buffer.handle,
			  .action = action, .length = counts ? MIB(1) : 0,
			  .counts = (uintptr_t)counts));
}

static void map_it(struct world *world)
{
	uint64_t offset;
	void *bytes;
	int fd;

	CHECK_FATAL(soft_map_fd(world->file, world->buffer.offset, &fd, &offset) == 0);
	bytes = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	CHECK_FATAL(bytes != MAP_FAILED);
	world->bytes = bytes;
}

static struct soft_file *open_file(struct world *world, int flags)
{
	struct soft_file *file;

	CHECK_FATAL(soft_open(0, flags, &hooks, world, &file) == 0);
	CHECK_EQUAL(call(file, HETSIM_HANDSHAKE,
			 SIZED(hetsim_handshake, .version_major = HETSIM_VERSION_MAJOR)),
		    0);
	return file;
}

static int create(struct soft_file *file, uint64_t length, uint64_t capacity,
		  struct hetsim_buffer_create *ret_create)
{
	struct hetsim_buffer_create arg = {
		.size = sizeof(arg),
		.length = length,
		.capacity = capacity,
		.handle = UNTOUCHED,
	};
	int r = call(file, HETSIM_BUFFER_CREATE, &arg);

	*ret_create = arg;
	return r;
}

static int export_it(struct soft_file *file, uint32_t handle, uint32_t flags, int *ret_fd)
{
	struct hetsim_export arg = { .size = sizeof(arg), .handle = handle, .flags = flags };
	int r;

	arg.fd = *ret_fd;
	r = call(file, HETSIM_EXPORT, &arg);
	*ret_fd = arg.fd;
	return r;
}

static int import_it(struct soft_file *file, int fd, uint32_t *ret_handle)
{
	struct hetsim_import arg = { .size = sizeof(arg), .fd = fd, .handle = UNTOUCHED };
	int r = call(file, HETSIM_IMPORT, &arg);

	*ret_handle = arg.handle;
	return r;
}

static int bind_at(struct world *world, uint64_t address)
{
	return call(world->file, HETSIM_BIND,
		    SIZED(hetsim_bind, .flags = HETSIM_BIND_WRITE,
			  .handle = world->buffer.handle, .address = address,
			  .length = MIB(1)));
}

static uint32_t make_queue(struct world *world)
{
	struct hetsim_queue_create arg = { .size = sizeof(arg), .timeout_ms = 60000 };

	CHECK_FATAL(call(world->file, HETSIM_QUEUE_CREATE, &arg) == 0);
	return arg.queue;
}

/* A submission that names the buffer, and has @n_signals. */
static int signal_by(struct world *world, uint32_t queue, struct hetsim_sync *signals,
		     uint32_t n_signals)
{
	const struct hetsim_command nothing = { 0 };
	const struct hetsim_use use = { world->buffer.handle, HETSIM_USE_WRITE };

	return call(world->file, HETSIM_SUBMIT,
		    SIZED(hetsim_submit, .queue = queue, .commands = (uintptr_t)&nothing,
			  .n_commands = 1, .command_size = sizeof(nothing),
			  .uses = (uintptr_t)&use, .n_uses = 1, .signals = (uintptr_t)signals,
			  .n_signals = n_signals));
}

static int use_by(struct world *world, uint32_t queue)
{
	return signal_by(world, queue, NULL, 0);
}

static int make_timeline(struct world *world, int *ret_fd)
{
	struct hetsim_timeline_create arg = { .size = sizeof(arg) };
	int r = call(world->file, HETSIM_TIMELINE_CREATE, &arg);

	if (!r)
		*ret_fd = arg.fd;
	return r;
}

/* Two queues; the first one has the buffer, and does not let go of it. */
static void make_user(struct world *world)
{
	struct hetsim_inject arg = {
		.size = sizeof(arg),
		.kind = HETSIM_INJECT_STUCK,
		.target = make_queue(world),
		.value = 1,
	};

	CHECK_EQUAL(call(world->file, HETSIM_INJECT, &arg), 0);
	CHECK_EQUAL(use_by(world, arg.target), 0);
	world->queue = make_queue(world);
}

/* The same in each world, of which there are thousands: made once. */
static unsigned char pattern[MIB(1)];

__attribute__((constructor)) static void pattern_make(void)
{
	size_t i;

	for (i = 0; i < MIB(1); i++)
		pattern[i] = (unsigned char)(i * 7 + (i >> 12));
}

static void write_pattern(struct world *world)
{
	CHECK_EQUAL(soft_write(world->file, pattern, MIB(1), world->buffer.offset), MIB(1));
}

static void check_pattern(struct world *world)
{
	static unsigned char bytes[MIB(1)];

	CHECK_EQUAL(soft_read(world->file, bytes, MIB(1), world->buffer.offset), MIB(1));
	CHECK(memcmp(bytes, pattern, MIB(1)) == 0);
}

static void set_up(struct world *world, const struct operation *operation)
{
	struct hetsim_buffer_create further;
	uint32_t i, handle;

	memset(world, 0, sizeof(*world));
	world->file = open_file(world, O_RDWR);
	world->other = open_file(world, O_RDWR);
	world->reader = open_file(world, O_RDONLY);
	world->exported = -1;
	world->timeline = -1;
	world->ret_fd = -1;
	world->ret_handle = UNTOUCHED;
	CHECK_FATAL(create(world->file, MIB(1), MIB(2), &world->buffer) == 0);
	for (i = 0; i < operation->further; i++)
		CHECK_FATAL(create(world->file, PAGE, 0, &further) == 0);
	CHECK_FATAL(bind_at(world, ADDRESS) == 0);
	write_pattern(world);
	if (!strncmp(operation->name, "sample", 6))
		map_it(world);
	if (!strcmp(operation->name, "use") || !strcmp(operation->name, "signal"))
		make_user(world);
	if (!strcmp(operation->name, "signal"))
		CHECK_FATAL(make_timeline(world, &world->timeline) == 0);
	if (!strcmp(operation->name, "sample_read")) {
		CHECK_EQUAL(sample(world, HETSIM_SAMPLE_START, NULL), 0);
		world->bytes[0] = 0; /* as it is in the pattern */
	}
	if (!strncmp(operation->name, "import", 6) || !strncmp(operation->name, "map", 3)) {
		CHECK_EQUAL(export_it(world->file, world->buffer.handle, 0, &world->exported),
			    0);
		if (!strncmp(operation->name, "map", 3))
			CHECK_EQUAL(import_it(world->reader, world->exported, &handle), 0);
	}
}

static void tear_down(struct world *world)
{
	if (world->bytes)
		munmap(world->bytes, MIB(1));
	world->bytes = NULL;
	if (world->ret_file)
		soft_close(world->ret_file);
	if (world->exported >= 0)
		close(world->exported);
	if (world->timeline >= 0)
		close(world->timeline);
	if (world->ret_fd >= 0)
		close(world->ret_fd);
	soft_close(world->file);
	soft_close(world->other);
	soft_close(world->reader);
	CHECK_EQUAL(soft_objects(0), 0);
}

/* ---- the operations ---- */

static int run_open(struct world *world)
{
	return soft_open(0, O_RDWR, NULL, NULL, &world->ret_file);
}

static int run_create(struct world *world)
{
	struct hetsim_buffer_create arg;
	int r = create(world->file, MIB(3), MIB(5), &arg);

	world->ret_handle = arg.handle;
	return r;
}

static int resize(struct world *world, uint64_t length)
{
	return call(world->file, HETSIM_BUFFER_RESIZE,
		    SIZED(hetsim_buffer_resize, .handle = world->buffer.handle,
			  .length = length));
}

static int run_grow(struct world *world)
{
	return resize(world, MIB(2));
}

static int run_grow_beyond(struct world *world)
{
	return resize(world, MIB(6));
}

static int run_shrink(struct world *world)
{
	return resize(world, PAGE);
}

static int run_export(struct world *world)
{
	return export_it(world->file, world->buffer.handle, HETSIM_EXPORT_WRITE,
			 &world->ret_fd);
}

static int run_export_read(struct world *world)
{
	return export_it(world->file, world->buffer.handle, 0, &world->ret_fd);
}

static int run_import(struct world *world)
{
	return import_it(world->reader, world->exported, &world->ret_handle);
}

static int run_map_read(struct world *world)
{
	uint64_t offset;
	int fd;

	return soft_map_fd(world->reader, world->buffer.offset, &fd, &offset);
}

static int run_bind(struct world *world)
{
	return bind_at(world, ADDRESS << 8);
}

static int run_move(struct world *world)
{
	return call(world->file, HETSIM_BUFFER_MOVE,
		    SIZED(hetsim_buffer_move, .handle = world->buffer.handle,
			  .place = HETSIM_PLACE_SYSTEM, .length = MIB(1)));
}

static int run_read(struct world *world)
{
	unsigned char bytes[16];
	ssize_t n = soft_read(world->file, bytes, sizeof(bytes), world->buffer.offset);

	return n == sizeof(bytes) ? 0 : (int)n;
}

static int run_write(struct world *world)
{
	static const unsigned char bytes[3] = { 0, 7, 14 };
	ssize_t n = soft_write(world->file, bytes, sizeof(bytes), world->buffer.offset);

	return n == sizeof(bytes) ? 0 : (int)n;
}

static int run_sample(struct world *world)
{
	return sample(world, HETSIM_SAMPLE_START, NULL);
}

static int run_sample_read(struct world *world)
{
	static uint32_t counts[MIB(1) / PAGE];

	return sample(world, HETSIM_SAMPLE_READ, counts);
}

static int run_use(struct world *world)
{
	return use_by(world, world->queue);
}

static int run_timeline(struct world *world)
{
	return make_timeline(world, &world->ret_fd);
}

/* A sync_file, and behind it a point: the fence is there already when the timeline fails. */
static int run_signal(struct world *world)
{
	struct hetsim_sync signals[] = {
		{ .kind = HETSIM_SYNC_FENCE, .fd = -1 },
		{ .kind = HETSIM_SYNC_TIMELINE, .fd = world->timeline, .point = 1 },
	};
	int r = signal_by(world, world->queue, signals, 2);

	world->ret_fd = signals[0].fd;
	return r;
}

static const struct operation operations[] = {
	{ "open", run_open, 0 },
	{ "create", run_create, 0 },
	{ "create_more_slots", run_create, 62 }, /* 63 are there, and slot 0 is none */
	{ "grow", run_grow, 0 },
	{ "grow_beyond", run_grow_beyond, 0 },
	{ "shrink", run_shrink, 0 },
	{ "export", run_export, 0 },
	{ "export_read", run_export_read, 0 },
	{ "import", run_import, 0 },
	{ "map_read", run_map_read, 0 },
	{ "bind", run_bind, 0 },
	{ "move", run_move, 0 },
	{ "sample", run_sample, 0 },
	{ "sample_read", run_sample_read, 0 },
	{ "read", run_read, 0 },
	{ "write", run_write, 0 },
	{ "use", run_use, 0 },
	{ "timeline", run_timeline, 0 },
	{ "signal", run_signal, 0 },
};

#define N_OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* ---- before and after ---- */

struct shape {
	struct hetsim_query query, other;
	struct hetsim_buffer_info info;
	struct test_holding holding;
	uint32_t objects;
};

static void take_shape(struct world *world, struct shape *shape)
{
	memset(shape, 0, sizeof(*shape));
	shape->query.size = sizeof(shape->query);
	shape->other.size = sizeof(shape->other);
	shape->info.size = sizeof(shape->info);
	shape->info.handle = world->buffer.handle;
	CHECK_EQUAL(call(world->file, HETSIM_QUERY, &shape->query), 0);
	CHECK_EQUAL(call(world->other, HETSIM_QUERY, &shape->other), 0);
	CHECK_EQUAL(call(world->file, HETSIM_BUFFER_INFO, &shape->info), 0);
	shape->holding = test_holding_now();
	shape->objects = soft_objects(0);
}

static void compare(const struct shape *a, const struct shape *b)
{
	CHECK(!memcmp(&a->query, &b->query, sizeof(a->query)));
	CHECK(!memcmp(&a->other, &b->other, sizeof(a->other)));
	CHECK(!memcmp(&a->info, &b->info, sizeof(a->info)));
	CHECK_EQUAL(a->holding.fds, b->holding.fds);
	CHECK_EQUAL(a->objects, b->objects);
}

/* No page is left over behind the end, out of sight. */
static void check_blocks(struct world *world)
{
	uint64_t offset;
	struct stat st;
	int fd;

	CHECK_EQUAL(soft_map_fd(world->file, world->buffer.offset, &fd, &offset), 0);
	CHECK_EQUAL(fstat(fd, &st), 0);
	CHECK_EQUAL(st.st_size, MIB(1));
	CHECK_EQUAL(st.st_blocks * 512, MIB(1));
}

/* The address space is right after a failure: new bytes are zero, and can go. */
static void check_resizes(struct world *world)
{
	unsigned char bytes[16];
	static const unsigned char zero[16];

	if (world->exported >= 0 || resize(world, MIB(3)))
		return;
	memset(bytes, 1, sizeof(bytes));
	CHECK_EQUAL(soft_read(world->file, bytes, sizeof(bytes), world->buffer.offset + MIB(1)),
		    sizeof(bytes));
	CHECK(!memcmp(bytes, zero, sizeof(bytes)));
	check_pattern(world);
}

/* One round; false when there was no such call to fail. */
static bool fail_nth(const struct operation *operation, unsigned int n, enum inject_mode mode)
{
	struct shape before, after;
	struct world world;
	const char *failed;
	bool was;
	int r;

	set_up(&world, operation);
	take_shape(&world, &before);
	inject_arm(n, mode);
	r = operation->run(&world);
	was = inject_disarm();
	failed = inject_failed();
	if (r) {
		if (!was)
			test_fail(__FILE__, __LINE__, "%s: %d with nothing failing",
				  operation->name, r);
		CHECK(r != -ENOSPC); /* which is the device's, not the machine's */
		take_shape(&world, &after);
		compare(&before, &after);
		CHECK(!world.ret_file && world.ret_fd == -1 && world.ret_handle == UNTOUCHED);
		check_pattern(&world);
		if (mode == INJECT_ONE || strcmp(failed, "ftruncate") != 0)
			check_blocks(&world); /* else the call that frees them fails, too */
		check_resizes(&world);
	} else if (was && strcmp(failed, "munmap") != 0 && strcmp(failed, "close") != 0 &&
		   strcmp(failed, "userfaultfd") != 0 && strcmp(failed, "ioctl") != 0 &&
		   strcmp(failed, "mincore") != 0) {
		/*
		 * What gives things back can't fail otherwise than by leaving them, what
		 * makes samples exact is a help, and mincore() is asked again.
		 */
		test_fail(__FILE__, __LINE__, "%s: 0 though %s failed", operation->name,
			  failed);
	}
	tear_down(&world);
	inject_forgive();
	return was;
}

static struct test tests[N_OPERATIONS + 1];

static void run(void)
{
	const struct operation *operation = &operations[test_current() - tests];
	enum inject_mode mode;
	unsigned int n;

	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=16", 1);
	for (mode = INJECT_ONE; mode <= INJECT_REST; mode++) {
		for (n = 1; n < CALLS_MAX && fail_nth(operation, n, mode); n++)
			;
		CHECK(n < CALLS_MAX);
	}
}

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; i < N_OPERATIONS; i++) {
		tests[i].name = operations[i].name;
		tests[i].run = run;
	}
	return harness_main(argc, argv, "soft_undo", tests);
}
