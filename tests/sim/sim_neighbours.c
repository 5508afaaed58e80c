// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: what one opener leaves to others that share
 * its memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

static void test_told(void)
{
	struct hetsim_buffer buffer = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct hetsim_query query = hetsim_query(fd);

	/* With opener_mb the limit of both places together is the only one. */
	if (query.opener_system_bytes != query.system_bytes)
		CHECK_EQUAL(query.opener_system_bytes, query.system_bytes / 4 * 3);
	CHECK_EQUAL(query.opener_system_used, 0);
	CHECK_FATAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, 0, &buffer) == 0);
	CHECK_EQUAL(hetsim_query(fd).opener_system_used, MIB(1));
	CHECK_EQUAL(hetsim_query(fd).opener_used, MIB(1));
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
	CHECK_EQUAL(hetsim_query(fd).opener_system_used, 0);
}

/* Buffers of a MiB in @place until there are no more; how many. */
static uint64_t take_all(int fd, uint32_t place)
{
	struct hetsim_buffer_create create = { .size = sizeof(create),
					       .length = MIB(1),
					       .place = place };
	uint64_t n = 0;
	int r;

	while (!(r = hetsim_call(fd, HETSIM_BUFFER_CREATE, &create)))
		n++;
	CHECK_EQUAL(r, -ENOSPC);
	return n;
}

/* Nothing is evicted from system memory: an opener at its limit has not taken all. */
static void test_system_is_left(void)
{
	struct hetsim_buffer buffer = { 0 }, own = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int other;
	struct hetsim_query query = hetsim_query(fd);

	CHECK_FATAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_VRAM, 0, &buffer) == 0);
	CHECK_EQUAL(take_all(fd, HETSIM_PLACE_SYSTEM), query.opener_system_bytes / MIB(1));
	CHECK_EQUAL(hetsim_query(fd).opener_system_used, query.opener_system_bytes);
	/* Nor by the other way. */
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_SYSTEM),
		    -ENOSPC);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).vram_bytes, MIB(1));

	other = hetsim_open(O_RDWR);
	CHECK_FATAL(other >= 0);
	CHECK_EQUAL(hetsim_buffer_create(other, MIB(16), HETSIM_PLACE_SYSTEM, 0, &own), 0);
	CHECK_EQUAL(hetsim_query(other).opener_system_used, MIB(16));
	hetsim_close(other);
}

/* Injected faults are for the opener's own calls, not for others that evict its pages. */
static void test_evicted_injection(void)
{
	struct hetsim_buffer victim = { 0 }, buffer = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int other;
	struct hetsim_query query = hetsim_query(fd);
	uint64_t length = query.vram_bytes / 4 * 3;

	CHECK_FATAL(hetsim_buffer_create(fd, length, HETSIM_PLACE_VRAM, 0, &victim) == 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_ENOMEM, 0, 1), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EINTR, 0, 1), 0);
	other = hetsim_open(O_RDWR);
	CHECK_FATAL(other >= 0);
	CHECK_EQUAL(hetsim_buffer_create(other, length, HETSIM_PLACE_VRAM, 0, &buffer), 0);
	CHECK_EQUAL(hetsim_buffer_info(other, buffer.handle).vram_bytes, length);
	CHECK(hetsim_buffer_info(fd, victim.handle).system_bytes >=
	      2 * length - query.vram_bytes);
	/* The faults are still to come. */
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, 0, &buffer), -ENOMEM);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, 0, &buffer), -EINTR);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, 0, &buffer), 0);
	hetsim_close(other);
}

/* All of system memory but for so many bytes, by two openers. */
static void leave_of_system(int fd, int other, uint64_t left)
{
	struct hetsim_query query = hetsim_query(fd);
	struct hetsim_buffer buffer = { 0 };
	uint64_t rest = query.system_bytes - query.opener_system_bytes;

	CHECK_FATAL(hetsim_buffer_create(fd, query.opener_system_bytes, HETSIM_PLACE_SYSTEM, 0,
					 &buffer) == 0);
	CHECK_FATAL(hetsim_buffer_create(other, rest - left, HETSIM_PLACE_SYSTEM, 0, &buffer) ==
		    0);
}

/* Room is made as long as system memory has pages for the evicted ones, and no further. */
static void test_last_pages(void)
{
	const uint64_t left = 100 * PAGE;
	struct hetsim_buffer victim = { 0 }, buffer = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int others[2];
	struct hetsim_query query = hetsim_query(fd);

	others[0] = hetsim_open(O_RDWR);
	others[1] = hetsim_open(O_RDWR);
	CHECK_FATAL(others[0] >= 0 && others[1] >= 0);
	leave_of_system(others[0], others[1], left);
	CHECK_FATAL(hetsim_buffer_create(others[1], query.vram_bytes, HETSIM_PLACE_VRAM, 0,
					 &victim) == 0);
	CHECK_EQUAL(hetsim_buffer_create(fd, left, HETSIM_PLACE_VRAM, 0, &buffer), 0);
	CHECK_EQUAL(hetsim_buffer_info(others[1], victim.handle).system_bytes, left);
	CHECK_EQUAL(hetsim_query(fd).system_used, query.system_bytes);
	CHECK_EQUAL(hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_VRAM, 0, &buffer), -ENOSPC);
	CHECK_EQUAL(hetsim_buffer_info(others[1], victim.handle).evictions, 1);
	hetsim_close(others[1]);
	hetsim_close(others[0]);
}

