/* SPDX-License-Identifier: MIT */
/*
 * Tests of several ranks: a test starts mpiexec, which starts the test program again, once for each
 * rank, with a case to do.
 */
#ifndef HETMAP_TESTS_CLUSTER_RANKS_H
#define HETMAP_TESTS_CLUSTER_RANKS_H

#include <hetmap/array.h>
#include <hetmap/hetmap.h>
#include <stdbool.h>

#include "lib/harness.h"
#include "lib/rig.h"

AUTO_UNREF(hm_array)

/* A case that each rank does. */
struct rank_case {
	const char *name;
	void (*run)(const char *argument);
};

/* This process's rank, after ranks_main() has begun its case. */
extern int rank, ranks;

/*
 * In main(), first of all: MPICH's launcher ends the process groups of all ranks when one ends.
 * After this call they go on, even when the launcher itself has ended.
 */
void ranks_outlive_launcher(void);
/*
 * In main(), first: the arguments "--rank CASE ARGUMENT" make this process a rank. Does the case
 * and exits: 0 when no check of it failed.
 */
void ranks_main(int argc, char **argv, const struct rank_case *cases);

/* In a test: skips it where mpiexec is not installed. */
void ranks_need_launcher(void);
/*
 * In a test: @n ranks do the case, @members on a node (0: all). Returns their output, or NULL
 * if *@ret_status is not wanted and some rank failed, which fails the test; free() it.
 */
char *ranks_run(int n, int members, const char *name, const char *argument, int *ret_status);

/* CHECK and its like, for a rank. */
void rank_fail(const char *file, unsigned int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
#define RANK_CHECK(condition)                                                    \
	do {                                                                     \
		if (!(condition))                                                \
			rank_fail(__FILE__, __LINE__, "not so: %s", #condition); \
	} while (0)
/* A rank that can't go on ends, and mpiexec ends the others. */
#define RANK_OK(call)                                                                          \
	do {                                                                                   \
		int r_ = (call);                                                               \
		if (r_) {                                                                      \
			rank_fail(__FILE__, __LINE__, "%s is %d: %s", #call, r_, hm_errmsg()); \
			ranks_end();                                                           \
		}                                                                              \
	} while (0)
#define RANK_ERROR(expected, call)                                                       \
	do {                                                                             \
		int r_ = (call);                                                         \
		if (r_ != (expected) || !*hm_errmsg())                                   \
			rank_fail(__FILE__, __LINE__, "%s is %d, not %s: %s", #call, r_, \
				  #expected, hm_errmsg());                               \
	} while (0)
void ranks_end(void) __attribute__((noreturn));
/* At the end of a case, on all ranks: rank 0 prints the text if no check of any rank has failed. */
void ranks_say(const char *text);

#endif
