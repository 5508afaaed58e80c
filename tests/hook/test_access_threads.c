// SPDX-License-Identifier: MIT
/* Access hooks while other threads are in calls: set anew, inside themselves, over fork(). */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hook/hook.h"
#include "lib/support.h"

#define THREADS 3
#define SWAPS 3000
#define CALLS (TEST_ASAN || TEST_TSAN ? 20000u : 200000u)

/* ---- set while it is asked ---- */

/* Stays when it is not the hook's any more: a call that comes later finds that out. */
struct policy {
	_Atomic bool gone;
	bool refuses;
};

static _Atomic bool over;
static _Atomic uint64_t all_calls;

static int count(void *user, const struct hm_access_request *request, char *reason)
{
	struct policy *policy = user;

	(void)reason;
	if (atomic_load(&policy->gone) || request->operation != HM_ACCESS_PROTECT)
		test_fail(__FILE__, __LINE__, "called although another is set");
	atomic_fetch_add(&all_calls, 1);
	return policy->refuses ? -EPERM : 0;
}

/* Asks as often as it can, so that hooks are set while a thread is about to enter one. */
static void *keep_asking(void *user)
{
	struct hm_access_request request = { .operation = HM_ACCESS_PROTECT };
	int i, r;

	while (!atomic_load(&over)) {
		for (i = 0; i < 100; i++) {
			r = hook_ask(&request);
			if (r && r != -EPERM)
				test_fail(__FILE__, __LINE__, "%d (%s)", r, hm_errmsg());
		}
		r = hm_map_protect(user, 0, PAGE, HM_READ);
		if (r && r != -EPERM)
			test_fail(__FILE__, __LINE__, "%d (%s)", r, hm_errmsg());
	}
	return NULL;
}

struct subject {
	struct hm_device *device;
	struct hm_map *map[THREADS];
};

static struct subject make(void)
{
	struct subject s = { 0 };
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = PAGE };
	int i;

	CHECK_OK_FATAL(hm_device_open("host", &s.device));
	for (i = 0; i < THREADS; i++) {
		AUTO(hm_buffer) *buffer = rig_buffer(s.device, &desc);
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, &s.map[i]));
	}
	return s;
}

static void drop(struct subject *s)
{
	int i;

	CHECK_OK(hm_access_hook_set(NULL, NULL));
	for (i = 0; i < THREADS; i++)
		hm_map_unref(s->map[i]);
	hm_device_unref(s->device);
}

AUTO_END(subject, drop)

static void swap_many(struct policy *policies)
{
	struct policy *policy, *last = NULL;
	int i;

	for (i = 0; i < SWAPS; i++) {
		policy = i % 5 == 4 ? NULL : &policies[i];
		policies[i] = (struct policy){ .refuses = i % 2 };
		CHECK_OK(hm_access_hook_set(policy ? count : NULL, policy));
		if (last)
			atomic_store(&last->gone, true);
		last = policy;
	}
	CHECK_OK(hm_access_hook_set(NULL, NULL));
}

static void swapped(void)
{
	AUTO_FREE struct policy *policies = calloc(SWAPS, sizeof(*policies));
	pthread_t threads[THREADS];
	struct subject s;
	int i;

	CHECK_FATAL(policies != NULL);
	atomic_store(&all_calls, 0);
	s = make();
	atomic_store(&over, false);
	for (i = 0; i < THREADS; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, keep_asking, s.map[i]));
	/* Enough calls that the threads are in the midst of them, however busy the machine is. */
	while (atomic_load(&all_calls) < CALLS)
		swap_many(policies);
	atomic_store(&over, true);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	drop(&s);
}

static int allow(void *user, const struct hm_access_request *request, char *reason)
{
	(void)user, (void)request, (void)reason;
	return 0;
}

static void *keep_setting(void *user)
{
	int i;

	(void)user;
	for (i = 0; i < SWAPS; i++)
		if (hm_access_hook_set(i % 3 ? allow : NULL, &over))
			test_fail(__FILE__, __LINE__, "setting a hook failed");
	return NULL;
}

/* Several set at once, too. */
static void set_by_many(void)
{
	pthread_t asking, threads[THREADS];
	int i;
	AUTO(subject) s = make();

	atomic_store(&over, false);
	CHECK_FATAL(!pthread_create(&asking, NULL, keep_asking, s.map[0]));
	for (i = 0; i < THREADS; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, keep_setting, NULL));
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&over, true);
	pthread_join(asking, NULL);
}

