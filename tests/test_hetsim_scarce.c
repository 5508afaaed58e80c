// SPDX-License-Identifier: MIT
/*
 * Every operation of undo_operations.c where there is little of something: descriptors
 * and locked memory, as ulimit has it; and in the machine under test, whose settings are
 * this program's to change, mappings and memory to commit, and a control group of 64 MiB.
 * An error with a text or a success, nothing left over, and all well again with room.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hetsim.h"
#include "sim_devices.h"
#include "smaps.h"
#include "undo.h"

#define MIB (1ull << 20)
#define MAX_MAP_COUNT "/proc/sys/vm/max_map_count"
#define OVERCOMMIT "/proc/sys/vm/overcommit_memory"
#define COMMIT_KBYTES "/proc/sys/vm/overcommit_kbytes"
#define GROUP "/sys/fs/cgroup/hetmap-scarce"

static bool put(const char *path, uint64_t number)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	char text[24];
	bool done;

	snprintf(text, sizeof(text), "%" PRIu64, number);
	done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return done;
}

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

/* In pages; the capability is given up, once, before. */
static void little_locked(uint64_t room)
{
	limit(RLIMIT_MEMLOCK, test_status_bytes("VmLck") + room * PAGE);
}

static void all_locked(void)
{
	limit(RLIMIT_MEMLOCK, 64 << 10);
}

static void few_mappings(uint64_t room)
{
	CHECK(put(MAX_MAP_COUNT, maps_count() + room));
}

static void all_mappings(void)
{
	CHECK(put(MAX_MAP_COUNT, 65530));
}

/* What is committed already, and @room MiB; pages of shared memory count one by one. */
static void little_commit(uint64_t room)
{
	CHECK(put(COMMIT_KBYTES, meminfo_read("Committed_AS") / 1024 + room * 1024));
	CHECK(put(OVERCOMMIT, 2));
}

static void all_commit(void)
{
	CHECK(put(OVERCOMMIT, 0));
}

struct scarcity {
	void (*scarce)(uint64_t room); /* when the world of an operation is there */
	void (*plenty)(void);
	uint64_t most, step; /* room, from 0 on */
	int errors[5];       /* that are documented for it */
};

static const struct scarcity descriptors = {
	few_descriptors, all_descriptors, 6, 1, { -EMFILE, -ENOENT, -EAGAIN }
};
static const struct scarcity locked = { little_locked, all_locked, 16, 2, { -ENOMEM, -EPERM } };
static const struct scarcity mappings = { few_mappings, all_mappings, 16, 1, { -ENOMEM } };
static const struct scarcity commit = {
	little_commit, all_commit, 2, 1, { -ENOMEM, -EFAULT, -EAGAIN, -ENOSPC }
};

static bool is_documented(const struct scarcity *s, int r)
{
	size_t i;

	for (i = 0; i < sizeof(s->errors) / sizeof(s->errors[0]); i++)
		if (r == s->errors[i])
			return true;
	return !r;
}

static int run(const struct scarcity *s, const struct operation *operation, uint64_t room)
{
	struct test_holding before = test_holding_now(), after;
	struct world world;
	char text[256];
	int r;

	undo_set_up(operation, &world);
	test_forget_text();
	s->scarce(room);
	r = operation->run(&world);
	snprintf(text, sizeof(text), "%s", hm_errmsg());
	s->plenty();
	if (!is_documented(s, r) || (r && !text[0]))
		test_fail(__FILE__, __LINE__, "%s with room %" PRIu64 ": %d (%s)",
			  operation->name, room, r, text);
	/* Made before the step that failed. */
	if (r && world.ret_buffer != UNTOUCHED) {
		hm_buffer_unref(world.ret_buffer);
		world.ret_buffer = UNTOUCHED;
	}
	if (r && operation->run(&world))
		test_fail(__FILE__, __LINE__,
			  "%s with room %" PRIu64 " fails with plenty, too: %s",
			  operation->name, room, hm_errmsg());
	undo_tear_down(&world);
	after = test_holding_now();
	if (after.fds != before.fds || after.locked != before.locked ||
	    after.objects != before.objects || after.mapped > before.mapped)
		test_fail(__FILE__, __LINE__,
			  "%s with room %" PRIu64 ": something is left over", operation->name,
			  room);
	return r;
}

