// SPDX-License-Identifier: MIT
/* Fences of descriptors, and of several fences. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "lib/inject.h"
#include "base/sys.h"

#define MS 1000000ull
#define UNTOUCHED ((void *)0x10)

static bool is_readable(int fd)
{
	struct pollfd file = { fd, POLLIN, 0 };

	return poll(&file, 1, 0) == 1;
}

/* A thread that waits for others' descriptors tells, and ends, in its own time. */
static bool becomes_readable(int fd)
{
	struct pollfd file = { fd, POLLIN, 0 };

	return poll(&file, 1, 10000) == 1 && file.revents & POLLIN;
}

static void wait_for_fds(unsigned int n)
{
	int tries;

	for (tries = 0; test_holding_now().fds != n && tries < 1000; tries++)
		usleep(10000);
	CHECK_EQUAL(test_holding_now().fds, n);
}

static int status_of(struct hm_fence *fence)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_fence_query(fence, &info));
	return info.done ? info.status : 1;
}

static void eventfds(void)
{
	int fd = event_open(), dup_fd;
	struct hm_fence *fence = rig_fence(fd);

	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 0));
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 3 * MS));
	CHECK_EQUAL(status_of(fence), 1);
	CHECK_OK_FATAL(hm_fence_fd(fence, &dup_fd));
	CHECK(fcntl(dup_fd, F_GETFD) & FD_CLOEXEC);
	CHECK(!is_readable(dup_fd));
	event_signal(fd);
	close(fd); /* kept by duplicate */
	CHECK(is_readable(dup_fd));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK_EQUAL(status_of(fence), 0);
	hm_fence_unref(fence);
	CHECK(is_readable(dup_fd)); /* nothing was read from it */
	close(dup_fd);
}

/* Done once is done for good, whatever becomes of the descriptor. */
static void stays_done(void)
{
	int fd = event_open();
	uint64_t count;
	AUTO(hm_fence) *fence = rig_fence(fd);

	event_signal(fd);
	CHECK_OK(hm_fence_wait(fence, 0));
	CHECK_EQUAL(read(fd, &count, sizeof(count)), sizeof(count));
	CHECK_OK(hm_fence_wait(fence, 0));
	close(fd);
}

/* Its last reference ends it, done or not. */
static void dropped_undone(void)
{
	struct hm_fence *fence;
	int fd = event_open(), i;

	for (i = 0; i < 100; i++) {
		CHECK_OK_FATAL(hm_fence_import_fd(fd, &fence));
		CHECK(hm_fence_ref(fence) == fence);
		hm_fence_unref(fence);
		hm_fence_unref(fence);
	}
	close(fd);
}

static void nobody_signals(void)
{
	struct hm_fence *fence;
	int pipes[2];

	CHECK_FATAL(!pipe2(pipes, O_CLOEXEC));
	CHECK_OK_FATAL(hm_fence_import_fd(pipes[0], &fence));
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 0));
	close(pipes[1]);
	CHECK_ERROR(-EPIPE, hm_fence_wait(fence, UINT64_MAX));
	CHECK_EQUAL(status_of(fence), -EPIPE);
	hm_fence_unref(fence);
	close(pipes[0]);
}

static void bad_descriptors(void)
{
	struct hm_fence *fence = UNTOUCHED, *good;
	int file = scratch_file(4096), fd = event_open(), folder;

	folder = open("/", O_RDONLY | O_CLOEXEC);
	CHECK_ERROR(-EINVAL, hm_fence_import_fd(file, &fence));
	CHECK_ERROR(-EINVAL, hm_fence_import_fd(folder, &fence));
	CHECK_ERROR(-EBADF, hm_fence_import_fd(-1, &fence));
	CHECK_ERROR(-EBADF, hm_fence_import_fd(12345, &fence));
	CHECK_ERROR(-EINVAL, hm_fence_import_fd(fd, NULL));
	CHECK_OK_FATAL(hm_fence_import_fd(fd, &good));
	CHECK_ERROR(-EINVAL, hm_fence_merge(&good, 0, &fence));
	CHECK_ERROR(-EINVAL, hm_fence_merge(NULL, 1, &fence));
	CHECK_ERROR(-EINVAL, hm_fence_merge(&good, 1, NULL));
	CHECK_ERROR(-EINVAL, hm_fence_merge((struct hm_fence *[]){ good, NULL }, 2, &fence));
	CHECK_ERROR(-EINVAL, hm_queue_wait(NULL, good));
	CHECK(fence == UNTOUCHED);
	hm_fence_unref(good);
	close(file);
	close(folder);
	close(fd);
}

