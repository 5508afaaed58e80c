// SPDX-License-Identifier: MIT
/* Faults on lost bytes where vm.max_map_count allows this process no mapping more. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/repair.h"
#include "lib/support.h"
#include "base/util.h"

#define SIZE (3 * REPAIR_BLOCK)
#define MOST (1u << 20) /* a limit above that is none */

/* Mappings of pages with rights that differ, until there is not even one more. */
static char *use_up(uint64_t *ret_length)
{
	uint64_t length = 2 * MOST * PAGE, end = length, i;
	char *bytes = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			   -1, 0);

	CHECK_FATAL(bytes != MAP_FAILED);
	for (i = 0; i < length && !mprotect(bytes + i, PAGE, PROT_READ); i += 2 * PAGE)
		;
	/* Two at a time, those; and from the end one at a time. */
	for (; end > i && !mprotect(bytes + end - PAGE, PAGE,
				    end / PAGE % 2 ? PROT_READ : PROT_READ | PROT_WRITE);
	     end -= PAGE)
		;
	*ret_length = length;
	if (i < length)
		return bytes;
	munmap(bytes, length);
	return NULL;
}

static void at_the_limit(void)
{
	int fd = scratch_file(SIZE);
	uint64_t length;
	char *base, *used;

	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "sanitizers need mappings of their own");
		close(fd);
		return;
	}
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_device) *device = rig_device("file");
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, NULL);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	base = hm_map_address(map);
	CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, HM_WRITE));
	pattern_write(base, 0, SIZE, 1);
	CHECK_OK(hm_map_end_cpu(map, 0, SIZE, HM_WRITE));
	CHECK_OK_FATAL(
		hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	CHECK(!ftruncate(fd, PAGE));
	used = use_up(&length);
	if (used) {
		/* In the middle: the file's mapping becomes two, with another one in between. */
		CHECK(pattern_holds(base, REPAIR_BLOCK, REPAIR_BLOCK + PAGE, 1));
		munmap(used, length);
	} else {
		test_skip("kernel", "vm.max_map_count is above %u", MOST);
	}
	CHECK(pattern_holds(base, 0, SIZE, 1));
	CHECK_ERROR(-EIO, hm_map_begin_cpu(map, REPAIR_BLOCK, PAGE, HM_READ));
	close(fd);
}

static const struct test tests[] = {
	{ "at_the_limit", at_the_limit, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "repair_scarce", tests)
