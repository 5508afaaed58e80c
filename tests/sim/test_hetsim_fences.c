// SPDX-License-Identifier: MIT
/*
 * hetsim's fences where drivers look for them: in dma-bufs, and in syncobjs of the
 * machine's DRM nodes. Of 6.12's drivers virtio-gpu has some; vgem has none, nor has
 * either in 6.1, which is an answer, too.
 */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <hetmap/drm.h>
#include <linux/dma-buf.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <uapi/hetsim.h>
#include <unistd.h>

#include "backend/drm/syncobj.h"
#include "accel/engine_support.h"
#include "base/sys.h"

#define BYTES 65536ull
#define LATE 300000000ull

static bool has_syncobjs(int node)
{
	struct drm_get_cap cap = { .capability = DRM_CAP_SYNCOBJ };

	return !ioctl(node, DRM_IOCTL_GET_CAP, &cap) && cap.value;
}

static void refusals(int node, uint32_t handle)
{
	int fd = -7, event = eventfd(0, EFD_CLOEXEC),
	    null = open("/dev/null", O_RDWR | O_CLOEXEC);

	CHECK_ERROR(-ENOENT, drm_syncobj_to_sync_file(node, handle + 77, &fd));
	CHECK_ERROR(-EINVAL, drm_syncobj_to_sync_file(node, handle, &fd)); /* empty */
	CHECK_ERROR(-EINVAL, drm_syncobj_from_sync_file(node, handle, event));
	CHECK_ERROR(-ENOTTY, drm_syncobj_to_sync_file(null, handle, &fd));
	CHECK_ERROR(-EBADF, drm_syncobj_to_sync_file(-1, handle, &fd));
	CHECK_EQUAL(fd, -7);
	close(event);
	close(null);
}

/* An engine's fence goes into a syncobj and comes out of it as it was. */
static void there_and_back(int node, uint32_t handle)
{
	AUTO(hm_fence) *fence = NULL, *back = NULL;
	int fd;
	AUTO(engine_rig) rig = engine_make(0);
	uint32_t *x = engine_alloc(rig.device, BYTES);

	x[0] = 0;
	engine_inject(&rig, HETSIM_INJECT_LATENCY, LATE);
	CHECK_OK_FATAL(hm_queue_fill(rig.queue, x, 5, BYTES, &fence));
	CHECK_OK_FATAL(hm_fence_fd(fence, &fd));
	CHECK_OK(drm_syncobj_from_sync_file(node, handle, fd));
	close(fd);
	CHECK_OK_FATAL(drm_syncobj_to_sync_file(node, handle, &fd));
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK_OK_FATAL(hm_fence_import_fd(fd, &back));
	close(fd);
	CHECK_ERROR(-ETIME, hm_fence_wait(back, 0));
	CHECK_OK(hm_fence_wait(back, UINT64_MAX));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK_EQUAL(x[BYTES / 4 - 1], 5);
	CHECK_OK(hm_free(x));
}

/* The same by hm_fence: into the syncobj, or a point of its timeline, and out again. */
static void as_fences(int node, uint32_t handle, uint64_t point)
{
	struct hm_fence *back = NULL;
	AUTO(hm_fence) *fence = NULL, *done = NULL;
	AUTO(engine_rig) rig = engine_make(0);
	uint32_t *x = engine_alloc(rig.device, BYTES);

	CHECK_OK_FATAL(hm_queue_fill(rig.queue, x, 4, BYTES, &done));
	CHECK_OK(hm_fence_wait(done, UINT64_MAX));
	engine_inject(&rig, HETSIM_INJECT_LATENCY, LATE);
	CHECK_OK_FATAL(hm_queue_fill(rig.queue, x, 6, BYTES, &fence));
	CHECK_OK_FATAL(hm_fence_export_syncobj(fence, node, handle, point));
	CHECK_OK_FATAL(hm_fence_import_syncobj(node, handle, point, &back));
	CHECK_ERROR(-ETIME, hm_fence_wait(back, 0));
	CHECK_OK(hm_fence_wait(back, UINT64_MAX));
	CHECK_EQUAL(x[BYTES / 4 - 1], 6);
	/* A fence that has signalled, too; and the imported one does not change. */
	CHECK_OK(hm_fence_export_syncobj(done, node, handle, point ? point + 1 : 0));
	CHECK_OK(hm_fence_wait(back, 0));
	hm_fence_unref(back);
	CHECK_OK_FATAL(hm_fence_export_syncobj(fence, node, handle, point ? point + 2 : 0));
	CHECK_OK(hm_free(x));
}

