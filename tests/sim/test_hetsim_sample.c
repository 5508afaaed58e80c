// SPDX-License-Identifier: MIT
/* hetsim: which pages of a buffer are used. */
#include <errno.h>
#include <fcntl.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

/* A length that could not be had ends no sample. */
static void test_failed_resize(void)
{
	struct hetsim_buffer_sample sample = { .size = sizeof(sample),
					       .action = HETSIM_SAMPLE_START };
	uint32_t count = 0;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, 2 * PAGE, HETSIM_PLACE_SYSTEM);

	sample.handle = buffer.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), 0);
	buffer.bytes[0] = 1;
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_ENOMEM, 0, 1), 0);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, 4 * PAGE), -ENOMEM);
	sample.action = HETSIM_SAMPLE_READ;
	sample.length = PAGE;
	sample.counts = (uintptr_t)&count;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), 0);
	CHECK_EQUAL(count, 1);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, 4 * PAGE), 0);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), -ENOENT);
}

static const struct test tests[] = {
	{ "failed_resize", test_failed_resize, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_sample", sim_sample_tests, tests)
