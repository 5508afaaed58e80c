// SPDX-License-Identifier: MIT
/*
 * Descriptors of fences: the accelerator's own, where it has one for the work; otherwise an
 * eventfd that a callback signals when the work is done.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "accel/accel.h"
#include "base/sys.h"

/*
 * Keeps the queue for a call about this work: from here on its end waits for end_notice().
 * False: the work is done, and the queue may be gone.
 */
static bool begin_notice(struct hm_fence *fence)
{
	struct hm_queue *queue = fence->queue;
	bool alive;

	pthread_mutex_lock(&queue->lock);
	alive = atomic_load(&fence->state) != FENCE_DONE;
	queue->n_notify += alive;
	pthread_mutex_unlock(&queue->lock);
	return alive;
}

static void end_notice(struct hm_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->n_notify--;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

/* A callback's data; only hm_fence_fd allocates it. */
struct notice {
	struct hm_queue *queue;
	int fd;
};

/* Runs on any thread, perhaps the driver's: takes only queue->lock. */
static void signal_fd(void *user)
{
	struct notice *notice = user;
	struct hm_queue *queue = notice->queue;
	const uint64_t one = 1;

	sys_write(notice->fd, &one, sizeof(one));
	sys_close(notice->fd);
	free(notice);
	end_notice(queue);
}

/* Returns a descriptor, or a negative errno. */
static int new_eventfd(unsigned int value)
{
	int fd = sys_eventfd(value, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? err_set(fd, "hm_fence_fd: eventfd: %s", err_name(fd)) : fd;
}

int fence_fd_done(int *ret_fd)
{
	int fd = new_eventfd(1);

	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

/* Called after begin_notice(); signal_fd() ends that notice, or, on failure, the caller. */
static int notify_fd(struct hm_fence *fence, int *ret_fd)
{
	struct hm_queue *queue = fence->queue;
	struct notice *notice;
	int fd, r;

	fd = new_eventfd(0);
	if (fd < 0)
		return fd;
	notice = sys_calloc(1, sizeof(*notice));
	if (!notice) {
		r = err_set(-ENOMEM, "hm_fence_fd: no memory");
		goto err_close;
	}
	notice->queue = queue;
	notice->fd = sys_dup(fd);
	if (notice->fd < 0) {
		r = err_set(notice->fd, "hm_fence_fd: dup: %s", err_name(notice->fd));
		goto err_free;
	}
	r = queue->ops->notify(queue->data, &fence->work, signal_fd, notice);
	if (r)
		goto err_notice;
	*ret_fd = fd;
	return 0;

err_notice:
	sys_close(notice->fd);
err_free:
	free(notice);
err_close:
	sys_close(fd);
	return r;
}

int fence_fd(struct hm_fence *fence, int *ret_fd)
{
	struct hm_queue *queue;
	bool ours = true; /* this thread must end the notice: signal_fd() is not called */
	int r;

	r = object_check((struct hm_object *)fence, OBJECT_FENCE);
	if (r)
		return r;
	if (!ret_fd)
		return err_set(-EINVAL, "hm_fence_fd: ret_fd is NULL");
	r = fence_poll(fence);
	if (r && r != -ETIME)
		return r;
	err_clear(); /* a look at an unfinished fence may have left a text */
	if (!r || !begin_notice(fence))
		return fence_fd_done(ret_fd);
	queue = fence->queue;
	r = -EOPNOTSUPP;
	fence_ask_begin(queue); /* the notice may be over before notify() has returned */
	if (queue->ops->fence_fd)
		r = queue->ops->fence_fd(queue->data, &fence->work, ret_fd);
	if (r == -EOPNOTSUPP) {
		r = notify_fd(fence, ret_fd);
		ours = r != 0;
	}
	fence_ask_end(queue);
	if (ours)
		end_notice(queue);
	return r;
}

int hm_fence_fd(struct hm_fence *fence, int *ret_fd)
{
	err_begin();
	return fence_fd(fence, ret_fd);
}
