// SPDX-License-Identifier: MIT
/*
 * hetsim under a kernel that makes each allocation and each copy from and to user
 * space fail in turn (Documentation/fault-injection, /proc/self/fail-nth): every call
 * answers with an errno or succeeds, and leaves nothing behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/fail_nth.h"
#include "lib/hetsim.h"

#define PAGES 64
#define BOUND_AT 0x7000000000ull
#define BIND_AT 0x5000000000ull

/* The objects for a call, and those that it may leave for tidy() to take away. */
struct scene {
	int fd, other;   /* two openers */
	uint32_t handle; /* PAGES pages in system memory, bound at BOUND_AT */
	uint64_t offset;
	uint32_t queue;
	uint64_t seqno;   /* done */
	uint32_t counter; /* a queue of HETSIM_QUEUE_COUNTER; 0: none yet */
	int dmabuf;       /* of the buffer */
	int eventfd;
	int timeline, fence; /* of a submission that is done */
	unsigned char *map;  /* of the buffer, not touched yet */
	int made;            /* a descriptor that the call made, or -1 */
	void *more;          /* a map that the call made */
	bool gone;           /* the device was taken away */
};

static int call(int fd, unsigned long cmd, void *argument)
{
	return ioctl(fd, cmd, argument) ? -errno : 0;
}

static void *map_buffer(const struct scene *scene)
{
	return mmap(NULL, PAGES * HETSIM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, scene->fd,
		    (off_t)scene->offset);
}

static int run_open(struct scene *scene)
{
	scene->made = open(HETSIM_PATH, O_RDWR | O_CLOEXEC);
	return scene->made < 0 ? -errno : 0;
}

static int run_handshake(struct scene *scene)
{
	struct hetsim_handshake arg = { .size = sizeof(arg),
					.version_major = HETSIM_VERSION_MAJOR };

	return call(scene->fd, HETSIM_HANDSHAKE, &arg);
}

static int run_query(struct scene *scene)
{
	struct hetsim_query arg = { .size = sizeof(arg) };

	return call(scene->fd, HETSIM_QUERY, &arg);
}

static int run_counters(struct scene *scene)
{
	struct hetsim_counters arg = { .size = sizeof(arg) };

	return call(scene->fd, HETSIM_COUNTERS, &arg);
}

static int run_create(struct scene *scene)
{
	struct hetsim_buffer_create arg = { .size = sizeof(arg),
					    .length = PAGES * HETSIM_PAGE,
					    .place = HETSIM_PLACE_VRAM };

	return call(scene->fd, HETSIM_BUFFER_CREATE, &arg);
}

/* Where the kernel changes the cache mode of the pages. */
static int run_create_combining(struct scene *scene)
{
	struct hetsim_buffer_create arg = { .size = sizeof(arg),
					    .length = 4 * HETSIM_PAGE,
					    .place = HETSIM_PLACE_SYSTEM,
					    .cache = HETSIM_CACHE_COMBINE };

	return call(scene->fd, HETSIM_BUFFER_CREATE, &arg);
}

static int resize_to(struct scene *scene, uint64_t pages)
{
	struct hetsim_buffer_resize arg = { .size = sizeof(arg),
					    .handle = scene->handle,
					    .length = pages * HETSIM_PAGE };

	return call(scene->fd, HETSIM_BUFFER_RESIZE, &arg);
}

static int run_grow(struct scene *scene)
{
	return resize_to(scene, PAGES * 2);
}

static int run_shrink(struct scene *scene)
{
	close(scene->dmabuf);
	return resize_to(scene, PAGES / 2);
}

static int run_info(struct scene *scene)
{
	struct hetsim_buffer_info arg = { .size = sizeof(arg), .handle = scene->handle };

	return call(scene->fd, HETSIM_BUFFER_INFO, &arg);
}

static int run_move(struct scene *scene)
{
	struct hetsim_buffer_move arg = { .size = sizeof(arg),
					  .handle = scene->handle,
					  .place = HETSIM_PLACE_VRAM,
					  .length = PAGES * HETSIM_PAGE };

	return call(scene->fd, HETSIM_BUFFER_MOVE, &arg);
}

