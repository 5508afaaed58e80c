// SPDX-License-Identifier: MIT
/* The simulated devices under several threads at once, and taken away from under them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/sim_devices.h"

static _Atomic bool stop, failed;

/* A map's pages are replaced under it, which to a race detector is another's store. */
static __attribute__((no_sanitize("thread"), noinline)) void touch(volatile char *byte)
{
	*byte = 1;
	(void)*byte;
}

/* ---- bytes that the library itself touches ---- */

static void *replacer(void *user)
{
	struct hm_buffer *buffer = user;
	uint64_t size = MIB(4);
	int r = 0;

	while (!stop && !r) {
		size = size == MIB(4) ? MIB(4) + PAGE : MIB(4);
		r = hm_buffer_resize(buffer, size, size > MIB(4) ? HM_GROW_REPLACE : 0);
	}
	failed = failed || (r && r != -ENODEV);
	return NULL;
}

/* Only the library has mapped the buffer, and copies its bytes. */
static void test_unplug_while_replaced(void)
{
	pthread_t thread;
	int rounds = 40;

	failed = false;
	while (rounds--) {
		AUTO(hm_device) *device = sim_open();
		AUTO(hm_buffer) *buffer = sim_make(device, MIB(4), MIB(8), NULL);
		stop = false;
		CHECK_FATAL(!pthread_create(&thread, NULL, replacer, buffer));
		usleep(2000 + 373 * (unsigned int)rounds);
		if (!sim_unplug(device))
			rounds = 0;
		else
			sim_plug();
		stop = true;
		pthread_join(thread, NULL);
		CHECK(!failed);
	}
}

/*
 * ---- bytes that a system call reads, as a copy to another device does ----
 *
 * For a race detector: /dev/null itself looks at none.
 */

static void *reader(void *user)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	while (!stop)
		failed = failed || write(fd, user, PAGE) != (ssize_t)PAGE;
	close(fd);
	return NULL;
}

static void test_unplug_while_read(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, PAGE, 0, &map);
	pthread_t thread;

	stop = false;
	failed = false;
	CHECK_FATAL(!pthread_create(&thread, NULL, reader, hm_map_address(map)));
	usleep(2000);
	if (sim_unplug(device)) {
		usleep(2000);
		sim_plug();
	}
	stop = true;
	pthread_join(thread, NULL);
	CHECK(!failed);
}

/* ---- shrinking that is refused ---- */

static void *watcher(void *user)
{
	const volatile char *byte = user;

	while (!stop)
		failed = failed || *byte != 7;
	return NULL;
}

/* A holder of the exported buffer keeps all of its bytes, at all times. */
static void test_refused_shrink(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, 2 * PAGE, 0, &map);
	char *base = hm_map_address(map);
	pthread_t thread;
	int fd, i;

	memset(base, 7, 2 * PAGE);
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	stop = false;
	failed = false;
	CHECK_FATAL(!pthread_create(&thread, NULL, watcher, base + 200));
	for (i = 0; i < 2000; i++)
		CHECK_ERROR(-EBUSY, hm_buffer_resize(buffer, 100, 0));
	stop = true;
	pthread_join(thread, NULL);
	CHECK(!failed);
	close(fd);
}

/* ---- everything at once ---- */

struct actor {
	const char *name; /* the device's */
	uint64_t state;   /* for test_random() */
	unsigned int n;   /* rounds that came to their end */
};

/* Errors of a device that is taken away, or shared with others. */
static void check_result(int r)
{
	if (r && r != -ENODEV && r != -EBUSY && r != -ENOSPC && r != -ENOENT) {
		test_fail(__FILE__, __LINE__, "%d: %s", r, hm_errmsg());
		failed = true;
	}
}

static struct hm_kernel *fill_kernel(void)
{
	static const struct hm_engine_step step = {
		HM_ENGINE_FILL, 0, HM_ENGINE_NONE, HM_ENGINE_NONE, 1, 2, 0
	};
	struct hm_kernel *kernel = NULL;

	check_result(hm_kernel_create(DESC(hm_kernel_desc, .name = "fill",
					   .signature = "out u64 u32", .engine = &step,
					   .n_engine = 1),
				      &kernel));
	return kernel;
}

static void wait_by_fd(struct hm_fence *fence)
{
	struct pollfd file = { .events = POLLIN };
	int r = hm_fence_fd(fence, &file.fd);

	check_result(r);
	if (r)
		return;
	if (poll(&file, 1, 10000) != 1) {
		test_fail(__FILE__, __LINE__, "a descriptor of a fence that nobody fills");
		failed = true;
	}
	close(file.fd);
}

