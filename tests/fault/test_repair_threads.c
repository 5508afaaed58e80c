// SPDX-License-Identifier: MIT
/* Blocks that are replaced outside of guards: by several threads at once, and on any stack. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/compat.h"
#include "fault/guard_support.h"
#include "lib/sim_devices.h"

#define SIZE (64 * PAGE) /* of one block */

/* ---- several threads, one block ---- */

#define WRITERS 4
#define STORES 8 /* of each */

static struct race {
	pthread_barrier_t barrier;
	pthread_t threads[WRITERS];
	unsigned int rounds;
	uint64_t first, stride; /* of the places where they store */
	volatile unsigned char *base;
	unsigned char expected[SIZE]; /* replaces the block */
} race;

static uint64_t place_of(unsigned int self, unsigned int i)
{
	return race.first + (i * WRITERS + self) * race.stride + self;
}

static unsigned char value_of(unsigned int round)
{
	return (unsigned char)(1 + round % 200);
}

static void *write_own(void *user)
{
	unsigned int self = (unsigned int)(uintptr_t)user, round, i;

	for (round = 0; round < race.rounds; round++) {
		pthread_barrier_wait(&race.barrier);
		for (i = 0; i < STORES; i++)
			race.base[place_of(self, i)] = value_of(round);
		pthread_barrier_wait(&race.barrier);
	}
	return NULL;
}

static void race_begin(uint64_t first, uint64_t stride, unsigned int rounds)
{
	unsigned int i;

	race.first = first;
	race.stride = stride;
	race.rounds = test_is_slow() ? rounds / 4 : rounds;
	pthread_barrier_init(&race.barrier, NULL, WRITERS + 1);
	for (i = 0; i < WRITERS; i++)
		CHECK_FATAL(!pthread_create(&race.threads[i], NULL, write_own,
					    (void *)(uintptr_t)i));
}

static void race_end(void)
{
	unsigned int i;

	for (i = 0; i < WRITERS; i++)
		pthread_join(race.threads[i], NULL);
	pthread_barrier_destroy(&race.barrier);
}

static bool as_expected(uint64_t from, uint64_t to)
{
	return !memcmp((const char *)race.base + from, race.expected + from, to - from);
}

/* Stores are there, unless they may be lost, and the bytes between are the policy's. */
static void check_round(unsigned int round, bool may_be_lost)
{
	uint64_t end = race.first + STORES * WRITERS * race.stride, at;
	unsigned int self, i, n_lost = 0, n_others = 0;

	for (self = 0; self < WRITERS; self++)
		for (i = 0; i < STORES; i++) {
			at = place_of(self, i);
			n_lost += race.base[at] != value_of(round) &&
				  !(may_be_lost && as_expected(at, at + 1));
			n_others += !as_expected(at - self, at);
			n_others += !as_expected(at + 1, at - self + race.stride);
		}
	CHECK_EQUAL(n_lost, 0);
	CHECK_EQUAL(n_others, 0);
	CHECK(as_expected(0, race.first));
	CHECK(as_expected(end, SIZE));
}

/*
 * The second thread must not put the policy's bytes over the first one's stores. Each round has a
 * map of its own.
 */
static void run_rounds(struct hm_buffer *buffer)
{
	uint64_t before = handler_info().repaired;
	unsigned int i;

	for (i = 0; i < race.rounds; i++) {
		AUTO(hm_map) *map = rig_map(buffer, NULL);
		race.base = hm_map_address(map);
		pthread_barrier_wait(&race.barrier);
		pthread_barrier_wait(&race.barrier);
		check_round(i, false);
		CHECK_ERROR(-EIO, hm_map_begin_cpu(map, race.first, 1, HM_READ));
	}
	CHECK_EQUAL(handler_info().repaired, before + race.rounds);
}