static void *wait_in_thread(void *user)
{
	return (void *)(intptr_t)hm_fence_wait(user, UINT64_MAX);
}

static void many_waiters(void)
{
	struct hm_fence *parts[2];
	AUTO(hm_fence) *fence = NULL, *merged = NULL;
	int fd = event_open(), other = event_open(), i;
	pthread_t threads[6];
	void *result;

	CHECK_OK_FATAL(hm_fence_import_fd(fd, &fence));
	CHECK_OK_FATAL(hm_fence_import_fd(other, &parts[1]));
	parts[0] = fence;
	CHECK_OK_FATAL(hm_fence_merge(parts, 2, &merged));
	for (i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, wait_in_thread, i & 1 ? merged : fence);
	event_signal(other);
	CHECK_ERROR(-ETIME, hm_fence_wait(merged, 2 * MS));
	event_signal(fd);
	for (i = 0; i < 6; i++) {
		pthread_join(threads[i], &result);
		CHECK_EQUAL((intptr_t)result, 0);
	}
	hm_fence_unref(parts[1]);
	close(fd);
	close(other);
}

static void merged_of_eventfds(void)
{
	unsigned int before = test_holding_now().fds;
	struct hm_fence *parts[3], *merged, *outer;
	int fds[3], fd, done, i;

	for (i = 0; i < 3; i++) {
		fds[i] = event_open();
		CHECK_OK_FATAL(hm_fence_import_fd(fds[i], &parts[i]));
	}
	CHECK_OK_FATAL(hm_fence_merge(parts, 3, &merged));
	CHECK_OK_FATAL(hm_fence_merge(&merged, 1, &outer));
	for (i = 0; i < 3; i++)
		hm_fence_unref(parts[i]); /* held by the merged one */
	CHECK_OK_FATAL(hm_fence_fd(outer, &fd));
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	for (i = 2; i >= 0; i--) {
		CHECK_ERROR(-ETIME, hm_fence_wait(merged, 0));
		CHECK_ERROR(-ETIME, hm_fence_wait(outer, MS));
		CHECK(!is_readable(fd));
		event_signal(fds[i]);
	}
	CHECK(becomes_readable(fd));
	CHECK_OK(hm_fence_wait(outer, UINT64_MAX));
	CHECK_OK(hm_fence_wait(merged, 0));
	CHECK_OK_FATAL(hm_fence_fd(outer, &done));
	CHECK(is_readable(done));
	close(done);
	close(fd);
	hm_fence_unref(outer);
	hm_fence_unref(merged);
	for (i = 0; i < 3; i++)
		close(fds[i]);
	wait_for_fds(before);
}

/* Only the descriptor is left of the fences; then it is closed, too, and nothing is left. */
static void descriptor_outlives(void)
{
	int fds[2] = { event_open(), event_open() }, pipes[2], fd, i;
	unsigned int before = test_holding_now().fds;
	struct hm_fence *parts[3], *merged, *back;

	for (i = 0; i < 2; i++)
		CHECK_OK_FATAL(hm_fence_import_fd(fds[i], &parts[i]));
	CHECK_FATAL(!pipe2(pipes, O_CLOEXEC));
	CHECK_OK_FATAL(hm_fence_import_fd(pipes[0], &parts[2]));
	CHECK_OK_FATAL(hm_fence_merge(parts, 3, &merged));
	for (i = 0; i < 3; i++)
		hm_fence_unref(parts[i]);
	for (i = 0; i < 20; i++) {
		CHECK_OK_FATAL(hm_fence_fd(merged, &fd));
		close(fd);
	}
	CHECK_OK_FATAL(hm_fence_fd(merged, &fd));
	hm_fence_unref(merged);
	CHECK_OK_FATAL(hm_fence_import_fd(fd, &back));
	close(fd);
	event_signal(fds[0]);
	/* A part that can no longer be signalled is over, too. */
	close(pipes[1]);
	close(pipes[0]);
	CHECK_ERROR(-ETIME, hm_fence_wait(back, 5 * MS));
	event_signal(fds[1]);
	CHECK_OK(hm_fence_wait(back, UINT64_MAX));
	hm_fence_unref(back);
	wait_for_fds(before);
	for (i = 0; i < 2; i++)
		close(fds[i]);
}

