// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: pages that move, by command and to make room,
 * while they are in use.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

static bool filled(const unsigned char *bytes, uint64_t length, unsigned int seed)
{
	uint64_t i;

	for (i = 0; i < length; i += 509)
		if (bytes[i] != (unsigned char)(i / 509 + seed))
			return false;
	return true;
}

static void fill(unsigned char *bytes, uint64_t length, unsigned int seed)
{
	uint64_t i;

	for (i = 0; i < length; i += 509)
		bytes[i] = (unsigned char)(i / 509 + seed);
}

static void test_move(void)
{
	struct hetsim_buffer_resize resize = { .size = sizeof(resize) };
	struct hetsim_counters counters;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct hetsim_query query = hetsim_query(fd);
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(8), HETSIM_PLACE_VRAM);

	fill(buffer.bytes, buffer.length, 1);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(8), HETSIM_PLACE_SYSTEM), 0);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).place, HETSIM_PLACE_SYSTEM);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).system_bytes, MIB(8));
	CHECK_EQUAL(hetsim_query(fd).vram_used, query.vram_used);
	CHECK_EQUAL(hetsim_query(fd).opener_used, MIB(8));
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_ENOMEM, 0, 1), 0);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(8), HETSIM_PLACE_VRAM),
		    -ENOMEM);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).place, HETSIM_PLACE_SYSTEM);
	CHECK(filled(buffer.bytes, buffer.length, 1));

	/* A part, twice. */
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, MIB(1) + 4096, MIB(3),
				       HETSIM_PLACE_VRAM),
		    0);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, MIB(1), MIB(3), HETSIM_PLACE_VRAM),
		    0);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).vram_bytes, MIB(3) + 4096);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).system_bytes, MIB(5) - 4096);
	CHECK(filled(buffer.bytes, buffer.length, 1));
	counters = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(counters.moves, 4);
	CHECK_EQUAL(counters.bytes_moved, MIB(11) + 4096);

	resize.handle = buffer.handle;
	resize.length = MIB(2);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE, &resize), 0);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).vram_bytes, MIB(1));
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).system_bytes, MIB(1));

	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(8), HETSIM_PLACE_VRAM),
		    -ERANGE);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, 0, HETSIM_PLACE_VRAM), -EINVAL);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 1, MIB(1), HETSIM_PLACE_VRAM),
		    -EINVAL);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 4096, UINT64_MAX & ~4095ull, 0),
		    -EOVERFLOW);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_WINDOW),
		    -EOPNOTSUPP);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), 3), -EINVAL);
	CHECK_EQUAL(hetsim_buffer_move(fd, 4711, 0, MIB(1), 0), -ENOENT);
	hetsim_buffer_drop(fd, &buffer);
	CHECK_EQUAL(hetsim_query(fd).opener_used, 0);
}

struct race {
	int fd;
	struct hetsim_buffer buffer;
	_Atomic bool stop;
};

static void *race_move(void *user)
{
	struct race *race = user;
	unsigned int round;

	for (round = 0; !race->stop; round++)
		if (hetsim_buffer_move(race->fd, race->buffer.handle, 0, race->buffer.length,
				       round & 1))
			test_fail(__FILE__, __LINE__, "move failed");
	return NULL;
}

