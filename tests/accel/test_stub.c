// SPDX-License-Identifier: MIT
/* Every way in, and every driver call failing, on the test driver. */
#include <CL/cl.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "lib/units.h"

#define N 1024u

static unsigned int calls(const char *function)
{
	return ((unsigned int (*)(const char *))stub_symbol("stub_calls"))(function);
}

static int live(void)
{
	return ((int (*)(void))stub_symbol("stub_live"))();
}

static void fail(const char *function, unsigned int nth, int error)
{
	((void (*)(const char *, unsigned int, int))stub_symbol("stub_fail"))(function, nth,
									      error);
}

/* ---- each way in ---- */

struct expected {
	uint32_t way;          /* of aligned ranges */
	uint32_t interior_way; /* 4 bytes into a map */
	const char *reason;    /* of a copy */
	bool flushes;
};

/* A second mapping of the same memory shows a launch's writes. */
static void seen_elsewhere(struct accel_rig *rig, const struct expected *expected)
{
	struct hm_fence_info info;
	uint32_t *p, *second;
	int fd;
	AUTO(hm_buffer) *buffer = rig_buffer(rig->host, DESC(hm_buffer_desc, .size = 4 * PAGE));
	AUTO(hm_map) *map = rig_map(buffer, NULL);

	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	second = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	CHECK_FATAL(second != MAP_FAILED);
	p = hm_map_address(map);
	second[3] = 40;
	info = RUN(rig, INCREMENT, N, HM_INOUT(p));
	CHECK_EQUAL(info.way_in, expected->way);
	CHECK_EQUAL(second[3], 41);
	/* The CPU writes between launches, without any call. */
	p[3] = 50;
	RUN(rig, INCREMENT, N, HM_INOUT(p));
	CHECK_EQUAL(second[3], 51);
	/* And beside a range, while it is the accelerator's. */
	p[2 * N] = 7;
	RUN(rig, INCREMENT, N, HM_RANGE(p, PAGE, HM_READ | HM_WRITE));
	CHECK_EQUAL(second[2 * N], 7);
	RUN(rig, INCREMENT, N, HM_RANGE(p + 2 * N, PAGE, HM_READ | HM_WRITE));
	CHECK_EQUAL(second[2 * N], 8);
	CHECK_EQUAL(second[3], 52);
	munmap(second, 4 * PAGE);
}

static void interior(struct accel_rig *rig, const struct expected *expected)
{
	static const uint64_t offsets[] = { 1, 4, 64, 128, 4096 };
	unsigned char *base = alloc_bytes(rig, 4 * PAGE);
	struct hm_fence_info info;
	uint64_t i, k, bad = 0;
	uint32_t way;

	for (i = 0; i < 5; i++) {
		way = offsets[i] % 128 ? expected->interior_way : expected->way;
		memset(base, 1, 4 * PAGE);
		info = RUN(rig, ADD_BYTES, 100,
			   HM_RANGE(base + offsets[i], 100, HM_READ | HM_WRITE), HM_U32(2));
		CHECK_EQUAL(info.way_in, way);
		CHECK_EQUAL(info.bytes_copied, way == HM_WAY_COPY ? 200 : 0);
		for (k = 0; k < 4 * PAGE; k++)
			bad += base[k] != (k >= offsets[i] && k < offsets[i] + 100 ? 3 : 1);
	}
	CHECK_EQUAL(bad, 0);
	CHECK_OK(hm_free(base));
}

static void transfers(struct accel_rig *rig)
{
	uint32_t *x = alloc_bytes(rig, 3 << 20), *y = alloc_bytes(rig, 3 << 20);
	struct hm_fence *fence;

	pattern_write(x, 0, 3 << 20, 3);
	CHECK_OK_FATAL(
		hm_queue_copy(rig->queue, (char *)y + 3, (char *)x + 3, (3 << 20) - 3, &fence));
	finish(fence);
	CHECK(!memcmp((char *)y + 3, (char *)x + 3, (3 << 20) - 3));
	CHECK_OK_FATAL(hm_queue_fill(rig->queue, y + 1, 0x01020304, PAGE, &fence));
	finish(fence);
	CHECK_EQUAL(y[1], 0x01020304);
	CHECK_EQUAL(y[PAGE / 4], 0x01020304);
	CHECK(!memcmp(y + 1 + PAGE / 4, x + 1 + PAGE / 4, PAGE));
	CHECK_OK(hm_free(x));
	CHECK_OK(hm_free(y));
}