static bool has_timelines(int node)
{
	struct drm_get_cap cap = { .capability = DRM_CAP_SYNCOBJ_TIMELINE };

	return !ioctl(node, DRM_IOCTL_GET_CAP, &cap) && cap.value;
}

static void refused_fences(int node, uint32_t handle)
{
	struct hm_fence *none = (void *)0x10;
	int event = eventfd(0, EFD_CLOEXEC);
	AUTO(hm_fence) *fence = rig_fence(event);

	CHECK_ERROR(-EOPNOTSUPP, hm_fence_export_syncobj(fence, node, handle, 0));
	CHECK(text_has("wait for it first"));
	CHECK_ERROR(-EINVAL, hm_fence_export_syncobj(NULL, node, handle, 0));
	CHECK_ERROR(-ENOENT, hm_fence_import_syncobj(node, handle + 77, 0, &none));
	CHECK(text_has("no such handle"));
	CHECK_ERROR(-EINVAL, hm_fence_import_syncobj(node, handle, 0, &none)); /* empty */
	CHECK(text_has("holds no fence yet"));
	CHECK_ERROR(-EINVAL, hm_fence_import_syncobj(node, handle, 0, NULL));
	CHECK_ERROR(-ENOTTY, hm_fence_import_syncobj(event, handle, 0, &none));
	CHECK(text_has("no DRM node"));
	CHECK_ERROR(-EBADF, hm_fence_import_syncobj(-1, handle, 9, &none));
	CHECK(none == (void *)0x10);
	close(event);
}

static void try_node(int node)
{
	struct drm_syncobj_create create = { .handle = 0 };
	struct drm_syncobj_destroy destroy = { .handle = 0 };
	int fd = -7;

	if (!has_syncobjs(node)) {
		CHECK_ERROR(-EOPNOTSUPP, drm_syncobj_to_sync_file(node, 1, &fd));
		CHECK(text_has("dma-buf's fences"));
		CHECK_ERROR(-EOPNOTSUPP, drm_syncobj_from_sync_file(node, 1, 0));
		CHECK_EQUAL(fd, -7);
		return;
	}
	CHECK_FATAL(!ioctl(node, DRM_IOCTL_SYNCOBJ_CREATE, &create));
	refusals(node, create.handle);
	refused_fences(node, create.handle);
	there_and_back(node, create.handle);
	as_fences(node, create.handle, 0);
	destroy.handle = create.handle;
	CHECK(!ioctl(node, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy));
	if (!has_timelines(node))
		return;
	CHECK_FATAL(!ioctl(node, DRM_IOCTL_SYNCOBJ_CREATE, &create));
	as_fences(node, create.handle, 7);
	destroy.handle = create.handle;
	CHECK(!ioctl(node, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy));
}

static void syncobj(void)
{
	char path[] = "/dev/dri/renderD128";
	int node, n = 0;

	for (; path[18] <= '9'; path[18]++) {
		node = open(path, O_RDWR | O_CLOEXEC);
		if (node < 0)
			continue;
		n++;
		try_node(node);
		close(node);
	}
	CHECK(n > 0);
}

/* ---- dma-bufs ---- */

/* Work of an engine that takes a while, which a dma-buf carries as a reader of its bytes. */
struct carried {
	struct engine_rig rig;
	struct hm_buffer *buffer;
	struct hm_fence *fence;
	uint32_t *x; /* the work fills it with 3 */
	int dmabuf;
};

