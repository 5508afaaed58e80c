// SPDX-License-Identifier: MIT
/* Goes through the nodes in their order, and writes down each step with its place. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "plan.h"

/* A range that moves by less than its length does so in pieces, of which there are so many. */
#define MOST_PIECES 64

void steps_free(struct steps *steps)
{
	free(steps->step);
	free(steps->place);
	*steps = (struct steps){ 0 };
}

static void no_earlier(struct step *step, const struct stamp *stamp)
{
	uint32_t lane;

	for (lane = 0; lane < HM_PLAN_LANES; lane++)
		if (lane != step->lane && step->after[lane] < stamp->after[lane])
			step->after[lane] = stamp->after[lane];
}

/* Adds the step, which touches the place of its range. */
static int emit(struct walk *walk, struct step step)
{
	struct steps *steps = &walk->steps;
	uint64_t size = walk->root[step.range].size;
	int r = grow(&steps->step, steps->n_step, &steps->step_room, sizeof(step));

	if (r)
		return r;
	step.at = walk->at;
	steps->step[steps->n_step++] = step;
	steps->n_lane[step.lane]++;
	if (step.kind == HM_PLAN_STEP_NODE)
		return 0;
	return arena_touch(&walk->arena, step.offset, size, step.lane,
			   steps->n_lane[step.lane]);
}

/* ---- residents ---- */

static int enter(struct walk *walk, uint32_t i, uint64_t offset)
{
	struct root *root = &walk->root[i];
	int r = arena_place(&walk->arena, offset, root->size);

	if (r)
		return r;
	root->offset = offset;
	root->listed = walk->n_resident;
	walk->resident[walk->n_resident++] = i;
	return 0;
}

static int leave(struct walk *walk, uint32_t i)
{
	struct root *root = &walk->root[i];
	uint32_t last = walk->resident[--walk->n_resident];
	uint64_t offset = root->offset;

	walk->resident[root->listed] = last;
	walk->root[last].listed = root->listed;
	root->there = false;
	root->offset = NOWHERE;
	return arena_give(&walk->arena, offset, root->size);
}

/* ---- copies ---- */

static int bring(struct walk *walk, uint32_t i)
{
	struct root *root = &walk->root[i];
	struct step step = {
		.kind = HM_PLAN_STEP_IN,
		.lane = HM_PLAN_LANE_IN,
		.home = !root->spilled,
		.range = i,
		.offset = root->offset,
	};
	struct stamp stamp = arena_stamp(&walk->arena, root->offset, root->size);

	no_earlier(&step, &stamp);
	stamp = (struct stamp){ .after[HM_PLAN_LANE_OUT] = root->stored };
	no_earlier(&step, &stamp);
	root->there = true;
	walk->steps.bytes_in += walk->plan->range[i].length;
	return emit(walk, step);
}

/* To the home where no node writes the range again, else to memory of the schedule. */
static int store(struct walk *walk, uint32_t i, bool home)
{
	struct root *root = &walk->root[i];
	struct step step = {
		.kind = HM_PLAN_STEP_OUT,
		.lane = HM_PLAN_LANE_OUT,
		.home = home,
		.range = i,
		.offset = root->offset,
	};
	struct stamp stamp = arena_stamp(&walk->arena, root->offset, root->size);
	int r;

	no_earlier(&step, &stamp);
	walk->needs_spill[i] |= !home;
	root->spilled = !home;
	root->behind = true;
	walk->steps.bytes_out += walk->plan->range[i].length;
	r = emit(walk, step);
	root->stored = walk->steps.n_lane[HM_PLAN_LANE_OUT];
	return r;
}

static const struct use *next_use(const struct walk *walk, uint32_t i)
{
	uint32_t next = walk->root[i].next;

	return next < walk->uses->first[i + 1] ? &walk->uses->use[next] : NULL;
}

/* Are the bytes that the range has now read by a later node? */
static bool needed(const struct walk *walk, uint32_t i)
{
	const struct use *use = next_use(walk, i);

	return use && use->read;
}

static bool written_again(const struct walk *walk, uint32_t i)
{
	uint32_t u;

	for (u = walk->root[i].next; u < walk->uses->first[i + 1]; u++)
		if (walk->uses->use[u].write)
			return true;
	return false;
}

