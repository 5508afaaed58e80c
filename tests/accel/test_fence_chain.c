// SPDX-License-Identifier: MIT
/* Fences of descriptors over a long time: merged again and again, waited for under signals. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "accel/accel_support.h"

/* ---- merged again and again ---- */

#define CHAIN 20000

static struct hm_fence *event_fence(int *ret_fd)
{
	struct hm_fence *fence;

	*ret_fd = event_open();
	CHECK_OK_FATAL(hm_fence_import_fd(*ret_fd, &fence));
	return fence;
}

/* Merges the fence with one more, once a frame, on a small stack: only running parts stay. */
static void *merge_frames(void *user)
{
	unsigned int before = test_holding_now().fds;
	struct hm_fence *parts[2], *merged;
	int running, fd, i;

	(void)user;
	parts[0] = event_fence(&running);
	for (i = 0; i < CHAIN; i++) {
		parts[1] = event_fence(&fd);
		event_signal(fd);
		CHECK_OK_FATAL(hm_fence_merge(parts, 2, &merged));
		hm_fence_unref(parts[0]);
		hm_fence_unref(parts[1]);
		close(fd);
		parts[0] = merged;
	}
	/* The first fence has two, and the last one, not yet asked, has the rest. */
	CHECK(test_holding_now().fds <= before + 4);
	CHECK_ERROR(-ETIME, hm_fence_wait(merged, 0));
	event_signal(running);
	CHECK_OK(hm_fence_wait(merged, UINT64_MAX));
	CHECK_OK_FATAL(hm_fence_merge(&merged, 1, &parts[1]));
	CHECK_OK(hm_fence_wait(parts[1], 0));
	hm_fence_unref(parts[1]);
	hm_fence_unref(merged);
	close(running);
	CHECK_EQUAL(test_holding_now().fds, before);
	return NULL;
}

static void merged_again(void)
{
	pthread_attr_t small;
	pthread_t thread;

	CHECK_FATAL(!pthread_attr_init(&small));
	CHECK_FATAL(
		!pthread_attr_setstacksize(&small, TEST_ASAN || TEST_TSAN ? 1 << 20 : 1 << 16));
	CHECK_FATAL(!pthread_create(&thread, &small, merge_frames, NULL));
	pthread_join(thread, NULL);
	pthread_attr_destroy(&small);
}

/* ---- waited for under signals ---- */

static void on_alarm(int signal)
{
	(void)signal;
}

static void *signal_later(void *user)
{
	usleep(300000);
	event_signal(*(int *)user);
	return NULL;
}

/* For ever is for ever: poll() ends with each signal, and a timer has many. */
static void waited_under_signals(void)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = on_alarm }, old;
	pthread_t thread;
	int fd;
	AUTO(hm_fence) *fence = event_fence(&fd);

	sigaction(SIGALRM, &action, &old);
	CHECK_FATAL(!pthread_create(&thread, NULL, signal_later, &fd));
	setitimer(ITIMER_REAL, &often, NULL);
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	pthread_join(thread, NULL);
	close(fd);
}

static const struct test tests[] = {
	{ "merged_again", merged_again, 60, 0 },
	{ "waited_under_signals", waited_under_signals, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "fence_chain", tests)
