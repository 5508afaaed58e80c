// SPDX-License-Identifier: MIT
/* Faults that become errors: copies and scopes, on any thread and any stack. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/compat.h"
#include "fault/guard_support.h"
#include "lib/inject.h"
#include "lib/sim_devices.h"
#include "lib/support.h"

#define SIZE (8 * PAGE)

/* ---- copies ---- */

static void whole_copies(const char *name)
{
	struct hm_fault fault = no_fault();
	char *base;
	AUTO(rig) r = rig_make(name, DESC(hm_buffer_desc, .size = SIZE));

	base = hm_map_address(r.map);
	AUTO_FREE char *bytes = malloc(SIZE);
	pattern_write(bytes, 0, SIZE, 3);
	CHECK_OK(hm_copy_in(base, bytes, SIZE, &fault));
	CHECK(pattern_holds(base, 0, SIZE, 3));
	memset(bytes, 0, SIZE);
	CHECK_OK(hm_copy_out(bytes, base, SIZE, NULL));
	CHECK(pattern_holds(bytes, 0, SIZE, 3));
	/* Interior, and of no alignment. */
	CHECK_OK(hm_copy_in(base + 5, "abc", 3, NULL));
	CHECK(!memcmp(base + 5, "abc", 3));
	CHECK_EQUAL(fault.cause, HM_FAULT_NONE);
}

static void whole(void)
{
	AUTO(rig_handler) handler = rig_handler(0);

	whole_copies("host");
	whole_copies("soft:0");
}