static int evict(struct walk *walk, uint32_t i)
{
	struct root *root = &walk->root[i];
	int r = 0;

	if (root->there && !root->behind && needed(walk, i))
		r = store(walk, i, false);
	walk->steps.evictions++;
	return r ?: leave(walk, i);
}

/* ---- making one piece of several holes ---- */

static int by_offset(const void *a, const void *b, void *data)
{
	const struct walk *walk = data;
	uint64_t x = walk->root[*(const uint32_t *)a].offset;
	uint64_t y = walk->root[*(const uint32_t *)b].offset;

	return x < y ? -1 : x > y;
}

static int move(struct walk *walk, uint32_t i, uint64_t to)
{
	struct root *root = &walk->root[i];
	uint64_t from = root->offset;
	bool there = root->there;
	struct step step = {
		.kind = HM_PLAN_STEP_MOVE,
		.lane = HM_PLAN_LANE_COMPUTE,
		.range = i,
		.offset = to,
		.from = from,
	};
	struct stamp stamp;
	int r = 0;

	if (there && root->size / (from - to) > MOST_PIECES) {
		if (!root->behind)
			r = store(walk, i, false);
		r = r ?: leave(walk, i);
		r = r ?: enter(walk, i, to);
		return r ?: bring(walk, i);
	}
	r = leave(walk, i);
	r = r ?: enter(walk, i, to);
	if (r || !there)
		return r;
	root->there = true;
	stamp = arena_stamp(&walk->arena, to, from + root->size - to);
	no_earlier(&step, &stamp);
	walk->steps.bytes_moved += walk->plan->range[i].length;
	r = emit(walk, step);
	return r     ?:
		       arena_touch(&walk->arena, from, root->size, HM_PLAN_LANE_COMPUTE,
				   walk->steps.n_lane[HM_PLAN_LANE_COMPUTE]);
}

/*
 * Slides ranges down until there is a hole of @length: the neighbours with the fewest bytes that
 * have enough room between them.
 */
static int compact(struct walk *walk, uint64_t length)
{
	uint32_t n = walk->n_resident, first = 0, best_first = 0, best_last = 0, i;
	uint32_t *sorted = malloc((n + 1) * sizeof(*sorted));
	uint64_t gap = 0, bytes = 0, best = NOWHERE, end = 0, to;
	int r = 0;

	if (!sorted)
		return hm_error_set(-ENOMEM, "no memory for %u ranges", n);
	memcpy(sorted, walk->resident, n * sizeof(*sorted));
	qsort_r(sorted, n, sizeof(*sorted), by_offset, walk);
	/* [first, i): ranges to slide, @gap: room before and between them and after the last. */
	for (i = 0; i <= n; i++) {
		uint64_t begin = i < n ? walk->root[sorted[i]].offset : walk->arena.limit;

		gap += begin - end;
		while (gap >= length) {
			uint64_t before = first ? walk->root[sorted[first - 1]].offset +
							  walk->root[sorted[first - 1]].size :
						  0;

			if (bytes < best) {
				best = bytes;
				best_first = first;
				best_last = i;
			}
			if (first == i)
				break;
			gap -= walk->root[sorted[first]].offset - before;
			bytes -= walk->root[sorted[first++]].size;
		}
		if (i == n)
			break;
		end = begin + walk->root[sorted[i]].size;
		bytes += walk->root[sorted[i]].size;
	}
	to = best_first ? walk->root[sorted[best_first - 1]].offset +
				  walk->root[sorted[best_first - 1]].size :
			  0;
	for (i = best_first; !r && i < best_last; i++) {
		if (walk->root[sorted[i]].offset != to)
			r = move(walk, sorted[i], to);
		to += walk->root[sorted[i]].size;
	}
	free(sorted);
	return r;
}

/* ---- one node ---- */

/*
 * The steps whose places would make the range's first step wait, while it could run beside them: a
 * copy in beside the node before, a node beside the last copy out.
 */
static struct stamp recent(const struct walk *walk, uint32_t i)
{
	struct stamp stamp = { 0 };

	if (!walk->ahead)
		return stamp;
	stamp.after[HM_PLAN_LANE_OUT] = walk->steps.n_lane[HM_PLAN_LANE_OUT];
	if (needed(walk, i))
		stamp.after[HM_PLAN_LANE_COMPUTE] = walk->steps.n_lane[HM_PLAN_LANE_COMPUTE];
	return stamp;
}

