// SPDX-License-Identifier: MIT
/* Fences of engines that leave the library as descriptors and come back. */
#include <errno.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <uapi/hetsim.h>
#include <unistd.h>

#include "accel/engine_support.h"

#define MS 1000000ull
#define LATE (300 * MS)
#define BYTES 65536ull

/* The module's fences are the kernel's, the twin's are eventfds. */
static bool has_sync_files(void)
{
	return !strncmp(engine_subject->name, "sim", 3);
}

static unsigned int fences_in(int fd)
{
	struct sync_file_info info = { 0 };

	return ioctl(fd, SYNC_IOC_FILE_INFO, &info) ? 0 : info.num_fences;
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd file = { fd, POLLIN, 0 };

	return poll(&file, 1, timeout_ms) == 1;
}

struct bench {
	struct engine_rig rig;
	struct hm_queue *other;
	uint32_t *x, *y;
};

static struct bench begin_with(uint32_t flags)
{
	struct bench b = { 0 };
	struct hm_fence *fence;

	engine_open(&b.rig, flags);
	CHECK_OK_FATAL(hm_queue_create(b.rig.accel, 0, &b.other));
	b.x = engine_alloc(b.rig.device, BYTES);
	b.y = engine_alloc(b.rig.device, BYTES);
	memset(b.x, 0, BYTES);
	memset(b.y, 0, BYTES);
	/* Bound before: the test then waits for the work only. */
	CHECK_OK_FATAL(hm_queue_fill(b.rig.queue, b.x, 1, BYTES, &fence));
	finish(fence);
	engine_inject(&b.rig, HETSIM_INJECT_LATENCY, LATE);
	return b;
}

static struct bench begin(void)
{
	return begin_with(0);
}

static void end(struct bench *b)
{
	hm_queue_unref(b->other);
	CHECK_OK(hm_free(b->x));
	CHECK_OK(hm_free(b->y));
	engine_close(&b->rig);
}

AUTO_END(bench, end)

/* Like a fence of another library: only its descriptor is left. */
static struct hm_fence *late_fill(struct bench *b, uint32_t word)
{
	struct hm_fence *fence, *imported;
	int fd;

	CHECK_OK_FATAL(hm_queue_fill(b->rig.queue, b->x, word, BYTES, &fence));
	CHECK_OK_FATAL(hm_fence_fd(fence, &fd));
	CHECK_EQUAL(fences_in(fd), has_sync_files());
	hm_fence_unref(fence);
	CHECK_OK_FATAL(hm_fence_import_fd(fd, &imported));
	close(fd);
	return imported;
}

static void imported(void)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	int fd;
	AUTO(bench) b = begin();
	AUTO(hm_fence) *fence = late_fill(&b, 5);

	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 0));
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 10 * MS));
	CHECK_OK_FATAL(hm_fence_fd(fence, &fd));
	CHECK(!is_readable(fd, 0));
	CHECK_EQUAL(fences_in(fd), has_sync_files());
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK(is_readable(fd, 0));
	CHECK_OK(hm_fence_query(fence, &info));
	CHECK(info.done && !info.status);
	close(fd);
}

/* The fence gives the error of its work; an eventfd gives only the end. */
static void failed(void)
{
	AUTO(bench) b = begin();
	AUTO(hm_fence) *fence = late_fill(&b, 5);

	usleep(50000); /* until it runs */
	engine_inject(&b.rig, HETSIM_INJECT_RESET, 0);
	if (has_sync_files())
		CHECK_ERROR(-ECANCELED, hm_fence_wait(fence, UINT64_MAX));
	else
		CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
}

/* The thread behind it has let go of its end: nothing of it is left. */
static void wait_for_end(int fd)
{
	struct pollfd file = { .fd = fd };
	int tries;

	for (tries = 0; tries < 1000 && !(file.revents & POLLHUP); tries++)
		if (poll(&file, 1, 0) == 0)
			usleep(10000);
	CHECK(file.revents & POLLHUP);
}

