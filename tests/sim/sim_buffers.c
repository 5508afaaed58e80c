// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: handshake, buffers, limits, pread and pwrite,
 * and nonsensical calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

static void test_handshake(void)
{
	struct hetsim_handshake shake = {
		.size = sizeof(shake),
		.version_major = HETSIM_VERSION_MAJOR + 1,
	};
	struct hetsim_query query = { .size = sizeof(query) };
	unsigned char *bytes;
	int fd = hetsim_open_bare(O_RDWR);

	if (fd < 0)
		return;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &query), -EPROTO);
	CHECK_EQUAL(hetsim_mmap(fd, 4096, PROT_READ, 4096, &bytes), -EPROTO);

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
	hetsim_close(fd);
}

/* The purpose of each kind, and the properties that all share. */
static void test_kinds(void)
{
	static const struct {
		uint64_t granule_min, granule_max, dma_align, max_segment;
	} kinds[] = {
		[HETSIM_KIND_GPU] = { MIB(128), MIB(128), 4, MIB(1024) },
		[HETSIM_KIND_FPGA] = { MIB(1) / 16, MIB(1) / 16, 64, MIB(1) },
		[HETSIM_KIND_NIC] = { MIB(2), MIB(4), 8, MIB(4) },
	};
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct hetsim_query query = hetsim_query(fd);

	CHECK_FATAL(query.kind <= HETSIM_KIND_NIC);
	CHECK_EQUAL(query.granule_min, kinds[query.kind].granule_min);
	CHECK_EQUAL(query.granule_max, kinds[query.kind].granule_max);
	CHECK_EQUAL(query.dma_align, kinds[query.kind].dma_align);
	CHECK_EQUAL(query.max_segment, kinds[query.kind].max_segment);
	CHECK_EQUAL(query.timeout_ms, 2000);
}

/* Sizes of structures: shorter, longer with zeros, longer with something, absurd. */
static void test_struct_sizes(void)
{
	union {
		struct hetsim_query query;
		unsigned char bytes[16384];
	} arg;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	memset(&arg, 0, sizeof(arg));
	arg.query.size = 4;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), -EINVAL);
	arg.query.size = 0;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), -EINVAL);
	arg.query.size = offsetof(struct hetsim_query, opener_system_bytes) - 1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), -EINVAL);
	/* An older caller, whose struct has no room for later members. */
	arg.query.size++;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &arg), 0);
	CHECK_EQUAL(arg.query.page_size, PAGE);
	CHECK_EQUAL(arg.query.opener_system_bytes, 0);
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
	CHECK_EQUAL(hetsim_call(fd, _IO(HETSIM_TYPE, 0xff), &arg), -ENOTTY);
	CHECK_EQUAL(hetsim_call(fd, _IO(HETSIM_TYPE, 0x0f), &arg), -ENOTTY);
	CHECK_EQUAL(hetsim_call(fd, _IO('x', HETSIM_NR_QUERY), &arg), -ENOTTY);
	CHECK_EQUAL(hetsim_call(fd, _IOWR(HETSIM_TYPE, HETSIM_NR_QUERY, int), &arg), -ENOTTY);
}

/* Only members marked [out] are written: an argument without any may be constant. */
static void test_constant_calls(void)
{
	union {
		struct hetsim_buffer_close close;
		struct hetsim_queue_destroy destroy;
	} * arg;
	struct hetsim_buffer buffer = { 0 };
	uint32_t queue;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	arg = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(arg != MAP_FAILED);
	CHECK_FATAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, 0, &buffer) == 0);
	arg->close = (struct hetsim_buffer_close){ .size = sizeof(arg->close),
						   .handle = buffer.handle };
	CHECK_FATAL(mprotect(arg, PAGE, PROT_READ) == 0);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_CLOSE, arg), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), -ENOENT);

	queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 0);
	CHECK_FATAL(mprotect(arg, PAGE, PROT_READ | PROT_WRITE) == 0);
	arg->destroy =
		(struct hetsim_queue_destroy){ .size = sizeof(arg->destroy), .queue = queue };
	CHECK_FATAL(mprotect(arg, PAGE, PROT_READ) == 0);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_DESTROY, arg), 0);
	CHECK_EQUAL(munmap(arg, PAGE), 0);
}

