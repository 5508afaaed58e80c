// SPDX-License-Identifier: MIT
/* A reader of published tables never waits for a process, even a hostile one. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../tools/common/command.h"
#include "../../tools/perf/read/published.h"
#include "lib/support.h"

#define NAME "memfd:hetmap:maps"
#define LINK "/" NAME " (deleted)"

/*
 * A file system that is mounted nowhere: the links of its files are their paths in it, so
 * that one in its root may have the name of a published table. -1: not here.
 */
static int mount_nowhere(void)
{
	int context = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC), fd = -1;

	if (context >= 0 && !syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		fd = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, 0);
	if (fd < 0)
		test_skip("kernel", "fsmount: %s", strerror(errno));
	if (context >= 0)
		close(context);
	return fd;
}

/* A pipe without a writer has the name of a table: opening it would wait. */
static void test_pipe(void)
{
	int root = mount_nowhere(), pipe;
	struct published table;
	char path[64], link[64];
	ssize_t n;

	if (root < 0)
		return;
	CHECK(!mkfifoat(root, NAME, 0600));
	pipe = openat(root, NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	CHECK_FATAL(pipe >= 0);
	CHECK(!unlinkat(root, NAME, 0));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", pipe);
	n = readlink(path, link, sizeof(link));
	CHECK(n == (ssize_t)strlen(LINK) && !memcmp(link, LINK, (size_t)n));
	CHECK_EQUAL(published_open_process(getpid(), &table), -ENOENT);
	CHECK_EQUAL(published_open(path, &table), -EPROTO);
	close(pipe);
	close(root);
}

static const struct test tests[] = {
	{ "pipe", test_pipe, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "published_reader", tests)
