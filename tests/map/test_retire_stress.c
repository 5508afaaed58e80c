// SPDX-License-Identifier: MIT
/*
 * Retirement under load, and in any order: 40,000 cycles within bounds; references to
 * everything there is, dropped in random order by several threads; drops inside hooks
 * and callbacks; at exit; and where no thread can be started.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <urcu/urcu-bp.h>

#include "accel/accel_support.h"
#include "drm/drm_support.h"
#include "accel/engine_support.h"
#include "lib/leaving.h"
#include "map/retire_support.h"
#include "lib/sim_devices.h"
#include "base/util.h"

#define SIZE (4 * PAGE)

/* ---- without a thread ---- */

/* A stack for which there is no room: the next thread can't be started. */
static void refuse_threads(pthread_attr_t *usual)
{
	pthread_attr_t huge;

	CHECK_FATAL(!pthread_getattr_default_np(usual));
	CHECK_FATAL(!pthread_attr_init(&huge));
	CHECK_FATAL(!pthread_attr_setstacksize(&huge, (size_t)1 << 48));
	CHECK_FATAL(!pthread_setattr_default_np(&huge));
	pthread_attr_destroy(&huge);
}

static void allow_threads(pthread_attr_t *usual)
{
	CHECK_FATAL(!pthread_setattr_default_np(usual));
	pthread_attr_destroy(usual);
}

/* The thread is there before anything is promised: nobody's section ends too early. */
static void without_thread(void)
{
	const struct hm_retire_desc desc = { .struct_size = sizeof(desc),
					     .flags = HM_RETIRE_DEFER };
	unsigned char present;
	struct hm_map *map;
	pthread_attr_t usual;
	char *address;
	AUTO(hm_device) *device = rig_device("host");

	refuse_threads(&usual);
	CHECK_ERROR(-EAGAIN, hm_retire_set(&desc));
	CHECK(text_has("RLIMIT_NPROC"));
	/* As before: in place. */
	map = lone_map(device, SIZE);
	address = hm_map_address(map);
	hm_map_unref(map);
	CHECK(mincore(address, PAGE, &present));
	allow_threads(&usual);
	CHECK_OK(hm_retire_set(&desc));
	/* Later no thread can be started. */
	refuse_threads(&usual);
	map = lone_map(device, SIZE);
	address = hm_map_address(map);
	urcu_bp_read_lock();
	hm_map_unref(map);
	CHECK(!mincore(address, PAGE, &present));
	urcu_bp_read_unlock();
	CHECK_OK(hm_retire_flush());
	CHECK(mincore(address, PAGE, &present));
	allow_threads(&usual);
	CHECK_OK(hm_retire_set(NULL));
}

/* HETMAP_RETIRE asks for it when a device is opened, until it has it. */
static void environment_without_thread(void)
{
	struct hm_device *device = NULL;
	pthread_attr_t usual;

	setenv("HETMAP_RETIRE", "16", 1);
	refuse_threads(&usual);
	CHECK_ERROR(-EAGAIN, hm_device_open("host", &device));
	CHECK(!device);
	allow_threads(&usual);
	CHECK_OK_FATAL(hm_device_open("host", &device));
	hm_map_unref(lone_map(device, SIZE));
	CHECK(stats_now().retired);
	CHECK_OK(hm_retire_set(NULL));
	hm_device_unref(device);
	unsetenv("HETMAP_RETIRE");
}

/* ---- churn ---- */

#define CYCLES (TEST_ASAN || TEST_TSAN ? 4000u : 40000u)
/* The module's rounds in emulated machines come from HETMAP_ROUNDS: 400 rounds are all. */
#define CYCLES_A_ROUND 100u
#define OBJECTS 64
#define BYTES (OBJECTS * SIZE / 2)
#define THREADS_MAX 4

struct churn {
	struct hm_device *device;
	unsigned int cycles;
};

