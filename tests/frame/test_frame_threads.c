// SPDX-License-Identifier: MIT
/* Several producers and consumers of one pool: no picture twice, none torn, all counted. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "base/sys.h"
#include "base/util.h"
#include "frame/frame_support.h"

#define PRODUCERS 4
#define CONSUMERS 3
#define PICTURES 2000u /* each producer's */

static struct {
	struct hm_frame_pool *pool;
	struct hm_queue *queue; /* NULL: no work of accelerators */
	struct hm_kernel *fill;
	_Atomic uint32_t serial, dropped, taken, torn, wrong, twice;
	_Atomic unsigned char seen[PRODUCERS * PICTURES];
	uint32_t pictures;
} all;

/* The whole picture has one value, which the timestamp tells. */
static void produce_one(struct hm_frame *frame, uint32_t number)
{
	struct hm_frame_info info = frame_info(frame);
	struct hm_fence *fence;

	frame_stamp(frame, number);
	if (all.queue) {
		CHECK_OK(hm_launch(all.queue, all.fill, 64 * 32 / 4, &fence,
				   HM_OUT(info.address[0]), HM_U32(number)));
		CHECK_OK(hm_frame_fence_add(frame, fence, HM_WRITE));
		hm_fence_unref(fence);
	} else {
		uint32_t i, *words = info.address[0];

		for (i = 0; i < 64 * 32 / 4; i++)
			words[i] = number;
	}
	CHECK_OK(hm_frame_publish(frame));
}

static void *producer(void *user)
{
	uint32_t i, number;
	struct hm_frame *frame;
	int r;

	for (i = 0; i < all.pictures; i++) {
		number = (uint32_t)(uintptr_t)user * PICTURES + i;
		r = hm_frame_pool_acquire(all.pool, 10 * SECOND_NS, &frame);
		if (r == -ENOBUFS) {
			atomic_fetch_add(&all.dropped, 1);
			continue;
		}
		CHECK_OK(r);
		if (r)
			break;
		produce_one(frame, number);
		hm_frame_unref(frame);
	}
	return NULL;
}

static void consume_one(struct hm_frame *frame, int64_t *last)
{
	struct hm_frame_info info = frame_info(frame);
	const uint32_t *words = info.address[0];
	uint32_t i, number = (uint32_t)info.props.timestamp;

	CHECK_OK(hm_frame_wait(frame, HM_READ, UINT64_MAX));
	for (i = 0; i < 64 * 32 / 4; i++)
		if (words[i] != number) {
			atomic_fetch_add(&all.torn, 1);
			break;
		}
	if (atomic_fetch_add(&all.seen[number], 1))
		atomic_fetch_add(&all.twice, 1);
	/* Pictures of one producer come in order to each consumer. */
	if (last[number / PICTURES] >= number)
		atomic_fetch_add(&all.wrong, 1);
	last[number / PICTURES] = number;
	atomic_fetch_add(&all.taken, 1);
}

static void *consumer(void *user)
{
	int64_t last[PRODUCERS] = { -1, -1, -1, -1 };
	struct hm_frame *frame;
	int r;

	(void)user;
	while (!(r = hm_frame_pool_take(all.pool, 10 * SECOND_NS, &frame))) {
		consume_one(frame, last);
		hm_frame_unref(frame);
	}
	CHECK_EQUAL(r, -EPIPE);
	return NULL;
}

static void run_all(enum hm_frame_policy policy, uint32_t n_most, struct accel_rig *rig)
{
	pthread_t producers[PRODUCERS], consumers[CONSUMERS];
	struct hm_frame_pool_info info;
	uint32_t i, kept;

	all.pool = frame_pool("host", policy, n_most);
	all.queue = rig ? rig->queue : NULL;
	all.fill = rig ? rig->kernel[FILL] : NULL;
	all.pictures = test_is_slow() || rig ? PICTURES / 10 : PICTURES;
	all.dropped = all.taken = all.torn = all.wrong = all.twice = 0;
	memset((void *)all.seen, 0, sizeof(all.seen));
	for (i = 0; i < CONSUMERS; i++)
		CHECK_FATAL(!pthread_create(&consumers[i], NULL, consumer, NULL));
	for (i = 0; i < PRODUCERS; i++)
		CHECK_FATAL(
			!pthread_create(&producers[i], NULL, producer, (void *)(uintptr_t)i));
	for (i = 0; i < PRODUCERS; i++)
		pthread_join(producers[i], NULL);
	CHECK_OK(hm_frame_pool_end(all.pool));
	for (i = 0; i < CONSUMERS; i++)
		pthread_join(consumers[i], NULL);
	info = frame_pool_info(all.pool);
	CHECK(!all.torn && !all.twice && !all.wrong);
	kept = PRODUCERS * all.pictures - all.dropped;
	CHECK_EQUAL(info.acquired, kept);
	CHECK_EQUAL(info.published, kept);
	CHECK_EQUAL(info.taken, all.taken);
	CHECK_EQUAL(info.dropped_newest, all.dropped);
	CHECK_EQUAL(info.taken + info.dropped_oldest, kept);
	CHECK(policy != HM_FRAME_WAIT || all.taken == PRODUCERS * all.pictures);
	CHECK(info.frames <= n_most && !info.held && !info.ready);
	hm_frame_pool_unref(all.pool);
}