static struct carried carried_begin(void)
{
	struct carried carried = { 0 };

	engine_open(&carried.rig, 0);
	carried.buffer = rig_buffer(carried.rig.device, DESC(hm_buffer_desc, .size = BYTES));
	CHECK_OK_FATAL(hm_buffer_export(carried.buffer, HM_EXPORT_DMABUF, &carried.dmabuf));
	carried.x = engine_alloc(carried.rig.device, BYTES);
	engine_inject(&carried.rig, HETSIM_INJECT_LATENCY, LATE);
	CHECK_OK_FATAL(hm_queue_fill(carried.rig.queue, carried.x, 3, BYTES, &carried.fence));
	CHECK_OK(hm_fence_export_dmabuf(carried.fence, carried.dmabuf, HM_READ));
	return carried;
}

static void carried_end(struct carried *carried)
{
	CHECK_EQUAL(carried->x[BYTES / 4 - 1], 3);
	hm_fence_unref(carried->fence);
	close(carried->dmabuf);
	CHECK_OK(hm_free(carried->x));
	hm_buffer_unref(carried->buffer);
	engine_close(&carried->rig);
}

AUTO_END(carried, carried_end)

/* An engine's fence in a dma-buf holds up accesses that conflict with its work. */
static void dmabuf_fences(void)
{
	struct hm_fence *back = NULL, *reading;
	AUTO(carried) carried = carried_begin();

	/* Work that reads the bytes holds up writers only. */
	CHECK_OK_FATAL(hm_fence_import_dmabuf(carried.dmabuf, HM_READ, &reading));
	CHECK_OK(hm_fence_wait(reading, 0));
	CHECK_OK_FATAL(hm_fence_import_dmabuf(carried.dmabuf, HM_READ | HM_WRITE, &back));
	CHECK_ERROR(-ETIME, hm_fence_wait(back, 0));
	hm_fence_unref(back);
	CHECK_OK(hm_fence_export_dmabuf(carried.fence, carried.dmabuf, HM_WRITE));
	CHECK_OK_FATAL(hm_fence_import_dmabuf(carried.dmabuf, HM_READ, &back));
	CHECK_OK(hm_fence_wait(back, UINT64_MAX));
	CHECK_OK(hm_fence_wait(carried.fence, 0));
	/* Work that is done is not waited for. */
	CHECK_OK(hm_fence_export_dmabuf(carried.fence, carried.dmabuf, HM_WRITE));
	hm_fence_unref(back);
	hm_fence_unref(reading);
}

static int no_export(int fd, unsigned long cmd, void *argument)
{
	if (cmd != DMA_BUF_IOCTL_EXPORT_SYNC_FILE)
		return ioctl(fd, cmd, argument);
	errno = ENOTTY;
	return -1;
}

/* As above where the kernel gives no sync_file: then the dma-buf is polled. */
static void dmabuf_polled(void)
{
	AUTO(hm_fence) *reading = NULL, *writing = NULL;
	AUTO(carried) carried = carried_begin();

	sys_table.ioctl = no_export;
	CHECK_OK_FATAL(hm_fence_import_dmabuf(carried.dmabuf, HM_READ, &reading));
	CHECK(*hm_warning());
	CHECK_OK(hm_fence_wait(reading, 0));
	CHECK_OK_FATAL(hm_fence_import_dmabuf(carried.dmabuf, HM_READ | HM_WRITE, &writing));
	CHECK_ERROR(-ETIME, hm_fence_wait(writing, 0));
	CHECK_OK(hm_fence_wait(writing, UINT64_MAX));
	CHECK_OK(hm_fence_wait(carried.fence, 0));
}

static const struct test cases[] = {
	{ "syncobj", syncobj, 0, 0 },
	{ "dmabuf", dmabuf_fences, 0, 0 },
	/* A refused request is not made again. */
	{ "dmabuf_polled", dmabuf_polled, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(engine_main, "hetsim_fences", cases)