static void one_mode(const char *modes, const struct expected *expected)
{
	unsigned int maps, writes;
	struct accel_rig rig = stub_rig(modes, 0, 2 << 20);
	uint32_t *p = alloc_bytes(&rig, PAGE);

	CHECK_EQUAL(way_of(&rig, p, 0), expected->way);
	if (expected->reason)
		CHECK(text_has(expected->reason));
	maps = calls("clEnqueueMapBuffer");
	writes = calls("clEnqueueWriteBuffer");
	RUN(&rig, INCREMENT, 16, HM_INOUT(p));
	CHECK_EQUAL(p[15], 1);
	CHECK_EQUAL(calls("clEnqueueMapBuffer") - maps, expected->flushes ? 2 : 0);
	CHECK_EQUAL(calls("clEnqueueWriteBuffer") - writes, expected->way == HM_WAY_COPY);
	CHECK_OK(hm_free(p));
	seen_elsewhere(&rig, expected);
	interior(&rig, expected);
	transfers(&rig);
	accel_rig_close(&rig);
	CHECK_EQUAL(live(), 0);
}

static void coherent(void)
{
	const struct expected expected = { HM_WAY_HOST_PTR, HM_WAY_COPY, NULL, false };

	one_mode("", &expected);
}

static void shadow(void)
{
	const struct expected expected = { HM_WAY_COPY, HM_WAY_COPY, "CL_MEM_USE_HOST_PTR",
					   false };

	one_mode("shadow", &expected);
}

static void unified_noncoherent(void)
{
	const struct expected expected = { HM_WAY_HOST_PTR, HM_WAY_COPY, NULL, true };

	one_mode("unified-noncoherent", &expected);
}

static void svm_system(void)
{
	const struct expected expected = { HM_WAY_SVM, HM_WAY_SVM, NULL, false };

	one_mode("svm-system", &expected);
}

static void arm_import(void)
{
	const struct expected expected = { HM_WAY_IMPORT, HM_WAY_COPY, NULL, false };

	one_mode("arm-import", &expected);
}

/* The self-test runs once for a device and backing, on memory of its own. */
static void one_self_test(void)
{
	AUTO(hm_accel) *other = NULL;
	unsigned int kernels;
	uint32_t *p, *q, way;
	AUTO(accel_rig) rig = stub_rig("", 0, 0);

	p = alloc_bytes(&rig, PAGE);
	q = alloc_bytes(&rig, PAGE);
	p[0] = q[0] = 123;
	way_of(&rig, p, 0);
	kernels = calls("clEnqueueNDRangeKernel");
	CHECK(kernels > 0);
	way_of(&rig, q, 0);
	CHECK_OK_FATAL(hm_accel_open("opencl:0", NULL, &other));
	CHECK_OK(hm_accel_way_in(other, p, 0, &way));
	CHECK_EQUAL(way, HM_WAY_HOST_PTR);
	CHECK_EQUAL(calls("clEnqueueNDRangeKernel"), kernels);
	CHECK(p[0] == 123 && q[0] == 123);
	CHECK_OK(hm_free(p));
	CHECK_OK(hm_free(q));
}

