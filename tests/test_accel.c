// SPDX-License-Identifier: MIT
/* Accelerators: listing, plug-ins, the cpu's threads, fences, work in flight. */
#include <errno.h>
#include <hetmap/accel.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "accel_support.h"
#include "sys.h"

#define MS 1000000ull

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
	CHECK_EQUAL(n, 2);
	CHECK(!strcmp(infos[0].name, "opencl:0"));
	CHECK(!strcmp(infos[n - 1].name, "cpu"));
	CHECK_EQUAL(infos[n - 1].ways, 1u << HM_WAY_DIRECT);
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
	CHECK_EQUAL(n, 1);
	CHECK(!strcmp(infos[0].name, "cpu"));
}

static void platform_without_devices(void)
{
	struct hm_accel_info infos[4];
	struct hm_accel *accel;
	uint32_t n;

	use_stub("nodevice");
	infos[0].struct_size = sizeof(infos[0]);
	CHECK_OK_FATAL(hm_accel_list(infos, 4, &n));
	CHECK_EQUAL(n, 1);
	CHECK_ERROR(-ENODEV, hm_accel_open("opencl:0", NULL, &accel));
	CHECK_OK_FATAL(hm_accel_open(NULL, NULL, &accel));
	hm_accel_unref(accel);
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
	if (strcmp(rest, "0"))
		return -ENODEV;
	*ret_accel = NULL;
	return 0;
}

static void plug_close(void *accel)
{
	(void)accel;
}

static int plug_query(void *accel, struct hm_accel_info *info)
{
	(void)accel;
	info->window = 1 << 20;
	return plug_list(0, info);
}

static int plug_build(void *accel, const struct hm_kernel_desc *desc,
		      struct hm_accel_parameters *parameters, void **ret_kernel)
{
	(void)accel, (void)parameters;
	if (!strcmp(desc->name, "saxpy"))
		return hm_accel_error(-ENOEXEC, "%s is not for me", desc->name);
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

static int plug_submit(void *queue, struct hm_accel_work *work)
{
	struct hm_cpu_range range = { { 0, 0, 0 }, { 0 }, { 0 } };

	(void)queue;
	if (work->kind != HM_WORK_LAUNCH)
		return hm_accel_error(-EOPNOTSUPP, "the plug-in launches only");
	memcpy(range.end, work->grid, sizeof(range.end));
	memcpy(range.global, work->grid, sizeof(range.global));
	work->status = ((hm_cpu_function *)work->kernel)(&range, work->arg);
	return 0;
}

static int plug_wait(void *queue, struct hm_accel_work *work, uint64_t timeout_ns)
{
	(void)queue, (void)work, (void)timeout_ns;
	return 0;
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
	.queue_destroy = plug_close,
	.submit = plug_submit,
	.wait = plug_wait,
	.notify = plug_notify,
	.work_release = plug_release,
};

static void plug_in(void)
{
	struct hm_accel_ops bad = plug;
	uint32_t *p;
	struct rig rig;

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

	rig_open(&rig, "plug:0", 0, 0);
	p = alloc_bytes(&rig, 2 << 20);
	RUN(&rig, INCREMENT, 100, HM_RANGE(p, 400, HM_READ | HM_WRITE));
	CHECK_EQUAL(p[99], 1);
	CHECK_EQUAL(way_of(&rig, p, 64), HM_WAY_DIRECT);
	CHECK_ERROR(-E2BIG, hm_launch(rig.queue, rig.kernel[INCREMENT], 100, NULL, HM_INOUT(p)));
	CHECK_ERROR(-ENOEXEC, hm_kernel_build(rig.kernel[SAXPY], rig.accel));
	CHECK(text_has("not for me"));
	CHECK_ERROR(-EOPNOTSUPP, hm_queue_fill(rig.queue, p, 1, 64, NULL));
	CHECK_OK(hm_free(p));
	rig_close(&rig);
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

static struct hm_kernel *make_kernel(const char *name, const char *signature,
				     hm_cpu_function *function)
{
	struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = name,
		.cpu = function,
		.signature = signature,
	};
	struct hm_kernel *kernel;

	CHECK_OK_FATAL(hm_kernel_create(&desc, &kernel));
	return kernel;
}

static void every_item_once(void)
{
	static const uint64_t grids[][3] = {
		{ 1, 1, 1 },	  { 7, 1, 1 },	    { 1000003, 1, 1 }, { 1, 5000, 1 },
		{ 300, 200, 10 }, { 3, 3, 100000 }, { 2, 1, 3 },       { 1, 1, 65536 },
	};
	struct hm_kernel *kernel;
	struct hm_fence *fence;
	uint64_t n, k;
	uint32_t *seen;
	struct rig rig;
	size_t i;
	bool once;

	rig_open(&rig, "cpu", 0, 0);
	kernel = make_kernel("count", "inout", count_item);
	seen = alloc_bytes(&rig, 4 << 20);
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
	hm_kernel_unref(kernel);
	rig_close(&rig);
}

static void copy_and_fill(void)
{
	const uint64_t size = 5 << 20;
	struct hm_fence *fence;
	uint32_t *x, *y;
	struct rig rig;

	rig_open(&rig, "cpu", 0, 0);
	x = alloc_bytes(&rig, size);
	y = alloc_bytes(&rig, size);
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
	rig_close(&rig);
}

/* ---- fences; a gate is an unsigned int in a map that a kernel waits for ---- */

static int wait_gate(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *gate = (uint32_t *)(uintptr_t)args[0].pointer;

	(void)range;
	while (!__atomic_load_n(gate, __ATOMIC_ACQUIRE))
		usleep(200);
	gate[1]++;
	return 0;
}

static int fails(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return -ENOSPC;
}

static void open_gate(uint32_t *gate)
{
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

static void timeouts_and_polls(void)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct hm_kernel *kernel;
	struct hm_fence *fence;
	struct pollfd poll_fd;
	uint32_t *gate;
	struct rig rig;
	int fd, late;

	rig_open(&rig, "cpu", 0, 0);
	kernel = make_kernel("gate", "inout", wait_gate);
	gate = alloc_bytes(&rig, 4096);
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_INOUT(gate)));
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 0));
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 5 * MS));
	CHECK_OK(hm_fence_query(fence, &info));
	CHECK_EQUAL(info.done, 0);
	CHECK_EQUAL(info.way_in, HM_WAY_DIRECT);
	CHECK_OK_FATAL(hm_fence_fd(fence, &fd));
	poll_fd = (struct pollfd){ fd, POLLIN, 0 };
	CHECK_EQUAL(poll(&poll_fd, 1, 5), 0);
	open_gate(gate);
	CHECK_EQUAL(poll(&poll_fd, 1, 5000), 1);
	CHECK_OK(hm_fence_wait(fence, 0));
	CHECK_EQUAL(gate[1], 1);
	/* Asked for when all is over, too. */
	CHECK_OK_FATAL(hm_fence_fd(fence, &late));
	poll_fd.fd = late;
	CHECK_EQUAL(poll(&poll_fd, 1, 0), 1);
	close(fd);
	close(late);
	finish(fence);
	hm_kernel_unref(kernel);
	CHECK_OK(hm_free(gate));
	rig_close(&rig);
}

