// SPDX-License-Identifier: MIT
/* Loads in a control group with little memory, with the group's files made by this test. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"
#include "format/load_support.h"

static struct sys_table real;
/* Contents of the group's files: bytes, or "max"; "": no such file. */
static const char *memory_max, *swap_max, *memory_of_v1, *memsw_of_v1;

static int open_text(const char *text)
{
	int fd = memfd_create("group", MFD_CLOEXEC);

	if (!*text) {
		close(fd);
		errno = ENOENT;
		return -1;
	}
	CHECK_EQUAL(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
	return fd;
}

static int open_group(const char *path, int flags, mode_t mode)
{
	const struct {
		const char *path, *text;
	} files[] = {
		{ "/proc/self/cgroup", "4:cpuset:/\n3:memory:/job\n0::/job/step\n" },
		{ "/proc/meminfo", "MemTotal:  1048576 kB\nSwapTotal:  65536 kB\n" },
		{ "/sys/fs/cgroup/job/step/memory.max", "max" },
		{ "/sys/fs/cgroup/job/memory.max", memory_max },
		{ "/sys/fs/cgroup/job/memory.swap.max", swap_max },
		{ "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", memory_of_v1 },
		{ "/sys/fs/cgroup/memory/job/memory.memsw.limit_in_bytes", memsw_of_v1 },
	};
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!strcmp(path, files[i].path))
			return open_text(files[i].text);
	return strncmp(path, "/sys/fs/cgroup", 14) != 0 ? real.open(path, flags, mode) :
							  open_text("");
}

/* Loads 8 MiB into @name in a group of these limits. *@ret_window is the chosen window. */
static int load_8_mib(const char *name, uint64_t *ret_window)
{
	const uint64_t bytes[] = { 4 << 20, 4 << 20 };
	struct hm_load *load = UNTOUCHED;
	AUTO_TEXT *folder = folder_make();
	int r;
	AUTO(hm_pieces) *pieces = pieces_open(load_file(folder, bytes, 2));
	AUTO(hm_device) *device = rig_device(name);

	real = sys_table;
	sys_table.open = open_group;
	r = hm_load_create(device, pieces, NULL, &load);
	sys_table = real;
	if (!r) {
		*ret_window = load_info(load).window;
		load_check_file(load, bytes, 2);
		hm_load_unref(load);
	} else {
		CHECK(load == UNTOUCHED);
	}
	return r;
}

/* A load that exceeds the limits is refused at its begin. */
static void test_too_large(void)
{
	static const struct {
		const char *memory, *swap, *memory_of_v1, *memsw_of_v1;
		int r;
	} groups[] = {
		{ "4194304", "0", "", "", -ENOMEM },
		{ "4194304", "2097152", "", "", -ENOMEM },
		{ "4194304", "4198400", "", "", 0 },
		{ "4194304", "max", "", "", 0 },
		{ "max", "0", "", "", 0 },
		{ "", "", "4194304", "4194304", -ENOMEM },
		{ "", "", "4194304", "9000000", 0 },
		{ "", "", "9223372036854771712", "9223372036854771712", 0 },
	};
	static const char *const devices[] = { "host", "soft:0" };
	uint64_t window;
	size_t i, k;
	int r;

	for (i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		for (k = 0; k < 2; k++) {
			memory_max = groups[i].memory;
			swap_max = groups[i].swap;
			memory_of_v1 = groups[i].memory_of_v1;
			memsw_of_v1 = groups[i].memsw_of_v1;
			r = load_8_mib(devices[k], &window);
			if (r != groups[i].r)
				test_fail(__FILE__, __LINE__, "group %zu, %s: %d", i,
					  devices[k], r);
			if (r)
				CHECK(strstr(hm_errmsg(), "8.00 MiB") != NULL ||
				      strstr(hm_errmsg(), "8 MiB") != NULL);
		}
}

/* The chosen window is a small part of the process's memory. */
static void test_window(void)
{
	uint64_t window = 0;

	memory_of_v1 = memsw_of_v1 = "";
	swap_max = "0";
	memory_max = "max";
	CHECK_OK(load_8_mib("host", &window));
	CHECK_EQUAL(window, 64 << 20);
	memory_max = "167772160";
	CHECK_OK(load_8_mib("host", &window));
	CHECK_EQUAL(window, 20 << 20);
}

static const struct test tests[] = {
	{ "too_large", test_too_large, 60, 0 },
	{ "window", test_window, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "load_memory", tests)
