// SPDX-License-Identifier: MIT
/* Shared by several test programs: byte patterns, queries, files, limits. */
#include "lib/support.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STEP 61

static unsigned char pattern_byte(uint64_t at, uint32_t salt)
{
	return (unsigned char)((at * 131 + (at >> 12) * 17 + salt * 29) % 255 + 1);
}

/* Marked are every 61st byte and the last one of every KiB, wherever a range begins. */
static uint64_t next_mark(uint64_t at)
{
	uint64_t step = (at / STEP + 1) * STEP, last = at | 1023;

	if (last == at)
		last += 1024;
	return step < last ? step : last;
}

static uint64_t first_mark(uint64_t at)
{
	return at ? next_mark(at - 1) : 0;
}

void pattern_write(void *base, uint64_t from, uint64_t to, uint32_t salt)
{
	unsigned char *bytes = base;
	uint64_t at;

	for (at = first_mark(from); at < to; at = next_mark(at))
		bytes[at] = pattern_byte(at, salt);
}

bool pattern_holds(const void *base, uint64_t from, uint64_t to, uint32_t salt)
{
	const unsigned char *bytes = base;
	uint64_t at;

	for (at = first_mark(from); at < to; at = next_mark(at))
		if (bytes[at] != pattern_byte(at, salt))
			return false;
	return true;
}

bool is_zero(const void *base, uint64_t from, uint64_t to)
{
	const unsigned char *bytes = base;

	return from >= to ||
	       (!bytes[from] && !memcmp(bytes + from, bytes + from + 1, to - from - 1));
}

struct hm_buffer_info buffer_info(struct hm_buffer *buffer)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_buffer_query(buffer, &info));
	return info;
}

struct hm_map_info map_info(struct hm_map *map, uint32_t fields)
{
	struct hm_map_info info = { .struct_size = sizeof(info), .fields = fields };

	CHECK_OK(hm_map_query(map, &info));
	return info;
}

struct hm_device_info device_info(struct hm_device *device)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_device_query(device, &info));
	return info;
}

struct hm_handler_info handler_info(void)
{
	struct hm_handler_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_handler_query(&info));
	return info;
}

struct hm_stats stats_now(void)
{
	struct hm_stats now = { .struct_size = sizeof(now) };

	CHECK_OK(hm_stats_get(&now));
	return now;
}

void make_table(void)
{
	AUTO(rig) r = rig_make("host", DESC(hm_buffer_desc, .size = 4096));
}

int scratch_file(uint64_t size)
{
	const char *dir = getenv("TMPDIR");
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/hetmap-test-XXXXXX", dir ? dir : "/tmp");
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	if (fd < 0 || ftruncate(fd, (off_t)size)) {
		test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
		test_abandon();
	}
	return fd;
}

void limit_memlock(uint64_t more)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	uint64_t limit = test_status_bytes("VmLck") + more;
	struct rlimit memlock;

	/* No process may raise its hard limit. */
	CHECK(!getrlimit(RLIMIT_MEMLOCK, &memlock));
	limit = limit < memlock.rlim_max ? limit : memlock.rlim_max;
	memlock.rlim_cur = limit;
	memlock.rlim_max = limit;
	if (!syscall(SYS_capget, &header, data)) {
		data[0].effective &= ~(1u << CAP_IPC_LOCK);
		CHECK(syscall(SYS_capset, &header, data) == 0);
	}
	CHECK(setrlimit(RLIMIT_MEMLOCK, &memlock) == 0);
}

void send_fd(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec vector = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	CHECK_EQUAL(sendmsg(socket, &message, 0), 1);
}

int receive_fd(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec vector = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd = -1;

	CHECK_FATAL(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1);
	CHECK_FATAL(CMSG_FIRSTHDR(&message) != NULL);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}
