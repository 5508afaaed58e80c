// SPDX-License-Identifier: MIT
/*
 * Arguments as they are written behind hm_launch() and as an array: the kernel is
 * passed the same. And how long a kernel lives.
 */
#include <errno.h>
#include <string.h>

#include "accel/accel_support.h"

/* ---- a kernel that keeps its arguments ---- */

static struct {
	unsigned int calls;
	uint64_t global[3];
	struct hm_arg args[HM_KERNEL_MAX_ARGS];
	uint32_t n; /* to keep */
} seen;

static int keep(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	seen.calls++;
	memcpy(seen.global, range->global, sizeof(seen.global));
	memcpy(seen.args, args, seen.n * sizeof(*args));
	return 0;
}

/* One work item: one call, on one thread. */
static void finish_keep(int r, struct hm_fence *fence)
{
	CHECK_OK_FATAL(r);
	finish(fence);
	CHECK_EQUAL(seen.calls, 1);
	seen.calls = 0;
}

/* ---- the list is the array ---- */

static bool is_same(const struct hm_arg *a, const struct hm_arg *b)
{
	if (a->kind != b->kind || a->access != b->access || a->size != b->size ||
	    a->length != b->length)
		return false;
	if (a->kind == HM_ARG_POINTER)
		return a->pointer == b->pointer;
	return a->kind == HM_ARG_LOCAL || !memcmp(a->value, b->value, a->size);
}

static void check_seen(const struct hm_arg *args)
{
	uint32_t i;

	for (i = 0; i < seen.n; i++)
		CHECK(is_same(&seen.args[i], &args[i]));
	for (i = 0; i < 3; i++)
		CHECK_EQUAL(seen.global[i], 1);
	memset(&seen.args, 0, sizeof(seen.args));
}

#define ALL "f32 f64 i32 u32 i64 u64 in out inout in local"

static void launch_both(struct accel_rig *rig, struct hm_kernel *kernel, char *x, char *y)
{
	const struct hm_arg args[] = {
		HM_F32(-1.5f),     HM_F64(1e300),
		HM_I32(INT32_MIN), HM_U32(UINT32_MAX),
		HM_I64(INT64_MIN), HM_U64(UINT64_MAX),
		HM_IN(x),          HM_OUT(y),
		HM_INOUT(x + 64),  HM_RANGE(y + 1, 17, HM_READ),
		HM_LOCAL(96),
	};
	const uint64_t one[3] = { 1, 1, 1 };
	struct hm_fence *fence = NULL;
	int r;

	memset(&seen, 0, sizeof(seen));
	seen.n = sizeof(args) / sizeof(args[0]);
	r = hm_queue_launch(rig->queue, kernel, one, args, seen.n, &fence);
	finish_keep(r, fence);
	CHECK(seen.args[0].f32 == -1.5f && seen.args[1].f64 == 1e300);
	CHECK(seen.args[8].pointer == x + 64 && seen.args[10].size == 96);
	check_seen(args);

	r = hm_queue_launch_list(rig->queue, kernel, 1, &fence, HM_F32(-1.5f), HM_F64(1e300),
				 HM_I32(INT32_MIN), HM_U32(UINT32_MAX), HM_I64(INT64_MIN),
				 HM_U64(UINT64_MAX), HM_IN(x), HM_OUT(y), HM_INOUT(x + 64),
				 HM_RANGE(y + 1, 17, HM_READ), HM_LOCAL(96), hm_arg_end());
	finish_keep(r, fence);
	check_seen(args);
}

static void same_as_array(void)
{
	AUTO(hm_kernel) *kernel = make_kernel("keep", ALL, keep);
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	char *x = alloc_bytes(&rig, 4096);
	char *y = alloc_bytes(&rig, 4096);

	launch_both(&rig, kernel, x, y);
	CHECK_OK(hm_free(x));
	CHECK_OK(hm_free(y));
}

