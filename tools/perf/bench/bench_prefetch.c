// SPDX-License-Identifier: MIT
/*
 * prefetch_gain: frames of a cold file through a filter, with the prefetch that learns and without,
 * on "cpu", and on engines whose device faults take long.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "bench_engine.h"
#include "bench_options.h"
#include "peer.h"

#define WIDTH 3840u
#define HEIGHT 2160u
#define FRAME ((size_t)WIDTH * HEIGHT) /* a page multiple */

struct gain {
	struct engine engine;     /* or "cpu"; its kernel is the filter */
	struct hm_accel *learner; /* of hm_range_learn(): NULL for "cpu" */
	uint64_t least, most;     /* window of the prefetch */
	int (*launch)(struct gain *gain, const unsigned char *frame,
		      struct hm_fence **ret_fence);
	const unsigned char *frames;
	unsigned char *out, *sums; /* of a frame each */
	unsigned int n;            /* frames of the file */
	int fd;
	unsigned int order[64]; /* frames of a pass */
	unsigned int n_order;
};

static unsigned char *frame_new(void)
{
	void *bytes =
		mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return bytes == MAP_FAILED ? NULL : bytes;
}

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

static int launch_cpu(struct gain *gain, const unsigned char *frame,
		      struct hm_fence **ret_fence)
{
	return hm_launch(gain->engine.queue, gain->engine.kernel, HEIGHT, ret_fence,
			 HM_ANY(frame, FRAME, HM_READ), HM_ANY(gain->out, FRAME, HM_WRITE));
}