/* A cl_mem a window, and one sub-buffer an argument, however often it runs. */
static void memory_is_kept(void)
{
	unsigned int buffers, subs;
	int i;
	struct accel_rig rig = stub_rig("", HM_ZERO_COPY_ONLY, 0);
	uint32_t *p = alloc_bytes(&rig, 16 * PAGE);

	RUN(&rig, INCREMENT, 16, HM_INOUT(p));
	buffers = calls("clCreateBuffer");
	subs = calls("clCreateSubBuffer");
	for (i = 0; i < 10; i++) {
		RUN(&rig, INCREMENT, 16, HM_RANGE(p, PAGE, HM_READ | HM_WRITE));
		RUN(&rig, INCREMENT, 16, HM_RANGE(p + N, PAGE, HM_READ | HM_WRITE));
	}
	CHECK_EQUAL(calls("clCreateBuffer"), buffers);
	CHECK_EQUAL(calls("clCreateSubBuffer"), subs + 2);
	/* More arguments than are kept. */
	for (i = 0; i < 64; i++)
		RUN(&rig, INCREMENT, 16, HM_RANGE(p + 32 * i, 128, HM_READ | HM_WRITE));
	CHECK_EQUAL(p[0], 12);
	CHECK_EQUAL(calls("clCreateBuffer"), buffers);
	CHECK_OK(hm_free(p));
	accel_rig_close(&rig);
	CHECK_EQUAL(live(), 0);
}

static void zero_copy_only(void)
{
	struct hm_fence *fence = NULL;
	AUTO(accel_rig) rig = stub_rig("shadow", HM_ZERO_COPY_ONLY, 0);
	uint32_t *p = alloc_bytes(&rig, PAGE);

	CHECK_ERROR(-EINVAL,
		    hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &fence, HM_INOUT(p)));
	CHECK(text_has("HM_ZERO_COPY_ONLY") && text_has("self-test"));
	CHECK_ERROR(-EINVAL, hm_queue_fill(rig.queue, p, 1, 64, &fence));
	CHECK_EQUAL(p[0], 0);
	CHECK(!fence);
	CHECK_OK(hm_free(p));
}

/* ---- failures ---- */

static void kernel_that_fails(void)
{
	static const char *const modes[] = { "", "shadow", "unified-noncoherent" };
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct hm_kernel *kernel;
	struct hm_fence *fence;
	struct pollfd poll_fd = { .events = POLLIN };
	uint32_t *p;
	struct accel_rig rig;

	/* The driver is loaded once: a mode for each round of this test. */
	use_stub(modes[test_seed() % 3]);
	accel_rig_open(&rig, "opencl:0", 0, 0);
	p = alloc_bytes(&rig, PAGE);
	CHECK_OK_FATAL(
		hm_kernel_create(DESC(hm_kernel_desc, .name = "broken",
				      .opencl = "__kernel void broken(__global uint *p) { }",
				      .signature = "inout"),
				 &kernel));
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_INOUT(p)));
	CHECK_OK_FATAL(hm_fence_fd(fence, &poll_fd.fd));
	CHECK_EQUAL(poll(&poll_fd, 1, 1000), 1);
	close(poll_fd.fd);
	CHECK_ERROR(-EIO, hm_fence_wait(fence, UINT64_MAX));
	CHECK(text_has("broken") && text_has("CL_OUT_OF_RESOURCES"));
	CHECK_ERROR(-EIO, hm_fence_wait(fence, 0));
	CHECK_OK(hm_fence_query(fence, &info));
	CHECK_EQUAL(info.status, -EIO);
	hm_fence_unref(fence);
	/* The queue goes on. */
	RUN(&rig, INCREMENT, 16, HM_INOUT(p));
	CHECK_EQUAL(p[0], 1);
	hm_kernel_unref(kernel);
	CHECK_OK(hm_free(p));
	accel_rig_close(&rig);
	CHECK_EQUAL(live(), 0);
}

