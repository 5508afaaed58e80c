// SPDX-License-Identifier: MIT
/*
 * One descriptor for several, where the kernel has none: epoll reports any of them, and only
 * sync_files can be merged. A thread waits for all. It has descriptors, no fences: it ends when
 * the last of them is ready, or when the pipe has no reader any more.
 */
#include "accel/fence_gather.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "base/thread.h"

struct gather {
	uint32_t n;
	struct pollfd file[]; /* the pipe's end, then @n; -1: was ready */
};

static void end(struct gather *gather)
{
	uint32_t i;

	for (i = 0; i <= gather->n; i++)
		if (gather->file[i].fd >= 0)
			sys_close(gather->file[i].fd);
	free(gather);
}

/* Closes those that are ready, or never will be. */
static uint32_t take_ready(struct gather *gather)
{
	uint32_t i, left = 0;

	for (i = 1; i <= gather->n; i++) {
		struct pollfd *file = &gather->file[i];

		if (file->fd >= 0 && file->revents) {
			sys_close(file->fd);
			file->fd = -1;
		}
		left += file->fd >= 0;
	}
	return left;
}

static void *gather_main(void *user)
{
	struct gather *gather = user;
	uint32_t left = gather->n;

	while (left) {
		/* A failed wait is no end of the work: the pipe closes without a byte. */
		if (sys_poll(gather->file, gather->n + 1, -1) < 0 || gather->file[0].revents)
			goto out;
		left = take_ready(gather);
	}
	sys_write(gather->file[0].fd, "", 1);
out:
	end(gather);
	return NULL;
}

int fence_gather(const int *fds, uint32_t n, short events, int *ret_fd)
{
	struct gather *gather;
	pthread_t thread;
	int ends[2], r;
	uint32_t i;

	gather = sys_calloc(1, sizeof(*gather) + (n + 1) * sizeof(gather->file[0]));
	if (!gather)
		return err_set(-ENOMEM, "hm_fence_fd: no memory for %u descriptors", n);
	r = sys_pipe(ends);
	if (r) {
		r = rlimits_explain_fd(r, "hm_fence_fd: a pipe");
		goto err_free;
	}
	gather->n = n;
	gather->file[0].fd = ends[1]; /* poll() always reports POLLERR */
	for (i = 0; i < n; i++)
		gather->file[i + 1] = (struct pollfd){ .fd = fds[i], .events = events };
	r = thread_start(&thread, gather_main, gather);
	if (r) {
		r = rlimits_explain_thread(r, "hm_fence_fd");
		goto err_close;
	}
	pthread_detach(thread);
	*ret_fd = ends[0];
	return 0;

err_close:
	sys_close(ends[0]);
	sys_close(ends[1]);
err_free:
	free(gather);
	return r;
}
