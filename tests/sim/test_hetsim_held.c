// SPDX-License-Identifier: MIT
/*
 * hetsim: references on the module. Each object that may be left over alone keeps it, also where
 * another driver has it, and gives its own reference back when it goes.
 */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/dma-buf.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/drm/syncobj.h"
#include "lib/hetsim.h"
#include "sim/vgem_support.h"

/* References on the module: of open files, dma-bufs and fences. */
static long references(void)
{
	FILE *file = fopen("/sys/module/hetsim/refcnt", "re");
	long n = -1;

	if (!file || fscanf(file, "%ld", &n) != 1) /* NOLINT: a number of the kernel's */
		test_fail(__FILE__, __LINE__, "the module's refcnt can't be read");
	if (file)
		fclose(file);
	return n;
}

/* A fence is freed a while after the last one has let go of it (RCU). */
static void check_references(long n)
{
	int tries;

	for (tries = 0; tries < 200 && references() != n; tries++)
		usleep(50000);
	CHECK_EQUAL(references(), n);
}

/* References before the one open file: fences of earlier tests may still be going. */
static long references_at_rest(void)
{
	long n = references(), before;
	int tries = 0;

	do {
		before = n;
		usleep(250000);
		n = references();
	} while (n != before && ++tries < 40);
	return n - 1;
}

/* True when the module can't be unloaded, because something holds it. */
static bool module_held(void)
{
	return syscall(SYS_delete_module, "hetsim", O_NONBLOCK) == -1 && errno == EWOULDBLOCK;
}

/* There is one reference besides @rest, and the module stays. */
static void check_held_once(long rest)
{
	check_references(rest + 1);
	CHECK_FATAL(module_held());
}

/* An open file; -1: the test was skipped. */
static int open_as_root(void)
{
	int fd = hetsim_open(O_RDWR);

	if (fd >= 0 && geteuid()) {
		test_skip("kernel", "only root unloads modules");
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Each object that may be left over alone keeps the module. */
static void test_leftovers(void)
{
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct hetsim_command nothing = { 0 };
	struct hetsim_buffer buffer;
	uint64_t seqno = 0;
	int fd = open_as_root(), dmabuf;
	long rest;

	if (fd < 0)
		return;
	rest = references_at_rest();
	CHECK_FATAL(module_held());
	fence.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	CHECK_EQUAL(hetsim_submit(fd, fence.queue, &nothing, 1, &seqno), 0);
	fence.seqno = seqno;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence), 0);
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
	close(fd);
	CHECK_FATAL(module_held()); /* fence, map, dma-buf */
	munmap(buffer.bytes, buffer.length);
	CHECK_FATAL(module_held()); /* fence, dma-buf */
	close(dmabuf);
	usleep(100000);
	CHECK_FATAL(module_held()); /* fence */
	fd = hetsim_open(O_RDWR);   /* the file keeps the module */
	close(fence.fd);
	close(fd);
	check_references(rest);
}

/* ---- fences of work that is not done ---- */

/* The sync_file of work that hangs, on a fresh queue of the open file. */
static int fence_stuck(int fd)
{
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct hetsim_command nothing = { 0 };
	uint64_t seqno = 0;

	fence.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, HETSIM_MAX_TIMEOUT_MS);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, fence.queue, 1), 0);
	CHECK_EQUAL(hetsim_submit(fd, fence.queue, &nothing, 1, &seqno), 0);
	fence.seqno = seqno;
	CHECK_FATAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence) == 0);
	CHECK_EQUAL(poll(&(struct pollfd){ .fd = fence.fd, .events = POLLIN }, 1, 0), 0);
	return fence.fd;
}

/* While it has not signalled it has a reference of its own, and after its file is closed. */
static void test_unsignalled(void)
{
	int fd = open_as_root(), fence;
	long rest;

	if (fd < 0)
		return;
	rest = references_at_rest();
	fence = fence_stuck(fd);
	CHECK_EQUAL(references(), rest + 2);
	close(fd);
	hetsim_fence_check(fence, -ECANCELED);
	check_held_once(rest);
	close(fence);
	check_references(rest);
}

