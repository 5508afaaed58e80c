// SPDX-License-Identifier: MIT
/*
 * Brackets of a slow device: other users of the buffer do not wait for it, and the segment that
 * the device works on stays until it is done.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "lib/minimal_backend.h"
#include "lib/support.h"
#include "base/sys.h"

#define SIZE (4 * PAGE)
#define MAX_SIZE (64 * PAGE)

/* ---- a device whose begin waits until it is let go ---- */

#define ALIVE 0x616c6976u

/* The object of a segment: freed with it, so that a sanitizer sees a later look. */
struct thing {
	uint32_t alive;
};

static _Atomic unsigned int n_alive, n_begun, n_ended, n_dead;
static _Atomic bool hold;
static sem_t held, let_go;
static struct hm_backend_ops slow_backend;

static int slow_create(void *device, const struct hm_buffer_desc *desc,
		       struct hm_recipe *ret_recipe)
{
	struct thing *thing;
	int r = growing_backend.create(device, desc, ret_recipe);

	if (r)
		return r;
	thing = malloc(sizeof(*thing));
	thing->alive = ALIVE;
	ret_recipe->segment.object = thing;
	ret_recipe->caps |= HM_CAP_BRACKET;
	n_alive++;
	return 0;
}

static void slow_destroy(void *device, struct hm_segment *segment)
{
	struct thing *thing = segment->object;

	thing->alive = 0;
	free(thing);
	n_alive--;
	growing_backend.object_destroy(device, segment);
}

static void look(const struct hm_segment *segments, uint32_t n)
{
	const struct thing *thing;
	uint32_t i;

	for (i = 0; i < n; i++) {
		thing = segments[i].object;
		if (thing->alive != ALIVE || sys_fcntl(segments[i].fd, F_GETFD, 0) < 0)
			n_dead++;
	}
}

/* A few seconds at most: a test that waits for good fails. */
static void wait_for(sem_t *semaphore)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 8;
	if (sem_timedwait(semaphore, &until))
		test_fail(__FILE__, __LINE__, "nobody came: %s", strerror(errno));
}

static int slow_begin(void *device, const struct hm_segment *segments, uint32_t n,
		      uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device, (void)offset, (void)length, (void)access;
	n_begun++;
	look(segments, n);
	if (!atomic_exchange(&hold, false))
		return 0;
	sem_post(&held);
	wait_for(&let_go);
	look(segments, n);
	return 0;
}

static int slow_end(void *device, const struct hm_segment *segments, uint32_t n,
		    uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device, (void)offset, (void)length, (void)access;
	n_ended++;
	look(segments, n);
	return 0;
}

/* ---- a buffer of it, and a thread in a bracket's begin ---- */

struct slow {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	pthread_t thread;
};

static struct slow slow_make(uint64_t max_size)
{
	struct slow slow = { 0 };

	slow_backend = growing_backend;
	slow_backend.name = "slow";
	slow_backend.caps |= HM_CAP_BRACKET | HM_BACKEND_BRACKET_END;
	slow_backend.create = slow_create;
	slow_backend.object_destroy = slow_destroy;
	slow_backend.begin_cpu = slow_begin;
	slow_backend.end_cpu = slow_end;
	n_alive = n_begun = n_ended = n_dead = 0;
	sem_init(&held, 0, 0);
	sem_init(&let_go, 0, 0);
	/* The second round finds it there. */
	CHECK_FATAL(hm_device_open("slow", &slow.device) == 0 ||
		    (hm_backend_register(&slow_backend) == 0 &&
		     hm_device_open("slow", &slow.device) == 0));
	slow.buffer = rig_buffer(slow.device,
				 DESC(hm_buffer_desc, .size = SIZE, .max_size = max_size));
	CHECK_OK_FATAL(hm_map_create(slow.buffer, NULL, &slow.map));
	return slow;
}

static void slow_drop(struct slow *slow)
{
	hm_map_unref(slow->map);
	hm_buffer_unref(slow->buffer);
	hm_device_unref(slow->device);
	CHECK_EQUAL(n_alive, 0);
	CHECK_EQUAL(n_dead, 0);
	sem_destroy(&held);
	sem_destroy(&let_go);
}

AUTO_END(slow, slow_drop)

