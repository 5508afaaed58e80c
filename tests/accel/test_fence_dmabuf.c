// SPDX-License-Identifier: MIT
/*
 * The fences of dma-bufs where there is no dma-buf, or a kernel that gives no sync_files of them:
 * eventfds are its dma-bufs, whose poll() a test can rule.
 */
#include <errno.h>
#include <linux/dma-buf.h>
#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "lib/inject.h"
#include "base/sys.h"

#define MS 1000000ull
#define UNTOUCHED ((void *)0x10)

/* A file that is no dma-buf carries no fences, and no dma-buf holds a fence that is no driver's. */
static void no_dmabuf(void)
{
	struct hm_fence *untouched = UNTOUCHED;
	int event = event_open(), memory = memfd_create("none", MFD_CLOEXEC);
	AUTO(hm_fence) *fence = rig_fence(event);

	CHECK_ERROR(-EINVAL, hm_fence_import_dmabuf(memory, HM_READ, &untouched));
	CHECK(text_has("HM_EXPORT_DMABUF"));
	CHECK_ERROR(-EINVAL, hm_fence_import_dmabuf(event, HM_READ, &untouched));
	CHECK_ERROR(-EBADF, hm_fence_import_dmabuf(-1, HM_READ, &untouched));
	CHECK_ERROR(-EINVAL, hm_fence_import_dmabuf(memory, HM_NONE, &untouched));
	CHECK_ERROR(-EINVAL, hm_fence_import_dmabuf(memory, 1u << 7, &untouched));
	CHECK_ERROR(-EINVAL, hm_fence_import_dmabuf(memory, HM_READ, NULL));
	CHECK(untouched == UNTOUCHED);
	CHECK_ERROR(-EOPNOTSUPP, hm_fence_export_dmabuf(fence, memory, HM_READ));
	CHECK(text_has("a dma-buf can't hold the fence"));
	CHECK_ERROR(-EINVAL, hm_fence_export_dmabuf(NULL, memory, HM_READ));
	CHECK(!eventfd_write(event, 1));
	CHECK_OK(hm_fence_wait(fence, 0));
	/* Done, and still no dma-buf. */
	CHECK_ERROR(-EINVAL, hm_fence_export_dmabuf(fence, memory, HM_READ));
	CHECK_ERROR(-EBADF, hm_fence_export_dmabuf(fence, -1, HM_READ));
	close(event);
	close(memory);
}

/* ---- a kernel before 6.0 ---- */

static int all_dmabufs(int fd, struct statfs *fs)
{
	int r = fstatfs(fd, fs);

	fs->f_type = DMA_BUF_MAGIC;
	return r;
}

static int answer; /* to the calls for fences */
static unsigned int n_asked;

static int old_ioctl(int fd, unsigned long cmd, void *argument)
{
	if (cmd != DMA_BUF_IOCTL_EXPORT_SYNC_FILE && cmd != DMA_BUF_IOCTL_IMPORT_SYNC_FILE)
		return ioctl(fd, cmd, argument);
	n_asked++;
	errno = answer;
	return -1;
}

/*
 * Readable is a dma-buf that no work writes, writable one that there is no work on: an empty
 * counter can't be read from, a full one not be written to.
 */
static int dmabuf_open(bool is_read)
{
	int fd = event_open();

	sys_table.fstatfs = all_dmabufs;
	sys_table.ioctl = old_ioctl;
	answer = ENOTTY;
	CHECK(!is_read || !eventfd_write(fd, UINT64_MAX - 1));
	return fd;
}

static void reading_ends(int fd)
{
	eventfd_t count;

	CHECK(!eventfd_read(fd, &count) && !eventfd_write(fd, 1));
}

static void downgraded(void)
{
	CHECK(text_has("polls the dma-buf"));
	CHECK(text_has("6.0"));
}

/* A reader waits for the writer. */
static void polled_for_reading(void)
{
	int dmabuf = dmabuf_open(false);
	struct pollfd file = { .events = POLLIN };
	struct hm_fence *fence;

	CHECK_OK_FATAL(hm_fence_import_dmabuf(dmabuf, HM_READ, &fence));
	downgraded();
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 0));
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 3 * MS));
	CHECK_OK_FATAL(hm_fence_fd(fence, &file.fd));
	CHECK_EQUAL(poll(&file, 1, 0), 0);
	/* The fence is no sync_file. */
	CHECK_ERROR(-EOPNOTSUPP, hm_fence_export_dmabuf(fence, dmabuf, HM_READ));
	event_signal(dmabuf);
	CHECK_EQUAL(poll(&file, 1, 10000), 1);
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	/* The kernel is not asked again. */
	CHECK_OK_FATAL(hm_fence_import_dmabuf(dmabuf, HM_READ, &fence));
	CHECK_OK(hm_fence_wait(fence, 0));
	CHECK_EQUAL(n_asked, 1);
	hm_fence_unref(fence);
	close(file.fd);
	close(dmabuf);
}

