// SPDX-License-Identifier: MIT
/*
 * soft:0 in a process with no rights: a user without any, without userfaultfd(2), and in some
 * tests without /proc/self/pagemap.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

#define NOBODY 65534
#define HAS (SIM_REACHED | SIM_SMALL | SIM_LEFT)

/* True if the kernel refuses userfaultfd(2) from now on. */
static bool refuse_userfaultfd(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* @pagemap: the process may read /proc/self, as a program that this user has started. */
static bool become_nobody(bool pagemap)
{
	if (!geteuid())
		CHECK_FATAL(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY));
	CHECK_EQUAL(prctl(PR_SET_DUMPABLE, pagemap), 0);
	if (refuse_userfaultfd()) {
		CHECK(syscall(SYS_userfaultfd, O_CLOEXEC) == -1 && errno == EPERM);
		return true;
	}
	test_skip("kernel", "no seccomp filters");
	return false;
}

/* One of the module's and the twin's tests. */
static void run_other(void *user)
{
	const struct test *test = user;

	if (become_nobody(true))
		test->run();
}

/* A buffer's whole life, with work on it, its move, and other holders. */
static void pass(int fd)
{
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct hetsim_command fill = { .op = HETSIM_OP_FILL, .length = MIB(1), .value = 3 };
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	struct hetsim_import import;
	int other = hetsim_open(O_RDONLY), dmabuf, status = 1;
	uint64_t seqno = 0, address;
	unsigned char byte = 0;

	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	fill.destination = (uintptr_t)buffer.bytes;
	fence.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	CHECK_EQUAL(hetsim_submit(fd, fence.queue, &fill, 1, &seqno), 0);
	fence.seqno = seqno;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence), 0);
	CHECK_EQUAL(hetsim_wait(fd, fence.queue, seqno, 60000, &status, &address), 0);
	CHECK_EQUAL(status, 0);
	hetsim_fence_check(fence.fd, 0);
	close(fence.fd);
	CHECK_EQUAL(buffer.bytes[MIB(1) - 4], 3);

	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_SYSTEM), 0);
	dmabuf = hetsim_export(fd, buffer.handle, 0);
	CHECK_FATAL(dmabuf >= 0);
	CHECK_EQUAL(hetsim_import(other, dmabuf, &import), 0);
	close(dmabuf);
	CHECK_EQUAL(hetsim_pread(other, &byte, 1, import.offset), 1);
	CHECK_EQUAL(byte, 3);
	hetsim_close(other);
	CHECK_EQUAL(hetsim_unbind(fd, &buffer), 0);
	hetsim_buffer_drop(fd, &buffer);
	CHECK_EQUAL(hetsim_query(fd).opener_used, 0);
}

static void run_pass(void *user)
{
	const bool *pagemap = user;
	struct hetsim_buffer_sample sample = { .size = sizeof(sample),
					       .action = HETSIM_SAMPLE_START };
	struct hetsim_buffer buffer;
	int fd;

	if (!become_nobody(*pagemap))
		return;
	fd = hetsim_open(O_RDWR);
	CHECK_FATAL(fd >= 0);
	pass(fd);
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	sample.handle = buffer.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), *pagemap ? 0 : -EOPNOTSUPP);
	hetsim_buffer_drop(fd, &buffer);
	hetsim_close(fd);
	CHECK_EQUAL(hetsim_objects(), 0);
}

static void test_pass(void)
{
	CHECK_EQUAL(test_fork(run_pass, &(bool){ true }), 0);
}

static void test_no_pagemap(void)
{
	CHECK_EQUAL(test_fork(run_pass, &(bool){ false }), 0);
}

static const struct test own[] = {
	{ "pass", test_pass, 0, 0 },
	{ "no_pagemap", test_no_pagemap, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

#define TESTS_MAX 32

static struct test tests[TESTS_MAX + 1];
static const struct test *others[TESTS_MAX];

static void test_other(void)
{
	CHECK_EQUAL(test_fork(run_other, (void *)others[test_current() - tests]), 0);
}

/* False: there is no memory, or no room. */
static bool add(const char *table, const struct test *from, unsigned int *n)
{
	char *name;

	for (; from->name; from++) {
		if (!sim_test_fits(from, HAS))
			continue;
		if (*n == TESTS_MAX || asprintf(&name, "%s.%s", table, from->name) < 0)
			return false;
		others[*n] = from;
		tests[*n] = *from;
		tests[*n].name = name;
		tests[(*n)++].run = test_other;
	}
	return true;
}

int main(int argc, char **argv)
{
	unsigned int n = 0, i;

	hetsim_use_soft();
	setenv("HETMAP_SOFT", "vram_mb=96 system_mb=256 test=1", 1);
	if (!add("sample", sim_sample_tests, &n) || !add("unplug", sim_unplug_tests, &n))
		return 1;
	for (i = 0; own[i].name && n < TESTS_MAX; i++)
		tests[n++] = own[i];
	return harness_main(argc, argv, "soft_unprivileged", tests);
}