/* ---- with queues ---- */

static int fails(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return -ENOSPC;
}

/* The first one's failure, in their order. */
static void merged_failures(void)
{
	struct hm_fence *parts[3], *merged;
	int pipes[2], fd = event_open();
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_kernel) *kernel = make_kernel("disk_full", "", fails);

	CHECK_FATAL(!pipe2(pipes, O_CLOEXEC));
	close(pipes[1]);
	CHECK_OK_FATAL(hm_fence_import_fd(fd, &parts[0]));
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &parts[1]));
	CHECK_OK_FATAL(hm_fence_import_fd(pipes[0], &parts[2]));
	CHECK_OK_FATAL(hm_fence_merge(parts, 3, &merged));
	CHECK_ERROR(-EPIPE, hm_fence_wait(parts[2], UINT64_MAX));
	CHECK_ERROR(-ETIME, hm_fence_wait(merged, 0));
	event_signal(fd);
	CHECK_ERROR(-ENOSPC, hm_fence_wait(merged, UINT64_MAX));
	CHECK(text_has("disk_full"));
	CHECK_EQUAL(status_of(merged), -ENOSPC);
	hm_fence_unref(parts[0]);
	hm_fence_unref(parts[1]);
	hm_fence_unref(parts[2]);
	hm_fence_unref(merged);
	close(fd);
	close(pipes[0]);
}

/* A descriptor of one library's queue becomes a fence in another library. */
static void there_and_back(void)
{
	AUTO(hm_fence) *fence = NULL, *imported = NULL;
	int fd;
	AUTO(accel_rig) rig = accel_rig_make("soft:0", 0, 0);
	uint32_t *x = alloc_bytes(&rig, 1 << 20);

	CHECK_OK_FATAL(hm_queue_fill(rig.queue, x, 3, 1 << 20, &fence));
	CHECK_OK_FATAL(hm_fence_fd(fence, &fd));
	CHECK_OK_FATAL(hm_fence_import_fd(fd, &imported));
	close(fd);
	CHECK_OK(hm_fence_wait(imported, UINT64_MAX));
	CHECK_OK(hm_fence_wait(fence, 0));
	CHECK_EQUAL(x[(1 << 18) - 1], 3);
	CHECK_OK(hm_free(x));
}

static void child_uses(void *user)
{
	CHECK_ERROR(-EOWNERDEAD, hm_fence_wait(user, 0));
	hm_fence_unref(user);
}

static void fork_child(void)
{
	int fd = event_open();
	AUTO(hm_fence) *fence = rig_fence(fd);

	CHECK_EQUAL(test_fork(child_uses, fence), 0);
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 0));
	event_signal(fd);
	CHECK_OK(hm_fence_wait(fence, 0));
	close(fd);
}

/* ---- each call failing once ---- */

static bool is_named(int r)
{
	return !r || (r < 0 && hm_errmsg()[0]);
}

static void scenario(struct hm_queue *queue, int fd, uint32_t *x)
{
	struct hm_fence *parts[2] = { NULL, NULL }, *merged = NULL, *fence;
	int r, out;

	r = hm_fence_import_fd(fd, &parts[0]);
	CHECK(is_named(r));
	if (!r) {
		r = hm_queue_fill(queue, x, 1, 4096, &parts[1]);
		CHECK(is_named(r));
	}
	if (!r) {
		r = hm_fence_merge(parts, 2, &merged);
		CHECK(is_named(r));
	}
	if (!r) {
		r = hm_fence_fd(parts[0], &out);
		CHECK(is_named(r));
		if (!r)
			close(out);
		r = hm_queue_wait(queue, merged);
		CHECK(is_named(r));
		r = hm_queue_fill(queue, x, 2, 4096, &fence);
		CHECK(is_named(r));
		if (!r)
			hm_fence_unref(fence);
	}
	hm_fence_unref(parts[0]);
	hm_fence_unref(parts[1]);
	hm_fence_unref(merged);
}