/* ---- a hook that takes its time ---- */

static _Atomic int stage; /* 1: in the hook; 2: it may go on; 3: it has returned */

static int slow(void *user, const struct hm_access_request *request, char *reason)
{
	(void)user, (void)request, (void)reason;
	atomic_store(&stage, 1);
	while (atomic_load(&stage) == 1)
		usleep(1000);
	atomic_store(&stage, 3);
	return 0;
}

static void *ask_once(void *user)
{
	CHECK_EQUAL(hm_map_protect(user, 0, PAGE, HM_READ), 0);
	return NULL;
}

static void *let_go(void *user)
{
	(void)user;
	usleep(50000);
	atomic_store(&stage, 2);
	return NULL;
}

static void await_hook(void)
{
	while (!atomic_load(&stage))
		usleep(1000);
}

static void waited_for(void)
{
	pthread_t asking, timer;
	AUTO(subject) s = make();

	atomic_store(&stage, 0);
	CHECK_OK(hm_access_hook_set(slow, NULL));
	CHECK_FATAL(!pthread_create(&asking, NULL, ask_once, s.map[0]));
	await_hook();
	/* The hook delays no other thread: this one asks the same hook, and returns ... */
	CHECK_FATAL(!pthread_create(&timer, NULL, let_go, NULL));
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	/* ... and setting another hook returns when the call is over. */
	CHECK_EQUAL(atomic_load(&stage), 3);
	pthread_join(timer, NULL);
	pthread_join(asking, NULL);
}

/* ---- a hook that calls the library ---- */

struct inner {
	struct hm_map *map;
	unsigned int n;
	int r_set, r_open, r_protect, r_find;
};

static int calling(void *user, const struct hm_access_request *request, char *reason)
{
	struct hm_pointer_info info;
	struct inner *inner = user;
	struct hm_device *device;

	(void)request, (void)reason;
	inner->n++;
	inner->r_set = hm_access_hook_set(NULL, NULL);
	inner->r_open = hm_device_open("host", &device);
	if (!inner->r_open)
		hm_device_unref(device);
	inner->r_find = hm_pointer_find(hm_map_address(inner->map), &info);
	/* The very map that is asked about: no lock of it is held. */
	inner->r_protect = hm_map_protect(inner->map, 0, PAGE, HM_READ);
	/* The hook's own error text is not the call's. */
	hm_device_open("nonsense", &device);
	return 0;
}

static void inside(void)
{
	struct inner inner = { .n = 0 };
	struct hm_device *device;
	AUTO(subject) s = make();

	inner.map = s.map[0];
	CHECK_OK(hm_access_hook_set(calling, &inner));
	CHECK_OK(hm_map_protect(s.map[0], 0, PAGE, HM_READ | HM_WRITE));
	CHECK_EQUAL(map_info(s.map[0], 0).access, HM_READ | HM_WRITE);
	CHECK_EQUAL(inner.n, 1); /* its own calls were not asked about */
	CHECK_EQUAL(inner.r_set, -EDEADLK);
	CHECK_EQUAL(inner.r_open, 0);
	CHECK_EQUAL(inner.r_find, 0);
	CHECK_EQUAL(inner.r_protect, 0);
	CHECK_OK(hm_device_open("host", &device));
	CHECK(!strcmp(hm_errmsg(), ""));
	hm_device_unref(device);
	CHECK_EQUAL(inner.n, 2);
}

/* A view's callback holds locks: forbidden calls fail before a hook is asked. */
struct callback {
	struct hm_buffer *buffer;
	int r;
};

static int on_quiesce(void *user, const struct hm_view_change *change)
{
	struct callback *callback = user;

	(void)change;
	callback->r = hm_buffer_resize(callback->buffer, 2 * PAGE, 0);
	return 0;
}

static _Atomic unsigned int resizes;

static int count_resizes(void *user, const struct hm_access_request *request, char *reason)
{
	(void)user, (void)reason;
	resizes += request->operation == HM_ACCESS_RESIZE;
	return 0;
}