static void check_bounds(void)
{
	struct hm_stats now = stats_now();

	if (now.backlog > OBJECTS || now.backlog_bytes > BYTES)
		test_fail(__FILE__, __LINE__, "backlog %" PRIu64 ", %" PRIu64 " bytes",
			  now.backlog, now.backlog_bytes);
}

static void *cycle(void *user)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE };
	struct churn *churn = user;
	struct hm_buffer *buffer;
	struct hm_map *map;
	unsigned int i;
	int r;

	for (i = 0; i < churn->cycles; i++) {
		r = hm_buffer_create(churn->device, &desc, &buffer);
		if (!r)
			r = hm_map_create(buffer, NULL, &map);
		if (r) {
			test_fail(__FILE__, __LINE__, "%d: %s", r, hm_errmsg());
			break;
		}
		*(char *)hm_map_address(map) = 1;
		/* The map's reference is the last one, or the buffer's. */
		if (i % 2)
			hm_buffer_unref(buffer);
		hm_map_unref(map);
		if (!(i % 2))
			hm_buffer_unref(buffer);
		check_bounds();
	}
	return NULL;
}

static void churn_by(struct churn *churn, unsigned int n_thread)
{
	pthread_t thread[THREADS_MAX];
	unsigned int i;

	for (i = 0; i < n_thread; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, cycle, churn));
	for (i = 0; i < n_thread; i++)
		pthread_join(thread[i], NULL);
	CHECK_OK(hm_retire_flush());
	CHECK_EQUAL(stats_now().backlog, 0);
	CHECK_EQUAL(stats_now().backlog_bytes, 0);
}

static void churn_with(const char *name, unsigned int cycles, unsigned int n_thread)
{
	struct churn churn = { .cycles = cycles / 10 };
	uint64_t before, after, retired, in_place, gone;

	CHECK_OK_FATAL(hm_device_open(name, &churn.device));
	defer(OBJECTS, BYTES);
	/* Stacks, arenas and slabs are there once. */
	churn_by(&churn, n_thread);
	before = test_status_bytes("VmRSS");
	retired = stats_now().retired;
	in_place = stats_now().retired_in_place;
	churn.cycles = cycles / n_thread;
	churn_by(&churn, n_thread);
	after = test_status_bytes("VmRSS");
	if (!TEST_ASAN && !TEST_TSAN && after >= before + MIB(1))
		test_fail(__FILE__, __LINE__, "resident set from %" PRIu64 " to %" PRIu64,
			  before, after);
	/* Every map went one way or the other; buffers may have gone with theirs. */
	gone = stats_now().retired + stats_now().retired_in_place - retired - in_place;
	CHECK(gone >= cycles && gone <= cycles * 3 / 2);
	CHECK(stats_now().retired > retired);
	defer(0, 0);
	/* The bytes that the driver counts for this opener. */
	if (strchr(name, ':'))
		CHECK_EQUAL(sim_query(churn.device).opener_used, 0);
	hm_device_unref(churn.device);
}

static void churn_alone(void)
{
	churn_with("host", CYCLES, 1);
}

static void churn_threads(void)
{
	churn_with("host", CYCLES, THREADS_MAX);
}

static void churn_soft(void)
{
	setenv("HETMAP_SOFT", "vram_mb=16 test=1", 1);
	churn_with("soft:0", CYCLES, THREADS_MAX);
}

static void churn_sim(void)
{
	const char *text = getenv("HETMAP_ROUNDS");
	unsigned long rounds = text ? strtoul(text, NULL, 10) : 40;

	churn_with("sim:0", (unsigned int)min_u64(CYCLES, rounds * CYCLES_A_ROUND),
		   THREADS_MAX);
}

/* ---- any order ---- */

#define WORLDS (TEST_ASAN || TEST_TSAN ? 20 : 60)
#define REFS_MAX 64
#define DROPPERS 3

/* A reference, and its release. */
struct ref {
	void *object;
	void (*unref)(void *object);
};

