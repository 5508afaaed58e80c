// SPDX-License-Identifier: MIT
/* Bad input to launches, copies and fills: an error, a sentence, no change. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel_support.h"

#define N 1024

/* Every case, on one accelerator. */
static void bad_input(const char *accel)
{
	const uint64_t zero_grid[3] = { 0, 1, 1 }, huge[3] = { UINT64_MAX, 2, 1 };
	const uint64_t grid[3] = { N, 1, 1 };
	struct hm_arg args[HM_KERNEL_MAX_ARGS + 1] = { HM_F32(1) };
	struct hm_fence *fence = NULL;
	float *x, *y, on_stack[4];
	struct hm_stats before;
	void *read_only;
	AUTO(accel_rig) rig = accel_rig_make(accel, 0, 0);
	struct hm_kernel *saxpy = rig.kernel[SAXPY];

	CHECK_ERROR(-EFAULT, hm_launch(rig.queue, saxpy, 4, &fence, HM_F32(1), HM_IN(on_stack),
				       HM_INOUT(on_stack)));
	x = alloc_bytes(&rig, N * sizeof(*x));
	y = alloc_bytes(&rig, N * sizeof(*y));
	CHECK_OK_FATAL(hm_alloc(rig.host, 4096, HM_READ, &read_only));
	pattern_write(y, 0, N * sizeof(*y), 1);
	CHECK_OK(hm_kernel_build(saxpy, rig.accel));
	before = stats_now();

	/* Objects. */
	CHECK_ERROR(-EINVAL,
		    hm_launch(NULL, saxpy, N, &fence, HM_F32(1), HM_IN(x), HM_INOUT(y)));
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, NULL, N, &fence, HM_F32(1)));
	CHECK_ERROR(-EINVAL, hm_queue_launch(rig.queue, saxpy, NULL, args, 3, &fence));
	CHECK_ERROR(-EINVAL, hm_queue_launch(rig.queue, saxpy, grid, NULL, 3, &fence));
	CHECK_ERROR(-EINVAL, hm_launch((struct hm_queue *)rig.accel, saxpy, N, &fence));
	/* Grids. */
	CHECK_ERROR(-EINVAL, hm_queue_launch(rig.queue, saxpy, zero_grid, args, 3, &fence));
	CHECK_ERROR(-EINVAL, hm_queue_launch(rig.queue, saxpy, huge, args, 3, &fence));
	/* Number and kinds of arguments. */
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, saxpy, N, &fence, HM_F32(1), HM_IN(x)));
	CHECK(text_has("takes 3 arguments, 2 were passed"));
	CHECK_ERROR(-EINVAL, hm_queue_launch(rig.queue, saxpy, grid, args,
					     HM_KERNEL_MAX_ARGS + 1, &fence));
	CHECK_ERROR(-EINVAL,
		    hm_launch(rig.queue, saxpy, N, &fence, HM_IN(x), HM_IN(x), HM_INOUT(y)));
	CHECK(text_has("argument 0: it takes a scalar, not a pointer"));
	CHECK_ERROR(-EINVAL,
		    hm_launch(rig.queue, saxpy, N, &fence, HM_F64(1), HM_IN(x), HM_INOUT(y)));
	CHECK(text_has("4 bytes"));
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, saxpy, N, &fence, HM_F32(1), HM_LOCAL(64),
				       HM_INOUT(y)));
	CHECK_ERROR(-EINVAL,
		    hm_launch(rig.queue, saxpy, N, &fence, HM_F32(1), HM_IN(x), HM_IN(y)));
	CHECK(text_has("declared HM_INOUT, passed as HM_IN"));
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, saxpy, N, &fence, HM_F32(1), HM_IN(x),
				       HM_RANGE(y, 64, HM_NONE)));
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, rig.kernel[WITH_LOCAL], N, &fence, HM_OUT(y),
				       HM_LOCAL(0)));
	/* Pointers. */
	CHECK_ERROR(-EFAULT, hm_launch(rig.queue, saxpy, 4, &fence, HM_F32(1), HM_IN(on_stack),
				       HM_INOUT(y)));
	CHECK(text_has("argument 1") && text_has("nearest"));
	CHECK(text_has("HM_ANY()") != text_has("hm_alloc()"));
	CHECK_ERROR(-EFAULT, hm_launch(rig.queue, saxpy, 4, &fence, HM_F32(1), HM_IN(NULL),
				       HM_INOUT(y)));
	CHECK(!text_has("HM_ANY()") && !text_has("hm_alloc()"));
	CHECK_ERROR(-EFAULT, hm_launch(rig.queue, saxpy, 4, &fence, HM_F32(1), HM_IN(x),
				       HM_INOUT(on_stack)));
	CHECK_ERROR(-EFAULT, hm_queue_copy(rig.queue, x, on_stack, 16, &fence));
	CHECK_ERROR(-ERANGE, hm_launch(rig.queue, saxpy, N, &fence, HM_F32(1),
				       HM_RANGE(x, N * sizeof(*x) + 1, HM_READ), HM_INOUT(y)));
	CHECK_ERROR(-ERANGE, hm_launch(rig.queue, saxpy, N, &fence, HM_F32(1),
				       HM_RANGE(x + 1, UINT64_MAX, HM_READ), HM_INOUT(y)));
	CHECK_ERROR(-EACCES, hm_launch(rig.queue, rig.kernel[FILL], 16, &fence,
				       HM_OUT(read_only), HM_U32(7)));
	CHECK(text_has("kernel fill, argument 0") && text_has("4096 bytes from offset 0"));
	CHECK(text_has("a write of") && text_has("hm_map_protect"));
	/* Copies and fills. */
	CHECK_ERROR(-EINVAL, hm_queue_copy(rig.queue, x, y, 0, &fence));
	CHECK_ERROR(-EINVAL, hm_queue_copy(rig.queue, x, y, UINT64_MAX, &fence));
	CHECK_ERROR(-EINVAL, hm_queue_copy(rig.queue, x, (char *)x + 64, 65, &fence));
	CHECK_ERROR(-EFAULT, hm_queue_copy(rig.queue, on_stack, y, 16, &fence));
	CHECK(text_has("target"));
	CHECK_ERROR(-ERANGE, hm_queue_copy(rig.queue, x, y, N * sizeof(*x) + 1, &fence));
	CHECK_ERROR(-EACCES, hm_queue_copy(rig.queue, read_only, y, 16, &fence));
	CHECK_ERROR(-EINVAL, hm_queue_fill(rig.queue, x, 1, 0, &fence));
	CHECK_ERROR(-EINVAL, hm_queue_fill(rig.queue, x, 1, 7, &fence));
	CHECK_ERROR(-EINVAL, hm_queue_fill(rig.queue, (char *)x + 1, 1, 8, &fence));
	CHECK_ERROR(-EACCES, hm_queue_fill(rig.queue, read_only, 1, 8, &fence));
	/* Kernels. */
	CHECK(!fence);
	CHECK_EQUAL(stats_now().launches, before.launches);
	CHECK(pattern_holds(y, 0, N * sizeof(*y), 1));

	/* A freed pointer is a foreign one. */
	CHECK_OK(hm_free(x));
	CHECK_ERROR(-EFAULT,
		    hm_launch(rig.queue, saxpy, N, &fence, HM_F32(1), HM_IN(x), HM_INOUT(y)));
	CHECK_OK(hm_free(y));
	CHECK_OK(hm_free(read_only));
}

