// SPDX-License-Identifier: MIT
/* Accelerators: listing, plug-ins, the cpu's grids, threads, fork. */
#include <errno.h>
#include <hetmap/accel_ops.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "base/sys.h"

/* ---- listing and opening ---- */

static void list_and_open(void)
{
	struct hm_accel_info infos[9], info = { .struct_size = sizeof(info) };
	struct hm_accel_desc desc = { .struct_size = sizeof(desc) };
	struct hm_accel *accel = NULL;
	uint32_t n, again, i;

	use_stub("");
	infos[0].struct_size = sizeof(infos[0]);
	CHECK_OK_FATAL(hm_accel_list(infos, 8, &n));
	CHECK_OK(hm_accel_list(NULL, 0, &again));
	CHECK_EQUAL(n, again);
	CHECK_FATAL(n >= 3 && n <= 8);
	CHECK(!strcmp(infos[0].name, "opencl:0"));
	CHECK(!strcmp(infos[1].name, "cpu"));
	CHECK_EQUAL(infos[1].ways, 1u << HM_WAY_DIRECT);
	/* Engines are used only by name. */
	for (i = 2; i < n; i++)
		CHECK_EQUAL(infos[i].kind, HM_ACCEL_ENGINE);
	CHECK(!strcmp(infos[n - 1].name, "soft:0"));
	CHECK_ERROR(-EINVAL, hm_accel_list(infos, 8, NULL));
	CHECK_ERROR(-EINVAL, hm_accel_list(NULL, 8, &n));
	infos[0].struct_size = 3;
	CHECK_ERROR(-EINVAL, hm_accel_list(infos, 8, &n));

	for (i = 0; i < n; i++) {
		CHECK_OK_FATAL(hm_accel_open(i ? infos[i].name : NULL, NULL, &accel));
		CHECK_OK(hm_accel_query(accel, &info));
		CHECK(!strcmp(info.name, infos[i].name));
		CHECK_EQUAL(info.ways, infos[i].ways);
		hm_accel_unref(accel);
	}
	CHECK_ERROR(-ENODEV, hm_accel_open("opencl:9", NULL, &accel));
	CHECK(text_has("opencl:0, cpu"));
	CHECK_ERROR(-ENODEV, hm_accel_open("opencl:0x", NULL, &accel));
	CHECK_ERROR(-ENODEV, hm_accel_open("opencl:-1", NULL, &accel));
	CHECK_ERROR(-ENODEV, hm_accel_open("cpu:1", NULL, &accel));
	CHECK_ERROR(-ENODEV, hm_accel_open("soft:16", NULL, &accel));
	CHECK_ERROR(-ENODEV, hm_accel_open("soft:x", NULL, &accel));
	CHECK_ERROR(-ENODEV, hm_accel_open("sim:99", NULL, &accel));
	CHECK_OK_FATAL(hm_accel_open("soft", NULL, &accel));
	CHECK_OK(hm_accel_query(accel, &info));
	CHECK(!strcmp(info.name, "soft:0"));
	hm_accel_unref(accel);
	CHECK_ERROR(-ENODEV, hm_accel_open("fpga", NULL, &accel));
	CHECK_ERROR(-ENODEV, hm_accel_open("", NULL, &accel));
	CHECK_ERROR(-EINVAL, hm_accel_open("cpu", NULL, NULL));
	desc.flags = 1u << 30;
	CHECK_ERROR(-EINVAL, hm_accel_open("cpu", &desc, &accel));
	desc.flags = HM_ACCEL_FORCE_COPY | HM_ZERO_COPY_ONLY;
	CHECK_ERROR(-EINVAL, hm_accel_open("cpu", &desc, &accel));
	desc.flags = 0;
	desc.window = 100;
	CHECK_ERROR(-EINVAL, hm_accel_open("opencl:0", &desc, &accel));
	CHECK_ERROR(-EINVAL, hm_accel_query(NULL, &info));
}

