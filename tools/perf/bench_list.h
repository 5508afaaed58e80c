/* SPDX-License-Identifier: MIT */
/* The list of benchmarks, in the order in which they run. */
#ifndef HETMAP_BENCH_LIST_H
#define HETMAP_BENCH_LIST_H

#include "bench.h"

#define BENCH_MOST 64

extern const struct bench bench_list[];
extern const size_t bench_list_n;

/* NULL: there is none of that name. */
const struct bench *bench_find(const char *name);
/* Says so, and which may have been meant; returns STATUS_USAGE. */
int bench_refuse(const char *name);
/* Prints those parts of the peer's file that are headed by the benchmark's name. */
void bench_show_peer(const struct bench *bench);

#endif
