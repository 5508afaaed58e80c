// SPDX-License-Identifier: MIT
/*
 * The walks of tests/lib/scarce.c where hetsim is, on its device, too: few descriptors and little
 * locked memory, as ulimit has it; and as the settings of the machine under test are this program's
 * to change, few mappings, little memory to commit, a control group of 64 MiB, and one with little
 * CPU time.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/control_group.h"
#include "lib/hetsim.h"
#include "lib/rig.h"
#include "lib/scarce.h"
#include "lib/sim_devices.h"
#include "base/smaps.h"

#define MAX_MAP_COUNT "/proc/sys/vm/max_map_count"
#define OVERCOMMIT "/proc/sys/vm/overcommit_memory"
#define COMMIT_KBYTES "/proc/sys/vm/overcommit_kbytes"

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

static void few_mappings(uint64_t room)
{
	CHECK(put(MAX_MAP_COUNT, maps_count() + room));
}

static void all_mappings(void)
{
	CHECK(put(MAX_MAP_COUNT, 65530));
}

/* Room for @room MiB beyond the committed memory; pages of shared memory count one by one. */
static void little_commit(uint64_t room)
{
	CHECK(put(COMMIT_KBYTES, meminfo_read("Committed_AS") / 1024 + room * 1024));
	CHECK(put(OVERCOMMIT, 2));
}

static void all_commit(void)
{
	CHECK(put(OVERCOMMIT, 0));
}

static const struct scarcity mappings = {
	.name = "max_map_count",
	.is_ours = is_ours,
	.scarce = few_mappings,
	.plenty = all_mappings,
	.most = 16,
	.step = 1,
	.errors = { -ENOMEM },
};

static const struct scarcity commit = {
	.name = "overcommit",
	.is_ours = is_ours,
	.scarce = little_commit,
	.plenty = all_commit,
	.most = 2,
	.step = 1,
	.errors = { -ENOMEM, -EFAULT, -EAGAIN, -ENOSPC },
	/* Its pages are the module's. */
	.unused_on = "sim:0",
};

/* ---- a control group of 64 MiB ---- */

static bool group_is_ours(void)
{
	return is_ours() && control_group_make(MIB(64));
}

static void little_of_group(uint64_t room)
{
	control_group_leave(room * PAGE);
}

static void all_of_group(void)
{
	control_group_limit(MIB(64));
}

/* In pages. Pages are charged at a touch, and the kernel kills at the limit [cgroup-v2.rst]. */
static const struct scarcity group = {
	.name = "memory_max",
	.is_ours = group_is_ours,
	.give_up = control_group_enter,
	.scarce = little_of_group,
	.plenty = all_of_group,
	.kills = control_group_kills,
	.most = 24,
	.step = 8,
	.errors = { -ENOMEM, -EAGAIN, -ENOSPC, -EFAULT },
};

/* A buffer may be larger than the group, as it takes nothing yet; but not one made at once. */
static void in_group(void *user)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = MIB(80) };
	AUTO(hm_device) *device = NULL, *sim = NULL;
	struct hm_buffer *buffer = NULL;
	char *bytes;

	(void)user;
	control_group_enter();
	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_device_open("sim:0", &sim));
	/* A window is too small for it, which says no first. */
	if (sim_query(sim).window_bytes)
		desc.place = HM_PLACE_SYSTEM;
	CHECK_ERROR(-ENOMEM, hm_buffer_create(sim, &desc, &buffer));
	CHECK(!buffer);
	desc.size = MIB(8);
	CHECK_OK_FATAL(hm_buffer_create(sim, &desc, &buffer));
	hm_buffer_unref(buffer);
	CHECK_OK_FATAL(hm_alloc(device, MIB(256), HM_READ | HM_WRITE, &bytes));
	pattern_write(bytes, 0, MIB(24), 1);
	CHECK(pattern_holds(bytes, 0, MIB(24), 1));
	CHECK_OK(hm_realloc(bytes, MIB(1), 0, NULL));
	CHECK_OK(hm_free(bytes));
}

static void test_group(void)
{
	TEST_NEEDS(group_is_ours());
	CHECK_EQUAL(test_fork(in_group, NULL), 0);
	control_group_remove();
}

#define COMMANDS 256 /* as many as a submission may have */

/* Binds each at a place of its own: four page tables. 0 or a negative errno. */
static int bind_sparsely(int fd, uint32_t handle, unsigned int most)
{
	struct hetsim_bind bind = { .size = sizeof(bind), .handle = handle };
	unsigned int i;
	int r = 0;

	bind.length = 2 * PAGE;
	bind.address = (1ull << 30) - PAGE;
	for (i = 0; i < most && !r; i++, bind.address += 2ull << 30)
		r = hetsim_call(fd, HETSIM_BIND, &bind);
	return r;
}

static int unbind_all(int fd)
{
	return hetsim_call(fd, HETSIM_UNBIND, SIZED(hetsim_unbind, .length = 1ull << 48));
}

static int submit_many(int fd, uint32_t queue, unsigned int most)
{
	static struct hetsim_command nothing[COMMANDS];
	uint64_t seqno;
	unsigned int i;
	int r = 0;

	for (i = 0; i < most && !r; i++)
		r = hetsim_submit(fd, queue, nothing, COMMANDS, &seqno);
	return r;
}

/*
 * The code that runs in the full group ran before, and stays in memory: a page that the process had
 * to bring in there would end the process.
 */
