// SPDX-License-Identifier: MIT
/*
 * Interleavings made on purpose: one thread is held at a place of the library, and an event that
 * would have to hit within nanoseconds happens beside it.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/buffer.h"
#include "fault/guard_support.h"
#include "fault/repair.h"
#include "lib/sim_devices.h"
#include "base/sys.h"

#define SIZE (64 * PAGE) /* of one block */
#define AT (3 * PAGE)    /* the byte that is touched */

/* Gives a forbidden event time to happen. True: it did. */
static bool happens(const _Atomic bool *what)
{
	unsigned int i;

	for (i = 0; i < 200 && !*what; i++)
		usleep(1000);
	return *what;
}

/* ---- a repair that is held between its looks and its claim ---- */

/*
 * The last that repair_fault() looks at, between a block's state and the claim of it, is
 * the device that a buffer with brackets is of. Here that can't be read for a while.
 */
static struct {
	struct hm_pointer_info found;
	struct hm_buffer buffer;  /* as the one that was found, but for its device */
	struct hm_device *device; /* in a page of its own */
	struct sigaction before;
	_Atomic bool there, go, over;
	enum repair answer;
	pthread_t thread;
} held;

static const struct hm_backend_ops any_ops = { .caps = HM_BACKEND_BRACKET_END };

static void on_segv(int signal, siginfo_t *info, void *context)
{
	(void)context;
	if (round_down((uintptr_t)info->si_addr, PAGE) != (uintptr_t)held.device) {
		sigaction(signal, &held.before, NULL);
		return;
	}
	held.there = true;
	while (!held.go)
		usleep(100);
}

static void *repair_held(void *user)
{
	(void)user;
	held.answer = repair_fault(&held.found, true);
	held.over = true;
	return NULL;
}

/* Before the library's handler comes, which forwards to this one. */
static void hold_prepare(void)
{
	struct sigaction action = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO };

	CHECK_FATAL(!sigaction(SIGSEGV, &action, &held.before));
	CHECK_OK_FATAL(hm_handler_install(0));
}

static void hold_end(void)
{
	CHECK_OK(hm_handler_remove());
	CHECK(!sigaction(SIGSEGV, &held.before, NULL));
}

/* A thread that has found a fault at @byte, and no reason to leave it alone. */
static void hold_repair(const volatile void *byte)
{
	held.device =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(held.device != MAP_FAILED && sizeof(*held.device) <= PAGE);
	held.device->ops = &any_ops;
	CHECK_FATAL(!mprotect(held.device, PAGE, PROT_NONE));
	CHECK_FATAL(!hm_pointer_find((const void *)byte, &held.found));
	memcpy(&held.buffer, held.found.buffer, sizeof(held.buffer));
	held.buffer.caps |= HM_CAP_BRACKET;
	held.buffer.device = held.device;
	held.found.buffer = &held.buffer;
	held.there = held.go = held.over = false;
	CHECK_FATAL(!pthread_create(&held.thread, NULL, repair_held, NULL));
	while (!held.there && !held.over)
		sched_yield();
	CHECK(held.there);
}

/* The result of the repair. */
static enum repair let_go(void)
{
	CHECK(!mprotect(held.device, PAGE, PROT_READ));
	held.go = true;
	pthread_join(held.thread, NULL);
	munmap(held.device, PAGE);
	return held.answer;
}

/* Another thread is first: its stores to its new pages are not replaced once more. */
static void test_claim(void)
{
	volatile unsigned char *base;
	struct file_map file;
	uint64_t before;

	hold_prepare();
	before = handler_info().repaired;
	file = open_file_map(SIZE);
	base = (volatile unsigned char *)file.base;
	CHECK(!ftruncate(file.fd, 0));
	hold_repair(base + AT);
	base[AT] = 7;
	CHECK_EQUAL(handler_info().repaired, before + 1);
	CHECK_EQUAL(let_go(), REPAIR_TRY);
	CHECK_EQUAL(base[AT], 7);
	close_file_map(&file);
	hold_end();
}

