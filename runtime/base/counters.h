/* SPDX-License-Identifier: MIT */
/* Counters of the process. */
#ifndef HETMAP_COUNTERS_H
#define HETMAP_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

extern struct stats_counters {
	_Atomic uint64_t devices, buffers, maps, views;
	_Atomic uint64_t bytes_mapped, bytes_reserved, bytes_locked;
	_Atomic uint64_t bytes_copied, launches, touches_outside;
	_Atomic uint64_t bytes_idle;
	_Atomic uint64_t bytes_shadow;
} stats;

static inline void stats_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline void stats_sub(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_sub_explicit(counter, n, memory_order_relaxed);
}

#endif