static void no_platform(void)
{
	struct hm_accel_info infos[4];
	uint32_t n;

	setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
	infos[0].struct_size = sizeof(infos[0]);
	CHECK_OK_FATAL(hm_accel_list(infos, 4, &n));
	CHECK(n >= 2 && infos[1].kind == HM_ACCEL_ENGINE);
	CHECK(!strcmp(infos[0].name, "cpu"));
}

static void platform_without_devices(void)
{
	struct hm_accel_info infos[4];
	AUTO(hm_accel) *accel = NULL;
	uint32_t n;

	use_stub("nodevice");
	infos[0].struct_size = sizeof(infos[0]);
	CHECK_OK_FATAL(hm_accel_list(infos, 4, &n));
	CHECK(n >= 2 && !strcmp(infos[0].name, "cpu"));
	CHECK_ERROR(-ENODEV, hm_accel_open("opencl:0", NULL, &accel));
	CHECK_OK_FATAL(hm_accel_open(NULL, NULL, &accel));
	CHECK_OK(hm_accel_query(accel, &infos[0]));
	CHECK(!strcmp(infos[0].name, "cpu"));
}

/* Without an OpenCL driver the best accelerator is cpu, and the failure tells the remedy. */
static void opencl_only_without_driver(void)
{
	AUTO(hm_accel) *accel = NULL;
	AUTO(hm_kernel) *kernel = NULL;

	setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
	CHECK_OK_FATAL(hm_accel_open(NULL, NULL, &accel));
	CHECK_OK_FATAL(
		hm_kernel_create(DESC(hm_kernel_desc, .name = "f",
				      .opencl = "kernel void f(global int *p) { p[0] = 1; }"),
				 &kernel));
	CHECK_ERROR(-EOPNOTSUPP, hm_kernel_build(kernel, accel));
	CHECK(text_has("it has \"opencl\": give the kernel a CPU function, too"));
	CHECK(text_has("hetmap doctor"));
}

/* ---- a plug-in: it runs the CPU form in the calling thread ---- */

static int plug_list(uint32_t index, struct hm_accel_info *info)
{
	if (index)
		return -ENODEV;
	snprintf(info->name, sizeof(info->name), "plug:0");
	return 0;
}

static int plug_open(const char *rest, const struct hm_accel_desc *desc, void **ret_accel)
{
	(void)desc;
	if (strcmp(rest, "0") != 0)
		return -ENODEV;
	*ret_accel = NULL;
	return 0;
}

static void plug_close(void *accel)
{
	(void)accel;
}

static bool plug_broken, plug_deaf;

static int plug_query(void *accel, struct hm_accel_info *info)
{
	(void)accel;
	if (plug_broken)
		return hm_error_set(-EIO, "the plug-in is broken");
	info->window = 1 << 20;
	return plug_list(0, info);
}

static int plug_build(void *accel, const struct hm_kernel_desc *desc,
		      struct hm_accel_parameters *parameters, void **ret_kernel)
{
	(void)accel, (void)parameters;
	if (!strcmp(desc->name, "saxpy"))
		return hm_error_set(-ENOEXEC, "%s is not for me", desc->name);
	*ret_kernel = (void *)desc->cpu;
	return 0;
}

static void plug_free(void *accel, void *kernel)
{
	(void)accel, (void)kernel;
}

static int plug_queue(void *accel, void **ret_queue)
{
	*ret_queue = accel;
	return 0;
}

/* A wait without a limit that meets HOLD stays in there as long as it is HELD. */
enum { LET_GO, HOLD, HELD };
static _Atomic int plug_holds;
static bool plug_destroyed_early;

static void plug_queue_end(void *queue)
{
	(void)queue;
	plug_destroyed_early |= atomic_load(&plug_holds) == HELD;
}

static int plug_submit(void *queue, struct hm_accel_work *work)
{
	struct hm_cpu_range range = { { 0, 0, 0 }, { 0 }, { 0 } };

	(void)queue;
	if (work->kind != HM_WORK_LAUNCH)
		return hm_error_set(-EOPNOTSUPP, "the plug-in launches only");
	memcpy(range.end, work->grid, sizeof(range.end));
	memcpy(range.global, work->grid, sizeof(range.global));
	work->status = ((hm_cpu_function *)work->kernel)(&range, work->arg);
	return 0;
}

