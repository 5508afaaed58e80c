// SPDX-License-Identifier: MIT
/* The map step: segments that have to be there before they may be cut. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inject.h"
#include "map.h"
#include "support.h"

#define PAGE 4096

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

static const struct test tests[] = {
	{ "rights_fail", rights_fail, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "map_segment", tests);
}
