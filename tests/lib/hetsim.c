// SPDX-License-Identifier: MIT
/* The simulated device for its tests: open files, calls, maps, buffers. */
#include "lib/hetsim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sim/sim_tests.h"
#include "soft/soft.h"

static bool soft;

void hetsim_use_soft(void)
{
	soft = true;
}

int hetsim_open_try(int flags)
{
	int fd;

	if (soft)
		return hetsim_soft_open(flags);
	fd = open(HETSIM_PATH, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int hetsim_open_bare(int flags)
{
	int fd = hetsim_open_try(flags);

	if (fd >= 0)
		return fd;
	if (fd == -ENOENT)
		test_skip("kernel", "no " HETSIM_PATH);
	else
		test_fail(__FILE__, __LINE__, "open: %s", strerror(-fd));
	return -1;
}

void hetsim_close(int fd)
{
	if (hetsim_soft_has(fd))
		hetsim_soft_close(fd);
	else
		close(fd);
}

int hetsim_call(int fd, unsigned long cmd, void *argument)
{
	if (hetsim_soft_has(fd))
		return hetsim_soft_call(fd, cmd, argument);
	return ioctl(fd, cmd, argument) ? -errno : 0;
}

int hetsim_mmap(int fd, uint64_t length, int prot, uint64_t offset, unsigned char **ret_bytes)
{
	void *bytes;

	if (hetsim_soft_has(fd))
		return hetsim_soft_mmap(fd, length, prot, offset, ret_bytes);
	bytes = mmap(NULL, length, prot, MAP_SHARED, fd, (off_t)offset);
	if (bytes == MAP_FAILED)
		return -errno;
	*ret_bytes = bytes;
	return 0;
}

int hetsim_munmap(void *bytes, uint64_t length)
{
	if (soft)
		return hetsim_soft_munmap(bytes, length);
	return munmap(bytes, length) ? -errno : 0;
}

ssize_t hetsim_pread(int fd, void *to, uint64_t length, uint64_t offset)
{
	ssize_t n;

	if (hetsim_soft_has(fd))
		return hetsim_soft_pread(fd, to, length, offset);
	n = pread(fd, to, length, (off_t)offset);
	return n < 0 ? -errno : n;
}

ssize_t hetsim_pwrite(int fd, const void *from, uint64_t length, uint64_t offset)
{
	ssize_t n;

	if (hetsim_soft_has(fd))
		return hetsim_soft_pwrite(fd, from, length, offset);
	n = pwrite(fd, from, length, (off_t)offset);
	return n < 0 ? -errno : n;
}

void hetsim_plug(void)
{
	int fd;

	if (soft) {
		CHECK_EQUAL(soft_plug(0), 0);
		return;
	}
	fd = open("/sys/kernel/debug/hetsim/plug", O_WRONLY | O_CLOEXEC);
	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(write(fd, "0", 1), 1);
	close(fd);
}

/* The twin's is an eventfd, which says that it is over and not how. */
void hetsim_fence_check(int fence, int status)
{
	struct pollfd poll_it = { .fd = fence, .events = POLLIN };
	struct sync_file_info info = { 0 };

	CHECK_EQUAL(poll(&poll_it, 1, 10000), 1);
	if (soft)
		return;
	CHECK_EQUAL(ioctl(fence, SYNC_IOC_FILE_INFO, &info), 0);
	CHECK_EQUAL(info.num_fences, 1);
	CHECK_EQUAL(info.status, status);
}

#define TESTS_MAX 64

/* SIM_* of the device; all where there is none, which tests say themselves. */
static unsigned int device_has(void)
{
	struct hetsim_query query = { .size = sizeof(query) };
	struct hetsim_mirror mirror = { .size = sizeof(mirror) };
	int fd = hetsim_open_try(O_RDWR);
	unsigned int has = SIM_ALL & ~SIM_SLOW;

	if (fd < 0)
		return has;
	if (!hetsim_call(fd, HETSIM_HANDSHAKE,
			 SIZED(hetsim_handshake, .version_major = HETSIM_VERSION_MAJOR)) &&
	    !hetsim_call(fd, HETSIM_QUERY, &query))
		has = (query.vram_bytes <= MIB(256) ? SIM_SMALL : 0) |
		      (query.system_bytes <= MIB(256) &&
				       query.opener_system_bytes < query.system_bytes ?
			       SIM_LEFT :
			       0) |
		      (query.window_bytes ? 0 : SIM_REACHED) |
		      (query.window_bytes && query.window_bytes <= MIB(64) ? SIM_WINDOWED : 0);
	if (!hetsim_call(fd, HETSIM_MIRROR, &mirror) &&
	    mirror.migration != HETSIM_MIGRATION_NONE)
		has |= SIM_MIGRATES;
	else
		has |= SIM_STAYS;
	hetsim_close(fd);
	return has;
}

int hetsim_main(int argc, char **argv, const char *suite, const struct test *common,
		const struct test *own)
{
	static struct test tests[TESTS_MAX + 1];
	unsigned int n = 0, has = device_has();

	for (; common->name && n < TESTS_MAX; common++)
		if (sim_test_fits(common, has))
			tests[n++] = *common;
	for (; own && own->name && n < TESTS_MAX; own++)
		if (sim_test_fits(own, has))
			tests[n++] = *own;
	return harness_main(argc, argv, suite, tests);
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

int hetsim_begin(int flags)
{
	int fd = hetsim_open(flags);

	if (fd < 0)
		test_abandon();
	return fd;
}

struct hetsim_query hetsim_query(int fd)
{
	struct hetsim_query query = { .size = sizeof(query) };

	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &query), 0);
	return query;
}

struct hetsim_counters hetsim_counters(int fd, uint32_t scope)
{
	struct hetsim_counters counters = { .size = sizeof(counters), .scope = scope };

	CHECK_EQUAL(hetsim_call(fd, HETSIM_COUNTERS, &counters), 0);
	return counters;
}

struct hetsim_buffer hetsim_buffer_make(int fd, uint64_t length, uint32_t place)
{
	uint64_t window = hetsim_query(fd).window_bytes;
	struct hetsim_buffer buffer;

	if (place == HETSIM_PLACE_VRAM && window)
		place = window >= 4 * length ? HETSIM_PLACE_WINDOW : HETSIM_PLACE_SYSTEM;
	CHECK_FATAL(hetsim_buffer_create(fd, length, place, 0, &buffer) == 0);
	CHECK_FATAL(hetsim_mmap(fd, length, PROT_READ | PROT_WRITE, buffer.offset,
				&buffer.bytes) == 0);
	buffer.fd = fd;
	return buffer;
}

int hetsim_close_handle(int fd, uint32_t handle)
{
	struct hetsim_buffer_close close_it = { .size = sizeof(close_it), .handle = handle };

	return hetsim_call(fd, HETSIM_BUFFER_CLOSE, &close_it);
}

void hetsim_buffer_drop(int fd, struct hetsim_buffer *buffer)
{
	CHECK_EQUAL(hetsim_munmap(buffer->bytes, buffer->length), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer->handle), 0);
}