#define DROP(noun)                            \
	static void drop_##noun(void *object) \
	{                                     \
		hm_##noun##_unref(object);    \
	}
DROP(device)
DROP(buffer)
DROP(map)
DROP(view)
DROP(accel)
DROP(kernel)
DROP(queue)
DROP(fence)

struct world {
	struct ref ref[REFS_MAX];
	unsigned int n;
	_Atomic unsigned int next;
};

static void hold(struct world *world, void *object, void (*unref)(void *object))
{
	CHECK_FATAL(world->n < REFS_MAX);
	world->ref[world->n++] = (struct ref){ object, unref };
}

static int agree(void *user, const struct hm_view_change *change)
{
	(void)user, (void)change;
	return 0;
}

static const struct hm_view_ops agreeing = { .struct_size = sizeof(agreeing),
					     .quiesce = agree };

static void add_maps(struct world *world, struct hm_buffer *buffer, uint64_t *state,
		     struct hm_map **ret_map)
{
	struct hm_view *view;
	struct hm_map *map;
	unsigned int i;

	for (i = 0; i < 1 + test_random(state) % 2; i++) {
		if (hm_map_create(buffer, NULL, &map))
			break; /* one is all there may be */
		hold(world, map, drop_map);
		*ret_map = map;
		if (!hm_view_create(map, 0, 0, &agreeing, NULL, &view))
			hold(world, view, drop_view);
		if (test_random(state) % 3 == 0)
			hold(world, hm_map_ref(map), drop_map);
		/* Some are locked, and so go in place. */
		if (test_random(state) % 4 == 0)
			hm_map_lock(map, 0, PAGE, HM_LOCK_PARTIAL, NULL);
	}
}

/* Work on a map, whose end may come after every reference to it is gone. */
static void add_work(struct world *world, const char *name, struct hm_map *map)
{
	struct hm_accel *accel;
	struct hm_kernel *kernel;
	struct hm_queue *queue;
	struct hm_fence *fence;

	if (hm_accel_open(name, NULL, &accel))
		return;
	hold(world, accel, drop_accel);
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
	hold(world, queue, drop_queue);
	kernel = kernel_of_fill();
	hold(world, kernel, drop_kernel);
	if (!map ||
	    hm_launch(queue, kernel, 1, &fence, HM_RANGE(hm_map_address(map), PAGE, HM_WRITE),
		      HM_U64(PAGE), HM_U32(7)))
		return;
	hold(world, fence, drop_fence);
}

static void shuffle(struct world *world, uint64_t *state)
{
	unsigned int i, other;
	struct ref ref;

	for (i = world->n; i > 1; i--) {
		other = test_random(state) % i;
		ref = world->ref[i - 1];
		world->ref[i - 1] = world->ref[other];
		world->ref[other] = ref;
	}
}

static void *drop_some(void *user)
{
	struct world *world = user;
	unsigned int i;

	while ((i = atomic_fetch_add(&world->next, 1)) < world->n)
		world->ref[i].unref(world->ref[i].object);
	return NULL;
}

static void one_world(const char *device_name, const char *accel, uint64_t *state)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE };
	struct world world = { .n = 0 };
	pthread_t thread[DROPPERS];
	struct hm_buffer *buffer;
	struct hm_device *device;
	struct hm_map *map = NULL;
	unsigned int i;

	CHECK_OK_FATAL(hm_device_open(device_name, &device));
	hold(&world, device, drop_device);
	for (i = 0; i < 3; i++) {
		CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
		hold(&world, buffer, drop_buffer);
		add_maps(&world, buffer, state, &map);
	}
	if (accel)
		add_work(&world, accel, map);
	shuffle(&world, state);
	for (i = 0; i < DROPPERS; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, drop_some, &world));
	for (i = 0; i < DROPPERS; i++)
		pthread_join(thread[i], NULL);
}

