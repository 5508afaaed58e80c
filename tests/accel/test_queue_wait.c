// SPDX-License-Identifier: MIT
/* Queues that wait for fences of other queues, and of descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "accel/accel_support.h"

#define UNTOUCHED ((void *)0x10)

struct late {
	int fd;
	uint32_t *word;
	_Atomic bool signalled;
};

static void *signal_late(void *user)
{
	struct late *late = user;

	usleep(20000);
	atomic_store(&late->signalled, true);
	event_signal(late->fd);
	return NULL;
}

/* A fence that fails does not end the wait for the other ones. */
static void queue_waits_for_all(void)
{
	struct late late = { .fd = event_open() };
	struct hm_fence *foreign, *broken, *after;
	pthread_t thread;
	int pipes[2];
	struct accel_rig rig = accel_rig_make("cpu", 0, 0);
	uint32_t *x = alloc_bytes(&rig, 4096);

	x[0] = 0;
	CHECK_FATAL(!pipe2(pipes, O_CLOEXEC));
	close(pipes[1]);
	CHECK_OK_FATAL(hm_fence_import_fd(pipes[0], &broken));
	CHECK_OK_FATAL(hm_fence_import_fd(late.fd, &foreign));
	CHECK_OK(hm_queue_wait(rig.queue, broken));
	CHECK_OK(hm_queue_wait(rig.queue, foreign));
	hm_fence_unref(broken);
	hm_fence_unref(foreign);
	pthread_create(&thread, NULL, signal_late, &late);
	CHECK_ERROR(-EPIPE, hm_queue_fill(rig.queue, x, 7, 4096, &after));
	CHECK(strstr(hm_errmsg(), "a fence that the queue waited for") != NULL);
	CHECK(atomic_load(&late.signalled));
	CHECK_EQUAL(x[0], 0);
	CHECK_OK_FATAL(hm_queue_fill(rig.queue, x, 8, 4096, &after));
	finish(after);
	pthread_join(thread, NULL);
	CHECK_OK(hm_free(x));
	accel_rig_close(&rig);
	close(pipes[0]);
	close(late.fd);
}

/* Later work does not begin before the fence; earlier work goes on. */
static void queue_waits_on(const char *accel)
{
	struct late late = { .fd = event_open() };
	struct hm_fence *foreign, *before, *after;
	pthread_t thread;
	struct accel_rig rig = accel_rig_make(accel, 0, 0);
	uint32_t *x = alloc_bytes(&rig, 8192);

	x[0] = 0;
	CHECK_OK_FATAL(hm_fence_import_fd(late.fd, &foreign));
	CHECK_OK_FATAL(hm_queue_fill(rig.queue, x + 1024, 5, 4096, &before));
	CHECK_OK(hm_queue_wait(rig.queue, foreign));
	CHECK_OK(hm_queue_wait(rig.queue, before)); /* its own */
	hm_fence_unref(foreign);
	finish(before);
	CHECK_EQUAL(x[1024], 5);
	pthread_create(&thread, NULL, signal_late, &late);
	CHECK_OK_FATAL(hm_queue_fill(rig.queue, x, 7, 4096, &after));
	CHECK(atomic_load(&late.signalled));
	finish(after);
	CHECK_EQUAL(x[0], 7);
	pthread_join(thread, NULL);
	/* Waited for once. */
	CHECK_OK_FATAL(hm_queue_fill(rig.queue, x, 8, 4096, &after));
	finish(after);
	CHECK_OK(hm_free(x));
	accel_rig_close(&rig);
	close(late.fd);
}

static void queue_waits(void)
{
	queue_waits_on("cpu");
}

static void soft_queue_waits(void)
{
	queue_waits_on("soft:0");
}

static void *launch_in_thread(void *user)
{
	struct accel_rig *rig = user;

	return (void *)(intptr_t)hm_launch(rig->queue, rig->kernel[EMPTY], 1, NULL);
}

/* Whichever thread submits: none goes ahead of the fence. */
static void all_threads_wait(void)
{
	pthread_t threads[3];
	uint64_t launches;
	void *result;
	int fd = event_open(), i;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_fence) *foreign = rig_fence(fd);

	CHECK_OK(hm_queue_wait(rig.queue, foreign));
	launches = stats_now().launches;
	for (i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, launch_in_thread, &rig);
	usleep(10000);
	CHECK_EQUAL(stats_now().launches, launches);
	event_signal(fd);
	for (i = 0; i < 3; i++) {
		pthread_join(threads[i], &result);
		CHECK_EQUAL((intptr_t)result, 0);
	}
	CHECK_EQUAL(stats_now().launches, launches + 3);
	close(fd);
}

static int fails(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return -ENOSPC;
}

static int note(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	*(uint32_t *)(uintptr_t)args[0].pointer = 1;
	return 0;
}

/* A fence of another queue, which failed: the launch says so, the next one goes on. */
static void waits_for_a_failure(void)
{
	struct hm_fence *failed, *fence = UNTOUCHED;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_kernel) *bad = make_kernel("disk_full", "", fails);
	AUTO(hm_kernel) *good = make_kernel("note", "out", note);
	uint32_t *x = alloc_bytes(&rig, 4096);
	AUTO(hm_queue) *other = rig_queue(rig.accel, 0);

	CHECK_OK_FATAL(hm_launch(other, bad, 1, &failed));
	CHECK_OK(hm_queue_wait(rig.queue, failed));
	CHECK_ERROR(-ENOSPC, hm_launch(rig.queue, good, 1, &fence, HM_OUT(x)));
	CHECK(text_has("disk_full") && text_has("waited"));
	CHECK(fence == UNTOUCHED);
	CHECK_OK_FATAL(hm_launch(rig.queue, good, 1, &fence, HM_OUT(x)));
	finish(fence);
	hm_fence_unref(failed);
	CHECK_OK(hm_free(x));
}

/* A queue that ends waits for nothing any more. */
static void queue_ends(void)
{
	int fd = event_open();
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_fence) *foreign = rig_fence(fd);

	CHECK_OK(hm_queue_wait(rig.queue, foreign));
	CHECK_OK(hm_queue_wait(rig.queue, foreign));
	close(fd);
}

static const struct test tests[] = {
	{ "queue_waits", queue_waits, 0, 0 },
	{ "queue_waits_for_all", queue_waits_for_all, 0, 0 },
	{ "soft_queue_waits", soft_queue_waits, 0, 0 },
	{ "all_threads_wait", all_threads_wait, 0, 0 },
	{ "waits_for_a_failure", waits_for_a_failure, 0, 0 },
	{ "queue_ends", queue_ends, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "queue_wait", tests)
