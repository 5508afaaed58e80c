/* SPDX-License-Identifier: MIT */
/* How long things took: counts of classes of time. */
#ifndef HETMAP_LATENCY_H
#define HETMAP_LATENCY_H

#include <stdint.h>

/* Times in ns: eight classes for each power of two. */
#define LATENCY_CLASSES (8 * 40)

struct latency {
	uint64_t n;
	uint64_t sum;
	uint64_t count[LATENCY_CLASSES];
};

void latency_add(struct latency *latency, uint64_t ns);
/* Where a class ends. */
uint64_t latency_end(uint32_t class);
/* The time that @share of them took at most: 0.5 is the median. 0: there are none. */
uint64_t latency_at(const struct latency *latency, double share);

#endif