static void compute(struct actor *actor, struct hm_queue *queue, struct hm_kernel *kernel,
		    char *bytes)
{
	uint64_t length = PAGE + 64 * (test_random(&actor->state) % 64);
	struct hm_fence *fence = NULL;
	unsigned int n = 1 + test_random(&actor->state) % 4;
	int r;

	while (n--) {
		if (test_random(&actor->state) % 4)
			r = hm_launch(queue, kernel, 1, &fence,
				      HM_RANGE(bytes, length, HM_WRITE), HM_U64(length),
				      HM_U32(n));
		else
			r = hm_queue_copy(queue, bytes + 4 * PAGE, bytes + 1, length - 3,
					  &fence);
		check_result(r);
		if (r)
			continue;
		if (test_random(&actor->state) % 2)
			wait_by_fd(fence);
		if (test_random(&actor->state) % 2)
			r = hm_fence_wait(fence, 10000000000);
		if (r == -ETIME) {
			test_fail(__FILE__, __LINE__, "work that does not end");
			failed = true;
		}
		hm_fence_unref(fence);
	}
}

static void work(struct actor *actor, struct hm_device *device)
{
	const struct hm_accel_desc desc = {
		sizeof(desc),
		test_random(&actor->state) % 3 ? 0 : HM_ACCEL_FORCE_COPY,
		0,
	};
	struct hm_kernel *kernel = fill_kernel();
	struct hm_accel *accel = NULL;
	struct hm_queue *queue = NULL;
	char *bytes = NULL;
	int r = hm_accel_open(actor->name, &desc, &accel);

	if (!r)
		r = hm_queue_create(accel, 0, &queue);
	if (!r)
		r = hm_alloc(device, 16 * PAGE, HM_READ | HM_WRITE, &bytes);
	check_result(r);
	if (!r) {
		compute(actor, queue, kernel, bytes);
		touch(bytes + PAGE);
	}
	if (test_random(&actor->state) % 2) {
		hm_free(bytes);
		bytes = NULL;
	}
	hm_queue_unref(queue);
	hm_accel_unref(accel);
	hm_kernel_unref(kernel);
	if (bytes)
		hm_free(bytes);
}

static void change(struct actor *actor, struct hm_device *device)
{
	static const uint32_t flags[] = { 0, HM_MAY_MOVE, HM_GROW_REPLACE, HM_GROW_APPEND };
	AUTO(hm_buffer) *buffer = NULL;
	AUTO(hm_buffer) *again = NULL;
	AUTO(hm_map) *map = NULL;
	AUTO(hm_map) *other = NULL;
	unsigned int n = test_random(&actor->state) % 6;
	int r, fd;

	r = hm_buffer_create(
		device, DESC(hm_buffer_desc, .size = 4 * PAGE, .max_size = 32 * PAGE), &buffer);
	check_result(r);
	if (r)
		return;
	r = hm_map_create(buffer, NULL, &map);
	while (n-- && !r) {
		touch(hm_map_address(map));
		r = hm_buffer_resize(buffer, 1 + test_random(&actor->state) % (40 * PAGE),
				     flags[test_random(&actor->state) % 4]);
		check_result(r);
		r = r == -ENODEV ? r : 0;
	}
	if (!r && !hm_buffer_export(buffer, 0, &fd)) {
		r = hm_buffer_import(device, fd, NULL, &again);
		check_result(r);
		if (!r)
			check_result(hm_map_create(again, NULL, &other));
		close(fd);
	}
	if (other)
		touch(hm_map_address(other));
}

static void *actor_main(void *user)
{
	struct actor *actor = user;
	struct hm_device *device;
	unsigned int n;
	int r;

	while (!stop) {
		r = hm_device_open(actor->name, &device);
		if (r) {
			check_result(r);
			continue;
		}
		for (n = test_random(&actor->state) % 8; n && !stop; n--)
			if (test_random(&actor->state) % 2)
				work(actor, device);
			else
				change(actor, device);
		hm_device_unref(device);
		actor->n++;
	}
	return NULL;
}

