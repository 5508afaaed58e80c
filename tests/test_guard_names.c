// SPDX-License-Identifier: MIT
/* A name that two threads have, one after the other: the first one's scope is not the other's. */
#include <hetmap/guard.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "handler.h"
#include "support.h"

#define PAGE 4096ull
#define SLOTS 4096            /* guard.c: threads with a scope at a time */
#define STACK (2ull << 20)    /* sanitizers take their part */
#define STACKS (512ull << 20) /* where they are looked for: nothing of it is touched */

static struct {
	_Atomic bool begun, end;
	uintptr_t name;
} held;

static void *tell_name(void *user)
{
	(void)user;
	held.name = (uintptr_t)pthread_self();
	return NULL;
}

/* The first in its slot: the next one whose turn it is has the one behind. */
static void *hold_scope(void *user)
{
	struct hm_guard guard;

	(void)user;
	HM_GUARD_INIT(&guard);
	CHECK_OK(hm_guard_begin(&guard));
	held.begun = true;
	while (!held.end)
		usleep(1000);
	CHECK_OK(hm_guard_end(&guard));
	return NULL;
}

static void *end_inside(void *user)
{
	struct hm_guard guard;

	(void)user;
	HM_GUARD_INIT(&guard);
	CHECK_OK(hm_guard_begin(&guard));
	return NULL;
}

static void *begin_and_end(void *user)
{
	struct hm_guard guard;

	(void)user;
	HM_GUARD_INIT(&guard);
	CHECK_OK(hm_guard_begin(&guard));
	CHECK_OK(hm_guard_end(&guard));
	/* A fault would be the dead thread's scope's. */
	CHECK(!guard_innermost());
	return NULL;
}

static pthread_t run_on(char *stack, void *(*run)(void *))
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	CHECK_FATAL(!pthread_attr_setstack(&attr, stack, STACK));
	CHECK_FATAL(!pthread_create(&thread, &attr, run, NULL));
	pthread_attr_destroy(&attr);
	return thread;
}

/* Another stack, on which a thread's slot would be the one that @name has. */
static char *find_stack(char *stacks, uintptr_t name)
{
	uint64_t at;

	for (at = 2 * STACK; at < STACKS - STACK; at += PAGE)
		if (handler_hash(name + at) % SLOTS == handler_hash(name) % SLOTS)
			return stacks + at;
	return NULL;
}

static void same_name(void)
{
	char *stacks, *other;
	pthread_t first;

	CHECK_OK_FATAL(hm_handler_install(0));
	stacks = mmap(NULL, STACKS, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK_FATAL(stacks != MAP_FAILED);
	/* A thread's name is an address at the end of its stack. */
	pthread_join(run_on(stacks, tell_name), NULL);
	other = find_stack(stacks, held.name);
	CHECK_FATAL(other != NULL);
	held.begun = held.end = false;
	first = run_on(stacks, hold_scope);
	while (!held.begun)
		usleep(1000);
	pthread_join(run_on(other, end_inside), NULL);
	held.end = true;
	pthread_join(first, NULL);
	pthread_join(run_on(other, begin_and_end), NULL);
	munmap(stacks, STACKS);
	CHECK_OK(hm_handler_remove());
}

static const struct test tests[] = {
	{ "same_name", same_name, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "guard_names", tests);
}
