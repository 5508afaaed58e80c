// SPDX-License-Identifier: MIT
/*
 * The lock budget: which locks fit, which give way, and which counters and warnings tell so.
 * Each account is compared with the pages that the kernel really holds.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "map/lock_support.h"

static void shortage(void)
{
	struct rig a, b;

	begin(&a, &b);
	CHECK_EQUAL(query().set, HM_LOCK_NO_BUDGET);
	CHECK_OK(hm_lock_budget_set(4 * PAGE));
	CHECK_EQUAL(query().set, 4 * PAGE);
	check_budget(0, 0, 4);
	CHECK_EQUAL(lock(&a, 0, 2, 0), 2);
	CHECK_EQUAL(lock(&b, 3, 1, HM_LOCK_PRIORITY(2)), 1);
	CHECK_EQUAL(query().used_by[0], 2 * PAGE);
	CHECK_EQUAL(query().used_by[2], PAGE);
	check_budget(3, 0, 1);
	/* Four bytes of pages that are there twice cost two: one is missing. */
	CHECK_ERROR(-ENOMEM, lock(&a, 0, 4, 0));
	says("locking 8192 more bytes");
	says("lock budget is 16384 bytes");
	says("4096 bytes short");
	says("hm_map_lock() has 12288: priority 0: 8192, 2: 4096");
	says("of 2 maps \"weights\" has most, 8192");
	check_map(&a, 2, 0);
	check_map(&b, 1, 0);
	check_budget(3, 0, 1);
	/* Partly: as much as fits, from the start on, and it says so. */
	CHECK_EQUAL(lock(&a, 0, 8, HM_LOCK_PARTIAL), 3);
	warns("bytes short");
	check_map(&a, 3, 0);
	check_budget(4, 0, 0);
	CHECK_EQUAL(lock(&b, 6, 2, HM_LOCK_PARTIAL), 0);
	/* Another priority or kind of the same lock takes no room. */
	CHECK_EQUAL(lock(&a, 0, 3, HM_LOCK_ONFAULT | HM_LOCK_PRIORITY(7)), 3);
	CHECK_EQUAL(query().used_by[0], 0);
	CHECK_EQUAL(query().used_by[7], 3 * PAGE);
	CHECK_OK(unlock(&a, 0, 8));
	check_budget(1, 0, 3);
	CHECK_OK(hm_lock_budget_set(0));
	CHECK_ERROR(-ENOMEM, lock(&a, 0, 1, 0));
	CHECK_EQUAL(lock(&a, 0, 1, HM_LOCK_PARTIAL), 0);
	CHECK_ERROR(-EINVAL, lock(&a, 0, 1, HM_LOCK_PRIORITY(8)));
	CHECK_ERROR(-EINVAL, hm_lock_budget_query(NULL));
	end(&a, &b);
	CHECK_EQUAL(query().used, 0);
	CHECK_EQUAL(query().waiting, 0);
}