/* Two queues' fences as one descriptor, which the kernel makes of sync_files. */
static void merged(void)
{
	struct hm_fence *parts[3], *all;
	int fd = -7;
	AUTO(bench) b = begin();

	CHECK_OK_FATAL(hm_queue_fill(b.other, b.y, 6, BYTES, &parts[1]));
	CHECK_OK(hm_fence_wait(parts[1], UINT64_MAX)); /* has nothing to add */
	parts[0] = late_fill(&b, 5);
	CHECK_OK_FATAL(hm_queue_fill(b.rig.queue, b.x, 7, BYTES, &parts[2]));
	CHECK_OK_FATAL(hm_fence_merge(parts, 3, &all));
	CHECK_ERROR(-ETIME, hm_fence_wait(all, 0));
	CHECK_OK_FATAL(hm_fence_fd(all, &fd));
	CHECK(!is_readable(fd, 0));
	if (has_sync_files()) {
		/* The kernel keeps the later fence of one queue. */
		CHECK(fences_in(fd) >= 1);
		CHECK_OK(hm_fence_wait(parts[0], UINT64_MAX));
		CHECK(!is_readable(fd, 0));
	}
	CHECK(is_readable(fd, 10000));
	if (!has_sync_files())
		wait_for_end(fd);
	close(fd);
	CHECK_OK(hm_fence_wait(all, UINT64_MAX));
	CHECK_EQUAL(b.x[0], 7);
	hm_fence_unref(parts[0]);
	hm_fence_unref(parts[1]);
	hm_fence_unref(parts[2]);
	hm_fence_unref(all);
}

/* A copy on one queue of the bytes that a late fill on another writes. */
static void ordered(void)
{
	struct hm_fence *fence, *copied;
	AUTO(bench) b = begin();

	fence = late_fill(&b, 9);
	CHECK_OK(hm_queue_wait(b.other, fence));
	hm_fence_unref(fence);
	CHECK_OK_FATAL(hm_queue_copy(b.other, b.y, b.x, BYTES, &copied));
	finish(copied);
	CHECK_EQUAL(b.y[0], 9);
	CHECK_EQUAL(b.y[BYTES / 4 - 1], 9);
}

/* ---- the fences of dma-bufs ---- */

/* An accelerator that has none says so, and what to do instead. */
static void refuse_implicit(const char *name)
{
	const struct hm_accel_desc desc = { sizeof(desc), HM_ACCEL_IMPLICIT, 0 };
	struct hm_accel *accel = NULL;

	CHECK_ERROR(-EOPNOTSUPP, hm_accel_open(name, &desc, &accel));
	CHECK(text_has("HM_ACCEL_IMPLICIT") && text_has("hm_fence_import_dmabuf()"));
	CHECK(!accel);
}

/* A map of a buffer that other drivers may have, by its dma-buf. */
static uint32_t *alloc_shared(struct engine_rig *rig, struct hm_map **ret_map, int *ret_fd)
{
	AUTO(hm_buffer) *buffer = rig_buffer(rig->device, DESC(hm_buffer_desc, .size = BYTES));

	CHECK_OK_FATAL(hm_map_create(buffer, NULL, ret_map));
	CHECK_OK_FATAL(hm_buffer_export(buffer, HM_EXPORT_DMABUF, ret_fd));
	return hm_map_address(*ret_map);
}

/* Work leaves its fence, waits for those of others, and is refused where it has none. */
static void implicit(void)
{
	struct hm_fence *fence, *late, *seen;
	AUTO(hm_map) *map = NULL;
	AUTO(bench) b = { 0 };
	uint32_t *shared;
	int fd;

	refuse_implicit("cpu");
	if (!has_sync_files()) {
		refuse_implicit(engine_subject->name);
		return;
	}
	b = begin_with(HM_ACCEL_IMPLICIT);
	shared = alloc_shared(&b.rig, &map, &fd);
	CHECK_OK_FATAL(hm_queue_fill(b.rig.queue, shared, 5, BYTES, &fence));
	CHECK(!is_readable(fd, 0));
	CHECK_OK_FATAL(hm_fence_import_dmabuf(fd, HM_READ, &seen));
	CHECK_ERROR(-ETIME, hm_fence_wait(seen, 0));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK(is_readable(fd, 1000));
	CHECK_OK(hm_fence_wait(seen, UINT64_MAX));
	hm_fence_unref(seen);
	hm_fence_unref(fence);

	/* Late work on memory that the other queue does not use, as if on this one. */
	CHECK_OK_FATAL(hm_queue_fill(b.rig.queue, b.x, 6, BYTES, &late));
	CHECK_OK_FATAL(hm_fence_export_dmabuf(late, fd, HM_WRITE));
	CHECK_OK_FATAL(hm_queue_fill(b.other, shared, 7, BYTES, &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK_OK(hm_fence_wait(late, 0));
	CHECK_EQUAL(shared[0], 7);
	hm_fence_unref(late);
	hm_fence_unref(fence);
	close(fd);
}

static const struct test cases[] = {
	{ "imported", imported, 0, 0 }, { "failed", failed, 0, 0 },
	{ "merged", merged, 0, 0 },     { "ordered", ordered, 0, 0 },
	{ "implicit", implicit, 0, 0 }, { NULL, NULL, 0, 0 },
};

TEST_MAIN(engine_main, "engine_fences", cases)