static void *wait_in_thread(void *user)
{
	return (void *)(intptr_t)hm_fence_wait(user, UINT64_MAX);
}

static void failure_reaches_all(void)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct hm_kernel *gate_kernel, *kernel;
	struct hm_fence *gate_fence, *fence;
	pthread_t threads[3];
	uint32_t *gate;
	struct rig rig;
	void *result;
	int i;

	rig_open(&rig, "cpu", 0, 0);
	gate_kernel = make_kernel("gate", "inout", wait_gate);
	kernel = make_kernel("disk_full", "", fails);
	gate = alloc_bytes(&rig, 4096);
	CHECK_OK_FATAL(hm_launch(rig.queue, gate_kernel, 1, &gate_fence, HM_INOUT(gate)));
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 100000, &fence));
	for (i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, wait_in_thread, fence);
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 2 * MS));
	open_gate(gate);
	for (i = 0; i < 3; i++) {
		pthread_join(threads[i], &result);
		CHECK_EQUAL((intptr_t)result, -ENOSPC);
	}
	CHECK_ERROR(-ENOSPC, hm_fence_wait(fence, UINT64_MAX));
	CHECK(text_has("disk_full") && text_has("ENOSPC"));
	CHECK_OK(hm_fence_query(fence, &info));
	CHECK_EQUAL(info.status, -ENOSPC);
	hm_fence_unref(fence);
	finish(gate_fence);
	hm_kernel_unref(gate_kernel);
	hm_kernel_unref(kernel);
	CHECK_OK(hm_free(gate));
	rig_close(&rig);
}

static int open_next_gate(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	open_gate((uint32_t *)(uintptr_t)args[0].pointer);
	return 0;
}

