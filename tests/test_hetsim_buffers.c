// SPDX-License-Identifier: MIT
/* hetsim: handshake, buffers, limits, pread and pwrite, and callers who ask for nonsense. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "hetsim.h"

#define MIB (1024ull * 1024)

static int create(int fd, uint64_t length, uint32_t place, uint32_t *ret_handle)
{
	struct hetsim_buffer_create arg = {
		.size = sizeof(arg),
		.length = length,
		.place = place,
	};
	int r = hetsim_call(fd, HETSIM_BUFFER_CREATE, &arg);

	if (!r)
		*ret_handle = arg.handle;
	return r;
}

static int resize(int fd, uint32_t handle, uint64_t length)
{
	struct hetsim_buffer_resize arg = {
		.size = sizeof(arg),
		.handle = handle,
		.length = length,
	};

	return hetsim_call(fd, HETSIM_BUFFER_RESIZE, &arg);
}

static void test_handshake(void)
{
	struct hetsim_handshake shake = {
		.size = sizeof(shake),
		.version_major = HETSIM_VERSION_MAJOR + 1,
	};
	struct hetsim_query query = { .size = sizeof(query) };
	int fd = hetsim_open_bare(O_RDWR);

	if (fd < 0)
		return;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &query), -EPROTO);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096) == MAP_FAILED &&
	      errno == EPROTO);

	CHECK_EQUAL(hetsim_call(fd, HETSIM_HANDSHAKE, &shake), 0);
	CHECK_EQUAL(shake.accepted, 0);
	CHECK_EQUAL(shake.driver_major, HETSIM_VERSION_MAJOR);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &query), -EPROTO);

	shake.version_major = HETSIM_VERSION_MAJOR;
	shake.features = 1ull << 63;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_HANDSHAKE, &shake), 0);
	CHECK_EQUAL(shake.accepted, 0);

	shake.features = shake.driver_features;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_HANDSHAKE, &shake), 0);
	CHECK_EQUAL(shake.accepted, 1);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &query), 0);
	CHECK_EQUAL(query.page_size, (uint64_t)sysconf(_SC_PAGESIZE));
	CHECK(query.granule_min > 0 && query.granule_max >= query.granule_min);
	close(fd);
}

/* Sizes of structures: shorter, longer with zeros, longer with something, absurd. */
static void test_struct_sizes(void)
{
	union {
		struct hetsim_query query;
		unsigned char bytes[16384];
	} arg;
	int fd = hetsim_open(O_RDWR);

	if (fd < 0)
		return;
	memset(&arg, 0, sizeof(arg));
	arg.query.size = 4;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), -EINVAL);
	arg.query.size = 0;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), -EINVAL);
	arg.query.size = sizeof(arg.query) - 1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), -EINVAL);
	arg.query.size = sizeof(arg.query) + 64;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), 0);
	arg.bytes[sizeof(arg.query) + 63] = 1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), -E2BIG);
	arg.bytes[sizeof(arg.query) + 63] = 0;
	arg.query.size = sizeof(arg);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), -E2BIG);
	arg.query.size = UINT32_MAX;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), -E2BIG);
	arg.query.size = sizeof(arg.query);
	arg.query.flags = 1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), -EINVAL);

	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, NULL), -EFAULT);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, (void *)-4096L), -EFAULT);
	CHECK_EQUAL(hetsim_call(fd, _IO(HETSIM_TYPE, 0xff), &arg), -ENOTTY);
	CHECK_EQUAL(hetsim_call(fd, _IO(HETSIM_TYPE, 0x0f), &arg), -ENOTTY);
	CHECK_EQUAL(hetsim_call(fd, _IO('x', HETSIM_NR_QUERY), &arg), -ENOTTY);
	CHECK_EQUAL(hetsim_call(fd, _IOWR(HETSIM_TYPE, HETSIM_NR_QUERY, int), &arg), -ENOTTY);
	close(fd);
}

