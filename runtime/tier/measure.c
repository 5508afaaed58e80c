// SPDX-License-Identifier: MIT
/*
 * Measures memory: dependent loads in an order that no prefetcher knows, and a stream. Nothing is
 * stored there but a word in each page of fresh memory, so that devices with bytes to keep can be
 * measured, too. The memory is larger than the last cache, and huge where the kernel has huge
 * pages, so that misses of the TLB are few.
 */
#include <errno.h>
#include <inttypes.h>
#include <numaif.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"
#include "tier/tier.h"

#define LINE 64u
#define LEAST MIB(32)
#define MOST MIB(256)
#define SMALLEST MIB(1)     /* of what is measured at all */
#define LOOK_NS 50000000ull /* of each measurement */

/*
 * The next number of a sequence with all numbers below a power of two, each once: a linear
 * congruence with a multiplier of 4k + 1 and an odd increment.
 */
static inline uint64_t follow(uint64_t at, uint64_t mask)
{
	return (at * 1664525 + 1013904223) & mask;
}

/*
 * Returns ns of one load, as in the part that was the fastest: other programs, and interrupts, only
 * make parts slower. @lines is a power of two.
 */
static uint64_t chase(const uint64_t *words, uint64_t lines)
{
	const uint64_t begin = time_now_ns();
	uint64_t from = begin, now, n = 0, at = 0, value, zero = 0, best = UINT64_MAX;
	uint32_t i;

	/* The compiler must not know it: each address depends on the load before. */
	__asm__("" : "+r"(zero));
	do {
		for (i = 0; i < 4096; i++) {
			value = *(const volatile uint64_t *)&words[at * (LINE / 8)];
			at = follow(at + (value & zero), lines - 1);
		}
		n += 4096;
		now = time_now_ns();
		best = min_u64(best, now - from);
		from = now;
	} while ((now - begin < LOOK_NS && n < lines) || n < 2 * 4096);
	return max_u64((best + 2048) / 4096, 1);
}

/* Returns bytes a second, likewise. */
static uint64_t stream(const uint64_t *words, uint64_t bytes)
{
	const uint64_t part = MIB(1) / 8, n = bytes / 8, begin = time_now_ns();
	uint64_t from = begin, now, sum[4] = { 0 }, i, at = 0, best = UINT64_MAX;
	volatile uint64_t sink;

	do {
		for (i = at; i < at + part; i += 4) {
			sum[0] += words[i];
			sum[1] += words[i + 1];
			sum[2] += words[i + 2];
			sum[3] += words[i + 3];
		}
		at = at + part < n ? at + part : 0;
		now = time_now_ns();
		best = min_u64(best, now - from);
		from = now;
	} while (now - begin < LOOK_NS);
	sink = sum[0] + sum[1] + sum[2] + sum[3];
	(void)sink;
	return (uint64_t)((double)(part * 8) * 1e9 / (double)max_u64(best, 1));
}

/* A power of two: twice the last cache, and no more than @limit. */
static uint64_t bytes_within(uint64_t limit)
{
	long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
	uint64_t wanted = max_u64(LEAST, cache > 0 ? 2 * (uint64_t)cache : 0), bytes = SMALLEST;

	wanted = min_u64(min_u64(wanted, MOST), limit);
	while (2 * bytes <= wanted)
		bytes *= 2;
	return bytes;
}

static void measure(const void *memory, uint64_t bytes, struct node_figures *ret_figures)
{
	ret_figures->latency = chase(memory, bytes / LINE);
	ret_figures->bandwidth = stream(memory, bytes);
}

int tier_measure_node(uint32_t node, struct node_figures *ret_figures)
{
	uint64_t total, available, bytes, at;
	void *memory;
	int r;

	if (!node_memory(node, &total, &available))
		return err_set(-ENODEV, "measuring node %u: it has no memory any more", node);
	bytes = bytes_within(available / 8);
	r = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &memory);
	if (r)
		return err_set(r, "measuring node %u: mmap: %s", node, err_name(r));
	r = sys_mbind(memory, bytes, MPOL_BIND, 1ull << node);
	if (r) {
		err_set(r, "measuring node %u: mbind: %s", node, err_name(r));
		goto out;
	}
	/* Advice only. */
	sys_madvise(memory, bytes, MADV_HUGEPAGE);
	for (at = 0; at < bytes; at += page_size())
		((volatile char *)memory)[at] = 1;
	measure(memory, bytes, ret_figures);
out:
	sys_munmap(memory, bytes);
	return r;
}

int tier_measure_fd(int fd, uint64_t length, struct node_figures *ret_figures)
{
	uint64_t bytes, at;
	void *memory;
	int r;

	if (length < MIB(2))
		return err_set(-EINVAL, "measuring a device of %" PRIu64 " bytes: too small",
			       length);
	bytes = max_u64(bytes_within(length), MIB(2));
	r = sys_mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0, &memory);
	if (r)
		return err_set(r, "measuring a device: mmap: %s", err_name(r));
	/* The first touch of a page is a fault, which is no latency of the memory. */
	for (at = 0; at < bytes; at += page_size())
		(void)((const volatile char *)memory)[at];
	measure(memory, bytes, ret_figures);
	sys_munmap(memory, bytes);
	return 0;
}