/* The engine, the CPU and pwrite() lose nothing to moves. */
static void test_move_under_use(void)
{
	static unsigned char bytes[64 * 1024];
	struct race race = { .fd = hetsim_open(O_RDWR) };
	struct hetsim_command command = { .op = HETSIM_OP_AXPY, .length = MIB(1), .value = 1 };
	uint32_t *words, queue, i, n, cpu = 0;
	pthread_t thread;

	if (race.fd < 0)
		return;
	race.buffer = hetsim_buffer_make(race.fd, MIB(4), HETSIM_PLACE_VRAM);
	CHECK_EQUAL(hetsim_bind(race.fd, &race.buffer, HETSIM_BIND_WRITE), 0);
	queue = hetsim_queue_make(race.fd, HETSIM_QUEUE_DMA_FENCE, 30000);
	words = (uint32_t *)race.buffer.bytes;
	for (i = 0; i < MIB(1) / 4; i++)
		words[i] = 1;
	command.source = (uintptr_t)words;
	command.destination = (uintptr_t)words + MIB(1);
	CHECK_FATAL(pthread_create(&thread, NULL, race_move, &race) == 0);
	for (n = 1; n <= 60; n++) {
		CHECK_EQUAL(hetsim_run(race.fd, queue, &command), 0);
		for (i = 0; i < 1000; i++)
			words[MIB(2) / 4 + (i * 1024 + n) % (MIB(1) / 4)] = ++cpu;
		memset(bytes, (int)n, sizeof(bytes));
		CHECK_EQUAL(hetsim_pwrite(race.fd, bytes, sizeof(bytes),
					  (race.buffer.offset + MIB(3))),
			    sizeof(bytes));
		CHECK(memcmp(race.buffer.bytes + MIB(3), bytes, sizeof(bytes)) == 0);
		CHECK_EQUAL(words[MIB(2) / 4 + (999 * 1024 + n) % (MIB(1) / 4)], cpu);
	}
	race.stop = true;
	pthread_join(thread, NULL);
	for (i = 0; i < MIB(1) / 4; i++)
		if (words[MIB(1) / 4 + i] != 60)
			break;
	CHECK_EQUAL(i, MIB(1) / 4);
	hetsim_buffer_drop(race.fd, &race.buffer);
	hetsim_close(race.fd);
}

/* More than VRAM holds: the buffer used longest ago goes to system memory. */
static void test_eviction(void)
{
	struct hetsim_buffer buffers[4];
	struct hetsim_command command = { .op = HETSIM_OP_CRC32 };
	unsigned char byte = 0;
	uint32_t queue, i;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint64_t length = hetsim_query(fd).vram_bytes / 3 / MIB(1) * MIB(1);

	for (i = 0; i < 3; i++) {
		buffers[i] = hetsim_buffer_make(fd, length, HETSIM_PLACE_VRAM);
		fill(buffers[i].bytes, length, i);
		CHECK_EQUAL(hetsim_bind(fd, &buffers[i], HETSIM_BIND_WRITE), 0);
	}
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	command.source = (uintptr_t)buffers[0].bytes;
	command.destination = (uintptr_t)buffers[0].bytes + 4096;
	command.length = 4096;
	CHECK_EQUAL(hetsim_run(fd, queue, &command), 0);
	for (i = 1; i < 3; i++)
		CHECK_EQUAL(hetsim_pread(fd, &byte, 1, buffers[i].offset), 1);
	/* The engine uses the first one again, by translations that it has; 1 is the oldest. */
	CHECK_EQUAL(hetsim_run(fd, queue, &command), 0);
	buffers[3] = hetsim_buffer_make(fd, length, HETSIM_PLACE_VRAM);
	fill(buffers[3].bytes, length, 3);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffers[0].handle).vram_bytes, length);
	CHECK(hetsim_buffer_info(fd, buffers[1].handle).vram_bytes < length);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffers[2].handle).vram_bytes, length);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffers[3].handle).vram_bytes, length);
	CHECK(hetsim_counters(fd, HETSIM_SCOPE_OPENER).evictions >= 1);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffers[1].handle).evictions, 1);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffers[2].handle).evictions, 0);
	for (i = 1; i < 4; i++)
		CHECK(filled(buffers[i].bytes, length, i));
	/* And back. */
	CHECK_EQUAL(hetsim_buffer_move(fd, buffers[1].handle, 0, length, HETSIM_PLACE_VRAM), 0);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffers[1].handle).vram_bytes, length);
	for (i = 1; i < 4; i++)
		CHECK(filled(buffers[i].bytes, length, i));
	for (i = 0; i < 4; i++)
		hetsim_buffer_drop(fd, &buffers[i]);
}