static void test_create(void)
{
	struct hetsim_buffer_create arg = { .size = sizeof(arg), .length = MIB(1) };
	struct hetsim_buffer_info info = { .size = sizeof(info) };
	struct hetsim_buffer buffer = { 0 };
	struct hetsim_query before, now;
	uint32_t place;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	before = hetsim_query(fd);
	for (place = HETSIM_PLACE_VRAM; place <= HETSIM_PLACE_SYSTEM; place++) {
		CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), place, 0, &buffer), 0);
		info.handle = buffer.handle;
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), 0);
		CHECK_EQUAL(info.length, MIB(1));
		CHECK_EQUAL(info.place, place);
		CHECK_EQUAL(info.cache, HETSIM_CACHE_BACK);
		CHECK_EQUAL(info.maps, 0);
		now = hetsim_query(fd);
		CHECK_EQUAL(now.opener_used, MIB(1));
		CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
		CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), -ENOENT);
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), -ENOENT);
		CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(1)), -ENOENT);
	}
	CHECK_EQUAL(hetsim_query(fd).opener_used, 0);

	CHECK_EQUAL(hetsim_buffer_create(fd, 0, 0, 0, &buffer), -EINVAL);
	CHECK_EQUAL(hetsim_buffer_create(fd, 1, 0, 0, &buffer), -EINVAL);
	CHECK_EQUAL(hetsim_buffer_create(fd, UINT64_MAX, 0, 0, &buffer), -EINVAL);
	CHECK_EQUAL(hetsim_buffer_create(fd, UINT64_MAX & ~(PAGE - 1), 0, 0, &buffer), -ENOSPC);
	CHECK_EQUAL(hetsim_buffer_create(fd, before.vram_bytes + PAGE, 0, 0, &buffer), -ENOSPC);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), 99, 0, &buffer), -EINVAL);
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
}

static void test_foreign_handles(void)
{
	unsigned char byte = 0;
	unsigned char *bytes;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int other = hetsim_open(O_RDWR);
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);

	CHECK_EQUAL(hetsim_close_handle(other, buffer.handle), -ENOENT);
	CHECK_EQUAL(hetsim_buffer_resize(other, buffer.handle, MIB(1)), -ENOENT);
	CHECK_EQUAL(hetsim_mmap(other, 4096, PROT_READ, buffer.offset, &bytes), -ENOENT);
	CHECK_EQUAL(hetsim_pread(other, &byte, 1, buffer.offset), -ENOENT);
	CHECK_EQUAL(hetsim_pwrite(other, &byte, 1, buffer.offset), -ENOENT);
	hetsim_buffer_drop(fd, &buffer);
	hetsim_close(other);
}

static void test_resize(void)
{
	unsigned char *bytes;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(4), HETSIM_PLACE_VRAM);

	memset(buffer.bytes, 0x5a, buffer.length);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(1)), 0);
	CHECK_EQUAL(hetsim_query(fd).opener_used, MIB(1));
	CHECK_EQUAL(buffer.bytes[MIB(1) - 1], 0x5a);
	CHECK_EQUAL(test_read_signal(buffer.bytes + MIB(1)), SIGBUS);
	CHECK_EQUAL(test_read_signal(buffer.bytes + MIB(4) - 1), SIGBUS);

	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(8)), 0);
	CHECK_EQUAL(buffer.bytes[MIB(1) - 1], 0x5a);
	CHECK_EQUAL(buffer.bytes[MIB(1)], 0);
	CHECK_EQUAL(buffer.bytes[MIB(4) - 1], 0);
	CHECK_FATAL(hetsim_mmap(fd, MIB(1), PROT_READ, buffer.offset + MIB(7), &bytes) == 0);
	CHECK_EQUAL(bytes[MIB(1) - 1], 0);
	CHECK_EQUAL(hetsim_munmap(bytes, MIB(1)), 0);

	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, 0), -EINVAL);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, 17), -EINVAL);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, 1ull << 63), -ENOSPC);
}

