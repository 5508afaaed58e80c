// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: what one opener can have of the
 * machine.
 */
#include <errno.h>
#include <fcntl.h>

#include "harness.h"
#include "hetsim.h"
#include "sim_tests.h"

#define GIB (1024ull * 1024 * 1024)
#define PAGE HETSIM_PAGE
#define TABLES 65536 /* of an opener, but for the root: 256 MiB of them */

/*
 * Bindings that take as many tables as two pages can, until the opener may have no more.
 * Each is below the others: the twin looks for its neighbour from the lowest one on.
 */
static void test_tables(void)
{
	struct hetsim_bind bind = { .size = sizeof(bind), .length = 2 * PAGE };
	struct hetsim_unbind unbind = { .size = sizeof(unbind), .address = PAGE };
	struct hetsim_buffer buffer = { 0 };
	int fd = hetsim_open(O_RDWR), r = 0, round;
	uint64_t n;

	if (fd < 0)
		return;
	CHECK_EQUAL(hetsim_buffer_create(fd, 2 * PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer), 0);
	bind.handle = buffer.handle;
	unbind.length = (1ull << 48) - PAGE;
	for (round = 0; round < 2; round++) {
		bind.address = (1ull << 48) - GIB - PAGE;
		for (n = 0, r = 0; !r && n < TABLES; n += !r, bind.address -= 2 * GIB)
			r = hetsim_call(fd, HETSIM_BIND, &bind);
		CHECK_EQUAL(r, -ENOSPC);
		/* Four for each, and one more for each 256 of them. */
		CHECK_EQUAL(n, (TABLES - 64) / 4);
		/* None is kept that is not needed. */
		CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), 0);
	}
	hetsim_close(fd);
}

const struct test sim_limits_tests[] = {
	{ "tables", test_tables, 60, 0 },
	{ NULL, NULL, 0, 0 },
};