static int plug_wait(void *queue, struct hm_accel_work *work, uint64_t timeout_ns)
{
	int hold = HOLD;

	(void)queue, (void)work;
	if (timeout_ns == UINT64_MAX &&
	    atomic_compare_exchange_strong(&plug_holds, &hold, HELD))
		while (atomic_load(&plug_holds) == HELD)
			usleep(1000);
	return plug_deaf ? hm_error_set(-EIO, "nobody answers") : 0;
}

static int plug_notify(void *queue, struct hm_accel_work *work, void (*call)(void *user),
		       void *user)
{
	(void)queue, (void)work;
	call(user);
	return 0;
}

static void plug_release(struct hm_accel_work *work)
{
	(void)work;
}

static const struct hm_accel_ops plug = {
	.size = offsetof(struct hm_accel_ops, view_create),
	.name = "plug",
	.form = "cpu",
	.list = plug_list,
	.open = plug_open,
	.close = plug_close,
	.query = plug_query,
	.kernel_build = plug_build,
	.kernel_free = plug_free,
	.queue_create = plug_queue,
	.queue_destroy = plug_queue_end,
	.submit = plug_submit,
	.wait = plug_wait,
	.notify = plug_notify,
	.work_release = plug_release,
};

static void plug_in(void)
{
	struct hm_accel_ops bad = plug;
	struct hm_pointer_info info;
	struct hm_accel *accel;
	struct hm_fence *fence;
	uint32_t *p;
	AUTO(accel_rig) rig = { 0 };

	CHECK_ERROR(-EINVAL, hm_accel_register(NULL));
	bad.wait = NULL;
	CHECK_ERROR(-EINVAL, hm_accel_register(&bad));
	CHECK(text_has("wait"));
	bad = plug;
	bad.size = sizeof(bad);
	bad.view_create = (void *)plug_close;
	CHECK_ERROR(-EINVAL, hm_accel_register(&bad));
	CHECK(text_has("view_destroy"));
	bad = plug;
	bad.size = 16;
	CHECK_ERROR(-EINVAL, hm_accel_register(&bad));
	bad.size = sizeof(bad) + 8;
	CHECK_ERROR(-E2BIG, hm_accel_register(&bad));
	bad = plug;
	bad.name = "cpu";
	CHECK_ERROR(-EEXIST, hm_accel_register(&bad));
	CHECK_OK_FATAL(hm_accel_register(&plug));
	CHECK_ERROR(-EEXIST, hm_accel_register(&plug));

	plug_broken = true;
	CHECK_ERROR(-EIO, hm_accel_open("plug:0", NULL, &accel));
	plug_broken = false;
	accel_rig_open(&rig, "plug:0", 0, 0);
	p = alloc_bytes(&rig, 2 << 20);
	RUN(&rig, INCREMENT, 100, HM_RANGE(p, 400, HM_READ | HM_WRITE));
	CHECK_EQUAL(p[99], 1);
	CHECK_EQUAL(way_of(&rig, p, 64), HM_WAY_DIRECT);
	CHECK_ERROR(-E2BIG,
		    hm_launch(rig.queue, rig.kernel[INCREMENT], 100, NULL, HM_INOUT(p)));
	CHECK_ERROR(-ENOEXEC, hm_kernel_build(rig.kernel[SAXPY], rig.accel));
	CHECK(text_has("not for me"));
	CHECK_ERROR(-EOPNOTSUPP, hm_queue_fill(rig.queue, p, 1, 64, NULL));
	/* One that can't be waited for is not asked for ever. */
	CHECK_OK_FATAL(hm_pointer_find(p, &info));
	plug_deaf = true;
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[INCREMENT], 100, &fence,
				 HM_RANGE(p, 400, HM_READ | HM_WRITE)));
	CHECK_ERROR(-EIO, hm_fence_wait(fence, UINT64_MAX));
	CHECK_ERROR(-EINPROGRESS, hm_map_begin_cpu(info.map, 0, 400, HM_READ));
	CHECK(text_has("nobody answers"));
	CHECK_ERROR(-EBUSY, hm_map_protect(info.map, 0, 4096, HM_READ));
	plug_deaf = false;
	finish(fence);
	CHECK_OK(hm_map_protect(info.map, 0, 4096, HM_READ));
	CHECK_OK(hm_free(p));
}

