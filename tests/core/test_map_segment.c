// SPDX-License-Identifier: MIT
/* The map step: segments that have to be there before they may be cut. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/inject.h"
#include "map/map.h"
#include "base/reserve.h"
#include "lib/support.h"
#include "base/sys.h"

/* Brought in, but its rights can't be set: nothing of it stays. */
static void rights_fail(void)
{
	struct hm_segment segment = {
		.length = 2 * PAGE,
		.fd = memfd_create("segment", MFD_CLOEXEC),
		.flags = HM_SEGMENT_SHARED | HM_SEGMENT_PRESENT,
	};
	void *mapped = &segment;

	CHECK_FATAL(segment.fd >= 0 && !ftruncate(segment.fd, 2 * PAGE));
	inject_install();
	inject_always("mprotect", ENOMEM);
	CHECK_EQUAL(map_direct(&segment, 0, 2 * PAGE, NULL, 0, PROT_NONE, &mapped), -ENOMEM);
	CHECK(inject_disarm());
	CHECK(mapped == &segment);
	CHECK_OK(map_direct(&segment, PAGE, PAGE, NULL, 0, PROT_NONE, &mapped));
	CHECK_EQUAL(test_read_signal(mapped), SIGSEGV);
	munmap(mapped, PAGE);
	close(segment.fd);
}

/* A page that its driver does not give is no signal, but an error; nothing of it stays. */
static void page_missing(void)
{
	struct hm_segment segment = {
		.length = 2 * PAGE,
		.fd = memfd_create("segment", MFD_CLOEXEC),
		.flags = HM_SEGMENT_SHARED | HM_SEGMENT_PRESENT,
	};
	struct reservation range;
	void *mapped = &segment;
	char *address;

	CHECK_FATAL(segment.fd >= 0 && !ftruncate(segment.fd, PAGE));
	CHECK_EQUAL(map_direct(&segment, 0, 2 * PAGE, NULL, 0, PROT_READ, &mapped), -EIO);
	CHECK(mapped == &segment);
	test_forget_text();
	CHECK_ERROR(-EIO,
		    map_scratch(&segment, 1, 0, 2 * PAGE, PAGE, PROT_READ, &range, &address));
	CHECK(strstr(hm_errmsg(), "SIGBUS"));
	CHECK_OK(map_scratch(&segment, 1, 0, PAGE, PAGE, PROT_READ, &range, &address));
	reserve_release(&range);
	close(segment.fd);
}

static struct sys_table real;
static int refused_fd;
static void *taken; /* by another thread, where the kernel had made room */

static void *refuse(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (fd != refused_fd)
		return real.mmap(address, length, prot, flags, fd, offset);
	if (flags & MAP_FIXED) {
		munmap(address, length);
		taken = mmap(address, length, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	}
	errno = ENODEV;
	return MAP_FAILED;
}

/* A mapping that a driver refuses leaves all others alone. */
static void driver_refuses(void)
{
	static const uint32_t flags[] = { HM_SEGMENT_MAY_REFUSE, HM_SEGMENT_DMABUF };
	uint64_t reserved = stats_now().bytes_reserved;
	struct hm_segment segment = { .length = 4 * PAGE };
	struct reservation range;
	char *address;
	size_t i;

	real = sys_table;
	sys_table.mmap = refuse;
	refused_fd = segment.fd = memfd_create("segment", MFD_CLOEXEC);
	CHECK_FATAL(segment.fd >= 0);
	for (i = 0; i < 2; i++) {
		segment.flags = HM_SEGMENT_SHARED | flags[i];
		CHECK_EQUAL(map_scratch(&segment, 1, PAGE, 2 * PAGE, PAGE, PROT_READ, &range,
					&address),
			    -ENODEV);
		CHECK(!taken);
	}
	CHECK_EQUAL(stats_now().bytes_reserved, reserved);
	sys_table = real;
	close(segment.fd);
}

static const struct test tests[] = {
	{ "driver_refuses", driver_refuses, 0, 0 },
	{ "page_missing", page_missing, 0, 0 },
	{ "rights_fail", rights_fail, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "map_segment", tests)
