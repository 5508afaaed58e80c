/* SPDX-License-Identifier: MIT */
/* What tests of dma-bufs share: devices that make them, and tests that need one. */
#ifndef HETMAP_TESTS_DMABUF_SUPPORT_H
#define HETMAP_TESTS_DMABUF_SUPPORT_H

#include "support.h"

#define SIZE (4 * 4096ull)

/* Each of these ends the test where it fails. */
struct hm_device *open_device(const char *name);
struct hm_buffer *make(struct hm_device *device, uint64_t size);
struct hm_map *map_of(struct hm_buffer *buffer);
int export_of(struct hm_buffer *buffer); /* as a dma-buf */

/* A test and the device that it needs; the table ends with an empty row. */
struct dmabuf_test {
	const char *device;
	struct test test;
};

/* harness_main() of those whose device is there: test_absent() looks after the rest. */
int dmabuf_main(int argc, char **argv, const char *suite, const struct dmabuf_test *rows);

#endif
