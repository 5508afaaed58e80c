// SPDX-License-Identifier: MIT
/* The operations of undo_operations.c that touch bytes, and those that ask. */
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/undo.h"

/* ---- queries: answers are right, whichever file could not be read ---- */

int undo_map_query(struct world *world)
{
	struct hm_map_info info = {
		.struct_size = sizeof(info),
		.fields = HM_MAP_RESIDENT | HM_MAP_LOCKED,
	};
	int r = hm_map_query(world->map, &info);

	if (!r)
		CHECK_EQUAL(info.resident, world->resident);
	return r;
}

int undo_pointer_query(struct world *world)
{
	bool walkable = buffer_info(world->buffer).caps & HM_CAP_POPULATE;
	struct hm_pointer_detail detail = {
		.struct_size = sizeof(detail),
		.fields = HM_POINTER_NODE | HM_POINTER_PAGE_SIZE | HM_POINTER_LOCKED |
			  (walkable ? HM_POINTER_RESIDENT : 0),
	};
	int r = hm_pointer_query(hm_map_address(world->map), &detail);

	if (!r) {
		CHECK_EQUAL(detail.page_size, PAGE);
		CHECK_EQUAL(detail.resident, walkable);
	}
	return r;
}

static bool may_lock(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2] = { 0 };

	CHECK(!syscall(SYS_capget, &header, sets));
	return sets[0].effective >> CAP_IPC_LOCK & 1;
}

int undo_budget_query(struct world *world)
{
	struct hm_lock_budget budget = { .struct_size = sizeof(budget) };
	int r = hm_lock_budget_query(&budget);

	(void)world;
	if (!r) {
		CHECK_EQUAL(budget.kernel_locked, test_status_bytes("VmLck"));
		CHECK_EQUAL(budget.privileged, may_lock());
	}
	return r;
}

/* ---- accesses: the bytes stay as they are ---- */

#define COPIED (2 * PAGE + 11)
#define BEHIND (4 * PAGE + 5) /* the first copied bytes */

int undo_bracket(struct world *world)
{
	int r = hm_map_begin_cpu(world->map, PAGE, 3 * PAGE, HM_READ | HM_WRITE);

	return r ? r : hm_map_end_cpu(world->map, PAGE, 3 * PAGE, HM_READ | HM_WRITE);
}

int undo_copy_in(struct world *world)
{
	char *bytes = (char *)hm_map_address(world->map) + 5;
	static char from[COPIED];

	memcpy(from, bytes, COPIED);
	return hm_copy_in(bytes, from, COPIED, NULL);
}

int undo_copy_out(struct world *world)
{
	const char *bytes = (char *)hm_map_address(world->map) + 5;
	static char to[COPIED];
	int r;

	memset(to, 0, COPIED);
	r = hm_copy_out(to, bytes, COPIED, NULL);
	if (!r)
		CHECK(!memcmp(to, bytes, COPIED));
	return r;
}

/* Both ends are in maps of one buffer, and the bytes are those that are there. */
int undo_copy_between(struct world *world)
{
	char *to = (char *)hm_map_address(world->second) + 5;
	char *base = hm_map_address(world->map);
	int r;

	memcpy(base + BEHIND, to, COPIED);
	r = hm_copy_in(to, base + BEHIND, COPIED, NULL);
	pattern_write(base, BEHIND, BEHIND + COPIED, 1);
	return r;
}

/* A scope in which faults would end the process is none. */
static void check_unblocked(void)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	CHECK(!sigismember(&now, SIGBUS) && !sigismember(&now, SIGSEGV));
}

int undo_guard(struct world *world)
{
	const volatile char *byte = hm_map_address(world->map);
	struct hm_guard guard;
	int r;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (r)
		return r;
	check_unblocked();
	(void)*byte;
	return hm_guard_end(&guard);
}

/* The thread blocks signals of faults: a refused call leaves them blocked. */
static int run_blocked(struct world *world, int (*run)(struct world *world))
{
	sigset_t faults, before, after;
	int r;

	sigemptyset(&faults);
	sigaddset(&faults, SIGBUS);
	sigaddset(&faults, SIGSEGV);
	pthread_sigmask(SIG_BLOCK, &faults, &before);
	r = run(world);
	pthread_sigmask(SIG_SETMASK, &before, &after);
	if (r)
		CHECK(sigismember(&after, SIGBUS) && sigismember(&after, SIGSEGV));
	return r;
}

int undo_copy_out_blocked(struct world *world)
{
	return run_blocked(world, undo_copy_out);
}

int undo_guard_blocked(struct world *world)
{
	return run_blocked(world, undo_guard);
}

/* ---- after a loss ---- */

int undo_set_loss(struct world *world)
{
	return hm_buffer_set_loss(world->buffer, DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW));
}

int undo_shadow(struct world *world)
{
	return hm_buffer_shadow(world->buffer, 0, SIZE);
}

/* ---- ends, by a thread ---- */

int undo_retire(struct world *world)
{
	int r = hm_retire_set(DESC(hm_retire_desc, .flags = HM_RETIRE_DEFER));

	if (r)
		return r;
	hm_map_unref(world->second);
	world->second = NULL;
	return hm_retire_set(NULL);
}