static void cut_off(void)
{
	struct hm_fault fault = no_fault();
	AUTO_FREE char *bytes = malloc(SIZE);
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	CHECK(!ftruncate(file.fd, 4 * PAGE));
	CHECK_ERROR(-ERANGE, hm_copy_out(bytes, file.base, SIZE, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_END);
	CHECK_EQUAL(fault.signal, SIGBUS);
	CHECK_EQUAL(fault.code, BUS_ADRERR);
	CHECK(fault.offset >= 4 * PAGE && fault.offset < SIZE);
	CHECK((char *)fault.address == file.base + fault.offset);
	CHECK_EQUAL(fault.serial, buffer_info(file.buffer).serial);
	CHECK_EQUAL(fault.generation, 0);
	CHECK_OK(hm_copy_out(bytes, file.base, 4 * PAGE, &fault));
	CHECK(pattern_holds(bytes, 0, 4 * PAGE, 1));
	CHECK_ERROR(-ERANGE, hm_copy_in(file.base + 4 * PAGE, bytes, 1, &fault));
	CHECK_EQUAL(fault.offset, 4 * PAGE);
	/* Nothing was mapped there: bytes that come back are seen. */
	CHECK(!ftruncate(file.fd, SIZE));
	CHECK_OK(hm_copy_out(bytes, file.base, SIZE, NULL));
	CHECK(is_zero(bytes, 4 * PAGE, SIZE));
	/* A source in a map is guarded, too. */
	CHECK(!ftruncate(file.fd, PAGE));
	CHECK_ERROR(-ERANGE, hm_copy_in(file.base, file.base + PAGE, PAGE, &fault));
	CHECK_EQUAL(fault.offset, PAGE);
}

/* The end that is not named has lost bytes before, and shows their replacement. */
static void other_end(void)
{
	struct hm_fault fault = no_fault();
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) whole = open_file_map(SIZE);
	AUTO(file_map) cut = open_file_map(SIZE);

	CHECK_OK(hm_copy_in(whole.base, cut.base, SIZE, &fault));
	CHECK_OK(hm_copy_out(whole.base, cut.base, SIZE, &fault));
	CHECK(!ftruncate(cut.fd, PAGE));
	CHECK_EQUAL(*(volatile char *)(cut.base + 2 * PAGE), 0);
	CHECK_ERROR(-EIO, hm_copy_in(whole.base, cut.base + 3 * PAGE, PAGE, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_REPAIRED);
	CHECK(fault.address == cut.base + 3 * PAGE);
	CHECK_EQUAL(fault.offset, 3 * PAGE);
	CHECK_EQUAL(fault.serial, buffer_info(cut.buffer).serial);
	CHECK_EQUAL(fault.signal, 0);
	CHECK_ERROR(-EIO, hm_copy_out(cut.base + PAGE, whole.base, PAGE, &fault));
	CHECK(fault.address == cut.base + PAGE);
	CHECK_ERROR(-EIO, hm_copy_out(cut.base, cut.base + PAGE, PAGE, &fault));
}

static void arguments(void)
{
	struct hm_fault fault = no_fault(), small = { .struct_size = 8 };
	char bytes[16];
	AUTO(file_map) file = open_file_map(SIZE);

	CHECK_ERROR(-EOPNOTSUPP, hm_copy_out(bytes, file.base, 8, NULL));
	AUTO(rig_handler) handler = rig_handler(0);
	CHECK_ERROR(-EINVAL, hm_copy_out(NULL, file.base, 8, NULL));
	CHECK_ERROR(-EINVAL, hm_copy_out(bytes, NULL, 8, NULL));
	CHECK_ERROR(-EINVAL, hm_copy_in(file.base, bytes, 0, NULL));
	CHECK_ERROR(-EINVAL, hm_copy_in(file.base, bytes, 1, &small));
	CHECK_ERROR(-ENOENT, hm_copy_in(bytes, file.base, 1, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_NONE);
	/* Found before a byte was touched: it is told like one that was met. */
	CHECK_ERROR(-ERANGE, hm_copy_in(file.base + SIZE - 8, bytes, 9, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_END);
	CHECK_EQUAL(fault.offset, SIZE);
	CHECK(fault.address == file.base + SIZE);
	CHECK_EQUAL(fault.signal, 0);
}

static void rights(void)
{
	struct hm_fault fault = no_fault();
	char bytes[2 * PAGE];
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	CHECK_OK(hm_map_protect(file.map, PAGE, PAGE, HM_READ));
	CHECK_OK(hm_map_protect(file.map, 2 * PAGE, PAGE, HM_NONE));
	CHECK_OK(hm_copy_out(bytes, file.base + PAGE, PAGE, &fault));
	CHECK_ERROR(-EACCES, hm_copy_in(file.base, bytes, 2 * PAGE, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_RIGHTS);
	CHECK_EQUAL(fault.signal, SIGSEGV);
	CHECK_EQUAL(fault.offset / PAGE, 1);
	CHECK_ERROR(-EACCES, hm_copy_out(bytes, file.base + 2 * PAGE, 1, &fault));
	CHECK_EQUAL(fault.offset, 2 * PAGE);
}

/* The last check is no fault: the owner in another buffer has cut bytes off. */
static void shared(void)
{
	struct hm_fault fault = no_fault();
	char bytes[SIZE];
	int ends[2];
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_buffer) *buffer = NULL;

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *owner = rig_buffer(device, DESC(hm_buffer_desc, .size = SIZE));
	CHECK_OK_FATAL(hm_buffer_send(owner, ends[0], 0));
	CHECK_OK_FATAL(hm_buffer_receive(device, ends[1], NULL, &buffer));
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	CHECK_OK(hm_copy_out(bytes, hm_map_address(map), SIZE, &fault));
	CHECK_OK(hm_buffer_resize(owner, 3 * PAGE, 0));
	CHECK_ERROR(-ERANGE, hm_copy_out(bytes, hm_map_address(map), SIZE, &fault));
	CHECK_OK(hm_copy_out(bytes, hm_map_address(map), 3 * PAGE, &fault));
	close(ends[0]);
	close(ends[1]);
}

static void lost_device(void)
{
	struct hm_fault fault = no_fault();
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_guard guard;
	struct file_map file;
	struct hm_map *map;
	char bytes[64];
	int r;

	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=16 test=1", 1);
	AUTO(rig_handler) handler = rig_handler(0);
	CHECK_OK_FATAL(hm_device_open("soft:0", &device));
	CHECK_OK_FATAL(hm_buffer_create(device, DESC(hm_buffer_desc, .size = SIZE), &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK_OK(hm_copy_in(hm_map_address(map), "bytes", 5, &fault));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_UNPLUG, 0, 0));
	CHECK_ERROR(-ENODEV, hm_copy_out(bytes, hm_map_address(map), 5, &fault));
	file = open_file_map(SIZE);
	CHECK_ERROR(-ENODEV, hm_copy_in(file.base, hm_map_address(map), 5, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_LOST);
	CHECK_ERROR(-ENODEV, hm_copy_out(hm_map_address(map), file.base, 5, &fault));
	close_file_map(&file);
	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	CHECK_OK(r);
	if (!r) {
		/* No signal: zeros are there. */
		CHECK_EQUAL(*(volatile char *)hm_map_address(map), 0);
		CHECK_OK(hm_guard_end(&guard));
	}
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	CHECK_OK(hm_sim_plug("soft:0"));
}

/* ---- threads and stacks ---- */

struct visitor {
	struct file_map *file;
	bool block;             /* all signals that can be */
	int alternate;          /* flags of an alternate stack; -1: none */
	unsigned int n_blocked; /* of the two signals, after a copy that failed */
};

static void *visit(void *user)
{
	struct visitor *visitor = user;
	struct hm_fault fault = no_fault();
	sigset_t set;
	stack_t stack;
	char byte;
	int i;

	if (visitor->block) {
		sigfillset(&set);
		pthread_sigmask(SIG_SETMASK, &set, NULL);
	}
	if (visitor->alternate >= 0)
		take_stack(&stack, visitor->alternate);
	for (i = 0; i < 100; i++) {
		CHECK_EQUAL(hm_copy_out(&byte, visitor->file->base + 4 * PAGE + i, 1, &fault),
			    -ERANGE);
		CHECK_EQUAL(fault.offset, 4 * PAGE + (unsigned int)i);
	}
	if (visitor->alternate >= 0)
		give_stack(&stack);
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	visitor->n_blocked =
		(unsigned int)(sigismember(&set, SIGBUS) + sigismember(&set, SIGSEGV));
	return NULL;
}

static void threads(void)
{
	struct visitor visitors[] = {
		{ .alternate = -1 },
		{ .alternate = -1, .block = true },
		{ .alternate = 0 },
		{ .alternate = 0, .block = true },
		{ .alternate = (int)SS_AUTODISARM },
		{ .alternate = (int)SS_AUTODISARM, .block = true },
	};
	pthread_t thread[sizeof(visitors) / sizeof(visitors[0])];
	size_t i, n = sizeof(visitors) / sizeof(visitors[0]);
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	CHECK(!ftruncate(file.fd, 4 * PAGE));
	for (i = 0; i < n; i++) {
		visitors[i].file = &file;
		CHECK_FATAL(!pthread_create(&thread[i], NULL, visit, &visitors[i]));
	}
	for (i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		CHECK_EQUAL(visitors[i].n_blocked, visitors[i].block ? 2 : 0);
	}
}

/* ---- scopes ---- */

static void scope(void)
{
	struct hm_fault fault = no_fault();
	AUTO(file_map) file = open_file_map(SIZE);

	file.base[3 * PAGE] = 42;
	CHECK_ERROR(-EOPNOTSUPP, read_guarded((void *)file.base, &fault));
	AUTO(rig_handler) handler = rig_handler(0);
	CHECK(!ftruncate(file.fd, 4 * PAGE));
	CHECK_EQUAL(read_guarded((void *)(file.base + 3 * PAGE), &fault), 42);
	CHECK_ERROR(-ERANGE, read_guarded((void *)(file.base + 4 * PAGE + 7), &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_END);
	CHECK_EQUAL(fault.offset, 4 * PAGE + 7);
	CHECK_OK(hm_map_protect(file.map, PAGE, PAGE, HM_NONE));
	CHECK_ERROR(-EACCES, read_guarded((void *)(file.base + PAGE), &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_RIGHTS);
}

static void nested(void)
{
	struct hm_guard outer, inner;
	struct hm_fault fault = no_fault();
	volatile int steps = 0;
	char byte;
	int r;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	CHECK(!ftruncate(file.fd, PAGE));
	HM_GUARD_INIT(&outer);
	HM_GUARD_INIT(&inner);
	r = hm_guard_begin(&outer);
	if (!r) {
		r = hm_guard_begin(&inner);
		if (!r) {
			steps = steps + 1;
			(void)*(volatile char *)(file.base + PAGE);
			steps = 100;
		}
		CHECK_EQUAL(r, -ERANGE);
		CHECK_EQUAL(inner.fault.offset, PAGE);
		/* A copy inside has its own; the scope goes on. */
		CHECK_EQUAL(hm_copy_out(&byte, file.base + 2 * PAGE, 1, &fault), -ERANGE);
		CHECK_EQUAL(fault.offset, 2 * PAGE);
		CHECK_ERROR(-EINVAL, hm_guard_end(&inner));
		steps = steps + 1;
		(void)*(volatile char *)(file.base + 3 * PAGE);
		steps = 200;
	}
	CHECK_EQUAL(r, -ERANGE);
	CHECK_EQUAL(steps, 2);
	CHECK_EQUAL(outer.fault.offset, 3 * PAGE);
	CHECK_ERROR(-EINVAL, hm_guard_end(&outer));
	CHECK_ERROR(-EINVAL, hm_guard_end(NULL));
	/* The inner one ends first. */
	CHECK_OK(hm_guard_begin(&outer));
	CHECK_OK(hm_guard_begin(&inner));
	CHECK_ERROR(-EINVAL, hm_guard_end(&outer));
	CHECK_OK(hm_guard_end(&inner));
	CHECK_OK(hm_guard_end(&outer));
	outer.struct_size = 8;
	CHECK_ERROR(-EINVAL, hm_guard_begin(&outer));
	CHECK_ERROR(-EINVAL, hm_guard_enter(NULL));
}

static unsigned int blocked_now(void)
{
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	return (unsigned int)(sigismember(&set, SIGBUS) | sigismember(&set, SIGSEGV) << 1 |
			      sigismember(&set, SIGUSR1) << 2);
}

static void scope_of_blocked(void)
{
	static const int signals[] = { SIGBUS, SIGSEGV };
	struct hm_fault fault;
	struct hm_guard guard;
	unsigned int i;
	sigset_t set;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	CHECK(!ftruncate(file.fd, PAGE));
	HM_GUARD_INIT(&guard);
	for (i = 0; i < 2; i++) {
		sigemptyset(&set);
		sigaddset(&set, signals[i]);
		sigaddset(&set, SIGUSR1);
		pthread_sigmask(SIG_SETMASK, &set, NULL);
		CHECK_EQUAL(read_guarded((void *)(file.base + PAGE), &fault), -ERANGE);
		CHECK_EQUAL(blocked_now(), 4u | 1u << i);
		CHECK_OK(hm_guard_begin(&guard));
		CHECK_EQUAL(blocked_now(), 4);
		CHECK_OK(hm_guard_end(&guard));
		CHECK_EQUAL(blocked_now(), 4u | 1u << i);
	}
	sigemptyset(&set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

/* A fault in a thread of unknown signal mask may end the process: it gets no scope. */
static void scope_of_unknown(void)
{
	struct hm_fault fault = no_fault();
	struct hm_guard guard;
	char byte = 1;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	HM_GUARD_INIT(&guard);
	inject_always("pthread_sigmask", ENOSYS);
	CHECK_ERROR(-EPERM, hm_copy_in(file.base, &byte, 1, &fault));
	CHECK(strstr(hm_errmsg(), "signal mask") != NULL);
	CHECK_EQUAL(fault.cause, HM_FAULT_NONE);
	CHECK_ERROR(-EPERM, hm_copy_out(&byte, file.base, 1, &fault));
	CHECK_ERROR(-EPERM, hm_guard_begin(&guard));
	CHECK(inject_disarm());
	CHECK(pattern_holds(file.base, 0, SIZE, 1));
	CHECK_OK(hm_guard_begin(&guard));
	/* A scope around it has seen to the mask. */
	inject_always("pthread_sigmask", ENOSYS);
	CHECK_OK(hm_copy_out(&byte, file.base, 1, &fault));
	CHECK(!inject_disarm());
	CHECK_OK(hm_guard_end(&guard));
}

/* Bytes that a resize takes from under a scope, and gives back. */
static void shrunk_in_scope(void)
{
	struct hm_guard guard;
	int r;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(rig) rig = rig_make("host", DESC(hm_buffer_desc, .size = SIZE));

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (!r) {
		CHECK_OK(hm_buffer_resize(rig.buffer, 2 * PAGE, 0));
		(void)*(volatile char *)(rig.bytes + PAGE);
		(void)*(volatile char *)(rig.bytes + 2 * PAGE);
		CHECK(!"reached");
	}
	CHECK_EQUAL(r, -ERANGE);
	CHECK_EQUAL(guard.fault.cause, HM_FAULT_END);
	CHECK_EQUAL(guard.fault.offset, 2 * PAGE);
	CHECK_OK(hm_buffer_resize(rig.buffer, SIZE, 0));
	CHECK_OK(hm_copy_in(rig.bytes + 2 * PAGE, "x", 1, NULL));
}

/* ---- truncation meanwhile ---- */

#define LONG_SIZE (4ull << 20)

static _Atomic unsigned int rounds_begun;
static _Atomic bool rounds_over;

static void *truncate_at_random(void *user)
{
	struct file_map *file = user;
	uint64_t seed = test_seed();
	unsigned int seen = 0;

	while (!rounds_over) {
		if (rounds_begun == seen)
			continue;
		seen = rounds_begun;
		usleep((unsigned int)(test_random(&seed) % 600));
		CHECK(!ftruncate(file->fd, (off_t)(test_random(&seed) % 512 * PAGE)));
	}
	return NULL;
}

/* Succeeds with all bytes, or says where they ended. */
static void cut_meanwhile(void)
{
	AUTO_FREE char *bytes = malloc(LONG_SIZE);
	AUTO_FREE char *full = malloc(LONG_SIZE);
	struct hm_fault fault = no_fault();
	pthread_t thread;
	unsigned int i;
	int r;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(LONG_SIZE);

	pattern_write(full, 0, LONG_SIZE, 9);
	rounds_begun = 0;
	rounds_over = false;
	CHECK_FATAL(!pthread_create(&thread, NULL, truncate_at_random, &file));
	for (i = 0; i < 100; i++) {
		CHECK_EQUAL(pwrite(file.fd, full, LONG_SIZE, 0), LONG_SIZE);
		rounds_begun++;
		while (!(r = hm_copy_out(bytes, file.base, LONG_SIZE, &fault)))
			CHECK(pattern_holds(bytes, 0, LONG_SIZE, 9));
		CHECK_EQUAL(r, -ERANGE);
		CHECK_EQUAL(fault.cause, HM_FAULT_END);
	}
	rounds_over = true;
	pthread_join(thread, NULL);
}

/* ---- fork ---- */

static void in_child(void *user)
{
	struct file_map *file = user;
	struct hm_fault fault = no_fault();
	struct hm_guard guard;
	char byte;

	/* The harness has taken the handler away; objects are the parent's. */
	CHECK_ERROR(-EOWNERDEAD, hm_copy_out(&byte, file->base, 1, &fault));
	HM_GUARD_INIT(&guard);
	CHECK_ERROR(-EBUSY, hm_guard_begin(&guard));
	CHECK_ERROR(-EINVAL, hm_handler_chained());
}

static void forked(void)
{
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	CHECK_EQUAL(test_fork(in_child, &file), 0);
}

static const struct test tests[] = {
	{ "whole", whole, 0, 0 },
	{ "cut_off", cut_off, 0, 0 },
	{ "other_end", other_end, 0, 0 },
	{ "arguments", arguments, 0, 0 },
	{ "rights", rights, 0, 0 },
	{ "shared", shared, 0, 0 },
	{ "lost_device", lost_device, 0, 0 },
	{ "threads", threads, 0, 0 },
	{ "scope", scope, 0, 0 },
	{ "nested", nested, 0, 0 },
	{ "scope_of_blocked", scope_of_blocked, 0, 0 },
	{ "scope_of_unknown", scope_of_unknown, 0, 0 },
	{ "shrunk_in_scope", shrunk_in_scope, 0, 0 },
	{ "cut_meanwhile", cut_meanwhile, 60, 0 },
	{ "forked", forked, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "guard", tests)
