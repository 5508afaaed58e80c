// SPDX-License-Identifier: MIT
/*
 * A measured command: held before it executes, let go, waited for. Signals come by a signalfd,
 * so that none interrupts the caller.
 */
#include "child.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"

/* The child's side, which never returns. Its end of the line closes at execve(2). */
static _Noreturn void become(const struct child *child, int line, char *const argv[])
{
	ssize_t n;
	int error;
	char go;

	/* The cost up to here is over when child_start() returns. */
	if (write(line, "", 1) != 1)
		_exit(STATUS_OWN);
	/* Only the parent is at the other end; the child ends with it. */
	do {
		n = read(line, &go, 1);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(STATUS_OWN);
	signals_restore();
	sigaction(SIGCHLD, &child->on_chld, NULL);
	sigprocmask(SIG_SETMASK, &child->mask, NULL);
	execvp(argv[0], argv);
	error = errno;
	n = write(line, &error, sizeof(error));
	_exit(n == sizeof(error) ? STATUS_NOT_EXECUTABLE : STATUS_OWN);
}

/* The caller's signals are its own again. */
static void restore(struct child *child)
{
	if (child->fd >= 0)
		close(child->fd);
	child->fd = -1;
	if (child->line >= 0)
		close(child->line);
	child->line = -1;
	sigaction(SIGCHLD, &child->on_chld, NULL);
	sigprocmask(SIG_SETMASK, &child->mask, NULL);
}

int child_start(char *const argv[], struct child *ret_child)
{
	struct sigaction by_default = { .sa_handler = SIG_DFL };
	struct child child = { .fd = -1, .line = -1 };
	int line[2], r;
	sigset_t set;
	ssize_t n;
	char ready;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) < 0)
		return -errno;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGHUP);
	sigemptyset(&by_default.sa_mask);
	sigprocmask(SIG_BLOCK, &set, &child.mask);
	/* A process that ignores SIGCHLD does not learn how its children ended. */
	sigaction(SIGCHLD, &by_default, &child.on_chld);
	child.line = line[0];
	child.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (child.fd < 0) {
		r = -errno;
		goto restore;
	}
	child.pid = fork();
	if (child.pid < 0) {
		r = -errno;
		goto restore;
	}
	if (!child.pid) {
		close(line[0]);
		become(&child, line[1], argv);
	}
	close(line[1]);
	/* If it was killed meanwhile, child_wait() tells. */
	do {
		n = recv(child.line, &ready, 1, 0);
	} while (n < 0 && errno == EINTR);
	*ret_child = child;
	return 0;
restore:
	close(line[1]);
	restore(&child);
	return r;
}

static void reap(struct child *child)
{
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
	restore(child);
}

int child_go(struct child *child)
{
	int error = 0;
	ssize_t n;

	/* A child that was killed meanwhile shows at child_wait(). */
	send(child->line, "", 1, MSG_NOSIGNAL);
	do {
		n = recv(child->line, &error, sizeof(error), MSG_WAITALL);
	} while (n < 0 && errno == EINTR);
	close(child->line);
	child->line = -1;
	if (n != sizeof(error))
		return 0;
	reap(child);
	return -error;
}

/* Fields 10 and 12, proc(5). The name before them may hold anything, ")" too. */
static void read_faults(pid_t pid, struct child_cost *cost)
{
	unsigned long long minor, major;
	char path[64], *text, *end;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (machine_read_all("", path, &text))
		return;
	end = strrchr(text, ')');
	if (end && sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu", &minor,
			  &major) == 2) {
		cost->minor = minor;
		cost->major = major;
	}
	free(text);
}

void child_cost(const struct child *child, struct child_cost *ret_cost)
{
	struct timespec used;
	clockid_t clock;

	*ret_cost = (struct child_cost){ 0 };
	read_faults(child->pid, ret_cost);
	if (!clock_getcpuclockid(child->pid, &clock) && !clock_gettime(clock, &used))
		ret_cost->cpu_ns = (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

uint64_t child_cpu_ns(const struct rusage *usage)
{
	return ((uint64_t)usage->ru_utime.tv_sec + (uint64_t)usage->ru_stime.tv_sec) *
		       1000000000 +
	       ((uint64_t)usage->ru_utime.tv_usec + (uint64_t)usage->ru_stime.tv_usec) * 1000;
}

void child_abandon(struct child *child)
{
	close(child->line);
	child->line = -1;
	reap(child);
}

/* Takes in the signals that came, and passes on those that the command has not got itself. */
static void take_signals(struct child *child)
{
	struct signalfd_siginfo info;

	while (read(child->fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		child->signal = (int)info.ssi_signo;
		/* SI_KERNEL: the terminal's, to all processes in its foreground. */
		if (info.ssi_code <= 0 && (pid_t)info.ssi_pid != child->pid)
			kill(child->pid, child->signal);
	}
}

int child_wait(struct child *child, int timeout_ms, int *ret_status, struct rusage *ret_usage)
{
	struct pollfd poll_fd = { .fd = child->fd, .events = POLLIN };
	struct rusage usage;
	int status;
	pid_t pid;

	for (;;) {
		take_signals(child);
		pid = wait4(child->pid, &status, WNOHANG, &usage);
		if (pid < 0)
			return -errno;
		if (pid == child->pid)
			break;
		if (!timeout_ms)
			return -ETIME;
		if (poll(&poll_fd, 1, timeout_ms) < 0 && errno != EINTR)
			return -errno;
		if (timeout_ms > 0)
			timeout_ms = 0;
	}
	restore(child);
	*ret_status = status;
	if (ret_usage)
		*ret_usage = usage;
	return 0;
}

int child_exit_status(int wait_status)
{
	if (WIFSIGNALED(wait_status))
		return 128 + WTERMSIG(wait_status);
	return WEXITSTATUS(wait_status);
}

int child_start_failed(const char *who, int r)
{
	const char *remedy = NULL;

	if (r == -EMFILE)
		remedy = "it takes a few descriptors: raise ulimit -n";
	else if (r == -EAGAIN)
		remedy = "raise ulimit -u, or end other processes";
	return fail(STATUS_OWN, r, remedy, "%s: cannot start a process: %s", who, strerror(-r));
}

int child_exec_failed(const char *name, int r)
{
	char *shown = text_escape(name);
	const char *remedy = NULL;
	int status = STATUS_NOT_EXECUTABLE;

	if (r == -ENOENT) {
		status = STATUS_NOT_FOUND;
		/* execve(2) answers the same for a script whose interpreter is missing. */
		if (strchr(name, '/') && !access(name, F_OK))
			remedy = "the file is there, but its interpreter is not";
		else if (!strchr(name, '/'))
			remedy = "it is in no folder of PATH";
	} else if (r == -EACCES) {
		remedy = "it is a folder, or needs chmod +x";
	}
	fail(status, r, remedy, "cannot execute '%s': %s", shown, strerror(-r));
	free(shown);
	return status;
}