/* Events that end later than their command: polls, naps, callbacks, reaping. */
static void late_events(void)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct hm_fence *fence, *next;
	struct pollfd poll_fd = { .events = POLLIN };
	int i;
	struct accel_rig rig = stub_rig("late", 0, 0);
	uint32_t *p = alloc_bytes(&rig, PAGE);

	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &fence, HM_INOUT(p)));
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 0));
	CHECK_OK(hm_fence_query(fence, &info));
	CHECK_EQUAL(info.done, 0);
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 100000));
	CHECK_OK_FATAL(hm_fence_fd(fence, &poll_fd.fd));
	CHECK_EQUAL(poll(&poll_fd, 1, 0), 0);
	CHECK_EQUAL(poll(&poll_fd, 1, 2000), 1);
	close(poll_fd.fd);
	CHECK_OK(hm_fence_wait(fence, 0));
	hm_fence_unref(fence);
	/* A wait with an end that is far enough. */
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &fence, HM_INOUT(p)));
	CHECK_OK(hm_fence_wait(fence, 2000000000));
	hm_fence_unref(fence);
	/* Work that is never waited for: the next launches and the queue's end reap it. */
	for (i = 0; i < 20; i++)
		CHECK_OK_FATAL(
			hm_launch(rig.queue, rig.kernel[INCREMENT], 16, NULL, HM_INOUT(p)));
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &next, HM_INOUT(p)));
	CHECK_OK_FATAL(hm_fence_fd(next, &poll_fd.fd));
	hm_fence_unref(next);
	CHECK_OK(hm_free(p));
	accel_rig_close(&rig);
	CHECK_EQUAL(poll(&poll_fd, 1, 0), 1);
	close(poll_fd.fd);
	CHECK_EQUAL(stats_now().maps, 0);
}

static void best_device_first(void)
{
	struct hm_accel_info infos[3];
	AUTO(hm_accel) *accel = NULL;
	uint32_t n;

	use_stub("two-devices");
	infos[0].struct_size = sizeof(infos[0]);
	CHECK_OK_FATAL(hm_accel_list(infos, 3, &n));
	CHECK(n >= 3); /* cpu, and whatever engines there are */
	CHECK_EQUAL(infos[0].kind, HM_ACCEL_GPU);
	CHECK_EQUAL(infos[1].kind, HM_ACCEL_CPU);
	CHECK(!strcmp(infos[2].name, "cpu"));
	CHECK_OK_FATAL(hm_accel_open("opencl:1", NULL, &accel));
}

/* A self-test that could not be made is no result: it is made again. */
static void self_test_fails(const char *modes, size_t n)
{
	static const char *const functions[] = {
		"clCreateProgramWithSource",
		"clBuildProgram",
		"clCreateKernel",
		"clCreateCommandQueueWithProperties",
		"clSetKernelArg",
		"clEnqueueNDRangeKernel",
		"clFinish",
		"clEnqueueMapBuffer",
		"clEnqueueUnmapMemObject",
	};
	struct accel_rig rig;
	uint32_t *p;
	size_t i;

	setenv("XDG_CACHE_HOME", "/proc/1/nothing", 1);
	rig = stub_rig(modes, 0, 0);
	for (i = 0; i < n; i++) {
		p = alloc_bytes(&rig, PAGE);
		fail(functions[i], 1, CL_OUT_OF_RESOURCES);
		CHECK_EQUAL(way_of(&rig, p, 0), HM_WAY_COPY);
		CHECK(text_has("self-test of stub device"));
		fail("", 1, 0);
		CHECK_OK(hm_free(p));
	}
	p = alloc_bytes(&rig, PAGE);
	fail("clCreateBuffer", 1, CL_OUT_OF_HOST_MEMORY);
	CHECK_EQUAL(way_of(&rig, p, 0), HM_WAY_COPY);
	CHECK_OK(hm_free(p));
	p = alloc_bytes(&rig, PAGE);
	CHECK_EQUAL(way_of(&rig, p, 0), HM_WAY_HOST_PTR);
	CHECK_OK(hm_free(p));
	accel_rig_close(&rig);
	CHECK_EQUAL(live(), 0);
}

static void self_test_fails_coherent(void)
{
	self_test_fails("", 7); /* the last two are not called */
}

static void self_test_fails_unified(void)
{
	self_test_fails("unified-noncoherent", 9);
}