/* The one number is the first dimension's. */
static void same_on(const char *accel)
{
	struct hm_fence *fence = NULL;
	uint32_t *x, i;
	AUTO(accel_rig) rig = accel_rig_make(accel, 0, 0);

	x = alloc_bytes(&rig, 64 * sizeof(*x));
	CHECK_OK_FATAL(hm_queue_launch_list(rig.queue, rig.kernel[FILL], 63, &fence,
					    HM_RANGE(x, 63 * sizeof(*x), HM_WRITE), HM_U32(7),
					    hm_arg_end()));
	finish(fence);
	for (i = 0; i < 64; i++)
		CHECK_EQUAL(x[i], i < 63 ? 7 : 0);
	/* Without a fence: the queue's order has it done before the next. */
	CHECK_OK(hm_queue_launch_list(rig.queue, rig.kernel[FILL], 64, NULL, HM_OUT(x),
				      HM_U32(9), hm_arg_end()));
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[EMPTY], 1, &fence));
	finish(fence);
	for (i = 0; i < 64; i++)
		CHECK_EQUAL(x[i], 9);
	CHECK_OK(hm_free(x));
}

static void same_on_cpu(void)
{
	same_on("cpu");
}

static void same_on_soft(void)
{
	same_on("soft:0");
}

static void same_on_pocl(void)
{
	if (use_pocl("basic"))
		same_on("opencl:0");
}

/* ---- lists that are refused ---- */

#define FOUR(arg) arg, arg, arg, arg
#define THIRTY_TWO(arg) \
	FOUR(arg), FOUR(arg), FOUR(arg), FOUR(arg), FOUR(arg), FOUR(arg), FOUR(arg), FOUR(arg)
#define FOUR_U32 "u32 u32 u32 u32 "

static void refused(void)
{
	AUTO(hm_kernel) *kernel = make_kernel(
		"keep", FOUR_U32 FOUR_U32 FOUR_U32 FOUR_U32 FOUR_U32 FOUR_U32 FOUR_U32 FOUR_U32,
		keep);
	struct hm_arg odd = HM_U32(1);
	struct hm_fence *fence = NULL;
	int r;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);

	memset(&seen, 0, sizeof(seen));
	odd.kind = 77;
	CHECK_ERROR(-EINVAL, hm_queue_launch_list(NULL, kernel, 1, &fence, hm_arg_end()));
	CHECK_ERROR(-EINVAL, hm_queue_launch_list(rig.queue, NULL, 1, &fence, hm_arg_end()));
	CHECK_ERROR(-EINVAL, hm_queue_launch_list(rig.queue, rig.kernel[EMPTY], 0, &fence,
						  hm_arg_end()));
	CHECK(text_has("0 x 1 x 1"));
	CHECK_ERROR(-EINVAL, hm_queue_launch_list(rig.queue, kernel, 1, &fence, hm_arg_end()));
	CHECK(text_has("takes 32 arguments, 0 were passed"));
	CHECK_ERROR(-EINVAL, hm_queue_launch_list(rig.queue, kernel, 1, &fence, HM_U32(1),
						  hm_arg_end(), HM_U32(1), hm_arg_end()));
	CHECK(text_has("takes 32 arguments, 1 were passed"));
	CHECK_ERROR(-EINVAL,
		    hm_queue_launch_list(rig.queue, kernel, 1, &fence, odd, hm_arg_end()));
	/* The list has no end: the rest is not read. */
	CHECK_ERROR(-EINVAL, hm_queue_launch_list(rig.queue, kernel, 1, &fence,
						  THIRTY_TWO(HM_U32(1)), HM_U32(1)));
	CHECK(text_has("33 arguments are more than 32"));
	CHECK(!fence);
	CHECK_EQUAL(seen.calls, 0);

	seen.n = HM_KERNEL_MAX_ARGS;
	r = hm_queue_launch_list(rig.queue, kernel, 1, &fence, THIRTY_TWO(HM_U32(5)),
				 hm_arg_end());
	finish_keep(r, fence);
	CHECK_EQUAL(seen.args[HM_KERNEL_MAX_ARGS - 1].u32, 5);
}

/* ---- a float for an integer ---- */

