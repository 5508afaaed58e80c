// SPDX-License-Identifier: MIT
/* The accelerator "opencl" on PoCL, with both of its drivers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "lib/units.h"

static const uint64_t interior[] = { 1, 4, 64, 128, 4096 };

/* ---- correct results, in place ---- */

static void saxpy(const char *driver)
{
	const size_t n = 1 << 18;
	struct hm_fence_info info;
	size_t i, bad = 0;
	AUTO(accel_rig) rig = pocl_rig(driver, "opencl:0", HM_ZERO_COPY_ONLY, 0);
	float *x = alloc_bytes(&rig, n * sizeof(*x));
	float *y = alloc_bytes(&rig, n * sizeof(*y));

	for (i = 0; i < n; i++) {
		x[i] = (float)i;
		y[i] = 1;
	}
	info = RUN(&rig, SAXPY, n, HM_F32(2), HM_IN(x), HM_INOUT(y));
	CHECK_EQUAL(info.way_in, HM_WAY_HOST_PTR);
	CHECK_EQUAL(info.bytes_copied, 0);
	for (i = 0; i < n; i++)
		bad += y[i] != 1 + 2 * (float)i;
	CHECK_EQUAL(bad, 0);
	CHECK_OK(hm_free(x));
	CHECK_OK(hm_free(y));
}

static void saxpy_pthread(void)
{
	saxpy("pthread");
}

static void saxpy_basic(void)
{
	saxpy("basic");
}

/* Bytes beside the argument must stay as they are. */
static void check_interior(struct accel_rig *rig, unsigned char *base, uint64_t at,
			   uint32_t way)
{
	const uint64_t length = 1000;
	struct hm_fence_info info;
	uint64_t i, bad = 0;

	memset(base, 3, 4 * PAGE);
	info = RUN(rig, ADD_BYTES, length, HM_RANGE(base + at, length, HM_READ | HM_WRITE),
		   HM_U32(5));
	CHECK_EQUAL(info.way_in, way);
	CHECK_EQUAL(info.bytes_copied, way == HM_WAY_COPY ? 2 * length : 0);
	CHECK_EQUAL(way_of(rig, base + at, length), way);
	for (i = 0; i < 4 * PAGE; i++)
		bad += base[i] != (i >= at && i < at + length ? 8 : 3);
	CHECK_EQUAL(bad, 0);
}

static void interior_pointers(const char *driver)
{
	struct hm_fence *fence = NULL;
	size_t i;
	struct accel_rig rig = pocl_rig(driver, "opencl:0", HM_ZERO_COPY_ONLY, 0);
	unsigned char *base = alloc_bytes(&rig, 4 * PAGE);

	for (i = 0; i < 5; i++)
		check_interior(&rig, base, interior[i], HM_WAY_HOST_PTR);
	accel_rig_close(&rig);

	/* Without the quirk: the documented alignment, or a counted copy. */
	accel_rig_open(&rig, "opencl:0", HM_ACCEL_NO_QUIRKS, 0);
	for (i = 0; i < 5; i++)
		check_interior(&rig, base, interior[i],
			       interior[i] < 128 ? HM_WAY_COPY : HM_WAY_HOST_PTR);
	CHECK_OK(hm_free(base));
	accel_rig_close(&rig);

	accel_rig_open(&rig, "opencl:0", HM_ACCEL_NO_QUIRKS | HM_ZERO_COPY_ONLY, 0);
	base = alloc_bytes(&rig, 4 * PAGE);
	for (i = 0; i < 3; i++) {
		CHECK_ERROR(-EINVAL,
			    hm_launch(rig.queue, rig.kernel[ADD_BYTES], 16, &fence,
				      HM_RANGE(base + interior[i], 16, HM_READ | HM_WRITE),
				      HM_U32(1)));
		CHECK(text_has("multiples of 128"));
	}
	CHECK(!fence);
	CHECK_OK(hm_free(base));
	accel_rig_close(&rig);
}

