// SPDX-License-Identifier: MIT
/* Weights of nodes, and ranges of files by them. */
#include "base/weights.h"

#include <inttypes.h>
#include <numaif.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/compat.h"
#include "base/err.h"
#include "base/proc.h"
#include "base/sys.h"
#include "base/util.h"

#define KERNEL_WEIGHTS "/sys/kernel/mm/mempolicy/weighted_interleave"
#define WEIGHT_MOST 255u
#define SCALES 16u /* that are tried for small weights */
#define ROUND_LEAST MIB(2)
#define ROUNDS_A_DOUBLING 8u

static _Atomic uint64_t bandwidths[WEIGHTS_NODES];

void weights_set_bandwidth(uint32_t node, uint64_t bytes_a_second)
{
	uint64_t none = 0;

	if (node < WEIGHTS_NODES)
		atomic_compare_exchange_strong(&bandwidths[node], &none, bytes_a_second);
}

uint64_t weights_unknown(uint64_t nodes)
{
	uint64_t unknown = 0;
	uint32_t i;

	for (i = 0; i < WEIGHTS_NODES; i++)
		if (nodes >> i & 1 && !atomic_load(&bandwidths[i]))
			unknown |= 1ull << i;
	return unknown;
}

/* Weights where the slowest node has @scale; false: one of them is over 5% off. */
static bool try_scale(const double *ratios, uint32_t scale, uint8_t *weights)
{
	bool close = true;
	double exact, off;
	uint64_t whole;
	uint32_t i;

	for (i = 0; i < WEIGHTS_NODES; i++) {
		exact = ratios[i] * scale;
		whole = min_u64((uint64_t)(exact + 0.5), WEIGHT_MOST);
		off = exact - (double)whole;
		close = close && (off < 0 ? -off : off) <= exact / 20;
		weights[i] = (uint8_t)whole;
	}
	return close;
}

void weights_find(uint64_t nodes, uint8_t weights[WEIGHTS_NODES])
{
	double ratios[WEIGHTS_NODES] = { 0 };
	uint64_t least = UINT64_MAX, bandwidth;
	uint32_t i, scale;

	for (i = 0; i < WEIGHTS_NODES; i++)
		if (nodes >> i & 1 && (bandwidth = atomic_load(&bandwidths[i])))
			least = min_u64(least, bandwidth);
	for (i = 0; i < WEIGHTS_NODES; i++) {
		if (!(nodes >> i & 1))
			continue;
		bandwidth = atomic_load(&bandwidths[i]);
		ratios[i] = bandwidth ? (double)bandwidth / (double)least : 1;
	}
	for (scale = 1; scale <= SCALES && !try_scale(ratios, scale, weights); scale++)
		;
	if (scale > SCALES)
		try_scale(ratios, 1, weights);
}

int weights_kernel_mode(uint64_t nodes)
{
	uint64_t own, first_own = 0, kernel, first_kernel = 0;
	uint8_t weights[WEIGHTS_NODES];
	bool by_kernel = true, equal = true;
	char path[96];
	uint32_t i;

	weights_find(nodes, weights);
	for (i = 0; i < WEIGHTS_NODES; i++) {
		own = weights[i];
		if (!own)
			continue;
		snprintf(path, sizeof(path), KERNEL_WEIGHTS "/node%u", i);
		if (!proc_number(path, &kernel))
			kernel = 0;
		if (!first_own) {
			first_own = own;
			first_kernel = kernel;
		}
		equal = equal && own == first_own;
		by_kernel = by_kernel && kernel && own * first_kernel == kernel * first_own;
	}
	return equal ? MPOL_INTERLEAVE : by_kernel ? MPOL_WEIGHTED_INTERLEAVE : -1;
}

/* Length of the round that begins at @offset. */
static uint64_t round_length(uint64_t offset)
{
	uint64_t power = offset ? 1ull << (63 - __builtin_clzll(offset)) : 0;

	return max_u64(ROUND_LEAST, power / ROUNDS_A_DOUBLING);
}

int weights_each_range(uint64_t length, uint64_t nodes,
		       int (*each)(void *user, uint64_t offset, uint64_t length, uint32_t node),
		       void *user)
{
	uint64_t at, from, to, sum, pages, total = 0;
	uint8_t weights[WEIGHTS_NODES];
	uint32_t i;
	int r = 0;

	weights_find(nodes, weights);
	for (i = 0; i < WEIGHTS_NODES; i++)
		total += weights[i];
	for (at = 0; at < length && !r; at += round_length(at)) {
		pages = round_length(at) / page_size();
		sum = 0;
		for (i = 0; i < WEIGHTS_NODES && !r; i++) {
			from = at + pages * sum / total * page_size();
			sum += weights[i];
			to = min_u64(at + pages * sum / total * page_size(), length);
			if (from < to)
				r = each(user, from, to - from, i);
		}
	}
	return r;
}

static int bind_range(void *user, uint64_t offset, uint64_t length, uint32_t node)
{
	return sys_mbind((char *)user + offset, length, MPOL_BIND, 1ull << node);
}

int weights_place_file(int fd, uint64_t offset, uint64_t length, uint64_t nodes)
{
	void *mapped;
	int r;

	r = sys_mmap(NULL, length, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, offset, &mapped);
	if (r)
		return err_set(r, "placing memory on nodes 0x%" PRIx64 " (mmap): %s", nodes,
			       err_name(r));
	r = weights_each_range(length, nodes, bind_range, mapped);
	sys_munmap(mapped, length);
	return r ? err_set(r, "placing memory on nodes 0x%" PRIx64 " by ranges (mbind): %s",
			   nodes, err_name(r)) :
		   0;
}
