// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The waits and signals of a job: from the caller's arrays to the job's end.
 *
 * A job of HETSIM_QUEUE_DMA_FENCE waits for earlier jobs only. That is looked at where the job
 * gets its number, with the queue's lock held, and so are its own points promised: a job that
 * finds a promise gets its number later than the one that made it, and waits behind it, in
 * whatever queue. No ring of waits can be closed.
 */
#include <linux/file.h>
#include <linux/slab.h>
#include <linux/sync_file.h>
#include <linux/uaccess.h>

#include "sim_queue.h"

static void sim_sync_put(struct sim_sync *sync)
{
	if (sync->timeline)
		sim_timeline_put(sync->timeline);
	dma_fence_put(sync->fence);
}

void sim_syncs_free(struct sim_syncs *syncs)
{
	unsigned int i;

	if (!syncs)
		return;
	for (i = 0; i < syncs->n; i++)
		sim_sync_put(&syncs->sync[i]);
	kvfree(syncs);
}

/* Adds what the caller names. */
static int sim_sync_add(struct sim_syncs *syncs, const struct hetsim_sync *entry)
{
	struct sim_sync *sync = &syncs->sync[syncs->n];

	if (entry->kind == HETSIM_SYNC_TIMELINE) {
		struct sim_timeline *timeline = sim_timeline_get(entry->fd);

		if (IS_ERR(timeline))
			return PTR_ERR(timeline);
		sync->timeline = timeline;
	} else {
		sync->fence = sync_file_get_fence(entry->fd);
		if (!sync->fence)
			return -EINVAL;
	}
	sync->point = entry->point;
	syncs->n++;
	return 0;
}

static int sim_sync_read(u64 address, unsigned int n, struct hetsim_sync *entries)
{
	unsigned int i;
	int r = 0;

	if (copy_from_user(entries, u64_to_user_ptr(address), n * sizeof(*entries)))
		return -EFAULT;
	for (i = 0; i < n && !r; i++)
		r = sim_sync_check(&entries[i]);
	return r;
}

/* A descriptor of the job's fence for one of its signals. */
static int sim_sync_fence(struct sim_queue *queue, struct sim_job *job, void *argument, s32 *ret_fd)
{
	int fd;

	if (queue->type != HETSIM_QUEUE_DMA_FENCE)
		return -EOPNOTSUPP;
	if (!job->fence)
		job->fence = sim_fence_new(queue, 0);
	if (!job->fence)
		return -ENOMEM;
	fd = sim_fence_reply(job->fence, argument);
	if (fd < 0)
		return fd;
	job->n_fence_calls++;
	*ret_fd = fd;
	return 0;
}

/*
 * Reads the waits and signals of a submission into its job, which has the references then, also on
 * failure. @ret_fds: descriptors by signal, -1 for those that ask for none.
 */
int sim_syncs_read(struct sim_queue *queue, void *argument, const struct sim_later *later,
		   struct sim_job *job, s32 *ret_fds)
{
	unsigned int n = later->n_waits + later->n_signals, i;
	struct hetsim_sync entries[HETSIM_MAX_SYNCS];
	struct sim_syncs *syncs;
	int r;

	if (!n)
		return 0;
	syncs = kzalloc(struct_size(syncs, sync, n), SIM_GFP);
	if (!syncs)
		return -ENOMEM;
	job->syncs = syncs;
	r = sim_sync_read(later->waits, later->n_waits, entries);
	for (i = 0; i < later->n_waits && !r; i++)
		r = sim_sync_add(syncs, &entries[i]);
	if (r)
		return r;
	syncs->n_waits = syncs->n;

	r = sim_sync_read(later->signals, later->n_signals, entries);
	for (i = 0; i < later->n_signals && !r; i++) {
		ret_fds[i] = -1;
		if (entries[i].kind == HETSIM_SYNC_FENCE)
			r = sim_sync_fence(queue, job, argument, &ret_fds[i]);
		else
			r = sim_sync_add(syncs, &entries[i]);
	}
	return r;
}

/* Tells the caller of the descriptors. -EFAULT. */
int sim_syncs_answer(const struct sim_later *later, const s32 *fds)
{
	struct hetsim_sync __user *entries = u64_to_user_ptr(later->signals);
	unsigned int i;

	for (i = 0; i < later->n_signals; i++) {
		if (fds[i] >= 0 && put_user(fds[i], &entries[i].fd))
			return -EFAULT;
	}
	return 0;
}

/* Where the job gets its number: may it wait for all of this? -ERANGE. */
int sim_syncs_check(struct sim_queue *queue, const struct sim_syncs *syncs)
{
	const struct sim_sync *sync = syncs->sync;
	unsigned int i;

	lockdep_assert_held(&queue->lock);
	for (i = 0; i < syncs->n_waits && queue->type == HETSIM_QUEUE_DMA_FENCE; i++) {
		if (sync[i].timeline && !sim_timeline_is_promised(sync[i].timeline, sync[i].point))
			return -ERANGE;
	}
	return 0;
}

/* Likewise, once nothing fails any more. */
void sim_syncs_promise(struct sim_queue *queue, const struct sim_syncs *syncs)
{
	unsigned int i;

	lockdep_assert_held(&queue->lock);
	for (i = syncs->n_waits; i < syncs->n; i++)
		sim_timeline_expect(syncs->sync[i].timeline, syncs->sync[i].point,
				    queue->type == HETSIM_QUEUE_DMA_FENCE);
}

/* The job has ended, in whatever way. */
void sim_syncs_signal(const struct sim_syncs *syncs)
{
	unsigned int i;

	for (i = syncs->n_waits; i < syncs->n; i++)
		sim_timeline_reach(syncs->sync[i].timeline, syncs->sync[i].point);
}

/* ---- the engine's waits ---- */

bool sim_sync_is_there(const struct sim_sync *sync)
{
	if (sync->timeline)
		return sim_timeline_value(sync->timeline) >= sync->point;
	return dma_fence_is_signaled(sync->fence);
}

/* Called with the fence's lock held, and interrupts off. */
static void sim_sync_wake(struct dma_fence *fence, struct dma_fence_cb *callback)
{
	wake_up_process(container_of(callback, struct sim_sync_waiter, callback)->task);
}

/*
 * From here to the end, the calling task is woken up once it is there. A callback and no
 * dma_fence_wait(): the device may be lost meanwhile, or the queue destroyed.
 */
void sim_sync_wait_begin(const struct sim_sync *sync, struct sim_sync_waiter *waiter)
{
	waiter->task = current;
	if (sync->timeline)
		sim_timeline_wait_begin(sync->timeline, &waiter->point, sync->point);
	else
		/* -ENOENT: it is signalled, which the caller is about to find. */
		dma_fence_add_callback(sync->fence, &waiter->callback, sim_sync_wake);
}

void sim_sync_wait_end(const struct sim_sync *sync, struct sim_sync_waiter *waiter)
{
	if (sync->timeline)
		sim_timeline_wait_end(sync->timeline, &waiter->point);
	else
		dma_fence_remove_callback(sync->fence, &waiter->callback);
}