static void calls_in_group(void *user)
{
	struct hetsim_buffer buffer = { 0 };
	uint32_t queue;
	int fd, round;

	(void)user;
	control_group_enter();
	fd = hetsim_open(O_RDWR);
	CHECK_FATAL(!hetsim_buffer_create(fd, 2 * PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer));
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, HETSIM_MAX_TIMEOUT_MS);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	for (round = 0; round < 2; round++) {
		if (round) {
			CHECK_FATAL(!mlockall(MCL_CURRENT));
			control_group_leave(MIB(4));
		}
		CHECK_EQUAL(bind_sparsely(fd, buffer.handle, round ? 4096 : 1),
			    round ? -ENOMEM : 0);
		CHECK_EQUAL(unbind_all(fd), 0);
		CHECK_EQUAL(submit_many(fd, queue, round ? 2000 : 1), round ? -ENOMEM : 0);
	}
	hetsim_close(fd);
}

/* Page tables and submissions without room in the group are refused, and no process ends. */
static void test_group_calls(void)
{
	TEST_NEEDS(group_is_ours());
	CHECK_EQUAL(test_fork(calls_in_group, NULL), 0);
	CHECK_EQUAL(control_group_kills(), 0);
	control_group_remove();
}

/* ---- a control group with 5 % of a CPU ---- */

#define CPU_PERCENT 5
#define CPU_MOST 25 /* that is measured of it: it may end in the middle of a tick */
#define CPU_SECONDS 2
#define CPU_PENDING 64 /* submissions: work for the whole time, and soon done without a limit */

/* Fills the buffer again and again, for so long; waits for the end without the limit. */
static void keep_busy(int fd, uint32_t queue, const struct hetsim_buffer *buffer)
{
	struct hetsim_command command = {
		.op = HETSIM_OP_FILL,
		.length = buffer->length,
		.destination = (uintptr_t)buffer->bytes,
	};
	uint64_t seqno = 0, address, before = control_group_cpu_us(), took;
	int r, status = 1, pending = 0;
	double begin = test_now();
	bool charged = control_group_tasks();

	while (test_now() - begin < CPU_SECONDS) {
		if (pending < CPU_PENDING) {
			CHECK_FATAL(!hetsim_submit(fd, queue, &command, 1, &seqno));
			pending++;
			continue;
		}
		/* Only the last one is looked at: under the limit none of them ends at once. */
		r = hetsim_wait(fd, queue, seqno, 10, &status, &address);
		CHECK(!r || r == -ETIME);
		if (!r)
			pending = 0;
	}
	took = control_group_cpu_us() - before;
	if (charged)
		CHECK(took && (double)took / 1e4 < (test_now() - begin) * CPU_MOST);
	else
		CHECK_EQUAL(took, 0);
	CHECK_FATAL(control_group_cpu_limit(100));
	CHECK_EQUAL(hetsim_wait(fd, queue, seqno, 60000, &status, &address), 0);
	CHECK_EQUAL(status, 0);
}

/* @user: is the engine's thread to be in the group of the queue's maker? */
static void engine_in_group(void *user)
{
	struct hetsim_buffer buffer;
	uint32_t queue;
	int fd, i;

	control_group_enter();
	fd = hetsim_open(O_RDWR);
	buffer = hetsim_buffer_make(fd, MIB(4), HETSIM_PLACE_SYSTEM);
	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, HETSIM_MAX_TIMEOUT_MS);
	/* The limit is not for this process. */
	control_group_go();
	CHECK_EQUAL(control_group_tasks(), *(bool *)user);
	CHECK_FATAL(control_group_cpu_limit(CPU_PERCENT));
	keep_busy(fd, queue, &buffer);
	/* A map holds the open file. The thread leaves the group a moment after its last work. */
	CHECK_EQUAL(hetsim_munmap(buffer.bytes, buffer.length), 0);
	hetsim_close(fd);
	for (i = 0; i < 500 && control_group_tasks(); i++)
		usleep(10000);
	CHECK_EQUAL(control_group_tasks(), 0);
}

/* As the administrator wishes, the engine takes no more of a CPU than the caller may. */
static void test_cpu_time(void)
{
	static const char path[] = "/sys/module/hetsim/parameters/engine_cgroup";
	bool charged;
	int i;

	TEST_NEEDS(group_is_ours());
	if (!control_group_cpu_limit(100)) {
		control_group_remove();
		test_skip("kernel", "no control group with a limit of CPU time can be made");
		return;
	}
	for (i = 0; i < 2; i++) {
		charged = i;
		CHECK_FATAL(put(path, charged));
		CHECK_EQUAL(test_fork(engine_in_group, &charged), 0);
	}
	CHECK_FATAL(put(path, 0));
	control_group_remove();
}

static const struct test others[] = {
	{ "group", test_group, 60, 0 },
	{ "group_calls", test_group_calls, 60, 0 },
	{ "cpu_time", test_cpu_time, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	/* Other limits of ulimit do not depend on the kernel: test_scarce has them. */
	static const struct scarce_walk walks[] = {
		{ &scarce_descriptors, "sim:0" },
		{ &scarce_locked, "sim:0" },
		{ &mappings, "host" },
		{ &mappings, "soft:0" },
		{ &mappings, "sim:0" },
		{ &commit, "host" },
		{ &commit, "soft:0" },
		{ &commit, "sim:0" },
		{ &group, "host" },
		{ &group, "soft:0" },
		{ &group, "sim:0" },
		{ NULL, NULL },
	};

	return scarce_main(argc, argv, "hetsim_scarce", walks, others);
}
