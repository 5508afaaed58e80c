// SPDX-License-Identifier: MIT
/*
 * The choice of ranges that leave the device. Furthest next use is best where all ranges have one
 * size and one cost. Where they have not, no quick rule is best, so the schedule is made by several
 * rules, small ones also by chance, and the one that moves the fewest bytes is taken.
 */
#include "plan.h"

/* A number in [0, 1). */
static double chance(struct walk *walk)
{
	walk->random = walk->random * 6364136223846793005u + 1442695040888963407u;
	return (double)(walk->random >> 40) / (double)(1 << 24);
}

static double score_of(struct walk *walk, uint32_t i)
{
	const struct root *root = &walk->root[i];
	double distance = walk->uses->use[root->next].at - walk->at;
	double size = (double)root->size;
	double times = root->behind ? 1 : 2; /* that the bytes will cross */
	double score;

	switch (walk->rank % RANKS) {
	case 0:
		score = distance;
		break;
	case 1:
		score = distance / times;
		break;
	case 2:
		score = distance * size / times;
		break;
	default:
		score = distance / (size * times);
	}
	return walk->rank < RANKS ? score : score * (0.1 + chance(walk));
}

static void swap(struct victim *a, struct victim *b)
{
	struct victim c = *a;

	*a = *b;
	*b = c;
}

static uint64_t cost_of(const struct root *root)
{
	return root->size * (root->behind ? 1 : 2);
}

/* Keeps, the dearest first, ranges that the others make room enough without. */
static uint32_t spare(struct walk *walk, uint32_t n, uint64_t surplus)
{
	for (;;) {
		uint32_t best = n, i;

		for (i = 0; i < n; i++) {
			const struct root *root = &walk->root[walk->victim[i].root];

			if (root->size <= surplus &&
			    (best == n ||
			     cost_of(root) > cost_of(&walk->root[walk->victim[best].root])))
				best = i;
		}
		if (best == n)
			return n;
		surplus -= walk->root[walk->victim[best].root].size;
		swap(&walk->victim[best], &walk->victim[--n]);
	}
}

uint32_t evict_choose(struct walk *walk, uint64_t bytes)
{
	uint32_t n = 0, chosen = 0, best, i;
	uint64_t sum = walk->arena.free;

	for (i = 0; i < walk->n_resident; i++) {
		uint32_t r = walk->resident[i];

		if (!walk->root[r].pinned)
			walk->victim[n++] = (struct victim){ score_of(walk, r), r };
	}
	while (sum < bytes && chosen < n) {
		for (best = chosen, i = chosen + 1; i < n; i++)
			if (walk->victim[i].score > walk->victim[best].score)
				best = i;
		swap(&walk->victim[chosen], &walk->victim[best]);
		sum += walk->root[walk->victim[chosen++].root].size;
	}
	return sum < bytes ? chosen : spare(walk, chosen, sum - bytes);
}
