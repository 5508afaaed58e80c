// SPDX-License-Identifier: MIT
/* Other programs that a benchmark runs: their output, and their cost. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "common/command.h"
#include "perf/record/child.h"

/* The child's side, which never returns. */
static _Noreturn void become(char *const argv[], int out, int errors)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	signals_restore();
	/* Its result is of no use without its parent. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(errors, STDERR_FILENO) < 0)
		_exit(STATUS_OWN);
	execvp(argv[0], argv);
	_exit(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE);
}

/* A file in memory takes whatever is printed, and nobody has to read it meanwhile. */
static void keep_beginning(int fd, char text[PROGRAM_TEXT])
{
	ssize_t n = pread(fd, text, PROGRAM_TEXT - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
}

int program_run(char *const argv[], struct program_result *ret_result)
{
	struct program_result result = { 0 };
	int out = memfd_create("out", MFD_CLOEXEC),
	    errors = memfd_create("errors", MFD_CLOEXEC);
	double start = bench_now();
	int r = 0, status;
	char *at;
	pid_t pid;

	if (out < 0 || errors < 0) {
		r = -errno;
		goto close;
	}
	pid = fork();
	if (pid < 0) {
		r = -errno;
		goto close;
	}
	if (!pid)
		become(argv, out, errors);
	while (wait4(pid, &status, 0, &result.usage) < 0)
		if (errno != EINTR) {
			r = -errno;
			goto close;
		}
	result.ns = bench_now() - start;
	result.status = child_exit_status(status);
	keep_beginning(out, result.out);
	keep_beginning(errors, result.errors);
	for (at = result.errors; *at; at++)
		if (*at == '\n')
			*at = at[1] ? ' ' : '\0';
	*ret_result = result;
close:
	if (out >= 0)
		close(out);
	if (errors >= 0)
		close(errors);
	return r;
}

char *program_self(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return NULL;
	path[n] = '\0';
	return strdup(path);
}