/* Sets the policy, and the bytes that it gives for the map as it is now. */
static void set_policy(struct hm_buffer *buffer, const struct hm_map *map, uint32_t policy)
{
	memset(race.expected, 0, SIZE);
	if (policy == HM_LOSS_SHADOW)
		memcpy(race.expected, hm_map_address(map), SIZE);
	CHECK_OK_FATAL(hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = policy)));
}

static void race_on_file(uint32_t policy)
{
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	set_policy(file.buffer, file.map, policy);
	CHECK(!ftruncate(file.fd, 0));
	race_begin(0, PAGE, 400);
	run_rounds(file.buffer);
	race_end();
}

static void test_file(void)
{
	race_on_file(HM_LOSS_ZERO);
}

static void test_file_shadow(void)
{
	race_on_file(HM_LOSS_SHADOW);
}

/* A buffer of the device, of which the second page is a SIGBUS. */
static struct hm_buffer *make_broken(struct hm_device *device, uint32_t policy,
				     struct hm_map **ret_map)
{
	struct hm_buffer *buffer = sim_make(device, SIZE, 0, ret_map);

	sim_write(*ret_map, 0, SIZE, 1);
	set_policy(buffer, *ret_map, policy);
	CHECK_OK_FATAL(sim_inject(device, HETSIM_INJECT_SIGBUS, sim_handle(buffer), PAGE));
	return buffer;
}

/* With this stride, all stores are in the page that faults: the other pages are there. */
#define STRIDE (PAGE / (STORES * WRITERS))

static void race_on_device(uint32_t policy)
{
	AUTO(hm_device) *device = sim_open();
	struct hm_map *map;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_buffer) *buffer = make_broken(device, policy, &map);

	hm_map_unref(map);
	/* Behind a window a SIGBUS is nothing lost: see outside_window in test_repair.c. */
	if (!(buffer_info(buffer).caps & HM_CAP_BRACKET)) {
		race_begin(PAGE, STRIDE, 400);
		run_rounds(buffer);
		race_end();
	}
}

static void test_device(void)
{
	race_on_device(HM_LOSS_ZERO);
}

static void test_device_shadow(void)
{
	race_on_device(HM_LOSS_SHADOW);
}

static void unplugged_round(unsigned int round, uint64_t *state)
{
	struct hm_device *device = sim_open();
	struct hm_map *map;
	struct hm_buffer *buffer = make_broken(device, HM_LOSS_SHADOW, &map);

	race.base = hm_map_address(map);
	pthread_barrier_wait(&race.barrier);
	usleep(test_random(state) % 200);
	CHECK_OK(sim_inject(device, HETSIM_INJECT_UNPLUG, 0, 0));
	pthread_barrier_wait(&race.barrier);
	/* Stores from before the loss are gone with the old pages. */
	check_round(round, true);
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(map, PAGE, 1, HM_READ));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	sim_plug();
}

/* The whole device goes meanwhile: the shadow is left in any case. */
static void test_unplugged(void)
{
	struct hm_device *device = sim_open();
	uint64_t state = test_seed();
	unsigned int i;

	if (!sim_unplug(device)) {
		hm_device_unref(device);
		return;
	}
	hm_device_unref(device);
	sim_plug();
	AUTO(rig_handler) handler = rig_handler(0);
	race_begin(PAGE, STRIDE, 100);
	for (i = 0; i < race.rounds; i++)
		unplugged_round(i, &state);
	race_end();
}

/* ---- beside the device ---- */

#define HURT_ROUNDS 40
#define HURT_ROUNDS_MIN 10 /* however slow they are */
#define HURT_SECONDS 4     /* after which no more begin */
#define HURT_TIMES 200     /* in each round, beside stores */

static struct hurting {
	struct hm_device *device;
	uint32_t handle;
	_Atomic unsigned int n; /* pages that have gone */
	_Atomic bool over;
} hurting;