/* Pages that the CPU can't reach have to be brought in first. */
static void test_window(void)
{
	unsigned char byte = 0;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct hetsim_query query = hetsim_query(fd);
	struct hetsim_buffer a = hetsim_buffer_make(fd, query.window_bytes, HETSIM_PLACE_VRAM);
	struct hetsim_buffer b = hetsim_buffer_make(fd, query.window_bytes, HETSIM_PLACE_VRAM);

	CHECK_EQUAL(hetsim_buffer_move(fd, a.handle, 0, a.length, HETSIM_PLACE_VRAM), 0);
	CHECK_EQUAL(hetsim_buffer_move(fd, b.handle, 0, b.length, HETSIM_PLACE_VRAM), 0);
	CHECK_EQUAL(test_read_signal(a.bytes), SIGBUS);
	CHECK_EQUAL(hetsim_pread(fd, &byte, 1, a.offset), -ENXIO);
	CHECK_EQUAL(hetsim_pwrite(fd, &byte, 1, a.offset), -ENXIO);
	CHECK_EQUAL(hetsim_buffer_move(fd, a.handle, 0, a.length, HETSIM_PLACE_WINDOW), 0);
	fill(a.bytes, a.length, 5);
	CHECK_EQUAL(hetsim_query(fd).window_used, query.window_bytes);

	/* The other one takes its place. */
	CHECK_EQUAL(hetsim_buffer_move(fd, b.handle, 0, b.length, HETSIM_PLACE_WINDOW), 0);
	fill(b.bytes, b.length, 6);
	CHECK_EQUAL(test_read_signal(a.bytes), SIGBUS);
	CHECK_EQUAL(hetsim_buffer_move(fd, a.handle, 0, a.length, HETSIM_PLACE_SYSTEM), 0);
	CHECK(filled(a.bytes, a.length, 5));
	CHECK(filled(b.bytes, b.length, 6));
	hetsim_buffer_drop(fd, &a);
	hetsim_buffer_drop(fd, &b);
	CHECK_EQUAL(hetsim_query(fd).window_used, 0);
}

/* Out of the window to VRAM elsewhere, out of VRAM to system memory: the oldest first. */
static void test_window_eviction(void)
{
	struct hetsim_buffer a = { 0 }, b = { 0 }, c = { 0 };
	unsigned char byte = 0;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct hetsim_query query = hetsim_query(fd);
	uint64_t window = query.window_bytes;

	CHECK_EQUAL(hetsim_buffer_create(fd, window + PAGE, HETSIM_PLACE_WINDOW, 0, &a),
		    -ENOSPC);
	CHECK_FATAL(hetsim_buffer_create(fd, window, HETSIM_PLACE_WINDOW, 0, &a) == 0);
	CHECK_EQUAL(hetsim_pwrite(fd, "a", 1, a.offset), 1);
	CHECK_FATAL(hetsim_buffer_create(fd, window, HETSIM_PLACE_WINDOW, 0, &b) == 0);
	CHECK_EQUAL(hetsim_pwrite(fd, "b", 1, b.offset), 1);
	CHECK_EQUAL(hetsim_buffer_info(fd, a.handle).vram_bytes, window);
	CHECK_EQUAL(hetsim_buffer_info(fd, a.handle).place, HETSIM_PLACE_WINDOW);
	CHECK_EQUAL(hetsim_buffer_info(fd, b.handle).window_bytes, window);
	CHECK_EQUAL(hetsim_query(fd).window_used, window);
	CHECK_EQUAL(hetsim_query(fd).vram_used, 2 * window);
	CHECK_EQUAL(hetsim_pread(fd, &byte, 1, a.offset), -ENXIO);
	CHECK_EQUAL(hetsim_pread(fd, &byte, 1, b.offset), 1); /* used last */

	/* The window's bytes are a part of VRAM's. */
	CHECK_FATAL(hetsim_buffer_create(fd, query.vram_bytes - window, HETSIM_PLACE_VRAM, 0,
					 &c) == 0);
	CHECK_EQUAL(hetsim_buffer_info(fd, a.handle).system_bytes, window);
	CHECK_EQUAL(hetsim_buffer_info(fd, b.handle).window_bytes, window);
	CHECK_EQUAL(hetsim_query(fd).vram_used, query.vram_bytes);
	CHECK_EQUAL(hetsim_query(fd).system_used, window);
	CHECK_EQUAL(hetsim_query(fd).opener_used, query.vram_bytes + window);
	CHECK_EQUAL(hetsim_pread(fd, &byte, 1, a.offset), 1);
	CHECK_EQUAL(byte, 'a');
	CHECK_EQUAL(hetsim_pwrite(fd, "c", 1, c.offset), -ENXIO);

	/* A page of it in reach is written, up to the first one out of reach. */
	CHECK_EQUAL(hetsim_close_handle(fd, b.handle), 0);
	CHECK_EQUAL(hetsim_buffer_move(fd, c.handle, 0, PAGE, HETSIM_PLACE_WINDOW), 0);
	CHECK_EQUAL(hetsim_pwrite(fd, "cc", 2, c.offset + PAGE - 1), 1);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).moves, 1);
	CHECK(hetsim_counters(fd, HETSIM_SCOPE_OPENER).evictions >= 2);
	CHECK_EQUAL(hetsim_close_handle(fd, c.handle), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, a.handle), 0);
	CHECK_EQUAL(hetsim_query(fd).opener_used, 0);
	CHECK_EQUAL(hetsim_query(fd).vram_used, 0);
}