/* In a dma-buf of another device, which has nothing else of this one. */
static void test_in_dmabuf(void)
{
	struct dma_buf_import_sync_file import = { .flags = DMA_BUF_SYNC_WRITE };
	int fd = open_as_root(), vgem, dmabuf;
	long rest;

	if (fd < 0)
		return;
	vgem = vgem_open();
	if (vgem < 0) {
		close(fd);
		test_skip("kernel", "no vgem");
		return;
	}
	rest = references_at_rest();
	dmabuf = vgem_make(vgem, MIB(1), DRM_RDWR);
	import.fd = fence_stuck(fd);
	CHECK_EQUAL(ioctl(dmabuf, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import), 0);
	close(import.fd);
	CHECK_EQUAL(references(), rest + 2);
	/* A wait for the dma-buf waits for this device's work. */
	CHECK_EQUAL(poll(&(struct pollfd){ .fd = dmabuf, .events = POLLIN }, 1, 0), 0);
	close(fd);
	CHECK_EQUAL(poll(&(struct pollfd){ .fd = dmabuf, .events = POLLIN }, 1, 10000), 1);
	check_held_once(rest);
	close(dmabuf);
	check_references(rest);
	close(vgem);
}

static bool has_syncobjs(int node)
{
	struct drm_get_cap cap = { .capability = DRM_CAP_SYNCOBJ };

	return !ioctl(node, DRM_IOCTL_GET_CAP, &cap) && cap.value;
}

static void in_syncobj(int fd, int node)
{
	struct drm_syncobj_create create = { .handle = 0 };
	struct drm_syncobj_destroy destroy = { .handle = 0 };
	long rest = references_at_rest();
	int fence = fence_stuck(fd);

	CHECK_FATAL(!ioctl(node, DRM_IOCTL_SYNCOBJ_CREATE, &create));
	CHECK_EQUAL(drm_syncobj_from_sync_file(node, create.handle, fence), 0);
	close(fence);
	CHECK_EQUAL(references(), rest + 2);
	close(fd);
	check_held_once(rest);
	destroy.handle = create.handle;
	CHECK(!ioctl(node, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy));
	check_references(rest);
}

/* In a syncobj of each node that has them: of 6.12's virtio-gpu; none of 6.1's has. */
static void test_in_syncobj(void)
{
	char path[] = "/dev/dri/renderD128";
	int fd = open_as_root(), node, n = 0;

	if (fd < 0)
		return;
	close(fd);
	for (; path[18] <= '9'; path[18]++) {
		node = open(path, O_RDWR | O_CLOEXEC);
		if (node < 0)
			continue;
		n++;
		if (has_syncobjs(node))
			in_syncobj(hetsim_open(O_RDWR), node);
		else
			CHECK_EQUAL(drm_syncobj_from_sync_file(node, 1, 0), -EOPNOTSUPP);
		close(node);
	}
	CHECK(n > 0);
}

/* ---- objects of a device that was taken away ---- */

/* Objects in the lists of devices that are gone; *ret_lists: how many there are of these. */
static int lost_objects(size_t *ret_lists)
{
	glob_t lists;
	char line[256];
	int n = 0;
	FILE *file;
	size_t i;

	if (glob("/sys/kernel/debug/hetsim/hetsim0.lost*/objects", 0, NULL, &lists))
		memset(&lists, 0, sizeof(lists));
	for (i = 0; i < lists.gl_pathc; i++) {
		file = fopen(lists.gl_pathv[i], "re");
		CHECK_FATAL(file != NULL);
		for (n--; fgets(line, sizeof(line), file); n++)
			;
		fclose(file);
	}
	*ret_lists = lists.gl_pathc;
	globfree(&lists);
	return n;
}

/*
 * Its objects are in a list of its own, not in the fresh device's: each keeps the module until it
 * goes itself.
 */
static void test_lost(void)
{
	struct hetsim_buffer buffer;
	int fd = open_as_root(), other, fence, dmabuf;
	size_t lists;
	long rest;

	if (fd < 0)
		return;
	if (hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0)) {
		test_skip("kernel", "the module was not loaded with test=1");
		close(fd);
		return;
	}
	rest = references_at_rest();
	other = hetsim_open(O_RDWR);
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	fence = fence_stuck(other);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	hetsim_plug();
	CHECK_EQUAL(hetsim_objects(), 0);
	hetsim_fence_check(fence, -ENODEV);

	CHECK_EQUAL(lost_objects(&lists), 4); /* two openers, a queue, a buffer */
	CHECK_EQUAL(lists, 1);
	check_references(rest + 4); /* two files, dma-buf, fence */
	close(other);
	check_references(rest + 3);
	close(fd);
	CHECK_EQUAL(references(), rest + 3); /* the map has the file */
	CHECK_EQUAL(munmap(buffer.bytes, buffer.length), 0);
	check_references(rest + 2);
	close(fence);
	check_held_once(rest); /* the dma-buf has the buffer */
	CHECK_EQUAL(lost_objects(&lists), 1);
	close(dmabuf);
	check_references(rest);
	CHECK_EQUAL(hetsim_objects(), 0);
	CHECK_EQUAL(lost_objects(&lists), 0);
	CHECK_EQUAL(lists, 0);
}

