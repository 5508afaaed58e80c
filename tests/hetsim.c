// SPDX-License-Identifier: MIT
/* /dev/hetsim0 for its tests: open files, calls, buffers. */
#include "hetsim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "harness.h"

int hetsim_call(int fd, unsigned long cmd, void *argument)
{
	return ioctl(fd, cmd, argument) ? -errno : 0;
}

int hetsim_open_bare(int flags)
{
	int fd = open(HETSIM_PATH, flags | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	if (errno == ENOENT)
		test_skip("kernel", "no " HETSIM_PATH);
	else
		test_fail(__FILE__, __LINE__, "open: %s", strerror(errno));
	return -1;
}

int hetsim_open(int flags)
{
	struct hetsim_handshake shake = {
		.size = sizeof(shake),
		.version_major = HETSIM_VERSION_MAJOR,
		.version_minor = HETSIM_VERSION_MINOR,
	};
	int fd = hetsim_open_bare(flags);

	if (fd < 0)
		return fd;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_HANDSHAKE, &shake), 0);
	CHECK_EQUAL(shake.accepted, 1);
	return fd;
}

struct hetsim_query hetsim_query(int fd)
{
	struct hetsim_query query = {.size = sizeof(query)};

	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &query), 0);
	return query;
}

struct hetsim_counters hetsim_counters(int fd, uint32_t scope)
{
	struct hetsim_counters counters = {.size = sizeof(counters), .scope = scope};

	CHECK_EQUAL(hetsim_call(fd, HETSIM_COUNTERS, &counters), 0);
	return counters;
}

struct hetsim_buffer hetsim_buffer_make(int fd, uint64_t length, uint32_t place)
{
	struct hetsim_buffer_create create = {
		.size = sizeof(create),
		.length = length,
		.place = place,
	};
	struct hetsim_buffer buffer = {.length = length};

	CHECK_FATAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &create) == 0);
	buffer.handle = create.handle;
	buffer.offset = create.offset;
	buffer.bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			    (off_t)buffer.offset);
	CHECK_FATAL(buffer.bytes != MAP_FAILED);
	return buffer;
}

int hetsim_close_handle(int fd, uint32_t handle)
{
	struct hetsim_buffer_close close_it = {.size = sizeof(close_it), .handle = handle};

	return hetsim_call(fd, HETSIM_BUFFER_CLOSE, &close_it);
}

void hetsim_buffer_drop(int fd, struct hetsim_buffer *buffer)
{
	CHECK_EQUAL(munmap(buffer->bytes, buffer->length), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer->handle), 0);
}

int hetsim_objects(void)
{
	FILE *file = fopen("/sys/kernel/debug/hetsim/hetsim0/objects", "re");
	char line[512];
	int n = -1;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		n++; /* the heading is not an object */
	fclose(file);
	return n;
}
