// SPDX-License-Identifier: MIT
/* A control group of the test's own, to see which memory and CPU time is charged to it. */
#include "lib/control_group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"

#define GROUPS "/sys/fs/cgroup"
#define GROUP GROUPS "/hetsim-test"
#define PERIOD_US 100000u /* of a limit of CPU time */

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

bool control_group_make(uint64_t most)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, most);
	put(GROUPS "/cgroup.subtree_control", "+memory");
	/* One of a test that failed may be there, throttled. */
	if (!geteuid() && (!mkdir(GROUP, 0700) || errno == EEXIST) &&
	    put(GROUP "/memory.high", "max") && put(GROUP "/memory.max", text))
		return true;
	test_skip("kernel", "no control group with a limit of memory can be made");
	return false;
}

static void put_number(const char *path, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	CHECK_FATAL(put(path, text));
}

void control_group_throttle(uint64_t most)
{
	put_number(GROUP "/memory.high", most);
}

void control_group_limit(uint64_t most)
{
	put_number(GROUP "/memory.max", most);
}

void control_group_enter(void)
{
	CHECK_FATAL(put(GROUP "/cgroup.procs", "0"));
}

uint64_t control_group_bytes(void)
{
	FILE *file = fopen(GROUP "/memory.current", "re");
	unsigned long long n = 0;

	if (!file || fscanf(file, "%llu", &n) != 1) /* NOLINT: a number of the kernel's */
		test_fail(__FILE__, __LINE__, "memory.current: %s", strerror(errno));
	if (file)
		fclose(file);
	return n;
}

/*
 * The kernel first takes back pages that are not needed, of files that were read, say, which would
 * be room; a limit of memory.high takes back the charges made ahead [memory_high_write()], and
 * kills nothing.
 */
void control_group_leave(uint64_t room)
{
	if (!put(GROUP "/memory.reclaim", "64M"))
		CHECK_EQUAL(errno, EAGAIN); /* there was less */
	control_group_throttle(control_group_bytes() - PAGE);
	CHECK_FATAL(put(GROUP "/memory.high", "max"));
	control_group_limit(control_group_bytes() + room);
}

/* The number that a line of @path has behind @key. */
static uint64_t number_of(const char *path, const char *key)
{
	FILE *file = fopen(path, "re");
	size_t length = strlen(key);
	uint64_t n = 0;
	char line[64];

	CHECK_FATAL(file != NULL);
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, key, length) && line[length] == ' ')
			n = strtoull(line + length, NULL, 10);
	}
	fclose(file);
	return n;
}

uint64_t control_group_kills(void)
{
	return number_of(GROUP "/memory.events", "oom_kill");
}

void control_group_go(void)
{
	CHECK_FATAL(put(GROUPS "/cgroup.procs", "0"));
}

bool control_group_cpu_limit(unsigned int percent)
{
	char text[48];

	put(GROUPS "/cgroup.subtree_control", "+cpu");
	snprintf(text, sizeof(text), "%u %u", percent * PERIOD_US / 100, PERIOD_US);
	return put(GROUP "/cpu.max", text);
}

uint64_t control_group_cpu_us(void)
{
	return number_of(GROUP "/cpu.stat", "usage_usec");
}

unsigned int control_group_tasks(void)
{
	FILE *file = fopen(GROUP "/cgroup.procs", "re");
	unsigned int n = 0;
	char line[32];

	CHECK_FATAL(file != NULL);
	while (fgets(line, sizeof(line), file))
		n++;
	fclose(file);
	return n;
}

void control_group_remove(void)
{
	CHECK_EQUAL(rmdir(GROUP), 0);
}