static int run_sample(struct scene *scene)
{
	static uint32_t counts[PAGES];
	struct hetsim_buffer_sample arg = { .size = sizeof(arg),
					    .handle = scene->handle,
					    .action = HETSIM_SAMPLE_START };
	int r = call(scene->fd, HETSIM_BUFFER_SAMPLE, &arg);

	if (r)
		return r;
	arg.action = HETSIM_SAMPLE_READ;
	arg.length = PAGES * HETSIM_PAGE;
	arg.counts = (uintptr_t)counts;
	return call(scene->fd, HETSIM_BUFFER_SAMPLE, &arg);
}

static int export_as(struct scene *scene, uint32_t flags)
{
	struct hetsim_export arg = { .size = sizeof(arg),
				     .handle = scene->handle,
				     .flags = flags };
	int r = call(scene->fd, HETSIM_EXPORT, &arg);

	if (!r)
		scene->made = arg.fd;
	return r;
}

/* A dma-buf that may only be read is not there yet. */
static int run_export(struct scene *scene)
{
	return export_as(scene, 0);
}

/* The one that may be written is. */
static int run_export_again(struct scene *scene)
{
	return export_as(scene, HETSIM_EXPORT_WRITE);
}

static int run_import(struct scene *scene)
{
	struct hetsim_import arg = { .size = sizeof(arg), .fd = scene->dmabuf };

	return call(scene->other, HETSIM_IMPORT, &arg);
}

/* A begin without memory is none. */
static int run_bracket(struct scene *scene)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };
	int r = call(scene->dmabuf, DMA_BUF_IOCTL_SYNC, &sync);

	sync.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;
	if (r == -ENOMEM)
		CHECK_EQUAL(call(scene->dmabuf, DMA_BUF_IOCTL_SYNC, &sync), -EINVAL);
	return r ? r : call(scene->dmabuf, DMA_BUF_IOCTL_SYNC, &sync);
}

static int run_bind(struct scene *scene)
{
	struct hetsim_bind arg = { .size = sizeof(arg),
				   .flags = HETSIM_BIND_WRITE,
				   .handle = scene->handle,
				   .address = BIND_AT,
				   .length = PAGES * HETSIM_PAGE };

	return call(scene->fd, HETSIM_BIND, &arg);
}

static int run_unbind(struct scene *scene)
{
	struct hetsim_unbind arg = { .size = sizeof(arg),
				     .address = BOUND_AT,
				     .length = PAGES * HETSIM_PAGE };

	return call(scene->fd, HETSIM_UNBIND, &arg);
}

static int run_queue_create(struct scene *scene)
{
	struct hetsim_queue_create arg = { .size = sizeof(arg) };

	return call(scene->fd, HETSIM_QUEUE_CREATE, &arg);
}

static int run_queue_destroy(struct scene *scene)
{
	struct hetsim_queue_destroy arg = { .size = sizeof(arg), .queue = scene->queue };

	return call(scene->fd, HETSIM_QUEUE_DESTROY, &arg);
}

static int run_submit(struct scene *scene)
{
	struct hetsim_command fill = { .op = HETSIM_OP_FILL,
				       .destination = BOUND_AT,
				       .length = PAGES * HETSIM_PAGE };
	struct hetsim_submit arg = { .size = sizeof(arg),
				     .queue = scene->queue,
				     .commands = (uintptr_t)&fill,
				     .n_commands = 1,
				     .command_size = sizeof(fill) };

	return call(scene->fd, HETSIM_SUBMIT, &arg);
}

static int run_wait(struct scene *scene)
{
	struct hetsim_wait arg = { .size = sizeof(arg),
				   .queue = scene->queue,
				   .seqno = scene->seqno,
				   .deadline_ns = UINT64_MAX };

	return call(scene->fd, HETSIM_WAIT, &arg);
}

static int run_fence_fd(struct scene *scene)
{
	struct hetsim_fence_fd arg = { .size = sizeof(arg),
				       .queue = scene->queue,
				       .seqno = scene->seqno };
	int r = call(scene->fd, HETSIM_FENCE_FD, &arg);

	if (!r)
		scene->made = arg.fd;
	return r;
}

static int run_timeline_create(struct scene *scene)
{
	struct hetsim_timeline_create arg = { .size = sizeof(arg) };
	int r = call(scene->fd, HETSIM_TIMELINE_CREATE, &arg);

	if (!r)
		scene->made = arg.fd;
	return r;
}

/* Each kind of wait and signal. */
static int run_submit_syncs(struct scene *scene)
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

	return call(scene->fd, HETSIM_SUBMIT, &arg);
}