static void *begin_thread(void *user)
{
	const struct slow *slow = user;

	CHECK_OK(hm_map_begin_cpu(slow->map, 0, SIZE, HM_READ | HM_WRITE));
	return NULL;
}

static void slow_begin_held(struct slow *slow)
{
	hold = true;
	CHECK_FATAL(!pthread_create(&slow->thread, NULL, begin_thread, slow));
	wait_for(&held);
}

static void slow_let_go(struct slow *slow)
{
	sem_post(&let_go);
	pthread_join(slow->thread, NULL);
}

/* ---- tests ---- */

static void nobody_waits(void)
{
	struct hm_map *further;
	AUTO(slow) slow = slow_make(MAX_SIZE);

	slow_begin_held(&slow);
	CHECK_EQUAL(buffer_info(slow.buffer).size, SIZE);
	CHECK_EQUAL(map_info(slow.map, 0).brackets, 1);
	CHECK_OK(hm_map_begin_cpu(slow.map, 0, 1, HM_READ));
	CHECK_OK(hm_map_end_cpu(slow.map, 0, 1, HM_READ));
	CHECK_OK(hm_buffer_resize(slow.buffer, 2 * SIZE, 0));
	CHECK_OK(hm_buffer_resize(slow.buffer, PAGE, 0));
	CHECK_OK_FATAL(hm_map_create(slow.buffer, NULL, &further));
	hm_map_unref(further);
	slow_let_go(&slow);
	/* Most of the range was cut off since the begin: the rest ends. */
	CHECK_OK(hm_map_end_cpu(slow.map, 0, SIZE, HM_READ | HM_WRITE));
	CHECK_ERROR(-ERANGE, hm_map_end_cpu(slow.map, 0, SIZE, HM_READ | HM_WRITE));
	CHECK_ERROR(-EINVAL, hm_map_end_cpu(slow.map, 0, 1, HM_READ));
	CHECK_EQUAL(n_begun, 2);
	CHECK_EQUAL(n_ended, 2);
}

/* The object that it works on is another's place by then, and ends when it is done. */
static void replaced_meanwhile(void)
{
	AUTO(slow) slow = slow_make(MAX_SIZE);

	pattern_write(hm_map_address(slow.map), 0, SIZE, 1);
	slow_begin_held(&slow);
	CHECK_OK(hm_buffer_resize(slow.buffer, 2 * SIZE, HM_GROW_REPLACE));
	CHECK_OK(hm_buffer_resize(slow.buffer, 3 * SIZE, HM_GROW_REPLACE));
	/* The one in between waits for the older one. */
	CHECK_EQUAL(n_alive, 3);
	slow_let_go(&slow);
	CHECK_EQUAL(n_alive, 1);
	CHECK(pattern_holds(hm_map_address(slow.map), 0, SIZE, 1));
	CHECK_OK(hm_map_end_cpu(slow.map, 0, SIZE, HM_READ | HM_WRITE));
}

/* An object that a shrink has emptied: a further one takes its place in the buffer. */
static void appended_meanwhile(void)
{
	AUTO(slow) slow = slow_make(MAX_SIZE);

	CHECK_OK(hm_buffer_resize(slow.buffer, 2 * SIZE, HM_GROW_APPEND));
	CHECK_EQUAL(n_alive, 2);
	slow_begin_held(&slow);
	CHECK_OK(hm_buffer_resize(slow.buffer, 3 * SIZE, HM_GROW_APPEND));
	CHECK_OK(hm_buffer_resize(slow.buffer, SIZE, 0));
	CHECK_OK(hm_buffer_resize(slow.buffer, SIZE + PAGE, 0));
	CHECK_OK(hm_buffer_resize(slow.buffer, SIZE, 0));
	CHECK_OK(hm_buffer_resize(slow.buffer, 1, 0));
	CHECK_OK(hm_buffer_resize(slow.buffer, SIZE, 0));
	CHECK_EQUAL(n_alive, 3);
	CHECK_OK(hm_buffer_resize(slow.buffer, SIZE + PAGE, HM_GROW_REPLACE));
	CHECK_EQUAL(n_alive, 4);
	slow_let_go(&slow);
	CHECK_EQUAL(n_alive, 1);
	CHECK_EQUAL(buffer_info(slow.buffer).segments, 1);
	CHECK_OK(hm_map_end_cpu(slow.map, 0, SIZE, HM_READ | HM_WRITE));
}