/* Also within one map; the locked range itself never gives way. */
static void giving_way(void)
{
	struct hm_lock_budget before;
	struct rig a, b;
	uint64_t got = 7;

	begin(&a, &b);
	before = query();
	CHECK_OK(hm_lock_budget_set(6 * PAGE));
	CHECK_EQUAL(lock(&a, 0, 3, 0), 3);
	CHECK_EQUAL(lock(&a, 4, 2, HM_LOCK_PRIORITY(1)), 2);
	memset(a.bytes, 'a', PAGES * PAGE);
	/* Three are missing, of the lowest priority three are there. */
	CHECK_EQUAL(lock(&b, 0, 4, HM_LOCK_PRIORITY(3)), 4);
	warns("12288 bytes in 1 ranges of lower priority were unlocked");
	check_map(&a, 2, 3);
	check_map(&b, 4, 0);
	check_budget(6, 3, 0);
	CHECK_EQUAL(query().waiting_by[0], 3 * PAGE);
	CHECK_EQUAL(query().evictions - before.evictions, 1);
	CHECK_EQUAL(query().evicted_bytes - before.evicted_bytes, 3 * PAGE);
	/* The same priority never, and the higher one not for a lower one. */
	CHECK_ERROR(-ENOMEM, lock(&a, 6, 1, HM_LOCK_PRIORITY(1)));
	CHECK_ERROR(-ENOMEM, lock(&a, 6, 1, 0));
	/* Two pages could be had and three are needed: none is taken. */
	CHECK_ERROR(-ENOMEM, lock(&b, 4, 3, HM_LOCK_PRIORITY(3)));
	check_map(&a, 2, 3);
	check_map(&b, 4, 0);
	/* A partial lock takes them. */
	CHECK_EQUAL(lock(&b, 4, 3, HM_LOCK_PRIORITY(3) | HM_LOCK_PARTIAL), 2);
	check_map(&a, 0, 5);
	check_map(&b, 6, 0);
	/* Within the map: its other pages. */
	CHECK_EQUAL(lock(&b, 5, 2, HM_LOCK_PRIORITY(7)), 2);
	check_map(&a, 0, 5);
	check_map(&b, 6, 1);
	CHECK_EQUAL(map_info(b.map, 0).lock_waiting, PAGE);
	/* Nothing comes back by itself, nor without room. */
	CHECK_OK(hm_lock_restore(&got));
	CHECK_EQUAL(got, 0);
	CHECK_OK(unlock(&b, 0, 5));
	check_map(&a, 0, 5);
	CHECK_OK(hm_lock_restore(&got));
	CHECK_EQUAL(got, 4 * PAGE);
	/* The higher one first, and of the last as much as fits. */
	check_map(&a, 4, 1);
	CHECK_EQUAL(query().used_by[1], 2 * PAGE);
	CHECK_EQUAL(query().used_by[0], 2 * PAGE);
	/* A range that is locked again, or unlocked, waits no more. */
	CHECK_OK(unlock(&a, 0, 3));
	check_map(&a, 2, 0);
	check_budget(4, 0, 2);
	CHECK_EQUAL(a.bytes[0], 'a');
	end(&a, &b);
	CHECK_EQUAL(query().used, 0);
	CHECK_EQUAL(query().waiting, 0);
}

/* Locks inside the requested range make no room for it: nothing gives way for them. */
static void own_range(void)
{
	struct hm_lock_budget before;
	struct rig a, b;

	begin(&a, &b);
	CHECK_OK(hm_lock_budget_set(2 * PAGE));
	/* This range waits, and would take any room that is given up. */
	CHECK_EQUAL(lock(&a, 4, 2, HM_LOCK_PRIORITY(1)), 2);
	CHECK_EQUAL(lock(&b, 6, 2, HM_LOCK_PRIORITY(7)), 2);
	check_map(&a, 0, 2);
	CHECK_OK(hm_lock_budget_set(6 * PAGE));
	CHECK_EQUAL(lock(&a, 0, 2, 0), 2);
	CHECK_EQUAL(lock(&b, 0, 2, 0), 2);
	before = query();
	/* Three are missing; four are of lower priority, two of them its own. */
	CHECK_ERROR(-ENOMEM, lock(&b, 0, 5, HM_LOCK_PRIORITY(3)));
	says("12288 bytes short");
	CHECK_EQUAL(query().evictions, before.evictions);
	CHECK_EQUAL(query().used_by[0], 4 * PAGE);
	check_map(&a, 2, 2);
	check_map(&b, 4, 0);
	/* A partial lock makes others give way, and the warning names the missing bytes. */
	CHECK_EQUAL(lock(&b, 0, 5, HM_LOCK_PRIORITY(3) | HM_LOCK_PARTIAL), 4);
	warns("8192 bytes in 1 ranges of lower priority were unlocked");
	warns("bytes short");
	CHECK_EQUAL(query().evictions - before.evictions, 1);
	check_map(&a, 0, 4);
	check_map(&b, 6, 0);
	end(&a, &b);
}

/* RLIMIT_MEMLOCK is a budget, too. */
static void by_rlimit(void *user)
{
	struct rig a, b;

	(void)user;
	begin(&a, &b);
	limit_memlock(4 * PAGE);
	CHECK_EQUAL(query().privileged, 0);
	CHECK_EQUAL(query().limit - query().kernel_locked, 4 * PAGE);
	CHECK_EQUAL(query().room, 4 * PAGE);
	CHECK_EQUAL(lock(&a, 0, 4, 0), 4);
	CHECK_ERROR(-ENOMEM, lock(&b, 0, 3, 0));
	says("RLIMIT_MEMLOCK");
	says("12288 bytes short");
	says("\"weights\" has most, 16384");
	CHECK_EQUAL(lock(&b, 0, 3, HM_LOCK_PRIORITY(1)), 3);
	check_map(&a, 1, 3);
	check_map(&b, 3, 0);
	CHECK_EQUAL(query().room, 0);
	CHECK_ERROR(-ENOMEM, lock(&b, 3, 2, HM_LOCK_PRIORITY(1)));
	check_map(&a, 1, 3);
	/* The smaller of the two binds. */
	CHECK_OK(hm_lock_budget_set(2 * PAGE));
	check_map(&a, 0, 4);
	check_map(&b, 2, 1);
	CHECK_EQUAL(query().room, 0);
	end(&a, &b);
}

