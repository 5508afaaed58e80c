// SPDX-License-Identifier: MIT
/* Work in the order of its queue, also where bytes go to the engine by copies. */
#include <string.h>
#include <uapi/hetsim.h>

#include "engine_support.h"

#define SIZE 16384ull
#define LATENCY_NS 100000000
#define WORD 0x05050505u

/* A fill that is under way for long, of bytes that are where the engine reaches them. */
static struct hm_fence *start_fill(struct engine_rig *rig, char *bytes)
{
	struct hm_fence *fence = NULL;

	memset(bytes, 1, SIZE);
	engine_inject(rig, HETSIM_INJECT_LATENCY, LATENCY_NS);
	CHECK_OK_FATAL(hm_queue_fill(rig->queue, bytes, WORD, SIZE, &fence));
	return fence;
}

/* An address that the engine does not take: the CPU reads, after the fill. */
static void copy_after_fill(void)
{
	struct hm_fence *fill, *copy = NULL;
	struct engine_rig rig;
	char *from, *to;

	engine_open(&rig, 0);
	from = engine_alloc(rig.device, SIZE);
	to = engine_alloc(rig.host, SIZE);
	fill = start_fill(&rig, from);
	CHECK_OK_FATAL(hm_queue_copy(rig.queue, to + 3, from + 1, SIZE - 5, &copy));
	finish(copy);
	finish(fill);
	CHECK(to[3] == 5 && to[SIZE / 2] == 5 && to[SIZE - 3] == 5);
	CHECK_OK(hm_free(from));
	CHECK_OK(hm_free(to));
	engine_close(&rig);
}

/* The end of the range alone is too short for the engine. */
static void tail_after_fill(void)
{
	struct hm_fence *fill, *copy = NULL;
	struct engine_rig rig;
	char *from, *to;

	engine_open(&rig, 0);
	from = engine_alloc(rig.device, SIZE);
	to = engine_alloc(rig.device, SIZE);
	fill = start_fill(&rig, from);
	CHECK_OK_FATAL(hm_queue_copy(rig.queue, to, from, SIZE - 1, &copy));
	finish(copy);
	finish(fill);
	CHECK(to[0] == 5 && to[SIZE - 2] == 5 && to[SIZE - 1] == 0);
	CHECK_OK(hm_free(from));
	CHECK_OK(hm_free(to));
	engine_close(&rig);
}

static void launch_after_fill(void)
{
	struct hm_kernel *kernel = kernel_of_op(HM_ENGINE_COPY);
	struct hm_fence *fill, *copy = NULL;
	struct engine_rig rig;
	char *from, *to;

	engine_open(&rig, 0);
	from = engine_alloc(rig.device, SIZE);
	to = engine_alloc(rig.device, SIZE);
	fill = start_fill(&rig, from);
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &copy, HM_INOUT(to),
				 HM_RANGE(from + 1, SIZE / 2, HM_READ),
				 HM_RANGE(from + 1, SIZE / 2, HM_READ), HM_U64(SIZE / 2),
				 HM_U32(0)));
	finish(copy);
	finish(fill);
	CHECK(to[0] == 5 && to[SIZE / 2 - 1] == 5);
	CHECK_OK(hm_free(from));
	CHECK_OK(hm_free(to));
	hm_kernel_unref(kernel);
	engine_close(&rig);
}

static const struct test cases[] = {
	{ "copy_after_fill", copy_after_fill, 0, 0 },
	{ "tail_after_fill", tail_after_fill, 0, 0 },
	{ "launch_after_fill", launch_after_fill, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return engine_main(argc, argv, "engine_order", cases);
}
