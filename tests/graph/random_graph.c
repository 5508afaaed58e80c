// SPDX-License-Identifier: MIT
#include "graph/random_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/harness.h"

static uint32_t below(uint64_t *random, uint32_t n)
{
	return (uint32_t)((test_random(random) >> 33) % n);
}

/* ---- making ---- */

/* Reads only ranges that have bytes; writes any. */
static void add_arg(struct graph *graph, struct graph_node *node, const bool *defined,
		    uint64_t *random)
{
	static const uint32_t accesses[] = { HM_READ, HM_READ, HM_WRITE, HM_READ | HM_WRITE };
	uint32_t range = below(random, graph->n_range), access = accesses[below(random, 4)], i;

	if (!defined[graph->range[range].root])
		access = HM_WRITE;
	/* An argument that is written alone has its bytes for itself. */
	for (i = 0; i < node->n_arg; i++)
		if (graph->range[node->arg[i].range].root == graph->range[range].root)
			return;
	node->arg[node->n_arg++] = (struct graph_arg){ range, access };
}

static void add_node(struct graph *graph, bool *defined, uint64_t *random)
{
	struct graph_node *node = &graph->node[graph->n_node++];
	uint32_t n = 1 + below(random, GRAPH_ARGS), i;

	node->n_arg = 0;
	for (i = 0; i < n; i++)
		add_arg(graph, node, defined, random);
	for (i = 0; i < node->n_arg; i++)
		if (node->arg[i].access & HM_WRITE)
			defined[graph->range[node->arg[i].range].root] = true;
}

void graph_random(struct graph *graph, uint64_t *random)
{
	static const uint32_t flags[] = { 0,
					  0,
					  0,
					  HM_PLAN_INPUT,
					  HM_PLAN_INPUT,
					  HM_PLAN_OUTPUT,
					  HM_PLAN_INPUT | HM_PLAN_OUTPUT };
	bool defined[GRAPH_RANGES] = { false };
	uint32_t n = 2 + below(random, GRAPH_NODES - 1), views, i;

	memset(graph, 0, sizeof(*graph));
	graph->n_root = 2 + below(random, GRAPH_ROOTS - 1);
	for (i = 0; i < graph->n_root; i++) {
		graph->range[i] = (struct graph_range){
			i,
			0,
			1 + below(random, GRAPH_UNITS),
			flags[below(random, 7)],
		};
		defined[i] = graph->range[i].flags & HM_PLAN_INPUT;
	}
	views = below(random, GRAPH_VIEWS + 1);
	for (; i < graph->n_root + views; i++) {
		uint32_t root = below(random, graph->n_root), units = graph->range[root].units;
		uint32_t offset = below(random, units);

		graph->range[i] = (struct graph_range){ root, offset,
							1 + below(random, units - offset), 0 };
	}
	graph->n_range = i;
	while (graph->n_node < n)
		add_node(graph, defined, random);
	/* An output that no node writes is refused. */
	for (i = 0; i < graph->n_root; i++)
		if (!defined[i])
			graph->range[i].flags = 0;
}

struct hm_plan *graph_plan(struct graph *graph, hm_plan_function *call)
{
	struct hm_plan *plan;
	uint32_t i, j, number;
	char name[16];

	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	for (i = 0; i < graph->n_range; i++) {
		const struct graph_range *range = &graph->range[i];
		struct hm_plan_range_desc desc = {
			.struct_size = sizeof(desc),
			.flags = range->flags,
			.name = name,
			.home = range->flags ? graph->home[i] : NULL,
			.length = range->units * GRAPH_UNIT,
			.parent = range->root == i ? HM_PLAN_NONE : range->root + 1,
			.offset = range->offset * GRAPH_UNIT,
		};

		snprintf(name, sizeof(name), "range%u", i);
		CHECK_OK_FATAL(hm_plan_range(plan, &desc, &number));
	}
	for (i = 0; i < graph->n_node; i++) {
		struct hm_plan_arg args[GRAPH_ARGS];
		struct hm_plan_node_desc desc = {
			.struct_size = sizeof(desc),
			.name = name,
			.call = call,
			.user = (void *)(uintptr_t)i,
			.args = args,
			.n_arg = graph->node[i].n_arg,
		};

		for (j = 0; j < desc.n_arg; j++)
			args[j] = hm_plan_arg_range(graph->node[i].arg[j].range + 1,
						    graph->node[i].arg[j].access);
		snprintf(name, sizeof(name), "node%u", i);
		CHECK_OK_FATAL(hm_plan_node(plan, &desc, NULL));
	}
	return plan;
}

