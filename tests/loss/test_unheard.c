// SPDX-License-Identifier: MIT
/*
 * A device goes, its maps are zeros without a fault, and the library has not heard of it: each
 * user of its bytes gets an error, whatever the buffer's policy.
 */
#include <errno.h>
#include <string.h>

#include "accel/accel_support.h"
#include "lib/minimal_backend.h"
#include "base/util.h"

#define SIZE (4 * 4096ull)

/* Or of enum hm_loss_policy. */
#define NO_POLICY UINT32_MAX

static const uint32_t policies[] = { NO_POLICY, HM_LOSS_ZERO, HM_LOSS_SHADOW,
				     HM_LOSS_RECREATE };

static const char *name = "unheard";

/* A buffer of that device, and its map. */
struct bytes {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *base;
	int told;
};

static void count_taken(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	(void)buffer;
	*(int *)user += event == HM_LOSS_TAKEN;
}

static void make(struct bytes *bytes, uint32_t policy)
{
	const struct hm_buffer_desc size = { .struct_size = sizeof(size), .size = SIZE };
	const struct hm_loss_desc loss = { .struct_size = sizeof(loss),
					   .policy = policy,
					   .lost = count_taken,
					   .user = &bytes->told };

	unheard_come();
	bytes->told = 0;
	CHECK_OK_FATAL(hm_device_open(name, &bytes->device));
	CHECK_OK_FATAL(hm_buffer_create(bytes->device, &size, &bytes->buffer));
	CHECK_OK_FATAL(hm_map_create(bytes->buffer, NULL, &bytes->map));
	bytes->base = hm_map_address(bytes->map);
	if (policy != NO_POLICY)
		CHECK_OK_FATAL(hm_buffer_set_loss(bytes->buffer, &loss));
	memset(bytes->base, 5, SIZE);
}

static void end(struct bytes *bytes)
{
	hm_map_unref(bytes->map);
	hm_buffer_unref(bytes->buffer);
	hm_device_unref(bytes->device);
}

/* ---- the CPU's ---- */

static int bracket(struct bytes *bytes, uint32_t access)
{
	CHECK_OK(hm_map_begin_cpu(bytes->map, 0, SIZE, access));
	unheard_go();
	if (access & HM_WRITE)
		*(volatile char *)bytes->base = 1;
	else
		CHECK_EQUAL(*(volatile char *)bytes->base, 0);
	return hm_map_end_cpu(bytes->map, 0, SIZE, access);
}

static int read_bracket(struct bytes *bytes)
{
	return bracket(bytes, HM_READ);
}

static int write_bracket(struct bytes *bytes)
{
	return bracket(bytes, HM_READ | HM_WRITE);
}

/* The fault says so, too. */
static int copy_out(struct bytes *bytes)
{
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	char to[16];
	int r;

	CHECK_OK(hm_copy_out(to, bytes->base, sizeof(to), NULL));
	CHECK_EQUAL(to[0], 5);
	unheard_go();
	r = hm_copy_out(to, bytes->base, sizeof(to), &fault);
	CHECK_EQUAL(fault.cause, HM_FAULT_LOST);
	return r;
}

static int copy_in(struct bytes *bytes)
{
	unheard_go();
	return hm_copy_in(bytes->base + 17, "bytes", 5, NULL);
}

/* The end that was not named. */
static int copy_between(struct bytes *bytes)
{
	char *to;
	int r;
	AUTO(hm_device) *host = rig_device("host");

	CHECK_OK_FATAL(hm_alloc(host, SIZE, HM_READ | HM_WRITE, &to));
	unheard_go();
	r = hm_copy_in(to, bytes->base, SIZE, NULL);
	CHECK_OK(hm_free(to));
	return r;
}

static void by_cpu(void)
{
	static int (*const uses[])(struct bytes * bytes) = { read_bracket, write_bracket,
							     copy_out, copy_in, copy_between };
	struct bytes bytes;
	size_t i, j;

	CHECK_OK_FATAL(hm_backend_register(&unheard_backend));
	AUTO(rig_handler) handler = rig_handler(0);
	for (i = 0; i < ARRAY_SIZE(policies); i++)
		for (j = 0; j < ARRAY_SIZE(uses); j++) {
			make(&bytes, policies[i]);
			CHECK_EQUAL(uses[j](&bytes), -ENODEV);
			CHECK(hm_errmsg()[0]);
			/* By the call that found it, before it returned. */
			CHECK_EQUAL(bytes.told, policies[i] != NO_POLICY);
			CHECK_ERROR(-ENODEV, hm_map_begin_cpu(bytes.map, 0, SIZE, HM_READ));
			end(&bytes);
		}
}

