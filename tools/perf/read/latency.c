// SPDX-License-Identifier: MIT
/* How long things took: counts of classes of time. */
#include "latency.h"

static uint32_t latency_class(uint64_t ns)
{
	uint32_t power, class;

	if (ns < 8)
		return (uint32_t)ns;
	power = 63 - (uint32_t)__builtin_clzll(ns);
	class = 8 * (power - 2) + (uint32_t)(ns >> (power - 3) & 7);
	return class < LATENCY_CLASSES ? class : LATENCY_CLASSES - 1;
}

uint64_t latency_end(uint32_t class)
{
	uint32_t power = class / 8 + 2;

	if (class < 8)
		return class + 1;
	return (UINT64_C(8) + class % 8 + 1) << (power - 3);
}

uint64_t latency_at(const struct latency *latency, double share)
{
	uint64_t n = 0, wanted = (uint64_t)((double)latency->n * share);
	uint32_t class;

	for (class = 0; class < LATENCY_CLASSES; class ++) {
		n += latency->count[class];
		if (n > wanted || (n && n == latency->n))
			return latency_end(class);
	}
	return 0;
}

void latency_add(struct latency *latency, uint64_t ns)
{
	latency->n++;
	latency->sum += ns;
	latency->count[latency_class(ns)]++;
}