static int place(struct walk *walk, uint32_t i)
{
	uint64_t offset = arena_find(&walk->arena, walk->root[i].size, recent(walk, i));
	int r;

	if (offset == NOWHERE) {
		r = compact(walk, walk->root[i].size);
		if (r)
			return r;
		offset = arena_find(&walk->arena, walk->root[i].size, recent(walk, i));
		if (offset == NOWHERE)
			return hm_error_set(-ENOSPC,
					    "no place for range %s of %" PRIu64 " bytes",
					    walk->plan->range[i].name, walk->root[i].size);
	}
	return enter(walk, i, offset);
}

/* Gives each root of the node a place. */
static int make_room(struct walk *walk, const uint32_t *roots, uint32_t n)
{
	uint64_t bytes = 0;
	uint32_t i, k, n_victim;
	int r = 0;

	for (k = 0; k < n; k++) {
		struct root *root = &walk->root[roots[k]];

		root->pinned = true;
		if (root->offset == NOWHERE)
			bytes += root->size;
	}
	if (bytes > walk->arena.free) {
		n_victim = evict_choose(walk, bytes);
		for (i = 0; !r && i < n_victim; i++)
			r = evict(walk, walk->victim[i].root);
	}
	/* The largest first: it is the hardest to place. */
	while (!r) {
		uint32_t largest = n;

		for (k = 0; k < n; k++)
			if (walk->root[roots[k]].offset == NOWHERE &&
			    walk->root[roots[k]].size &&
			    (largest == n ||
			     walk->root[roots[k]].size > walk->root[roots[largest]].size))
				largest = k;
		if (largest == n)
			return 0;
		r = place(walk, roots[largest]);
	}
	return r;
}

static int run_node(struct walk *walk, const uint32_t *roots, const uint32_t *uses, uint32_t n)
{
	struct steps *steps = &walk->steps;
	struct step step = {
		.kind = HM_PLAN_STEP_NODE,
		.lane = HM_PLAN_LANE_COMPUTE,
		.place = steps->n_place,
	};
	uint32_t k, count = steps->n_lane[HM_PLAN_LANE_COMPUTE] + 1;
	struct stamp stamp;
	int r = 0;

	for (k = 0; !r && k < n; k++) {
		const struct root *root = &walk->root[roots[k]];

		r = grow(&steps->place, steps->n_place, &steps->place_room,
			 sizeof(*steps->place));
		if (r)
			return r;
		steps->place[steps->n_place++] = root->offset;
		if (root->offset == NOWHERE)
			continue;
		stamp = arena_stamp(&walk->arena, root->offset, root->size);
		/* A node that only reads may run while the bytes go out. */
		if (!walk->uses->use[uses[k]].write)
			stamp.after[HM_PLAN_LANE_OUT] = 0;
		no_earlier(&step, &stamp);
		r = arena_touch(&walk->arena, root->offset, root->size, HM_PLAN_LANE_COMPUTE,
				count);
	}
	return r ?: emit(walk, step);
}

/* After the node: outputs go home, and what no node needs leaves. */
static int settle(struct walk *walk, uint32_t i, const struct use *use, uint32_t policy)
{
	struct root *root = &walk->root[i];
	bool output = walk->plan->range[i].flags & HM_PLAN_OUTPUT;
	int r = 0;

	root->pinned = false;
	root->next++;
	if (use->write) {
		root->there = true;
		root->behind = false;
	}
	if (!root->size || policy == HM_PLAN_UP_FRONT)
		return 0;
	if (output && !root->behind && !written_again(walk, i))
		r = store(walk, i, true);
	if (policy == HM_PLAN_PER_NODE && !root->behind)
		r = r ?: store(walk, i, false);
	if (policy == HM_PLAN_PER_NODE || !needed(walk, i))
		r = r ?: leave(walk, i);
	return r;
}

