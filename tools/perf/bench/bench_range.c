// SPDX-License-Identifier: MIT
/*
 * Any pointers: mirror_idle, mirror_fault, invalidate on sim:0 and soft:0, and prefetch_gain, the
 * prefetch that learns, on files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "bench_engine.h"
#include "bench_options.h"
#include "peer.h"

#define PAGE KIB(4)

static const struct hm_kernel_desc nothing = {
	.struct_size = sizeof(nothing),
	.name = "nothing",
	.signature = "",
	.engine = &engine_nothing,
	.n_engine = 1,
};

static void *pages(size_t length)
{
	void *bytes =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		return NULL;
	madvise(bytes, length, MADV_NOHUGEPAGE);
	return bytes;
}

/* An engine with its mirror on, and 2 MiB that it has entries for. */
static int open_mirror(struct engine *engine, const char *device, const char *name,
		       char **ret_bytes)
{
	char *bytes;
	int r;

	r = engine_open(engine, device, name, &nothing);
	if (r)
		return r;
	bytes = pages(2 * MIB(2));
	r = bytes ? hm_range_prefetch(bytes, 2 * MIB(2), engine->accel, HM_READ | HM_WRITE,
				      NULL) :
		    -ENOMEM;
	if (r == -EOPNOTSUPP) {
		bench_skip(name, "%s", hm_errmsg());
		r = -ENODEV;
	} else if (r) {
		bench_fail(name, r, true);
	}
	if (r) {
		if (bytes)
			munmap(bytes, 2 * MIB(2));
		engine_close(engine);
		return r;
	}
	*ret_bytes = bytes;
	return 0;
}

/* ---- mirror_idle: the peer is a process that has never opened a device ---- */

struct idle {
	struct peer_cycles *peer;
};

static int idle_ours(void *user, double *ret_ns)
{
	(void)user;
	return peer_cycle_times(ret_ns);
}

static int idle_peer(void *user, double *ret_ns)
{
	const struct idle *idle = user;

	return peer_cycles_ask(idle->peer, ret_ns);
}

static int idle_on(const char *device, const char *name, double target)
{
	struct bench_pair pair = {
		.name = name,
		.peer = "munmap and mmap in a process without a device",
		.ours = idle_ours,
		.peer_side = idle_peer,
		.rounds = 200,
		.warm_up = 10,
	};
	struct engine engine;
	struct idle idle;
	char *bytes;
	int r;

	/* Before any device is open: the peer's process is a copy of this one. */
	r = peer_cycles_open(&idle.peer);
	if (r)
		return bench_fail(name, r, false);
	r = open_mirror(&engine, device, name, &bytes);
	if (r) {
		peer_cycles_close(idle.peer);
		return r == -ENODEV ? 0 : r;
	}
	r = bench_compare(&pair, &idle, "us", 1e3, TARGET_RATIO, target);
	munmap(bytes, 2 * MIB(2));
	engine_close(&engine);
	peer_cycles_close(idle.peer);
	return r;
}

int bench_mirror_idle(void)
{
	int r = idle_on("soft:0", "soft:0, 1 MiB", 1.05);

	return r ? r : idle_on("sim:0", "sim:0, 1 MiB", 1.05);
}

/* ---- mirror_fault ---- */

struct fault {
	struct engine engine;
	size_t length;
};

static int fault_ours(void *user, double *ret_ns)
{
	const struct fault *fault = user;
	char *bytes = pages(fault->length);
	double start;
	int r;

	if (!bytes)
		return -ENOMEM;
	start = bench_now();
	r = hm_range_prefetch(bytes, fault->length, fault->engine.accel, HM_READ | HM_WRITE,
			      NULL);
	*ret_ns = (bench_now() - start) / ((double)fault->length / PAGE);
	munmap(bytes, fault->length);
	return r;
}

static int fault_peer(void *user, double *ret_ns)
{
	const struct fault *fault = user;

	return peer_faults(fault->length, ret_ns);
}

