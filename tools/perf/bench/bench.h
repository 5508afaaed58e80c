/* SPDX-License-Identifier: MIT */
/*
 * Benchmarks: each compares the library with a peer, bare system calls or bare
 * OpenCL that does equal work, in turns in one process.
 */
#ifndef HETMAP_BENCH_H
#define HETMAP_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "bench_stats.h"

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)
#define GIB(n) ((size_t)(n) << 30)

struct bench {
	const char *name;
	const char *summary;
	/* 0, or a negative errno that was told to the user. */
	int (*run)(void);
	const char *peer_source; /* file of the peers, as text */
};

/* ---- measuring (bench_measure.c) ---- */

/*
 * Takes one sample: returns 0 and its time, or a negative errno. Work that must not be timed
 * belongs outside of the two bench_now() whose difference is the time.
 */
typedef int bench_side(void *user, double *ret_ns);

struct bench_pair {
	const char *name; /* name of the case */
	const char *peer; /* the peer, in a few words */
	bench_side *ours;
	bench_side *peer_side;
	unsigned int rounds;  /* overridden by --rounds */
	unsigned int warm_up; /* rounds before these that do not count */
	/*
	 * Each sample comes right after one of the same side that does not count. For samples
	 * of gigabytes: a hypervisor takes free pages away within seconds and brings them back
	 * at tens of times the price of a fault, to either side by chance.
	 */
	bool warm_each;
};

/* In ns. */
struct bench_figures {
	struct bench_spread ours, peer;
	struct bench_spread added; /* ours less the peer's of the same round */
	/* The medians of ours and of the added part, over the peer's. */
	struct bench_interval ratio, added_ratio;
};

static inline double bench_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* One byte in each @stride bytes, beginning with the first. */
static inline void bench_touch(char *bytes, size_t length, size_t stride)
{
	size_t at;

	for (at = 0; at < length; at += stride)
		((volatile char *)bytes)[at] = 1;
}

/*
 * Our side and the peer's in turns, the first of a round changing from round
 * to round. 0, or a negative errno that was told to the user.
 */
int bench_measure(const struct bench_pair *pair, void *user, struct bench_figures *ret_figures);

/* ---- reporting (bench_report.c) ---- */

enum bench_target {
	TARGET_NONE,
	TARGET_RATIO, /* our figure over the peer's is to be at most that */
	TARGET_VALUE, /* our figure is */
};

/* Figures that are no medians: a count, a size. */
struct bench_result {
	const char *name;
	const char *unit; /* unit of the values: "KiB" */
	double value;
	const char *peer;
	double peer_value;
	enum bench_target kind;
	double target;
	const char *note; /* a sentence on the meaning; or NULL */
};

void bench_report(const struct bench_result *result);

/* The result of a pair in @unit of @ns nanoseconds, with a target for the ratio or none. */
void bench_report_pair(const struct bench_pair *pair, const struct bench_figures *figures,
		       const char *unit, double ns, enum bench_target kind, double target);

/* Reports the part that ours takes more than the peer, with a target for it. */
void bench_report_added(const struct bench_pair *pair, const struct bench_figures *figures,
			const char *unit, double ns, double target);

/* Both: the pair is measured, and its result reported. As bench_measure(). */
int bench_compare(const struct bench_pair *pair, void *user, const char *unit, double ns,
		  enum bench_target kind, double target);

/* The case can't be measured here: says why. */
void bench_skip(const char *name, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints the failure of @name; returns @r. Ours: with the text of hm_errmsg(). */
int bench_fail(const char *name, int r, bool ours);

/* ---- the benchmarks ---- */

int bench_map_cycle(void);
int bench_alloc_cycle(void);
int bench_protect_pair(void);
int bench_lock_pair(void);
int bench_pointer_find(void);
int bench_pool_cycle(void);
int bench_launch(void);
int bench_zero_copy(void);
int bench_grow(void);
int bench_first_touch(void);
int bench_soft_submit(void);
int bench_sim_fault(void);
int bench_sim_submit(void);
int bench_sim_copy(void);
int bench_transfer_1g(void);
int bench_mirror_idle(void);
int bench_mirror_fault(void);
int bench_invalidate(void);
int bench_dev_tlb(void);
int bench_migrate(void);
int bench_cache_gain(void);
int bench_prefetch_gain(void);
int bench_dmabuf_bracket(void);
int bench_drm_map_cycle(void);
int bench_drm_reuse(void);
int bench_dmabuf_share(void);
int bench_guard_copy(void);
int bench_copy_ladder(void);
int bench_combine(void);
int bench_find_under_churn(void);
int bench_retire(void);
int bench_lost_to_usable(void);
int bench_shadow_cost(void);
int bench_publish_cost(void);
int bench_trace_overhead(void);
int bench_frag_effect(void);
int bench_report_10m(void);
int bench_seq_cold(void);
int bench_seq_warm(void);
int bench_tokens_warm(void);
int bench_tokens_cold(void);
int bench_safetensors_open(void);
int bench_gguf_open(void);
int bench_load_model(void);
int bench_ipc_ring(void);
int bench_frame_path(void);
int bench_workers(void);
int bench_map_tier(void);
int bench_interleave(void);
int bench_tiering(void);
int bench_cxl_latency(void);

#endif