struct mover {
	int fd;
	uint32_t handle;
	uint64_t length;
	bool stop;
	int r; /* of one that failed */
};

/* Moves a buffer to system memory for ever: mostly there is nothing to move, or no room. */
static void *move_on(void *argument)
{
	struct mover *mover = argument;
	int r = 0;

	while (!r && !__atomic_load_n(&mover->stop, __ATOMIC_RELAXED)) {
		r = hetsim_buffer_move(mover->fd, mover->handle, 0, mover->length,
				       HETSIM_PLACE_SYSTEM);
		if (r == -ENOSPC)
			r = 0;
	}
	if (r)
		__atomic_store_n(&mover->r, r, __ATOMIC_RELAXED);
	return NULL;
}

/* An opener that keeps on moving a buffer does not keep it in VRAM. */
static void test_busy_owner(void)
{
	struct hetsim_buffer busy = { 0 }, buffer = { 0 };
	struct mover mover = { 0 };
	pthread_t threads[2];
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int other, i;
	struct hetsim_query query = hetsim_query(fd);

	mover.length = query.vram_bytes / 4 * 3;
	CHECK_FATAL(hetsim_buffer_create(fd, mover.length, HETSIM_PLACE_VRAM, 0, &busy) == 0);
	mover.fd = fd;
	mover.handle = busy.handle;
	other = hetsim_open(O_RDWR);
	CHECK_FATAL(other >= 0);
	for (i = 0; i < 2; i++)
		CHECK_FATAL(pthread_create(&threads[i], NULL, move_on, &mover) == 0);
	for (i = 0; i < 3; i++) {
		CHECK_EQUAL(hetsim_buffer_create(other, query.vram_bytes / 2, HETSIM_PLACE_VRAM,
						 0, &buffer),
			    0);
		CHECK_EQUAL(hetsim_close_handle(other, buffer.handle), 0);
		/* In the way again, as far as it goes. */
		hetsim_buffer_move(fd, busy.handle, 0, mover.length, HETSIM_PLACE_VRAM);
	}
	__atomic_store_n(&mover.stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	CHECK_EQUAL(mover.r, 0);
	hetsim_close(other);
}

/* An opener with the right to read changes nothing of a buffer. */
static void test_read_only(void)
{
	struct hetsim_buffer_sample sample = { .size = sizeof(sample),
					       .action = HETSIM_SAMPLE_START };
	struct hetsim_import import = { .size = sizeof(import) };
	struct hetsim_buffer buffer = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int reader, dmabuf;
	uint32_t count = 0;

	CHECK_FATAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_VRAM, 0, &buffer) == 0);
	dmabuf = hetsim_export(fd, buffer.handle, 0);
	CHECK_FATAL(dmabuf >= 0);
	reader = hetsim_open(O_RDONLY);
	CHECK_FATAL(reader >= 0);
	CHECK_FATAL(hetsim_import(reader, dmabuf, &import) == 0);
	CHECK_EQUAL(hetsim_buffer_move(reader, import.handle, 0, MIB(1), HETSIM_PLACE_SYSTEM),
		    -EACCES);
	sample.handle = import.handle;
	CHECK_EQUAL(hetsim_call(reader, HETSIM_BUFFER_SAMPLE, &sample), -EPERM);
	sample.action = HETSIM_SAMPLE_STOP;
	CHECK_EQUAL(hetsim_call(reader, HETSIM_BUFFER_SAMPLE, &sample), -EPERM);
	sample.action = HETSIM_SAMPLE_START;
	sample.handle = buffer.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), 0);
	/* Which pages the maker uses is his to know. */
	sample.action = HETSIM_SAMPLE_READ;
	sample.length = PAGE;
	sample.counts = (uintptr_t)&count;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), 0);
	sample.handle = import.handle;
	CHECK_EQUAL(hetsim_call(reader, HETSIM_BUFFER_SAMPLE, &sample), -EPERM);
	close(dmabuf);
	hetsim_close(reader);
}

/*
 * An importer can change a buffer's length only when the maker is gone, which is charged for it;
 * its place, at any time.
 */
