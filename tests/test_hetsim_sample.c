// SPDX-License-Identifier: MIT
/* hetsim: which pages of a buffer are used. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "hetsim.h"

#define PAGES 1024

static int sample(int fd, uint32_t handle, uint32_t action, uint64_t first, uint64_t n,
		  void *counts)
{
	struct hetsim_buffer_sample arg = {
		.size = sizeof(arg),
		.handle = handle,
		.action = action,
		.offset = first * HETSIM_PAGE,
		.length = n * HETSIM_PAGE,
		.counts = (uintptr_t)counts,
	};

	return hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &arg);
}

static void test_sample(void)
{
	static uint32_t counts[PAGES];
	struct hetsim_buffer_resize resize = { .size = sizeof(resize) };
	struct hetsim_buffer buffer;
	int fd = hetsim_open(O_RDWR), i, round;

	if (fd < 0)
		return;
	buffer = hetsim_buffer_make(fd, PAGES * HETSIM_PAGE, HETSIM_PLACE_SYSTEM);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, PAGES, counts), -ENOENT);
	buffer.bytes[0] = 1; /* maps all around */
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 0, NULL), 0);
	for (round = 1; round <= 3; round++) {
		for (i = 0; i < PAGES; i += 3 * round)
			buffer.bytes[(uint64_t)i * HETSIM_PAGE]++;
		CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, PAGES, counts), 0);
		for (i = 0; i < PAGES; i++) {
			uint32_t expected = (i % 3 == 0) + (round >= 2 && i % 6 == 0) +
					    (round >= 3 && i % 9 == 0);

			if (counts[i] != expected)
				break;
		}
		CHECK_EQUAL(i, PAGES);
	}
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 18, 1, counts), 0);
	CHECK_EQUAL(counts[0], 3);

	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 1, PAGES, counts), -ERANGE);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 1ull << 51, PAGES, counts),
		    -ERANGE);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, 0, counts), -EINVAL);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 1, NULL), -EINVAL);
	CHECK_EQUAL(sample(fd, buffer.handle, 3, 0, 0, NULL), -EINVAL);
	CHECK_EQUAL(sample(fd, 4711, HETSIM_SAMPLE_START, 0, 0, NULL), -ENOENT);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, PAGES, (void *)16),
		    -EFAULT);

	resize.handle = buffer.handle;
	resize.length = buffer.length / 2;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE, &resize), 0);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, 1, counts), -ENOENT);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 0, NULL), 0);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_STOP, 0, 0, NULL), 0);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, 1, counts), -ENOENT);
	hetsim_buffer_drop(fd, &buffer);
	close(fd);
}

static const struct test tests[] = {
	{ "sample", test_sample, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "hetsim_sample", tests);
}