/* Drops the objects of its parent, and begins anew. */
static void child(struct actor *actor, struct hm_device *device)
{
	char *bytes;
	int r;

	alarm(10);
	hm_device_unref(device);
	/* A sanitizer's allocator may be locked by a thread that is not there. */
	if (TEST_ASAN || TEST_TSAN)
		_exit(0);
	/* The module's device is the parent's too, and may be away just now. */
	r = hm_device_open(actor->name, &device);
	if (!r)
		r = hm_alloc(device, PAGE, HM_READ | HM_WRITE, &bytes);
	if (r)
		_exit(r != -ENODEV);
	touch(bytes);
	hm_free(bytes);
	hm_device_unref(device);
	_exit(0);
}

static void *forker(void *user)
{
	struct actor *actor = user;
	struct hm_device *device;
	int status;
	pid_t pid;

	while (!stop) {
		if (hm_device_open(actor->name, &device))
			continue;
		pid = fork();
		if (!pid)
			child(actor, device);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			test_fail(__FILE__, __LINE__, "a child ended with 0x%x", status);
			failed = true;
		}
		hm_device_unref(device);
		actor->n++;
		usleep(5000);
	}
	return NULL;
}

#define ACTORS 4

static void test_churn(void)
{
	const struct timespec pause = { .tv_nsec = 7000000 };
	struct actor actors[ACTORS];
	pthread_t threads[ACTORS];
	struct hm_device *device;
	uint64_t state = test_seed();
	int i, rounds;

	stop = false;
	failed = false;
	for (i = 0; i < ACTORS; i++) {
		actors[i] = (struct actor){ sim_device(), state + (uint64_t)i, 0 };
		CHECK_FATAL(!pthread_create(&threads[i], NULL, i ? actor_main : forker,
					    &actors[i]));
	}
	for (rounds = 0; rounds < 200 && !failed; rounds++) {
		nanosleep(&pause, NULL);
		if (hm_device_open(sim_device(), &device))
			continue;
		if (test_random(&state) % 8) {
			sim_inject(device, HETSIM_INJECT_RESET, 0, 0);
		} else if (!sim_unplug(device)) {
			rounds = 200;
		} else {
			nanosleep(&pause, NULL);
			sim_plug();
		}
		hm_device_unref(device);
	}
	stop = true;
	for (i = 0; i < ACTORS; i++) {
		pthread_join(threads[i], NULL);
		CHECK(actors[i].n > 0);
	}
	CHECK(!failed);
}

/* ---- one buffer, two maps ---- */

/* Source and destination share bytes, which their addresses do not show: refused, nothing moved. */
static void test_aliased_copy(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, 16 * PAGE, 0, &map);
	struct hm_fence *fence = NULL;
	char *from = hm_map_address(map), *to;
	AUTO(hm_map) *other = rig_map(buffer, NULL);
	AUTO(hm_accel) *accel = rig_accel(sim_device(), NULL);
	AUTO(hm_queue) *queue = rig_queue(accel, 0);

	to = hm_map_address(other);
	memset(from, 7, 16 * PAGE);
	from[64] = 8;
	CHECK_ERROR(-EINVAL, hm_queue_copy(queue, to + 64, from, 12 * PAGE, &fence));
	CHECK(!fence && from[64] == 8);
}

/* ---- many maps ---- */

#define MANY 3000

/* Each buffer of the twin is a file. */
static void allow_files(void)
{
	struct rlimit limit;

	CHECK_FATAL(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max;
	CHECK_FATAL(!setrlimit(RLIMIT_NOFILE, &limit));
	CHECK_FATAL(limit.rlim_cur > MANY + 100);
}

/* Each map is looked at once, not once for each buffer. */
static void test_unplug_many(void)
{
	static struct hm_buffer *buffers[MANY];
	static struct hm_map *maps[MANY];
	AUTO(hm_device) *device = sim_open();
	int i;

	allow_files();
	for (i = 0; i < MANY; i++) {
		buffers[i] = sim_make(device, PAGE, 0, &maps[i]);
		*(char *)hm_map_address(maps[i]) = 1;
	}
	if (sim_unplug(device)) {
		sim_plug();
		for (i = 0; i < MANY; i++)
			CHECK(!*(char *)hm_map_address(maps[i]));
	}
	for (i = 0; i < MANY; i++) {
		hm_map_unref(maps[i]);
		hm_buffer_unref(buffers[i]);
	}
}

static const struct sim_case cases[] = {
	{ "aliased_copy", test_aliased_copy },
	{ "churn", test_churn },
	{ "refused_shrink", test_refused_shrink },
	{ "unplug_many", test_unplug_many },
	{ "unplug_while_replaced", test_unplug_while_replaced },
	{ "unplug_while_read", test_unplug_while_read },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "soft_stress", cases)