static void test_length_is_the_makers(void)
{
	struct hetsim_import import = { .size = sizeof(import) };
	struct hetsim_buffer buffer = { 0 };
	int fd = hetsim_begin(O_RDWR);
	int other, dmabuf;

	CHECK_FATAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_VRAM, 0, &buffer) == 0);
	dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	other = hetsim_open(O_RDWR);
	CHECK_FATAL(other >= 0);
	CHECK_FATAL(hetsim_import(other, dmabuf, &import) == 0);
	CHECK_EQUAL(close(dmabuf), 0);
	CHECK_EQUAL(hetsim_buffer_resize(other, import.handle, MIB(2)), -EPERM);
	CHECK_EQUAL(hetsim_buffer_resize(other, import.handle, MIB(1) / 2), -EPERM);
	CHECK_EQUAL(hetsim_buffer_resize(other, import.handle, MIB(1)), -EPERM);
	CHECK_EQUAL(hetsim_query(fd).opener_used, MIB(1));
	CHECK_EQUAL(hetsim_buffer_move(other, import.handle, 0, MIB(1), HETSIM_PLACE_SYSTEM),
		    0);
	CHECK_EQUAL(hetsim_query(fd).opener_system_used, MIB(1));
	CHECK_EQUAL(hetsim_query(other).opener_used, 0);

	/* With no handle of it either, as long as the file is open. */
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
	CHECK_EQUAL(hetsim_buffer_resize(other, import.handle, MIB(2)), -EPERM);
	hetsim_close(fd);
	CHECK_EQUAL(hetsim_buffer_resize(other, import.handle, MIB(2)), 0);
	CHECK_EQUAL(hetsim_buffer_info(other, import.handle).length, MIB(2));
	hetsim_close(other);
}

/* All that may be injected into a buffer. */
static void inject_all(int fd, uint32_t handle, int expected)
{
	static const uint32_t kinds[] = { HETSIM_INJECT_SIGBUS, HETSIM_INJECT_POISON,
					  HETSIM_INJECT_EVICTION };
	static const uint64_t values[] = { PAGE, 0, UINT64_MAX };
	unsigned int i, k;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (k = 0; k < sizeof(values) / sizeof(values[0]); k++)
			CHECK_EQUAL(hetsim_inject(fd, kinds[i], handle, values[k]), expected);
}

/* An importer neither injects faults into the maker's buffer, nor ends injected ones. */
static void test_injections_are_the_makers(void)
{
	struct hetsim_import import = { .size = sizeof(import) };
	struct hetsim_buffer_info before, after;
	struct hetsim_buffer buffer, own = { 0 };
	int fd = hetsim_begin(O_RDWR);
	int other, dmabuf;
	uint64_t i;

	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	memset(buffer.bytes, 7, buffer.length);
	dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	other = hetsim_open(O_RDWR);
	CHECK_FATAL(other >= 0);
	CHECK_FATAL(hetsim_import(other, dmabuf, &import) == 0);
	CHECK_EQUAL(close(dmabuf), 0);
	before = hetsim_buffer_info(fd, buffer.handle);
	inject_all(other, import.handle, -EPERM);
	after = hetsim_buffer_info(fd, buffer.handle);
	CHECK(memcmp(&before, &after, sizeof(before)) == 0);
	for (i = 0; i < buffer.length; i += PAGE)
		if (test_read_signal(buffer.bytes + i) || buffer.bytes[i] != 7)
			break;
	CHECK_EQUAL(i, buffer.length);

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_SIGBUS, buffer.handle, PAGE), 0);
	CHECK_EQUAL(hetsim_inject(other, HETSIM_INJECT_SIGBUS, import.handle, UINT64_MAX),
		    -EPERM);
	CHECK_EQUAL(test_read_signal(buffer.bytes + PAGE), SIGBUS);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_SIGBUS, buffer.handle, UINT64_MAX), 0);
	CHECK_EQUAL(buffer.bytes[PAGE], 7);
	CHECK_FATAL(!hetsim_buffer_create(other, MIB(1), HETSIM_PLACE_SYSTEM, 0, &own));
	inject_all(other, own.handle, 0);

	/* Nor when the maker is gone. */
	CHECK_EQUAL(hetsim_munmap(buffer.bytes, buffer.length), 0);
	hetsim_close(fd);
	inject_all(other, import.handle, -EPERM);
	hetsim_close(other);
}

const struct test sim_neighbours_tests[] = {
	{ "busy_owner", test_busy_owner, 60, SIM_REACHED | SIM_SMALL },
	{ "read_only", test_read_only, 0, 0 },
	{ "length_is_the_makers", test_length_is_the_makers, 0, 0 },
	{ "injections_are_the_makers", test_injections_are_the_makers, 0, 0 },
	{ "told", test_told, 0, 0 },
	{ "system_is_left", test_system_is_left, 60, SIM_LEFT },
	{ "last_pages", test_last_pages, 60, SIM_SMALL | SIM_LEFT },
	{ "evicted_injection", test_evicted_injection, 60, SIM_REACHED | SIM_SMALL },
	{ NULL, NULL, 0, 0 },
};