/* RLIMIT_FSIZE forbids its scratch file: told, and not SIGXFSZ, which would kill. */
static void self_test_beyond_the_limit(void)
{
	struct rlimit old, small;
	AUTO(accel_rig) rig = { 0 };
	uint32_t *p;

	signal(SIGXFSZ, SIG_DFL);
	rig = stub_rig("", 0, 0);
	p = alloc_bytes(&rig, PAGE);
	CHECK_FATAL(!getrlimit(RLIMIT_FSIZE, &old));
	small = (struct rlimit){ PAGE, old.rlim_max };
	CHECK_FATAL(!setrlimit(RLIMIT_FSIZE, &small));
	CHECK_EQUAL(way_of(&rig, p, 0), HM_WAY_COPY);
	CHECK_FATAL(!setrlimit(RLIMIT_FSIZE, &old));
	CHECK(text_has("RLIMIT_FSIZE"));
	CHECK_OK(hm_free(p));
	p = alloc_bytes(&rig, PAGE);
	CHECK_EQUAL(way_of(&rig, p, 0), HM_WAY_HOST_PTR);
	CHECK_OK(hm_free(p));
}

/* A driver that can't even wait any more: the queue ends all the same. */
static void waiting_fails(void)
{
	struct hm_fence *fence;
	struct accel_rig rig = stub_rig("", 0, 0);
	uint32_t *p = alloc_bytes(&rig, PAGE);

	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &fence, HM_INOUT(p)));
	fail("clWaitForEvents", 0, CL_OUT_OF_RESOURCES);
	CHECK_ERROR(-EIO, hm_fence_wait(fence, UINT64_MAX));
	CHECK(text_has("CL_OUT_OF_RESOURCES"));
	CHECK_OK(hm_free(p));
	accel_rig_close(&rig);
	CHECK_ERROR(-EIO, hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	fail("", 1, 0);
	CHECK_EQUAL(live(), 0);
}

static bool is_named(int r)
{
	/* -ENOMEM comes from allocation failures, everything else from the driver. */
	return !r || (r < 0 && hm_errmsg()[0]);
}

/* One pass over all that calls the driver; errors are taken as they come. */
static void scenario(struct hm_device *host)
{
	AUTO(hm_kernel) *kernel = NULL;
	struct hm_fence *fence = NULL;
	AUTO(hm_queue) *queue = NULL;
	AUTO(hm_accel) *accel = NULL;
	uint32_t *p, way;
	int r, i, fd;

	CHECK_OK_FATAL(hm_alloc(host, 4 * PAGE, HM_READ | HM_WRITE, &p));
	kernel = rig_kernel(DESC(hm_kernel_desc, .name = "increment",
				 .opencl = "__kernel void increment(__global uint *p) { }"));
	r = hm_accel_open("opencl:0", NULL, &accel);
	CHECK(is_named(r));
	if (r)
		goto out;
	CHECK(is_named(hm_accel_way_in(accel, p, 0, &way)));
	r = hm_queue_create(accel, 0, &queue);
	CHECK(is_named(r));
	if (r)
		goto out;
	for (i = 0; i < 5; i++) {
		if (i < 3)
			r = hm_launch(queue, kernel, 16, &fence,
				      HM_RANGE(p + (i == 2), 256, HM_READ | HM_WRITE));
		else if (i == 3)
			r = hm_queue_copy(queue, p + N, p, 256, &fence);
		else
			r = hm_queue_fill(queue, p, 5, 256, &fence);
		CHECK(is_named(r));
		if (r)
			continue;
		if (i == 1 && !hm_fence_fd(fence, &fd))
			close(fd);
		CHECK(is_named(hm_fence_wait(fence, i == 2 ? 1000000 : UINT64_MAX)));
		hm_fence_unref(fence);
	}
out:
	CHECK_OK(hm_free(p));
}

/*
 * Each call that a scenario makes fails once: there is a sentence, nothing is
 * left behind, and the next scenario works.
 */