static void test_limit(void)
{
	struct hetsim_buffer buffer;
	uint32_t n = 0;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int r = 0;
	const uint64_t step = MIB(64);
	struct hetsim_query query = hetsim_query(fd);

	while (n < 256) {
		r = hetsim_buffer_create(fd, step, n & 1, 0, &buffer);
		if (r)
			break;
		n++;
	}
	CHECK_EQUAL(r, -ENOSPC);
	CHECK(n * step <= query.opener_bytes);
}

static void test_read_write(void)
{
	static unsigned char pattern[3 * 4096], back[3 * 4096];
	struct hetsim_buffer buffer;
	struct hetsim_counters counters;
	volatile uintptr_t nowhere = 8;
	size_t i;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	for (i = 0; i < sizeof(pattern); i++)
		pattern[i] = (unsigned char)(i * 7 + 1);
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	CHECK_EQUAL(hetsim_pwrite(fd, pattern, sizeof(pattern), buffer.offset + 1000),
		    sizeof(pattern));
	CHECK(memcmp(buffer.bytes + 1000, pattern, sizeof(pattern)) == 0);
	CHECK_EQUAL(buffer.bytes[999], 0);
	CHECK_EQUAL(buffer.bytes[1000 + sizeof(pattern)], 0);
	CHECK_EQUAL(hetsim_pread(fd, back, sizeof(back), buffer.offset + 1000), sizeof(back));
	CHECK(memcmp(back, pattern, sizeof(back)) == 0);

	/* At and over the end. */
	CHECK_EQUAL(hetsim_pread(fd, back, 4096, buffer.offset + MIB(1)), 0);
	CHECK_EQUAL(hetsim_pread(fd, back, 4096, buffer.offset + MIB(1) - 10), 10);
	CHECK_EQUAL(hetsim_pwrite(fd, back, 4096, buffer.offset + MIB(1) - 10), 10);
	CHECK_EQUAL(hetsim_pwrite(fd, back, 1, buffer.offset + MIB(1)), -ENOSPC);

	/* Positions that are no buffer's, pointers that lead nowhere. */
	CHECK_EQUAL(hetsim_pread(fd, back, 1, 0), -ENOENT);
	CHECK(hetsim_pread(fd, back, 1, INT64_MAX) < 0);
	CHECK_EQUAL(hetsim_pread(fd, (void *)nowhere, 4096, buffer.offset), -EFAULT);
	CHECK_EQUAL(hetsim_pwrite(fd, (void *)nowhere, 4096, buffer.offset), -EFAULT);

	/* From the buffer's own map into itself. */
	CHECK_EQUAL(hetsim_pwrite(fd, buffer.bytes + 1000, 8192, buffer.offset + 65536), 8192);
	CHECK(memcmp(buffer.bytes + 65536, pattern, 8192) == 0);

	counters = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(counters.bytes_read, sizeof(back) + 10);
	CHECK_EQUAL(counters.bytes_written, sizeof(pattern) + 10 + 8192);
	hetsim_buffer_drop(fd, &buffer);
}

static void test_read_only_open(void)
{
	struct hetsim_buffer buffer;
	unsigned char byte = 0;
	unsigned char *bytes;
	AUTO_HETSIM fd = hetsim_begin(O_RDONLY);

	CHECK_FATAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, 0, &buffer) == 0);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).offset, buffer.offset);
	CHECK_EQUAL(hetsim_mmap(fd, MIB(1), PROT_READ | PROT_WRITE, buffer.offset, &bytes),
		    -EACCES);
	CHECK_FATAL(hetsim_mmap(fd, MIB(1), PROT_READ, buffer.offset, &bytes) == 0);
	CHECK_EQUAL(bytes[0], 0);
	CHECK(mprotect(bytes, MIB(1), PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
	CHECK_EQUAL(hetsim_pwrite(fd, &byte, 1, buffer.offset), -EBADF);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(2)), -EACCES);
	CHECK_EQUAL(hetsim_munmap(bytes, MIB(1)), 0);
}

/* Bytes of one opener are never seen by a later one. */
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
		buffer = hetsim_buffer_make(fd, MIB(1), round & 1);
		for (sum = 0, i = 0; i < MIB(1); i++)
			sum += buffer.bytes[i];
		CHECK_EQUAL(sum, 0);
		memset(buffer.bytes, 0xff, MIB(1));
		hetsim_buffer_drop(fd, &buffer);
		hetsim_close(fd);
	}
}