/* ---- accelerators ---- */

static int use_and_go(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	unheard_go();
	*(volatile char *)args[0].pointer = *(volatile char *)args[1].pointer;
	return 0;
}

/* While a kernel runs on a CPU, which no device has a hand in. */
static struct hm_fence *submit(struct accel_rig *rig, struct bytes *bytes, char *other,
			       bool writes)
{
	AUTO(hm_kernel) *kernel = make_kernel("use", "inout in", use_and_go);
	struct hm_fence *fence;

	CHECK_OK_FATAL(
		hm_launch(rig->queue, kernel, 1, &fence,
			  HM_RANGE(writes ? bytes->base : other, SIZE, HM_READ | HM_WRITE),
			  HM_RANGE(writes ? other : bytes->base, SIZE, HM_READ)));
	return fence;
}

static int launch(struct accel_rig *rig, struct bytes *bytes, char *other, bool writes)
{
	AUTO(hm_fence) *fence = submit(rig, bytes, other, writes);
	int r = hm_fence_wait(fence, UINT64_MAX);

	return r;
}

/* Waited for as a part of a merged fence. */
static int launch_merged(struct accel_rig *rig, struct bytes *bytes, char *other, bool writes)
{
	struct hm_fence *fence = submit(rig, bytes, other, writes), *merged;
	int r;

	CHECK_OK_FATAL(hm_fence_merge(&fence, 1, &merged));
	hm_fence_unref(fence);
	r = hm_fence_wait(merged, UINT64_MAX);
	hm_fence_unref(merged);
	return r;
}

/* As any accelerator makes it. It is gone before: whatever that reads, it is zeros. */
static int queue_copy(struct accel_rig *rig, struct bytes *bytes, char *other, bool writes)
{
	AUTO(hm_fence) *fence = NULL;

	unheard_go();
	CHECK_OK_FATAL(hm_queue_copy(rig->queue, writes ? bytes->base : other,
				     writes ? other : bytes->base, SIZE, &fence));
	return hm_fence_wait(fence, UINT64_MAX);
}

static void by_accel(const char *accel, int (*use)(struct accel_rig *rig, struct bytes *bytes,
						   char *other, bool writes))
{
	struct bytes bytes;
	struct accel_rig rig;
	char *other;
	int writes;
	size_t i;

	CHECK_OK_FATAL(hm_backend_register(&unheard_backend));
	accel_rig_open(&rig, accel, 0, 0);
	other = alloc_bytes(&rig, SIZE);
	for (i = 0; i < ARRAY_SIZE(policies); i++)
		for (writes = 0; writes < 2; writes++) {
			make(&bytes, policies[i]);
			CHECK_EQUAL(use(&rig, &bytes, other, writes), -ENODEV);
			CHECK(text_has("lost"));
			CHECK_EQUAL(bytes.told, policies[i] != NO_POLICY);
			end(&bytes);
		}
	CHECK_OK(hm_free(other));
	accel_rig_close(&rig);
}

static void by_kernel(void)
{
	by_accel("cpu", launch);
}

static void by_merged(void)
{
	by_accel("cpu", launch_merged);
}

static void by_threads(void)
{
	by_accel("cpu", queue_copy);
}

static void by_engine(void)
{
	by_accel("soft:0", queue_copy);
}

static void by_opencl(void)
{
	use_stub("");
	by_accel("opencl:0", queue_copy);
}

/* ---- how often ---- */

static int use(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return 0;
}

static unsigned int asked(void)
{
	static unsigned int before;
	unsigned int n = unheard_asked - before;

	before = unheard_asked;
	return n;
}

