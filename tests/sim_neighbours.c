// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: what one opener leaves to others,
 * who share its memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "harness.h"
#include "hetsim.h"
#include "sim_tests.h"

#define MIB (1024ull * 1024)

static void test_told(void)
{
	struct hetsim_buffer buffer = { 0 };
	struct hetsim_query query;
	int fd = hetsim_open(O_RDWR);

	if (fd < 0)
		return;
	query = hetsim_query(fd);
	/* With opener_mb the limit of both places together is the only one. */
	if (query.opener_system_bytes != query.system_bytes)
		CHECK_EQUAL(query.opener_system_bytes, query.system_bytes / 4 * 3);
	CHECK_EQUAL(query.opener_system_used, 0);
	CHECK_FATAL(hetsim_buffer_create(fd, MIB, HETSIM_PLACE_SYSTEM, 0, &buffer) == 0);
	CHECK_EQUAL(hetsim_query(fd).opener_system_used, MIB);
	CHECK_EQUAL(hetsim_query(fd).opener_used, MIB);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
	CHECK_EQUAL(hetsim_query(fd).opener_system_used, 0);
	hetsim_close(fd);
}

/* Buffers of a MiB in @place until there are no more; how many. */
static uint64_t take_all(int fd, uint32_t place)
{
	struct hetsim_buffer_create create = { .size = sizeof(create),
					       .length = MIB,
					       .place = place };
	uint64_t n = 0;
	int r;

	while (!(r = hetsim_call(fd, HETSIM_BUFFER_CREATE, &create)))
		n++;
	CHECK_EQUAL(r, -ENOSPC);
	return n;
}

/* Nothing is evicted from system memory: who takes what he may has not taken all. */
static void test_system_is_left(void)
{
	struct hetsim_buffer buffer = { 0 }, own = { 0 };
	struct hetsim_query query;
	int fd = hetsim_open(O_RDWR), other;

	if (fd < 0)
		return;
	query = hetsim_query(fd);
	CHECK_FATAL(hetsim_buffer_create(fd, MIB, HETSIM_PLACE_VRAM, 0, &buffer) == 0);
	CHECK_EQUAL(take_all(fd, HETSIM_PLACE_SYSTEM), query.opener_system_bytes / MIB);
	CHECK_EQUAL(hetsim_query(fd).opener_system_used, query.opener_system_bytes);
	/* Nor by the other way. */
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB, HETSIM_PLACE_SYSTEM),
		    -ENOSPC);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).vram_bytes, MIB);

	other = hetsim_open(O_RDWR);
	CHECK_FATAL(other >= 0);
	CHECK_EQUAL(hetsim_buffer_create(other, 16 * MIB, HETSIM_PLACE_SYSTEM, 0, &own), 0);
	CHECK_EQUAL(hetsim_query(other).opener_system_used, 16 * MIB);
	hetsim_close(other);
	hetsim_close(fd);
}

/* Whose pages make room has injected for himself, not for those who need it. */
static void test_evicted_injection(void)
{
	struct hetsim_buffer victim = { 0 }, buffer = { 0 };
	struct hetsim_query query;
	uint64_t length;
	int fd = hetsim_open(O_RDWR), other;

	if (fd < 0)
		return;
	query = hetsim_query(fd);
	length = query.vram_bytes / 4 * 3;
	CHECK_FATAL(hetsim_buffer_create(fd, length, HETSIM_PLACE_VRAM, 0, &victim) == 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_ENOMEM, 0, 1), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EINTR, 0, 1), 0);
	other = hetsim_open(O_RDWR);
	CHECK_FATAL(other >= 0);
	CHECK_EQUAL(hetsim_buffer_create(other, length, HETSIM_PLACE_VRAM, 0, &buffer), 0);
	CHECK_EQUAL(hetsim_buffer_info(other, buffer.handle).vram_bytes, length);
	CHECK(hetsim_buffer_info(fd, victim.handle).system_bytes >=
	      2 * length - query.vram_bytes);
	/* It is still to come. */
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB, HETSIM_PLACE_SYSTEM, 0, &buffer), -ENOMEM);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB, HETSIM_PLACE_SYSTEM, 0, &buffer), -EINTR);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB, HETSIM_PLACE_SYSTEM, 0, &buffer), 0);
	hetsim_close(other);
	hetsim_close(fd);
}

const struct test sim_neighbours_tests[] = {
	{ "told", test_told, 0, 0 },
	{ "system_is_left", test_system_is_left, 60, SIM_LEFT },
	{ "evicted_injection", test_evicted_injection, 60, SIM_REACHED | SIM_SMALL },
	{ NULL, NULL, 0, 0 },
};
