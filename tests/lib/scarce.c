// SPDX-License-Identifier: MIT
/*
 * Every operation of undo_operations.c where there is little of something: an error with a
 * text or a success, the old state whole, nothing left over, and all well again with room.
 */
#include "lib/scarce.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/hetsim.h"
#include "core/undo.h"

static void limit(int resource, uint64_t value)
{
	struct rlimit both;

	CHECK(!getrlimit((__rlimit_resource_t)resource, &both));
	both.rlim_cur = value < both.rlim_max ? value : both.rlim_max;
	CHECK(!setrlimit((__rlimit_resource_t)resource, &both));
}

static unsigned int next_fd(void)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

	CHECK_FATAL(fd >= 0);
	close(fd);
	return (unsigned int)fd;
}

static void few_descriptors(uint64_t room)
{
	limit(RLIMIT_NOFILE, next_fd() + room);
}

static void all_descriptors(void)
{
	limit(RLIMIT_NOFILE, 64);
}

static void without_privilege(void)
{
	limit_memlock(64 << 10);
}

/* In pages; the capability is given up, once, before. */
static void little_locked(uint64_t room)
{
	limit(RLIMIT_MEMLOCK, test_status_bytes("VmLck") + room * PAGE);
}

static void all_locked(void)
{
	limit(RLIMIT_MEMLOCK, 64 << 10);
}

const struct scarcity scarce_descriptors = {
	.name = "ulimit_n",
	.scarce = few_descriptors,
	.plenty = all_descriptors,
	.most = 6,
	.step = 1,
	.errors = { -EMFILE, -ENOENT, -EAGAIN },
};

const struct scarcity scarce_locked = {
	.name = "ulimit_l",
	.give_up = without_privilege,
	.scarce = little_locked,
	.plenty = all_locked,
	.most = 16,
	.step = 2,
	.errors = { -ENOMEM, -EPERM },
	.unused_on = "sim:0",
};

static bool is_host(void)
{
	return !strcmp(undo_device, "host");
}

static bool is_documented(const struct scarcity *s, int r)
{
	size_t i;

	for (i = 0; i < sizeof(s->errors) / sizeof(s->errors[0]); i++)
		if (r == s->errors[i])
			return true;
	return !r;
}

static int run_once(const struct scarcity *s, const struct operation *operation, uint64_t room)
{
	struct test_holding before = test_holding_now(), after;
	struct undo_shape shape;
	struct world world;
	char context[96];
	int r;

	snprintf(context, sizeof(context), "%s on %s with room %" PRIu64, operation->name,
		 undo_device, room);
	undo_set_up(operation, &world);
	undo_take_shape(&world, &shape);
	test_forget_text();
	s->scarce(room);
	r = operation->run(&world);
	s->plenty();
	if (!is_documented(s, r))
		test_fail(__FILE__, __LINE__, "%s: %d (%s)", context, r, hm_errmsg());
	if (r)
		undo_check_failure(operation, &world, &shape, context);
	undo_tear_down(&world);
	after = test_holding_now();
	if (after.fds != before.fds || after.locked != before.locked ||
	    after.objects != before.objects || after.mapped > before.mapped)
		test_fail(__FILE__, __LINE__, "%s: something is left over", context);
	return r;
}

/* The place of a walk, and its counts: a child that is ended is followed by another. */
struct progress {
	unsigned int operation, refused, killed;
	uint64_t room; /* for the operation */
};

struct walk {
	const struct scarcity *of;
	struct progress *at; /* shared with the children */
};

/* Runs it once unharmed, so that objects made only once are there. */
static void warm_up(const struct operation *operation)
{
	struct world world;

	undo_set_up(operation, &world);
	CHECK_OK(operation->run(&world));
	undo_tear_down(&world);
}

static void walk_one(const struct walk *walk, const struct operation *operation)
{
	/*
	 * More room only repeats the success. On other devices once is enough: the host's walk has
	 * the second one, and each takes seconds when emulated.
	 */
	unsigned int done = 0, wanted = is_host() ? 2 : 1;
	struct progress *at = walk->at;

	warm_up(operation);
	while (at->room <= walk->of->most && done < wanted) {
		uint64_t room = at->room;

		at->room += walk->of->step;
		if (run_once(walk->of, operation, room))
			at->refused++;
		else
			done++;
	}
}

static void walk_on(void *user)
{
	const struct walk *walk = user;
	struct progress *at = walk->at;

	if (walk->of->give_up)
		walk->of->give_up();
	walk->of->plenty();
	for (; at->operation < undo_n_operation; at->operation++, at->room = 0)
		if (undo_runs_on(&undo_operations[at->operation], undo_device))
			walk_one(walk, &undo_operations[at->operation]);
}

/* True: the kernel ended the child for want of the resource, and it has left nothing. */
static bool was_ended(const struct scarcity *s, int r, uint64_t kills, int objects)
{
	if (r != SIGKILL || !s->kills || s->kills() == kills)
		return false;
	CHECK_EQUAL(hetsim_objects_of(HETSIM_PATH), objects);
	return true;
}

/* Some operation must have had too little, or the test tests nothing. */
static void walk_all(const struct scarcity *s)
{
	struct progress *at = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct walk walk = { .of = s, .at = at };
	uint64_t kills;
	int objects = hetsim_objects_of(HETSIM_PATH), r;

	CHECK_FATAL(at != MAP_FAILED);
	do {
		kills = s->kills ? s->kills() : 0;
		r = test_fork(walk_on, &walk);
		at->killed++;
	} while (was_ended(s, r, kills, objects));
	at->killed--;
	CHECK_EQUAL(r, 0);
	if (s->kills) {
		printf("%s on %s: %u refused, %u ended\n", s->name, undo_device, at->refused,
		       at->killed);
		fflush(stdout);
	}
	CHECK(at->refused + at->killed > 0 ||
	      (s->unused_on && !strcmp(s->unused_on, undo_device)));
	munmap(at, sizeof(*at));
}

/* False: the test was skipped. */
static bool is_there(const char *device)
{
	int fd;

	if (strcmp(device, "sim:0"))
		return true;
	fd = hetsim_open(O_RDWR);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static const struct scarce_walk *all_walks;
static struct test *tests;

/* The limits are a child's; the machine's settings are put back at the end. */
static void run(void)
{
	const struct scarce_walk *one = &all_walks[test_current() - tests];

	if (one->of->is_ours ? !one->of->is_ours() : !is_there(one->device))
		return;
	undo_device = one->device;
	walk_all(one->of);
	if (one->of->is_ours)
		one->of->plenty();
}

int scarce_main(int argc, char **argv, const char *suite, const struct scarce_walk *walks,
		const struct test *others)
{
	unsigned int i, n = 0, n_other = 0;
	char *name;

	while (walks[n].of)
		n++;
	while (others && others[n_other].name)
		n_other++;
	all_walks = walks;
	tests = calloc((size_t)n + n_other + 1, sizeof(tests[0]));
	if (!tests)
		return 1;
	for (i = 0; i < n; i++) {
		if (asprintf(&name, "%s.%s", walks[i].of->name, walks[i].device) < 0)
			return 1;
		tests[i] = (struct test){ name, run, 60, 0 };
	}
	if (n_other)
		memcpy(tests + n, others, n_other * sizeof(others[0]));
	return harness_main(argc, argv, suite, tests);
}