/* ---- trying everything ---- */

/* Accesses of nodes to roots, by bits. */
struct needs {
	uint32_t uses, reads, writes;
};

struct search {
	struct needs node[GRAPH_NODES];
	uint32_t needed[GRAPH_NODES + 1]; /* roots whose bytes a node from here on reads */
	uint32_t last_write[GRAPH_NODES]; /* outputs that no later node writes */
	const struct graph *graph;
};

static void find_needs(struct search *search, const struct graph *graph)
{
	uint32_t defined = 0, outputs = 0, i, j;

	search->graph = graph;
	for (i = 0; i < graph->n_root; i++) {
		defined |= (uint32_t) !!(graph->range[i].flags & HM_PLAN_INPUT) << i;
		outputs |= (uint32_t) !!(graph->range[i].flags & HM_PLAN_OUTPUT) << i;
	}
	for (i = 0; i < graph->n_node; i++) {
		struct needs *needs = &search->node[i];

		*needs = (struct needs){ 0 };
		for (j = 0; j < graph->node[i].n_arg; j++) {
			const struct graph_arg *arg = &graph->node[i].arg[j];
			const struct graph_range *range = &graph->range[arg->range];
			uint32_t bit = 1u << range->root;
			bool whole = range->units == graph->range[range->root].units;

			needs->uses |= bit;
			if (arg->access & HM_WRITE)
				needs->writes |= bit;
			if (arg->access & HM_READ || (!whole && defined & bit))
				needs->reads |= bit;
			if (arg->access & HM_WRITE)
				defined |= bit;
		}
	}
	search->needed[graph->n_node] = 0;
	for (i = graph->n_node; i--;) {
		const struct needs *needs = &search->node[i];

		search->needed[i] = (search->needed[i + 1] & ~needs->uses) | needs->reads;
		search->last_write[i] = needs->writes & outputs;
		outputs &= ~needs->writes;
	}
}

static uint32_t units_of(const struct graph *graph, uint32_t roots)
{
	uint32_t sum = 0, i;

	for (i = 0; i < graph->n_root; i++)
		if (roots >> i & 1)
			sum += graph->range[i].units;
	return sum;
}

/* A state is the roots on the device, and above them those that the host has, too. */
#define STATES (1u << (2 * GRAPH_ROOTS))

static void try_node(const struct search *search, uint32_t at, uint32_t budget, uint32_t state,
		     uint32_t cost, uint32_t *next)
{
	const struct needs *needs = &search->node[at];
	uint32_t there = state & ((1u << GRAPH_ROOTS) - 1), behind = state >> GRAPH_ROOTS;
	uint32_t others = there & ~needs->uses, leave = others;

	/* All subsets of the others, the empty one last. */
	for (;; leave = (leave - 1) & others) {
		uint32_t stay = there & ~leave, back = behind, sum = cost;

		if (units_of(search->graph, stay | needs->uses) <= budget) {
			sum += units_of(search->graph, leave & ~back & search->needed[at]);
			back |= leave;
			sum += units_of(search->graph, needs->reads & ~stay);
			stay |= needs->uses;
			back &= ~needs->writes;
			sum += units_of(search->graph, search->last_write[at]);
			back |= search->last_write[at];
			stay &= search->needed[at + 1];
			/* It does not matter which side has bytes that no node needs. */
			back |= ~search->needed[at + 1] & ((1u << GRAPH_ROOTS) - 1);
			stay |= back << GRAPH_ROOTS;
			if (sum < next[stay])
				next[stay] = sum;
		}
		if (!leave)
			return;
	}
}

