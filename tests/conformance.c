// SPDX-License-Identifier: MIT
/* What the conformance cases share: subjects, buffers, patterns, limits. */
#include "conformance.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEVICES_MAX 32
#define STEP 61

static bool add_subject(struct subject *subjects, unsigned int capacity, unsigned int *n,
			const char *device, const char *kind, uint32_t flags)
{
	struct subject *subject = &subjects[*n];

	if (*n >= capacity)
		return false;
	snprintf(subject->device, sizeof(subject->device), "%s", device);
	snprintf(subject->name, sizeof(subject->name), "%s%s%s", device, *kind ? "-" : "",
		 kind);
	subject->flags = flags;
	(*n)++;
	return true;
}

unsigned int conformance_subjects(struct subject *subjects, unsigned int capacity)
{
	struct hm_device_info infos[DEVICES_MAX];
	unsigned int n = 0;
	uint32_t n_device, i;

	infos[0].struct_size = sizeof(infos[0]);
	if (hm_device_list(infos, DEVICES_MAX, &n_device))
		return 0;
	for (i = 0; i < n_device && i < DEVICES_MAX; i++) {
		add_subject(subjects, capacity, &n, infos[i].name, "", 0);
		add_subject(subjects, capacity, &n, infos[i].name, "read_only",
			    HM_BUFFER_READ_ONLY);
		if (infos[i].caps & HM_CAP_PRIVATE)
			add_subject(subjects, capacity, &n, infos[i].name, "private",
				    HM_BUFFER_PRIVATE);
		if (infos[i].caps & HM_CAP_HUGETLB)
			add_subject(subjects, capacity, &n, infos[i].name, "hugetlb",
				    HM_BUFFER_HUGETLB);
	}
	return n;
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

int fixture_buffer(struct fixture *f, uint64_t size, uint64_t max_size,
		   struct hm_buffer **ret_buffer)
{
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = f->subject->flags,
		.size = size,
		.max_size = max_size,
		.name = "conformance",
	};
	int fd, r;

	if (f->device_info.caps & HM_CAP_CREATE)
		return hm_buffer_create(f->device, &desc, ret_buffer);
	fd = scratch_file(size);
	r = hm_buffer_from_file(f->device, NULL, fd, &desc, ret_buffer);
	close(fd);
	return r;
}

struct hm_buffer *fixture_make(struct fixture *f, uint64_t size, uint64_t max_size,
			       struct hm_map **ret_map)
{
	struct hm_buffer *buffer;

	CHECK_OK_FATAL(fixture_buffer(f, size, max_size, &buffer));
	if (ret_map)
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, ret_map));
	return buffer;
}

/* The page size is known once there is a buffer: the second one has UNITS of it. */
void fixture_open(struct fixture *f, const struct subject *subject)
{
	struct hm_buffer *buffer;

	memset(f, 0, sizeof(*f));
	f->subject = subject;
	f->device_info.struct_size = sizeof(f->device_info);
	CHECK_OK_FATAL(hm_device_open(subject->device, &f->device));
	CHECK_OK_FATAL(hm_device_query(f->device, &f->device_info));
	buffer = fixture_make(f, 1, 0, NULL);
	f->unit = buffer_info(buffer).page_size;
	hm_buffer_unref(buffer);
	buffer = fixture_make(f, UNITS * f->unit, MAX_UNITS * f->unit, NULL);
	f->info = buffer_info(buffer);
	f->caps = f->info.caps;
	f->writable = f->info.access & HM_WRITE;
	hm_buffer_unref(buffer);
}

void fixture_close(struct fixture *f)
{
	hm_device_unref(f->device);
}

static unsigned char pattern_byte(uint64_t at, uint32_t salt)
{
	return (unsigned char)((at * 131 + (at >> 12) * 17 + salt * 29) % 255 + 1);
}

void pattern_write(void *base, uint64_t from, uint64_t to, uint32_t salt)
{
	unsigned char *bytes = base;
	uint64_t at;

	for (at = from; at < to; at += STEP)
		bytes[at] = pattern_byte(at, salt);
	if (to > from)
		bytes[to - 1] = pattern_byte(to - 1, salt);
}

bool pattern_holds(const void *base, uint64_t from, uint64_t to, uint32_t salt)
{
	const unsigned char *bytes = base;
	uint64_t at;

	for (at = from; at < to; at += STEP)
		if (bytes[at] != pattern_byte(at, salt))
			return false;
	return to <= from || bytes[to - 1] == pattern_byte(to - 1, salt);
}

bool is_zero(const void *base, uint64_t from, uint64_t to)
{
	const unsigned char *bytes = base;

	return from >= to ||
	       (!bytes[from] && !memcmp(bytes + from, bytes + from + 1, to - from - 1));
}

void put(const struct fixture *f, void *base, uint64_t from, uint64_t to, uint32_t salt)
{
	if (f->writable)
		pattern_write(base, from, to, salt);
}

bool holds(const struct fixture *f, const void *base, uint64_t from, uint64_t to,
	   uint32_t salt)
{
	return f->writable ? pattern_holds(base, from, to, salt) : is_zero(base, from, to);
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

struct hm_stats stats_now(void)
{
	struct hm_stats now = { .struct_size = sizeof(now) };

	CHECK_OK(hm_stats_get(&now));
	return now;
}

void limit_memlock(uint64_t more)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	uint64_t limit = test_status_bytes("VmLck") + more;
	struct rlimit memlock = { limit, limit };

	if (!syscall(SYS_capget, &header, data)) {
		data[0].effective &= ~(1u << CAP_IPC_LOCK);
		CHECK(syscall(SYS_capset, &header, data) == 0);
	}
	CHECK(setrlimit(RLIMIT_MEMLOCK, &memlock) == 0);
}