static void rlimit(void)
{
	CHECK_EQUAL(test_fork(by_rlimit, NULL), 0);
}

static void privileges(void)
{
	struct rig a, b;
	uint64_t all = 2 * PAGES * PAGE;

	begin(&a, &b);
	if (!query().privileged) {
		test_skip("kernel", "this process has not CAP_IPC_LOCK");
		end(&a, &b);
		return;
	}
	CHECK_EQUAL(query().room, UINT64_MAX);
	CHECK_OK(hm_lock_budget_set(all));
	CHECK_EQUAL(query().room, all);
	end(&a, &b);
}

/* A smaller budget: the lowest give way. Then maps end, are cut, and grow. */
static void smaller(void)
{
	struct rig a, b;

	begin(&a, &b);
	CHECK_EQUAL(lock(&a, 0, 8, HM_LOCK_PRIORITY(4)), 8);
	CHECK_EQUAL(lock(&b, 0, 8, HM_LOCK_PRIORITY(5) | HM_LOCK_ONFAULT), 8);
	CHECK_OK(hm_lock_budget_set(10 * PAGE));
	check_map(&a, 2, 6);
	CHECK_EQUAL(map_info(b.map, 0).lock_held, 8 * PAGE);
	CHECK_OK(hm_lock_budget_set(3 * PAGE));
	check_map(&a, 0, 8);
	CHECK_EQUAL(map_info(b.map, 0).lock_held, 3 * PAGE);
	check_budget(3, 13, 0);
	/* Pages that are cut off wait no more, and come back with no lock. */
	CHECK_OK(hm_buffer_resize(a.buffer, 2 * PAGE, 0));
	check_budget(3, 7, 0);
	CHECK_OK(hm_buffer_resize(a.buffer, 8 * PAGE, 0));
	check_map(&a, 0, 2);
	/* A new object: held locks stay held, waiting ones wait. */
	CHECK_OK(hm_buffer_resize(b.buffer, 16 * PAGE, HM_GROW_REPLACE));
	CHECK_EQUAL(map_info(b.map, 0).lock_held, 3 * PAGE);
	CHECK_EQUAL(map_info(b.map, 0).lock_waiting, 5 * PAGE);
	CHECK_EQUAL(test_status_bytes("VmLck"), 3 * PAGE);
	CHECK_OK(hm_lock_budget_set(HM_LOCK_NO_BUDGET));
	CHECK_EQUAL(query().used, 3 * PAGE);
	CHECK_OK(hm_lock_restore(NULL));
	check_map(&a, 2, 0);
	CHECK_EQUAL(map_info(b.map, 0).lock_held, 8 * PAGE);
	CHECK_EQUAL(test_status_bytes("VmLck"), 10 * PAGE);
	rig_drop(&a);
	CHECK_EQUAL(query().used, 8 * PAGE);
	make(&a, "weights");
	end(&a, &b);
	CHECK_EQUAL(query().used, 0);
}

/* Locked pages stay locked in a new object, also where no access is allowed. */
static void closed(void)
{
	struct hm_scope *scope;
	struct rig a, b;

	begin(&a, &b);
	CHECK_EQUAL(lock(&a, 0, 8, 0), 8);
	CHECK_OK_FATAL(hm_map_protect_begin(a.map, 2 * PAGE, 3 * PAGE, HM_NONE, &scope));
	CHECK_OK(hm_buffer_resize(a.buffer, 16 * PAGE, HM_GROW_REPLACE));
	CHECK_OK(hm_map_protect_end(scope));
	CHECK_EQUAL(query().used, 8 * PAGE);
	CHECK_EQUAL(test_status_bytes("VmLck"), 8 * PAGE);
	memset(hm_map_address(a.map), 1, 8 * PAGE);
	check_map(&a, 8, 0);
	end(&a, &b);
}

struct called {
	struct rig *own, *other;
	int r, times;
};