static void in_callback(void)
{
	static const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.quiesce = on_quiesce,
	};
	struct callback callback = { .r = 0 };
	AUTO(subject) s = make();
	AUTO(hm_view) *view = NULL;

	resizes = 0;
	callback.buffer =
		rig_buffer(s.device, DESC(hm_buffer_desc, .size = PAGE, .max_size = 4 * PAGE));
	AUTO(hm_map) *map = rig_map(callback.buffer, NULL);
	CHECK_OK_FATAL(hm_view_create(map, 0, 0, &ops, &callback, &view));
	CHECK_OK(hm_access_hook_set(count_resizes, NULL));
	CHECK_OK(hm_buffer_resize(callback.buffer, 3 * PAGE, 0));
	CHECK_EQUAL(callback.r, -EDEADLK);
	CHECK_EQUAL(resizes, 1);
	hm_buffer_unref(callback.buffer);
}

/* ---- fork ---- */

static int refuse_open(void *user, const struct hm_access_request *request, char *reason)
{
	(void)user, (void)reason;
	return request->operation == HM_ACCESS_OPEN ? -EPERM : 0;
}

static void child(void *user)
{
	struct hm_access_counters counters = { .struct_size = sizeof(counters) };
	AUTO(hm_device) *device = NULL;

	(void)user;
	CHECK_ERROR(-EPERM, hm_device_open("host", &device));
	CHECK_OK(hm_access_query(&counters));
	CHECK_EQUAL(counters.refused[HM_ACCESS_OPEN], 1);
	/* The parent's other thread was in the last hook: no thread is here. */
	CHECK_OK(hm_access_hook_set(allow, NULL));
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	CHECK_OK_FATAL(hm_device_open("host", &device));
}

static void inherited(void)
{
	AUTO(subject) s = make();

	CHECK_OK(hm_access_hook_set(refuse_open, NULL));
	CHECK_EQUAL(test_fork(child, NULL), 0);
}

static void busy_child(void *user)
{
	struct hm_device *device;

	(void)user;
	CHECK_OK(hm_access_hook_set(refuse_open, NULL));
	CHECK_ERROR(-EPERM, hm_device_open("host", &device));
	CHECK_OK(hm_access_hook_set(NULL, NULL));
}

static void *set_none(void *user)
{
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	atomic_store((_Atomic bool *)user, true);
	return NULL;
}

/* With one thread in the hook, and another that waits for it. */
static void forked_under_way(void)
{
	pthread_t asking, setting;
	_Atomic bool set = false;
	AUTO(subject) s = make();

	atomic_store(&stage, 0);
	CHECK_OK(hm_access_hook_set(slow, NULL));
	CHECK_FATAL(!pthread_create(&asking, NULL, ask_once, s.map[0]));
	await_hook();
	CHECK_EQUAL(test_fork(busy_child, NULL), 0);
	CHECK_FATAL(!pthread_create(&setting, NULL, set_none, &set));
	usleep(20000);
	CHECK_EQUAL(test_fork(busy_child, NULL), 0);
	CHECK(!atomic_load(&set));
	atomic_store(&stage, 2);
	pthread_join(asking, NULL);
	pthread_join(setting, NULL);
}

/* In the hook itself: the child's end of it may be left, and another set then. */
static int forking(void *user, const struct hm_access_request *request, char *reason)
{
	(void)request, (void)reason;
	*(pid_t *)user = fork();
	return 0;
}

static void forked_inside(void)
{
	int status = -1;
	pid_t pid = -1;
	AUTO(subject) s = make();

	CHECK_OK(hm_access_hook_set(forking, &pid));
	hm_map_protect(s.map[0], 0, PAGE, HM_READ);
	CHECK_FATAL(pid >= 0);
	if (!pid)
		_exit(hm_access_hook_set(NULL, NULL) ? 1 : 42);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

static const struct test tests[] = {
	{ "swapped", swapped, 60, 0 },
	{ "set_by_many", set_by_many, 60, 0 },
	{ "waited_for", waited_for, 0, 0 },
	{ "inside", inside, 0, 0 },
	{ "in_callback", in_callback, 0, 0 },
	{ "inherited", inherited, 0, 0 },
	{ "forked_under_way", forked_under_way, 0, 0 },
	{ "forked_inside", forked_inside, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "access_threads", tests)
