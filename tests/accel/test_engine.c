// SPDX-License-Identifier: MIT
/*
 * Engines of simulated devices as accelerators, on each that is here: every operation, refused
 * programs, failures and ends of work.
 */
#include <errno.h>
#include <hetmap/sim.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uapi/hetsim.h>
#include <unistd.h>

#include "accel/accel.h"
#include "accel/engine_support.h"
#include "lib/units.h"

#define WORDS(bytes) ((bytes) / 4)

/* ---- every operation against the CPU ---- */

static uint32_t model_crc(const unsigned char *bytes, uint64_t length)
{
	uint32_t crc = ~0u;
	uint64_t i;
	int bit;

	for (i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* Computes the result of @op in @d from the operands. */
static void model(uint8_t op, unsigned char *d, const unsigned char *a, const unsigned char *b,
		  uint64_t length, uint32_t value)
{
	uint32_t *words = (uint32_t *)(void *)d;
	const uint32_t *x = (const uint32_t *)(const void *)a;
	const uint32_t *y = (const uint32_t *)(const void *)b;
	uint64_t i, first = UINT64_MAX;

	for (i = 0; i < WORDS(length); i++)
		switch (op) {
		case HM_ENGINE_FILL:
			words[i] = value;
			break;
		case HM_ENGINE_COPY:
			words[i] = x[i];
			break;
		case HM_ENGINE_ADD:
			words[i] = x[i] + y[i];
			break;
		case HM_ENGINE_XOR:
			words[i] = x[i] ^ y[i];
			break;
		case HM_ENGINE_SCALE:
			words[i] = x[i] * value;
			break;
		case HM_ENGINE_AXPY:
			words[i] += x[i] * value;
			break;
		default:
			break;
		}
	if (op == HM_ENGINE_HISTOGRAM) {
		memset(words, 0, 256 * sizeof(*words));
		for (i = 0; i < length; i++)
			words[a[i]]++;
	} else if (op == HM_ENGINE_CRC32) {
		words[0] = model_crc(a, length);
	} else if (op == HM_ENGINE_COMPARE) {
		for (i = 0; i < length && first == UINT64_MAX; i++)
			if (a[i] != b[i])
				first = i;
		memcpy(d, &first, sizeof(first));
	}
}

/* On @length bytes from @skip on of maps of @size, in memory of @device. */
static void check_op(struct engine_rig *rig, struct hm_device *device, uint8_t op,
		     uint64_t size, uint64_t skip, uint64_t length, uint32_t way)
{
	struct hm_fence_info info;
	unsigned char *d, *a, *b, *expected;
	AUTO(hm_kernel) *kernel = kernel_of_op(op);
	struct hm_fence *fence;
	uint64_t state = 1 + op, room = length > 1024 ? length : 1024;

	d = engine_alloc(device, size);
	a = engine_alloc(device, size);
	b = engine_alloc(device, size);
	engine_random(d, size, &state);
	engine_random(a, size, &state);
	memcpy(b, a, size);
	b[skip + length / 2] ^= 1;
	expected = malloc(size);
	memcpy(expected, d, size);
	model(op, expected + skip, a + skip, b + skip, length, 77);
	CHECK_OK_FATAL(hm_launch(
		rig->queue, kernel, 1, &fence, HM_RANGE(d + skip, room, HM_READ | HM_WRITE),
		HM_RANGE(a + skip, length, HM_READ), HM_RANGE(b + skip, length, HM_READ),
		HM_U64(length), HM_U32(77)));
	info = finish(fence);
	CHECK_EQUAL(info.way_in, way);
	CHECK_EQUAL(info.bytes_copied, way == HM_WAY_COPY ? 2 * room + 2 * length : 0);
	if (memcmp(d, expected, size) != 0)
		test_fail(__FILE__, __LINE__, "op %u of %" PRIu64 " bytes at %" PRIu64, op,
			  length, skip);
	free(expected);
	CHECK_OK(hm_free(d));
	CHECK_OK(hm_free(a));
	CHECK_OK(hm_free(b));
}

static void every_operation(void)
{
	uint8_t op;
	int i;
	AUTO(engine_rig) rig = engine_make(0);

	for (i = HM_ENGINE_FILL; i <= HM_ENGINE_COMPARE; i++) {
		op = (uint8_t)i;
		check_op(&rig, rig.device, op, 2 * PAGE, 0, PAGE, HM_WAY_DIRECT);
		check_op(&rig, rig.device, op, 8 * PAGE, PAGE - rig.align, 5 * PAGE,
			 HM_WAY_DIRECT);
		check_op(&rig, rig.device, op, 2 * PAGE, 3 * rig.align, rig.align,
			 HM_WAY_DIRECT);
		check_op(&rig, rig.host, op, 8 * PAGE, 4, 3 * PAGE, HM_WAY_COPY);
	}
}

/* The length that is left out is the shortest operand's. */
static void length_left_out(void)
{
	const struct hm_engine_step step = { .op = HM_ENGINE_COPY,
					     .destination = 0,
					     .source = 1,
					     .source2 = HM_ENGINE_NONE,
					     .length = HM_ENGINE_NONE,
					     .value = HM_ENGINE_NONE };
	AUTO(hm_kernel) *kernel = kernel_of_steps("copy", "out in", &step, 1);
	AUTO(engine_rig) rig = engine_make(0);
	unsigned char *d = engine_alloc(rig.device, 2 * PAGE);
	unsigned char *a = engine_alloc(rig.device, PAGE);

	memset(a, 5, PAGE);
	engine_run(&rig, kernel, HM_OUT(d), HM_IN(a));
	CHECK(d[0] == 5 && d[PAGE - 1] == 5 && d[PAGE] == 0);
	memset(a, 6, PAGE);
	engine_run(&rig, kernel, HM_RANGE(d + PAGE, rig.align, HM_WRITE), HM_IN(a));
	CHECK(d[PAGE + rig.align - 1] == 6 && d[PAGE + rig.align] == 0);
	CHECK_OK(hm_free(a));
	CHECK_OK(hm_free(d));
}

/* d = (a + b) * 3, then its histogram: one submission, in order. */
static void steps_in_order(void)
{
	static const struct hm_engine_step steps[] = {
		{ HM_ENGINE_NOTHING, NONE, NONE, NONE, NONE, NONE, 0 },
		{ HM_ENGINE_ADD, 0, 1, 1, NONE, NONE, 0 },
		{ HM_ENGINE_SCALE, 0, 0, NONE, NONE, 3, 0 },
		{ HM_ENGINE_HISTOGRAM, 2, 0, NONE, NONE, NONE, 0 },
	};
	AUTO(hm_kernel) *kernel = kernel_of_steps("three", "inout in out u32", steps, 4);
	AUTO(engine_rig) rig = engine_make(0);
	uint32_t *d = engine_alloc(rig.device, PAGE);
	uint32_t *a = engine_alloc(rig.device, PAGE);
	uint32_t *counts = engine_alloc(rig.device, PAGE);

	a[7] = 2;
	engine_run(&rig, kernel, HM_INOUT(d), HM_IN(a), HM_OUT(counts), HM_U32(3));
	CHECK_EQUAL(d[7], 12);
	CHECK_EQUAL(counts[0], PAGE - 1);
	CHECK_EQUAL(counts[12], 1);
	CHECK_OK(hm_free(a));
	CHECK_OK(hm_free(d));
	CHECK_OK(hm_free(counts));
}

#define QUEUES 4
#define ROUNDS 50

/* Each in its own order, all beside each other, on one map. */
static void several_queues(void)
{
	AUTO(hm_kernel) *kernel = kernel_of_op(HM_ENGINE_ADD);
	struct hm_queue *queue[QUEUES];
	struct hm_fence *fence[QUEUES];
	uint32_t *d, *one, number[QUEUES];
	int i, k;
	AUTO(engine_rig) rig = engine_make(0);
	uint64_t part = PAGE / QUEUES;

	d = engine_alloc(rig.device, PAGE);
	one = engine_alloc(rig.device, PAGE);
	CHECK_OK(hm_queue_fill(rig.queue, one, 1, PAGE, &fence[0]));
	finish(fence[0]);
	for (i = 0; i < QUEUES; i++) {
		CHECK_OK_FATAL(hm_queue_create(rig.accel, 0, &queue[i]));
		CHECK_OK(hm_sim_queue(queue[i], &number[i]));
		CHECK(!i || number[i] != number[i - 1]);
	}
	for (k = 0; k < ROUNDS; k++)
		for (i = 0; i < QUEUES; i++) {
			char *at = (char *)d + (uint64_t)i * part;

			CHECK_OK(hm_launch(
				queue[i], kernel, 1, k == ROUNDS - 1 ? &fence[i] : NULL,
				HM_RANGE(at, part, HM_READ | HM_WRITE),
				HM_RANGE(at, part, HM_READ), HM_RANGE(one, part, HM_READ),
				HM_U64(part), HM_U32(0)));
		}
	for (i = 0; i < QUEUES; i++) {
		finish(fence[i]);
		CHECK_EQUAL(d[(uint64_t)i * WORDS(part)], ROUNDS);
		CHECK_EQUAL(d[(uint64_t)(i + 1) * WORDS(part) - 1], ROUNDS);
		hm_queue_unref(queue[i]);
	}
	CHECK_OK(hm_free(d));
	CHECK_OK(hm_free(one));
}

/* ---- refused programs ---- */

static void bad_programs(void)
{
	static const struct {
		struct hm_engine_step step;
		const char *text;
	} bad[] = {
		{ { 99, 0, 1, 2, 3, 4, 0 }, "no operation 99" },
		{ { HM_ENGINE_FILL, 0, NONE, NONE, NONE, 4, 7 }, "reserved" },
		{ { HM_ENGINE_FILL, NONE, NONE, NONE, NONE, 4, 0 }, "needs a destination" },
		{ { HM_ENGINE_FILL, 0, 1, NONE, NONE, 4, 0 }, "has no source" },
		{ { HM_ENGINE_FILL, 0, NONE, NONE, NONE, 1, 0 }, "a pointer, not a scalar" },
		{ { HM_ENGINE_COPY, 0, 1, NONE, NONE, 4, 0 }, "has no value" },
		{ { HM_ENGINE_COPY, 0, 1, 2, NONE, NONE, 0 }, "has no source2" },
		{ { HM_ENGINE_COPY, 1, 0, NONE, NONE, NONE, 0 }, "\"out\" or \"inout\"" },
		{ { HM_ENGINE_COPY, 0, 5, NONE, NONE, NONE, 0 }, "\"in\" or \"inout\"" },
		{ { HM_ENGINE_AXPY, 5, 1, NONE, NONE, 4, 0 }, "have as \"inout\"" },
		{ { HM_ENGINE_COPY, 3, 1, NONE, NONE, NONE, 0 }, "a scalar, not a pointer" },
		{ { HM_ENGINE_COPY, 0, 1, NONE, 9, NONE, 0 }, "the signature has 6" },
		{ { HM_ENGINE_ADD, 0, 1, NONE, NONE, NONE, 0 }, "needs a source2" },
		{ { HM_ENGINE_NOTHING, 0, NONE, NONE, NONE, NONE, 0 }, "has no destination" },
	};
	static const struct hm_engine_step good = {
		HM_ENGINE_FILL, 0, NONE, NONE, NONE, NONE, 0
	};
	static struct hm_engine_step many[257];
	struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "bad",
		.signature = "inout in in u64 u32 out",
		.n_engine = 1,
	};
	struct hm_kernel *kernel = NULL;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		desc.engine = &bad[i].step;
		CHECK_ERROR(-EINVAL, hm_kernel_create(&desc, &kernel));
		CHECK(text_has(bad[i].text) && text_has("step 0"));
	}
	desc.engine = &good;
	desc.n_engine = 0;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&desc, &kernel));
	desc.engine = NULL;
	desc.n_engine = 1;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&desc, &kernel));
	desc.engine = many;
	desc.n_engine = 257;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&desc, &kernel));
	desc.engine = &good;
	desc.n_engine = 1;
	desc.reserved = 1;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&desc, &kernel));
	desc.reserved = 0;
	desc.signature = NULL;
	CHECK_ERROR(-EINVAL, hm_kernel_create(&desc, &kernel));
	CHECK(text_has("needs a signature"));
	CHECK(!kernel);
}