static void interior_pthread(void)
{
	interior_pointers("pthread");
}

static void interior_basic(void)
{
	interior_pointers("basic");
}

static void bad_environment(void)
{
	struct hm_accel *accel = NULL;

	setenv("HETMAP_OPENCL_QUIRKS", "no", 1);
	if (!use_pocl("basic"))
		return;
	CHECK_ERROR(-EINVAL, hm_accel_open("opencl:0", NULL, &accel));
	CHECK(text_has("HETMAP_OPENCL_QUIRKS is \"no\": set it to 0"));
	CHECK(!accel);
}

static void quirks_by_environment(void)
{
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	unsigned char *base;
	AUTO(accel_rig) rig = { 0 };

	setenv("HETMAP_OPENCL_QUIRKS", "0", 1);
	rig = pocl_rig("basic", NULL, 0, 0);
	CHECK_OK(hm_accel_query(rig.accel, &info));
	CHECK(!info.quirks[0]);
	CHECK_EQUAL(info.alignment, 128);
	base = alloc_bytes(&rig, PAGE);
	CHECK_EQUAL(way_of(&rig, base + 4, 16), HM_WAY_COPY);
	CHECK(text_has("multiples of 128"));
	CHECK_EQUAL(way_of(&rig, base, 16), HM_WAY_HOST_PTR);
	CHECK_OK(hm_free(base));
}

static void overlapping_arguments(void)
{
	struct hm_fence *fence = NULL;
	int i;
	struct accel_rig rig = pocl_rig("basic", "opencl:0", 0, 0);
	float *x = alloc_bytes(&rig, 4 * PAGE);

	for (i = 0; i < 2048; i++)
		x[i] = 1;
	/* In place overlaps are the program's own business: here no item disturbs another. */
	RUN(&rig, SAXPY, 1024, HM_F32(2), HM_IN(x + 1024), HM_INOUT(x));
	CHECK(x[0] == 3 && x[1023] == 3 && x[1024] == 1);
	RUN(&rig, SAXPY, 1024, HM_F32(1), HM_IN(x), HM_INOUT(x));
	CHECK(x[0] == 6 && x[1023] == 6);
	accel_rig_close(&rig);

	accel_rig_open(&rig, "opencl:0", HM_ACCEL_FORCE_COPY, 0);
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, rig.kernel[SAXPY], 1024, &fence, HM_F32(2),
				       HM_IN(x + 1024), HM_INOUT(x)));
	CHECK(text_has("argument 2") && text_has("argument 1") && text_has("HM_RANGE"));
	CHECK(!fence);
	RUN(&rig, SAXPY, 1024, HM_F32(2), HM_RANGE(x + 1024, PAGE, HM_READ),
	    HM_RANGE(x, PAGE, HM_READ | HM_WRITE));
	CHECK(x[0] == 8 && x[1024] == 1);
	CHECK_OK(hm_free(x));
	accel_rig_close(&rig);
}

static void forced_copies(void)
{
	const size_t n = 10000;
	struct hm_fence_info info;
	uint64_t before;
	size_t i, bad = 0;
	AUTO(accel_rig) rig = pocl_rig("pthread", "opencl:0", HM_ACCEL_FORCE_COPY, 0);
	float *x = alloc_bytes(&rig, n * sizeof(*x));
	float *y = alloc_bytes(&rig, n * sizeof(*y));

	for (i = 0; i < n; i++)
		x[i] = 1;
	before = stats_now().bytes_copied;
	info = RUN(&rig, SAXPY, n, HM_F32(3), HM_IN(x), HM_INOUT(y));
	CHECK_EQUAL(info.way_in, HM_WAY_COPY);
	CHECK_EQUAL(info.bytes_copied, 3 * n * sizeof(*x));
	CHECK_EQUAL(stats_now().bytes_copied - before, 3 * n * sizeof(*x));
	for (i = 0; i < n; i++)
		bad += y[i] != 3;
	CHECK_EQUAL(bad, 0);
	CHECK_EQUAL(way_of(&rig, x, 64), HM_WAY_COPY);
	CHECK(text_has("HM_ACCEL_FORCE_COPY"));
	/* Bytes of a write-only range that the kernel does not write stay. */
	memset(y, 1, n * sizeof(*y));
	RUN(&rig, FILL, 10, HM_OUT(y), HM_U32(7));
	CHECK_EQUAL(((uint32_t *)(void *)y)[9], 7);
	CHECK_EQUAL(((uint32_t *)(void *)y)[10], 0x01010101);
	CHECK_OK(hm_free(x));
	CHECK_OK(hm_free(y));
}