static void on_cpu(void)
{
	bad_input("cpu");
}

static void on_pocl(void)
{
	if (use_pocl("basic"))
		bad_input("opencl:0");
}

static void on_stub(void)
{
	use_stub("");
	bad_input("opencl:0");
}

static void on_stub_that_copies(void)
{
	use_stub("shadow");
	bad_input("opencl:0");
}

static void on_soft(void)
{
	bad_input("soft:0");
}

static int returns_zero(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return 0;
}

static void descriptions_of_kernels(void)
{
	struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "f",
		.cpu = returns_zero,
		.signature = "in",
	};
	struct hm_kernel_desc bad;
	AUTO(hm_kernel) *kernel = NULL;
	char many[HM_KERNEL_MAX_ARGS * 3 + 8];
	AUTO(hm_accel) *cpu = NULL;
	uint32_t i;

	CHECK_ERROR(-EINVAL, hm_kernel_create(NULL, &kernel));
	CHECK_ERROR(-EINVAL, hm_kernel_create(&desc, NULL));
	bad = desc;
	bad.struct_size = 8;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&bad, &kernel));
	bad = desc;
	bad.name = NULL;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&bad, &kernel));
	bad.name = "";
	CHECK_ERROR(-EINVAL, hm_kernel_create(&bad, &kernel));
	bad = desc;
	bad.flags = 1;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&bad, &kernel));
	bad = desc;
	bad.group[0] = bad.group[1] = 1u << 20;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&bad, &kernel));
	bad = desc;
	bad.cpu = NULL;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&bad, &kernel));
	bad = desc;
	bad.signature = NULL;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&bad, &kernel));
	bad.signature = "in f16";
	CHECK_ERROR(-EINVAL, hm_kernel_create(&bad, &kernel));
	CHECK(text_has("\"f16\""));
	many[0] = '\0';
	for (i = 0; i <= HM_KERNEL_MAX_ARGS; i++)
		strcat(many, "in ");
	bad.signature = many;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&bad, &kernel));
	CHECK(!kernel);

	/* No form that the accelerator runs. */
	bad = desc;
	bad.cpu = NULL;
	bad.opencl = "__kernel void f(__global int *p) { }";
	CHECK_OK_FATAL(hm_kernel_create(&bad, &kernel));
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &cpu));
	CHECK_ERROR(-EOPNOTSUPP, hm_kernel_build(kernel, cpu));
	CHECK(text_has("\"opencl\""));
	CHECK_ERROR(-EINVAL, hm_kernel_build(NULL, cpu));
	CHECK_ERROR(-EINVAL, hm_kernel_build(kernel, NULL));
	hm_kernel_unref(NULL);
}