/* In a full VRAM, pages in the window change places with pages outside. */
static void test_window_exchange(void)
{
	struct hetsim_buffer a, b = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct hetsim_query query = hetsim_query(fd);
	uint64_t window = query.window_bytes;

	a = hetsim_buffer_make(fd, window, HETSIM_PLACE_WINDOW);
	fill(a.bytes, window, 7);
	CHECK_FATAL(hetsim_buffer_create(fd, query.vram_bytes - window, HETSIM_PLACE_VRAM, 0,
					 &b) == 0);
	CHECK_EQUAL(hetsim_query(fd).vram_used, query.vram_bytes);
	CHECK_EQUAL(hetsim_buffer_move(fd, b.handle, 0, window, HETSIM_PLACE_WINDOW), 0);
	CHECK_EQUAL(hetsim_buffer_info(fd, a.handle).vram_bytes, window);
	CHECK_EQUAL(hetsim_buffer_info(fd, b.handle).window_bytes, window);
	CHECK_EQUAL(hetsim_query(fd).vram_used, query.vram_bytes);
	CHECK_EQUAL(hetsim_query(fd).window_used, window);
	CHECK_EQUAL(hetsim_query(fd).system_used, query.system_used);
	CHECK_EQUAL(hetsim_pwrite(fd, "b", 1, b.offset), 1);
	CHECK_EQUAL(hetsim_buffer_move(fd, a.handle, 0, window, HETSIM_PLACE_WINDOW), 0);
	CHECK(filled(a.bytes, window, 7));
	CHECK_EQUAL(hetsim_close_handle(fd, b.handle), 0);
	hetsim_buffer_drop(fd, &a);
	CHECK_EQUAL(hetsim_query(fd).vram_used, 0);
}

const struct test sim_move_tests[] = {
	{ "move", test_move, 0, SIM_REACHED },
	{ "move_under_use", test_move_under_use, 120, SIM_REACHED },
	{ "eviction", test_eviction, 60, SIM_REACHED | SIM_SMALL },
	{ "window", test_window, 0, SIM_WINDOWED },
	{ "window_eviction", test_window_eviction, 60, SIM_WINDOWED | SIM_SMALL },
	{ "window_exchange", test_window_exchange, 60, SIM_WINDOWED | SIM_SMALL },
	{ NULL, NULL, 0, 0 },
};
