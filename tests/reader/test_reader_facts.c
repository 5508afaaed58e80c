// SPDX-License-Identifier: MIT
/* Bytes that one fault maps, by the file system and the kernel's version. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "reader/facts.h"

#include "lib/command.h"

static void check_release(const char *path, int fd, const char *release, uint64_t most)
{
	int to = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	CHECK_FATAL(to >= 0);
	CHECK_EQUAL(write(to, release, strlen(release)), (ssize_t)strlen(release));
	close(to);
	if (facts_fault_most(fd) != most)
		test_fail(__FILE__, __LINE__, "%s: it is %llu, not %llu", release,
			  (unsigned long long)facts_fault_most(fd), (unsigned long long)most);
}

static void test_most(void)
{
	uint64_t page = page_size(), table = page / 8 * page;
	uint64_t pages = page > KIB(64) ? page : KIB(64);
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "release");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int memory = memfd_create("faults", MFD_CLOEXEC);
	struct statfs statfs;

	CHECK_FATAL(fd >= 0 && memory >= 0 && !fstatfs(fd, &statfs));
	CHECK_EQUAL(facts_fault_most(memory), table);
	/* A kernel that does not tell counts as the most. */
	CHECK_EQUAL(facts_fault_most(-1), table);
	if (statfs.f_type != 0xef53) {
		test_skip("kernel", "files here are on 0x%lx, not on ext4",
			  (unsigned long)statfs.f_type);
		goto out;
	}
	if (!folder_mount(path, "/proc/sys/kernel/osrelease", NULL, MS_BIND, NULL))
		goto out;
	check_release(path, fd, "6.16.0\n", table);
	check_release(path, fd, "6.18.44-fc\n", table);
	check_release(path, fd, "7.0-rc1\n", table);
	check_release(path, fd, "none\n", table);
	check_release(path, fd, "", table);
	/* No process here has set more. */
	check_release(path, fd, "6.15.9\n", pages);
	check_release(path, fd, "6.1.0-56-amd64\n", pages);
	check_release(path, fd, "5.10.0\n", pages);
	CHECK_EQUAL(facts_fault_most(memory), table);
	umount("/proc/sys/kernel/osrelease");
out:
	close(memory);
	close(fd);
}

static const struct test tests[] = {
	{ "most", test_most, 10, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "reader_facts", tests)
