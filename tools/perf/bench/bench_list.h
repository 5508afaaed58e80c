/* SPDX-License-Identifier: MIT */
/* The list of benchmarks, in the order in which they run. */
#ifndef HETMAP_BENCH_LIST_H
#define HETMAP_BENCH_LIST_H

#include "bench.h"

#define BENCH_MOST 64

/* Those of this program; bench_main_of() sets it. */
extern const struct bench *bench_list;
extern size_t bench_list_n;

/* hetmap bench with the @n cases of @list, which are BENCH_MOST at most; an exit status. */
int bench_main_of(const struct bench *list, size_t n, int argc, char **argv);

/* A case of an extension's program, which hetmap lists, and runs by it. */
struct bench_elsewhere {
	const char *name;
	const char *summary;
	const char *extension;
};

/* The i-th, from 0; NULL: there are no more. */
const struct bench_elsewhere *bench_elsewhere_at(size_t i);
/* NULL: there is none of that name, or this program has it. */
const struct bench_elsewhere *bench_elsewhere_find(const char *name);

/* NULL: there is none of that name. */
const struct bench *bench_find(const char *name);
/* Says so, and which may have been meant; returns STATUS_USAGE. */
int bench_refuse(const char *name);
/* Prints those parts of the peer's file that are headed by the benchmark's name. */
void bench_show_peer(const struct bench *bench);

#endif