static void *wait_for_ever(void *fence)
{
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	return NULL;
}

static void *let_go(void *unused)
{
	usleep(50000);
	atomic_store(&plug_holds, LET_GO);
	return unused;
}

/* The work of a queue is done, and a thread that waited for it is still in the driver. */
static void end_under_a_waiter(void)
{
	pthread_t waiter, helper;
	AUTO(hm_fence) *fence = NULL;
	struct accel_rig rig;
	uint32_t *p;

	CHECK_OK_FATAL(hm_accel_register(&plug));
	accel_rig_open(&rig, "plug:0", 0, 0);
	p = alloc_bytes(&rig, 4096);
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[INCREMENT], 100, &fence,
				 HM_RANGE(p, 400, HM_READ | HM_WRITE)));
	atomic_store(&plug_holds, HOLD);
	CHECK_FATAL(!pthread_create(&waiter, NULL, wait_for_ever, fence));
	while (atomic_load(&plug_holds) == HOLD)
		usleep(1000);
	CHECK_FATAL(!pthread_create(&helper, NULL, let_go, NULL));
	CHECK_OK(hm_free(p));
	accel_rig_close(&rig);
	CHECK(!plug_destroyed_early);
	pthread_join(helper, NULL);
	pthread_join(waiter, NULL);
}

/* ---- the cpu's grids ---- */

static int count_item(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *seen = (uint32_t *)(uintptr_t)args[0].pointer;
	uint64_t i, j, k;

	for (k = range->begin[2]; k < range->end[2]; k++)
		for (j = range->begin[1]; j < range->end[1]; j++)
			for (i = range->begin[0]; i < range->end[0]; i++)
				seen[(k * range->global[1] + j) * range->global[0] + i]++;
	return 0;
}

static void every_item_once(void)
{
	static const uint64_t grids[][3] = {
		{ 1, 1, 1 },      { 7, 1, 1 },      { 1000003, 1, 1 }, { 1, 5000, 1 },
		{ 300, 200, 10 }, { 3, 3, 100000 }, { 2, 1, 3 },       { 1, 1, 65536 },
	};
	struct hm_fence *fence;
	uint64_t n, k;
	size_t i;
	bool once;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_kernel) *kernel = make_kernel("count", "inout", count_item);
	uint32_t *seen = alloc_bytes(&rig, 4 << 20);

	for (i = 0; i < sizeof(grids) / sizeof(grids[0]); i++) {
		const struct hm_arg arg = HM_INOUT(seen);

		n = grids[i][0] * grids[i][1] * grids[i][2];
		memset(seen, 0, 4 << 20);
		CHECK_OK_FATAL(hm_queue_launch(rig.queue, kernel, grids[i], &arg, 1, &fence));
		finish(fence);
		for (k = 0, once = true; k < n; k++)
			once &= seen[k] == 1;
		CHECK(once);
		CHECK_EQUAL(seen[n], 0);
	}
	CHECK_OK(hm_free(seen));
}

static _Atomic unsigned int n_call;

static int count_call(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)args;
	n_call += range->end[0] > range->begin[0];
	return 0;
}