/* ---- copy, fill ---- */

static void copy_and_fill(uint32_t flags, uint64_t window)
{
	const uint64_t size = 9 << 20;
	struct hm_fence *fence;
	uint64_t i, bad = 0;
	AUTO(accel_rig) rig = pocl_rig("pthread", "opencl:0", flags, window);
	uint32_t *x = alloc_bytes(&rig, size);
	uint32_t *y = alloc_bytes(&rig, size);

	for (i = 0; i < size / 4; i++)
		x[i] = (uint32_t)(i * 2654435761u);
	/* Not on a boundary of anything. */
	CHECK_OK_FATAL(hm_queue_fill(rig.queue, y, 0x55555555, size, NULL));
	CHECK_OK_FATAL(
		hm_queue_copy(rig.queue, (char *)y + 12, (char *)x + 1, size - 100, &fence));
	finish(fence);
	CHECK(!memcmp((char *)y + 12, (char *)x + 1, size - 100));
	for (i = 0; i < 12; i++)
		bad += ((char *)y)[i] != 0x55;
	for (i = size - 88; i < size; i++)
		bad += ((char *)y)[i] != 0x55;
	CHECK_EQUAL(bad, 0);
	CHECK_OK(hm_free(x));
	CHECK_OK(hm_free(y));
}

static void copy_in_place(void)
{
	copy_and_fill(HM_ZERO_COPY_ONLY, 0);
}

static void copy_over_windows(void)
{
	copy_and_fill(0, 2 << 20);
}

static void copy_through_device(void)
{
	copy_and_fill(HM_ACCEL_FORCE_COPY, 0);
}

/* ---- windows ---- */