/* The map is being changed: it can neither be locked nor give way meanwhile. */
static int quiesce(void *user, const struct hm_view_change *change)
{
	struct called *called = user;

	(void)change;
	if (called->times++)
		return 0;
	CHECK_ERROR(-EDEADLK, lock(called->own, 0, 1, HM_LOCK_PRIORITY(1)));
	CHECK_ERROR(-EBUSY, hm_lock_budget_set(PAGE));
	CHECK_ERROR(-ENOMEM, lock(called->other, 0, 4, HM_LOCK_PRIORITY(1)));
	CHECK_EQUAL(lock(called->other, 0, 4, HM_LOCK_PRIORITY(1) | HM_LOCK_PARTIAL), 2);
	CHECK_OK(unlock(called->other, 0, 4));
	return 0;
}

static void busy(void)
{
	const struct hm_view_ops ops = { .struct_size = sizeof(ops), .quiesce = quiesce };
	struct called called;
	struct hm_view *view;
	struct rig a, b;

	begin(&a, &b);
	called = (struct called){ .own = &a, .other = &b };
	CHECK_OK_FATAL(hm_view_create(a.map, 0, 0, &ops, &called, &view));
	CHECK_EQUAL(lock(&a, 0, 4, 0), 4);
	CHECK_OK(hm_lock_budget_set(6 * PAGE));
	CHECK_OK(hm_map_protect(a.map, 0, PAGE, HM_READ));
	CHECK(called.times > 0);
	CHECK_EQUAL(query().set, 6 * PAGE);
	check_map(&a, 4, 0);
	CHECK_EQUAL(lock(&b, 0, 4, HM_LOCK_PRIORITY(1)), 4);
	check_map(&a, 2, 2);
	hm_view_unref(view);
	end(&a, &b);
}

static void in_fork_child(void *user)
{
	(void)user;
	CHECK_EQUAL(query().used, 0);
	CHECK_EQUAL(query().waiting, 0);
	CHECK_EQUAL(query().set, 2 * PAGE);
	CHECK_EQUAL(stats_now().bytes_locked, 0);
}

static void fork_child(void)
{
	struct rig a, b;

	begin(&a, &b);
	CHECK_EQUAL(lock(&a, 0, 4, 0), 4);
	CHECK_OK(hm_lock_budget_set(2 * PAGE));
	CHECK_EQUAL(test_fork(in_fork_child, NULL), 0);
	check_map(&a, 2, 2);
	end(&a, &b);
}

/* ---- many threads ---- */

#define THREADS 4
#define ROUNDS 150

struct worker {
	pthread_t thread;
	struct rig *maps;
	uint64_t seed;
};

static void *work(void *user)
{
	struct worker *worker = user;
	uint32_t flags, page, n, i;
	struct rig *l;
	int r;

	for (i = 0; i < ROUNDS; i++) {
		l = &worker->maps[test_random(&worker->seed) % THREADS];
		page = (uint32_t)(test_random(&worker->seed) % PAGES);
		n = 1 + (uint32_t)(test_random(&worker->seed) % (PAGES - page));
		flags = HM_LOCK_PRIORITY(test_random(&worker->seed) % HM_LOCK_PRIORITIES);
		switch (test_random(&worker->seed) % 6) {
		case 0:
			r = hm_map_unlock(l->map, page * PAGE, n * PAGE);
			break;
		case 1:
			r = hm_lock_restore(NULL);
			break;
		case 2:
			flags |= HM_LOCK_PARTIAL;
			/* fall through */
		default:
			r = hm_map_lock(l->map, page * PAGE, n * PAGE, flags, NULL);
			break;
		}
		if (r && r != -ENOMEM)
			test_fail(__FILE__, __LINE__, "%d: %s", r, hm_errmsg());
		/* Never more than the budget, in any thread. */
		if (test_status_bytes("VmLck") > 10 * PAGE || query().used > 10 * PAGE)
			test_fail(__FILE__, __LINE__, "more is locked than the budget");
	}
	return NULL;
}

