// SPDX-License-Identifier: MIT
/*
 * Threads of drivers that block SIGBUS: a touch of cut-off memory by one ends the process,
 * whatever handler is installed [signal(7)]. Mesa's threads block all signals; so do those of
 * any driver that a thread with such a mask loads, since they inherit it.
 *
 * Nothing tells the owner of a thread. All threads are therefore looked at before and after the
 * calls in which drivers start theirs: loading, a context, a queue, and the first launch. A
 * thread that the application starts during one of them counts as the driver's: the only harm is
 * that memory is copied needlessly.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "accel/opencl/opencl.h"
#include "base/proc.h"
#include "base/sys.h"
#include "base/thread_status.h"

/* About a thousand entries: more threads take more calls. */
#define ENTRIES_BYTES KIB(32)

/* Looks at a thread that has not waited yet: see thread_status_has_waited(). */
#define LOOKS 100
#define LOOK_NAP_NS 1000000

/* ---- listing threads ---- */

static int add(struct opencl_watch *watch, pid_t thread)
{
	pid_t *more;

	if (watch->n == watch->room) {
		more = sys_calloc(2 * watch->room + 64, sizeof(*more));
		if (!more)
			return -ENOMEM;
		if (watch->n)
			memcpy(more, watch->thread, watch->n * sizeof(*more));
		free(watch->thread);
		watch->thread = more;
		watch->room = 2 * watch->room + 64;
	}
	watch->thread[watch->n++] = thread;
	return 0;
}

static int list(struct opencl_watch *watch)
{
	const struct dirent64 *entry;
	int64_t bytes = 0, at;
	char *entries;
	int fd, r = 0;

	*watch = (struct opencl_watch){ 0 };
	fd = sys_open("/proc/self/task", O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	entries = sys_calloc(1, ENTRIES_BYTES);
	if (!entries)
		r = -ENOMEM;
	while (!r && (bytes = sys_getdents(fd, entries, ENTRIES_BYTES)) > 0)
		for (at = 0; !r && at < bytes; at += entry->d_reclen) {
			entry = (const struct dirent64 *)(entries + at);
			if (entry->d_name[0] != '.')
				r = add(watch, (pid_t)atoi(entry->d_name));
		}
	if (!r && bytes < 0)
		r = (int)bytes;
	free(entries);
	sys_close(fd);
	if (!r)
		return 0;
	free(watch->thread);
	*watch = (struct opencl_watch){ 0 };
	return r;
}

static bool has(const struct opencl_watch *watch, pid_t thread)
{
	uint32_t i;

	for (i = 0; i < watch->n; i++)
		if (watch->thread[i] == thread)
			return true;
	return false;
}

/* ---- blocked signals ---- */

static bool blocks(pid_t thread)
{
	const struct timespec nap = { 0, LOOK_NAP_NS };
	char path[48], text[THREAD_STATUS_MAX];
	int i;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", thread);
	for (i = 0; i < LOOKS; i++) {
		/* The thread may have ended since it was listed. */
		if (!proc_read(path, text, sizeof(text)) || !thread_status_blocks(text, SIGBUS))
			return false;
		if (thread_status_has_waited(text))
			return true;
		nanosleep(&nap, NULL);
	}
	return true;
}

void opencl_watch_begin(struct opencl_watch *watch)
{
	watch->known = !list(watch);
}

bool opencl_watch_end(struct opencl_watch *watch)
{
	struct opencl_watch now;
	bool found = false;
	uint32_t i;

	if (watch->known && !list(&now)) {
		for (i = 0; i < now.n && !found; i++)
			found = !has(watch, now.thread[i]) && blocks(now.thread[i]);
		free(now.thread);
	}
	free(watch->thread);
	*watch = (struct opencl_watch){ 0 };
	return found;
}

/* ---- owners of threads ---- */

/*
 * Threads from before the first look can't be told from the application's, as where it has used
 * OpenCL itself before, or /proc is not mounted. Drivers known from their source to block SIGBUS
 * are therefore also recognised by name.
 */
bool opencl_known_to_block(const struct opencl_device *device)
{
	static const char *const platforms[] = { "rusticl", "Clover" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(platforms); i++)
		if (!strcasecmp(device->platform_name, platforms[i]))
			return true;
	return false;
}

void opencl_watch_device(struct opencl_watch *watch, struct opencl_device *device)
{
	if (opencl_watch_end(watch))
		atomic_store(&device->blocks_sigbus, true);
}
