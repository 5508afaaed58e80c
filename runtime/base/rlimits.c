// SPDX-License-Identifier: MIT
/* Resource limits: compared beforehand, explained afterwards. */
#include "base/rlimits.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/proc.h"
#include "base/smaps.h"
#include "base/util.h"

/* Limits of address space, and the usage that counts against each [getrlimit(2)]. */
static const struct space {
	int resource;
	uint32_t takes; /* TAKES_*: what the limit counts */
	const char *name, *option;
	const char *used; /* in /proc/self/status */
} spaces[] = {
	{ RLIMIT_AS, TAKES_SPACE, "RLIMIT_AS", "ulimit -v", "VmSize" },
	{ RLIMIT_DATA, TAKES_DATA, "RLIMIT_DATA", "ulimit -d", "VmData" },
};

#define SPACE_TEXT 160

/* The C library grows the heap by so much at a time [M_TOP_PAD of mallopt(3)]. */
#define HEAP_STEP KIB(128)

/*
 * "RLIMIT_AS, 97.7 MiB, of which 91.3 MiB are in use: raise it (ulimit -v)", if the limit counts
 * @takes and @length more bytes exceed it.
 */
static bool is_beyond(const struct space *space, uint64_t length, uint32_t takes,
		      char text[SPACE_TEXT])
{
	char have[16], in_use[16];
	struct rlimit limit;
	uint64_t used;

	if (!(space->takes & takes) ||
	    getrlimit((__rlimit_resource_t)space->resource, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY)
		return false;
	used = status_read(space->used);
	if (used + length <= limit.rlim_cur)
		return false;
	snprintf(text, SPACE_TEXT, "%s, %s, of which %s are in use: raise it (%s)", space->name,
		 format_bytes(limit.rlim_cur, have, sizeof(have)),
		 format_bytes(used, in_use, sizeof(in_use)), space->option);
	return true;
}

static bool is_beyond_any(uint64_t length, uint32_t takes, char text[SPACE_TEXT])
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(spaces); i++)
		if (is_beyond(&spaces[i], length, takes, text))
			return true;
	return false;
}