/* One queue keeps its order; what waits in it does not hold up another. */
static void queues_are_parallel(void)
{
	struct hm_kernel *waits, *opens;
	struct hm_fence *first, *second;
	struct hm_queue *other;
	uint32_t *gate, *unused;
	struct rig rig;

	rig_open(&rig, "cpu", 0, 0);
	waits = make_kernel("gate", "inout", wait_gate);
	opens = make_kernel("open", "out", open_next_gate);
	CHECK_OK_FATAL(hm_queue_create(rig.accel, 0, &other));
	gate = alloc_bytes(&rig, 4096);
	unused = alloc_bytes(&rig, 4096);
	CHECK_OK_FATAL(hm_launch(rig.queue, waits, 1, &first, HM_INOUT(gate)));
	CHECK_OK_FATAL(hm_launch(rig.queue, opens, 1, &second, HM_OUT(unused)));
	CHECK_ERROR(-ETIME, hm_fence_wait(second, 5 * MS));
	CHECK_EQUAL(*unused, 0);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		CHECK_OK_FATAL(hm_launch(other, opens, 1, NULL, HM_OUT(gate)));
	else
		open_gate(gate);
	finish(first);
	finish(second);
	CHECK_EQUAL(*unused, 1);
	hm_kernel_unref(waits);
	hm_kernel_unref(opens);
	CHECK_OK(hm_free(gate));
	CHECK_OK(hm_free(unused));
	hm_queue_unref(other);
	rig_close(&rig);
}

/* ---- work in flight ---- */

static void work_keeps_its_maps(void)
{
	struct hm_kernel *kernel;
	struct hm_fence *fence;
	uint64_t maps = stats_now().maps;
	struct hm_pointer_info info;
	uint32_t *gate, *x;
	struct rig rig;

	rig_open(&rig, "cpu", 0, 0);
	kernel = make_kernel("gate", "inout inout", wait_gate);
	gate = alloc_bytes(&rig, 4096);
	x = alloc_bytes(&rig, 4096);
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_INOUT(gate), HM_INOUT(x)));
	CHECK_OK(hm_free(x));
	hm_kernel_unref(kernel);
	x[5] = 1;
	CHECK_EQUAL(stats_now().maps, maps + 2);
	open_gate(gate);
	finish(fence);
	CHECK_EQUAL(stats_now().maps, maps + 1);
	CHECK_EQUAL(hm_pointer_find(x, &info), -ENOENT);
	CHECK_OK(hm_free(gate));
	rig_close(&rig);
}

static void *resize_in_thread(void *user)
{
	void *moved;

	return (void *)(intptr_t)hm_realloc(user, 1 << 20, 0, &moved);
}

static void changes_wait_for_work(void)
{
	struct hm_kernel *kernel;
	struct hm_pointer_info info;
	pthread_t thread;
	uint32_t *gate;
	struct rig rig;
	void *result;

	rig_open(&rig, "cpu", 0, 0);
	kernel = make_kernel("gate", "inout", wait_gate);
	gate = alloc_bytes(&rig, 2 << 20);
	/* Nobody holds this fence: the change itself completes the work. */
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, NULL, HM_INOUT(gate)));
	pthread_create(&thread, NULL, resize_in_thread, gate);
	usleep(20000);
	CHECK_OK(hm_pointer_find(gate, &info));
	CHECK_EQUAL(info.length, 2 << 20);
	CHECK_ERROR(-EBUSY, hm_launch(rig.queue, kernel, 1, NULL, HM_INOUT(gate)));
	open_gate(gate);
	pthread_join(thread, &result);
	CHECK_EQUAL((intptr_t)result, 0);
	CHECK_OK(hm_pointer_find(gate, &info));
	CHECK_EQUAL(info.length, 1 << 20);
	CHECK_EQUAL(gate[1], 1);
	RUN(&rig, INCREMENT, 16, HM_INOUT(gate));
	hm_kernel_unref(kernel);
	CHECK_OK(hm_free(gate));
	rig_close(&rig);
}

static void brackets_wait_for_work(void)
{
	struct hm_pointer_info info;
	struct hm_kernel *kernel;
	uint32_t *gate, *far;
	struct rig rig;

	rig_open(&rig, "cpu", 0, 0);
	kernel = make_kernel("gate", "in", wait_gate);
	gate = alloc_bytes(&rig, 1 << 20);
	far = gate + (1 << 17);
	CHECK_OK(hm_pointer_find(gate, &info));
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, NULL, HM_RANGE(gate, 4096, HM_READ)));
	/* Another range, and reading what is read, need not wait. */
	CHECK_OK(hm_map_begin_cpu(info.map, (char *)far - (char *)gate, 4096, HM_WRITE));
	CHECK_OK(hm_map_end_cpu(info.map, (char *)far - (char *)gate, 4096, HM_WRITE));
	CHECK_OK(hm_map_begin_cpu(info.map, 0, 4096, HM_READ));
	CHECK_OK(hm_map_end_cpu(info.map, 0, 4096, HM_READ));
	open_gate(gate);
	CHECK_OK(hm_map_begin_cpu(info.map, 0, 4096, HM_WRITE));
	CHECK_EQUAL(gate[1], 1);
	CHECK_EQUAL(map_info(info.map, 0).in_flight, 0);
	CHECK_OK(hm_map_end_cpu(info.map, 0, 4096, HM_WRITE));
	hm_kernel_unref(kernel);
	CHECK_OK(hm_free(gate));
	rig_close(&rig);
}