/* The device is lost: later stores to the pages there stay. */
static void test_lost_before_claim(void)
{
	volatile unsigned char *base;
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;

	hold_prepare();
	device = sim_open();
	buffer = sim_make(device, SIZE, 0, &map);
	base = hm_map_address(map);
	sim_write(map, 0, SIZE, 1);
	hold_repair(base + AT);
	if (sim_unplug(device)) {
		base[AT] = 7;
		CHECK_EQUAL(let_go(), REPAIR_WAIT);
		CHECK_EQUAL(base[AT], 7);
		sim_plug();
	} else {
		let_go();
	}
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	hold_end();
}

/* The device is lost and comes back: the map goes on showing its buffer. */
static void test_recovered_before_claim(void)
{
	const struct hm_loss_desc desc = { .struct_size = sizeof(desc),
					   .policy = HM_LOSS_SHADOW };
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map, *other;

	hold_prepare();
	device = sim_open();
	buffer = sim_make(device, SIZE, 0, &map);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &other));
	CHECK_OK_FATAL(hm_buffer_set_loss(buffer, &desc));
	hold_repair((char *)hm_map_address(map) + AT);
	if (sim_unplug(device)) {
		sim_plug();
		CHECK_EQUAL(sim_recover(device, HM_RECOVER_SHADOWED).maps_back, 2);
		CHECK_EQUAL(let_go(), REPAIR_WAIT);
		sim_write(other, 0, SIZE, 2);
		CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, HM_READ));
		CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 2));
		CHECK_OK(hm_map_end_cpu(map, 0, SIZE, HM_READ));
	} else {
		let_go();
	}
	hm_map_unref(other);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	hold_end();
}

#define OTHERS 32

/* Maps of @buffer, until one has @address, or there are enough. */
static unsigned int map_over(struct hm_buffer *buffer, const void *address,
			     struct hm_map **ret_maps)
{
	unsigned int n = 0;

	do {
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, &ret_maps[n]));
	} while (hm_map_address(ret_maps[n++]) != address && n < OTHERS);
	return n;
}

/* The map moves away, and as a rule another one takes its place: that one is left alone. */
static void test_moved_before_claim(void)
{
	struct hm_device *device;
	struct hm_buffer *buffer, *other;
	struct hm_map *map, *others[OTHERS];
	unsigned int i, n;
	void *address;

	hold_prepare();
	device = sim_open();
	buffer = sim_make(device, SIZE, 0, &map);
	other = sim_make(device, SIZE, 0, NULL);
	address = hm_map_address(map);
	hold_repair((char *)address + AT);
	CHECK_OK_FATAL(hm_buffer_resize(buffer, 4 * SIZE, HM_MAY_MOVE));
	n = map_over(other, address, others);
	sim_write(others[0], 0, SIZE, 1);
	CHECK_EQUAL(let_go(), REPAIR_WAIT);
	for (i = 0; i < n; i++) {
		CHECK(pattern_holds(hm_map_address(others[i]), 0, SIZE, 1));
		CHECK_OK(hm_map_begin_cpu(others[i], 0, SIZE, HM_READ));
		CHECK_OK(hm_map_end_cpu(others[i], 0, SIZE, HM_READ));
		hm_map_unref(others[i]);
	}
	CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, HM_READ));
	CHECK_OK(hm_map_end_cpu(map, 0, SIZE, HM_READ));
	hm_map_unref(map);
	hm_buffer_unref(other);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	hold_end();
}

/* ---- a loss that is held when other pages are there ---- */

static struct {
	struct sys_table real;
	struct hm_map *map;
	_Atomic bool begun, replaced, ended;
	unsigned char value;
	int begin, end;
} losing;

static void *holding_mremap(void *address, size_t old_length, size_t new_length, int flags,
			    void *new_address)
{
	void *to = losing.real.mremap(address, old_length, new_length, flags, new_address);

	if (to == hm_map_address(losing.map) && !losing.replaced) {
		losing.replaced = true;
		/* The bracket may end, or wait for this loss. */
		happens(&losing.ended);
	}
	return to;
}

