/* SPDX-License-Identifier: MIT */
/* Other programs that a benchmark runs: their output, and their cost. */
#ifndef HETMAP_PERF_PROGRAM_H
#define HETMAP_PERF_PROGRAM_H

#include <stddef.h>
#include <sys/resource.h>

/* So many bytes of a program's output are kept. */
#define PROGRAM_TEXT 512

struct program_result {
	int status;                /* as a shell has it: 128 + n of signal n */
	double ns;                 /* from its start until it was waited for */
	struct rusage usage;       /* of it and of those descendants that were waited for */
	char out[PROGRAM_TEXT];    /* the beginning of its standard output */
	char errors[PROGRAM_TEXT]; /* and of its standard error, as one line */
};

/*
 * Runs @argv, as execvp(3) finds it, with nothing at its standard input, and waits for it.
 * 0 or a negative errno.
 */
int program_run(char *const argv[], struct program_result *ret_result);

/* The file that this program is: free() it. NULL: not known. */
char *program_self(void);

#endif