/* Any order of unref, with work in flight. */
static void unref_in_any_order(void)
{
	struct hm_kernel *kernel;
	struct hm_fence *fence, *ended;
	uint32_t *gate, *x;
	struct rig rig;
	int order;

	for (order = 0; order < 4; order++) {
		rig_open(&rig, "cpu", 0, 0);
		kernel = make_kernel("gate", "in", wait_gate);
		gate = alloc_bytes(&rig, 4096);
		x = alloc_bytes(&rig, 4096);
		open_gate(gate);
		CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &ended, HM_IN(gate)));
		CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_IN(gate)));
		if (order & 1) {
			hm_kernel_unref(kernel);
			CHECK_OK(hm_free(gate));
		}
		if (order & 2)
			hm_fence_unref(fence);
		rig_close(&rig);
		CHECK_OK(hm_fence_wait(ended, 0));
		hm_fence_unref(ended);
		if (!(order & 2))
			finish(fence);
		if (!(order & 1)) {
			hm_kernel_unref(kernel);
			CHECK_OK(hm_free(gate));
		}
		CHECK_OK(hm_free(x));
	}
}

#define THREADS 4
#define LAUNCHES 200

static void *launch_in_thread(void *user)
{
	struct rig *rig = user;
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
	struct rig rig;
	void *result;
	int i;

	rig_open(&rig, accel, 0, 0);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, launch_in_thread, &rig);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		CHECK(!result);
	}
	rig_close(&rig);
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
	struct rig *rig;
	struct hm_fence *fence;
	void *p;
};

static void in_the_child(void *user)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct parents *parents = user;
	struct rig *theirs = parents->rig, ours;
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
	rig_close(theirs);

	rig_open(&ours, "cpu", 0, 0);
	p = alloc_bytes(&ours, 1 << 20);
	RUN(&ours, INCREMENT, 1 << 18, HM_INOUT(p));
	CHECK_EQUAL(p[(1 << 18) - 1], 1);
	CHECK_OK(hm_free(p));
	rig_close(&ours);
}

static void fork_with_work(const char *accel)
{
	struct parents parents;
	uint32_t *p;
	struct rig rig;

	rig_open(&rig, accel, 0, 0);
	p = alloc_bytes(&rig, 4096);
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &parents.fence,
				 HM_INOUT(p)));
	parents.rig = &rig;
	parents.p = p;
	CHECK_EQUAL(test_fork(in_the_child, &parents), 0);
	finish(parents.fence);
	CHECK_EQUAL(p[3], 1);
	CHECK_OK(hm_free(p));
	rig_close(&rig);
}

static void fork_cpu(void)
{
	fork_with_work("cpu");
}

static void fork_opencl(void)
{
	use_stub("");
	fork_with_work("opencl:0");
}

/* ---- what a launch must not do ---- */

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
	uint32_t *x, *y;
	struct rig rig;
	int i;

	rig_open(&rig, accel, 0, 0);
	x = alloc_bytes(&rig, 4096);
	y = alloc_bytes(&rig, 4096);
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
	rig_close(&rig);
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
	{ "plug_in", plug_in, 0, TEST_ONCE },
	{ "every_item_once", every_item_once, 0, 0 },
	{ "copy_and_fill", copy_and_fill, 0, 0 },
	{ "timeouts_and_polls", timeouts_and_polls, 0, 0 },
	{ "failure_reaches_all", failure_reaches_all, 0, 0 },
	{ "queues_are_parallel", queues_are_parallel, 0, 0 },
	{ "work_keeps_its_maps", work_keeps_its_maps, 0, 0 },
	{ "changes_wait_for_work", changes_wait_for_work, 0, 0 },
	{ "brackets_wait_for_work", brackets_wait_for_work, 0, 0 },
	{ "unref_in_any_order", unref_in_any_order, 0, 0 },
	{ "threads_cpu", threads_cpu, 0, 0 },
	{ "threads_stub", threads_stub, 0, 0 },
	{ "threads_pocl", threads_pocl, 60, 0 },
	{ "fork_cpu", fork_cpu, 0, 0 },
	{ "fork_opencl", fork_opencl, 0, 0 },
	{ "no_allocation_cpu", no_allocation_cpu, 0, 0 },
	{ "no_allocation_opencl", no_allocation_opencl, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "accel", tests);
}
