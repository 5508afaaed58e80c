// SPDX-License-Identifier: MIT
/* A schedule as numbers and as text. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "explain.h"
#include "picture.h"
#include "plan.h"

int hm_schedule_query(struct hm_schedule *schedule, struct hm_schedule_info *ret_info)
{
	uint64_t together = 0;
	uint32_t i;

	hm_error_begin();
	if (!schedule || !ret_info)
		return hm_error_set(-EINVAL, "hm_schedule_query: an argument is NULL");
	if (ret_info->struct_size != sizeof(*ret_info))
		return hm_error_set(-E2BIG, "hm_schedule_query: a struct of %u bytes",
				    ret_info->struct_size);
	for (i = 0; i < schedule->plan.n_range; i++)
		together += schedule->size[i];
	*ret_info = (struct hm_schedule_info){
		.struct_size = sizeof(*ret_info),
		.policy = schedule->policy,
		.budget = schedule->budget,
		.smallest = schedule->smallest,
		.peak = schedule->steps.peak,
		.bytes_in = schedule->steps.bytes_in,
		.bytes_out = schedule->steps.bytes_out,
		.bytes_moved = schedule->steps.bytes_moved,
		.bytes_spill = schedule->bytes_spill,
		.evictions = schedule->steps.evictions,
		.bytes_together = together,
		.n_steps = schedule->steps.n_step,
		.n_nodes = schedule->plan.n_node,
		.n_in_place = schedule->n_in_place,
	};
	return 0;
}

int hm_schedule_step(struct hm_schedule *schedule, uint32_t index,
		     struct hm_plan_step *ret_step)
{
	const struct step *step;

	hm_error_begin();
	if (!schedule || !ret_step)
		return hm_error_set(-EINVAL, "hm_schedule_step: an argument is NULL");
	if (ret_step->struct_size != sizeof(*ret_step))
		return hm_error_set(-E2BIG, "hm_schedule_step: a struct of %u bytes",
				    ret_step->struct_size);
	if (index >= schedule->steps.n_step)
		return hm_error_set(-ERANGE, "step %u, and the schedule has %u", index,
				    schedule->steps.n_step);
	step = &schedule->steps.step[index];
	*ret_step = (struct hm_plan_step){
		.struct_size = sizeof(*ret_step),
		.kind = step->kind,
		.lane = step->lane,
		.node = schedule->order[step->at] + 1,
		.home = step->home,
	};
	memcpy(ret_step->after, step->after, sizeof(step->after));
	if (step->kind == HM_PLAN_STEP_NODE)
		return 0;
	ret_step->range = step->range + 1;
	ret_step->offset = step->offset;
	ret_step->from = step->from;
	ret_step->length = schedule->plan.range[step->range].length;
	return 0;
}

int hm_schedule_place(struct hm_schedule *schedule, uint32_t index, uint32_t argument,
		      uint64_t *ret_offset)
{
	const struct uses *uses;
	const struct step *step;
	const struct node *node;
	const struct range *range;
	uint32_t k;

	hm_error_begin();
	if (!schedule || !ret_offset)
		return hm_error_set(-EINVAL, "hm_schedule_place: an argument is NULL");
	step = index < schedule->steps.n_step ? &schedule->steps.step[index] : NULL;
	if (!step || step->kind != HM_PLAN_STEP_NODE)
		return hm_error_set(-ERANGE, "step %u runs no node", index);
	uses = &schedule->uses;
	node = &schedule->plan.node[schedule->order[step->at]];
	if (argument >= node->n_arg || !node->args[argument].range)
		return hm_error_set(-ENOENT, "node %s: argument %u is no range", node->name,
				    argument);
	range = &schedule->plan.range[node->args[argument].range - 1];
	for (k = uses->node_first[step->at]; uses->node_root[k] != range->root; k++)
		;
	k -= uses->node_first[step->at];
	*ret_offset = schedule->steps.place[step->place + k];
	if (*ret_offset != NOWHERE)
		*ret_offset += range->offset;
	return 0;
}

/* ---- text ---- */

static const char *const policies[] = { "ahead", "up front", "per node" };

void tell_sums(FILE *out, const struct hm_schedule *schedule)
{
	const struct steps *steps = &schedule->steps;

	fprintf(out, "policy      %s\n", policies[schedule->policy]);
	fprintf(out, "nodes       %u\n", schedule->plan.n_node);
	fprintf(out, "in          %" PRIu64 " bytes\n", steps->bytes_in);
	fprintf(out, "out         %" PRIu64 " bytes\n", steps->bytes_out);
	fprintf(out, "moved       %" PRIu64 " bytes inside the device\n", steps->bytes_moved);
	fprintf(out, "peak        %" PRIu64 " bytes; the smallest budget is %" PRIu64 "\n",
		steps->peak, schedule->smallest);
	if (schedule->budget)
		fprintf(out, "budget      %" PRIu64 " bytes\n", schedule->budget);
	if (steps->evictions)
		fprintf(out,
			"evictions   %" PRIu64 ": fewest bytes of %u ways to choose, %" PRIu64
			" bytes of host memory\n",
			steps->evictions, schedule->tries, schedule->bytes_spill);
}

