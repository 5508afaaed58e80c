/* SPDX-License-Identifier: MIT */
/* Puts back a benchmark's changes outside of its process, however the process ends. */
#ifndef HETMAP_KEEPER_H
#define HETMAP_KEEPER_H

#include <sys/types.h>

/*
 * A child that does that once this process closes the line to it, or has ended in any way, by
 * SIGKILL, too; and so have all programs that it started meanwhile.
 */
struct keeper {
	pid_t pid;
	int line;
};

/* @undo is called in the child, with memory as it is now. 0 or a negative errno. */
int keeper_start(struct keeper *keeper, void (*undo)(void *user), void *user);
/* Has it put back, and waits for that. */
void keeper_end(const struct keeper *keeper);

#endif
