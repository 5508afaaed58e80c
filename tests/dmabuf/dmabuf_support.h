/* SPDX-License-Identifier: MIT */
/* Helpers for tests of dma-bufs: devices that make them, and tests that need one. */
#ifndef HETMAP_TESTS_DMABUF_SUPPORT_H
#define HETMAP_TESTS_DMABUF_SUPPORT_H

#include "lib/support.h"
#include "base/util.h"

#define SIZE (4 * 4096ull)

/* Each of these ends the test where it fails. */
struct hm_buffer *make(struct hm_device *device, uint64_t size);
int export_of(struct hm_buffer *buffer); /* as a dma-buf */

/* Is other devices' work on it done after @timeout_ms (-1: never)? As @access needs it. */
bool is_idle(int dmabuf, uint32_t access, int timeout_ms);

/* A test and the device that it needs; the table ends with an empty row. */
struct dmabuf_test {
	const char *device;
	struct test test;
};

/* harness_main() for tests whose device is there: test_absent() looks after the rest. */
int dmabuf_main(int argc, char **argv, const char *suite, const struct dmabuf_test *rows);

/* Shared memory that the machine has given, and other dma-bufs. */
struct given {
	unsigned int dmabufs;
	uint64_t bytes;
};

#define GIVEN_NOISE MIB(1) /* other processes' share meanwhile */

/* Reads debugfs: as root, in a machine of its own. */
struct given given_now(void);
void check_given_back(const struct given *before);

#endif