uint32_t graph_optimum(const struct graph *graph, uint32_t budget)
{
	static uint32_t costs[2][STATES];
	uint32_t *now = costs[0], *next = costs[1], *other, at, state, best = UINT32_MAX, i;
	struct search search;

	find_needs(&search, graph);
	memset(now, 0xff, sizeof(costs[0]));
	for (state = 0, i = 0; i < graph->n_root; i++)
		state |= (uint32_t) !!(graph->range[i].flags & HM_PLAN_INPUT) << i;
	now[state << GRAPH_ROOTS] = 0;
	for (at = 0; at < graph->n_node; at++) {
		memset(next, 0xff, sizeof(costs[0]));
		for (state = 0; state < STATES; state++)
			if (now[state] != UINT32_MAX)
				try_node(&search, at, budget, state, now[state], next);
		other = now;
		now = next;
		next = other;
	}
	for (state = 0; state < STATES; state++)
		if (now[state] < best)
			best = now[state];
	return best;
}

uint32_t graph_smallest(const struct graph *graph)
{
	struct search search;
	uint32_t most = 0, i;

	find_needs(&search, graph);
	for (i = 0; i < graph->n_node; i++) {
		uint32_t units = units_of(graph, search.node[i].uses);

		most = units > most ? units : most;
	}
	return most;
}

uint32_t graph_all(const struct graph *graph)
{
	struct search search;
	uint32_t used = 0, i;

	find_needs(&search, graph);
	for (i = 0; i < graph->n_node; i++)
		used |= search.node[i].uses;
	return units_of(graph, used);
}

/* ---- simulating ---- */

/* Each unit has a number: that of the write that made it. */
struct bytes {
	uint32_t unit[GRAPH_ROOTS][GRAPH_UNITS];
};

#define UNDEFINED 999 /* bytes that no node has written */

struct simulation {
	const struct graph *graph;
	struct bytes home, spill;
	struct bytes seen[GRAPH_NODES]; /* bytes that each node must see */
	struct bytes last;              /* right bytes of the outputs */
	uint32_t device[GRAPH_ROOTS * GRAPH_UNITS * 4];
	uint32_t peak, cross;
};

static uint32_t token(uint32_t node, uint32_t root, uint32_t unit)
{
	return 1000 + node * 1000 + root * GRAPH_UNITS + unit;
}

static void expect(struct simulation *s)
{
	const struct graph *graph = s->graph;
	struct bytes now;
	uint32_t i, j, u;

	for (i = 0; i < GRAPH_ROOTS; i++)
		for (u = 0; u < GRAPH_UNITS; u++)
			s->home.unit[i][u] = s->graph->range[i].flags & HM_PLAN_INPUT ?
						     i * GRAPH_UNITS + u :
						     UNDEFINED;
	now = s->home;
	for (i = 0; i < graph->n_node; i++) {
		s->seen[i] = now;
		for (j = 0; j < graph->node[i].n_arg; j++) {
			const struct graph_arg *arg = &graph->node[i].arg[j];
			const struct graph_range *range = &graph->range[arg->range];

			for (u = range->offset; u < range->offset + range->units; u++)
				if (arg->access & HM_WRITE)
					now.unit[range->root][u] = token(i, range->root, u);
		}
	}
	s->last = now;
}

static bool run_node(struct simulation *s, struct hm_schedule *schedule, uint32_t index,
		     uint32_t i)
{
	const struct graph_node *node = &s->graph->node[i];
	uint32_t j, u;

	for (j = 0; j < node->n_arg; j++) {
		const struct graph_range *range = &s->graph->range[node->arg[j].range];
		uint64_t place;

		CHECK_OK_FATAL(hm_schedule_place(schedule, index, j, &place));
		place /= GRAPH_UNIT;
		if (place + range->units > s->peak) {
			test_fail(__FILE__, __LINE__, "node %u: a place beyond the peak", i);
			return false;
		}
		for (u = 0; u < range->units; u++) {
			uint32_t *unit = &s->device[place + u];
			uint32_t seen = s->seen[i].unit[range->root][range->offset + u];

			if (node->arg[j].access & HM_READ && seen != UNDEFINED &&
			    *unit != seen) {
				test_fail(__FILE__, __LINE__,
					  "node %u reads write %u of range %u, not write %u", i,
					  *unit, node->arg[j].range, seen);
				return false;
			}
			if (node->arg[j].access & HM_WRITE)
				*unit = token(i, range->root, range->offset + u);
		}
	}
	return true;
}