static void any_order(void)
{
	static const struct {
		const char *device, *accel;
	} where[] = {
		{ "host", NULL },
		{ "soft:0", "soft:0" },
		{ "counted", NULL },
		{ "soft:0", NULL },
	};
	_Atomic int *objects = counted_objects();
	uint64_t state = test_seed();
	int i;

	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=16", 1);
	for (i = 0; i < WORLDS; i++) {
		/* Much, little, and no room. */
		defer(i % 3 ? (uint64_t)1 << (i % 3 * 2) : 0, MIB(1));
		one_world(where[i % 4].device, where[i % 4].accel, &state);
		CHECK_OK(hm_retire_flush());
	}
	defer(0, 0);
	CHECK_EQUAL(*objects, 0);
	CHECK_EQUAL(stats_now().maps, 0);
	CHECK_EQUAL(stats_now().views, 0);
	CHECK_EQUAL(stats_now().buffers, 0);
	CHECK_EQUAL(stats_now().devices, 0);
	CHECK_EQUAL(stats_now().bytes_reserved, 0);
}

/* ---- inside callbacks ---- */

struct inside {
	struct hm_map *map[3];
	struct hm_buffer *buffer;
	struct hm_view *view;
};

/* Everything that is not the map under change, and the view that is asked. */
static int drop_inside(void *user, const struct hm_view_change *change)
{
	struct inside *inside = user;
	int i;

	(void)change;
	for (i = 0; i < 3; i++)
		hm_map_unref(inside->map[i]);
	hm_buffer_unref(inside->buffer);
	hm_view_unref(inside->view);
	memset(inside, 0, sizeof(*inside));
	return 0;
}

static int drop_in_hook(void *user, const struct hm_access_request *request, char *reason)
{
	struct inside *inside = user;
	int i;

	(void)request, (void)reason;
	for (i = 0; i < 3; i++) {
		hm_map_unref(inside->map[i]);
		inside->map[i] = NULL;
	}
	return 0;
}

static void callbacks_with(struct hm_device *device)
{
	static const struct hm_view_ops ops = { .struct_size = sizeof(ops),
						.quiesce = drop_inside };
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE };
	struct inside inside;
	int i;
	struct hm_map *map = lone_map(device, SIZE);

	for (i = 0; i < 3; i++)
		inside.map[i] = lone_map(device, SIZE);
	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &inside.buffer));
	CHECK_OK_FATAL(hm_view_create(map, 0, 0, &ops, &inside, &inside.view));
	CHECK_OK(hm_map_protect(map, 0, PAGE, HM_READ));
	CHECK(!inside.view);
	CHECK_EQUAL(map_info(map, 0).views, 0);

	for (i = 0; i < 3; i++)
		inside.map[i] = lone_map(device, SIZE);
	CHECK_OK(hm_access_hook_set(drop_in_hook, &inside));
	CHECK_OK(hm_map_protect(map, 0, PAGE, HM_READ | HM_WRITE));
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	CHECK(!inside.map[0]);
	hm_map_unref(map);
	CHECK_OK(hm_retire_flush());
}

static void callbacks(void)
{
	_Atomic int *objects = counted_objects();
	AUTO(hm_device) *device = rig_device("counted");

	callbacks_with(device);
	defer(1, MIB(1));
	callbacks_with(device);
	defer(64, MIB(1));
	callbacks_with(device);
	defer(0, 0);
	CHECK_EQUAL(*objects, 0);
}

/* ---- at exit ---- */

static struct hm_map *late[8];
static struct section leaving;
static bool joins; /* valgrind calls memory of an ending thread lost */

static void drop_late(void)
{
	size_t i;

	if (joins)
		section_join(&leaving);
	for (i = 0; i < ARRAY_SIZE(late); i++)
		hm_map_unref(late[i]);
}