static void threads(void)
{
	struct worker workers[THREADS];
	struct rig maps[THREADS];
	uint64_t seed = test_seed(), held = 0, waiting = 0;
	int i;

	CHECK_OK_FATAL(hm_device_open("host", &host));
	for (i = 0; i < THREADS; i++)
		make(&maps[i], "shared");
	CHECK_OK(hm_lock_budget_set(10 * PAGE));
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .maps = maps, .seed = seed + (uint64_t)i };
		CHECK_FATAL(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	for (i = 0; i < THREADS; i++) {
		held += map_info(maps[i].map, HM_MAP_LOCKED).lock_held;
		waiting += map_info(maps[i].map, 0).lock_waiting;
	}
	CHECK_EQUAL(query().used, held);
	CHECK_EQUAL(query().waiting, waiting);
	CHECK_EQUAL(test_status_bytes("VmLck"), held);
	for (i = 0; i < THREADS; i++)
		rig_drop(&maps[i]);
	CHECK_EQUAL(query().used, 0);
	CHECK_OK(hm_lock_budget_set(HM_LOCK_NO_BUDGET));
	hm_device_unref(host);
}

/* ---- behind the library ---- */

/* By number: under a sanitizer libc's munlock() does nothing. */
static void unlock_behind(const struct rig *l, uint64_t page, uint64_t n)
{
	CHECK(!syscall(SYS_munlock, l->bytes + page * PAGE, n * PAGE));
}

/* Compares the locked pages, and those that the account holds, with the map and the budget. */
static void check_real(const struct rig *l, uint64_t locked, uint64_t held)
{
	struct hm_map_info info = map_info(l->map, HM_MAP_LOCKED);

	CHECK_EQUAL(info.locked, locked * PAGE);
	CHECK_EQUAL(info.lock_held, held * PAGE);
	CHECK_EQUAL(query().kernel_locked, locked * PAGE);
	CHECK_EQUAL(query().used, held * PAGE);
}

static uint32_t page_is_locked(const struct rig *l, uint64_t page)
{
	struct hm_pointer_detail detail = {
		.struct_size = sizeof(detail),
		.fields = HM_POINTER_LOCKED,
	};

	CHECK_OK(hm_pointer_query(l->bytes + page * PAGE, &detail));
	return detail.locked;
}

/*
 * The program's own munlock() unlocks pages that hm_map_lock() has locked: queries report that,
 * the account goes on, and another hm_map_lock() locks them again.
 */
static void taken_behind(void)
{
	struct rig a, b;
	uint64_t again = 0;

	begin(&a, &b);
	CHECK_EQUAL(lock(&a, 1, 6, 0), 6);
	check_real(&a, 6, 6);
	unlock_behind(&a, 3, 1);
	check_real(&a, 5, 6);
	CHECK_EQUAL(page_is_locked(&a, 2), 1);
	CHECK_EQUAL(page_is_locked(&a, 3), 0);
	CHECK_EQUAL(lock(&a, 3, 1, 0), 1);
	check_real(&a, 6, 6);
	CHECK(!syscall(SYS_munlockall));
	check_real(&a, 0, 6);
	/* Pages that are not locked can be unlocked, and only those go. */
	CHECK_OK(unlock(&a, 0, 3));
	check_real(&a, 0, 4);
	CHECK_EQUAL(lock(&a, 0, 8, 0), 8);
	check_real(&a, 8, 8);
	/* The unlocked range gives way all the same, and comes back locked. */
	unlock_behind(&a, 0, 8);
	CHECK_OK(hm_lock_budget_set(2 * PAGE));
	check_real(&a, 0, 2);
	CHECK_EQUAL(map_info(a.map, 0).lock_waiting, 6 * PAGE);
	CHECK_OK(hm_lock_budget_set(HM_LOCK_NO_BUDGET));
	CHECK_OK(hm_lock_restore(&again));
	CHECK_EQUAL(again, 6 * PAGE);
	check_real(&a, 6, 8);
	CHECK_OK(unlock(&a, 0, 8));
	check_real(&a, 0, 0);
	end(&a, &b);
}

/* A lock of the program's own is told, too: in no account, and not hm_map_unlock()'s to take. */
static void locked_behind(void)
{
	struct rig a, b;

	begin(&a, &b);
	CHECK(!syscall(SYS_mlock, a.bytes, 2 * PAGE));
	check_real(&a, 2, 0);
	CHECK_EQUAL(page_is_locked(&a, 1), 1);
	CHECK_OK(unlock(&a, 0, 8));
	check_real(&a, 2, 0);
	/* The library's unlock also takes the program's own lock: locks do not nest. */
	CHECK_EQUAL(lock(&a, 1, 2, 0), 2);
	check_real(&a, 3, 2);
	CHECK_OK(unlock(&a, 1, 1));
	check_real(&a, 2, 1);
	unlock_behind(&a, 0, 1);
	CHECK_OK(unlock(&a, 0, 8));
	check_real(&a, 0, 0);
	end(&a, &b);
}