#define THREADS 3
#define ROUNDS (TEST_TSAN ? 300 : 1000)

static _Atomic bool stop;

static void *bracket_all_the_time(void *user)
{
	struct hm_map *map = user;

	while (!stop) {
		CHECK_OK(hm_map_begin_cpu(map, 0, PAGE, HM_READ));
		CHECK_OK(hm_map_end_cpu(map, 0, PAGE, HM_READ));
	}
	return NULL;
}

static void many(void)
{
	pthread_t threads[THREADS];
	unsigned int i;
	AUTO(slow) slow = slow_make(MAX_SIZE);

	stop = false;
	for (i = 0; i < THREADS; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, bracket_all_the_time, slow.map));
	for (i = 0; i < ROUNDS; i++) {
		CHECK_OK(hm_buffer_resize(slow.buffer, SIZE, HM_GROW_REPLACE));
		CHECK_OK(hm_buffer_resize(slow.buffer, SIZE + PAGE, HM_GROW_APPEND));
		CHECK_OK(hm_buffer_resize(slow.buffer, SIZE + 2 * PAGE, HM_GROW_APPEND));
		CHECK_OK(hm_buffer_resize(slow.buffer, PAGE, 0));
		CHECK_OK(hm_buffer_resize(slow.buffer, 2 * PAGE, HM_GROW_REPLACE));
	}
	stop = true;
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQUAL(n_alive, 1);
	CHECK_EQUAL(map_info(slow.map, 0).brackets, 0);
}

static void *end_thread(void *user)
{
	_Atomic unsigned int *n_ok = ((void **)user)[1];
	struct hm_map *map = ((void **)user)[0];
	unsigned int i;

	for (i = 0; i < ROUNDS; i++)
		if (!hm_map_end_cpu(map, 0, 1, HM_READ))
			(*n_ok)++;
	return NULL;
}

/* As many ends as begins, from several threads. */
static void ends(void)
{
	_Atomic unsigned int n_ok = 0;
	pthread_t threads[THREADS];
	void *user[2];
	unsigned int i;
	AUTO(slow) slow = slow_make(SIZE);

	user[0] = slow.map;
	user[1] = &n_ok;
	for (i = 0; i < THREADS; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, end_thread, user));
	for (i = 0; i < ROUNDS; i++)
		CHECK_OK(hm_map_begin_cpu(slow.map, 0, 1, HM_READ));
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQUAL(n_ok + map_info(slow.map, 0).brackets, ROUNDS);
	CHECK_EQUAL(n_ended, n_ok);
}

/* ---- memory that CPUs and devices see alike ---- */

static unsigned int n_ioctl;

static int counting_ioctl(int fd, unsigned long cmd, void *argument)
{
	n_ioctl++;
	return ioctl(fd, cmd, argument);
}

static void calls_none(uint32_t flags)
{
	int (*real_ioctl)(int fd, unsigned long cmd, void *argument) = sys_table.ioctl;
	AUTO(rig) r = rig_make("host", DESC(hm_buffer_desc, .size = SIZE, .flags = flags));

	n_ioctl = 0;
	sys_table.ioctl = counting_ioctl;
	CHECK_OK(hm_map_begin_cpu(r.map, 0, SIZE, HM_READ | HM_WRITE));
	CHECK_OK(hm_map_end_cpu(r.map, 0, SIZE, HM_READ | HM_WRITE));
	sys_table.ioctl = real_ioctl;
	CHECK_EQUAL(n_ioctl, 0);
}

static void no_calls(void)
{
	calls_none(0);
	calls_none(HM_BUFFER_PRIVATE);
}

static const struct test tests[] = {
	{ "nobody_waits", nobody_waits, 40, 0 },
	{ "replaced_meanwhile", replaced_meanwhile, 40, 0 },
	{ "appended_meanwhile", appended_meanwhile, 40, 0 },
	{ "many", many, 120, 0 },
	{ "ends", ends, 60, 0 },
	{ "no_calls", no_calls, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "brackets", tests)
