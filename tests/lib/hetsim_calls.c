// SPDX-License-Identifier: MIT
/* Calls of the simulated device for its tests, each with the arguments that matter. */
#include "lib/hetsim.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/smaps.h"

const struct hetsim_call_entry hetsim_calls[HETSIM_N_CALLS] = {
#define HETSIM_CALL(NAME, name, last) { #NAME, HETSIM_##NAME, sizeof(struct hetsim_##name) },
#include "model/calls.h"
};

int hetsim_buffer_create(int fd, uint64_t length, uint32_t place, uint64_t capacity,
			 struct hetsim_buffer *ret_buffer)
{
	struct hetsim_buffer_create arg = {
		.size = sizeof(arg),
		.length = length,
		.place = place,
		.capacity = capacity,
	};
	int r = hetsim_call(fd, HETSIM_BUFFER_CREATE, &arg);

	if (!r)
		*ret_buffer = (struct hetsim_buffer){
			.handle = arg.handle,
			.length = length,
			.offset = arg.offset,
		};
	return r;
}

int hetsim_buffer_resize(int fd, uint32_t handle, uint64_t length)
{
	return hetsim_call(fd, HETSIM_BUFFER_RESIZE,
			   SIZED(hetsim_buffer_resize, .handle = handle, .length = length));
}

struct hetsim_buffer_info hetsim_buffer_info(int fd, uint32_t handle)
{
	struct hetsim_buffer_info info = { .size = sizeof(info), .handle = handle };

	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), 0);
	return info;
}

int hetsim_buffer_move(int fd, uint32_t handle, uint64_t offset, uint64_t length,
		       uint32_t place)
{
	return hetsim_call(fd, HETSIM_BUFFER_MOVE,
			   SIZED(hetsim_buffer_move, .handle = handle, .place = place,
				 .offset = offset, .length = length));
}

int hetsim_export(int fd, uint32_t handle, uint32_t flags)
{
	struct hetsim_export arg = { .size = sizeof(arg), .handle = handle, .flags = flags };
	int r = hetsim_call(fd, HETSIM_EXPORT, &arg);

	return r ? r : arg.fd;
}

int hetsim_import(int fd, int dmabuf, struct hetsim_import *ret_import)
{
	*ret_import = (struct hetsim_import){ .size = sizeof(*ret_import), .fd = dmabuf };
	return hetsim_call(fd, HETSIM_IMPORT, ret_import);
}

bool hetsim_may_unplug(int fd)
{
	if (hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0) == 0)
		return true;
	test_skip("kernel", "the device was not made with test=1, or this is not root");
	return false;
}

int hetsim_open_zero(void)
{
	int fd = hetsim_open_bare(O_RDWR);

	if (fd < 0)
		return fd;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_HANDSHAKE,
				SIZED(hetsim_handshake,
				      .flags = HETSIM_HANDSHAKE_ZERO_WHEN_LOST,
				      .version_major = HETSIM_VERSION_MAJOR,
				      .version_minor = HETSIM_VERSION_MINOR)),
		    0);
	if (hetsim_may_unplug(fd))
		return fd;
	hetsim_close(fd);
	return -1;
}

bool hetsim_has_blocks(void)
{
	struct utsname name;
	unsigned int major, minor;
	char huge = 0;
	int fd = open("/sys/module/hetsim/parameters/huge", O_RDONLY);

	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(read(fd, &huge, 1), 1);
	close(fd);
	if (huge != 'Y')
		return false;
	CHECK_EQUAL(uname(&name), 0);
	CHECK_EQUAL(sscanf(name.release, "%u.%u", &major, &minor), 2);
	return major > 6 || (major == 6 && minor >= 12);
}

uint64_t hetsim_free_bytes(void)
{
	FILE *zones = fopen("/proc/zoneinfo", "re");
	uint64_t bytes = meminfo_read("MemFree");
	unsigned long pages;
	char line[256];

	CHECK_FATAL(zones != NULL);
	while (fgets(line, sizeof(line), zones))
		if (sscanf(line, " count: %lu", &pages) == 1)
			bytes += pages * PAGE;
	fclose(zones);
	return bytes;
}
