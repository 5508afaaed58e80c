// SPDX-License-Identifier: MIT
/* sim_fault, sim_copy: the module's maps and its engine, against bare memory. */
#include <errno.h>
#include <sys/mman.h>

#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "bench.h"
#include "bench_engine.h"
#include "peer.h"

#define DEVICE "sim:0"

/* ---- sim_fault ---- */

#define FAULT_BYTES MIB(256)
#define FAULTS_MAX 600

struct fault {
	struct engine engine;
	struct hm_buffer *buffer;
	double faults; /* faults of our last sample */
};

static int faults_now(struct fault *fault, double *ret_faults)
{
	struct hetsim_counters counters = { .size = sizeof(counters) };
	int r = hm_sim_call(fault->engine.device, HETSIM_COUNTERS, &counters);

	if (!r)
		*ret_faults = (double)counters.faults;
	return r;
}

static int fault_ours(void *user, double *ret_ns)
{
	struct fault *fault = user;
	double start, before, after;
	struct hm_map *map;
	int r;

	r = hm_map_create(fault->buffer, NULL, &map);
	if (r)
		return r;
	r = faults_now(fault, &before);
	start = bench_now();
	bench_touch(hm_map_address(map), FAULT_BYTES, PAGE);
	*ret_ns = bench_now() - start;
	if (!r)
		r = faults_now(fault, &after);
	if (!r)
		fault->faults = after - before;
	hm_map_unref(map);
	return r;
}

static int fault_peer(void *user, double *ret_ns)
{
	double start;
	char *address;
	int r;

	(void)user;
	r = peer_fault_map(FAULT_BYTES, &address);
	if (r)
		return r;
	start = bench_now();
	bench_touch(address, FAULT_BYTES, PAGE);
	*ret_ns = bench_now() - start;
	peer_fault_unmap(address, FAULT_BYTES);
	return 0;
}

int bench_sim_fault(void)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = FAULT_BYTES,
	};
	const struct hm_kernel_desc none = {
		.struct_size = sizeof(none),
		.name = "nothing",
		.signature = "",
		.engine = &engine_nothing,
		.n_engine = 1,
	};
	const struct bench_pair pair = {
		.name = "256 MiB, page by page",
		.peer = "an anonymous map with MADV_NOHUGEPAGE, touched",
		.ours = fault_ours,
		.peer_side = fault_peer,
		.rounds = 15,
		.warm_up = 2,
	};
	struct bench_result faults;
	struct fault fault = { 0 };
	int r;

	r = engine_open(&fault.engine, DEVICE, pair.name, &none);
	if (r)
		return r == -ENODEV ? 0 : r;
	r = hm_buffer_create(fault.engine.device, &desc, &fault.buffer);
	if (r == -ENOSPC) {
		bench_skip(pair.name, "%s", hm_errmsg());
		r = 0;
		goto out;
	}
	if (r) {
		bench_fail(pair.name, r, true);
		goto out;
	}
	r = bench_compare(&pair, &fault, "ms", 1e6, TARGET_RATIO, 0.10);
	hm_buffer_unref(fault.buffer);
	if (r)
		goto out;
	faults = (struct bench_result){
		.name = "faults counted",
		.unit = "",
		.value = fault.faults,
		.peer = "pages touched",
		.peer_value = (double)FAULT_BYTES / PAGE,
		.kind = TARGET_VALUE,
		.target = FAULTS_MAX,
	};
	bench_report(&faults);
out:
	engine_close(&fault.engine);
	return r;
}

/* ---- sim_copy ---- */

#define COPY_BYTES MIB(64)
/* In one sample: the way to the engine's thread and back is no part of a copy. */
#define COPIES 8

struct copy {
	struct engine engine;
	struct hm_buffer *buffer[2];
	struct hm_map *map[2]; /* to, from */
	struct peer_copy peer;
};

static int copy_ours(void *user, double *ret_ns)
{
	struct copy *copy = user;
	struct hm_fence *fence;
	double start = bench_now();
	int r;

	r = hm_launch(copy->engine.queue, copy->engine.kernel, 1, &fence,
		      HM_OUT(hm_map_address(copy->map[0])),
		      HM_IN(hm_map_address(copy->map[1])));
	if (r)
		return r;
	r = hm_fence_wait(fence, UINT64_MAX);
	hm_fence_unref(fence);
	*ret_ns = (bench_now() - start) / COPIES;
	return r;
}

static int copy_peer(void *user, double *ret_ns)
{
	struct copy *copy = user;
	double ns = 0, one;
	int i, r = 0;

	for (i = 0; i < COPIES && !r; i++) {
		r = peer_copy(&copy->peer, &one);
		ns += r ? 0 : one;
	}
	*ret_ns = ns / COPIES;
	return r;
}

/* Both buffers of ours are the peer's, too. */
static int copy_create(struct copy *copy)
{
	uint32_t handle[2];
	int i, r = 0;

	for (i = 0; i < 2 && !r; i++) {
		r = engine_map(&copy->engine, COPY_BYTES, &copy->buffer[i], &copy->map[i]);
		if (!r)
			r = hm_sim_buffer(copy->buffer[i], &handle[i]);
		if (!r)
			bench_touch(hm_map_address(copy->map[i]), COPY_BYTES, PAGE);
	}
	return r ? r : peer_copy_open(&copy->peer, handle[0], handle[1]);
}

int bench_sim_copy(void)
{
	struct hm_engine_step steps[COPIES];
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "copies",
		.signature = "out in",
		.engine = steps,
		.n_engine = COPIES,
	};
	const struct bench_pair pair = {
		.name = "64 MiB",
		.peer = "memcpy() of the same pages in the module",
		.ours = copy_ours,
		.peer_side = copy_peer,
		.rounds = 15,
		.warm_up = 1,
	};
	struct copy copy = { .peer.fd = -1 };
	int i, r;

	for (i = 0; i < COPIES; i++)
		steps[i] = (struct hm_engine_step){
			.op = HM_ENGINE_COPY,
			.destination = 0,
			.source = 1,
			.source2 = HM_ENGINE_NONE,
			.length = HM_ENGINE_NONE,
			.value = HM_ENGINE_NONE,
		};
	r = engine_open(&copy.engine, DEVICE, pair.name, &desc);
	if (r)
		return r == -ENODEV ? 0 : r;
	r = copy_create(&copy);
	if (r == -EACCES || r == -ENOENT) {
		bench_skip(pair.name, "debugfs can't be used: root, and mount -t debugfs none "
				      "/sys/kernel/debug");
		r = 0;
		goto out;
	}
	if (r) {
		bench_fail(pair.name, r, true);
		goto out;
	}
	r = bench_compare(&pair, &copy, "ms", 1e6, TARGET_RATIO, 1.10);
out:
	peer_copy_close(&copy.peer);
	for (i = 0; i < 2; i++) {
		hm_map_unref(copy.map[i]);
		hm_buffer_unref(copy.buffer[i]);
	}
	engine_close(&copy.engine);
	return r;
}
