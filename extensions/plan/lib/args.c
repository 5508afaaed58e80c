// SPDX-License-Identifier: MIT
/*
 * Arguments of all nodes, made once: a schedule fixes each place, so a run passes them as they are.
 * Only new homes of ranges that are used in place change them.
 */
#include "plan.h"

/* The address at which a kernel reaches bytes of the arena. */
static char *reach(const struct hm_schedule *schedule, uint64_t offset, uint64_t length)
{
	/* A range that is longer than half a window may be in none: the launch says so. */
	if (!schedule->between || offset < schedule->between_offset ||
	    offset / schedule->window == (offset + length - 1) / schedule->window)
		return schedule->arena + offset;
	return (char *)hm_map_address(schedule->between) + offset - schedule->between_offset;
}

static void make_args(struct hm_schedule *schedule, const struct step *step, char *const *home)
{
	const struct uses *uses = &schedule->uses;
	const struct node *node = &schedule->plan.node[schedule->order[step->at]];
	struct hm_arg *args = &schedule->args[schedule->first_arg[step->at]];
	uint32_t first = uses->node_first[step->at], i, k;

	for (i = 0; i < node->n_arg; i++) {
		const struct hm_plan_arg *arg = &node->args[i];
		const struct range *range;
		char *bytes;

		if (!arg->range) {
			args[i] = arg->value;
			continue;
		}
		range = &schedule->plan.range[arg->range - 1];
		for (k = first; uses->node_root[k] != range->root; k++)
			;
		if (schedule->size[range->root])
			bytes = reach(schedule,
				      schedule->steps.place[step->place + k - first] +
					      range->offset,
				      range->length);
		else
			bytes = (home ? home[range->root] :
					schedule->plan.range[range->root].home) +
				range->offset;
		args[i] = hm_arg_range(bytes, range->length, arg->access);
	}
}

void args_make(struct hm_schedule *schedule, char *const *home)
{
	uint32_t i;

	for (i = 0; i < schedule->steps.n_step; i++)
		if (schedule->steps.step[i].kind == HM_PLAN_STEP_NODE)
			make_args(schedule, &schedule->steps.step[i], home);
}