static int step_node(struct walk *walk, uint32_t policy)
{
	const struct uses *uses = walk->uses;
	uint32_t first = uses->node_first[walk->at];
	uint32_t n = uses->node_first[walk->at + 1] - first, k;
	const uint32_t *roots = &uses->node_root[first];
	int r = policy == HM_PLAN_UP_FRONT ? 0 : make_room(walk, roots, n);

	for (k = 0; !r && k < n; k++) {
		const struct root *root = &walk->root[roots[k]];

		if (root->size && !root->there && uses->use[uses->node_use[first + k]].read)
			r = bring(walk, roots[k]);
	}
	r = r ?: run_node(walk, roots, &uses->node_use[first], n);
	for (k = 0; !r && k < n; k++)
		r = settle(walk, roots[k], &uses->use[uses->node_use[first + k]], policy);
	return r;
}

/* ---- all of it ---- */

static int all_in(struct walk *walk)
{
	uint32_t i;
	int r = 0;

	for (i = 0; !r && i < walk->plan->n_range; i++) {
		if (!walk->root[i].size)
			continue;
		if (!walk->plan->range[i].home)
			walk->needs_spill[i] = walk->root[i].spilled = true;
		r = place(walk, i);
		r = r ?: bring(walk, i);
	}
	return r;
}

static int all_out(struct walk *walk)
{
	uint32_t i;
	int r = 0;

	walk->at = walk->plan->n_node - 1;
	for (i = 0; !r && i < walk->plan->n_range; i++) {
		uint32_t flags = walk->plan->range[i].flags;

		if (!walk->root[i].size)
			continue;
		/* A home that is an input alone may not be written to. */
		if (!(flags & HM_PLAN_INPUT) || flags & HM_PLAN_OUTPUT)
			r = store(walk, i, (flags & HM_PLAN_OUTPUT) != 0);
	}
	return r;
}

static int init(struct walk *walk, const uint64_t *size, uint64_t budget)
{
	const struct hm_plan *plan = walk->plan;
	uint32_t i;

	walk->root = calloc(plan->n_range + 1, sizeof(*walk->root));
	walk->resident = calloc(plan->n_range + 1, sizeof(*walk->resident));
	walk->victim = calloc(plan->n_range + 1, sizeof(*walk->victim));
	if (!walk->root || !walk->resident || !walk->victim)
		return hm_error_set(-ENOMEM, "no memory for %u ranges", plan->n_range);
	for (i = 0; i < plan->n_range; i++)
		walk->root[i] = (struct root){
			.offset = NOWHERE,
			.size = size[i],
			.next = walk->uses->first[i],
			.behind = (plan->range[i].flags & HM_PLAN_INPUT) != 0,
		};
	return arena_init(&walk->arena, budget ? budget : NOWHERE);
}

int walk_make(const struct hm_plan *plan, const uint32_t *order, const struct uses *uses,
	      const uint64_t *size, uint32_t policy, uint64_t budget, uint32_t rank,
	      struct steps *ret_steps, bool *needs_spill)
{
	struct walk walk = {
		.plan = plan,
		.uses = uses,
		.order = order,
		.rank = rank,
		.ahead = policy == HM_PLAN_AHEAD,
		.random = rank,
		.needs_spill = needs_spill,
	};
	int r;

	memset(needs_spill, 0, plan->n_range * sizeof(*needs_spill));
	r = init(&walk, size, budget);
	if (!r && policy == HM_PLAN_UP_FRONT)
		r = all_in(&walk);
	for (; !r && walk.at < plan->n_node; walk.at++)
		r = step_node(&walk, policy);
	if (!r && policy == HM_PLAN_UP_FRONT)
		r = all_out(&walk);
	walk.steps.peak = walk.arena.end;
	free(walk.root);
	free(walk.resident);
	free(walk.victim);
	arena_drop(&walk.arena);
	if (r)
		steps_free(&walk.steps);
	else
		*ret_steps = walk.steps;
	return r;
}

uint64_t walk_smallest(const struct hm_plan *plan, const struct uses *uses,
		       const uint64_t *size, uint32_t policy, uint32_t *ret_at)
{
	uint64_t most = 0, sum;
	uint32_t at, k;

	*ret_at = 0;
	if (policy == HM_PLAN_UP_FRONT) {
		for (k = 0; k < plan->n_range; k++)
			most += size[k];
		return most;
	}
	for (at = 0; at < plan->n_node; at++) {
		for (sum = 0, k = uses->node_first[at]; k < uses->node_first[at + 1]; k++)
			sum += size[uses->node_root[k]];
		if (sum > most) {
			most = sum;
			*ret_at = at;
		}
	}
	return most;
}
