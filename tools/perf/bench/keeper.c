// SPDX-License-Identifier: MIT
/* Children that undo the changes of a benchmark. */
#include "keeper.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Keeps no descriptor but its line: a reader of the output does not wait for it. */
static _Noreturn void keep(int line, void (*undo)(void *user), void *user)
{
	char end;

	dup2(line, STDIN_FILENO);
	close_range(STDIN_FILENO + 1, ~0u, 0);
	while (read(STDIN_FILENO, &end, 1) < 0 && errno == EINTR)
		;
	undo(user);
	_exit(0);
}

int keeper_start(struct keeper *keeper, void (*undo)(void *user), void *user)
{
	sigset_t all, before;
	int line[2], r = 0;

	/* Programs have the other end, too: no O_CLOEXEC. */
	if (pipe(line))
		return -errno;
	/* Of the child's, for good: a terminal's signals come to both. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	keeper->pid = fork();
	if (keeper->pid < 0)
		r = -errno;
	if (!keeper->pid)
		keep(line[0], undo, user);
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(line[0]);
	keeper->line = line[1];
	if (r)
		close(line[1]);
	return r;
}

void keeper_end(const struct keeper *keeper)
{
	close(keeper->line);
	while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
		;
}
