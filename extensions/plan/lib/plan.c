// SPDX-License-Identifier: MIT
/* The plan itself: ranges, views and nodes as the caller tells of them. */
#include "plan.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int grow(void *array, uint32_t n, uint32_t *room, size_t size)
{
	void **to = array;
	uint32_t more = *room ? *room * 2 : 16;
	void *larger;

	if (n < *room)
		return 0;
	if (more <= n)
		return hm_error_set(-ENOMEM, "a plan has at most %u of each thing", *room);
	larger = realloc(*to, more * size);
	if (!larger)
		return hm_error_set(-ENOMEM, "no memory for %u entries of a plan", more);
	*to = larger;
	*room = more;
	return 0;
}

int hm_plan_create(uint32_t flags, struct hm_plan **ret_plan)
{
	struct hm_plan *plan;

	hm_error_begin();
	if (flags || !ret_plan)
		return hm_error_set(-EINVAL, "hm_plan_create: flags 0x%x, or no result", flags);
	plan = calloc(1, sizeof(*plan));
	if (!plan)
		return hm_error_set(-ENOMEM, "no memory for a plan");
	atomic_init(&plan->references, 1);
	*ret_plan = plan;
	return 0;
}

struct hm_plan *hm_plan_ref(struct hm_plan *plan)
{
	if (plan)
		atomic_fetch_add(&plan->references, 1);
	return plan;
}

void plan_clear(struct hm_plan *plan)
{
	uint32_t i;

	for (i = 0; i < plan->n_range; i++)
		free(plan->range[i].name);
	for (i = 0; i < plan->n_node; i++) {
		free(plan->node[i].name);
		free(plan->node[i].args);
		free(plan->node[i].after);
		hm_kernel_unref(plan->node[i].kernel);
	}
	free(plan->range);
	free(plan->node);
}

void hm_plan_unref(struct hm_plan *plan)
{
	if (!plan || atomic_fetch_sub(&plan->references, 1) != 1)
		return;
	plan_clear(plan);
	free(plan);
}

static void *duplicate(const void *from, size_t bytes)
{
	void *to = malloc(bytes ? bytes : 1);

	if (to && bytes)
		memcpy(to, from, bytes);
	return to;
}

/* ---- ranges ---- */

static int check_view(const struct hm_plan *plan, const struct hm_plan_range_desc *desc)
{
	const struct range *parent;

	if (desc->parent > plan->n_range)
		return hm_error_set(-ENOENT,
				    "range %s is a view of range %u, and the plan has ranges 1 "
				    "to %u",
				    desc->name, desc->parent, plan->n_range);
	if (desc->home || desc->flags)
		return hm_error_set(-EINVAL,
				    "range %s is a view: its parent has the home and the flags",
				    desc->name);
	parent = &plan->range[desc->parent - 1];
	if (desc->offset > parent->length || desc->length > parent->length - desc->offset)
		return hm_error_set(-ERANGE,
				    "range %s: bytes %" PRIu64 " to %" PRIu64
				    " are not in range %s of %" PRIu64,
				    desc->name, desc->offset, desc->offset + desc->length,
				    parent->name, parent->length);
	return 0;
}

static int check_root(const struct hm_plan *plan, const struct hm_plan_range_desc *desc)
{
	const char *home = desc->home;
	uint32_t i;

	if (!home != !desc->flags)
		return hm_error_set(
			-EINVAL,
			home ? "range %s has a home: say whether it is an input, an "
			       "output or both" :
			       "range %s is an input or an output, and has no home",
			desc->name);
	if (desc->offset)
		return hm_error_set(-EINVAL, "range %s has an offset, and is no view",
				    desc->name);
	for (i = 0; home && i < plan->n_range; i++) {
		const struct range *other = &plan->range[i];

		if (other->home && home < other->home + other->length &&
		    other->home < home + desc->length)
			return hm_error_set(-EEXIST,
					    "ranges %s and %s overlap at home: declare one "
					    "range over all the bytes, and views of it",
					    other->name, desc->name);
	}
	return 0;
}

int hm_plan_range(struct hm_plan *plan, const struct hm_plan_range_desc *desc,
		  uint32_t *ret_range)
{
	struct range range;
	int r;

	hm_error_begin();
	if (!plan || !desc || !desc->name || !ret_range)
		return hm_error_set(-EINVAL, "hm_plan_range: an argument is NULL");
	if (desc->struct_size != sizeof(*desc))
		return hm_error_set(-E2BIG, "hm_plan_range: a description of %u bytes",
				    desc->struct_size);
	if (!desc->length || desc->flags & ~(HM_PLAN_INPUT | HM_PLAN_OUTPUT) || desc->reserved)
		return hm_error_set(-EINVAL, "range %s has a length of %" PRIu64 ", flags 0x%x",
				    desc->name, desc->length, desc->flags);
	r = desc->parent ? check_view(plan, desc) : check_root(plan, desc);
	if (r)
		return r;
	r = grow(&plan->range, plan->n_range, &plan->range_room, sizeof(range));
	if (r)
		return r;
	range = (struct range){ strdup(desc->name), desc->home,  desc->length,
				desc->offset,       desc->flags, plan->n_range };
	if (!range.name)
		return hm_error_set(-ENOMEM, "no memory for a range");
	if (desc->parent) {
		range.root = plan->range[desc->parent - 1].root;
		range.offset += plan->range[desc->parent - 1].offset;
	}
	plan->range[plan->n_range++] = range;
	*ret_range = plan->n_range;
	return 0;
}