/* ---- replaced by the handler ---- */

#define BLOCK (512ull * PAGE)

/* Two pages of each of four blocks of a file are locked, and its bytes are gone. */
static void begin_replaced(struct rig *file, struct rig *a, struct rig *b)
{
	struct hm_device *device;
	uint64_t i;
	int fd = scratch_file(4 * BLOCK);

	begin(a, b);
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_OK_FATAL(hm_device_open("file", &device));
	*file = (struct rig){ .buffer = rig_file(device, NULL, fd, NULL) };
	file->map = rig_map(file->buffer, NULL);
	hm_device_unref(device);
	file->bytes = hm_map_address(file->map);
	CHECK_OK(hm_lock_budget_set(8 * PAGE));
	for (i = 0; i < 4; i++)
		CHECK_EQUAL(lock(file, i * 512, 2, HM_LOCK_PRIORITY(i)), 2);
	CHECK(!ftruncate(fd, 0));
	close(fd);
}

static void touch(const struct rig *l, uint64_t block)
{
	CHECK_EQUAL(*(volatile char *)(l->bytes + block * BLOCK + 9 * PAGE), 0);
}

static void check_used(uint64_t pages, uint64_t waiting)
{
	struct hm_lock_budget now = query();

	CHECK_EQUAL(now.used, pages * PAGE);
	CHECK_EQUAL(now.kernel_locked, pages * PAGE);
	CHECK_EQUAL(now.waiting, waiting * PAGE);
}

/* A block that replaced lost bytes is not locked: the next call finds out. */
static void replaced(void)
{
	struct rig file, a, b;

	begin_replaced(&file, &a, &b);
	CHECK_ERROR(-ENOMEM, lock(&a, 0, 2, 0));
	/* The lock of another map finds out first: nothing has to give way for it. */
	touch(&file, 0);
	CHECK_EQUAL(lock(&a, 0, 2, 0), 2);
	check_used(8, 0);
	/* The query. */
	touch(&file, 1);
	check_used(6, 0);
	/* A lock of the new block is not taken for that of the lost bytes. */
	CHECK_EQUAL(lock(&file, 512, 2, HM_LOCK_PRIORITY(1)), 2);
	check_used(8, 0);
	/* A waiting range there waits no longer. */
	CHECK_EQUAL(lock(&b, 0, 4, HM_LOCK_PRIORITY(7)), 4);
	check_used(8, 4);
	CHECK_EQUAL(map_info(file.map, 0).lock_waiting, 2 * PAGE);
	CHECK_EQUAL(query().waiting_by[1], 2 * PAGE);
	/* The map itself. */
	touch(&file, 3);
	CHECK_EQUAL(map_info(file.map, 0).lock_held, 2 * PAGE);
	check_used(6, 4);
	CHECK_OK(hm_lock_restore(NULL));
	check_used(8, 2);
	CHECK_EQUAL(query().used_by[1], 2 * PAGE);
	/* A smaller budget: the replaced pages are room already. */
	touch(&file, 2);
	CHECK_OK(hm_lock_budget_set(6 * PAGE));
	check_used(6, 2);
	CHECK_EQUAL(map_info(file.map, 0).lock_held, 2 * PAGE);
	rig_drop(&file);
	check_used(4, 2);
	end(&a, &b);
	CHECK_EQUAL(query().used, 0);
	CHECK_EQUAL(query().waiting, 0);
	CHECK_OK(hm_handler_remove());
}

static const struct test tests[] = {
	{ "shortage", shortage, 0, 0 },
	{ "giving_way", giving_way, 0, 0 },
	{ "rlimit", rlimit, 0, 0 },
	{ "privileges", privileges, 0, 0 },
	{ "smaller", smaller, 0, 0 },
	{ "closed", closed, 0, 0 },
	{ "busy", busy, 0, 0 },
	{ "fork_child", fork_child, 0, 0 },
	{ "own_range", own_range, 0, 0 },
	{ "taken_behind", taken_behind, 0, 0 },
	{ "locked_behind", locked_behind, 0, 0 },
	{ "replaced", replaced, 0, 0 },
	{ "threads", threads, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "lock_budget", tests)