static int fault_on(const char *device, const char *name)
{
	struct bench_pair pair = {
		.name = name,
		.peer = "a CPU's minor fault",
		.ours = fault_ours,
		.peer_side = fault_peer,
		.rounds = 30,
		.warm_up = 2,
	};
	struct fault fault = { .length = bench_options.small ? MIB(4) : MIB(64) };
	char *bytes;
	int r;

	r = open_mirror(&fault.engine, device, name, &bytes);
	if (r)
		return r == -ENODEV ? 0 : r;
	r = bench_compare(&pair, &fault, "ns", 1, TARGET_RATIO, 1.0);
	munmap(bytes, 2 * MIB(2));
	engine_close(&fault.engine);
	return r;
}

int bench_mirror_fault(void)
{
	int r = fault_on("soft:0", "soft:0, a page of 4 KiB");

	return r ? r : fault_on("sim:0", "sim:0, a page of 4 KiB");
}

/* ---- invalidate ---- */

struct invalidate {
	struct engine engine;
	char *mirrored, *plain;
};

static int invalidate_ours(void *user, double *ret_ns)
{
	const struct invalidate *invalidate = user;
	int r;

	/* The entries come back, beside the time that is measured. */
	r = hm_range_prefetch(invalidate->mirrored, MIB(2), invalidate->engine.accel,
			      HM_READ | HM_WRITE, NULL);
	return r ? r : peer_take_rights(invalidate->mirrored, MIB(2), ret_ns);
}

static int invalidate_peer(void *user, double *ret_ns)
{
	const struct invalidate *invalidate = user;

	peer_touch(invalidate->plain, MIB(2));
	return peer_take_rights(invalidate->plain, MIB(2), ret_ns);
}

static int invalidate_on(const char *device, const char *name)
{
	struct bench_pair pair = {
		.name = name,
		.peer = "mprotect of 2 MiB that no device has",
		.ours = invalidate_ours,
		.peer_side = invalidate_peer,
		.rounds = 200,
		.warm_up = 10,
	};
	struct invalidate invalidate;
	char *bytes;
	int r;

	r = open_mirror(&invalidate.engine, device, name, &bytes);
	if (r)
		return r == -ENODEV ? 0 : r;
	/* At a multiple of 2 MiB: one chunk. */
	invalidate.mirrored = (char *)(((uintptr_t)bytes + MIB(2) - 1) / MIB(2) * MIB(2));
	invalidate.plain = pages(MIB(2));
	r = invalidate.plain ? bench_compare(&pair, &invalidate, "us", 1e3, TARGET_RATIO, 2.0) :
			       bench_fail(name, -ENOMEM, false);
	if (invalidate.plain)
		munmap(invalidate.plain, MIB(2));
	munmap(bytes, 2 * MIB(2));
	engine_close(&invalidate.engine);
	return r;
}

int bench_invalidate(void)
{
	int r = invalidate_on("soft:0", "soft:0, 2 MiB");

	return r ? r : invalidate_on("sim:0", "sim:0, 2 MiB");
}

/* ---- prefetch_gain ---- */

#define WIDTH 3840u
#define HEIGHT 2160u
#define FRAME ((size_t)WIDTH * HEIGHT) /* a page multiple */
#define STREAM_MIN (FRAME)

struct gain {
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *filter;
	const unsigned char *frames;
	unsigned char *out;
	unsigned int n; /* frames of the file */
	int fd;
	unsigned int order[64]; /* frames of a pass */
	unsigned int n_order;
};

/* The mean of 5 x 5 pixels, a row of the picture for each work item. */
static int filter_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const unsigned char *in = args[0].pointer;
	unsigned char *out = (unsigned char *)(uintptr_t)args[1].pointer;
	uint64_t y;

	for (y = range->begin[0]; y < range->end[0]; y++) {
		unsigned int x, dy, sums[WIDTH] = { 0 };

		if (y < 2 || y >= HEIGHT - 2)
			continue;
		for (dy = 0; dy < 5; dy++)
			for (x = 0; x < WIDTH; x++)
				sums[x] += in[(y + dy - 2) * WIDTH + x];
		for (x = 2; x < WIDTH - 2; x++)
			out[y * WIDTH + x] =
				(unsigned char)((sums[x - 2] + sums[x - 1] + sums[x] +
						 sums[x + 1] + sums[x + 2]) /
						25);
	}
	return 0;
}