/* ---- nodes ---- */

static int check_args(const struct hm_plan *plan, const struct hm_plan_node_desc *desc)
{
	uint32_t i;

	for (i = 0; i < desc->n_arg; i++) {
		const struct hm_plan_arg *arg = &desc->args[i];

		if (!arg->range)
			continue;
		if (arg->range > plan->n_range)
			return hm_error_set(
				-ENOENT,
				"node %s: argument %u is range %u, and the plan has "
				"ranges 1 to %u",
				desc->name, i, arg->range, plan->n_range);
		if (!arg->access || arg->access & ~(HM_READ | HM_WRITE))
			return hm_error_set(-EINVAL,
					    "node %s: argument %u, range %s, has access 0x%x",
					    desc->name, i, plan->range[arg->range - 1].name,
					    arg->access);
	}
	return 0;
}

int hm_plan_node(struct hm_plan *plan, const struct hm_plan_node_desc *desc, uint32_t *ret_node)
{
	struct node *node;
	int r;

	hm_error_begin();
	if (!plan || !desc || !desc->name || (desc->n_arg && !desc->args) ||
	    (desc->n_after && !desc->after))
		return hm_error_set(-EINVAL, "hm_plan_node: an argument is NULL");
	if (desc->struct_size != sizeof(*desc))
		return hm_error_set(-E2BIG, "hm_plan_node: a description of %u bytes",
				    desc->struct_size);
	if (!desc->kernel == !desc->call || desc->n_arg > HM_KERNEL_MAX_ARGS || desc->flags)
		return hm_error_set(-EINVAL,
				    "node %s needs either a kernel or a function, and at most "
				    "%u arguments: it has %u",
				    desc->name, HM_KERNEL_MAX_ARGS, desc->n_arg);
	r = check_args(plan, desc);
	if (!r)
		r = grow(&plan->node, plan->n_node, &plan->node_room, sizeof(*node));
	if (r)
		return r;
	node = &plan->node[plan->n_node];
	*node = (struct node){
		.name = strdup(desc->name),
		.call = desc->call,
		.user = desc->user,
		.args = duplicate(desc->args, desc->n_arg * sizeof(*desc->args)),
		.after = duplicate(desc->after, desc->n_after * sizeof(*desc->after)),
		.n_arg = desc->n_arg,
		.n_after = desc->n_after,
	};
	memcpy(node->grid, desc->grid, sizeof(node->grid));
	if (!node->name || !node->args || !node->after) {
		free(node->name);
		free(node->args);
		free(node->after);
		return hm_error_set(-ENOMEM, "no memory for a node");
	}
	node->kernel = hm_kernel_ref(desc->kernel);
	plan->n_node++;
	if (ret_node)
		*ret_node = plan->n_node;
	return 0;
}

int plan_copy(const struct hm_plan *plan, struct hm_plan *ret_copy)
{
	struct hm_plan copy = { 0 };
	uint32_t i;

	copy.range = duplicate(plan->range, plan->n_range * sizeof(*plan->range));
	copy.node = duplicate(plan->node, plan->n_node * sizeof(*plan->node));
	if (!copy.range || !copy.node) {
		free(copy.range);
		free(copy.node);
		return hm_error_set(-ENOMEM, "no memory for %u nodes", plan->n_node);
	}
	for (i = 0; i < plan->n_range; i++)
		copy.range[i].name = strdup(plan->range[i].name);
	for (i = 0; i < plan->n_node; i++) {
		const struct node *from = &plan->node[i];
		struct node *to = &copy.node[i];

		to->name = strdup(from->name);
		to->args = duplicate(from->args, from->n_arg * sizeof(*from->args));
		to->after = duplicate(from->after, from->n_after * sizeof(*from->after));
		to->kernel = hm_kernel_ref(from->kernel);
	}
	copy.n_range = plan->n_range;
	copy.n_node = plan->n_node;
	for (i = 0; i < copy.n_range; i++)
		if (!copy.range[i].name)
			goto err_clear;
	for (i = 0; i < copy.n_node; i++)
		if (!copy.node[i].name || !copy.node[i].args || !copy.node[i].after)
			goto err_clear;
	*ret_copy = copy;
	return 0;

err_clear:
	plan_clear(&copy);
	return hm_error_set(-ENOMEM, "no memory for %u nodes", plan->n_node);
}