/* Of some operation it must have been too little, or the test tests nothing. */
static void walk(const struct scarcity *s)
{
	unsigned int i, refused = 0, done;
	struct world world;
	uint64_t room;

	undo_device = "host";
	s->plenty();
	for (i = 0; i < undo_n_operation; i++) {
		/* Unharmed, so that what is made once is made. */
		undo_set_up(&undo_operations[i], &world);
		CHECK_OK(undo_operations[i].run(&world));
		undo_tear_down(&world);
		/* Done twice: more room only makes the same of it. */
		for (room = 0, done = 0; room <= s->most && done < 2; room += s->step) {
			if (run(s, &undo_operations[i], room))
				refused++;
			else
				done++;
		}
	}
	CHECK(refused > 0);
}

static void in_child(void *user)
{
	walk(user);
}

static void ulimit_n(void)
{
	CHECK_EQUAL(test_fork(in_child, (void *)&descriptors), 0);
}

static void without_privilege(void *user)
{
	limit_memlock(64 << 10);
	walk(user);
}

static void ulimit_l(void)
{
	CHECK_EQUAL(test_fork(without_privilege, (void *)&locked), 0);
}

/* Where hetsim is, the machine is the tests'. False: the test was skipped. */
static bool is_ours(void)
{
	int fd = hetsim_open(O_RDWR);

	if (fd < 0)
		return false;
	close(fd);
	if (!geteuid())
		return true;
	test_skip("kernel", "only root may change what there is");
	return false;
}

static void max_map_count(void)
{
	if (!is_ours())
		return;
	CHECK_EQUAL(test_fork(in_child, (void *)&mappings), 0);
	all_mappings();
}

static void overcommit(void)
{
	if (!is_ours())
		return;
	CHECK_EQUAL(test_fork(in_child, (void *)&commit), 0);
	all_commit();
}

/* ---- a control group of 64 MiB ---- */

/* More can be made than is there, as it takes nothing yet; what is made at once is not. */
static void in_group(void *user)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = 80 * MIB };
	struct hm_device *device, *sim;
	struct hm_buffer *buffer = NULL;
	char *bytes;

	(void)user;
	CHECK_FATAL(put(GROUP "/cgroup.procs", 0));
	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_device_open("sim:0", &sim));
	/* A window is too small for it, which says no first. */
	if (sim_query(sim).window_bytes)
		desc.place = HM_PLACE_SYSTEM;
	CHECK_ERROR(-ENOMEM, hm_buffer_create(sim, &desc, &buffer));
	CHECK(!buffer);
	desc.size = 8 * MIB;
	CHECK_OK_FATAL(hm_buffer_create(sim, &desc, &buffer));
	hm_buffer_unref(buffer);
	CHECK_OK_FATAL(hm_alloc(device, 256 * MIB, HM_READ | HM_WRITE, &bytes));
	pattern_write(bytes, 0, 24 * MIB, 1);
	CHECK(pattern_holds(bytes, 0, 24 * MIB, 1));
	CHECK_OK(hm_realloc(bytes, MIB, 0, NULL));
	CHECK_OK(hm_free(bytes));
	hm_device_unref(sim);
	hm_device_unref(device);
}

static void memory_max(void)
{
	int fd;

	if (!is_ours())
		return;
	fd = open("/sys/fs/cgroup/cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "+memory", 7) < 0)
		test_forget_text(); /* on already */
	if (fd >= 0)
		close(fd);
	if ((mkdir(GROUP, 0700) && errno != EEXIST) || !put(GROUP "/memory.max", 64 * MIB)) {
		test_skip("kernel", "no control group with a limit of memory can be made");
		return;
	}
	CHECK_EQUAL(test_fork(in_group, NULL), 0);
	rmdir(GROUP);
}

static const struct test tests[] = {
	{ "ulimit_n", ulimit_n, 60, 0 },           { "ulimit_l", ulimit_l, 60, 0 },
	{ "max_map_count", max_map_count, 60, 0 }, { "overcommit", overcommit, 60, 0 },
	{ "memory_max", memory_max, 60, 0 },       { NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "hetsim_scarce", tests);
}
