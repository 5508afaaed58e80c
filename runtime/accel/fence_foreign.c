// SPDX-License-Identifier: MIT
/*
 * Fences of work that no queue of ours runs: of descriptors (hm_fence_import_fd), and of other
 * fences (hm_fence_merge). Each has a queue of its own, with operations that wait for it; the
 * accelerator behind them is never listed.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "accel/accel.h"
#include "accel/fence_gather.h"
#include "base/rlimits.h"
#include "accel/sync_file.h"
#include "base/sys.h"

int fence_make_foreign(const struct hm_accel_ops *ops, void *data, struct hm_fence **ret_fence)
{
	struct hm_queue *queue;
	struct hm_fence *fence;
	int r;

	fork_init();
	r = queue_create_foreign(ops, &queue);
	if (r)
		return r;
	r = fence_create(queue, &fence);
	if (r)
		goto err_queue;
	fence->work.data[0] = data;
	fence_submitted(fence);
	*ret_fence = fence;
	return 0;

err_queue:
	queue_free(queue);
	return r;
}

/* hm_fence_fd() ends here where a part had no descriptor, and has set the text. */
static int no_notify(void *queue, struct hm_accel_work *work, void (*call)(void *user),
		     void *user)
{
	(void)queue, (void)work, (void)call, (void)user;
	return -EOPNOTSUPP;
}

/* ---- one descriptor ---- */

struct imported {
	int fd;
	short events; /* the event of poll() at the end: POLLIN, or POLLOUT */
	bool sync_file;
	pthread_mutex_t lock;
	bool decided; /* work->status is set; under lock */
};

/* The first thread that finds it done sets the result: a waiter may read it at once. */
static void decide(struct imported *imported, struct hm_accel_work *work, int status,
		   const char *text)
{
	pthread_mutex_lock(&imported->lock);
	if (!imported->decided && status) {
		work->status = status;
		snprintf(work->text, sizeof(work->text), "%s: %s", text, err_name(status));
	}
	imported->decided = true;
	pthread_mutex_unlock(&imported->lock);
}

static int imported_wait(void *queue, struct hm_accel_work *work, uint64_t timeout_ns)
{
	struct imported *imported = work->data[0];
	struct pollfd file = { .fd = imported->fd, .events = imported->events };
	int status = 0, r;

	(void)queue;
	r = sys_poll_ns(&file, 1, timeout_ns);
	if (r < 0)
		return err_set(r, "waiting for a descriptor (poll): %s", err_name(r));
	if (!r)
		return -ETIME;
	if (imported->sync_file) {
		r = sync_file_query(imported->fd, &status);
		if (r)
			return err_set(r, "a sync_file's status: %s", err_name(r));
		if (status > 0)
			return -ETIME;
		decide(imported, work, status, "the work behind a sync_file");
	} else {
		decide(imported, work, file.revents & imported->events ? 0 : -EPIPE,
		       "a descriptor whose other end is closed");
	}
	return 0;
}

static int imported_fd(void *queue, struct hm_accel_work *work, int *ret_fd)
{
	const struct imported *imported = work->data[0];
	int fd = sys_dup(imported->fd), r;

	(void)queue;
	if (fd < 0)
		return rlimits_explain_fd(fd, "a descriptor of a fence");
	if (imported->events == POLLIN) {
		*ret_fd = fd;
		return 0;
	}
	/* Its holder waits until it is readable, which this descriptor may be earlier. */
	r = fence_gather(&fd, 1, imported->events, ret_fd);
	if (r)
		sys_close(fd);
	return r;
}

static void free_imported(struct imported *imported)
{
	sys_close(imported->fd);
	pthread_mutex_destroy(&imported->lock);
	free(imported);
}

static void imported_release(struct hm_accel_work *work)
{
	free_imported(work->data[0]);
}

static const struct hm_accel_ops imported_ops = {
	.size = sizeof(imported_ops),
	.name = "descriptor",
	.wait = imported_wait,
	.notify = no_notify,
	.work_release = imported_release,
	.fence_fd = imported_fd,
};

/* Files and directories are always ready, and so are no fences. */
static int check_pollable(int fd)
{
	struct stat st;
	int r;

	r = sys_fstat(fd, &st);
	if (r)
		return err_set(r, "hm_fence_import_fd: fstat: %s", err_name(r));
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode))
		return err_set(-EINVAL, "hm_fence_import_fd: files and directories are always "
					"ready: pass a sync_file, an eventfd or another "
					"descriptor that poll() waits for");
	return 0;
}

