// SPDX-License-Identifier: MIT
/* The accesses to each root in the order of the nodes, and whether each read has bytes to read. */
#include <errno.h>
#include <string.h>

#include "plan.h"

void uses_free(struct uses *uses)
{
	free(uses->use);
	free(uses->first);
	free(uses->node_first);
	free(uses->node_root);
	free(uses->node_use);
}

/* Adds up the node's accesses by root; returns the number of roots. */
static uint32_t add_up(const struct hm_plan *plan, const struct node *node, uint32_t at,
		       uint32_t root[HM_KERNEL_MAX_ARGS], struct use use[HM_KERNEL_MAX_ARGS])
{
	uint32_t n = 0, i, j;

	for (i = 0; i < node->n_arg; i++) {
		const struct hm_plan_arg *arg = &node->args[i];
		const struct range *range;

		if (!arg->range)
			continue;
		range = &plan->range[arg->range - 1];
		for (j = 0; j < n && root[j] != range->root; j++)
			;
		if (j == n) {
			root[n] = range->root;
			use[n++] = (struct use){ .at = at };
		}
		use[j].read |= (arg->access & HM_READ) != 0;
		use[j].write |= (arg->access & HM_WRITE) != 0;
		use[j].whole |= arg->access == HM_WRITE &&
				range->length == plan->range[range->root].length;
	}
	return n;
}

static int check(const struct hm_plan *plan, const struct node *node, uint32_t root,
		 struct use *use, bool *defined)
{
	if (use->read && !defined[root])
		return hm_error_set(-ENODATA,
				    "node %s reads range %s, and no node before it writes it",
				    node->name, plan->range[root].name);
	use->whole &= !use->read;
	/* The rest of the bytes is needed, if there is one. */
	if (use->write && !use->whole && defined[root])
		use->read = true;
	defined[root] |= use->write;
	return 0;
}

static int check_outputs(const struct hm_plan *plan, const bool *defined)
{
	uint32_t i;

	for (i = 0; i < plan->n_range; i++)
		if (plan->range[i].flags & HM_PLAN_OUTPUT && !defined[i])
			return hm_error_set(-ENODATA,
					    "range %s is an output, and no node writes it",
					    plan->range[i].name);
	return 0;
}

/* Sorts the uses by root, each root's by position: a count and a fill. */
static void by_root(const struct hm_plan *plan, struct uses *uses, const struct use *found)
{
	uint32_t n = uses->node_first[plan->n_node], i;

	for (i = 0; i < n; i++)
		uses->first[uses->node_root[i] + 1]++;
	for (i = 0; i < plan->n_range; i++)
		uses->first[i + 1] += uses->first[i];
	for (i = 0; i < n; i++) {
		uint32_t to = uses->first[uses->node_root[i]]++;

		uses->use[to] = found[i];
		uses->node_use[i] = to;
	}
	for (i = plan->n_range; i; i--)
		uses->first[i] = uses->first[i - 1];
	uses->first[0] = 0;
}

int uses_make(const struct hm_plan *plan, const uint32_t *order, struct uses *ret_uses)
{
	uint32_t root[HM_KERNEL_MAX_ARGS], total = 0, n, at, i;
	struct use use[HM_KERNEL_MAX_ARGS], *found;
	struct uses uses;
	bool *defined;
	int r = 0;

	for (i = 0; i < plan->n_node; i++)
		total += plan->node[i].n_arg;
	found = calloc(total + 1, sizeof(*found));
	defined = calloc(plan->n_range + 1, sizeof(*defined));
	uses = (struct uses){
		calloc(total + 1, sizeof(*uses.use)),
		calloc(plan->n_range + 2, sizeof(*uses.first)),
		calloc(plan->n_node + 1, sizeof(*uses.node_first)),
		calloc(total + 1, sizeof(*uses.node_root)),
		calloc(total + 1, sizeof(*uses.node_use)),
	};
	if (!found || !defined || !uses.use || !uses.first || !uses.node_first ||
	    !uses.node_root || !uses.node_use) {
		r = hm_error_set(-ENOMEM, "no memory for %u uses of ranges", total);
		goto out;
	}
	for (i = 0; i < plan->n_range; i++)
		defined[i] = (plan->range[i].flags & HM_PLAN_INPUT) != 0;
	total = 0;
	for (at = 0; at < plan->n_node; at++) {
		const struct node *node = &plan->node[order[at]];

		uses.node_first[at] = total;
		n = add_up(plan, node, at, root, use);
		for (i = 0; i < n; i++) {
			r = check(plan, node, root[i], &use[i], defined);
			if (r)
				goto out;
			uses.node_root[total] = root[i];
			found[total++] = use[i];
		}
	}
	uses.node_first[at] = total;
	r = check_outputs(plan, defined);
	if (!r)
		by_root(plan, &uses, found);
out:
	free(found);
	free(defined);
	if (r)
		uses_free(&uses);
	else
		*ret_uses = uses;
	return r;
}