static void bad_launches(void)
{
	AUTO(hm_kernel) *copy = kernel_of_op(HM_ENGINE_COPY);
	static const struct hm_engine_step step = { HM_ENGINE_FILL, 0, NONE, NONE, NONE, 1, 0 };
	struct hm_stats before;
	void *read_only;
	AUTO(engine_rig) rig = engine_make(0);
	AUTO(hm_kernel) *fill = kernel_of_steps("fill", "out u64", &step, 1);
	AUTO(hm_kernel) *histogram = kernel_of_op(HM_ENGINE_HISTOGRAM);
	unsigned char *d = engine_alloc(rig.device, 4 * PAGE);
	unsigned char *a = engine_alloc(rig.device, 4 * PAGE);

	CHECK_OK_FATAL(hm_alloc(rig.device, PAGE, HM_READ, &read_only));
	memset(d, 1, 4 * PAGE);
	before = stats_now();
#define LAUNCH(kernel, to, from, length)                                                 \
	hm_launch(rig.queue, kernel, 1, NULL, to, from, HM_RANGE(a, rig.align, HM_READ), \
		  HM_U64(length), HM_U32(0))
#define RW (HM_READ | HM_WRITE)

	CHECK_ERROR(-ERANGE, LAUNCH(copy, HM_INOUT(d), HM_RANGE(a, PAGE, HM_READ), 2 * PAGE));
	CHECK(text_has("copy") && text_has("8192 bytes") && text_has("has 4096"));
	CHECK_ERROR(-EINVAL, LAUNCH(copy, HM_INOUT(d), HM_IN(a), 0));
	CHECK_ERROR(-EINVAL, LAUNCH(copy, HM_INOUT(d), HM_IN(a), PAGE - 1));
	CHECK(text_has("multiples of"));
	CHECK_ERROR(-EINVAL, LAUNCH(copy, HM_INOUT(d), HM_IN(d + rig.align), PAGE));
	CHECK(text_has("overlap"));
	CHECK_ERROR(-ERANGE, LAUNCH(histogram, HM_RANGE(d, 512, RW), HM_IN(a), PAGE));
	CHECK(text_has("1024 bytes"));
	CHECK_ERROR(-EINVAL,
		    hm_launch(rig.queue, fill, 1, NULL, HM_OUT(d), HM_U64(1ull << 32)));
	CHECK(text_has("32-bit"));
	CHECK_ERROR(-EACCES, LAUNCH(copy, HM_RANGE(read_only, PAGE, RW), HM_IN(a), PAGE));
	CHECK_ERROR(-EACCES, hm_queue_fill(rig.queue, read_only, 1, PAGE, NULL));
	CHECK_EQUAL(stats_now().launches, before.launches);
	CHECK(d[0] == 1 && d[4 * PAGE - 1] == 1);

	CHECK_OK(hm_free(d));
	CHECK_OK(hm_free(a));
	CHECK_OK(hm_free(read_only));
}