static void tell_ranges(FILE *out, const struct hm_schedule *schedule)
{
	const struct hm_plan *plan = &schedule->plan;
	const struct uses *uses = &schedule->uses;
	uint32_t i;

	fputs("\nranges\n", out);
	for (i = 0; i < plan->n_range; i++) {
		const struct range *range = &plan->range[i];
		uint32_t first = uses->first[i], end = uses->first[i + 1];

		fprintf(out, "  %s: %" PRIu64 " bytes, ", range->name, range->length);
		if (range->root != i)
			fprintf(out, "at %" PRIu64 " of %s\n", range->offset,
				plan->range[range->root].name);
		else if (first == end)
			fputs("no node uses it\n", out);
		else
			fprintf(out, "%s, from %s to %s\n",
				!schedule->size[i] ? "in place at its home" :
				range->home        ? "copied" :
						     "temporary",
				plan->node[schedule->order[uses->use[first].at]].name,
				plan->node[schedule->order[uses->use[end - 1].at]].name);
	}
}

/* The next node after position @at that uses the root; NULL: none. */
static const char *next_node(const struct hm_schedule *schedule, uint32_t root, uint32_t at)
{
	const struct uses *uses = &schedule->uses;
	uint32_t u;

	for (u = uses->first[root]; u < uses->first[root + 1]; u++)
		if (uses->use[u].at > at || (uses->use[u].at == at && !at))
			return schedule->plan.node[schedule->order[uses->use[u].at]].name;
	return NULL;
}

void tell_reason(FILE *out, const struct hm_schedule *schedule, const struct step *step)
{
	const char *node = schedule->plan.node[schedule->order[step->at]].name;
	const char *next;

	switch (step->kind) {
	case HM_PLAN_STEP_IN:
		fprintf(out, "%s needs it%s", node, step->home ? "" : ", and it comes back");
		break;
	case HM_PLAN_STEP_OUT:
		next = next_node(schedule, step->range, step->at);
		if (step->home)
			fprintf(out, "no node after %s writes it", node);
		else if (next)
			fprintf(out, "it leaves for %s; the next use is %s", node, next);
		else
			fputs("the policy", out);
		break;
	case HM_PLAN_STEP_MOVE:
		fprintf(out, "%s needs one piece", node);
		break;
	default:
		break;
	}
}

static void tell_step(FILE *out, const struct hm_schedule *schedule, const struct step *step)
{
	const char *range = schedule->plan.range[step->range].name;

	switch (step->kind) {
	case HM_PLAN_STEP_IN:
		fprintf(out, "  in    %s to %" PRIu64 ": ", range, step->offset);
		break;
	case HM_PLAN_STEP_OUT:
		fprintf(out, "  out   %s from %" PRIu64 ": ", range, step->offset);
		break;
	case HM_PLAN_STEP_MOVE:
		fprintf(out, "  move  %s from %" PRIu64 " to %" PRIu64 ": ", range, step->from,
			step->offset);
		break;
	default:
		fprintf(out, "  run   %s", schedule->plan.node[schedule->order[step->at]].name);
	}
	tell_reason(out, schedule, step);
	putc('\n', out);
}

static int tell_all(FILE *out, const struct hm_schedule *schedule)
{
	uint32_t i;

	tell_sums(out, schedule);
	tell_ranges(out, schedule);
	fputs("\nsteps\n", out);
	for (i = 0; i < schedule->steps.n_step; i++)
		tell_step(out, schedule, &schedule->steps.step[i]);
	return 0;
}

static int (*const formats[])(FILE *out, const struct hm_schedule *schedule) = {
	[HM_PLAN_TEXT] = tell_all,
	[HM_PLAN_SVG] = picture_draw,
	[HM_PLAN_JSON] = plan_explain_json,
	[HM_PLAN_HTML] = plan_explain_html,
};

int hm_plan_explain(struct hm_schedule *schedule, uint32_t format, char **ret_text)
{
	char *text = NULL;
	size_t length;
	FILE *out;
	bool failed;

	hm_error_begin();
	if (!schedule || !ret_text || format > HM_PLAN_HTML)
		return hm_error_set(-EINVAL, "hm_plan_explain: format %u, or NULL", format);
	out = open_memstream(&text, &length);
	if (!out)
		return hm_error_set(-ENOMEM, "no memory for a text");
	failed = formats[format](out, schedule) || ferror(out);
	if (fclose(out) || failed) {
		free(text);
		return hm_error_set(-ENOMEM, "no memory for a text");
	}
	*ret_text = text;
	return 0;
}
