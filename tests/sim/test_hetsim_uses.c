// SPDX-License-Identifier: MIT
/*
 * hetsim: submissions that name buffers; and, of the module only, their fences in dma-bufs, where
 * other drivers and processes see them, and leave theirs.
 */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/hetsim.h"
#include "lib/rig.h"
#include "sim/sim_tests.h"
#include "sim/sync_support.h"
#include "sim/vgem_support.h"

#define FENCES HETSIM_QUEUE_DMA_FENCE

/* POLLIN: what a reader would wait for is over; POLLOUT: a writer. */
static bool is_ready(int fd, short events, int ms)
{
	struct pollfd file = { .fd = fd, .events = events };

	return poll(&file, 1, ms) == 1 && file.revents & events;
}

/* The dma-buf's fences that such a use would wait for, in one sync_file. */
static int export_fences(int dmabuf, uint32_t flags)
{
	struct dma_buf_export_sync_file fences = { .flags = flags };

	CHECK_FATAL(ioctl(dmabuf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &fences) == 0);
	return fences.fd;
}

static void import_fence(int dmabuf, uint32_t flags, int fence)
{
	struct dma_buf_import_sync_file import = { .flags = flags, .fd = fence };

	CHECK_EQUAL(ioctl(dmabuf, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import), 0);
}

/* Whose fences these are: the driver of the first. */
static void check_driver(int fence, const char *driver)
{
	struct sync_fence_info one = { 0 };
	struct sync_file_info info = { .num_fences = 1, .sync_fence_info = (uintptr_t)&one };

	CHECK_EQUAL(ioctl(fence, SYNC_IOC_FILE_INFO, &info), 0);
	CHECK_EQUAL(info.num_fences, 1);
	CHECK(strcmp(one.driver_name, driver) == 0);
}

/* A file with a buffer and its dma-buf, and a queue for work that may have to wait. */
struct scene {
	int fd, dmabuf;
	struct hetsim_buffer buffer;
	uint32_t queue;
};

static struct scene scene_make(void)
{
	struct scene scene = { 0 };

	scene.fd = hetsim_begin(O_RDWR);
	scene.buffer = hetsim_buffer_make(scene.fd, MIB(1), HETSIM_PLACE_VRAM);
	scene.dmabuf = hetsim_export(scene.fd, scene.buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(scene.dmabuf >= 0);
	scene.queue = hetsim_queue_make(scene.fd, FENCES, 60000);
	return scene;
}

static void scene_end(struct scene *scene)
{
	close(scene->dmabuf);
	hetsim_buffer_drop(scene->fd, &scene->buffer);
	hetsim_close(scene->fd);
}

AUTO_END(scene, scene_end)

/* ---- fences that submissions leave ---- */

static void test_left(void)
{
	uint32_t stuck;
	int fence;
	AUTO(scene) scene = scene_make();

	CHECK(is_ready(scene.dmabuf, POLLIN, 0) && is_ready(scene.dmabuf, POLLOUT, 0));
	/* A writer. */
	stuck = sync_make_stuck(scene.fd, FENCES);
	sync_use(scene.fd, stuck, scene.buffer.handle, HETSIM_USE_WRITE);
	CHECK(!is_ready(scene.dmabuf, POLLIN, 50) && !is_ready(scene.dmabuf, POLLOUT, 0));
	fence = export_fences(scene.dmabuf, DMA_BUF_SYNC_READ);
	CHECK(!is_ready(fence, POLLIN, 0));
	check_driver(fence, "hetsim");
	sync_destroy_queue(scene.fd, stuck);
	CHECK(is_ready(scene.dmabuf, POLLIN, 10000) && is_ready(scene.dmabuf, POLLOUT, 10000));
	hetsim_fence_check(fence, -ECANCELED);
	close(fence);

	/* A reader, for whom only writers wait. */
	stuck = sync_make_stuck(scene.fd, FENCES);
	sync_use(scene.fd, stuck, scene.buffer.handle, 0);
	CHECK(is_ready(scene.dmabuf, POLLIN, 0) && !is_ready(scene.dmabuf, POLLOUT, 50));
	fence = export_fences(scene.dmabuf, DMA_BUF_SYNC_READ);
	CHECK(is_ready(fence, POLLIN, 0));
	close(fence);
	fence = export_fences(scene.dmabuf, DMA_BUF_SYNC_WRITE);
	CHECK(!is_ready(fence, POLLIN, 0));
	sync_destroy_queue(scene.fd, stuck);
	CHECK(is_ready(fence, POLLIN, 10000));
	close(fence);

	/* And none. */
	stuck = sync_make_stuck(scene.fd, FENCES);
	sync_use(scene.fd, stuck, scene.buffer.handle, HETSIM_USE_WRITE | HETSIM_USE_WAIT_ONLY);
	CHECK(is_ready(scene.dmabuf, POLLOUT, 50));
	sync_destroy_queue(scene.fd, stuck);
}

/* A CPU access waits for the work, too. */
static void test_bracket(void)
{
	struct dma_buf_sync begin = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ };
	struct dma_buf_sync end = { .flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ };
	uint64_t seqno, address;
	int status = 77;
	AUTO(scene) scene = scene_make();
	uint32_t late = sync_make_late(scene.fd, FENCES);

	seqno = sync_use(scene.fd, late, scene.buffer.handle, HETSIM_USE_WRITE);
	CHECK_EQUAL(ioctl(scene.dmabuf, DMA_BUF_IOCTL_SYNC, &begin), 0);
	CHECK_EQUAL(hetsim_wait(scene.fd, late, seqno, 0, &status, &address), 0);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(ioctl(scene.dmabuf, DMA_BUF_IOCTL_SYNC, &end), 0);
}

