/* SPDX-License-Identifier: MIT */
/* A handler of the application's own, which records its arguments, and jumps away. */
#ifndef HETMAP_TESTS_OTHERS_HANDLER_H
#define HETMAP_TESTS_OTHERS_HANDLER_H

#include <setjmp.h>
#include <signal.h>

extern sigjmp_buf back; /* where it jumps: sigsetjmp() before the touch */
extern volatile int seen_signal, seen_code, seen_calls;
extern void *volatile seen_address;
extern volatile unsigned int seen_mask; /* mask_now() in the handler */

/* Which are blocked: 1 @signal, 2 SIGUSR1, 4 SIGUSR2, 8 the other one of SIGSEGV and SIGBUS. */
unsigned int mask_now(int signal);

void on_plain(int signal);
void on_info(int signal, siginfo_t *info, void *context);

/* @plain, or on_info() with SA_SIGINFO, for @signal; blocks SIGUSR1. */
void set_action(int signal, void (*plain)(int), int flags);

#endif