static void undo(void)
{
	struct test_holding before;
	unsigned int n;
	bool failed = true;
	int fd = event_open();
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	uint32_t *x = alloc_bytes(&rig, 4096);

	event_signal(fd);
	inject_install();
	scenario(rig.queue, fd, x);
	before = test_holding_now();
	for (n = 1; failed && n < 400; n++) {
		inject_arm(n, INJECT_ONE);
		scenario(rig.queue, fd, x);
		failed = inject_disarm();
		inject_forgive();
		CHECK_EQUAL(test_holding_now().fds, before.fds);
	}
	CHECK(n > 6 && !failed);
	CHECK_OK(hm_free(x));
	close(fd);
}

/* The descriptor of two that are not done, with each call failing once, the thread's too. */
static void undo_descriptor(void)
{
	int fds[2] = { event_open(), event_open() }, fd, r;
	struct hm_fence *parts[2], *merged;
	unsigned int i, n, before;
	bool failed = true;

	for (i = 0; i < 2; i++)
		CHECK_OK_FATAL(hm_fence_import_fd(fds[i], &parts[i]));
	CHECK_OK_FATAL(hm_fence_merge(parts, 2, &merged));
	inject_install();
	before = test_holding_now().fds;
	for (n = 1; failed && n < 400; n++) {
		fd = -7;
		inject_arm(n, INJECT_ONE);
		r = hm_fence_fd(merged, &fd);
		CHECK(is_named(r));
		CHECK_EQUAL(!r, fd >= 0);
		if (!r)
			close(fd);
		wait_for_fds(before);
		failed = inject_disarm();
	}
	CHECK(n > 6 && !failed);
	for (i = 0; i < 2; i++) {
		hm_fence_unref(parts[i]);
		close(fds[i]);
	}
	hm_fence_unref(merged);
}

/* Descriptors that say they are sync_files, and can't be merged. */
static int play_sync_files(int fd, unsigned long cmd, void *argument)
{
	struct sync_file_info *info = argument;

	(void)fd;
	if (cmd == SYNC_IOC_FILE_INFO) {
		info->status = 0;
		return 0;
	}
	errno = ENOMEM;
	return -1;
}

static int play_signalled(int fd, unsigned long cmd, void *argument)
{
	struct sync_file_info *info = argument;

	(void)fd, (void)cmd;
	info->status = 1;
	return 0;
}

/* Both parts have a descriptor, and the merged one can't be had. */
static void descriptor_of_merged_fails(void)
{
	int (*ioctl_before)(int fd, unsigned long cmd, void *argument) = sys_table.ioctl;
	int fds[2] = { event_open(), event_open() }, fd = -7;
	struct hm_fence *parts[2], *merged;
	unsigned int i;

	sys_table.ioctl = play_sync_files;
	for (i = 0; i < 2; i++)
		CHECK_OK_FATAL(hm_fence_import_fd(fds[i], &parts[i]));
	CHECK_OK_FATAL(hm_fence_merge(parts, 2, &merged));
	CHECK_ERROR(-ENOMEM, hm_fence_fd(merged, &fd));
	CHECK_EQUAL(fd, -7);
	sys_table.ioctl = ioctl_before;
	for (i = 0; i < 2; i++)
		event_signal(fds[i]);
	sys_table.ioctl = play_signalled;
	CHECK_OK(hm_fence_wait(merged, UINT64_MAX));
	sys_table.ioctl = ioctl_before;
	for (i = 0; i < 2; i++) {
		hm_fence_unref(parts[i]);
		close(fds[i]);
	}
	hm_fence_unref(merged);
}

static const struct test tests[] = {
	{ "eventfds", eventfds, 0, 0 },
	{ "stays_done", stays_done, 0, 0 },
	{ "dropped_undone", dropped_undone, 0, 0 },
	{ "nobody_signals", nobody_signals, 0, 0 },
	{ "bad_descriptors", bad_descriptors, 0, 0 },
	{ "many_waiters", many_waiters, 0, 0 },
	{ "merged_of_eventfds", merged_of_eventfds, 0, 0 },
	{ "descriptor_outlives", descriptor_outlives, 0, 0 },
	{ "merged_failures", merged_failures, 0, 0 },
	{ "there_and_back", there_and_back, 0, 0 },
	{ "fork_child", fork_child, 0, 0 },
	{ "undo", undo, 0, 0 },
	{ "undo_descriptor", undo_descriptor, 60, 0 },
	{ "descriptor_of_merged_fails", descriptor_of_merged_fails, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "fence_foreign", tests)