static void windows(void)
{
	const uint64_t window = 2 << 20, size = 5 << 20;
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	struct hm_fence *fence = NULL;
	uint32_t *p, way;
	uint64_t at, bad = 0, i;
	AUTO(accel_rig) rig = pocl_rig("basic", "opencl:0", HM_ZERO_COPY_ONLY, window + 4096);

	CHECK_OK(hm_accel_query(rig.accel, &info));
	CHECK_EQUAL(info.window, window);
	p = alloc_bytes(&rig, size);
	CHECK_ERROR(-E2BIG,
		    hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &fence, HM_INOUT(p)));
	CHECK(text_has("2097152"));
	CHECK_ERROR(-E2BIG,
		    hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &fence,
			      HM_RANGE((char *)p + window - 4, 64, HM_READ | HM_WRITE)));
	CHECK_ERROR(-E2BIG, hm_accel_way_in(rig.accel, p, 0, &way));
	CHECK(!fence);
	for (at = 0; at < size; at += window) {
		uint64_t length = size - at < window ? size - at : window;

		RUN(&rig, INCREMENT, length / 4,
		    HM_RANGE((char *)p + at, length, HM_READ | HM_WRITE));
	}
	for (i = 0; i < size / 4; i++)
		bad += p[i] != 1;
	CHECK_EQUAL(bad, 0);
	/* Fills and copies may be of any length. */
	CHECK_OK_FATAL(hm_queue_fill(rig.queue, p, 9, size / 2, &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK_OK_FATAL(hm_queue_copy(rig.queue, (char *)p + size / 2, p, size / 2, &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	for (i = 0; i < size / 4; i++)
		bad += p[i] != 9;
	CHECK_EQUAL(bad, 0);
	CHECK_OK(hm_free(p));
}

/* ---- memory of each backing ---- */

static void run_on_map(struct accel_rig *rig, struct hm_map *map, uint32_t expected)
{
	uint32_t *p = hm_map_address(map);
	struct hm_fence_info info;

	p[7] = expected;
	info = RUN(rig, INCREMENT, 1024, HM_INOUT(p));
	CHECK_EQUAL(info.way_in, HM_WAY_HOST_PTR);
	CHECK_EQUAL(p[7], expected + 1);
}

static void every_backing(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = 16 * PAGE };
	static const uint32_t flags[] = { 0, HM_BUFFER_PRIVATE, HM_BUFFER_HUGETLB };
	AUTO(hm_device) *files = NULL;
	struct hm_buffer *buffer;
	struct hm_map *map;
	uint32_t i;
	int fd;
	AUTO(accel_rig) rig = pocl_rig("basic", "opencl:0", HM_ZERO_COPY_ONLY, 0);

	for (i = 0; i < 3; i++) {
		desc.flags = flags[i];
		CHECK_OK_FATAL(hm_buffer_create(rig.host, &desc, &buffer));
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
		run_on_map(&rig, map, i + 1);
		hm_buffer_unref(buffer);
		hm_map_unref(map);
	}
	CHECK_OK_FATAL(hm_device_open("file", &files));
	fd = scratch_file(16 * PAGE);
	desc.size = 0;
	for (i = 0; i < 2; i++) {
		desc.flags = flags[i];
		CHECK_OK_FATAL(hm_buffer_from_file(files, NULL, fd, &desc, &buffer));
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
		run_on_map(&rig, map, i + 10);
		hm_map_unref(map);
		hm_buffer_unref(buffer);
	}
	close(fd);
}

static void read_only_map(void)
{
	struct hm_fence *fence = NULL;
	struct hm_pointer_info info;
	AUTO(accel_rig) rig = pocl_rig("basic", "opencl:0", HM_ZERO_COPY_ONLY, 0);
	unsigned char *bytes = alloc_bytes(&rig, 4 * PAGE);
	uint32_t *counts = alloc_bytes(&rig, 1024);

	memset(bytes, 'x', 4 * PAGE);
	CHECK_OK(hm_pointer_find(bytes, &info));
	RUN(&rig, HISTOGRAM, 4 * PAGE, HM_IN(bytes), HM_INOUT(counts));
	CHECK_EQUAL(counts['x'], 4 * PAGE);
	CHECK_OK(hm_map_protect(info.map, 0, 4 * PAGE, HM_READ));
	RUN(&rig, HISTOGRAM, 4 * PAGE, HM_IN(bytes), HM_INOUT(counts));
	CHECK_EQUAL(counts['x'], 8 * PAGE);
	CHECK_ERROR(-EACCES, hm_launch(rig.queue, rig.kernel[ADD_BYTES], 16, &fence,
				       HM_INOUT(bytes), HM_U32(1)));
	/* One page may be written again. */
	CHECK_OK(hm_map_protect(info.map, PAGE, PAGE, HM_READ | HM_WRITE));
	RUN(&rig, HISTOGRAM, PAGE, HM_RANGE(bytes + PAGE, PAGE, HM_READ), HM_INOUT(counts));
	CHECK_EQUAL(counts['x'], 9 * PAGE);
	RUN(&rig, ADD_BYTES, PAGE, HM_RANGE(bytes + PAGE, PAGE, HM_READ | HM_WRITE), HM_U32(1));
	CHECK_EQUAL(bytes[PAGE], 'y');
	CHECK_EQUAL(bytes[PAGE - 1], 'x');
	CHECK_ERROR(-EACCES, hm_launch(rig.queue, rig.kernel[ADD_BYTES], 16, &fence,
				       HM_INOUT(bytes), HM_U32(1)));
	CHECK_OK(hm_map_protect(info.map, 0, PAGE, HM_NONE));
	CHECK_ERROR(-EACCES, hm_launch(rig.queue, rig.kernel[HISTOGRAM], PAGE, &fence,
				       HM_IN(bytes), HM_INOUT(counts)));
	CHECK_OK(hm_free(bytes));
	CHECK_OK(hm_free(counts));
}

static struct hm_kernel *sneaky_kernel(const char *parameter)
{
	struct hm_kernel_desc desc = { .struct_size = sizeof(desc), .name = "sneaky" };
	struct hm_kernel *kernel;
	char source[200];

	snprintf(source, sizeof(source),
		 "__kernel void sneaky(%s p, __global uint *n)\n"
		 "{ n[0] = ((__global uint *)p)[0]; %s }\n",
		 parameter, strstr(parameter, "const") ? "" : "p[1] = 7;");
	desc.opencl = source;
	CHECK_OK_FATAL(hm_kernel_create(&desc, &kernel));
	return kernel;
}

/* The launch says that it only reads, and nothing keeps the kernel from more. */
static void stores_untold(void)
{
	const uint32_t flags[] = { 0, HM_ACCEL_FORCE_COPY };
	struct hm_kernel *stores, *reads;
	struct hm_fence *fence = NULL;
	struct hm_pointer_info info;
	uint32_t *p, *n;
	struct accel_rig rig;
	size_t i;

	TEST_NEEDS(use_pocl("basic"));
	for (i = 0; i < 4; i++) {
		/* Twice each: built from source, and found in the cache. */
		accel_rig_open(&rig, "opencl:0", flags[i / 2], 0);
		p = alloc_bytes(&rig, 2 * PAGE);
		n = alloc_bytes(&rig, PAGE);
		p[0] = 5;
		CHECK_OK(hm_pointer_find(p, &info));
		CHECK_OK(hm_map_protect(info.map, 0, PAGE, HM_READ));
		stores = sneaky_kernel("__global uint *");
		reads = sneaky_kernel("__global const uint *");
		if (flags[i / 2]) {
			CHECK_OK_FATAL(
				hm_launch(rig.queue, stores, 1, &fence, HM_IN(p), HM_OUT(n)));
			finish(fence);
		} else {
			CHECK_ERROR(-EACCES, hm_launch(rig.queue, stores, 1, &fence, HM_IN(p),
						       HM_OUT(n)));
			CHECK(text_has("kernel sneaky, argument 0") && text_has("not const"));
			CHECK(text_has("8192 bytes from offset 0"));
			/* The page behind it may be written. */
			CHECK_OK_FATAL(hm_launch(rig.queue, stores, 1, &fence,
						 HM_RANGE((char *)p + PAGE, PAGE, HM_READ),
						 HM_OUT(n)));
			finish(fence);
			CHECK_EQUAL(p[PAGE / 4 + 1], 7);
		}
		CHECK_EQUAL(p[1], 0);
		CHECK_OK_FATAL(hm_launch(rig.queue, reads, 1, &fence, HM_IN(p), HM_OUT(n)));
		finish(fence);
		CHECK_EQUAL(n[0], 5);
		hm_kernel_unref(stores);
		hm_kernel_unref(reads);
		CHECK_OK(hm_free(p));
		CHECK_OK(hm_free(n));
		accel_rig_close(&rig);
	}
}

/* ---- maps that change between launches ---- */

static void growing_and_moving(const char *driver)
{
	uint64_t size = PAGE;
	uint32_t *p, *moved;
	int i;
	AUTO(accel_rig) rig = pocl_rig(driver, "opencl:0", HM_ZERO_COPY_ONLY, 0);

	p = alloc_bytes(&rig, size);
	for (i = 0; i < 6; i++) {
		RUN(&rig, INCREMENT, size / 4, HM_INOUT(p));
		CHECK_EQUAL(p[0], (uint32_t)i + 1);
		CHECK_EQUAL(p[size / 4 - 1], 1);
		size *= 4;
		CHECK_OK_FATAL(hm_realloc(p, size, 0, &moved));
		CHECK(moved == p);
	}
	/* Past the reservation: another address. */
	CHECK_OK_FATAL(hm_realloc(p, 200 << 20, HM_MAY_MOVE, &moved));
	RUN(&rig, INCREMENT, 1024, HM_INOUT(moved));
	CHECK_EQUAL(moved[0], 7);
	CHECK_OK_FATAL(hm_realloc(moved, PAGE, 0, &p));
	RUN(&rig, INCREMENT, 1024, HM_INOUT(p));
	CHECK_EQUAL(p[0], 8);
	CHECK_OK(hm_free(p));
}

static void changes_pthread(void)
{
	growing_and_moving("pthread");
}

static void changes_basic(void)
{
	growing_and_moving("basic");
}

/* A map goes, an accelerator goes: in either order, many times. */
static void views_come_and_go(void)
{
	struct hm_accel *other;
	uint64_t views = stats_now().views;
	uint32_t *p;
	int i;
	AUTO(accel_rig) rig = pocl_rig("basic", "opencl:0", 0, 0);

	for (i = 0; i < 50; i++) {
		uint32_t way;

		p = alloc_bytes(&rig, PAGE);
		RUN(&rig, INCREMENT, 16, HM_INOUT(p));
		CHECK_OK_FATAL(hm_accel_open("opencl:0", NULL, &other));
		CHECK_OK(hm_accel_way_in(other, p, 0, &way));
		CHECK_EQUAL(stats_now().views, views + 2);
		if (i & 1) {
			CHECK_OK(hm_free(p));
			hm_accel_unref(other);
		} else {
			hm_accel_unref(other);
			CHECK_OK(hm_free(p));
		}
		CHECK_EQUAL(stats_now().views, views);
	}
}

static void way_in_errors(void)
{
	uint32_t way, on_stack;
	AUTO(accel_rig) rig = stub_rig("", 0, 0);
	uint32_t *p = alloc_bytes(&rig, PAGE);

	CHECK_ERROR(-ENOENT, hm_accel_way_in(rig.accel, &on_stack, 4, &way));
	CHECK_ERROR(-ERANGE, hm_accel_way_in(rig.accel, p, PAGE + 1, &way));
	CHECK_ERROR(-EINVAL, hm_accel_way_in(rig.accel, p, 4, NULL));
	CHECK_ERROR(-EINVAL, hm_accel_way_in(NULL, p, 4, &way));
	CHECK_OK(hm_free(p));
}

static const struct test tests[] = {
	{ "saxpy_pthread", saxpy_pthread, 60, 0 },
	{ "saxpy_basic", saxpy_basic, 60, 0 },
	{ "interior_pthread", interior_pthread, 60, 0 },
	{ "interior_basic", interior_basic, 60, 0 },
	{ "bad_environment", bad_environment, 0, 0 },
	{ "quirks_by_environment", quirks_by_environment, 60, 0 },
	{ "overlapping_arguments", overlapping_arguments, 60, 0 },
	{ "forced_copies", forced_copies, 60, 0 },
	{ "copy_in_place", copy_in_place, 60, 0 },
	{ "copy_over_windows", copy_over_windows, 60, 0 },
	{ "copy_through_device", copy_through_device, 60, 0 },
	{ "windows", windows, 60, 0 },
	{ "every_backing", every_backing, 60, 0 },
	{ "read_only_map", read_only_map, 60, 0 },
	{ "stores_untold", stores_untold, 60, 0 },
	{ "changes_pthread", changes_pthread, 60, 0 },
	{ "changes_basic", changes_basic, 60, 0 },
	{ "views_come_and_go", views_come_and_go, 60, 0 },
	{ "way_in_errors", way_in_errors, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "opencl", tests)