/* Few items with much to do are shared out, too; few with little are not. */
static void few_items(void)
{
	static const uint64_t grid[3] = { 16, 1, 1 };
	struct hm_fence *fence;
	int i;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_kernel) *kernel = make_kernel("count", "in", count_call);
	uint32_t *bytes = alloc_bytes(&rig, 64 << 20);

	for (i = 0; i < 2; i++) {
		const struct hm_arg arg = HM_RANGE(bytes, i ? 4096 : 64 << 20, HM_READ);

		n_call = 0;
		CHECK_OK_FATAL(hm_queue_launch(rig.queue, kernel, grid, &arg, 1, &fence));
		finish(fence);
		CHECK(i ? n_call == 1 : n_call >= 4 && n_call <= 16);
	}
	CHECK_OK(hm_free(bytes));
}

static void copy_and_fill(void)
{
	const uint64_t size = 5 << 20;
	struct hm_fence *fence;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	uint32_t *x = alloc_bytes(&rig, size);
	uint32_t *y = alloc_bytes(&rig, size);

	CHECK_OK_FATAL(hm_queue_fill(rig.queue, x + 1, 0xabcd1234, size - 8, NULL));
	CHECK_OK_FATAL(hm_queue_copy(rig.queue, y, x, size, &fence));
	finish(fence);
	CHECK_EQUAL(x[0], 0);
	CHECK_EQUAL(y[1], 0xabcd1234);
	CHECK_EQUAL(y[size / 4 - 2], 0xabcd1234);
	CHECK_EQUAL(y[size / 4 - 1], 0);
	CHECK(!memcmp(x, y, size));
	CHECK_OK(hm_free(x));
	CHECK_OK(hm_free(y));
}

#define THREADS 4
#define LAUNCHES 200

static void *launch_in_thread(void *user)
{
	struct accel_rig *rig = user;
	struct hm_fence *fence;
	uint32_t *p;
	int i;

	if (hm_alloc(rig->host, 4096, HM_READ | HM_WRITE, &p))
		return user;
	for (i = 0; i < LAUNCHES; i++) {
		if (hm_launch(rig->queue, rig->kernel[INCREMENT], 16, i % 3 ? &fence : NULL,
			      HM_INOUT(p)))
			return user;
		if (i % 3) {
			if (i % 2 && hm_fence_wait(fence, UINT64_MAX))
				return user;
			hm_fence_unref(fence);
		}
	}
	if (hm_launch(rig->queue, rig->kernel[EMPTY], 1, &fence) ||
	    hm_fence_wait(fence, UINT64_MAX))
		return user;
	hm_fence_unref(fence);
	return p[0] == LAUNCHES && p[15] == LAUNCHES && !hm_free(p) ? NULL : user;
}

static void threads_on_one_queue(const char *accel)
{
	pthread_t threads[THREADS];
	void *result;
	int i;
	AUTO(accel_rig) rig = accel_rig_make(accel, 0, 0);

	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, launch_in_thread, &rig);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		CHECK(!result);
	}
}

static void threads_cpu(void)
{
	threads_on_one_queue("cpu");
}

static void threads_stub(void)
{
	use_stub("");
	threads_on_one_queue("opencl:0");
}

static void threads_pocl(void)
{
	if (use_pocl("pthread"))
		threads_on_one_queue("opencl:0");
}

/* ---- fork ---- */

struct parents {
	struct accel_rig *rig;
	struct hm_fence *fence;
	void *p;
};

static void in_the_child(void *user)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct parents *parents = user;
	struct accel_rig *theirs = parents->rig, ours;
	struct hm_queue *queue;
	struct hm_fence *fence;
	uint32_t *p;
	int fd;

	CHECK_ERROR(-EOWNERDEAD, hm_queue_create(theirs->accel, 0, &queue));
	CHECK_ERROR(-EOWNERDEAD, hm_launch(theirs->queue, theirs->kernel[EMPTY], 1, &fence));
	CHECK_ERROR(-EOWNERDEAD, hm_kernel_build(theirs->kernel[SAXPY], theirs->accel));
	CHECK_ERROR(-EOWNERDEAD, hm_fence_wait(parents->fence, UINT64_MAX));
	CHECK_ERROR(-EOWNERDEAD, hm_fence_query(parents->fence, &info));
	CHECK_ERROR(-EOWNERDEAD, hm_fence_fd(parents->fence, &fd));
	hm_fence_unref(parents->fence);
	CHECK_ERROR(-EOWNERDEAD, hm_free(parents->p));
	accel_rig_close(theirs);

	accel_rig_open(&ours, "cpu", 0, 0);
	p = alloc_bytes(&ours, 1 << 20);
	RUN(&ours, INCREMENT, 1 << 18, HM_INOUT(p));
	CHECK_EQUAL(p[(1 << 18) - 1], 1);
	CHECK_OK(hm_free(p));
	accel_rig_close(&ours);
}

