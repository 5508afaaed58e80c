// SPDX-License-Identifier: MIT
/*
 * Files that other machines have, too: reported, refused, published and refreshed. tests/vm
 * tests two clients in a machine that has a server.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/inject.h"
#include "lib/support.h"
#include "base/sys.h"

#define SIZE (4 * PAGE + 100)

static struct sys_table real;
static long type;          /* f_type of fstatfs(); 0: the true one */
static unsigned int locks; /* calls of F_OFD_SETLKW and their unlocks */
static int lock_error;

static int told_fstatfs(int fd, struct statfs *ret_statfs)
{
	int r = real.fstatfs(fd, ret_statfs);

	if (!r && type)
		ret_statfs->f_type = type;
	return r;
}

static int counted_fcntl(int fd, int command, long argument)
{
	if (command == F_OFD_SETLKW || command == F_OFD_SETLK) {
		locks++;
		if (lock_error) {
			errno = lock_error;
			return -1;
		}
	}
	return real.fcntl(fd, command, argument);
}

static void pretend(long as)
{
	if (!real.mmap)
		real = sys_table;
	sys_table.fstatfs = told_fstatfs;
	sys_table.fcntl = counted_fcntl;
	type = as;
	locks = 0;
	lock_error = 0;
}

static void the_truth(void)
{
	sys_table.fstatfs = real.fstatfs;
	sys_table.fcntl = real.fcntl;
}

static void told(void)
{
	static const struct {
		long type;
		uint32_t coherence;
		const char *name;
	} rows[] = {
		{ 0x6969, HM_COHERENCE_NONE, "nfs" },
		{ (long)0xff534d42, HM_COHERENCE_NONE, "cifs" },
		/* As the kernel has it where it is a signed int. */
		{ (int)0xfe534d42, HM_COHERENCE_NONE, "smb2" },
		{ 0x01021997, HM_COHERENCE_NONE, "9p" },
		{ 0x65735546, HM_COHERENCE_UNKNOWN, "fuse" },
		{ 0x00c36400, HM_COHERENCE_UNKNOWN, "ceph" },
		{ 0x0187, HM_COHERENCE_UNKNOWN, "autofs" },
		{ (int)0xaad7aaea, HM_COHERENCE_UNKNOWN, "panfs" },
		{ 0x61636673, HM_COHERENCE_UNKNOWN, "acfs" },
		{ (int)0xbeefdead, HM_COHERENCE_UNKNOWN, "snfs" },
		{ (int)0xbacbacbc, HM_COHERENCE_UNKNOWN, "vmhgfs" },
		{ 0x7c7c6673, HM_COHERENCE_UNKNOWN, "prl_fs" },
		{ 0x013111a8, HM_COHERENCE_UNKNOWN, "ibrix" },
		{ 0x0bd00bd0, HM_COHERENCE_LOCKS, "lustre" },
		{ 0xef53, HM_COHERENCE_LOCAL, "ext4" },
		{ 0x12345, HM_COHERENCE_LOCAL, "0x12345" },
	};
	struct hm_file_system_info info = { .struct_size = sizeof(info) };
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pretend(rows[i].type);
		CHECK_OK(hm_file_system_query("/", -1, &info));
		CHECK_EQUAL(info.coherence, rows[i].coherence);
		CHECK(!strcmp(info.name, rows[i].name));
		CHECK_EQUAL(info.type, (uint32_t)rows[i].type);
	}
	the_truth();
	CHECK_OK(hm_file_system_query(NULL, STDERR_FILENO, &info));
	CHECK_ERROR(-ENOENT, hm_file_system_query("/nowhere", -1, &info));
	CHECK_ERROR(-EBADF, hm_file_system_query(NULL, -1, &info));
	CHECK_ERROR(-EINVAL, hm_file_system_query("/", -1, NULL));
	info.struct_size += 8;
	CHECK_ERROR(-E2BIG, hm_file_system_query("/", -1, &info));
}

static void refused(void)
{
	static const struct {
		long type;
		uint32_t flags;
		int error;
	} rows[] = {
		{ 0x6969, 0, -EOPNOTSUPP },
		{ 0x6969, HM_BUFFER_READ_ONLY, 0 },
		{ 0x6969, HM_BUFFER_PRIVATE, 0 },
		{ 0x6969, HM_BUFFER_PUBLISH, 0 },
		{ 0x6969, HM_BUFFER_PUBLISH | HM_BUFFER_READ_ONLY, 0 },
		{ 0x01021997, 0, -EOPNOTSUPP },
		{ 0x65735546, 0, 0 },
		{ 0x0bd00bd0, 0, 0 },
		{ 0, 0, 0 },
		{ 0, HM_BUFFER_PUBLISH, 0 },
	};
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc) };
	struct hm_buffer *buffer;
	int fd = scratch_file(SIZE), r;
	size_t i;
	AUTO(hm_device) *device = rig_device("file");

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pretend(rows[i].type);
		desc.flags = rows[i].flags;
		buffer = NULL;
		r = hm_buffer_from_file(device, NULL, fd, &desc, &buffer);
		CHECK_EQUAL(r, rows[i].error);
		if (r) {
			CHECK(strstr(hm_errmsg(), "HM_BUFFER_PUBLISH"));
			CHECK(!buffer);
			continue;
		}
		CHECK_EQUAL(strstr(hm_warning(), "hm_file_refresh()") != NULL,
			    rows[i].type == 0x6969 && rows[i].flags == HM_BUFFER_READ_ONLY);
		CHECK_EQUAL(buffer_info(buffer).flags, rows[i].flags);
		hm_buffer_unref(buffer);
	}
	the_truth();
	AUTO(hm_device) *host = rig_device("host");
	desc = (struct hm_buffer_desc){ .struct_size = sizeof(desc),
					.size = PAGE,
					.flags = HM_BUFFER_PUBLISH };
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_create(host, &desc, &buffer));
	close(fd);
}