uint64_t rlimits_file_size(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

int rlimits_check_file_size(uint64_t size)
{
	uint64_t limit = rlimits_file_size();
	char want[16], have[16];

	if (size <= limit)
		return 0;
	return err_set(-EFBIG,
		       "a file of %s exceeds RLIMIT_FSIZE, %s: raise it (ulimit -f) to "
		       "%" PRIu64 " bytes at least, or pass a smaller max_size",
		       format_bytes(size, want, sizeof(want)),
		       format_bytes(limit, have, sizeof(have)), size);
}

int rlimits_explain_file(int r, const char *what)
{
	uint64_t limit = rlimits_file_size();
	char have[16];

	if (limit == UINT64_MAX)
		return err_set(r, "%s: %s", what, err_name(r));
	return err_set(r,
		       "%s: its file would exceed RLIMIT_FSIZE, %s: raise it (ulimit -f), or "
		       "have less in it",
		       what, format_bytes(limit, have, sizeof(have)));
}

int rlimits_explain_fd(int r, const char *what)
{
	struct rlimit limit = { 0 };

	if (r == -EMFILE) {
		getrlimit(RLIMIT_NOFILE, &limit);
		return err_set(r,
			       "%s: all %" PRIu64 " descriptors of this process are in use: "
			       "raise RLIMIT_NOFILE (ulimit -n)",
			       what, (uint64_t)limit.rlim_cur);
	}
	if (r == -ENFILE)
		return err_set(r,
			       "%s: the system's table of open files is full: raise "
			       "fs.file-max",
			       what);
	return err_set(r, "%s: %s", what, err_name(r));
}

int rlimits_explain_thread(int r, const char *what)
{
	char want[16], beyond[SPACE_TEXT];
	struct rlimit threads = { 0 };
	pthread_attr_t attr;
	size_t stack = 0;

	pthread_attr_init(&attr);
	pthread_attr_getstacksize(&attr, &stack);
	pthread_attr_destroy(&attr);
	if (is_beyond_any(stack, TAKES_SPACE | TAKES_DATA, beyond))
		return err_set(r,
			       "%s: no thread could be started: its stack of %s is beyond %s",
			       what, format_bytes(stack, want, sizeof(want)), beyond);
	getrlimit(RLIMIT_NPROC, &threads);
	if (threads.rlim_cur != RLIM_INFINITY)
		return err_set(
			r,
			"%s: no thread could be started: RLIMIT_NPROC is %" PRIu64
			" for all of this user: raise it (ulimit -u), or pids.max of the "
			"control group, if it is that",
			what, (uint64_t)threads.rlim_cur);
	return err_set(
		r,
		"%s: no thread could be started, and RLIMIT_NPROC, RLIMIT_AS and "
		"RLIMIT_DATA leave room: raise pids.max of the control group, or kernel.threads-max",
		what);
}

int rlimits_explain_map(int r, uint64_t length, uint32_t takes, const char *what)
{
	char want[16], beyond[SPACE_TEXT];
	uint64_t max_maps = 0, maps;

	format_bytes(length, want, sizeof(want));
	if (r == -EAGAIN)
		return err_set(r,
			       "%s of %s: beyond RLIMIT_MEMLOCK while mlockall(MCL_FUTURE) is "
			       "in force: raise it (ulimit -l) or map before mlockall()",
			       what, want);
	/* Not from mmap() itself: map_direct() brings pages in through a pipe. */
	if (r == -EMFILE || r == -ENFILE)
		return rlimits_explain_fd(r, what);
	if (r == -EIO)
		return err_set(
			r,
			"%s of %s: its driver has no page for a part of it, and a touch of "
			"that part would be a SIGBUS (%s): let the device copy the bytes, or "
			"place the buffer where CPUs reach it",
			what, want, err_name(r));
	if (r != -ENOMEM)
		return err_set(r, "%s of %s: %s", what, want, err_name(r));

	if (is_beyond_any(length, takes, beyond))
		return err_set(r, "%s of %s: beyond %s", what, want, beyond);
	maps = maps_count();
	if (proc_number("/proc/sys/vm/max_map_count", &max_maps) && maps + 8 >= max_maps)
		return err_set(r,
			       "%s of %s: the process has %" PRIu64 " mappings and "
			       "vm.max_map_count is %" PRIu64 ": raise it (sysctl -w "
			       "vm.max_map_count=%" PRIu64 ") or use fewer, larger buffers",
			       what, want, maps, max_maps, max_maps * 4);
	return err_set(r,
		       "%s of %s: not enough memory or address space, and no limit of the "
		       "process is it (%s; see vm.overcommit_memory)",
		       what, want, err_name(r));
}

int rlimits_check_maps(uint64_t n)
{
	uint64_t maps = maps_count(), max_maps;

	if (!maps || !proc_number("/proc/sys/vm/max_map_count", &max_maps))
		return 0; /* not known: the kernel will tell */
	if (maps + n <= max_maps)
		return 0;
	return err_set(-ENOMEM,
		       "%" PRIu64 " mappings are in use, %" PRIu64 " more are needed "
		       "and vm.max_map_count is %" PRIu64 ": raise it (sysctl -w "
		       "vm.max_map_count=%" PRIu64 ")",
		       maps, n, max_maps, max_maps * 4);
}

uint64_t rlimits_lock_room(uint64_t locked, uint64_t *ret_limit)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_MEMLOCK, &limit);
	*ret_limit = limit.rlim_cur;
	if (limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur > locked ? limit.rlim_cur - locked : 0;
}

int rlimits_explain_memory(int r, uint64_t length, const char *what)
{
	char beyond[SPACE_TEXT];

	if (is_beyond_any(length, TAKES_SPACE, beyond) ||
	    is_beyond_any(HEAP_STEP, TAKES_DATA, beyond))
		return err_set(r, "%s: beyond %s", what, beyond);
	return err_set(r, "%s: there is no memory left, or none for this control group", what);
}

uint64_t rlimits_lockable(uint64_t *ret_limit, uint64_t *ret_locked)
{
	*ret_locked = status_read("VmLck");
	return rlimits_lock_room(*ret_locked, ret_limit);
}