static void test_write_combining(void)
{
	struct hetsim_buffer_create arg = {
		.size = sizeof(arg),
		.length = MIB(4),
		.place = HETSIM_PLACE_SYSTEM,
		.cache = HETSIM_CACHE_COMBINE,
	};
	struct hetsim_buffer_info info = { .size = sizeof(info) };
	unsigned char *bytes;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	bool possible = hetsim_query(fd).cache_modes & (1u << HETSIM_CACHE_COMBINE);
	int r = hetsim_call(fd, HETSIM_BUFFER_CREATE, &arg);

	CHECK_EQUAL(r, possible ? 0 : -EOPNOTSUPP);
	if (!r) {
		info.handle = arg.handle;
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), 0);
		CHECK_EQUAL(info.cache, HETSIM_CACHE_COMBINE);
		CHECK_FATAL(hetsim_mmap(fd, arg.length, PROT_READ | PROT_WRITE, arg.offset,
					&bytes) == 0);
		bytes[arg.length - 1] = 9;
		CHECK_EQUAL(hetsim_buffer_resize(fd, arg.handle, MIB(6)), 0);
		CHECK_EQUAL(bytes[arg.length - 1], 9);
		CHECK_EQUAL(hetsim_buffer_resize(fd, arg.handle, MIB(1)), 0);
		CHECK_EQUAL(hetsim_munmap(bytes, arg.length), 0);
	}
}

struct race {
	int fd;
	struct hetsim_buffer buffer;
	_Atomic bool stop;
};

static void *race_resize(void *user)
{
	struct race *race = user;
	struct hetsim_buffer_resize arg = { .size = sizeof(arg),
					    .handle = race->buffer.handle };
	unsigned int round;

	for (round = 0; round < 200; round++) {
		arg.length = (1 + round % 8) * MIB(1);
		if (hetsim_call(race->fd, HETSIM_BUFFER_RESIZE, &arg))
			test_fail(__FILE__, __LINE__, "resize failed");
	}
	race->stop = true;
	return NULL;
}

/* pread, pwrite and faults below the part that comes and goes. */
static void test_resize_race(void)
{
	static unsigned char bytes[MIB(1)];
	struct race race = { .fd = hetsim_open(O_RDWR) };
	pthread_t thread;
	unsigned int n = 0;

	if (race.fd < 0)
		return;
	race.buffer = hetsim_buffer_make(race.fd, MIB(8), HETSIM_PLACE_VRAM);
	CHECK_FATAL(pthread_create(&thread, NULL, race_resize, &race) == 0);
	while (!race.stop) {
		n++;
		race.buffer.bytes[(n * 4096) % MIB(1)] = (unsigned char)n;
		(void)!hetsim_pread(race.fd, bytes, sizeof(bytes),
				    (race.buffer.offset + (n % 8) * MIB(1)));
		(void)!hetsim_pwrite(race.fd, bytes, sizeof(bytes),
				     (race.buffer.offset + (1 + n % 7) * MIB(1)));
	}
	pthread_join(thread, NULL);
	hetsim_buffer_drop(race.fd, &race.buffer);
	hetsim_close(race.fd);
}

const struct test sim_buffers_tests[] = {
	{ "handshake", test_handshake, 0, 0 },
	{ "kinds", test_kinds, 0, 0 },
	{ "struct_sizes", test_struct_sizes, 0, 0 },
	{ "constant_calls", test_constant_calls, 0, 0 },
	{ "create", test_create, 0, 0 },
	{ "foreign_handles", test_foreign_handles, 0, 0 },
	{ "resize", test_resize, 0, 0 },
	{ "limit", test_limit, 0, SIM_SMALL },
	{ "read_write", test_read_write, 0, 0 },
	{ "read_only_open", test_read_only_open, 0, 0 },
	{ "zeroed", test_zeroed, 0, 0 },
	{ "write_combining", test_write_combining, 0, 0 },
	{ "resize_race", test_resize_race, 60, 0 },
	{ NULL, NULL, 0, 0 },
};
