// SPDX-License-Identifier: MIT
/* Identifies the process that owns a shared buffer, and tells whether it still runs. */
#include "share/owner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/object.h"
#include "base/proc.h"
#include "base/rlimits.h"
#include "base/sys.h"

#define PID_BITS 22 /* PID_MAX_LIMIT [include/linux/threads.h] */

/*
 * Start time of process @pid: field 22 of its stat, behind the name, which may contain blanks
 * and parentheses [proc(5)]. 0: there is no such process, or it has ended and was not waited
 * for, or /proc does not tell.
 */
static uint64_t process_start(uint64_t pid)
{
	char path[40], text[512], *at;
	char state = 0;
	uint64_t start = 0;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
	if (!proc_read(path, text, sizeof(text)))
		return 0;
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1,
			  " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			  "%*s %*s %*s %" SCNu64,
			  &state, &start) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : start;
}

uint64_t owner_own_start(void)
{
	static _Atomic uint64_t start;
	static _Atomic uint32_t generation; /* written after start */

	if (!start || generation != fork_generation) {
		start = process_start((uint64_t)getpid());
		generation = fork_generation;
	}
	return start;
}

bool owner_is_seen(uint64_t pid, uint64_t start)
{
	return start && pid && !(pid >> PID_BITS) && process_start(pid) == start;
}

/* ---- by pidfd ---- */

int owner_open(int *ret_fd)
{
	int fd = sys_pidfd_open(getpid());

	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return rlimits_explain_fd(fd, "a descriptor of this process (pidfd_open)");
	*ret_fd = fd < 0 ? -1 : fd;
	return 0;
}

/*
 * Checks the name that /proc has for @fd [fs/pidfs.c; kernel/fork.c before 6.9]. No path can
 * look like it: paths begin with a slash or a parenthesis. A hostile sender may have sent a
 * file whose server would keep a poll() waiting for ever.
 */
static int check_kind(int fd)
{
	static const char *const names[] = { "anon_inode:[pidfd]", "pidfd:[" };
	char path[40], name[64];
	ssize_t n;
	size_t i;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = sys_readlink(path, name, sizeof(name) - 1);
	if (n < 0)
		return err_set((int)n, "%s, the owner's descriptor that was sent: %s", path,
			       err_name((int)n));
	name[n] = '\0';
	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return 0;
	return err_set(-EPROTO,
		       "the owner's descriptor, which came with the message, is no pidfd");
}

/*
 * The process's number in its own pid namespace: the last number of the line NSpid
 * [proc_pid_fdinfo(5)]. A kernel without CONFIG_PID_NS has no such line, and only one
 * namespace. Negative: the process has ended, or the kernel does not tell.
 */
static long innermost_pid(int fd)
{
	char text[256], *at = text, *end;
	long pid = -1, next;

	if (!proc_fdinfo(fd, "NSpid:", text, sizeof(text)) &&
	    !proc_fdinfo(fd, "Pid:", text, sizeof(text)))
		return -1;
	for (;; at = end) {
		next = strtol(at, &end, 10);
		if (end == at)
			return pid;
		pid = next;
	}
}

int owner_check(int fd, uint64_t pid, uint64_t start)
{
	int r = check_kind(fd);
	long told;

	if (r)
		return r;
	told = innermost_pid(fd);
	if (told >= 0 ? (uint64_t)told == pid : !owner_is_seen(pid, start))
		return 0;
	return err_set(-EPROTO,
		       "the descriptor that was sent is that of process %ld: the page's owner "
		       "is %" PRIu64,
		       told, pid);
}

bool owner_has_ended(int fd, uint64_t pid, uint64_t start)
{
	struct pollfd file = { .fd = fd, .events = POLLIN };

	if (fd < 0)
		return process_start(pid) != start;
	return sys_poll(&file, 1, 0) > 0;
}
