// SPDX-License-Identifier: MIT
/* launch, zero_copy: kernels against bare OpenCL on the same device. */
#include <errno.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define BYTES MIB(256)
#define N_FLOAT (BYTES / sizeof(float))

static const char empty_source[] = "__kernel void empty(void)\n{\n}\n";

static const char saxpy_source[] =
	"__kernel void saxpy(float a, __global const float *x, __global float *y)\n"
	"{\n"
	"	size_t i = get_global_id(0);\n"
	"\n"
	"	y[i] = a * x[i] + y[i];\n"
	"}\n";

struct work {
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_accel_info info;
	float *x, *y;
	double sum; /* the expected value of every y */
	struct peer_opencl *copy, *host;
};

static void work_close(struct work *work)
{
	if (work->copy)
		peer_opencl_close(work->copy);
	if (work->host)
		peer_opencl_close(work->host);
	hm_queue_unref(work->queue);
	hm_kernel_unref(work->kernel);
	hm_accel_unref(work->accel);
}

/* -ENODEV: told the user that this is skipped. */
static int work_open(struct work *work, const char *name, const char *kernel,
		     const char *source, const char *signature)
{
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = kernel,
		.opencl = source,
		.signature = signature,
	};
	int r;

	*work = (struct work){ .info.struct_size = sizeof(work->info) };
	r = hm_accel_open("opencl:0", NULL, &work->accel);
	if (r == -ENODEV) {
		bench_skip(name, "%s", hm_errmsg());
		return r;
	}
	if (!r)
		r = hm_accel_query(work->accel, &work->info);
	if (!r)
		r = hm_kernel_create(&desc, &work->kernel);
	if (!r)
		r = hm_kernel_build(work->kernel, work->accel);
	if (!r)
		r = hm_queue_create(work->accel, 0, &work->queue);
	if (r) {
		bench_fail(name, r, true);
		work_close(work);
	}
	return r;
}

static int peer_open(struct work *work, const char *kernel, const char *source,
		     struct peer_opencl **ret_peer)
{
	return peer_opencl_open(work->info.driver, work->info.description, source, kernel,
				ret_peer);
}

/* ---- launch ---- */

static int launch_ours(void *user, double *ret_ns)
{
	const uint64_t one[3] = { 1, 1, 1 };
	struct work *work = user;
	double start = bench_now();
	struct hm_fence *fence;
	int r;

	r = hm_queue_launch(work->queue, work->kernel, one, NULL, 0, &fence);
	if (r)
		return r;
	r = hm_fence_wait(fence, UINT64_MAX);
	hm_fence_unref(fence);
	*ret_ns = bench_now() - start;
	return r;
}

static int launch_peer(void *user, double *ret_ns)
{
	struct work *work = user;
	double start = bench_now();
	int r = peer_launch(work->host);

	*ret_ns = bench_now() - start;
	return r;
}

int bench_launch(void)
{
	const struct bench_pair pair = {
		.name = "empty kernel and wait",
		.peer = "clEnqueueNDRangeKernel, clFinish",
		.ours = launch_ours,
		.peer_side = launch_peer,
		.rounds = 20000,
		.warm_up = 1000,
	};
	struct work work;
	int r;

	r = work_open(&work, pair.name, "empty", empty_source, "");
	if (r)
		return r == -ENODEV ? 0 : r;
	r = peer_open(&work, "empty", empty_source, &work.host);
	if (r)
		bench_fail(pair.name, r, false);
	if (!r)
		r = bench_compare(&pair, &work, "us", 1e3, TARGET_RATIO, 1.10);
	work_close(&work);
	return r;
}

/* ---- zero_copy ---- */

/* Every SAXPY of either side adds 1 to every y. */
static int verify(struct work *work)
{
	work->sum++;
	return work->y[0] == (float)work->sum && work->y[N_FLOAT / 2] == (float)work->sum &&
			       work->y[N_FLOAT - 1] == (float)work->sum ?
		       0 :
		       -EBADMSG;
}

static int saxpy_ours(void *user, double *ret_ns)
{
	struct work *work = user;
	double start = bench_now();
	struct hm_fence *fence;
	int r;

	r = hm_launch(work->queue, work->kernel, N_FLOAT, &fence, HM_F32(1.0f), HM_IN(work->x),
		      HM_INOUT(work->y));
	if (r)
		return r;
	r = hm_fence_wait(fence, UINT64_MAX);
	hm_fence_unref(fence);
	*ret_ns = bench_now() - start;
	return r ? r : verify(work);
}

static int saxpy_copy(void *user, double *ret_ns)
{
	struct work *work = user;
	double start = bench_now();
	int r = peer_copy_saxpy(work->copy, 1.0f, work->x, work->y, BYTES);

	*ret_ns = bench_now() - start;
	return r ? r : verify(work);
}

static int saxpy_host(void *user, double *ret_ns)
{
	struct work *work = user;
	double start = bench_now();
	int r = peer_host_saxpy(work->host, 1.0f, BYTES);

	*ret_ns = bench_now() - start;
	return r ? r : verify(work);
}

static int measure_saxpy(struct work *work)
{
	struct bench_pair pair = {
		.name = "against copies",
		.peer = "write, kernel, read; persistent buffers",
		.ours = saxpy_ours,
		.peer_side = saxpy_copy,
		.rounds = 9,
		.warm_up = 2,
	};
	int r;

	r = peer_open(work, "saxpy", saxpy_source, &work->copy);
	if (!r)
		r = peer_copy_create(work->copy, BYTES);
	if (r)
		return bench_fail(pair.name, r, false);
	r = bench_compare(&pair, work, "ms", 1e6, TARGET_RATIO, 0.40);
	if (r)
		return r;

	pair.name = "against a host pointer";
	pair.peer = "CL_MEM_USE_HOST_PTR, kernel, clFinish";
	pair.peer_side = saxpy_host;
	pair.rounds = 25;
	r = peer_open(work, "saxpy", saxpy_source, &work->host);
	if (!r)
		r = peer_host_create(work->host, work->x, work->y, BYTES);
	if (r)
		return bench_fail(pair.name, r, false);
	r = bench_compare(&pair, work, "ms", 1e6, TARGET_RATIO, 1.03);
	return r;
}

int bench_zero_copy(void)
{
	const char *const name = "SAXPY";
	struct hm_device *device;
	struct work work;
	size_t i;
	int r;

	r = work_open(&work, name, "saxpy", saxpy_source, "f32 in inout");
	if (r)
		return r == -ENODEV ? 0 : r;
	r = hm_device_open("host", &device);
	if (r) {
		bench_fail(name, r, true);
		goto close_work;
	}
	r = hm_alloc(device, BYTES, HM_READ | HM_WRITE, &work.x);
	if (!r)
		r = hm_alloc(device, BYTES, HM_READ | HM_WRITE, &work.y);
	if (r) {
		bench_fail(name, r, true);
		goto free_x;
	}
	for (i = 0; i < N_FLOAT; i++)
		work.x[i] = 1.0f;
	memset(work.y, 0, BYTES);
	r = measure_saxpy(&work);
	hm_free(work.y);
free_x:
	hm_free(work.x);
	hm_device_unref(device);
close_work:
	work_close(&work);
	return r;
}
