// SPDX-License-Identifier: MIT
/* hetsim: pages that move, by command and to make room, while they are in use. */
#include <fcntl.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

/*
 * A map that was touched last, by a page fault, keeps its pages: the module knows of faults. It
 * does not see a touch that finds its entry there.
 */
static void test_touched(void)
{
	struct hetsim_buffer buffers[4];
	unsigned char byte = 0;
	uint64_t length, faults;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i;

	length = hetsim_query(fd).vram_bytes / 3 / MIB(1) * MIB(1);
	for (i = 0; i < 3; i++)
		buffers[i] = hetsim_buffer_make(fd, length, HETSIM_PLACE_VRAM);
	buffers[0].bytes[length - 1] = 1;
	buffers[3] = hetsim_buffer_make(fd, length, HETSIM_PLACE_VRAM);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffers[0].handle).vram_bytes, length);
	CHECK(hetsim_buffer_info(fd, buffers[1].handle).vram_bytes < length);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffers[2].handle).vram_bytes, length);

	CHECK_EQUAL(hetsim_pread(fd, &byte, 1, buffers[2].offset), 1);
	faults = hetsim_counters(fd, HETSIM_SCOPE_OPENER).faults;
	buffers[0].bytes[length - 1]++;
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).faults, faults);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffers[1].handle, 0, length, HETSIM_PLACE_VRAM), 0);
	CHECK(hetsim_buffer_info(fd, buffers[0].handle).vram_bytes < length);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffers[1].handle).vram_bytes, length);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffers[2].handle).vram_bytes, length);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffers[3].handle).vram_bytes, length);
	CHECK_EQUAL(buffers[0].bytes[length - 1], 2);
	for (i = 0; i < 4; i++)
		hetsim_buffer_drop(fd, &buffers[i]);
}

static const struct test tests[] = {
	{ "touched", test_touched, 60, SIM_REACHED | SIM_SMALL },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_move", sim_move_tests, tests)