/* ---- fences that others leave ---- */

/* What a process puts there is waited for. */
static void test_put(void)
{
	struct hetsim_fence_fd ask = { .size = sizeof(ask) };
	int worker = hetsim_begin(O_RDWR);
	AUTO(scene) scene = scene_make();
	uint64_t seqno = 0, reader, writer;
	uint32_t other;

	ask.queue = sync_make_stuck(worker, FENCES);
	CHECK_EQUAL(hetsim_submit(worker, ask.queue, &sync_nothing, 1, &seqno), 0);
	ask.seqno = seqno;
	CHECK_FATAL(hetsim_call(worker, HETSIM_FENCE_FD, &ask) == 0);
	import_fence(scene.dmabuf, DMA_BUF_SYNC_READ, ask.fd);
	close(ask.fd);
	reader = sync_use(scene.fd, scene.queue, scene.buffer.handle, 0);
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, reader), 0);
	writer = sync_use(scene.fd, scene.queue, scene.buffer.handle, HETSIM_USE_WRITE);
	CHECK(sync_is_waiting(scene.fd, scene.queue, writer));
	/* Work that does not name the buffer is none of its users. */
	other = hetsim_queue_make(scene.fd, FENCES, 0);
	CHECK_EQUAL(hetsim_run(scene.fd, other, &sync_nothing), 0);
	hetsim_close(worker);
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, writer), 0);
}

/* Another driver's memory: its fences are waited for, and work of this device is seen there. */
static void test_foreign(void)
{
	int fd = hetsim_begin(O_RDWR);
	int vgem = vgem_open(), dmabuf;
	struct hetsim_import import;
	uint32_t fence, queue, stuck;
	uint64_t seqno;

	if (vgem < 0) {
		test_skip("kernel", "vgem is not loaded");
		close(fd);
		return;
	}
	dmabuf = vgem_make(vgem, MIB(1), DRM_RDWR);
	CHECK_EQUAL(hetsim_import(fd, dmabuf, &import), 0);
	queue = hetsim_queue_make(fd, FENCES, 60000);
	fence = vgem_fence_attach(vgem, dmabuf);
	CHECK_FATAL(fence != 0);
	seqno = sync_use(fd, queue, import.handle, 0);
	CHECK(sync_is_waiting(fd, queue, seqno));
	vgem_fence_signal(vgem, fence);
	CHECK_EQUAL(sync_status(fd, queue, seqno), 0);

	stuck = sync_make_stuck(fd, FENCES);
	sync_use(fd, stuck, import.handle, HETSIM_USE_WRITE);
	CHECK(!is_ready(dmabuf, POLLIN, 0));
	CHECK_EQUAL(vgem_fence_attach(vgem, dmabuf), 0); /* vgem refuses where one is */
	sync_destroy_queue(fd, stuck);
	CHECK(is_ready(dmabuf, POLLIN, 10000));
	CHECK_EQUAL(hetsim_close_handle(fd, import.handle), 0);
	close(dmabuf);
	close(vgem);
	hetsim_close(fd);
}

/* Two dma-bufs of one buffer, taken in by another device: two handles, and one set of fences. */
static void test_one_of_two(void)
{
	int second = open(HETSIM_SECOND, O_RDONLY | O_CLOEXEC), reading;
	struct hetsim_import one, two;
	struct hetsim_use uses[2];
	uint64_t seqno = 0;
	uint32_t queue;
	AUTO(scene) scene = scene_make();

	if (second < 0) /* there is one device only */
		return;
	reading = hetsim_export(scene.fd, scene.buffer.handle, 0);
	CHECK_FATAL(reading >= 0);
	CHECK_EQUAL(hetsim_call(second, HETSIM_HANDSHAKE,
				SIZED(hetsim_handshake, .version_major = HETSIM_VERSION_MAJOR)),
		    0);
	CHECK_EQUAL(hetsim_import(second, scene.dmabuf, &one), 0);
	CHECK_EQUAL(hetsim_import(second, reading, &two), 0);
	CHECK(one.handle != two.handle);
	uses[0] = (struct hetsim_use){ .handle = one.handle };
	uses[1] = (struct hetsim_use){ .handle = two.handle };
	queue = sync_make_stuck(second, FENCES);
	CHECK_EQUAL(sync_submit_uses(second, queue, &sync_nothing, uses, 2, &seqno), 0);
	seqno = sync_use(scene.fd, scene.queue, scene.buffer.handle, HETSIM_USE_WRITE);
	CHECK(sync_is_waiting(scene.fd, scene.queue, seqno));
	close(second);
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, seqno), 0);
	close(reading);
}

/* Told as a feature: the twin has no such fences. */
static void test_told(void)
{
	struct hetsim_handshake shake = { .size = sizeof(shake),
					  .version_major = HETSIM_VERSION_MAJOR,
					  .features = HETSIM_FEATURE_USES |
						      HETSIM_FEATURE_DMABUF_FENCES };
	int fd = hetsim_open_bare(O_RDWR);

	if (fd < 0)
		return;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_HANDSHAKE, &shake), 0);
	CHECK_EQUAL(shake.accepted, 1);
	hetsim_close(fd);
}

static const struct test own[] = {
	{ "left", test_left, 0, 0 },
	{ "bracket", test_bracket, 0, 0 },
	{ "put", test_put, 0, 0 },
	{ "foreign", test_foreign, 0, 0 },
	{ "one_of_two", test_one_of_two, 0, 0 },
	{ "told", test_told, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_uses", sim_uses_tests, own)
