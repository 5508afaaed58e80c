// SPDX-License-Identifier: MIT
#include "fault/others_handler.h"

#include "lib/harness.h"

sigjmp_buf back;
volatile int seen_signal, seen_code, seen_calls;
void *volatile seen_address;
volatile unsigned int seen_mask;

unsigned int mask_now(int signal)
{
	int other = signal == SIGBUS ? SIGSEGV : SIGBUS;
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	return (unsigned int)(sigismember(&set, signal) | sigismember(&set, SIGUSR1) << 1 |
			      sigismember(&set, SIGUSR2) << 2 | sigismember(&set, other) << 3);
}

void on_plain(int signal)
{
	seen_signal = signal;
	seen_calls = seen_calls + 1;
	seen_mask = mask_now(signal);
	siglongjmp(back, 1);
}

void on_info(int signal, siginfo_t *info, void *context)
{
	CHECK(context != NULL);
	seen_code = info->si_code;
	seen_address = info->si_addr;
	on_plain(signal);
}

void set_action(int signal, void (*plain)(int), int flags)
{
	struct sigaction action = { .sa_handler = plain, .sa_flags = flags };

	sigaddset(&action.sa_mask, SIGUSR1);
	if (flags & SA_SIGINFO)
		action.sa_sigaction = on_info;
	CHECK_FATAL(!sigaction(signal, &action, NULL));
}