static int run_queue_event(struct scene *scene)
{
	struct hetsim_queue_event arg = { .size = sizeof(arg),
					  .queue = scene->queue,
					  .seqno = scene->seqno,
					  .eventfd = scene->eventfd };

	return call(scene->fd, HETSIM_QUEUE_EVENT, &arg);
}

static int run_mirror(struct scene *scene)
{
	struct hetsim_mirror arg = { .size = sizeof(arg) };

	return call(scene->fd, HETSIM_MIRROR, &arg);
}

/* For memory that is there: the device gets a chunk, or goes without. */
static int run_advise(struct scene *scene)
{
	struct hetsim_advise arg = { .size = sizeof(arg),
				     .advice = HETSIM_ADVISE_ACCESSED_BY,
				     .address = (uintptr_t)scene & ~(HETSIM_PAGE - 1),
				     .length = HETSIM_PAGE,
				     .value = 1 };

	return call(scene->fd, HETSIM_ADVISE, &arg);
}

static int run_prefetch(struct scene *scene)
{
	struct hetsim_prefetch arg = { .size = sizeof(arg),
				       .queue = scene->counter,
				       .location = HETSIM_LOCATION_DEVICE,
				       .address = (uintptr_t)scene & ~(HETSIM_PAGE - 1),
				       .length = HETSIM_PAGE };

	return call(scene->fd, HETSIM_PREFETCH, &arg);
}

static int run_range_query(struct scene *scene)
{
	struct hetsim_page page;
	struct hetsim_range_query arg = { .size = sizeof(arg),
					  .address = (uintptr_t)scene & ~(HETSIM_PAGE - 1),
					  .length = HETSIM_PAGE,
					  .pages = (uintptr_t)&page };

	return call(scene->fd, HETSIM_RANGE_QUERY, &arg);
}

static int run_mirror_events(struct scene *scene)
{
	struct hetsim_mirror_events arg = { .size = sizeof(arg) };
	int r = call(scene->fd, HETSIM_MIRROR_EVENTS, &arg);

	if (!r)
		scene->made = arg.fd;
	return r;
}

static int run_evict(struct scene *scene)
{
	struct hetsim_inject arg = { .size = sizeof(arg),
				     .kind = HETSIM_INJECT_EVICTION,
				     .target = scene->handle,
				     .value = PAGES * HETSIM_PAGE };

	return call(scene->fd, HETSIM_INJECT, &arg);
}

static int run_close_handle(struct scene *scene)
{
	struct hetsim_buffer_close arg = { .size = sizeof(arg), .handle = scene->handle };

	return call(scene->fd, HETSIM_BUFFER_CLOSE, &arg);
}

static int run_mmap(struct scene *scene)
{
	scene->more = map_buffer(scene);
	return scene->more == MAP_FAILED ? -errno : 0;
}

static int run_mmap_dmabuf(struct scene *scene)
{
	scene->more = mmap(NULL, PAGES * HETSIM_PAGE, PROT_READ, MAP_SHARED, scene->dmabuf, 0);
	return scene->more == MAP_FAILED ? -errno : 0;
}

/* A fault without memory is taken again; at worst it is a signal. */
static int run_touch(struct scene *scene)
{
	int signal = test_write_signal(scene->map);

	return signal && signal != SIGBUS ? -EINVAL : 0;
}

/* A map in three parts, the middle one by itself. */
static int run_split(struct scene *scene)
{
	return mprotect(scene->map + 8 * HETSIM_PAGE, HETSIM_PAGE, PROT_READ) ? -errno : 0;
}

static int run_fork(struct scene *scene)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		_exit(0);
	return waitpid(pid, &status, 0) == pid && !scene->gone ? 0 : -errno;
}

static int run_read(struct scene *scene)
{
	static unsigned char bytes[2 * HETSIM_PAGE];

	return pread(scene->fd, bytes, sizeof(bytes), (off_t)scene->offset + 100) < 0 ? -errno :
											0;
}

static int run_write(struct scene *scene)
{
	static unsigned char bytes[2 * HETSIM_PAGE];

	return pwrite(scene->fd, bytes, sizeof(bytes), (off_t)scene->offset + 100) < 0 ?
		       -errno :
		       0;
}

static int run_close(struct scene *scene)
{
	return close(scene->fd) ? -errno : 0;
}

static int run_munmap(struct scene *scene)
{
	int r = munmap(scene->map + HETSIM_PAGE, (PAGES - 2) * HETSIM_PAGE) ? -errno : 0;

	return r;
}