static void *read_in_bracket(void *user)
{
	(void)user;
	losing.begin = hm_map_begin_cpu(losing.map, 0, PAGE, HM_READ);
	losing.begun = true;
	while (!losing.replaced)
		usleep(100);
	losing.value = *(volatile unsigned char *)hm_map_address(losing.map);
	losing.end = hm_map_end_cpu(losing.map, 0, PAGE, HM_READ);
	losing.ended = true;
	return NULL;
}

/* Without a policy, so that no bracket's end asks the device: it is the map that tells. */
static void test_bracket_over_loss(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_buffer) *buffer = sim_make(device, SIZE, 0, &losing.map);
	pthread_t thread;

	sim_write(losing.map, 0, SIZE, 1);
	*(volatile unsigned char *)hm_map_address(losing.map) = 9;
	losing.begun = losing.replaced = losing.ended = false;
	CHECK_FATAL(!pthread_create(&thread, NULL, read_in_bracket, NULL));
	while (!losing.begun)
		sched_yield();
	losing.real = sys_table;
	sys_table.mremap = holding_mremap;
	if (sim_unplug(device)) {
		CHECK(losing.replaced);
		losing.replaced = true;
		pthread_join(thread, NULL);
		CHECK_EQUAL(losing.begin, 0);
		CHECK_EQUAL(losing.value, 0);
		CHECK_EQUAL(losing.end, -ENODEV);
		sim_plug();
	} else {
		losing.replaced = true;
		pthread_join(thread, NULL);
	}
	sys_table = losing.real;
	hm_map_unref(losing.map);
}

/* ---- a handler that is held with a shadow in its hands ---- */

static struct {
	struct sys_table real;
	volatile unsigned char *base;
	_Atomic bool armed, there, changed;
	bool late; /* the policy was another one before the handler was done */
	unsigned char value;
} mapping;

static void *holding_mmap_over(void *address, size_t length, int prot, int flags, int fd,
			       off_t offset)
{
	void *mapped = mapping.real.mmap_over(address, length, prot, flags, fd, offset);

	/* The shadow's are the first of an object. */
	if (fd >= 0 && atomic_exchange(&mapping.armed, false)) {
		mapping.there = true;
		mapping.late = happens(&mapping.changed);
	}
	return mapped;
}

static void *touch_lost(void *user)
{
	(void)user;
	mapping.value = mapping.base[AT];
	return NULL;
}

/* A change of the policy waits for the handler: the old shadow ends then. */
static void test_policy_under_handler(void)
{
	const struct hm_loss_desc shadow = { .struct_size = sizeof(shadow),
					     .policy = HM_LOSS_SHADOW };
	pthread_t thread;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	CHECK_OK_FATAL(hm_buffer_set_loss(file.buffer, &shadow));
	CHECK(!ftruncate(file.fd, 0));
	mapping.base = (volatile unsigned char *)file.base;
	mapping.there = mapping.changed = mapping.late = false;
	mapping.armed = true;
	mapping.real = sys_table;
	sys_table.mmap_over = holding_mmap_over;
	CHECK_FATAL(!pthread_create(&thread, NULL, touch_lost, NULL));
	while (!mapping.there)
		sched_yield();
	CHECK_OK(hm_buffer_set_loss(file.buffer, DESC(hm_loss_desc, .policy = HM_LOSS_ZERO)));
	mapping.changed = true;
	pthread_join(thread, NULL);
	sys_table = mapping.real;
	CHECK(!mapping.late);
	CHECK_EQUAL(mapping.value, mapping.base[AT]);
	CHECK(pattern_holds(file.base, 0, SIZE, 1));
}

static const struct sim_case cases[] = {
	{ "claim", test_claim },
	{ "lost_before_claim", test_lost_before_claim },
	{ "recovered_before_claim", test_recovered_before_claim },
	{ "moved_before_claim", test_moved_before_claim },
	{ "bracket_over_loss", test_bracket_over_loss },
	{ "policy_under_handler", test_policy_under_handler },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "interleaved", cases)
