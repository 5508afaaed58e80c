/* SPDX-License-Identifier: MIT */
/* Where every thread of a test stands that does not come to its end. */
#ifndef HETMAP_TESTS_STACKS_H
#define HETMAP_TESTS_STACKS_H

#include <sys/types.h>

/* In the process that may hang, before it has threads. */
void stacks_prepare(void);

/* From its parent: has each of its threads write to stderr. Takes a while. */
void stacks_print(pid_t pid);

#endif
