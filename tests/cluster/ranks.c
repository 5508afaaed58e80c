// SPDX-License-Identifier: MIT
#ifdef HAVE_CLUSTER
#include "cluster/ranks.h"

#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int rank, ranks;
static int failures;

void rank_fail(const char *file, unsigned int line, const char *format, ...)
{
	char text[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	printf("rank %d of %d: %s:%u: %s\n", rank, ranks, file, line, text);
	fflush(stdout);
	failures++;
}

void ranks_end(void)
{
	fflush(NULL);
	_exit(1);
}

void ranks_say(const char *text)
{
	int all = 0;

	MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank && !all)
		puts(text);
	fflush(stdout);
}

void ranks_outlive_launcher(void)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		setsid();
		return;
	}
	/* MPI's connection to the launcher is the child's alone. */
	close_range(3, ~0u, 0);
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
	_exit(WEXITSTATUS(status));
}

/*
 * Ends MPI. Over TCP MPI_Finalize() of MPICH 4.0 can wait for ever: a rank that closes a connection
 * needs an answer of the other side, which may wait for the launcher already. In two_spaces ranks
 * meet, and then tell the launcher themselves that they end.
 */
static void end_mpi(void)
{
	const char *text = getenv("PMI_FD");
	char answer[64];
	int fd;

	if (!getenv("HETMAP_SPACE_THERE") || !text) {
		MPI_Finalize();
		return;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	fd = atoi(text);
	if (dprintf(fd, "cmd=finalize\n") < 0 || read(fd, answer, sizeof(answer)) <= 0)
		rank_fail(__FILE__, __LINE__, "the launcher does not answer");
}

void ranks_main(int argc, char **argv, const struct rank_case *cases)
{
	int level;

	if (argc < 4 || strcmp(argv[1], "--rank") != 0)
		return;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (; cases->name; cases++) {
		if (strcmp(cases->name, argv[2]) != 0)
			continue;
		cases->run(argv[3]);
		end_mpi();
		fflush(NULL);
		_exit(failures ? 1 : 0);
	}
	rank_fail(__FILE__, __LINE__, "there is no case %s", argv[2]);
	ranks_end();
}

static void start(int n, int members, const char *name, const char *argument, int out)
{
	char count[16], node[16], path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (length <= 0)
		_exit(126);
	path[length] = '\0';
	snprintf(count, sizeof(count), "%d", n);
	snprintf(node, sizeof(node), "%d", members);
	setenv("HETMAP_ARRAY_NODE", node, 1);
	/* MPI keeps its allocations. */
	setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
	dup2(out, 1);
	dup2(out, 2);
	execlp("mpiexec", "mpiexec", "-n", count, path, "--rank", name, argument, NULL);
	_exit(127);
}

void ranks_need_launcher(void)
{
	if (!system("command -v mpiexec >/dev/null"))
		return;
	test_skip("cluster", "there is no mpiexec (mpich)");
	test_abandon();
}

char *ranks_run(int n, int members, const char *name, const char *argument, int *ret_status)
{
	char *text;
	size_t used = 0;
	int ends[2], status;
	ssize_t got;
	pid_t pid;

	ranks_need_launcher();
	text = calloc(1, 1 << 16);
	CHECK_FATAL(text && !pipe(ends));
	pid = fork();
	CHECK_FATAL(pid >= 0);
	if (!pid)
		start(n, members, name, argument, ends[1]);
	close(ends[1]);
	while ((got = read(ends[0], text + used, (1 << 16) - 1 - used)) > 0 ||
	       (got < 0 && errno == EINTR))
		used += got > 0 ? (size_t)got : 0;
	close(ends[0]);
	CHECK(waitpid(pid, &status, 0) == pid);
	if (ret_status) {
		*ret_status = status;
		return text;
	}
	if (!status)
		return text;
	test_fail(__FILE__, __LINE__, "%s %s of %d ranks, %d on a node, status %#x: %s", name,
		  argument, n, members, status, text);
	free(text);
	return NULL;
}
#endif