static bool take(struct simulation *s, struct hm_schedule *schedule, uint32_t index,
		 const struct hm_plan_step *step)
{
	uint32_t *device = &s->device[step->offset / GRAPH_UNIT];
	uint32_t units = (uint32_t)(step->length / GRAPH_UNIT), root = step->range - 1;
	uint32_t *host;

	if (step->kind == HM_PLAN_STEP_NODE)
		return run_node(s, schedule, index, step->node - 1);
	if (step->offset / GRAPH_UNIT + units > s->peak) {
		test_fail(__FILE__, __LINE__, "step %u goes beyond the peak", index);
		return false;
	}
	host = step->home ? s->home.unit[root] : s->spill.unit[root];
	if (step->kind == HM_PLAN_STEP_IN)
		memcpy(device, host, units * sizeof(*host));
	else if (step->kind == HM_PLAN_STEP_OUT)
		memcpy(host, device, units * sizeof(*host));
	else
		memmove(device, &s->device[step->from / GRAPH_UNIT], units * sizeof(*host));
	if (step->kind != HM_PLAN_STEP_MOVE)
		s->cross += units;
	return true;
}

/* Steps of a lane that are done, and the index of its next one. */
static bool ready(const struct hm_plan_step *step, const uint32_t *done)
{
	uint32_t lane;

	for (lane = 0; lane < HM_PLAN_LANES; lane++)
		if (done[lane] < step->after[lane])
			return false;
	return true;
}

static bool outputs_right(const struct simulation *s)
{
	uint32_t i, u;

	for (i = 0; i < s->graph->n_root; i++)
		for (u = 0; u < s->graph->range[i].units; u++) {
			uint32_t is = s->home.unit[i][u], flags = s->graph->range[i].flags;
			uint32_t expected = flags & HM_PLAN_OUTPUT ? s->last.unit[i][u] :
					    flags                  ? i * GRAPH_UNITS + u :
								     UNDEFINED;

			if (is != expected && expected != UNDEFINED) {
				test_fail(__FILE__, __LINE__,
					  "range %u has write %u at home, not write %u", i, is,
					  expected);
				return false;
			}
		}
	return true;
}

bool graph_simulate(const struct graph *graph, struct hm_schedule *schedule, uint64_t *random)
{
	struct hm_schedule_info info = { .struct_size = sizeof(info) };
	struct simulation *s = calloc(1, sizeof(*s));
	uint32_t done[HM_PLAN_LANES] = { 0 }, next[HM_PLAN_LANES], total = 0, lane, i;
	struct hm_plan_step *step;
	bool right = true;

	CHECK_OK_FATAL(hm_schedule_query(schedule, &info));
	s->graph = graph;
	s->peak = (uint32_t)(info.peak / GRAPH_UNIT);
	expect(s);
	step = calloc(info.n_steps, sizeof(*step));
	for (i = 0; i < info.n_steps; i++) {
		step[i].struct_size = sizeof(*step);
		CHECK_OK_FATAL(hm_schedule_step(schedule, i, &step[i]));
	}
	for (lane = 0; lane < HM_PLAN_LANES; lane++)
		next[lane] = 0;
	while (right && total < info.n_steps) {
		uint32_t tries = 0;

		for (lane = below(random, HM_PLAN_LANES); tries < HM_PLAN_LANES;
		     tries++, lane = (lane + 1) % HM_PLAN_LANES) {
			while (next[lane] < info.n_steps && step[next[lane]].lane != lane)
				next[lane]++;
			if (next[lane] < info.n_steps && ready(&step[next[lane]], done))
				break;
		}
		if (tries == HM_PLAN_LANES) {
			test_fail(__FILE__, __LINE__, "lanes wait for each other");
			right = false;
			break;
		}
		right = take(s, schedule, next[lane], &step[next[lane]]);
		next[lane]++;
		done[lane]++;
		total++;
	}
	right = right && outputs_right(s);
	if (right && (uint64_t)s->cross * GRAPH_UNIT != info.bytes_in + info.bytes_out) {
		test_fail(__FILE__, __LINE__, "%u units crossed, not those that are told",
			  s->cross);
		right = false;
	}
	free(step);
	free(s);
	return right;
}
