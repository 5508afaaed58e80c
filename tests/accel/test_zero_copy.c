// SPDX-License-Identifier: MIT
/*
 * "Bytes copied: 0", proved without the library's own counter:
 *
 *  - a kernel's bytes are seen through a second mapping of the exported memfd,
 *    with no read, map or other call on it;
 *  - the process's anonymous memory grows by under 1% of the input;
 *  - OpenCL's own read, write, copy and map calls are counted by definitions of
 *    them in this program, which come before the loader's: there are none.
 *
 * The way that copies must fail that very test.
 */
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel/accel_support.h"

#define SIZE (64ull << 20)

static _Atomic unsigned int n_moves;

/* ---- the interposer ---- */

static void *next(const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	if (!symbol)
		abort();
	n_moves++;
	return symbol;
}

#define NEXT(function) ((__typeof__(&function))next(#function))

#define EXPORT __attribute__((visibility("default")))

EXPORT cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
				  size_t offset, size_t size, void *to, cl_uint n,
				  const cl_event *events, cl_event *event)
{
	return NEXT(clEnqueueReadBuffer)(queue, memory, blocking, offset, size, to, n, events,
					 event);
}

EXPORT cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
				   size_t offset, size_t size, const void *from, cl_uint n,
				   const cl_event *events, cl_event *event)
{
	return NEXT(clEnqueueWriteBuffer)(queue, memory, blocking, offset, size, from, n,
					  events, event);
}

EXPORT cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
				  size_t from_offset, size_t to_offset, size_t size, cl_uint n,
				  const cl_event *events, cl_event *event)
{
	return NEXT(clEnqueueCopyBuffer)(queue, from, to, from_offset, to_offset, size, n,
					 events, event);
}

EXPORT cl_int clEnqueueSVMMemcpy(cl_command_queue queue, cl_bool blocking, void *to,
				 const void *from, size_t size, cl_uint n,
				 const cl_event *events, cl_event *event)
{
	return NEXT(clEnqueueSVMMemcpy)(queue, blocking, to, from, size, n, events, event);
}

EXPORT void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
				cl_map_flags flags, size_t offset, size_t size, cl_uint n,
				const cl_event *events, cl_event *event, cl_int *error)
{
	return NEXT(clEnqueueMapBuffer)(queue, memory, blocking, flags, offset, size, n, events,
					event, error);
}

EXPORT cl_int clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint n_memory,
					 const cl_mem *memory, cl_mem_migration_flags flags,
					 cl_uint n, const cl_event *events, cl_event *event)
{
	return NEXT(clEnqueueMigrateMemObjects)(queue, n_memory, memory, flags, n, events,
						event);
}

/* ---- the test ---- */

struct proof {
	bool seen;          /* by the second mapping, before any wait */
	uint64_t grown;     /* anonymous memory, bytes */
	unsigned int moves; /* OpenCL calls that move bytes */
	uint32_t way;
};

static bool holds_everywhere(const uint32_t *bytes, uint32_t value)
{
	size_t i;

	for (i = 0; i < SIZE / sizeof(*bytes); i += 1021)
		if (bytes[i] != value)
			return false;
	return bytes[SIZE / sizeof(*bytes) - 1] == value;
}

static void prove(uint32_t flags, struct proof *ret_proof)
{
	struct proof proof = { 0 };
	uint32_t *p, *second;
	struct hm_fence_info info;
	uint64_t before, after;
	int fd;
	struct accel_rig rig = accel_rig_make("opencl:0", flags, 0);
	struct hm_buffer *buffer = rig_buffer(rig.host, DESC(hm_buffer_desc, .size = SIZE));
	struct hm_map *map = rig_map(buffer, NULL);

	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	second = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK_FATAL(second != MAP_FAILED);
	close(fd);
	p = hm_map_address(map);
	/* The driver has compiled, has its threads, and the self-test has run. */
	RUN(&rig, INCREMENT, 1024, HM_RANGE(p, 4096, HM_READ | HM_WRITE));
	memset(second, 0, SIZE);

	n_moves = 0;
	before = test_status_bytes("RssAnon");
	info = RUN(&rig, INCREMENT, SIZE / sizeof(*p), HM_INOUT(p));
	proof.seen = holds_everywhere(second, 1);
	after = test_status_bytes("RssAnon");
	proof.grown = after > before ? after - before : 0;
	proof.moves = n_moves;
	proof.way = info.way_in;

	munmap(second, SIZE);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	accel_rig_close(&rig);
	*ret_proof = proof;
}

static void in_place(const char *driver)
{
	struct proof proof;

	if (!use_pocl(driver))
		return;
	prove(HM_ZERO_COPY_ONLY, &proof);
	CHECK_EQUAL(proof.way, HM_WAY_HOST_PTR);
	CHECK(proof.seen);
	CHECK_EQUAL(proof.moves, 0);
	CHECK(proof.grown < SIZE / 100);
}

static void in_place_pthread(void)
{
	in_place("pthread");
}

static void in_place_basic(void)
{
	in_place("basic");
}

/* Proves that the test above would notice a copy. */
static void copies_are_noticed(void)
{
	struct proof proof;

	TEST_NEEDS(use_pocl("pthread"));
	prove(HM_ACCEL_FORCE_COPY, &proof);
	CHECK_EQUAL(proof.way, HM_WAY_COPY);
	CHECK_EQUAL(proof.moves, 2);
	CHECK(proof.grown >= SIZE / 100);
}

/*
 * The kernel's bytes are there before any call after the launch: the second
 * mapping is watched, the fence is not even looked at.
 */
static void seen_without_a_call(void)
{
	volatile uint32_t *second;
	AUTO(hm_buffer) *buffer = NULL;
	struct hm_fence *fence;
	AUTO(hm_map) *map = NULL;
	int fd, tries;
	uint32_t *p;
	AUTO(accel_rig) rig = pocl_rig("pthread", "opencl:0", HM_ZERO_COPY_ONLY, 0);

	CHECK_OK_FATAL(
		hm_buffer_create(rig.host, DESC(hm_buffer_desc, .size = 1 << 20), &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	second = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, fd, 0);
	CHECK_FATAL(second != MAP_FAILED);
	p = hm_map_address(map);
	CHECK_OK_FATAL(
		hm_launch(rig.queue, rig.kernel[FILL], 1 << 18, &fence, HM_OUT(p), HM_U32(77)));
	for (tries = 0; tries < 5000 && second[(1 << 18) - 1] != 77; tries++)
		usleep(1000);
	CHECK_EQUAL(second[(1 << 18) - 1], 77);
	finish(fence);
	munmap((void *)(uintptr_t)second, 1 << 20);
	close(fd);
}

static const struct test tests[] = {
	{ "in_place_pthread", in_place_pthread, 60, 0 },
	{ "in_place_basic", in_place_basic, 60, 0 },
	{ "copies_are_noticed", copies_are_noticed, 60, 0 },
	{ "seen_without_a_call", seen_without_a_call, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "zero_copy", tests)
