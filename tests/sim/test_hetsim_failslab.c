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
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/hetsim.h"
#include "sim/failslab_scene.h"

#define BIND_AT 0x5000000000ull

static int run_open(struct failslab_scene *scene)
{
	scene->made = open(HETSIM_PATH, O_RDWR | O_CLOEXEC);
	return scene->made < 0 ? -errno : 0;
}

static int run_handshake(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_HANDSHAKE,
			     SIZED(hetsim_handshake, .version_major = HETSIM_VERSION_MAJOR));
}

static int run_query(struct failslab_scene *scene)
{
	struct hetsim_query arg = { .size = sizeof(arg) };

	return failslab_call(scene->fd, HETSIM_QUERY, &arg);
}

static int run_counters(struct failslab_scene *scene)
{
	struct hetsim_counters arg = { .size = sizeof(arg) };

	return failslab_call(scene->fd, HETSIM_COUNTERS, &arg);
}

static int run_create(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_BUFFER_CREATE,
			     SIZED(hetsim_buffer_create, .length = FAILSLAB_PAGES * PAGE,
				   .place = HETSIM_PLACE_VRAM));
}

/* Where the kernel changes the cache mode of the pages. */
static int run_create_combining(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_BUFFER_CREATE,
			     SIZED(hetsim_buffer_create, .length = 4 * PAGE,
				   .place = HETSIM_PLACE_SYSTEM,
				   .cache = HETSIM_CACHE_COMBINE));
}

static int resize_to(struct failslab_scene *scene, uint64_t pages)
{
	return failslab_call(scene->fd, HETSIM_BUFFER_RESIZE,
			     SIZED(hetsim_buffer_resize, .handle = scene->handle,
				   .length = pages * PAGE));
}

static int run_grow(struct failslab_scene *scene)
{
	return resize_to(scene, FAILSLAB_PAGES * 2);
}

static int run_shrink(struct failslab_scene *scene)
{
	close(scene->dmabuf);
	return resize_to(scene, FAILSLAB_PAGES / 2);
}

static int run_info(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_BUFFER_INFO,
			     SIZED(hetsim_buffer_info, .handle = scene->handle));
}

static int run_move(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_BUFFER_MOVE,
			     SIZED(hetsim_buffer_move, .handle = scene->handle,
				   .place = HETSIM_PLACE_VRAM,
				   .length = FAILSLAB_PAGES * PAGE));
}

static int run_sample(struct failslab_scene *scene)
{
	static uint32_t counts[FAILSLAB_PAGES];
	struct hetsim_buffer_sample arg = { .size = sizeof(arg),
					    .handle = scene->handle,
					    .action = HETSIM_SAMPLE_START };
	int r = failslab_call(scene->fd, HETSIM_BUFFER_SAMPLE, &arg);

	if (r)
		return r;
	arg.action = HETSIM_SAMPLE_READ;
	arg.length = FAILSLAB_PAGES * PAGE;
	arg.counts = (uintptr_t)counts;
	return failslab_call(scene->fd, HETSIM_BUFFER_SAMPLE, &arg);
}

/* A dma-buf that may only be read is not there yet. */
static int run_export(struct failslab_scene *scene)
{
	return failslab_export(scene, 0);
}

/* The one that may be written is. */
static int run_export_again(struct failslab_scene *scene)
{
	return failslab_export(scene, HETSIM_EXPORT_WRITE);
}

static int run_import(struct failslab_scene *scene)
{
	return failslab_call(scene->other, HETSIM_IMPORT,
			     SIZED(hetsim_import, .fd = scene->dmabuf));
}

/* A begin without memory is none. */
static int run_bracket(struct failslab_scene *scene)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };
	int r = failslab_call(scene->dmabuf, DMA_BUF_IOCTL_SYNC, &sync);

	sync.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;
	if (r == -ENOMEM)
		CHECK_EQUAL(failslab_call(scene->dmabuf, DMA_BUF_IOCTL_SYNC, &sync), -EINVAL);
	return r ? r : failslab_call(scene->dmabuf, DMA_BUF_IOCTL_SYNC, &sync);
}

static int run_bind(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_BIND,
			     SIZED(hetsim_bind, .flags = HETSIM_BIND_WRITE,
				   .handle = scene->handle, .address = BIND_AT,
				   .length = FAILSLAB_PAGES * PAGE));
}

static int run_unbind(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_UNBIND,
			     SIZED(hetsim_unbind, .address = FAILSLAB_BOUND_AT,
				   .length = FAILSLAB_PAGES * PAGE));
}