static void window(void)
{
	struct hm_accel_desc desc = { .struct_size = sizeof(desc), .window = 2 * PAGE };
	AUTO(hm_kernel) *kernel = kernel_of_fill();
	AUTO(hm_accel) *accel = NULL;
	AUTO(hm_queue) *queue = NULL;
	unsigned char *d;
	uint32_t way;
	AUTO(engine_rig) rig = engine_make(0);

	desc.window = 100;
	CHECK_ERROR(-EINVAL, hm_accel_open(engine_subject->name, &desc, &accel));
	desc.window = 2 * PAGE + 5;
	CHECK_OK_FATAL(hm_accel_open(engine_subject->name, &desc, &accel));
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
	d = engine_alloc(rig.device, 8 * PAGE);
	CHECK_ERROR(-E2BIG, hm_launch(queue, kernel, 1, NULL, HM_RANGE(d, 3 * PAGE, HM_WRITE),
				      HM_U64(PAGE), HM_U32(1)));
	CHECK(text_has("8192"));
	CHECK_ERROR(-E2BIG, hm_accel_way_in(accel, d + PAGE, 2 * PAGE, &way));
	CHECK_OK(hm_accel_way_in(accel, d + 2 * PAGE, 2 * PAGE, &way));
	CHECK_EQUAL(way, HM_WAY_DIRECT);
	CHECK_OK(hm_free(d));
}