/* The driver is asked where there is no signature; and one that is there says it. */
static void types_on(const char *accel, bool signature)
{
	struct hm_kernel_desc fill = {
		.struct_size = sizeof(fill),
		.name = "fill",
		.opencl = "__kernel void fill(__global uint *p, uint v)\n"
			  "{ p[get_global_id(0)] = v; }\n",
	};
	struct hm_fence *fence = NULL;
	struct hm_kernel *kernel;
	uint32_t *p;
	float one = 1;
	AUTO(accel_rig) rig = accel_rig_make(accel, 0, 0);

	p = alloc_bytes(&rig, 4096);
	if (signature)
		kernel = hm_kernel_ref(rig.kernel[FILL]);
	else
		CHECK_OK_FATAL(hm_kernel_create(&fill, &kernel));
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, kernel, 16, &fence, HM_OUT(p), HM_F32(1)));
	CHECK(text_has("fill, argument 1") && text_has("an integer of 4 bytes is expected"));
	CHECK(text_has("not a float"));
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, kernel, 16, &fence, HM_OUT(p), HM_U64(1)));
	CHECK(!fence);
	CHECK(is_zero(p, 0, 4096));
	/* Signed or not; and the type of bare bytes is not known. */
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 16, &fence, HM_OUT(p), HM_I32(-1)));
	finish(fence);
	CHECK_EQUAL(p[15], UINT32_MAX);
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 16, &fence, HM_OUT(p),
				 hm_arg_scalar(&one, sizeof(one))));
	finish(fence);
	CHECK_EQUAL(p[15], 1065353216);
	hm_kernel_unref(kernel);
	if (!signature) {
		CHECK_OK_FATAL(hm_kernel_create(
			DESC(hm_kernel_desc, .name = "saxpy",
			     .opencl = "__kernel void saxpy(float a, __global const float *x,\n"
				       "                    __global float *y)\n"
				       "{ size_t i = get_global_id(0); y[i] += a * x[i]; }\n"),
			&kernel));
		CHECK_ERROR(-EINVAL, hm_launch(rig.queue, kernel, 16, NULL, HM_I32(1), HM_IN(p),
					       HM_INOUT(p + 512)));
		CHECK(text_has("a float of 4 bytes is expected, not an integer"));
		/* In the wrong order. */
		CHECK_ERROR(-EINVAL, hm_launch(rig.queue, kernel, 16, NULL, HM_F32(1),
					       HM_INOUT(p), HM_IN(p + 512)));
		CHECK(text_has("argument 1") && text_has("const") && text_has("HM_INOUT"));
		hm_kernel_unref(kernel);
	}
	CHECK_OK(hm_free(p));
}

static void types_of_signature(void)
{
	types_on("cpu", true);
}

static void types_from_driver(void)
{
	use_stub("");
	types_on("opencl:0", false);
}

/* ---- references ---- */

static void kernel_references(void)
{
	struct hm_kernel *kernel = make_kernel("keep", "u32", keep);
	struct hm_fence *fence = NULL;
	int r;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);

	memset(&seen, 0, sizeof(seen));
	seen.n = 1;
	CHECK(!hm_kernel_ref(NULL));
	CHECK(hm_kernel_ref(kernel) == kernel);
	hm_kernel_unref(kernel);
	CHECK_OK(hm_kernel_build(kernel, rig.accel));
	r = hm_launch(rig.queue, kernel, 1, &fence, HM_U32(3));
	finish_keep(r, fence);
	CHECK_EQUAL(seen.args[0].u32, 3);
	/* Work that was submitted keeps it, too. */
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_U32(4)));
	hm_kernel_unref(kernel);
	finish(fence);
	CHECK_EQUAL(seen.args[0].u32, 4);
}

static const struct test tests[] = {
	{ "same_as_array", same_as_array, 0, 0 },
	{ "same_on_cpu", same_on_cpu, 0, 0 },
	{ "same_on_soft", same_on_soft, 0, 0 },
	{ "same_on_pocl", same_on_pocl, 60, 0 },
	{ "refused", refused, 0, 0 },
	{ "types_of_signature", types_of_signature, 0, 0 },
	{ "types_from_driver", types_from_driver, 0, 0 },
	{ "kernel_references", kernel_references, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "arguments", tests)