int fence_import(int fd, short events, struct hm_fence **ret_fence)
{
	struct imported *imported;
	int r;

	imported = sys_calloc(1, sizeof(*imported));
	if (!imported)
		return err_set(-ENOMEM, "no memory for a fence");
	pthread_mutex_init(&imported->lock, NULL);
	imported->events = events;
	imported->fd = sys_dup(fd);
	if (imported->fd < 0) {
		r = rlimits_explain_fd(imported->fd, "duplicating a fence's descriptor");
		goto err_free;
	}
	imported->sync_file = sync_file_is(imported->fd);
	r = imported->sync_file ? 0 : check_pollable(imported->fd);
	if (!r)
		r = fence_make_foreign(&imported_ops, imported, ret_fence);
	if (r)
		goto err_close;
	return 0;

err_close:
	sys_close(imported->fd);
err_free:
	pthread_mutex_destroy(&imported->lock);
	free(imported);
	return r;
}

int hm_fence_import_fd(int fd, struct hm_fence **ret_fence)
{
	err_begin();
	if (!ret_fence)
		return err_set(-EINVAL, "hm_fence_import_fd: ret_fence is NULL");
	return fence_import(fd, POLLIN, ret_fence);
}

/* ---- several fences ---- */

struct merged {
	pthread_mutex_t lock;
	bool decided; /* as above */
	uint32_t n;
	struct hm_fence *fence[]; /* a reference each */
};

/* Takes the first failure in the order of the fences, not of time: each thread finds the same. */
static void decide_merged(struct merged *merged, struct hm_accel_work *work)
{
	const struct hm_accel_work *part;
	uint32_t i;

	pthread_mutex_lock(&merged->lock);
	for (i = 0; i < merged->n && !merged->decided && !work->status; i++) {
		part = &merged->fence[i]->work;
		work->status = part->status;
		if (part->status)
			snprintf(work->text, sizeof(work->text), "%s",
				 part->text[0] ? part->text : err_name(part->status));
	}
	merged->decided = true;
	pthread_mutex_unlock(&merged->lock);
}

static int merged_wait(void *queue, struct hm_accel_work *work, uint64_t timeout_ns)
{
	struct merged *merged = work->data[0];
	uint64_t now, end = time_now_ns();
	uint32_t i;
	int r;

	(void)queue;
	end = timeout_ns > UINT64_MAX - end ? UINT64_MAX : end + timeout_ns;
	for (i = 0; i < merged->n; i++) {
		now = time_now_ns();
		r = fence_wait_done(merged->fence[i], end == UINT64_MAX ? UINT64_MAX :
						      now < end         ? end - now :
									  0);
		if (r)
			return r;
	}
	decide_merged(merged, work);
	return 0;
}

static void close_all(const int *fds, uint32_t n)
{
	while (n--)
		sys_close(fds[n]);
}

/*
 * Opens descriptors of the parts that are not done yet. @fds has room for all; on failure none
 * is open.
 */
static int open_parts(const struct merged *merged, int *fds, uint32_t *ret_n)
{
	uint32_t i, n = 0;
	int r;

	for (i = 0; i < merged->n; i++) {
		if (fence_is_done(merged->fence[i]))
			continue;
		r = fence_fd(merged->fence[i], &fds[n]);
		if (r)
			goto err_close;
		n++;
	}
	*ret_n = n;
	return 0;

err_close:
	close_all(fds, n);
	return r;
}

static bool are_sync_files(const int *fds, uint32_t n)
{
	while (n && sync_file_is(fds[n - 1]))
		n--;
	return !n;
}

/* Merges in the kernel, pair by pair. */
static int merge_sync_files(const int *fds, uint32_t n, int *ret_fd)
{
	int all = sys_dup(fds[0]), both, r;
	uint32_t i;

	if (all < 0)
		return rlimits_explain_fd(all, "a descriptor of a fence");
	for (i = 1; i < n; i++) {
		r = sync_file_merge(all, fds[i], &both);
		sys_close(all);
		if (r)
			return rlimits_explain_fd(r, "merging two sync_files");
		all = both;
	}
	*ret_fd = all;
	return 0;
}

