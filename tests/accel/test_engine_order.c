// SPDX-License-Identifier: MIT
/*
 * Work in the order of its queue, also where bytes go to the engine by copies; and work that is
 * never waited for.
 */
#include <errno.h>
#include <string.h>
#include <uapi/hetsim.h>

#include "accel/engine_support.h"
#include "base/sys.h"

#define SIZE 16384ull
#define LATENCY_NS 100000000
#define WORD 0x05050505u

/* Work behind a fill that takes long. */
struct order {
	struct engine_rig rig;
	struct hm_fence *fill;
	char *from; /* filled, where the engine reaches it */
	char *to;
};

static struct order order_begin(bool to_host)
{
	struct order order = { 0 };
	struct engine_rig *rig = &order.rig;

	engine_open(rig, 0);
	order.from = engine_alloc(rig->device, SIZE);
	order.to = engine_alloc(to_host ? rig->host : rig->device, SIZE);
	order.fill = NULL;
	memset(order.from, 1, SIZE);
	engine_inject(rig, HETSIM_INJECT_LATENCY, LATENCY_NS);
	CHECK_OK_FATAL(hm_queue_fill(rig->queue, order.from, WORD, SIZE, &order.fill));
	return order;
}

static void order_wait(struct order *order, struct hm_fence *copy)
{
	finish(copy);
	finish(order->fill);
}

static void order_end(struct order *order)
{
	CHECK_OK(hm_free(order->from));
	CHECK_OK(hm_free(order->to));
	engine_close(&order->rig);
}

AUTO_END(order, order_end)

/* An address that the engine does not take: the CPU reads, after the fill. */
static void copy_after_fill(void)
{
	struct hm_fence *copy = NULL;
	AUTO(order) order = order_begin(true);

	CHECK_OK_FATAL(
		hm_queue_copy(order.rig.queue, order.to + 3, order.from + 1, SIZE - 5, &copy));
	order_wait(&order, copy);
	CHECK(order.to[3] == 5 && order.to[SIZE / 2] == 5 && order.to[SIZE - 3] == 5);
}

/* The end of the range alone is too short for the engine. */
static void tail_after_fill(void)
{
	struct hm_fence *copy = NULL;
	AUTO(order) order = order_begin(false);

	CHECK_OK_FATAL(hm_queue_copy(order.rig.queue, order.to, order.from, SIZE - 1, &copy));
	order_wait(&order, copy);
	CHECK(order.to[0] == 5 && order.to[SIZE - 2] == 5 && order.to[SIZE - 1] == 0);
}

static void launch_after_fill(void)
{
	AUTO(hm_kernel) *kernel = kernel_of_op(HM_ENGINE_COPY);
	struct hm_fence *copy = NULL;
	AUTO(order) order = order_begin(false);
	char *from = order.from + 1;

	CHECK_OK_FATAL(hm_launch(order.rig.queue, kernel, 1, &copy, HM_INOUT(order.to),
				 HM_RANGE(from, SIZE / 2, HM_READ),
				 HM_RANGE(from, SIZE / 2, HM_READ), HM_U64(SIZE / 2),
				 HM_U32(0)));
	order_wait(&order, copy);
	CHECK(order.to[0] == 5 && order.to[SIZE / 2 - 1] == 5);
}

/* ---- launches that are never waited for ---- */

#define LAUNCHES 100000
#define FENCES_BYTES 16384 /* the library's allocations for fences are larger */
#define FENCES_MOST 600    /* such pieces, for those of a full queue; all: 12,500 */

static struct sys_table real;
static _Atomic uint32_t n_fences, n_calls;

static void *count_calloc(size_t count, size_t size)
{
	n_fences += count * size > FENCES_BYTES;
	return real.calloc(count, size);
}

static int count_ioctl(int fd, unsigned long cmd, void *argument)
{
	n_calls++;
	return real.ioctl(fd, cmd, argument);
}

static struct hm_kernel *kernel_of_nothing(void)
{
	static const struct hm_engine_step step = { .op = HM_ENGINE_NOTHING,
						    .destination = NONE,
						    .source = NONE,
						    .source2 = NONE,
						    .length = NONE,
						    .value = NONE };

