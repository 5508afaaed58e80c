// SPDX-License-Identifier: MIT
#include "graph/sums.h"
#include "lib/harness.h"

static int add_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const uint32_t *a = args[0].pointer, *b = args[1].pointer;
	uint32_t *sum = (uint32_t *)(uintptr_t)args[2].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		sum[i] = a[i] + b[i];
	return 0;
}

static const struct hm_engine_step add_step = { HM_ENGINE_ADD,  2, 0, 1, HM_ENGINE_NONE,
						HM_ENGINE_NONE, 0 };

const struct hm_kernel_desc sums_add = {
	.struct_size = sizeof(sums_add),
	.name = "add",
	.cpu = add_cpu,
	.signature = "in in out",
	.engine = &add_step,
	.n_engine = 1,
};

uint32_t sums_range(struct hm_plan *plan, const char *name, uint32_t flags, void *home,
		    uint64_t length)
{
	uint32_t range = 0;

	CHECK_OK_FATAL(hm_plan_range(plan,
				     DESC(hm_plan_range_desc, .flags = flags, .name = name,
					  .home = home, .length = length),
				     &range));
	return range;
}

uint32_t sums_node(struct hm_plan *plan, struct hm_kernel *add, uint64_t words,
		   const char *name, uint32_t a, uint32_t b, uint32_t sum)
{
	const struct hm_plan_arg args[] = { HM_PLAN_IN(a), HM_PLAN_IN(b), HM_PLAN_OUT(sum) };
	uint32_t node = 0;

	CHECK_OK_FATAL(hm_plan_node(plan,
				    DESC(hm_plan_node_desc, .name = name, .kernel = add,
					 .grid = { words, 1, 1 }, .args = args, .n_arg = 3),
				    &node));
	return node;
}