static int no_function(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return 0;
}

static void forms(void)
{
	static const struct hm_engine_step step = {
		HM_ENGINE_NOTHING, NONE, NONE, NONE, NONE, NONE, 0
	};
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	AUTO(hm_kernel) *kernel = NULL, *engine = NULL;
	AUTO(hm_accel) *cpu = NULL;
	AUTO(engine_rig) rig = engine_make(0);

	CHECK_OK(hm_accel_query(rig.accel, &info));
	CHECK(!strcmp(info.forms, "engine") && info.kind == HM_ACCEL_ENGINE);
	CHECK(!strcmp(info.name, engine_subject->name));
	kernel = rig_kernel(DESC(hm_kernel_desc, .name = "both",
				 .opencl = "__kernel void both(void) { }", .cpu = no_function,
				 .signature = ""));
	CHECK_ERROR(-EOPNOTSUPP, hm_launch(rig.queue, kernel, 1, NULL));
	CHECK(text_has("(\"engine\"): it has \"opencl\" and \"cpu\""));
	engine = kernel_of_steps("engine_only", "", &step, 1);
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &cpu));
	CHECK_ERROR(-EOPNOTSUPP, hm_kernel_build(engine, cpu));
	CHECK(text_has("(\"cpu\"): it has \"engine\""));
	CHECK_OK(hm_kernel_build(engine, rig.accel));
}

