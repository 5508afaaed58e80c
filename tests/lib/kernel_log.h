/* SPDX-License-Identifier: MIT */
/*
 * The kernel's messages while a program of tests runs: there are none, whatever callers do. For
 * programs that have the machine to themselves.
 */
#ifndef HETMAP_TESTS_KERNEL_LOG_H
#define HETMAP_TESTS_KERNEL_LOG_H

/* From here on. In main(), before any test. */
void kernel_log_begin(void);
/* The last test of the program: fails for each line that the machine does not explain. */
void kernel_log_test(void);

#endif