static int pass(struct gain *gain, double *ret_ns)
{
	struct hm_fence *fence;
	unsigned int i;
	double start;
	int r = 0;

	r = peer_cold(gain->fd, gain->frames, gain->n * FRAME);
	start = bench_now();
	for (i = 0; !r && i < gain->n_order; i++) {
		r = gain->launch(gain, gain->frames + gain->order[i] * FRAME, &fence);
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
	struct gain *gain = user;
	int r;

	hm_range_learn(gain->learner, gain->least, gain->most);
	r = pass(gain, ret_ns);
	hm_range_learn(gain->learner, 0, 0);
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

/* @prefix: of the names of the rows. */
static int gain_measure(struct gain *gain, const char *prefix)
{
	char name[64];
	size_t i;
	int r = 0;

	for (i = 0; !r && i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct bench_pair pair = {
			.name = name,
			.peer = "the same without learning",
			.ours = gain_ours,
			.peer_side = gain_peer,
			.rounds = 7,
			.warm_up = 1,
		};

		snprintf(name, sizeof(name), "%s%s", prefix, orders[i].name);
		orders[i].order(gain);
		r = bench_compare(&pair, gain, "ms a frame", 1e6, TARGET_RATIO,
				  orders[i].target);
	}
	return r;
}

static void gain_close(struct gain *gain)
{
	if (gain->frames)
		munmap((void *)(uintptr_t)gain->frames, gain->n * FRAME);
	if (gain->fd >= 0)
		close(gain->fd);
	if (gain->out)
		munmap(gain->out, FRAME);
	if (gain->sums)
		munmap(gain->sums, FRAME);
	engine_close(&gain->engine);
}

/* The file and the memory of a gain whose fd is -1. */
static int gain_open(struct gain *gain)
{
	void *frames;

	gain->out = frame_new();
	gain->sums = frame_new();
	if (!gain->out || !gain->sums)
		return -ENOMEM;
	gain->fd = peer_file_made(gain->n * FRAME);
	if (gain->fd < 0)
		return gain->fd;
	frames = mmap(NULL, gain->n * FRAME, PROT_READ, MAP_SHARED, gain->fd, 0);
	if (frames == MAP_FAILED)
		return -errno;
	gain->frames = frames;
	return 0;
}

static int gain_on_cpu(void)
{
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "filter",
		.signature = "in out",
		.cpu = filter_cpu,
	};
	struct gain gain = {
		.n = bench_options.small ? 9 : 48,
		.fd = -1,
		.launch = launch_cpu,
		.least = FRAME,
		.most = 4 * FRAME,
	};
	int r = gain_open(&gain);

	if (r) {
		gain_close(&gain);
		return bench_fail("prefetch_gain", r, false);
	}
	r = hm_accel_open("cpu", NULL, &gain.engine.accel);
	if (!r)
		r = hm_queue_create(gain.engine.accel, 0, &gain.engine.queue);
	if (!r)
		r = hm_kernel_create(&desc, &gain.engine.kernel);
	r = r ? bench_fail("prefetch_gain", r, true) : gain_measure(&gain, "");
	gain_close(&gain);
	return r;
}

/* ---- on engines ---- */

/* The frame's bytes are a picture of words. */
#define ROW (1920u * 4)
#define ROWS 1080u
#define SUMMED ((size_t)ROW * (ROWS - 4)) /* bytes of the sums by columns */
#define FILTERED (SUMMED - 4 * 4)

/* Arguments of the filter: the same range at five places each. */
enum { OUT, SUMS, ROW_0, ROW_4 = ROW_0 + 4, WORD_0, WORD_4 = WORD_0 + 4, N_ARGS };

#define ADD(to, one, other)                                                      \
	{                                                                        \
		HM_ENGINE_ADD, to, one, other, HM_ENGINE_NONE, HM_ENGINE_NONE, 0 \
	}

/* Five rows are added up, and of these sums five words. */
static const struct hm_engine_step filter_steps[] = {
	ADD(SUMS, ROW_0, ROW_0 + 1), ADD(SUMS, SUMS, ROW_0 + 2),   ADD(SUMS, SUMS, ROW_0 + 3),
	ADD(SUMS, SUMS, ROW_4),      ADD(OUT, WORD_0, WORD_0 + 1), ADD(OUT, OUT, WORD_0 + 2),
	ADD(OUT, OUT, WORD_0 + 3),   ADD(OUT, OUT, WORD_4),
};

static int launch_engine(struct gain *gain, const unsigned char *frame,
			 struct hm_fence **ret_fence)
{
	const uint64_t grid[3] = { 1, 1, 1 };
	struct hm_arg args[N_ARGS];
	unsigned int i;

	args[OUT] = HM_ANY(gain->out, FILTERED, HM_READ | HM_WRITE);
	args[SUMS] = HM_ANY(gain->sums, SUMMED, HM_READ | HM_WRITE);
	for (i = 0; i < 5; i++) {
		args[ROW_0 + i] = HM_ANY(frame + i * ROW, SUMMED, HM_READ);
		args[WORD_0 + i] = HM_ANY(gain->sums + i * 4, FILTERED, HM_READ);
	}
	return hm_queue_launch(gain->engine.queue, gain->engine.kernel, grid, args, N_ARGS,
			       ret_fence);
}

/* Is the first word that was filtered last the sum of 25 words? */
static bool is_filtered(const struct gain *gain)
{
	const unsigned char *frame = gain->frames + gain->order[gain->n_order - 1] * FRAME;
	const uint32_t *words = (const uint32_t *)(const void *)frame;
	uint32_t sum = 0;
	unsigned int i;

	for (i = 0; i < 25; i++)
		sum += words[i / 5 * (ROW / 4) + i % 5];
	return *(const uint32_t *)(const void *)gain->out == sum;
}

/* What each device fault takes more, as the device was told when it was made. */
static unsigned long fault_us(const char *device)
{
	const char *settings = getenv("HETMAP_SOFT"), *at;
	char text[32] = "";
	FILE *file;

	if (!strcmp(device, "soft:0")) {
		at = settings ? strstr(settings, "fault_us=") : NULL;
		return at ? strtoul(at + strlen("fault_us="), NULL, 10) : 0;
	}
	file = fopen("/sys/module/hetsim/parameters/fault_us", "re");
	if (file && !fgets(text, sizeof(text), file))
		text[0] = '\0';
	if (file)
		fclose(file);
	return strtoul(text, NULL, 10);
}

static int gain_on(const char *device)
{
	static const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "filter",
		.signature = "inout inout in in in in in in in in in in",
		.engine = filter_steps,
		.n_engine = sizeof(filter_steps) / sizeof(filter_steps[0]),
	};
	struct gain gain = {
		.n = bench_options.small ? 9 : 16,
		.fd = -1,
		.launch = launch_engine,
		.least = KIB(64),
		.most = MIB(2),
	};
	char name[48];
	int r;

	snprintf(name, sizeof(name), "%s, %lu us a fault, ", device, fault_us(device));
	if (!fault_us(device)) {
		bench_skip(device,
			   "its device faults take no time of their own: load hetsim with "
			   "fault_us=100, or set HETMAP_SOFT=fault_us=100");
		return 0;
	}
	r = engine_open(&gain.engine, device, device, &desc);
	if (r)
		return r == -ENODEV ? 0 : r;
	gain.learner = gain.engine.accel;
	r = gain_open(&gain);
	if (!r)
		r = hm_range_advise(gain.frames, gain.n * FRAME, gain.engine.accel,
				    HM_RANGE_GRANULE, KIB(64));
	r = r ? bench_fail(device, r, false) : gain_measure(&gain, name);
	if (!r && !is_filtered(&gain))
		r = bench_fail(device, -EIO, false);
	gain_close(&gain);
	return r;
}

int bench_prefetch_gain(void)
{
	int r = gain_on_cpu();

	r = r ? r : gain_on("soft:0");
	return r ? r : gain_on("sim:0");
}