static int run_evict(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_INJECT,
			     SIZED(hetsim_inject, .kind = HETSIM_INJECT_EVICTION,
				   .target = scene->handle, .value = FAILSLAB_PAGES * PAGE));
}

static int run_close_handle(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_BUFFER_CLOSE,
			     SIZED(hetsim_buffer_close, .handle = scene->handle));
}

static int run_mmap(struct failslab_scene *scene)
{
	scene->more = failslab_map(scene);
	return scene->more == MAP_FAILED ? -errno : 0;
}

static int run_mmap_dmabuf(struct failslab_scene *scene)
{
	scene->more =
		mmap(NULL, FAILSLAB_PAGES * PAGE, PROT_READ, MAP_SHARED, scene->dmabuf, 0);
	return scene->more == MAP_FAILED ? -errno : 0;
}

/* A fault without memory is taken again; at worst it is a signal. */
static int run_touch(struct failslab_scene *scene)
{
	int signal = test_write_signal(scene->map);

	return signal && signal != SIGBUS ? -EINVAL : 0;
}

/* A map in three parts, the middle one by itself. */
static int run_split(struct failslab_scene *scene)
{
	return mprotect(scene->map + 8 * PAGE, PAGE, PROT_READ) ? -errno : 0;
}

static int run_fork(struct failslab_scene *scene)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		_exit(0);
	return waitpid(pid, &status, 0) == pid && !scene->gone ? 0 : -errno;
}

static int run_read(struct failslab_scene *scene)
{
	static unsigned char bytes[2 * PAGE];

	return pread(scene->fd, bytes, sizeof(bytes), (off_t)scene->offset + 100) < 0 ? -errno :
											0;
}

static int run_write(struct failslab_scene *scene)
{
	static unsigned char bytes[2 * PAGE];

	return pwrite(scene->fd, bytes, sizeof(bytes), (off_t)scene->offset + 100) < 0 ?
		       -errno :
		       0;
}

static int run_close(struct failslab_scene *scene)
{
	return close(scene->fd) ? -errno : 0;
}

static int run_munmap(struct failslab_scene *scene)
{
	return munmap(scene->map + PAGE, (FAILSLAB_PAGES - 2) * PAGE) ? -errno : 0;
}

static void take_away(struct failslab_scene *scene)
{
	CHECK_EQUAL(failslab_unplug(scene), 0);
}

static const struct failslab_step steps[] = {
	{ "open", run_open, failslab_no_more, 3 },
	{ "handshake", run_handshake, failslab_no_more, 2 },
	{ "query", run_query, failslab_no_more, 2 },
	{ "counters", run_counters, failslab_no_more, 2 },
	{ "create", run_create, failslab_no_more, FAILSLAB_PAGES },
	{ "create combining", run_create_combining, failslab_no_more, 6 },
	{ "grow", run_grow, failslab_no_more, FAILSLAB_PAGES },
	{ "shrink", run_shrink, failslab_no_more, 1 },
	{ "info", run_info, failslab_no_more, 2 },
	{ "move", run_move, failslab_no_more, FAILSLAB_PAGES },
	{ "sample", run_sample, failslab_no_more, 4 },
	{ "export", run_export, failslab_no_more, 3 },
	{ "export again", run_export_again, failslab_no_more, 2 },
	{ "import", run_import, failslab_no_more, 2 },
	{ "bracket", run_bracket, failslab_no_more, 3 },
	{ "bind", run_bind, failslab_no_more, 4 },
	{ "unbind", run_unbind, failslab_no_more, 1 },
	{ "evict", run_evict, failslab_no_more, 2 },
	{ "close handle", run_close_handle, failslab_no_more, 1 },
	{ "mmap", run_mmap, failslab_no_more, 2 },
	{ "mmap of dma-buf", run_mmap_dmabuf, failslab_no_more, 2 },
	{ "touch", run_touch, failslab_no_more, 1 },
	{ "split", run_split, failslab_no_more, 1 },
	{ "fork", run_fork, failslab_no_more, 10 },
	{ "read", run_read, failslab_no_more, 2 },
	{ "write", run_write, failslab_no_more, 2 },
	{ "munmap", run_munmap, failslab_no_more, 1 },
	{ "close", run_close, failslab_no_more, 0 },
	{ "unplug", failslab_unplug, failslab_no_more, 2 },
	{ "touch lost", run_touch, take_away, 1 },
	{ "plug", failslab_plug, take_away, 5 },
};

static void test_walk(void)
{
	failslab_walk(steps, sizeof(steps) / sizeof(steps[0]));
}

static const struct test tests[] = {
	{ "walk", test_walk, 30, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_failslab", tests)