static void *end_late(void *user)
{
	usleep(20000);
	reading_ends(*(int *)user);
	return NULL;
}

static void wait_for_fds(unsigned int n)
{
	int tries;

	for (tries = 0; test_holding_now().fds != n && tries < 1000; tries++)
		usleep(10000);
	CHECK_EQUAL(test_holding_now().fds, n);
}

/*
 * A writer waits for readers, too: readable is not enough. The descriptor outlives its fence; the
 * thread behind it lets go of the dma-buf.
 */
static void polled_for_writing(void)
{
	unsigned int before = test_holding_now().fds;
	struct pollfd file = { .events = POLLIN };
	struct hm_fence *writing, *reading;
	int dmabuf = dmabuf_open(true);
	pthread_t thread;

	CHECK_OK_FATAL(hm_fence_import_dmabuf(dmabuf, HM_READ, &reading));
	CHECK_OK(hm_fence_wait(reading, 0));
	hm_fence_unref(reading);
	CHECK_OK_FATAL(hm_fence_import_dmabuf(dmabuf, HM_READ | HM_WRITE, &writing));
	downgraded();
	CHECK_ERROR(-ETIME, hm_fence_wait(writing, 3 * MS));
	CHECK_OK_FATAL(hm_fence_fd(writing, &file.fd));
	CHECK_EQUAL(poll(&file, 1, 5), 0);
	CHECK_FATAL(!pthread_create(&thread, NULL, end_late, &dmabuf));
	CHECK_OK(hm_fence_wait(writing, UINT64_MAX));
	hm_fence_unref(writing);
	CHECK_EQUAL(poll(&file, 1, 10000), 1);
	CHECK(file.revents & POLLIN);
	pthread_join(thread, NULL);
	close(file.fd);
	close(dmabuf);
	wait_for_fds(before);
}

/* A filter's answer in place of the kernel's. */
static void filtered(void)
{
	int dmabuf = dmabuf_open(false);
	AUTO(hm_fence) *fence = NULL;

	answer = EPERM;
	CHECK_OK_FATAL(hm_fence_import_dmabuf(dmabuf, HM_READ, &fence));
	downgraded();
	close(dmabuf);
}

/* The kernel's other answers are no reason to poll. */
static void refused(void)
{
	int dmabuf = dmabuf_open(false);
	struct hm_fence *fence = UNTOUCHED;

	answer = ENOMEM;
	CHECK_ERROR(-ENOMEM, hm_fence_import_dmabuf(dmabuf, HM_READ, &fence));
	CHECK(fence == UNTOUCHED);
	close(dmabuf);
}

/* Each call failing once, of the import and of the descriptor that a thread fills. */
static void undo(void)
{
	int dmabuf = dmabuf_open(true), fd, r;
	unsigned int n, before = test_holding_now().fds;
	struct hm_fence *fence;
	bool failed = true;

	inject_install();
	for (n = 1; failed && n < 400; n++) {
		fence = UNTOUCHED;
		inject_arm(n, INJECT_ONE);
		r = hm_fence_import_dmabuf(dmabuf, HM_WRITE, &fence);
		CHECK(*(r ? hm_errmsg() : hm_warning()));
		CHECK_EQUAL(!r, fence != UNTOUCHED);
		if (!r) {
			fd = -7;
			r = hm_fence_fd(fence, &fd);
			CHECK(!r || *hm_errmsg());
			CHECK_EQUAL(!r, fd >= 0);
			if (!r)
				close(fd);
			hm_fence_unref(fence);
		}
		failed = inject_disarm();
		inject_forgive();
		wait_for_fds(before);
	}
	CHECK(n > 6 && !failed);
	close(dmabuf);
}

static const struct test tests[] = {
	{ "no_dmabuf", no_dmabuf, 0, 0 },
	{ "polled_for_reading", polled_for_reading, 0, 0 },
	{ "polled_for_writing", polled_for_writing, 0, 0 },
	{ "filtered", filtered, 0, 0 },
	{ "refused", refused, 0, 0 },
	{ "undo", undo, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "fence_dmabuf", tests)