static void test_create(void)
{
	struct hetsim_buffer_create arg = { .size = sizeof(arg), .length = MIB };
	struct hetsim_buffer_info info = { .size = sizeof(info) };
	struct hetsim_query before, now;
	uint32_t handle = 0, place;
	int fd = hetsim_open(O_RDWR);

	if (fd < 0)
		return;
	before = hetsim_query(fd);
	for (place = HETSIM_PLACE_VRAM; place <= HETSIM_PLACE_SYSTEM; place++) {
		CHECK_EQUAL(create(fd, MIB, place, &handle), 0);
		info.handle = handle;
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), 0);
		CHECK_EQUAL(info.length, MIB);
		CHECK_EQUAL(info.place, place);
		CHECK_EQUAL(info.cache, HETSIM_CACHE_BACK);
		CHECK_EQUAL(info.maps, 0);
		now = hetsim_query(fd);
		CHECK_EQUAL(now.opener_used, MIB);
		CHECK_EQUAL(hetsim_close_handle(fd, handle), 0);
		CHECK_EQUAL(hetsim_close_handle(fd, handle), -ENOENT);
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), -ENOENT);
		CHECK_EQUAL(resize(fd, handle, MIB), -ENOENT);
	}
	CHECK_EQUAL(hetsim_query(fd).opener_used, 0);

	CHECK_EQUAL(create(fd, 0, 0, &handle), -EINVAL);
	CHECK_EQUAL(create(fd, 1, 0, &handle), -EINVAL);
	CHECK_EQUAL(create(fd, UINT64_MAX, 0, &handle), -EINVAL);
	CHECK_EQUAL(create(fd, UINT64_MAX & ~(HETSIM_PAGE - 1), 0, &handle), -ENOSPC);
	CHECK_EQUAL(create(fd, before.vram_bytes + HETSIM_PAGE, 0, &handle), -ENOSPC);
	CHECK_EQUAL(create(fd, MIB, 99, &handle), -EINVAL);
	arg.cache = 7;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &arg), -EINVAL);
	arg.cache = 0;
	arg.flags = 1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &arg), -EINVAL);
	arg.flags = 0;
	arg.__reserved = 1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &arg), -EINVAL);
	CHECK_EQUAL(hetsim_query(fd).opener_used, 0);
	CHECK_EQUAL(hetsim_query(fd).vram_used, before.vram_used);
	close(fd);
}

static void test_foreign_handles(void)
{
	struct hetsim_buffer buffer;
	unsigned char byte = 0;
	int fd = hetsim_open(O_RDWR), other;

	if (fd < 0)
		return;
	other = hetsim_open(O_RDWR);
	buffer = hetsim_buffer_make(fd, MIB, HETSIM_PLACE_VRAM);
	CHECK_EQUAL(hetsim_close_handle(other, buffer.handle), -ENOENT);
	CHECK_EQUAL(resize(other, buffer.handle, MIB), -ENOENT);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, other, (off_t)buffer.offset) ==
		      MAP_FAILED &&
	      errno == ENOENT);
	CHECK(pread(other, &byte, 1, (off_t)buffer.offset) == -1 && errno == ENOENT);
	CHECK(pwrite(other, &byte, 1, (off_t)buffer.offset) == -1 && errno == ENOENT);
	hetsim_buffer_drop(fd, &buffer);
	close(other);
	close(fd);
}

static void test_resize(void)
{
	struct hetsim_buffer buffer;
	unsigned char *bytes;
	int fd = hetsim_open(O_RDWR);

	if (fd < 0)
		return;
	buffer = hetsim_buffer_make(fd, 4 * MIB, HETSIM_PLACE_VRAM);
	memset(buffer.bytes, 0x5a, buffer.length);
	CHECK_EQUAL(resize(fd, buffer.handle, MIB), 0);
	CHECK_EQUAL(hetsim_query(fd).opener_used, MIB);
	CHECK_EQUAL(buffer.bytes[MIB - 1], 0x5a);
	CHECK_EQUAL(test_read_signal(buffer.bytes + MIB), SIGBUS);
	CHECK_EQUAL(test_read_signal(buffer.bytes + 4 * MIB - 1), SIGBUS);

	CHECK_EQUAL(resize(fd, buffer.handle, 8 * MIB), 0);
	CHECK_EQUAL(buffer.bytes[MIB - 1], 0x5a);
	CHECK_EQUAL(buffer.bytes[MIB], 0);
	CHECK_EQUAL(buffer.bytes[4 * MIB - 1], 0);
	bytes = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, (off_t)(buffer.offset + 7 * MIB));
	CHECK_FATAL(bytes != MAP_FAILED);
	CHECK_EQUAL(bytes[MIB - 1], 0);
	CHECK_EQUAL(munmap(bytes, MIB), 0);

	CHECK_EQUAL(resize(fd, buffer.handle, 0), -EINVAL);
	CHECK_EQUAL(resize(fd, buffer.handle, 17), -EINVAL);
	CHECK_EQUAL(resize(fd, buffer.handle, 1ull << 63), -ENOSPC);
	hetsim_buffer_drop(fd, &buffer);
	close(fd);
}

