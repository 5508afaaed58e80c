// SPDX-License-Identifier: MIT
/* Helpers for tests of dma-bufs: devices that make them, and tests that need one. */
#include "dmabuf/dmabuf_support.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/smaps.h"

#define TESTS_MAX 64

struct hm_buffer *make(struct hm_device *device, uint64_t size)
{
	return rig_buffer(device, DESC(hm_buffer_desc, .size = size));
}

int export_of(struct hm_buffer *buffer)
{
	int fd = -1;

	CHECK_OK_FATAL(hm_buffer_export(buffer, HM_EXPORT_DMABUF, &fd));
	return fd;
}

bool is_idle(int dmabuf, uint32_t access, int timeout_ms)
{
	struct pollfd file = {
		.fd = dmabuf,
		.events = access & HM_WRITE ? POLLOUT : POLLIN,
	};

	return poll(&file, 1, timeout_ms) == 1 && file.revents & file.events;
}

static bool is_there(const char *name)
{
	AUTO(hm_device) *device = NULL;
	bool there = !hm_device_open(name, &device);

	return there;
}

int dmabuf_main(int argc, char **argv, const char *suite, const struct dmabuf_test *rows)
{
	static struct test tests[TESTS_MAX + 1];
	size_t n = 0;

	for (; rows->device; rows++)
		if (n < TESTS_MAX && is_there(rows->device))
			tests[n++] = rows->test;
	return harness_main(argc, argv, suite, tests);
}

/* ---- memory that the machine has given ---- */

/* The last line: "Total 3 objects, 12288 bytes" [dma_buf_debug_show()]. */
struct given given_now(void)
{
	FILE *file = fopen("/sys/kernel/debug/dma_buf/bufinfo", "re");
	unsigned long long bytes;
	struct given now = { 0 };
	bool told = false;
	char line[256];

	CHECK_FATAL(file);
	while (fgets(line, sizeof(line), file))
		told |= sscanf(line, "Total %u objects, %llu bytes", &now.dmabufs, &bytes) == 2;
	fclose(file);
	CHECK_FATAL(told);
	now.bytes = meminfo_read("Shmem") + bytes;
	return now;
}

/* A host, or a thread of the kernel's, may have to agree first. */
void check_given_back(const struct given *before)
{
	struct given now = given_now();
	int tries;

	for (tries = 0; tries < 200; tries++) {
		if (now.dmabufs == before->dmabufs && now.bytes < before->bytes + GIVEN_NOISE)
			return;
		usleep(50000);
		now = given_now();
	}
	CHECK_EQUAL(now.dmabufs, before->dmabufs);
	CHECK_EQUAL(now.bytes, before->bytes);
}