int hetsim_bind(int fd, const struct hetsim_buffer *buffer, uint32_t flags)
{
	return hetsim_call(fd, HETSIM_BIND,
			   SIZED(hetsim_bind, .flags = flags, .handle = buffer->handle,
				 .address = (uintptr_t)buffer->bytes,
				 .length = buffer->length));
}

int hetsim_unbind(int fd, const struct hetsim_buffer *buffer)
{
	return hetsim_call(fd, HETSIM_UNBIND,
			   SIZED(hetsim_unbind, .address = (uintptr_t)buffer->bytes,
				 .length = buffer->length));
}

uint32_t hetsim_queue_make(int fd, uint32_t type, uint32_t timeout_ms)
{
	struct hetsim_queue_create create = {
		.size = sizeof(create),
		.type = type,
		.timeout_ms = timeout_ms,
	};

	CHECK_FATAL(hetsim_call(fd, HETSIM_QUEUE_CREATE, &create) == 0);
	return create.queue;
}

int hetsim_submit(int fd, uint32_t queue, const struct hetsim_command *commands, uint32_t n,
		  uint64_t *ret_seqno)
{
	struct hetsim_submit submit = {
		.size = sizeof(submit),
		.queue = queue,
		.commands = (uintptr_t)commands,
		.n_commands = n,
		.command_size = sizeof(*commands),
	};
	int r = hetsim_call(fd, HETSIM_SUBMIT, &submit);

	if (!r)
		*ret_seqno = submit.seqno;
	return r;
}

int hetsim_wait(int fd, uint32_t queue, uint64_t seqno, uint64_t ms, int *ret_status,
		uint64_t *ret_address)
{
	struct hetsim_wait wait = { .size = sizeof(wait), .queue = queue, .seqno = seqno };
	struct timespec now;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &now);
	wait.deadline_ns =
		(uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + ms * 1000000u;
	if (!ms)
		wait.deadline_ns = 0;
	r = hetsim_call(fd, HETSIM_WAIT, &wait);
	if (!r) {
		*ret_status = wait.status;
		*ret_address = wait.fault_address;
	}
	return r;
}

int hetsim_run(int fd, uint32_t queue, const struct hetsim_command *command)
{
	uint64_t seqno = 0, address;
	int status = 0, r;

	r = hetsim_submit(fd, queue, command, 1, &seqno);
	if (r)
		return r;
	CHECK_EQUAL(hetsim_wait(fd, queue, seqno, 60000, &status, &address), 0);
	return status;
}

int hetsim_inject(int fd, uint32_t kind, uint32_t target, uint64_t value)
{
	return hetsim_call(fd, HETSIM_INJECT,
			   SIZED(hetsim_inject, .kind = kind, .target = target,
				 .value = value));
}

int hetsim_objects(void)
{
	return soft ? (int)soft_objects(0) : hetsim_objects_of(HETSIM_PATH);
}

int hetsim_objects_of(const char *device)
{
	char path[128], line[512];
	FILE *file;
	int n = -1;

	snprintf(path, sizeof(path), "/sys/kernel/debug/hetsim/%s/objects",
		 strrchr(device, '/') + 1);
	file = fopen(path, "re");
	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		n++; /* the heading is not an object */
	fclose(file);
	return n;
}