static void test_limit(void)
{
	struct hetsim_query query;
	uint32_t handles[256], n = 0;
	int fd = hetsim_open(O_RDWR), r = 0;
	const uint64_t step = 64 * MIB;

	if (fd < 0)
		return;
	query = hetsim_query(fd);
	if (query.vram_bytes > 256 * MIB) {
		close(fd); /* the machine may not have them */
		return;
	}
	while (n < 256) {
		r = create(fd, step, n & 1, &handles[n]);
		if (r)
			break;
		n++;
	}
	CHECK_EQUAL(r, -ENOSPC);
	CHECK(n * step <= query.opener_bytes);
	close(fd);
}

static void test_read_write(void)
{
	static unsigned char pattern[3 * 4096], back[3 * 4096];
	struct hetsim_buffer buffer;
	struct hetsim_counters counters;
	volatile uintptr_t nowhere = 8;
	size_t i;
	int fd = hetsim_open(O_RDWR);

	if (fd < 0)
		return;
	for (i = 0; i < sizeof(pattern); i++)
		pattern[i] = (unsigned char)(i * 7 + 1);
	buffer = hetsim_buffer_make(fd, MIB, HETSIM_PLACE_VRAM);
	CHECK_EQUAL(pwrite(fd, pattern, sizeof(pattern), (off_t)buffer.offset + 1000),
		    sizeof(pattern));
	CHECK(memcmp(buffer.bytes + 1000, pattern, sizeof(pattern)) == 0);
	CHECK_EQUAL(buffer.bytes[999], 0);
	CHECK_EQUAL(buffer.bytes[1000 + sizeof(pattern)], 0);
	CHECK_EQUAL(pread(fd, back, sizeof(back), (off_t)buffer.offset + 1000), sizeof(back));
	CHECK(memcmp(back, pattern, sizeof(back)) == 0);

	/* At and over the end. */
	CHECK_EQUAL(pread(fd, back, 4096, (off_t)(buffer.offset + MIB)), 0);
	CHECK_EQUAL(pread(fd, back, 4096, (off_t)(buffer.offset + MIB - 10)), 10);
	CHECK_EQUAL(pwrite(fd, back, 4096, (off_t)(buffer.offset + MIB - 10)), 10);
	CHECK(pwrite(fd, back, 1, (off_t)(buffer.offset + MIB)) == -1 && errno == ENOSPC);

	/* Positions that are no buffer's, pointers that lead nowhere. */
	CHECK(pread(fd, back, 1, 0) == -1 && errno == ENOENT);
	CHECK(pread(fd, back, 1, INT64_MAX) == -1);
	CHECK(pread(fd, (void *)nowhere, 4096, (off_t)buffer.offset) == -1 && errno == EFAULT);
	CHECK(pwrite(fd, (void *)nowhere, 4096, (off_t)buffer.offset) == -1 && errno == EFAULT);

	/* From the buffer's own map into itself. */
	CHECK_EQUAL(pwrite(fd, buffer.bytes + 1000, 8192, (off_t)buffer.offset + 65536), 8192);
	CHECK(memcmp(buffer.bytes + 65536, pattern, 8192) == 0);

	counters = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(counters.bytes_read, sizeof(back) + 10);
	CHECK_EQUAL(counters.bytes_written, sizeof(pattern) + 10 + 8192);
	hetsim_buffer_drop(fd, &buffer);
	close(fd);
}

