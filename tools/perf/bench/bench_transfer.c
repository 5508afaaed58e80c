// SPDX-License-Identifier: MIT
/* transfer_1g: data on its way to an engine, through a map or by pwrite(). */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <hetmap/sim.h>

#include "bench.h"
#include "bench_engine.h"
#include "peer.h"

#define BYTES GIB(1)
#define PART MIB(64) /* bytes of a launch: its submission stays far from the time limit */
#define FACTOR 77777u

struct transfer {
	struct engine engine;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct peer_transfer peer;
	uint32_t seed; /* seed of the next sample's words */
};

/* The producer. */
static void produce(uint32_t *words, size_t n, uint32_t seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		words[i] = seed + (uint32_t)i;
}

/* The engine's result: each word times FACTOR, where it is. */
static int compute(struct transfer *transfer)
{
	char *bytes = hm_map_address(transfer->map);
	struct hm_fence *fence = NULL;
	size_t at;
	int r = 0;

	for (at = 0; at < BYTES && !r; at += PART)
		r = hm_launch(transfer->engine.queue, transfer->engine.kernel, 1,
			      at + PART < BYTES ? NULL : &fence,
			      HM_RANGE(bytes + at, PART, HM_READ | HM_WRITE), HM_U32(FACTOR));
	if (!r)
		r = hm_fence_wait(fence, UINT64_MAX);
	hm_fence_unref(fence);
	return r;
}

static int verify(const struct transfer *transfer)
{
	const uint32_t *words = hm_map_address(transfer->map);
	size_t n = BYTES / sizeof(*words), i;

	for (i = 0; i < n; i += 4099)
		if (words[i] != (transfer->seed + (uint32_t)i) * FACTOR)
			return -EIO;
	return 0;
}

static int transfer_ours(void *user, double *ret_ns)
{
	struct transfer *transfer = user;
	double start;
	int r;

	transfer->seed++;
	start = bench_now();
	produce(hm_map_address(transfer->map), BYTES / sizeof(uint32_t), transfer->seed);
	r = compute(transfer);
	*ret_ns = bench_now() - start;
	return r ? r : verify(transfer);
}

static int transfer_peer(void *user, double *ret_ns)
{
	struct transfer *transfer = user;
	double start;
	int r;

	transfer->seed++;
	start = bench_now();
	r = peer_transfer(&transfer->peer, BYTES, transfer->seed, produce);
	if (!r)
		r = compute(transfer);
	*ret_ns = bench_now() - start;
	return r ? r : verify(transfer);
}

/* The peer writes to the very buffer, through a descriptor of its own. */
static int transfer_create(struct transfer *transfer)
{
	int fd, r;

	r = engine_map(&transfer->engine, BYTES, &transfer->buffer, &transfer->map);
	if (r)
		return r;
	r = hm_buffer_export(transfer->buffer, 0, &fd);
	if (r)
		return r;
	return peer_transfer_open(&transfer->peer, transfer->engine.name, fd);
}

static int transfer_run(const char *device)
{
	static const struct hm_engine_step scale = {
		.op = HM_ENGINE_SCALE,
		.destination = 0,
		.source = 0,
		.source2 = HM_ENGINE_NONE,
		.length = HM_ENGINE_NONE,
		.value = 1,
	};
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "scale",
		.signature = "inout u32",
		.engine = &scale,
		.n_engine = 1,
	};
	const struct bench_pair pair = {
		.name = device,
		.peer = "pwrite() of what was produced in memory",
		.ours = transfer_ours,
		.peer_side = transfer_peer,
		.rounds = 9,
		.warm_up = 1,
	};
	struct transfer transfer = { .peer.fd = -1 };
	int r;

	r = engine_open(&transfer.engine, device, pair.name, &desc);
	if (r)
		return r;
	r = transfer_create(&transfer);
	if (r == -ENOSPC || r == -ENOMEM) {
		bench_skip(pair.name, "%s", hm_errmsg());
		r = 0;
		goto out;
	}
	if (r) {
		bench_fail(pair.name, r, true);
		goto out;
	}
	r = bench_compare(&pair, &transfer, "ms", 1e6, TARGET_RATIO, 0.73);
out:
	peer_transfer_close(&transfer.peer);
	hm_map_unref(transfer.map);
	hm_buffer_unref(transfer.buffer);
	engine_close(&transfer.engine);
	return r;
}

/* The twin is for machines without the module: one under test has it. */
int bench_transfer_1g(void)
{
	int r = transfer_run("sim:0");

	if (r == -ENODEV)
		r = transfer_run("soft:0");
	return r == -ENODEV ? 0 : r;
}