static void waiting(void)
{
	run_all(HM_FRAME_WAIT, 6, NULL);
}

/* Fewer frames than threads. */
static void waiting_for_one(void)
{
	run_all(HM_FRAME_WAIT, 1, NULL);
}

static void dropping_oldest(void)
{
	run_all(HM_FRAME_DROP_OLDEST, 10, NULL);
}

static void dropping_newest(void)
{
	run_all(HM_FRAME_DROP_NEWEST, 4, NULL);
}

static void with_work(void)
{
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);

	run_all(HM_FRAME_WAIT, 6, &rig);
	run_all(HM_FRAME_DROP_OLDEST, 10, &rig);
}

/* ---- a thread that waits, and others that come, go and end ---- */

static void *acquire_late(void *user)
{
	AUTO(hm_frame) *frame = NULL;
	int r = hm_frame_pool_acquire(user, UINT64_MAX, &frame);

	return (void *)(intptr_t)r;
}

static void *take_late(void *user)
{
	AUTO(hm_frame) *frame = NULL;
	int r = hm_frame_pool_take(user, UINT64_MAX, &frame);

	return (void *)(intptr_t)r;
}

static void woken(void)
{
	struct hm_frame_pool *pool = frame_pool("host", HM_FRAME_WAIT, 1);
	struct hm_frame *frame = frame_acquire(pool);
	pthread_t threads[3];
	void *r[3];
	uint32_t i;

	CHECK_FATAL(!pthread_create(&threads[0], NULL, acquire_late, pool));
	CHECK_FATAL(!pthread_create(&threads[1], NULL, take_late, pool));
	usleep(20000);
	CHECK_OK(hm_frame_publish(frame));
	pthread_join(threads[1], &r[1]);
	CHECK(!r[1]);
	hm_frame_unref(frame);
	pthread_join(threads[0], &r[0]);
	CHECK(!r[0]);
	frame = frame_acquire(pool);
	CHECK_FATAL(!pthread_create(&threads[0], NULL, acquire_late, pool));
	CHECK_FATAL(!pthread_create(&threads[1], NULL, acquire_late, pool));
	CHECK_FATAL(!pthread_create(&threads[2], NULL, take_late, pool));
	usleep(20000);
	CHECK_OK(hm_frame_pool_end(pool));
	for (i = 0; i < 3; i++) {
		pthread_join(threads[i], &r[i]);
		CHECK_EQUAL((intptr_t)r[i], -EPIPE);
	}
	hm_frame_unref(frame);
	hm_frame_pool_unref(pool);
}

/*
 * A frame comes back and ends at once: there is room for another, although none is free. A thread
 * that is about to wait must not miss that.
 */
#define ROUNDS 5000u

struct rounds {
	struct hm_frame_pool *pool;
	pthread_barrier_t barrier;
	uint32_t n;
	uint64_t longest_ns; /* wait of a round */
};

static void *acquire_each_round(void *user)
{
	struct rounds *rounds = user;
	struct hm_frame *frame;
	uint64_t start, ns;
	uint32_t i;

	for (i = 0; i < rounds->n; i++) {
		pthread_barrier_wait(&rounds->barrier);
		start = time_now_ns();
		frame = NULL;
		CHECK_OK(hm_frame_pool_acquire(rounds->pool, 5 * SECOND_NS, &frame));
		ns = time_now_ns() - start;
		rounds->longest_ns = ns > rounds->longest_ns ? ns : rounds->longest_ns;
		hm_frame_unref(frame);
		pthread_barrier_wait(&rounds->barrier);
	}
	return NULL;
}