static void test_read_only_open(void)
{
	uint32_t handle = 0;
	unsigned char byte = 0;
	struct hetsim_buffer_info info = { .size = sizeof(info) };
	unsigned char *bytes;
	int fd = hetsim_open(O_RDONLY);

	if (fd < 0)
		return;
	CHECK_EQUAL(create(fd, MIB, HETSIM_PLACE_SYSTEM, &handle), 0);
	info.handle = handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), 0);
	CHECK(mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)info.offset) ==
		      MAP_FAILED &&
	      errno == EACCES);
	bytes = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, (off_t)info.offset);
	CHECK_FATAL(bytes != MAP_FAILED);
	CHECK_EQUAL(bytes[0], 0);
	CHECK(mprotect(bytes, MIB, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
	CHECK(pwrite(fd, &byte, 1, (off_t)info.offset) == -1 && errno == EBADF);
	CHECK_EQUAL(resize(fd, handle, 2 * MIB), -EACCES);
	CHECK_EQUAL(munmap(bytes, MIB), 0);
	close(fd);
}

/* What one opener wrote, no later one sees. */
static void test_zeroed(void)
{
	struct hetsim_buffer buffer;
	unsigned int round;
	uint64_t i, sum;
	int fd;

	for (round = 0; round < 8; round++) {
		fd = hetsim_open(O_RDWR);
		if (fd < 0)
			return;
		buffer = hetsim_buffer_make(fd, MIB, round & 1);
		for (sum = 0, i = 0; i < MIB; i++)
			sum += buffer.bytes[i];
		CHECK_EQUAL(sum, 0);
		memset(buffer.bytes, 0xff, MIB);
		hetsim_buffer_drop(fd, &buffer);
		close(fd);
	}
}

static void test_write_combining(void)
{
	struct hetsim_buffer_create arg = {
		.size = sizeof(arg),
		.length = 4 * MIB,
		.place = HETSIM_PLACE_SYSTEM,
		.cache = HETSIM_CACHE_COMBINE,
	};
	struct hetsim_buffer_info info = { .size = sizeof(info) };
	bool possible;
	unsigned char *bytes;
	int fd = hetsim_open(O_RDWR), r;

	if (fd < 0)
		return;
	possible = hetsim_query(fd).cache_modes & (1u << HETSIM_CACHE_COMBINE);
	r = hetsim_call(fd, HETSIM_BUFFER_CREATE, &arg);
	CHECK_EQUAL(r, possible ? 0 : -EOPNOTSUPP);
	if (!r) {
		info.handle = arg.handle;
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), 0);
		CHECK_EQUAL(info.cache, HETSIM_CACHE_COMBINE);
		bytes = mmap(NULL, arg.length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			     (off_t)arg.offset);
		CHECK_FATAL(bytes != MAP_FAILED);
		bytes[arg.length - 1] = 9;
		CHECK_EQUAL(resize(fd, arg.handle, 6 * MIB), 0);
		CHECK_EQUAL(bytes[arg.length - 1], 9);
		CHECK_EQUAL(resize(fd, arg.handle, MIB), 0);
		CHECK_EQUAL(munmap(bytes, arg.length), 0);
	}
	close(fd);
}

static void test_objects(void)
{
	struct hetsim_buffer buffer;
	int fd = hetsim_open(O_RDWR), n;

	if (fd < 0)
		return;
	n = hetsim_objects();
	if (n < 0) {
		close(fd);
		test_skip("kernel", "debugfs can't be read");
		return;
	}
	buffer = hetsim_buffer_make(fd, MIB, 0);
	CHECK_EQUAL(hetsim_objects(), n + 1);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
	CHECK_EQUAL(hetsim_objects(), n + 1);
	close(fd); /* the map keeps it, and the buffer */
	CHECK_EQUAL(hetsim_objects(), n + 1);
	buffer.bytes[5] = 5;
	CHECK_EQUAL(munmap(buffer.bytes, buffer.length), 0);
	CHECK_EQUAL(hetsim_objects(), n - 1);
}

static const struct test tests[] = {
	{ "handshake", test_handshake, 0, 0 },
	{ "struct_sizes", test_struct_sizes, 0, 0 },
	{ "create", test_create, 0, 0 },
	{ "foreign_handles", test_foreign_handles, 0, 0 },
	{ "resize", test_resize, 0, 0 },
	{ "limit", test_limit, 0, 0 },
	{ "read_write", test_read_write, 0, 0 },
	{ "read_only_open", test_read_only_open, 0, 0 },
	{ "zeroed", test_zeroed, 0, 0 },
	{ "write_combining", test_write_combining, 0, 0 },
	{ "objects", test_objects, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "hetsim_buffers", tests);
}