/* Maps and calls by the dma-buf of a lost device: as hetsim(4) says. */
static void check_gone(int dmabuf, unsigned char *bytes)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };
	struct drm_prime_handle prime = { .fd = dmabuf };
	int another = vgem_open();

	CHECK_EQUAL(test_read_signal(bytes), SIGBUS);
	CHECK_EQUAL(test_write_signal(bytes + PAGE), SIGBUS);
	CHECK(mmap(NULL, MIB(1), PROT_READ, MAP_SHARED, dmabuf, 0) == MAP_FAILED &&
	      errno == ENODEV);
	CHECK(ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync) == -1 && errno == ENODEV);
	/* A driver that did not have the addresses before does not get them. */
	CHECK_FATAL(another >= 0);
	CHECK(ioctl(another, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime) == -1 && errno == ENODEV);
	close(another);
}

/* Closes the handle and the descriptor, in either order: the first one leaves all there. */
static void let_go(int vgem, uint32_t handle, int dmabuf, bool handle_first, long rest)
{
	struct drm_gem_close gem_close = { .handle = handle };
	size_t lists;

	if (handle_first)
		CHECK_EQUAL(ioctl(vgem, DRM_IOCTL_GEM_CLOSE, &gem_close), 0);
	else
		CHECK_EQUAL(close(dmabuf), 0);
	check_held_once(rest);
	CHECK_EQUAL(lost_objects(&lists), 1);
	if (handle_first)
		CHECK_EQUAL(close(dmabuf), 0);
	else
		CHECK_EQUAL(ioctl(vgem, DRM_IOCTL_GEM_CLOSE, &gem_close), 0);
	check_references(rest);
	CHECK_EQUAL(lost_objects(&lists), 0);
	CHECK_EQUAL(lists, 0);
}

static void lose_attached(int fd, int vgem, bool handle_first)
{
	struct drm_prime_handle prime = { 0 };
	unsigned char *direct;
	size_t lists;
	long rest = references_at_rest();
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);

	prime.fd = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(prime.fd >= 0);
	direct = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, prime.fd, 0);
	CHECK_FATAL(direct != MAP_FAILED);
	direct[0] = 1;
	CHECK_FATAL(ioctl(vgem, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime) == 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	check_gone(prime.fd, direct);
	hetsim_plug();
	check_gone(prime.fd, buffer.bytes);
	CHECK_EQUAL(hetsim_objects(), 0);
	CHECK_EQUAL(lost_objects(&lists), 2); /* the opener, the buffer */
	close(fd);
	CHECK_EQUAL(munmap(buffer.bytes, buffer.length), 0);
	CHECK_EQUAL(munmap(direct, MIB(1)), 0);
	let_go(vgem, prime.handle, prime.fd, handle_first, rest);
	CHECK_EQUAL(hetsim_objects(), 0);
}

/* Another driver has mapped a dma-buf of it, and keeps the pages until it unmaps that. */
static void test_lost_attached(void)
{
	int fd = open_as_root(), vgem, order;

	if (fd < 0)
		return;
	vgem = vgem_open();
	if (vgem < 0 || hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0)) {
		test_skip("kernel", vgem < 0 ? "no vgem" : "not loaded with test=1");
		if (vgem >= 0)
			close(vgem);
		close(fd);
		return;
	}
	close(fd);
	for (order = 0; order < 2; order++)
		lose_attached(open_as_root(), vgem, order == 0);
	close(vgem);
}

static const struct test tests[] = {
	{ "leftovers", test_leftovers, 0, 0 },
	{ "held_unsignalled", test_unsignalled, 0, 0 },
	{ "held_in_dmabuf", test_in_dmabuf, 0, 0 },
	{ "held_in_syncobj", test_in_syncobj, 30, 0 },
	{ "held_lost", test_lost, 30, 0 },
	{ "held_attached", test_lost_attached, 30, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_held", tests)