static int pass(struct gain *gain, double *ret_ns)
{
	const uint64_t grid[3] = { HEIGHT, 1, 1 };
	struct hm_fence *fence;
	unsigned int i;
	double start;
	int r = 0;

	r = peer_cold(gain->fd, gain->frames, gain->n * FRAME);
	start = bench_now();
	for (i = 0; !r && i < gain->n_order; i++) {
		const struct hm_arg args[] = {
			HM_ANY(gain->frames + gain->order[i] * FRAME, FRAME, HM_READ),
			HM_ANY(gain->out, FRAME, HM_WRITE),
		};

		r = hm_queue_launch(gain->queue, gain->filter, grid, args, 2, &fence);
		if (!r) {
			r = hm_fence_wait(fence, UINT64_MAX);
			hm_fence_unref(fence);
		}
	}
	*ret_ns = (bench_now() - start) / gain->n_order;
	return r;
}

static int gain_ours(void *user, double *ret_ns)
{
	int r;

	hm_range_learn(NULL, STREAM_MIN, 4 * STREAM_MIN);
	r = pass(user, ret_ns);
	hm_range_learn(NULL, 0, 0);
	return r;
}

static int gain_peer(void *user, double *ret_ns)
{
	return pass(user, ret_ns);
}

static void order_sequential(struct gain *gain)
{
	for (gain->n_order = 0; gain->n_order < gain->n && gain->n_order < 64; gain->n_order++)
		gain->order[gain->n_order] = gain->n_order;
}

static void order_strided(struct gain *gain)
{
	for (gain->n_order = 0; 3 * gain->n_order < gain->n && gain->n_order < 64;
	     gain->n_order++)
		gain->order[gain->n_order] = 3 * gain->n_order;
}

static void order_random(struct gain *gain)
{
	unsigned int i, at, state = 12345;

	order_sequential(gain);
	for (i = gain->n_order - 1; i > 0; i--) {
		unsigned int other = gain->order[i];

		state = state * 1664525u + 1013904223u;
		at = (state >> 8) % (i + 1);
		gain->order[i] = gain->order[at];
		gain->order[at] = other;
	}
}

static const struct {
	const char *name;
	void (*order)(struct gain *gain);
	double target; /* time with learning over that without */
} orders[] = {
	{ "sequential frames", order_sequential, 1 / 1.18 },
	{ "every third frame", order_strided, 1 / 1.18 },
	{ "random frames", order_random, 1 / 0.97 },
};

static int gain_measure(struct gain *gain)
{
	size_t i;
	int r = 0;

	for (i = 0; !r && i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct bench_pair pair = {
			.name = orders[i].name,
			.peer = "the same without learning",
			.ours = gain_ours,
			.peer_side = gain_peer,
			.rounds = 7,
			.warm_up = 1,
		};

		orders[i].order(gain);
		r = bench_compare(&pair, gain, "ms a frame", 1e6, TARGET_RATIO,
				  orders[i].target);
	}
	return r;
}

static int gain_file(struct gain *gain)
{
	size_t length = gain->n * FRAME;
	void *frames;

	gain->fd = peer_file_made(length);
	if (gain->fd < 0)
		return gain->fd;
	frames = mmap(NULL, length, PROT_READ, MAP_SHARED, gain->fd, 0);
	if (frames == MAP_FAILED) {
		close(gain->fd);
		return -errno;
	}
	gain->frames = frames;
	return 0;
}

int bench_prefetch_gain(void)
{
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "filter",
		.signature = "in out",
		.cpu = filter_cpu,
	};
	struct gain gain = { .n = bench_options.small ? 9 : 48 };
	int r;

	gain.out = pages(FRAME);
	r = gain.out ? gain_file(&gain) : -ENOMEM;
	if (r)
		return bench_fail("prefetch_gain", r, false);
	r = hm_accel_open("cpu", NULL, &gain.accel);
	if (!r)
		r = hm_queue_create(gain.accel, 0, &gain.queue);
	if (!r)
		r = hm_kernel_create(&desc, &gain.filter);
	r = r ? bench_fail("prefetch_gain", r, true) : gain_measure(&gain);
	hm_kernel_unref(gain.filter);
	hm_queue_unref(gain.queue);
	hm_accel_unref(gain.accel);
	munmap((void *)(uintptr_t)gain.frames, gain.n * FRAME);
	munmap(gain.out, FRAME);
	close(gain.fd);
	return r;
}
