// SPDX-License-Identifier: MIT
/*
 * Measures a node's memory: dependent loads in an order that no prefetcher knows, and a stream.
 * The memory is larger than the last cache, and huge where the kernel has huge pages, so that
 * misses of the TLB are few.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <numaif.h>

#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"
#include "tier/tier.h"

#define LINE 64u
#define LEAST MIB(32)
#define MOST MIB(256)
#define TRIAL MIB(1)         /* filled first, to see how slow stores are */
#define FILL_NS 300000000ull /* of filling, at most as a rule */
#define LOOK_NS 50000000ull  /* of each measurement */

/*
 * A sequence with all numbers below a power of two, each once: a linear congruence with a
 * multiplier of 4k + 1 and an odd increment.
 */
static uint64_t follow(uint64_t at, uint64_t mask)
{
	return (at * 1664525 + 1013904223) & mask;
}

static void fill(uint64_t *words, uint64_t from, uint64_t to, uint64_t mask)
{
	uint64_t i;

	for (i = from; i < to; i++)
		words[i * (LINE / 8)] = follow(i, mask);
}

/* A power of two: twice the last cache, and no more than an eighth of what is free. */
static uint64_t bytes_of(uint32_t node)
{
	long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
	uint64_t wanted = max_u64(LEAST, cache > 0 ? 2 * (uint64_t)cache : 0);
	uint64_t total, available, bytes = TRIAL;

	if (!node_memory(node, &total, &available))
		available = 0;
	wanted = min_u64(min_u64(wanted, MOST), available / 8);
	while (2 * bytes <= wanted)
		bytes *= 2;
	return bytes;
}

/* Returns ns of one load. */
static uint64_t chase(const uint64_t *words, uint64_t lines)
{
	uint64_t begin = time_now_ns(), now, n = 0, at = 0;
	uint32_t i;

	do {
		for (i = 0; i < 1024; i++)
			at = *(const volatile uint64_t *)&words[at * (LINE / 8)];
		n += 1024;
		now = time_now_ns();
	} while (now - begin < LOOK_NS && n < lines);
	return max_u64((now - begin + n / 2) / n, 1);
}

/* Returns bytes a second. */
static uint64_t stream(const uint64_t *words, uint64_t bytes)
{
	const uint64_t part = KIB(256) / 8, n = bytes / 8;
	uint64_t begin = time_now_ns(), now, sum[4] = { 0 }, i, at = 0, done = 0;
	volatile uint64_t sink;

	do {
		for (i = at; i < at + part; i += 4) {
			sum[0] += words[i];
			sum[1] += words[i + 1];
			sum[2] += words[i + 2];
			sum[3] += words[i + 3];
		}
		at = at + part < n ? at + part : 0;
		done += part * 8;
		now = time_now_ns();
	} while (now - begin < LOOK_NS || done < TRIAL);
	sink = sum[0] + sum[1] + sum[2] + sum[3];
	(void)sink;
	return (uint64_t)((double)done * 1e9 / (double)max_u64(now - begin, 1));
}

/*
 * Fills as many of the @most bytes as the time allows, at least TRIAL, in a sequence over all of
 * them. Returns their number.
 */
static uint64_t prepare(uint64_t *words, uint64_t most)
{
	const uint64_t trial = TRIAL / LINE;
	uint64_t begin = time_now_ns(), bytes = TRIAL, took;

	fill(words, 0, trial, trial - 1);
	took = max_u64(time_now_ns() - begin, 1);
	while (2 * bytes <= most && took * (2 * bytes / TRIAL) <= FILL_NS)
		bytes *= 2;
	if (bytes > TRIAL)
		fill(words, 0, bytes / LINE, bytes / LINE - 1);
	return bytes;
}

int tier_measure(uint32_t node, struct node_figures *ret_figures)
{
	const uint64_t mapped = bytes_of(node);
	uint64_t bytes;
	void *memory;
	int r;

	r = sys_mmap(NULL, mapped, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &memory);
	if (r)
		return err_set(r, "measuring node %u: mmap: %s", node, err_name(r));
	r = sys_mbind(memory, mapped, MPOL_BIND, 1ull << node);
	if (r) {
		err_set(r, "measuring node %u: mbind: %s", node, err_name(r));
		goto out;
	}
	/* Advice only. */
	sys_madvise(memory, mapped, MADV_HUGEPAGE);
	bytes = prepare(memory, mapped);
	ret_figures->latency = chase(memory, bytes / LINE);
	ret_figures->bandwidth = stream(memory, bytes);
out:
	sys_munmap(memory, mapped);
	return r;
}