static int run_unplug(struct scene *scene)
{
	struct hetsim_inject arg = { .size = sizeof(arg), .kind = HETSIM_INJECT_UNPLUG };
	int r = call(scene->fd, HETSIM_INJECT, &arg);

	/* The answer could not be written, the call has had its effect. */
	scene->gone = !r || (r == -EFAULT && access(HETSIM_PATH, F_OK));
	return r;
}

static int run_plug(struct scene *scene)
{
	int fd = open("/sys/kernel/debug/hetsim/plug", O_WRONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = write(fd, "0", 1) == 1 ? 0 : -errno;
	close(fd);
	scene->gone = scene->gone && r;
	return r;
}

static void no_more(struct scene *scene)
{
	(void)scene;
}

static void mirror_it(struct scene *scene)
{
	struct hetsim_queue_create queue = { .size = sizeof(queue),
					     .type = HETSIM_QUEUE_COUNTER };

	CHECK_EQUAL(call(scene->fd, HETSIM_QUEUE_CREATE, &queue), 0);
	scene->counter = queue.queue;
	CHECK_EQUAL(run_mirror(scene), 0);
}

static void make_syncs(struct scene *scene)
{
	CHECK_EQUAL(run_fence_fd(scene), 0);
	scene->fence = scene->made;
	CHECK_EQUAL(run_timeline_create(scene), 0);
	scene->timeline = scene->made;
}

static void take_away(struct scene *scene)
{
	CHECK_EQUAL(run_unplug(scene), 0);
}

static const struct step {
	const char *name;
	int (*run)(struct scene *scene);
	void (*before)(struct scene *scene);
	unsigned int least; /* failures that there are to inject */
} steps[] = {
	{ "open", run_open, no_more, 3 },
	{ "handshake", run_handshake, no_more, 2 },
	{ "query", run_query, no_more, 2 },
	{ "counters", run_counters, no_more, 2 },
	{ "create", run_create, no_more, PAGES },
	{ "create combining", run_create_combining, no_more, 6 },
	{ "grow", run_grow, no_more, PAGES },
	{ "shrink", run_shrink, no_more, 1 },
	{ "info", run_info, no_more, 2 },
	{ "move", run_move, no_more, PAGES },
	{ "sample", run_sample, no_more, 4 },
	{ "export", run_export, no_more, 3 },
	{ "export again", run_export_again, no_more, 2 },
	{ "import", run_import, no_more, 2 },
	{ "bracket", run_bracket, no_more, 3 },
	{ "bind", run_bind, no_more, 4 },
	{ "unbind", run_unbind, no_more, 1 },
	{ "queue create", run_queue_create, no_more, 3 },
	{ "queue destroy", run_queue_destroy, no_more, 1 },
	{ "submit", run_submit, no_more, 4 },
	{ "wait", run_wait, no_more, 2 },
	{ "fence fd", run_fence_fd, no_more, 4 },
	{ "queue event", run_queue_event, no_more, 3 },
	{ "timeline create", run_timeline_create, no_more, 4 },
	{ "submit syncs", run_submit_syncs, make_syncs, 9 },
	{ "mirror", run_mirror, no_more, 2 },
	{ "advise", run_advise, mirror_it, 3 },
	{ "prefetch", run_prefetch, mirror_it, 3 },
	{ "range query", run_range_query, mirror_it, 2 },
	{ "mirror events", run_mirror_events, mirror_it, 3 },
	{ "evict", run_evict, no_more, 2 },
	{ "close handle", run_close_handle, no_more, 1 },
	{ "mmap", run_mmap, no_more, 2 },
	{ "mmap of dma-buf", run_mmap_dmabuf, no_more, 2 },
	{ "touch", run_touch, no_more, 1 },
	{ "split", run_split, no_more, 1 },
	{ "fork", run_fork, no_more, 10 },
	{ "read", run_read, no_more, 2 },
	{ "write", run_write, no_more, 2 },
	{ "munmap", run_munmap, no_more, 1 },
	{ "close", run_close, no_more, 0 },
	{ "unplug", run_unplug, no_more, 2 },
	{ "touch lost", run_touch, take_away, 1 },
	{ "plug", run_plug, take_away, 5 },
};

/* ---- the scene of each try ---- */

static int open_one(void)
{
	struct hetsim_handshake shake = { .size = sizeof(shake),
					  .flags = HETSIM_HANDSHAKE_ZERO_WHEN_LOST,
					  .version_major = HETSIM_VERSION_MAJOR };
	int fd = open(HETSIM_PATH, O_RDWR | O_CLOEXEC);

	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(call(fd, HETSIM_HANDSHAKE, &shake), 0);
	return fd;
}

static void set_up(struct scene *scene)
{
	struct hetsim_buffer_create create = { .size = sizeof(create),
					       .length = PAGES * HETSIM_PAGE,
					       .place = HETSIM_PLACE_SYSTEM };
	struct hetsim_bind bind = { .size = sizeof(bind),
				    .flags = HETSIM_BIND_WRITE,
				    .address = BOUND_AT,
				    .length = PAGES * HETSIM_PAGE };
	struct hetsim_queue_create queue = { .size = sizeof(queue) };
	struct hetsim_command nothing = { .op = HETSIM_OP_NOTHING };
	struct hetsim_submit submit = { .size = sizeof(submit),
					.commands = (uintptr_t)&nothing,
					.n_commands = 1,
					.command_size = sizeof(nothing) };

	memset(scene, 0, sizeof(*scene));
	scene->fd = open_one();
	scene->other = open_one();
	CHECK_EQUAL(call(scene->fd, HETSIM_BUFFER_CREATE, &create), 0);
	scene->handle = bind.handle = create.handle;
	scene->offset = create.offset;
	CHECK_EQUAL(call(scene->fd, HETSIM_BIND, &bind), 0);
	CHECK_EQUAL(call(scene->fd, HETSIM_QUEUE_CREATE, &queue), 0);
	scene->queue = submit.queue = queue.queue;
	CHECK_EQUAL(call(scene->fd, HETSIM_SUBMIT, &submit), 0);
	scene->seqno = submit.seqno;
	CHECK_EQUAL(run_wait(scene), 0);
	CHECK_EQUAL(run_export_again(scene), 0);
	scene->dmabuf = scene->made;
	scene->eventfd = eventfd(0, EFD_CLOEXEC);
	scene->map = map_buffer(scene);
	CHECK_FATAL(scene->map != MAP_FAILED);
	scene->more = MAP_FAILED;
}

static int replug(void)
{
	struct scene scene = { .fd = open_one() };
	int r = run_unplug(&scene);

	return r ? r : run_plug(&scene);
}

/* Also descriptors that were made and could not be told of: all but @nth_file. */
static void tidy(struct scene *scene, int nth_file)
{
	munmap(scene->map, PAGES * HETSIM_PAGE);
	if (scene->more != MAP_FAILED)
		munmap(scene->more, PAGES * HETSIM_PAGE);
	CHECK_EQUAL(close_range((unsigned int)nth_file + 1, ~0u, 0), 0);
	if (scene->gone)
		CHECK_EQUAL(run_plug(scene), 0);
	/* The device came back without memory for its place in debugfs: once more. */
	if (hetsim_objects() < 0) {
		CHECK_EQUAL(replug(), 0);
		close_range((unsigned int)nth_file + 1, ~0u, 0);
	}
	CHECK_EQUAL(hetsim_objects(), 0);
}

/* ---- failures ---- */

struct step_of_scene {
	const struct step *step;
	struct scene *scene;
};

static int run_step(void *user)
{
	const struct step_of_scene *both = user;

	return both->step->run(both->scene);
}

static void walk(const struct step *step, int nth_file)
{
	struct scene scene;
	struct step_of_scene both = { step, &scene };
	bool injected = true;
	unsigned int nth;

	for (nth = 1; injected && nth < FAIL_NTH_MOST; nth++) {
		set_up(&scene);
		step->before(&scene);
		injected = fail_nth_run(nth_file, step->name, nth, run_step, &both);
		tidy(&scene, nth_file);
	}
	fail_nth_enough(step->name, nth, step->least);
}

static void test_walk(void)
{
	int nth_file = fail_nth_open(), fd;
	size_t i;

	if (nth_file < 0)
		return;
	fd = hetsim_open(O_RDWR);
	if (fd < 0 || hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0)) {
		if (fd >= 0)
			test_skip("kernel", "hetsim was not loaded with test=1");
		close_range((unsigned int)nth_file, ~0u, 0);
		return;
	}
	close(fd);
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		walk(&steps[i], nth_file);
	close(nth_file);
}

static const struct test tests[] = {
	{ "walk", test_walk, 30, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "hetsim_failslab", tests);
}