/* One page comes back and another one goes, all the time. */
static void *hurt_pages(void *user)
{
	int r;

	(void)user;
	while (!hurting.over) {
		r = sim_inject(hurting.device, HETSIM_INJECT_SIGBUS, hurting.handle,
			       (1 + hurting.n % 2) * PAGE);
		CHECK_OK(r);
		if (r)
			hurting.over = true;
		hurting.n++;
	}
	return NULL;
}

/* TSan takes a mapping that comes there for stores of that thread's. */
static __attribute__((no_sanitize("thread"), noinline)) void touch(volatile unsigned char *byte)
{
	(void)*byte;
}

/*
 * Stores are checked until a page has gone since, all of it: the second page that goes has begun
 * behind the store. This is counted, not left to sched_yield(): beside other work that takes
 * milliseconds each, and need not run the other thread.
 */
static __attribute__((no_sanitize("thread"), noinline)) void
check_replaced(volatile unsigned char *base)
{
	unsigned int begin = hurting.n, seen = begin, i, n_lost = 0;

	for (i = 1; seen - begin < HURT_TIMES && !hurting.over; i++) {
		base[PAGE] = base[2 * PAGE] = (unsigned char)i;
		for (seen = hurting.n; hurting.n - seen < 2 && !hurting.over;)
			n_lost += base[PAGE] != (unsigned char)i ||
				  base[2 * PAGE] != (unsigned char)i;
		n_lost += base[PAGE] != (unsigned char)i || base[2 * PAGE] != (unsigned char)i;
	}
	CHECK_EQUAL(n_lost, 0);
}

/* Once the block is replaced no store to it is lost, and none finds a SIGBUS. */
static void store_beside(void *user)
{
	unsigned int i, rounds = test_is_slow() ? HURT_ROUNDS_MIN : HURT_ROUNDS;
	double begin = test_now();
	struct hm_map *map;
	pthread_t thread;
	uint64_t before;
	AUTO(rig_handler) handler = rig_handler(0);

	(void)user;
	hurting.device = sim_open();
	for (i = 0; i < rounds; i++) {
		if (i >= HURT_ROUNDS_MIN && test_now() - begin > HURT_SECONDS)
			break;
		AUTO(hm_buffer) *buffer = sim_make(hurting.device, SIZE, 0, &map);
		hurting.handle = sim_handle(buffer);
		hurting.over = buffer_info(buffer).caps & HM_CAP_BRACKET;
		before = handler_info().repaired;
		CHECK_FATAL(!pthread_create(&thread, NULL, hurt_pages, NULL));
		while (!hurting.over && handler_info().repaired == before)
			touch((volatile unsigned char *)hm_map_address(map) + PAGE);
		if (!hurting.over)
			check_replaced(hm_map_address(map));
		hurting.over = true;
		pthread_join(thread, NULL);
		hm_map_unref(map);
	}
	hm_device_unref(hurting.device);
}

static void test_beside_device(void)
{
	CHECK_EQUAL(test_fork(store_beside, NULL), 0);
}

/* ---- stacks and masks ---- */

struct toucher {
	const char *lost;
	int flags;   /* of its alternate stack */
	bool inside; /* in a handler that runs on it already */
	int value;   /* [out] */
};

static _Thread_local struct toucher *toucher;

static void on_touching(int signal)
{
	(void)signal;
	toucher->value = *(const volatile unsigned char *)toucher->lost;
}

static bool is_untouched(const stack_t *stack)
{
	return is_zero(stack->ss_sp, 0, stack->ss_size);
}

static void *touch_on_stack(void *user)
{
	stack_t stack;

	toucher = user;
	toucher->value = -1;
	take_stack(&stack, toucher->flags);
	CHECK(is_untouched(&stack));
	if (toucher->inside)
		pthread_kill(pthread_self(), SIGUSR1);
	else
		on_touching(0);
	CHECK(!is_untouched(&stack));
	give_stack(&stack);
	return NULL;
}