static void woken_by_room(void)
{
	struct rounds rounds = { .n = test_is_slow() ? ROUNDS / 10 : ROUNDS };
	struct hm_frame *frame;
	volatile uint32_t spin;
	pthread_t thread;
	uint32_t i;

	rounds.pool = frame_pool("host", HM_FRAME_WAIT, 1);
	CHECK_FATAL(!pthread_barrier_init(&rounds.barrier, NULL, 2));
	CHECK_FATAL(!pthread_create(&thread, NULL, acquire_each_round, &rounds));
	for (i = 0; i < rounds.n; i++) {
		frame = frame_acquire(rounds.pool);
		pthread_barrier_wait(&rounds.barrier);
		for (spin = 0; spin < i % 500; spin++)
			;
		hm_frame_unref(frame);
		CHECK_OK(hm_frame_pool_trim(rounds.pool, 0, NULL));
		pthread_barrier_wait(&rounds.barrier);
	}
	pthread_join(thread, NULL);
	CHECK(rounds.longest_ns < 4 * SECOND_NS);
	pthread_barrier_destroy(&rounds.barrier);
	hm_frame_pool_unref(rounds.pool);
}

/* The fence of a frame wakes the thread that waits for the frame, without another call on it. */
static void *signal_late(void *user)
{
	usleep(20000);
	event_signal(*(int *)user);
	return NULL;
}

static void woken_by_fence(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 1);
	struct hm_frame *frame = frame_acquire(pool);
	int event = event_open();
	pthread_t thread;
	struct hm_fence *fence = rig_fence(event);

	CHECK_OK(hm_frame_fence_add(frame, fence, HM_READ));
	hm_fence_unref(fence);
	hm_frame_unref(frame);
	CHECK_FATAL(!pthread_create(&thread, NULL, signal_late, &event));
	CHECK_OK_FATAL(hm_frame_pool_acquire(pool, UINT64_MAX, &frame));
	pthread_join(thread, NULL);
	CHECK(frame_pool_info(pool).waited_ns > 1000000);
	hm_frame_unref(frame);
	close(event);
}

/* A thread that is busy with the look at one frame keeps no other one from the rest. */
static sem_t looks, goes_on;
static _Atomic bool is_stopped;
static int (*real_poll)(struct pollfd *files, nfds_t n_files, int timeout_ms);

static int stopped_poll(struct pollfd *files, nfds_t n_files, int timeout_ms)
{
	if (atomic_exchange(&is_stopped, false)) {
		sem_post(&looks);
		sem_wait(&goes_on);
	}
	return real_poll(files, n_files, timeout_ms);
}

static void *query_there(void *user)
{
	frame_pool_info(user);
	return NULL;
}

static void looked_at(void)
{
	struct hm_frame_pool *pool = frame_pool("host", HM_FRAME_DROP_NEWEST, 3);
	struct hm_frame *frames[3], *got = NULL;
	int event[2] = { event_open(), event_open() };
	pthread_t thread;
	uint32_t i;

	real_poll = sys_table.poll;
	sys_table.poll = stopped_poll;
	CHECK_FATAL(!sem_init(&looks, 0, 0) && !sem_init(&goes_on, 0, 0));
	for (i = 0; i < 3; i++)
		frames[i] = frame_acquire(pool);
	for (i = 0; i < 2; i++) {
		AUTO(hm_fence) *fence = rig_fence(event[i]);

		CHECK_OK(hm_frame_fence_add(frames[i], fence, HM_READ));
		hm_frame_unref(frames[i]);
	}
	event_signal(event[1]);
	is_stopped = true;
	CHECK_FATAL(!pthread_create(&thread, NULL, query_there, pool));
	sem_wait(&looks);
	CHECK_OK(hm_frame_pool_acquire(pool, 0, &got));
	CHECK(got == frames[1]);
	sem_post(&goes_on);
	pthread_join(thread, NULL);
	sys_table.poll = real_poll;
	CHECK(frame_pool_info(pool).busy == 1 && !frame_pool_info(pool).dropped_newest);
	hm_frame_unref(got);
	hm_frame_unref(frames[2]);
	hm_frame_pool_unref(pool);
	for (i = 0; i < 2; i++)
		close(event[i]);
}

static const struct test tests[] = {
	{ .name = "waiting", .run = waiting, .seconds = 60 },
	{ .name = "waiting_for_one", .run = waiting_for_one, .seconds = 60 },
	{ .name = "dropping_oldest", .run = dropping_oldest, .seconds = 60 },
	{ .name = "dropping_newest", .run = dropping_newest, .seconds = 60 },
	{ .name = "with_work", .run = with_work, .seconds = 60 },
	{ .name = "woken", .run = woken },
	{ .name = "woken_by_room", .run = woken_by_room, .seconds = 60 },
	{ .name = "woken_by_fence", .run = woken_by_fence },
	{ .name = "looked_at", .run = looked_at },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "frame_threads", tests)