/* One call each, and one for work whatever of the device's it has. */
static void asked_once(void)
{
	struct hm_fence *fence;
	struct hm_kernel *kernel;
	struct bytes bytes, more;
	struct accel_rig rig;
	char *other;

	CHECK_OK_FATAL(hm_backend_register(&unheard_backend));
	AUTO(rig_handler) handler = rig_handler(0);
	accel_rig_open(&rig, "cpu", 0, 0);
	kernel = make_kernel("use", "inout in in", use);
	other = alloc_bytes(&rig, SIZE);
	make(&bytes, NO_POLICY);
	make(&more, HM_LOSS_ZERO);
	asked();
	CHECK_OK(hm_map_begin_cpu(bytes.map, 0, SIZE, HM_WRITE));
	CHECK_EQUAL(asked(), 0);
	CHECK_OK(hm_map_end_cpu(bytes.map, 0, SIZE, HM_WRITE));
	CHECK_EQUAL(asked(), 1);
	CHECK_OK(hm_copy_in(bytes.base, "bytes", 5, NULL));
	CHECK_EQUAL(asked(), 1);
	CHECK_OK(hm_copy_in(other, "bytes", 5, NULL));
	CHECK_EQUAL(asked(), 0);
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_INOUT(bytes.base),
				 HM_IN(more.base), HM_IN(bytes.base + 4096)));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK_EQUAL(asked(), 1);
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_INOUT(other), HM_IN(other),
				 HM_IN(other)));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK_EQUAL(asked(), 0);
	end(&more);
	end(&bytes);
	CHECK_OK(hm_free(other));
	hm_kernel_unref(kernel);
	accel_rig_close(&rig);
}

/* Also if the backend's device is NULL. */
static void asked_of_nothing(void)
{
	struct hm_backend_ops ops = unheard_backend;
	struct hm_kernel *kernel;
	struct hm_fence *fence;
	struct bytes bytes;
	struct accel_rig rig;

	ops.name = name = "nothing";
	ops.device_open = minimal_backend.device_open;
	CHECK_OK_FATAL(hm_backend_register(&ops));
	accel_rig_open(&rig, "cpu", 0, 0);
	kernel = make_kernel("use", "inout", use);
	make(&bytes, NO_POLICY);
	asked();
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_INOUT(bytes.base)));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK_EQUAL(asked(), 1);
	end(&bytes);
	hm_kernel_unref(kernel);
	accel_rig_close(&rig);
}

static unsigned int ops_asked;

static int ask(void *device)
{
	struct hm_device_info info;

	ops_asked++;
	return unheard_backend.device_query(device, &info);
}

/* The op is called once a bracket, and nothing is where the check is said to be enough. */
static void asked_by_op(void)
{
	struct hm_backend_ops ops = unheard_backend;
	struct bytes bytes;

	ops.name = name = "asked";
	ops.device_ask = ask;
	CHECK_OK_FATAL(hm_backend_register(&ops));
	make(&bytes, NO_POLICY);
	CHECK_OK(hm_map_begin_cpu(bytes.map, 0, SIZE, HM_READ));
	CHECK_OK(hm_map_end_cpu(bytes.map, 0, SIZE, HM_READ));
	CHECK_EQUAL(ops_asked, 1);
	CHECK_EQUAL(read_bracket(&bytes), -ENODEV);
	CHECK_EQUAL(ops_asked, 2);
	end(&bytes);
	ops.name = name = "checked";
	ops.caps &= ~HM_BACKEND_LOSS_ASK;
	ops.device_ask = NULL;
	CHECK_OK_FATAL(hm_backend_register(&ops));
	make(&bytes, NO_POLICY);
	asked();
	CHECK_EQUAL(read_bracket(&bytes), 0);
	CHECK_EQUAL(asked(), 0);
	end(&bytes);
}

static const struct test tests[] = {
	{ "by_cpu", by_cpu, 0, TEST_ONCE },
	{ "by_kernel", by_kernel, 0, TEST_ONCE },
	{ "by_merged", by_merged, 0, TEST_ONCE },
	{ "by_threads", by_threads, 0, TEST_ONCE },
	{ "by_engine", by_engine, 0, TEST_ONCE },
	{ "by_opencl", by_opencl, 0, TEST_ONCE },
	{ "asked_once", asked_once, 0, TEST_ONCE },
	{ "asked_of_nothing", asked_of_nothing, 0, TEST_ONCE },
	{ "asked_by_op", asked_by_op, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "unheard", tests)
