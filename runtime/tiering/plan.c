// SPDX-License-Identifier: MIT
/* Heat of blocks, and which of them should move. */
#include <stdlib.h>

#include "tiering/tiering.h"

/* A block that is touched in each look has half of the most after 5 looks. */
#define FADE 8

void plan_heat(struct tiering_block *blocks, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct tiering_block *block = &blocks[i];

		uint32_t heat = block->heat;

		if (block->touched)
			heat += (TIERING_HEAT_MOST - heat + FADE - 1) / FADE;
		else
			heat -= (heat + FADE - 1) / FADE;
		block->heat = (uint16_t)heat;
		if (block->rest)
			block->rest--;
	}
}

/* Puts numbers of blocks of @place into @order, the hottest first. */
static uint32_t sort(const struct tiering_block *blocks, uint32_t n, bool any,
		     enum tiering_place place, uint32_t *order)
{
	uint32_t ends[TIERING_HEAT_MOST + 1] = { 0 }, i, heat, sum = 0;

	for (i = 0; i < n; i++)
		if (any || (blocks[i].place == place && !blocks[i].rest))
			ends[blocks[i].heat]++;
	for (heat = TIERING_HEAT_MOST + 1; heat-- > 0;) {
		uint32_t count = ends[heat];

		ends[heat] = sum;
		sum += count;
	}
	for (i = 0; i < n; i++)
		if (any || (blocks[i].place == place && !blocks[i].rest))
			order[ends[blocks[i].heat]++] = i;
	return sum;
}

static uint64_t on_fast(const struct tiering_block *blocks, uint32_t n)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		if (blocks[i].place == TIERING_FAST)
			bytes += blocks[i].bytes;
	return bytes;
}

struct plan {
	const struct tiering_block *blocks;
	uint64_t used, tokens; /* bytes on the fast tier, and those that may move */
	struct tiering_step *steps;
	uint32_t n;
};

static bool add(struct plan *plan, uint32_t block, uint32_t why)
{
	const uint64_t bytes = plan->blocks[block].bytes;

	if (plan->n >= TIERING_ROUND || bytes > plan->tokens)
		return false;
	plan->steps[plan->n++] = (struct tiering_step){ block, why };
	plan->tokens -= bytes;
	plan->used = why == HM_TIERING_HOT ? plan->used + bytes : plan->used - bytes;
	return true;
}

/*
 * Makes room for @hot on the fast tier by blocks that are clearly colder; false: they are not, or
 * the budget does not last for all of these moves.
 */
static bool make_room(struct plan *plan, uint32_t hot, uint64_t fast_bytes,
		      const uint32_t *cold, uint32_t *n_cold)
{
	const struct tiering_block *blocks = plan->blocks;
	uint64_t used = plan->used, cost = blocks[hot].bytes;
	uint32_t left = *n_cold;

	while (used + blocks[hot].bytes > fast_bytes) {
		if (!left || blocks[cold[left - 1]].heat + TIERING_MARGIN > blocks[hot].heat)
			return false;
		left--;
		used -= blocks[cold[left]].bytes;
		cost += blocks[cold[left]].bytes;
	}
	if (cost > plan->tokens || plan->n + (*n_cold - left) + 1 > TIERING_ROUND)
		return false;
	while (*n_cold > left)
		if (!add(plan, cold[--*n_cold], HM_TIERING_COLD))
			return false;
	return true;
}

uint32_t plan_make(const struct tiering_block *blocks, uint32_t n, uint64_t fast_bytes,
		   uint64_t tokens, uint32_t *order, struct tiering_step *steps)
{
	struct plan plan = {
		.blocks = blocks,
		.used = on_fast(blocks, n),
		.tokens = tokens,
		.steps = steps,
	};
	uint32_t n_cold = sort(blocks, n, false, TIERING_FAST, order), *hot = order + n_cold;
	uint32_t n_hot = sort(blocks, n, false, TIERING_SLOW, hot), i;

	while (plan.used > fast_bytes && n_cold)
		if (!add(&plan, order[--n_cold], HM_TIERING_OVER))
			return plan.n;
	for (i = 0; i < n_hot && blocks[hot[i]].heat >= TIERING_HOT; i++)
		if (!make_room(&plan, hot[i], fast_bytes, order, &n_cold) ||
		    !add(&plan, hot[i], HM_TIERING_HOT))
			break;
	return plan.n;
}

uint64_t plan_best(const struct tiering_block *blocks, uint32_t n, uint64_t fast_bytes,
		   uint32_t *order)
{
	uint64_t heat = 0, used = 0;
	uint32_t i;

	sort(blocks, n, true, TIERING_FAST, order);
	for (i = 0; i < n; i++) {
		if (!blocks[order[i]].bytes)
			continue;
		used += blocks[order[i]].bytes;
		if (used > fast_bytes)
			break;
		heat += blocks[order[i]].heat;
	}
	return heat;
}