static void protocol(void)
{
	int fd = scratch_file(SIZE);
	char byte;

	pretend(0x6969);
	AUTO(hm_device) *device = rig_device("file");
	AUTO(hm_buffer) *buffer =
		rig_file(device, NULL, fd, DESC(hm_buffer_desc, .flags = HM_BUFFER_PUBLISH));
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	((volatile char *)hm_map_address(map))[PAGE] = 7;
	CHECK_OK(hm_file_publish(map, PAGE, PAGE));
	CHECK(pread(fd, &byte, 1, (off_t)PAGE) == 1 && byte == 7);
	CHECK_OK(hm_file_publish(map, 4 * PAGE, 100));
	CHECK_ERROR(-EINVAL, hm_file_publish(map, 1, PAGE));
	CHECK_ERROR(-EINVAL, hm_file_publish(map, 0, 100));
	CHECK_ERROR(-EINVAL, hm_file_publish(map, 0, 0));
	CHECK_ERROR(-ERANGE, hm_file_publish(map, 4 * PAGE, 2 * PAGE));
	CHECK_EQUAL(locks, 0);
	CHECK_OK(hm_file_refresh(map, 0, SIZE));
	CHECK_EQUAL(locks, 2);
	CHECK_ERROR(-EINVAL, hm_file_refresh(map, 1, PAGE));
	CHECK_ERROR(-EINVAL, hm_file_refresh(map, 0, 100));
	CHECK_ERROR(-ERANGE, hm_file_refresh(map, 5 * PAGE, PAGE));
	CHECK_ERROR(-EINVAL, hm_file_refresh(NULL, 0, PAGE));
	lock_error = EOPNOTSUPP;
	CHECK_ERROR(-ENOLCK, hm_file_refresh(map, 0, PAGE));
	CHECK(strstr(hm_errmsg(), "open the file again"));
	lock_error = ESTALE;
	CHECK_ERROR(-ESTALE, hm_file_refresh(map, 0, PAGE));
	/* On one machine there is nothing to do. */
	pretend(0xef53);
	CHECK_OK(hm_file_refresh(map, 0, PAGE));
	CHECK_EQUAL(locks, 0);
	the_truth();
	inject_always("msync", EIO);
	CHECK_ERROR(-EIO, hm_file_publish(map, 0, PAGE));
	inject_always("msync", ENOSPC);
	CHECK_ERROR(-ENOSPC, hm_map_sync(map, 0, PAGE, 0));
	CHECK(strstr(hm_errmsg(), "ENOSPC"));
	inject_disarm();
	close(fd);
}

static int refresh_of(long as, uint32_t flags, bool shared_refused)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .flags = flags };
	int fd = scratch_file(SIZE), r;
	AUTO(hm_device) *device = rig_device("file");

	if (shared_refused)
		inject_shared_refused(ENODEV);
	pretend(as);
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, &desc);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	CHECK_EQUAL(buffer_info(buffer).backing, flags & HM_BUFFER_PRIVATE || shared_refused ?
							 HM_BACKING_FILE_PRIVATE :
							 HM_BACKING_FILE);
	r = hm_file_refresh(map, 0, PAGE);
	the_truth();
	inject_disarm();
	close(fd);
	return r;
}

/* Where a lock leaves the map as it is: an error, not a 0 and old bytes. */
static void not_refreshed(void)
{
	static const long without[] = {
		0x01021997, 0x517b,     (int)0xff534d42, (int)0xfe534d42, 0x5346414f,
		0x6b414653, 0x73757245, 0x564c,          0x20030528,
	};
	size_t i;

	for (i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
		CHECK_ERROR(-EOPNOTSUPP, refresh_of(without[i], HM_BUFFER_PUBLISH, false));
		CHECK(strstr(hm_errmsg(), "open the file again"));
		CHECK_ERROR(-EOPNOTSUPP, refresh_of(without[i], HM_BUFFER_READ_ONLY, false));
		CHECK_OK(refresh_of(without[i], HM_BUFFER_PRIVATE, false));
		CHECK_EQUAL(locks, 0);
	}
	CHECK_OK(refresh_of(0x6969, HM_BUFFER_READ_ONLY, false));
	CHECK_EQUAL(locks, 2);
	CHECK_OK(refresh_of(0x00c36400, 0, false));
	CHECK_EQUAL(locks, 2);
	/* A map to read that is a private copy for want of a shared one. */
	CHECK_ERROR(-EOPNOTSUPP, refresh_of(0x65735546, HM_BUFFER_READ_ONLY, true));
	CHECK(strstr(hm_errmsg(), "private copies"));
	CHECK_ERROR(-EOPNOTSUPP, refresh_of(0x6969, HM_BUFFER_READ_ONLY, true));
	CHECK_OK(refresh_of(0x6969, HM_BUFFER_PRIVATE, true));
	CHECK_OK(refresh_of(0xef53, HM_BUFFER_READ_ONLY, true));
	CHECK_EQUAL(locks, 0);
}