static void fences_and_queues(void)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct hm_queue *queue = NULL;
	struct hm_fence *fence;
	int fd;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);

	CHECK_ERROR(-EINVAL, hm_queue_create(NULL, 0, &queue));
	CHECK_ERROR(-EINVAL, hm_queue_create(rig.accel, 1, &queue));
	CHECK_ERROR(-EINVAL, hm_queue_create(rig.accel, 0, NULL));
	CHECK(!queue);
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[EMPTY], 1, &fence));
	CHECK_ERROR(-EINVAL, hm_fence_query(fence, NULL));
	info.struct_size = 4;
	CHECK_ERROR(-EINVAL, hm_fence_query(fence, &info));
	info.struct_size = sizeof(info) + 8;
	CHECK_ERROR(-E2BIG, hm_fence_query(fence, &info));
	CHECK_ERROR(-EINVAL, hm_fence_fd(fence, NULL));
	CHECK_ERROR(-EINVAL, hm_fence_fd(NULL, &fd));
	CHECK_ERROR(-EINVAL, hm_fence_wait(NULL, 0));
	finish(fence);
	CHECK_ERROR(-EINVAL, hm_fence_wait(fence, 0));
	hm_fence_unref(NULL);
	hm_queue_unref(NULL);
	hm_accel_unref(NULL);
	CHECK(!hm_fence_ref(NULL) && !hm_queue_ref(NULL) && !hm_accel_ref(NULL));
}

static const struct test tests[] = {
	{ "bad_input_cpu", on_cpu, 0, 0 },
	{ "bad_input_pocl", on_pocl, 60, 0 },
	{ "bad_input_stub", on_stub, 0, 0 },
	{ "bad_input_stub_that_copies", on_stub_that_copies, 0, 0 },
	{ "bad_input_soft", on_soft, 0, 0 },
	{ "descriptions_of_kernels", descriptions_of_kernels, 0, 0 },
	{ "fences_and_queues", fences_and_queues, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "launch", tests)