	return kernel_of_steps("nothing", "", &step, 1);
}

/* Fences that are over are used again, which is found out without a call for each. */
static void nobody_waits(void)
{
	AUTO(hm_kernel) *kernel = kernel_of_nothing();
	const uint64_t one[3] = { 1, 1, 1 };
	uint32_t i;
	AUTO(engine_rig) rig = engine_make(0);

	n_fences = n_calls = 0;
	real = sys_table;
	sys_table.calloc = count_calloc;
	sys_table.ioctl = count_ioctl;
	for (i = 0; i < 1000; i++)
		CHECK_OK_FATAL(hm_queue_launch(rig.queue, kernel, one, NULL, 0, NULL));
	CHECK(n_calls <= 1000); /* none for the twin, one for each launch of the module */
	for (; i < LAUNCHES; i++)
		CHECK_OK_FATAL(hm_queue_launch(rig.queue, kernel, one, NULL, 0, NULL));
	sys_table = real;
	CHECK(n_fences > 0 && n_fences <= FENCES_MOST);
}

/* The end of each is its own, whatever later launches have found out in passing. */
static void failures_among_many(void)
{
	struct hetsim_unbind unbind = { .size = sizeof(unbind), .length = SIZE };
	AUTO(hm_kernel) *kernel = kernel_of_fill();
	struct hm_fence *fences[64];
	uint32_t i;
	AUTO(engine_rig) rig = engine_make(0);
	uint32_t *lost = engine_alloc(rig.device, SIZE);
	uint32_t *there = engine_alloc(rig.device, SIZE);

	engine_fill(&rig, kernel, lost, SIZE, 1);
	/* Behind the library's back. */
	unbind.address = (uintptr_t)lost;
	CHECK_OK_FATAL(hm_sim_call(rig.device, HETSIM_UNBIND, &unbind));
	for (i = 0; i < 64; i++) {
		CHECK_OK_FATAL(fill_launch(&rig, kernel, i % 7 == 3 ? lost : there, SIZE, i,
					   &fences[i]));
		/* Some are found done one by one, the rest many at once. */
		if (i % 9 == 8)
			hm_fence_wait(fences[i], UINT64_MAX);
	}
	for (i = 0; i < 64; i++) {
		if (i % 7 == 3)
			CHECK_ERROR(-EFAULT, hm_fence_wait(fences[i], UINT64_MAX));
		else
			CHECK_OK(hm_fence_wait(fences[i], UINT64_MAX));
		hm_fence_unref(fences[i]);
	}
	CHECK_EQUAL(there[9], 63);
	CHECK_OK(hm_free(lost));
	CHECK_OK(hm_free(there));
}

/* The device goes: earlier launches end, and its maps can go, without a wait. */
static void taken_away_unwatched(void)
{
	struct hm_kernel *kernel = kernel_of_fill();
	uint32_t *d, i;
	int r = 0;
	struct engine_rig rig = engine_make(0);

	d = engine_alloc(rig.device, SIZE);
	for (i = 0; i < 100; i++)
		CHECK_OK_FATAL(fill_launch(&rig, kernel, d, SIZE, i, NULL));
	engine_inject(&rig, HETSIM_INJECT_UNPLUG, 0);
	for (i = 0; i < 3; i++)
		r = fill_launch(&rig, kernel, d, SIZE, i, NULL);
	CHECK_EQUAL(r, -ENODEV);
	hm_free(d);
	hm_kernel_unref(kernel);
	engine_close(&rig);
	CHECK_OK(hm_sim_plug(engine_subject->name));
}

static const struct test cases[] = {
	{ "copy_after_fill", copy_after_fill, 0, 0 },
	{ "tail_after_fill", tail_after_fill, 0, 0 },
	{ "launch_after_fill", launch_after_fill, 0, 0 },
	{ "nobody_waits", nobody_waits, 120, 0 },
	{ "failures_among_many", failures_among_many, 0, 0 },
	{ "taken_away_unwatched", taken_away_unwatched, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(engine_main, "engine_order", cases)