static void leave(void *user)
{
	struct hm_device *device;
	size_t i;

	defer(64, MIB(1));
	if (joins)
		leaving_with(user);
	CHECK_OK_FATAL(hm_device_open(user, &device));
	for (i = 0; i < ARRAY_SIZE(late); i++)
		late[i] = lone_map(device, SIZE);
	section_begin(&leaving);
	for (i = 0; i < 8; i++)
		hm_map_unref(lone_map(device, SIZE));
	hm_device_unref(device);
	atexit(drop_late);
	/* exit() finds all of it waiting still. */
	section_end_later(&leaving, 20000);
	if (!joins)
		pthread_detach(leaving.thread);
	exit(0);
}

/* exit() inside a section waits for nothing, and ends. */
static void leave_in_section(void *user)
{
	struct hm_device *device;

	defer(64, MIB(1));
	CHECK_OK_FATAL(hm_device_open(user, &device));
	urcu_bp_read_lock();
	hm_map_unref(lone_map(device, SIZE));
	exit(0);
}

static void exits(void)
{
	_Atomic int *objects = counted_objects();
	uint64_t begin = time_now_ns();
	char name[] = "counted";

	CHECK_EQUAL(test_fork(leave, name), 0);
	CHECK_EQUAL(*objects, 0);
	CHECK_EQUAL(test_fork(leave_in_section, name), 0);
	CHECK_EQUAL(*objects, 1);
	atomic_store(objects, 0);
	/* Well below the wait for a thread that can't end. */
	CHECK(time_now_ns() - begin < 8000000000u);
}

/*
 * This program again, as `--leave DEVICE`, with one of each object dropped and one not: a leak
 * checker finds none at its end.
 */
static void leave_as_program(void *user)
{
	char *device = user, *plain[] = { NULL, (char[]){ "--leave" }, device, NULL };
	char program[4096];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	CHECK_FATAL(n > 0);
	program[n] = '\0';
	if (!strncmp(device, "drm:", 4)) {
		setenv("FAKE_DRM_LEAK", "abort", 1);
		drm_run_under_fake("test_retire_stress", plain);
	}
	if (TEST_ASAN || TEST_TSAN)
		execl(program, program, "--leave", device, NULL);
	else
		execlp("valgrind", "valgrind", "-q", "--leak-check=full",
		       "--show-leak-kinds=definite,indirect,possible",
		       "--errors-for-leak-kinds=definite,indirect,possible",
		       "--error-exitcode=9", program, "--leave", device, NULL);
	_exit(127);
}

static void leaves_nothing(void)
{
	char host[] = "host", soft[] = "soft:0", node[64] = "drm:";
	int r;

	drm_fake_path(FAKE_AMDGPU, node + 4, sizeof(node) - 4);
	CHECK_EQUAL(test_fork(leave_as_program, node), 0);
	r = test_fork(leave_as_program, host);
	if (r == -127) {
		test_skip("sanitizer", "valgrind is not installed");
		return;
	}
	CHECK_EQUAL(r, 0);
	CHECK_EQUAL(test_fork(leave_as_program, soft), 0);
}

/* For the module's machine: the other tests need no kernel, and take minutes there. */
static const struct test of_module[] = {
	{ "sim:0.churn", churn_sim, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

static const struct test tests[] = {
	{ "without_thread", without_thread, 0, 0 },
	{ "environment_without_thread", environment_without_thread, 0, TEST_ONCE },
	{ "churn_alone", churn_alone, 60, 0 },
	{ "churn_threads", churn_threads, 60, 0 },
	{ "soft:0.churn", churn_soft, 60, 0 },
	{ "any_order", any_order, 60, 0 },
	{ "callbacks", callbacks, 0, 0 },
	{ "exits", exits, 0, 0 },
	{ "leaves_nothing", leaves_nothing, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	joins = argc == 3 && !strcmp(argv[1], "--leave");
	if (joins)
		leave(argv[2]);
	return harness_main(argc, argv, "retire_stress",
			    access("/dev/hetsim0", F_OK) ? tests : of_module);
}
