// SPDX-License-Identifier: MIT
/*
 * The order of the nodes. Their ranges alone never ask for another order than that of their adding;
 * hm_plan_node_desc.after may, and may make a circle.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "plan.h"

struct edges {
	uint32_t *to, *next; /* next edge of the same node, from 1; 0: none */
	uint32_t *first;     /* by node */
	uint32_t *waits;     /* by node: edges that end there */
	uint32_t n, room, next_room;
};

static int add(struct edges *edges, uint32_t from, uint32_t to)
{
	int r = grow(&edges->to, edges->n, &edges->room, sizeof(*edges->to));

	if (!r)
		r = grow(&edges->next, edges->n, &edges->next_room, sizeof(*edges->next));
	if (r)
		return r;
	edges->to[edges->n] = to;
	edges->next[edges->n] = edges->first[from];
	edges->first[from] = ++edges->n;
	edges->waits[to]++;
	return 0;
}

/* A chain of readers since the last write, for each root. */
struct tail {
	uint32_t writer;  /* node + 1 */
	uint32_t readers; /* index + 1 in the list of readers */
};

struct reader {
	uint32_t node, next;
};

static int by_ranges(const struct hm_plan *plan, struct edges *edges)
{
	struct tail *tail = calloc(plan->n_range + 1, sizeof(*tail));
	struct reader *reader = NULL;
	uint32_t n_reader = 0, room = 0, i, j, k;
	int r = tail ? 0 : hm_error_set(-ENOMEM, "no memory for an order");

	for (i = 0; !r && i < plan->n_node; i++) {
		const struct node *node = &plan->node[i];

		for (j = 0; !r && j < node->n_arg; j++) {
			const struct hm_plan_arg *arg = &node->args[j];
			struct tail *t;

			if (!arg->range)
				continue;
			t = &tail[plan->range[arg->range - 1].root];
			if (t->writer && t->writer != i + 1)
				r = add(edges, t->writer - 1, i);
			if (arg->access & HM_WRITE) {
				for (k = t->readers; !r && k; k = reader[k - 1].next)
					if (reader[k - 1].node != i)
						r = add(edges, reader[k - 1].node, i);
				t->readers = 0;
				t->writer = i + 1;
			} else if (!r) {
				r = grow(&reader, n_reader, &room, sizeof(*reader));
				if (!r) {
					reader[n_reader] = (struct reader){ i, t->readers };
					t->readers = ++n_reader;
				}
			}
		}
	}
	free(reader);
	free(tail);
	return r;
}

static int by_words(const struct hm_plan *plan, struct edges *edges)
{
	uint32_t i, j;
	int r = 0;

	for (i = 0; !r && i < plan->n_node; i++) {
		const struct node *node = &plan->node[i];

		for (j = 0; !r && j < node->n_after; j++) {
			uint32_t after = node->after[j];

			if (!after || after > plan->n_node)
				return hm_error_set(
					-ENOENT,
					"node %s is after node %u, and the plan has "
					"nodes 1 to %u",
					node->name, after, plan->n_node);
			r = add(edges, after - 1, i);
		}
	}
	return r;
}

/* A heap of nodes that wait for none, the first added on top. */
static void push(uint32_t *heap, uint32_t *n, uint32_t node)
{
	uint32_t i = (*n)++;

	for (; i && heap[(i - 1) / 2] > node; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = node;
}

static uint32_t pop(uint32_t *heap, uint32_t *n)
{
	uint32_t top = heap[0], last = heap[--*n], i = 0, child;

	while ((child = 2 * i + 1) < *n) {
		if (child + 1 < *n && heap[child + 1] < heap[child])
			child++;
		if (heap[child] >= last)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return top;
}

/* Each node that still waits has an edge from another such node: going back finds the circle. */
static int tell_circle(const struct hm_plan *plan, const struct edges *edges)
{
	uint32_t *before = calloc(plan->n_node, sizeof(*before));
	bool *seen = calloc(plan->n_node, sizeof(*seen));
	char text[600];
	uint32_t i, e, start = 0, n = 0;
	int at;

	if (!before || !seen) {
		free(before);
		free(seen);
		return hm_error_set(-ELOOP, "the nodes of the plan wait for each other");
	}
	for (i = 0; i < plan->n_node; i++) {
		if (!edges->waits[i])
			continue;
		start = i;
		for (e = edges->first[i]; e; e = edges->next[e - 1])
			if (edges->waits[edges->to[e - 1]])
				before[edges->to[e - 1]] = i;
	}
	for (i = start; !seen[i]; i = before[i])
		seen[i] = true;
	at = snprintf(text, sizeof(text), "%s", plan->node[i].name);
	start = i;
	do {
		i = before[i];
		at += snprintf(text + at, sizeof(text) - (size_t)at, " waits for %s",
			       plan->node[i].name);
	} while (i != start && ++n < 8 && at < (int)sizeof(text) - 80);
	free(before);
	free(seen);
	return hm_error_set(-ELOOP, "nodes wait for each other: %s%s", text,
			    i == start ? "" : " ...");
}

static int sort(const struct hm_plan *plan, struct edges *edges, uint32_t *order)
{
	uint32_t *heap = calloc(plan->n_node + 1, sizeof(*heap));
	uint32_t n_heap = 0, n = 0, i, e;
	int r = 0;

	if (!heap)
		return hm_error_set(-ENOMEM, "no memory for an order");
	for (i = 0; i < plan->n_node; i++)
		if (!edges->waits[i])
			push(heap, &n_heap, i);
	while (n_heap) {
		i = pop(heap, &n_heap);
		order[n++] = i;
		for (e = edges->first[i]; e; e = edges->next[e - 1])
			if (!--edges->waits[edges->to[e - 1]])
				push(heap, &n_heap, edges->to[e - 1]);
	}
	if (n < plan->n_node)
		r = tell_circle(plan, edges);
	free(heap);
	return r;
}

int order_make(const struct hm_plan *plan, uint32_t *order)
{
	struct edges edges = { 0 };
	bool asked = false;
	uint32_t i;
	int r;

	for (i = 0; i < plan->n_node; i++) {
		order[i] = i;
		asked |= plan->node[i].n_after != 0;
	}
	if (!asked)
		return 0;
	edges.first = calloc(plan->n_node, sizeof(*edges.first));
	edges.waits = calloc(plan->n_node, sizeof(*edges.waits));
	r = edges.first && edges.waits ? by_ranges(plan, &edges) :
					 hm_error_set(-ENOMEM, "no memory for an order");
	if (!r)
		r = by_words(plan, &edges);
	if (!r)
		r = sort(plan, &edges, order);
	free(edges.first);
	free(edges.waits);
	free(edges.to);
	free(edges.next);
	return r;
}