/* ---- failures of the work ---- */

static void fault_has_its_address(void)
{
	struct hetsim_unbind unbind = { .size = sizeof(unbind), .length = 4 * PAGE };
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	AUTO(hm_kernel) *kernel = kernel_of_fill();
	struct hm_fence *fence;
	char address[32];
	AUTO(engine_rig) rig = engine_make(0);
	uint32_t *d = engine_alloc(rig.device, 4 * PAGE);
	uint32_t *e = engine_alloc(rig.device, PAGE);

	engine_fill(&rig, kernel, d, 4 * PAGE, 1);
	/* Behind the library's back. */
	unbind.address = (uintptr_t)d;
	CHECK_OK_FATAL(hm_sim_call(rig.device, HETSIM_UNBIND, &unbind));
	CHECK_OK_FATAL(fill_launch(&rig, kernel, d + WORDS(PAGE), PAGE, 2, &fence));
	CHECK_ERROR(-EFAULT, hm_fence_wait(fence, UINT64_MAX));
	snprintf(address, sizeof(address), "%p", (void *)(d + WORDS(PAGE)));
	CHECK(text_has(address) && text_has("the work failed"));
	CHECK_OK(hm_fence_query(fence, &info));
	CHECK_EQUAL(info.status, -EFAULT);
	hm_fence_unref(fence);
	/* The queue goes on. */
	engine_fill(&rig, kernel, e, PAGE, 3);
	CHECK_EQUAL(e[5], 3);
	CHECK_EQUAL(d[WORDS(PAGE)], 1);
	/* Work of several submissions: the first that fails counts. */
	CHECK_OK_FATAL(hm_queue_copy(rig.queue, e, d, PAGE - 3, &fence));
	CHECK_ERROR(-EFAULT, hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK_OK(hm_free(d));
	CHECK_OK(hm_free(e));
}

static void stuck_engine(void)
{
	AUTO(hm_kernel) *kernel = kernel_of_fill();
	struct hm_fence *stuck, *behind;
	AUTO(engine_rig) rig = engine_make(0);
	uint32_t *d = engine_alloc(rig.device, PAGE);

	engine_inject(&rig, HETSIM_INJECT_STUCK, 1);
	CHECK_OK_FATAL(fill_launch(&rig, kernel, d, PAGE, 1, &stuck));
	CHECK_OK_FATAL(fill_launch(&rig, kernel, d, PAGE, 2, &behind));
	CHECK_ERROR(-ETIME, hm_fence_wait(stuck, 1000000));
	CHECK_ERROR(-ETIMEDOUT, hm_fence_wait(stuck, UINT64_MAX));
	CHECK(text_has("kept a fence waiting, for ") && text_has("the engine was reset"));
	/* One time-out is enough: the work behind the stuck one has not run. */
	CHECK_ERROR(-ECANCELED, hm_fence_wait(behind, UINT64_MAX));
	CHECK(text_has("the engine was reset"));
	CHECK_EQUAL(d[9], 0);
	hm_fence_unref(behind);
	CHECK_OK_FATAL(fill_launch(&rig, kernel, d, PAGE, 2, &behind));
	finish(behind);
	CHECK_EQUAL(d[9], 2);
	hm_fence_unref(stuck);
	CHECK_OK(hm_free(d));
}

static void device_taken_away(void)
{
	struct hm_kernel *kernel = kernel_of_fill();
	struct hm_fence *first, *second;
	struct pollfd file;
	int fd;
	struct engine_rig rig = engine_make(0);
	uint32_t *d = engine_alloc(rig.device, PAGE);

	engine_inject(&rig, HETSIM_INJECT_LATENCY, 300000000);
	CHECK_OK_FATAL(fill_launch(&rig, kernel, d, PAGE, 1, &first));
	CHECK_OK_FATAL(fill_launch(&rig, kernel, d, PAGE, 2, &second));
	CHECK_OK_FATAL(hm_fence_fd(second, &fd));
	engine_inject(&rig, HETSIM_INJECT_UNPLUG, 0);
	CHECK_ERROR(-ENODEV, hm_fence_wait(first, UINT64_MAX));
	CHECK(text_has("taken away"));
	file = (struct pollfd){ .fd = fd, .events = POLLIN };
	CHECK_EQUAL(poll(&file, 1, 2000), 1);
	CHECK_ERROR(-ENODEV, hm_fence_wait(second, 0));
	CHECK_ERROR(-ENODEV, fill_launch(&rig, kernel, d, PAGE, 3, NULL));
	close(fd);
	hm_fence_unref(first);
	hm_fence_unref(second);
	hm_free(d);
	hm_kernel_unref(kernel);
	engine_close(&rig);
	CHECK_OK(hm_sim_plug(engine_subject->name));
}

/* Two threads wait; one of them hears of the end, the other of the loss behind it. */
static void decided_once(void)
{
	struct hm_kernel *kernel = kernel_of_fill();
	struct hm_fence *fence;
	struct engine_rig rig = engine_make(0);
	uint32_t *d = engine_alloc(rig.device, PAGE);

	CHECK_OK_FATAL(fill_launch(&rig, kernel, d, PAGE, 1, &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	engine_inject(&rig, HETSIM_INJECT_UNPLUG, 0);
	CHECK_EQUAL(rig.queue->ops->wait(rig.queue->data, &fence->work, 0), 0);
	CHECK_EQUAL(fence->work.status, 0);
	CHECK_OK(hm_fence_wait(fence, 0));
	hm_fence_unref(fence);
	hm_free(d);
	hm_kernel_unref(kernel);
	engine_close(&rig);
	CHECK_OK(hm_sim_plug(engine_subject->name));
}

/* More than the queue takes: submitting waits for the oldest. */
static void full_queue(void)
{
	struct hetsim_query query = { .size = sizeof(query) };
	AUTO(hm_kernel) *kernel = kernel_of_fill();
	struct hm_fence *first, *fence = NULL;
	uint32_t *d, i;
	AUTO(engine_rig) rig = engine_make(0);

	d = engine_alloc(rig.device, PAGE);
	CHECK_OK_FATAL(hm_sim_call(rig.device, HETSIM_QUERY, &query));
	engine_inject(&rig, HETSIM_INJECT_LATENCY, 700000000);
	CHECK_OK_FATAL(fill_launch(&rig, kernel, d, PAGE, 7, &first));
	/* The first fill has begun, and has its latency; those behind it have none. */
	usleep(50000);
	engine_inject(&rig, HETSIM_INJECT_LATENCY, 0);
	for (i = 1; i <= query.max_pending + 100; i++) {
		hm_fence_unref(fence);
		CHECK_OK_FATAL(fill_launch(&rig, kernel, d, rig.align, i, &fence));
	}
	CHECK_OK(hm_fence_wait(first, 0));
	finish(fence);
	hm_fence_unref(first);
	CHECK_EQUAL(d[0], query.max_pending + 100);
	CHECK_OK(hm_free(d));
}

/* All queues that a process can have, and one more. */
static void too_many_queues(void)
{
	struct hetsim_query query = { .size = sizeof(query) };
	struct hm_queue *queue[64], *cpu_queue;
	AUTO(hm_accel) *cpu = NULL;
	uint32_t i, number = 77;
	AUTO(engine_rig) rig = engine_make(0);

	CHECK_OK_FATAL(hm_sim_call(rig.device, HETSIM_QUERY, &query));
	CHECK_FATAL(query.max_queues <= 64);
	for (i = 1; i < query.max_queues; i++)
		CHECK_OK_FATAL(hm_queue_create(rig.accel, 0, &queue[i]));
	CHECK_ERROR(-ENOSPC, hm_queue_create(rig.accel, 0, &queue[0]));
	CHECK(text_has("all 16 queues of the engine are taken, or all that its device gives"));
	CHECK(text_has(engine_subject->settings ? "to this process: " :
						  "to one user or to all processes: "));
	while (--i)
		hm_queue_unref(queue[i]);
	CHECK_OK_FATAL(hm_queue_create(rig.accel, 0, &queue[0]));
	hm_queue_unref(queue[0]);

	CHECK_ERROR(-EINVAL, hm_sim_queue(rig.queue, NULL));
	CHECK_ERROR(-EINVAL, hm_sim_queue(NULL, &number));
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &cpu));
	CHECK_OK_FATAL(hm_queue_create(cpu, 0, &cpu_queue));
	CHECK_ERROR(-EOPNOTSUPP, hm_sim_queue(cpu_queue, &number));
	CHECK_EQUAL(number, 77);
	hm_queue_unref(cpu_queue);
}

/* ---- descriptors ---- */

/* Not readable before the work is done, readable when it is, and made after it. */
static void check_fd(struct engine_rig *rig, struct hm_device *device)
{
	AUTO(hm_kernel) *kernel = kernel_of_fill();
	struct pollfd file = { .events = POLLIN };
	struct hm_fence *fence;
	int late;
	uint32_t *d = engine_alloc(device, PAGE);

	engine_inject(rig, HETSIM_INJECT_LATENCY, 200000000);
	CHECK_OK_FATAL(fill_launch(rig, kernel, d, PAGE, 4, &fence));
	CHECK_OK_FATAL(hm_fence_fd(fence, &file.fd));
	CHECK_EQUAL(poll(&file, 1, 0), 0);
	CHECK_EQUAL(poll(&file, 1, 10000), 1);
	/* TSan takes no notice of poll(). */
	if (TEST_TSAN)
		CHECK_OK(hm_fence_wait(fence, 0));
	/* Without hm_fence_wait(): bytes that were copied are back. */
	CHECK_EQUAL(d[WORDS(PAGE) - 1], 4);
	CHECK_OK(hm_fence_wait(fence, 0));
	CHECK_OK_FATAL(hm_fence_fd(fence, &late));
	close(file.fd);
	file.fd = late;
	CHECK_EQUAL(poll(&file, 1, 0), 1);
	close(late);
	hm_fence_unref(fence);
	engine_inject(rig, HETSIM_INJECT_LATENCY, 0);
	CHECK_OK(hm_free(d));
}

static void fence_fds(void)
{
	AUTO(engine_rig) rig = engine_make(0);

	check_fd(&rig, rig.device);
	check_fd(&rig, rig.host);
}

static const struct test cases[] = {
	{ "every_operation", every_operation, 0, 0 },
	{ "length_left_out", length_left_out, 0, 0 },
	{ "steps_in_order", steps_in_order, 0, 0 },
	{ "several_queues", several_queues, 0, 0 },
	{ "bad_programs", bad_programs, 0, 0 },
	{ "bad_launches", bad_launches, 0, 0 },
	{ "window", window, 0, 0 },
	{ "forms", forms, 0, 0 },
	{ "fault_has_its_address", fault_has_its_address, 0, 0 },
	{ "stuck_engine", stuck_engine, 0, 0 },
	{ "decided_once", decided_once, 0, 0 },
	{ "device_taken_away", device_taken_away, 0, 0 },
	{ "full_queue", full_queue, 0, 0 },
	{ "too_many_queues", too_many_queues, 0, 0 },
	{ "fence_fds", fence_fds, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(engine_main, "engine", cases)