/* The handler replaces a block from the stack that the thread has for handlers. */
static void test_stacks(void)
{
	struct toucher touchers[] = {
		{ .flags = 0 },
		{ .flags = (int)SS_AUTODISARM },
		{ .flags = 0, .inside = true },
		{ .flags = (int)SS_AUTODISARM, .inside = true },
	};
	struct sigaction action = { .sa_handler = on_touching, .sa_flags = SA_ONSTACK };
	/* TSan calls handlers with all signals blocked: no fault may be in one. */
	size_t i, n = TEST_TSAN ? 2 : sizeof(touchers) / sizeof(touchers[0]);
	pthread_t thread;
	uint64_t before;

	CHECK(!sigaction(SIGUSR1, &action, NULL));
	CHECK_OK_FATAL(hm_handler_install(0));
	before = handler_info().repaired;
	for (i = 0; i < n; i++) {
		AUTO(file_map) file = open_file_map(SIZE);
		CHECK(!ftruncate(file.fd, PAGE));
		touchers[i].lost = file.base + 3 * PAGE;
		CHECK_FATAL(!pthread_create(&thread, NULL, touch_on_stack, &touchers[i]));
		pthread_join(thread, NULL);
		CHECK_EQUAL(touchers[i].value, 0);
		CHECK_EQUAL(handler_info().repaired, before + i + 1);
		CHECK_ERROR(-EIO, hm_map_begin_cpu(file.map, 3 * PAGE, 1, HM_READ));
	}
	CHECK_OK(hm_handler_remove());
	signal(SIGUSR1, SIG_DFL);
}

struct blocker {
	int signal;  /* that is blocked; 0: none */
	bool thread; /* not the first one */
};

static void *touch_blocked(void *user)
{
	const struct blocker *blocker = user;
	struct hm_fault fault = no_fault();
	sigset_t set;
	char byte;
	AUTO(file_map) file = open_file_map(SIZE);

	CHECK(!ftruncate(file.fd, PAGE));
	sigemptyset(&set);
	if (blocker->signal)
		sigaddset(&set, blocker->signal);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* Guarded, it is an error whatever is blocked. */
	CHECK_ERROR(-ERANGE, hm_copy_out(&byte, file.base + PAGE, 1, &fault));
	CHECK_ERROR(-ERANGE, read_guarded((unsigned char *)file.base + PAGE, &fault));
	CHECK_EQUAL(*(volatile char *)(file.base + PAGE), 0);
	/* Only threads that still live come here. */
	CHECK_EQUAL(handler_info().repaired, 1);
	return NULL;
}

static void live_or_die(void *user)
{
	const struct blocker *blocker = user;
	pthread_t thread;

	CHECK_OK_FATAL(hm_handler_install(0));
	if (blocker->thread) {
		CHECK_FATAL(!pthread_create(&thread, NULL, touch_blocked, user));
		pthread_join(thread, NULL);
	} else {
		touch_blocked(user);
	}
}

/* As hetmap/guard.h says: on a thread that blocks SIGBUS the kernel ends the process. */
static void test_blocked(void)
{
	static const struct {
		struct blocker blocker;
		int ends;
	} kinds[] = {
		{ { 0, false }, 0 },
		{ { SIGSEGV, false }, 0 },
		{ { SIGBUS, false }, SIGBUS },
		{ { SIGBUS, true }, SIGBUS },
	};
	unsigned int i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		CHECK_EQUAL(test_fork(live_or_die, (void *)(uintptr_t)&kinds[i].blocker),
			    kinds[i].ends);
}

static const struct sim_case cases[] = {
	{ "file", test_file },
	{ "file_shadow", test_file_shadow },
	{ "device", test_device },
	{ "device_shadow", test_device_shadow },
	{ "unplugged", test_unplugged },
	{ "stacks", test_stacks },
	{ "blocked", test_blocked },
	{ "beside_device", test_beside_device },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "repair_threads", cases)