static int merged_fd(void *queue, struct hm_accel_work *work, int *ret_fd)
{
	const struct merged *merged = work->data[0];
	uint32_t n;
	int *fds, r;

	(void)queue;
	fds = sys_calloc(merged->n, sizeof(*fds));
	if (!fds)
		return err_set(-ENOMEM, "hm_fence_fd: no memory for %" PRIu32 " descriptors",
			       merged->n);
	r = open_parts(merged, fds, &n);
	if (r)
		goto out;
	if (!n) {
		r = fence_fd_done(ret_fd);
	} else if (n > 1 && are_sync_files(fds, n)) {
		r = merge_sync_files(fds, n, ret_fd);
	} else {
		if (n == 1)
			*ret_fd = fds[0];
		else
			r = fence_gather(fds, n, POLLIN, ret_fd);
		if (!r)
			goto out; /* the descriptors have been taken over */
	}
	close_all(fds, n);
out:
	free(fds);
	return r;
}

static void free_merged(struct merged *merged)
{
	while (merged->n--)
		hm_fence_unref(merged->fence[merged->n]);
	pthread_mutex_destroy(&merged->lock);
	free(merged);
}

static void merged_release(struct hm_accel_work *work)
{
	free_merged(work->data[0]);
}

static const struct hm_accel_ops merged_ops = {
	.size = sizeof(merged_ops),
	.name = "merged",
	.wait = merged_wait,
	.notify = no_notify,
	.work_release = merged_release,
	.fence_fd = merged_fd,
};

static const struct merged *merged_of(const struct hm_fence *fence)
{
	return fence->queue->ops == &merged_ops ? fence->work.data[0] : NULL;
}

static uint32_t n_parts(const struct hm_fence *fence)
{
	const struct merged *merged = merged_of(fence);

	return merged ? merged->n : 1;
}

struct hm_fence *fence_part(const struct hm_fence *fence, uint32_t i)
{
	const struct merged *merged = merged_of(fence);

	return merged && i < merged->n ? merged->fence[i] : NULL;
}

/* Has it succeeded? A further merge need not wait for it then. */
static bool is_settled(struct hm_fence *fence)
{
	return !fence_poll(fence) && !fence->work.status;
}

/*
 * Adds the parts of a merged fence in its place, without those that have succeeded: repeated
 * merges with one more fence would make a long chain otherwise. At least one part stays.
 */
static void add_parts(struct merged *merged, struct hm_fence *fence)
{
	const struct merged *from = merged_of(fence);
	uint32_t i;

	if (!from) {
		merged->fence[merged->n++] = hm_fence_ref(fence);
		return;
	}
	for (i = 0; i < from->n; i++)
		if (!is_settled(from->fence[i]) || (!merged->n && i == from->n - 1))
			merged->fence[merged->n++] = hm_fence_ref(from->fence[i]);
}

int fence_merge(struct hm_fence *const *fences, uint32_t n, struct hm_fence **ret_fence)
{
	struct merged *merged;
	uint64_t room = 0;
	uint32_t i;
	int r;

	if (!fences || !n || !ret_fence)
		return err_set(-EINVAL, "hm_fence_merge: %s",
			       !n ? "of no fences" : "fences or ret_fence is NULL");
	for (i = 0; i < n; i++) {
		r = object_check((struct hm_object *)fences[i], OBJECT_FENCE);
		if (r)
			return err_prefix(r, "hm_fence_merge: fence %" PRIu32, i);
		room += n_parts(fences[i]);
	}
	merged = sys_calloc(1, sizeof(*merged) + room * sizeof(merged->fence[0]));
	if (!merged)
		return err_set(-ENOMEM, "no memory to merge %" PRIu64 " fences", room);
	pthread_mutex_init(&merged->lock, NULL);
	for (i = 0; i < n; i++)
		add_parts(merged, fences[i]);
	err_clear(); /* a look at an unfinished fence may have left a text */
	r = fence_make_foreign(&merged_ops, merged, ret_fence);
	if (r)
		goto err_free;
	for (i = 0; i < merged->n; i++)
		(*ret_fence)->brackets |= merged->fence[i]->brackets;
	return 0;

err_free:
	free_merged(merged);
	return r;
}

int hm_fence_merge(struct hm_fence *const *fences, uint32_t n, struct hm_fence **ret_fence)
{
	err_begin();
	return fence_merge(fences, n, ret_fence);
}