static void walk(const char *modes)
{
	static const char *const functions[] = {
		"clCreateContext",
		"clCreateCommandQueueWithProperties",
		"clCreateBuffer",
		"clCreateSubBuffer",
		"clCreateProgramWithSource",
		"clCreateProgramWithBinary",
		"clBuildProgram",
		"clCreateKernel",
		"clGetKernelInfo",
		"clGetKernelArgInfo",
		"clSetKernelArg",
		"clSetKernelArgSVMPointer",
		"clEnqueueNDRangeKernel",
		"clEnqueueWriteBuffer",
		"clEnqueueReadBuffer",
		"clEnqueueMapBuffer",
		"clEnqueueUnmapMemObject",
		"clEnqueueCopyBuffer",
		"clEnqueueFillBuffer",
		"clEnqueueSVMMemcpy",
		"clEnqueueSVMMemFill",
		"clGetEventInfo",
		"clSetEventCallback",
		"clImportMemoryARM",
		"clGetProgramInfo",
		"clGetProgramBuildInfo",
		"clFlush",
		"clRetainMemObject",
	};
	static const int errors[] = { CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY,
				      CL_INVALID_OPERATION };
	AUTO(hm_device) *host = NULL;
	unsigned int before, nth, n;
	uint64_t maps;
	size_t i, e;

	/* No cache: programs are made from source each time, unless it says so. */
	setenv("XDG_CACHE_HOME", "/proc/1/nothing", 1);
	use_stub(modes);
	CHECK_OK_FATAL(hm_device_open("host", &host));
	scenario(host);
	CHECK_EQUAL(live(), 0);
	maps = stats_now().maps;
	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		before = calls(functions[i]);
		scenario(host);
		n = calls(functions[i]) - before;
		for (nth = 1; nth <= n; nth++)
			for (e = 0; e < 3; e++) {
				fail(functions[i], nth, errors[e]);
				scenario(host);
				if (live())
					printf("    %s, call %u, error %d: %d objects left\n",
					       functions[i], nth, errors[e], live());
				CHECK_EQUAL(live(), 0);
				CHECK_EQUAL(stats_now().maps, maps);
				CHECK_EQUAL(stats_now().views, 0);
			}
		fail("", 1, 0);
	}
}

static void walk_coherent(void)
{
	walk("");
}

static void walk_shadow(void)
{
	walk("shadow");
}

static void walk_unified(void)
{
	walk("unified-noncoherent");
}

static void walk_svm(void)
{
	walk("svm-system");
}

static void walk_import(void)
{
	walk("arm-import");
}

static const struct test tests[] = {
	{ "coherent", coherent, 0, 0 },
	{ "shadow", shadow, 0, 0 },
	{ "unified_noncoherent", unified_noncoherent, 0, 0 },
	{ "svm_system", svm_system, 0, 0 },
	{ "arm_import", arm_import, 0, 0 },
	{ "one_self_test", one_self_test, 0, TEST_ONCE },
	{ "memory_is_kept", memory_is_kept, 0, 0 },
	{ "zero_copy_only", zero_copy_only, 0, 0 },
	{ "kernel_that_fails", kernel_that_fails, 0, 0 },
	{ "late_events", late_events, 0, 0 },
	{ "best_device_first", best_device_first, 0, 0 },
	{ "self_test_fails_coherent", self_test_fails_coherent, 0, TEST_ONCE },
	{ "self_test_fails_unified", self_test_fails_unified, 0, TEST_ONCE },
	{ "self_test_beyond_the_limit", self_test_beyond_the_limit, 0, TEST_ONCE },
	{ "waiting_fails", waiting_fails, 0, 0 },
	{ "walk_coherent", walk_coherent, 60, 0 },
	{ "walk_shadow", walk_shadow, 60, 0 },
	{ "walk_unified", walk_unified, 60, 0 },
	{ "walk_svm", walk_svm, 60, 0 },
	{ "walk_import", walk_import, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "stub", tests)