static int publish_of(uint32_t flags, bool shared_refused)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .flags = flags };
	int fd = scratch_file(SIZE), r;
	AUTO(hm_device) *device = rig_device("file");

	if (shared_refused)
		inject_shared_refused(ENODEV);
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, &desc);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	if (!(flags & HM_BUFFER_READ_ONLY))
		((volatile char *)hm_map_address(map))[PAGE] = 7;
	r = hm_file_publish(map, 0, SIZE);
	inject_disarm();
	close(fd);
	return r;
}

/* Stores that no other machine will see: an error, not a 0. */
static void not_published(void)
{
	CHECK_OK(publish_of(0, false));
	CHECK_ERROR(-EOPNOTSUPP, publish_of(HM_BUFFER_PRIVATE, false));
	CHECK(strstr(hm_errmsg(), "hm_file_publish: "));
	CHECK(strstr(hm_errmsg(), "without HM_BUFFER_PRIVATE"));
	CHECK_ERROR(-EOPNOTSUPP, publish_of(HM_BUFFER_READ_ONLY, true));
	CHECK_ERROR(-EINVAL, hm_file_publish(NULL, 0, PAGE));
}

/* ---- each of their system calls fails ---- */

#define CALLS_MAX 20 /* far more than they make */

static int publish(struct hm_map *map)
{
	return hm_file_publish(map, 0, SIZE);
}

static int refresh(struct hm_map *map)
{
	return hm_file_refresh(map, 0, SIZE);
}

static const struct protocol_call {
	const char *name;
	int (*run)(struct hm_map *map);
	unsigned int least; /* calls that it makes */
	int errors[2];      /* errors that its header names */
} protocol_calls[] = {
	{ "publish", publish, 1, { -EIO } },
	{ "refresh", refresh, 3, { -EIO, -ENOLCK } },
};

/* By another open file than the buffer's. */
static bool is_locked(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	CHECK(!fcntl(fd, F_OFD_GETLK, &lock));
	return lock.l_type != F_UNLCK;
}

/* Returns false when the @n-th call was not made any more. */
static bool fail_once(const struct protocol_call *call, struct hm_map *map, unsigned int n,
		      int other)
{
	struct test_holding holding = test_holding_now();
	struct hm_map_info before = map_info(map, 0), after;
	bool failed;
	int r;

	pattern_write(hm_map_address(map), 0, SIZE, n);
	test_forget_text();
	inject_arm(n, INJECT_ONE);
	r = call->run(map);
	failed = inject_disarm();
	if (failed ? r != call->errors[0] && r != call->errors[1] : r)
		test_fail(__FILE__, __LINE__, "%s, call %u (%s): %d (%s)", call->name, n,
			  inject_failed(), r, hm_errmsg());
	CHECK(!r || hm_errmsg()[0]);
	after = map_info(map, 0);
	CHECK(!memcmp(&before, &after, sizeof(before)));
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, n));
	CHECK_OK(call->run(map));
	/* A lock that could not be released before is free by now. */
	CHECK(!is_locked(other));
	test_holding_same(&holding);
	return failed;
}

static void each_call_fails(void)
{
	int fd = scratch_file(SIZE), other;
	unsigned int n;
	char path[64];
	size_t i;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDWR | O_CLOEXEC);
	CHECK_FATAL(other >= 0);
	inject_install();
	pretend(0x6969);
	AUTO(hm_device) *device = rig_device("file");
	AUTO(hm_buffer) *buffer =
		rig_file(device, NULL, fd, DESC(hm_buffer_desc, .flags = HM_BUFFER_PUBLISH));
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	for (i = 0; i < sizeof(protocol_calls) / sizeof(protocol_calls[0]); i++) {
		for (n = 1; n < CALLS_MAX; n++)
			if (!fail_once(&protocol_calls[i], map, n, other))
				break;
		CHECK(n > protocol_calls[i].least && n < CALLS_MAX);
	}
	the_truth();
	close(other);
	close(fd);
}

static const struct test tests[] = {
	{ "told", told, 0, 0 },
	{ "refused", refused, 0, 0 },
	{ "protocol", protocol, 0, 0 },
	{ "not_refreshed", not_refreshed, 0, 0 },
	{ "not_published", not_published, 0, 0 },
	{ "each_call_fails", each_call_fails, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "network", tests)