static void fork_with_work(const char *accel)
{
	struct parents parents;
	AUTO(accel_rig) rig = accel_rig_make(accel, 0, 0);
	uint32_t *p = alloc_bytes(&rig, 4096);

	CHECK_OK_FATAL(
		hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &parents.fence, HM_INOUT(p)));
	parents.rig = &rig;
	parents.p = p;
	CHECK_EQUAL(test_fork(in_the_child, &parents), 0);
	finish(parents.fence);
	CHECK_EQUAL(p[3], 1);
	CHECK_OK(hm_free(p));
}

static void fork_cpu(void)
{
	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "its run time does not survive a fork beside threads");
		return;
	}
	fork_with_work("cpu");
}

static void fork_opencl(void)
{
	use_stub("");
	fork_with_work("opencl:0");
}

/* ---- launches without allocation ---- */

static unsigned int n_calloc, n_eventfd;

static void *count_calloc(size_t n, size_t size)
{
	n_calloc++;
	return calloc(n, size);
}

static int count_eventfd(unsigned int value, int flags)
{
	(void)value, (void)flags;
	n_eventfd++;
	return -1;
}

static void launches_allocate_nothing(const char *accel)
{
	struct sys_table table = sys_table;
	int i;
	AUTO(accel_rig) rig = accel_rig_make(accel, 0, 0);
	uint32_t *x = alloc_bytes(&rig, 4096);
	uint32_t *y = alloc_bytes(&rig, 4096);

	RUN(&rig, SAXPY, 16, HM_F32(1), HM_IN(x), HM_INOUT(y));
	sys_table.calloc = count_calloc;
	sys_table.eventfd = count_eventfd;
	n_calloc = n_eventfd = 0;
	for (i = 0; i < 100; i++)
		RUN(&rig, SAXPY, 16, HM_F32(1), HM_IN(x), HM_INOUT(y));
	CHECK_EQUAL(n_calloc, 0);
	CHECK_EQUAL(n_eventfd, 0);
	sys_table = table;
	CHECK_OK(hm_free(x));
	CHECK_OK(hm_free(y));
}

static void no_allocation_cpu(void)
{
	launches_allocate_nothing("cpu");
}

static void no_allocation_opencl(void)
{
	use_stub("");
	launches_allocate_nothing("opencl:0");
}

static const struct test tests[] = {
	{ "list_and_open", list_and_open, 0, 0 },
	{ "no_platform", no_platform, 0, 0 },
	{ "platform_without_devices", platform_without_devices, 0, 0 },
	{ "opencl_only_without_driver", opencl_only_without_driver, 0, 0 },
	{ "end_under_a_waiter", end_under_a_waiter, 0, TEST_ONCE },
	{ "plug_in", plug_in, 0, TEST_ONCE },
	{ "every_item_once", every_item_once, 0, 0 },
	{ "few_items", few_items, 0, 0 },
	{ "copy_and_fill", copy_and_fill, 0, 0 },
	{ "threads_cpu", threads_cpu, 0, 0 },
	{ "threads_stub", threads_stub, 0, 0 },
	{ "threads_pocl", threads_pocl, 60, 0 },
	{ "fork_cpu", fork_cpu, 0, 0 },
	{ "fork_opencl", fork_opencl, 0, 0 },
	{ "no_allocation_cpu", no_allocation_cpu, 0, 0 },
	{ "no_allocation_opencl", no_allocation_opencl, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "accel", tests)
