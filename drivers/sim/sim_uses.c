// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Buffers that a job names: it waits for their fences, and leaves its own.
 *
 * The fences of a buffer are in its dma_resv. A job of several buffers takes the locks of all of
 * them before it looks into any, and keeps them until it has its number and its fence is in each.
 * A job that finds the fence in a buffer therefore gets its number later than the one that left it:
 * it waits for earlier work only, as with points (sim_sync.c), and no ring of waits can be closed.
 *
 * Moves and evictions take no part. A CPU makes the copy, under locks at which the engine waits
 * from page to page: work sees nothing of it, and there is no work of the device to leave a fence
 * of. Pages that another device has mapped are pinned meanwhile.
 */
#include <linux/dma-resv.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "sim_queue.h"

void sim_uses_end(struct sim_uses *uses)
{
	unsigned int i;

	for (i = 0; i < uses->n; i++)
		sim_buffer_put(uses->use[i].buffer);
	uses->n = 0;
}

/* The one of that dma_resv, which two handles may have; or a new one, which @buffer is put into. */
static struct sim_used *sim_used_of(struct sim_uses *uses, struct sim_buffer *buffer)
{
	struct dma_resv *resv = sim_buffer_resv(buffer);
	unsigned int i;

	for (i = 0; i < uses->n; i++) {
		if (uses->use[i].resv == resv) {
			sim_buffer_put(buffer);
			return &uses->use[i];
		}
	}
	uses->n++;
	uses->use[i] = (struct sim_used){ .buffer = buffer, .resv = resv };
	return &uses->use[i];
}

/* Adds an entry of the caller. */
static int sim_used_add(struct sim_opener *opener, const struct hetsim_use *entry,
			struct sim_uses *uses, bool *leave)
{
	bool write = entry->flags & HETSIM_USE_WRITE;
	struct sim_buffer *buffer = sim_buffer_get(opener, entry->handle);
	struct sim_used *use;

	if (!buffer)
		return -ENOENT;
	use = sim_used_of(uses, buffer);
	use->write |= write;
	if (entry->flags & HETSIM_USE_WAIT_ONLY)
		return 0;
	use->leave = true;
	use->leave_write |= write;
	*leave = true;
	return 0;
}

/*
 * Reads the buffers of a submission. Those that it has read are there also on failure, and the job
 * has a fence if one is to be left.
 */
int sim_uses_read(struct sim_queue *queue, const struct hetsim_submit *submit, bool may_write,
		  struct sim_job *job, struct sim_uses *uses)
{
	struct hetsim_use entries[HETSIM_MAX_USES];
	bool leave = false;
	unsigned int i;
	int r = 0;

	uses->n = 0;
	if (!submit->n_uses)
		return 0;
	if (copy_from_user(entries, u64_to_user_ptr(submit->uses),
			   submit->n_uses * sizeof(*entries)))
		return -EFAULT;
	for (i = 0; i < submit->n_uses && !r; i++)
		r = sim_use_check(&entries[i], queue->type, may_write) ?:
		    sim_used_add(queue->opener, &entries[i], uses, &leave);
	if (r || !leave)
		return r;
	if (!job->fence)
		job->fence = sim_fence_new(queue, 0);
	if (!job->fence)
		return -ENOMEM;
	job->n_fence_calls++; /* it is never taken out of the buffers again */
	return 0;
}

static void sim_uses_unlock_first(struct sim_uses *uses, unsigned int n)
{
	while (n)
		dma_resv_unlock(uses->use[--n].resv);
}

static void sim_uses_unlock(struct sim_uses *uses, struct ww_acquire_ctx *context)
{
	sim_uses_unlock_first(uses, uses->n);
	ww_acquire_fini(context);
}

/*
 * Takes all locks. Another task may have one of them and want another: the younger of the two
 * (-EDEADLK) gives up its own, sleeps until the one that it was refused is free, and begins anew
 * from that.
 */
static int sim_uses_lock(struct sim_uses *uses, struct ww_acquire_ctx *context)
{
	unsigned int n;
	int r;

	ww_acquire_init(context, &reservation_ww_class);
	for (n = 0; n < uses->n; n++) {
		r = dma_resv_lock_interruptible(uses->use[n].resv, context);
		if (r == -EDEADLK) {
			sim_uses_unlock_first(uses, n);
			swap(uses->use[0], uses->use[n]);
			n = 0;
			r = dma_resv_lock_slow_interruptible(uses->use[0].resv, context);
		}
		if (r) {
			sim_uses_unlock_first(uses, n);
			ww_acquire_fini(context);
			return r;
		}
	}
	ww_acquire_done(context);
	return 0;
}

/* Work of the queue is done before, and other work may be done by now. */
static bool sim_uses_awaits(const struct sim_queue *queue, struct dma_fence *fence)
{
	return fence->context != queue->fence_context && !dma_fence_is_signaled(fence);
}

/* Calls @found for each fence to be waited for, in all buffers, which are locked. */
static void sim_uses_each(const struct sim_queue *queue, const struct sim_uses *uses,
			  void (*found)(struct sim_syncs *syncs, struct dma_fence *fence),
			  struct sim_syncs *syncs)
{
	struct dma_resv_iter cursor;
	struct dma_fence *fence;
	unsigned int i;

	for (i = 0; i < uses->n; i++) {
		dma_resv_for_each_fence(&cursor, uses->use[i].resv,
					dma_resv_usage_rw(uses->use[i].write), fence) {
			if (sim_uses_awaits(queue, fence))
				found(syncs, fence);
		}
	}
}

static void sim_fence_count(struct sim_syncs *syncs, struct dma_fence *fence)
{
	syncs->n++;
}

static void sim_fence_keep(struct sim_syncs *syncs, struct dma_fence *fence)
{
	syncs->sync[syncs->n++].fence = dma_fence_get(fence);
	syncs->n_waits = syncs->n;
}

/* The job waits for the fences that the buffers have. Under their locks there are not more soon. */
static int sim_uses_wait(const struct sim_queue *queue, const struct sim_uses *uses,
			 struct sim_job *job)
{
	struct sim_syncs count = {};

	sim_uses_each(queue, uses, sim_fence_count, &count);
	if (!count.n)
		return 0;
	job->fences = kvzalloc(struct_size(job->fences, sync, count.n), SIM_GFP_KV);
	if (!job->fences)
		return -ENOMEM;
	sim_uses_each(queue, uses, sim_fence_keep, job->fences);
	return 0;
}

/* All that may fail, before the job has its number. */
static int sim_uses_prepare(const struct sim_queue *queue, const struct sim_uses *uses,
			    struct sim_job *job)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < uses->n && !r; i++) {
		if (uses->use[i].leave)
			r = dma_resv_reserve_fences(uses->use[i].resv, 1);
	}
	return r ?: sim_uses_wait(queue, uses, job);
}

static void sim_uses_leave(const struct sim_uses *uses, struct dma_fence *fence)
{
	unsigned int i;

	for (i = 0; i < uses->n; i++) {
		if (uses->use[i].leave)
			dma_resv_add_fence(uses->use[i].resv, fence,
					   uses->use[i].leave_write ? DMA_RESV_USAGE_WRITE :
								      DMA_RESV_USAGE_READ);
	}
}

/* Gives the job its number, as sim_job_add() does, and its place among the users of its buffers. */
int sim_uses_submit(struct sim_queue *queue, struct sim_job *job, struct sim_uses *uses,
		    struct hetsim_submit *submit)
{
	struct ww_acquire_ctx context;
	struct dma_fence *fence;
	int r;

	if (!uses->n)
		return sim_job_add(queue, job, &submit->seqno, &submit->done, &submit->failures);
	r = sim_uses_lock(uses, &context);
	if (r)
		return r;
	r = sim_uses_prepare(queue, uses, job);
	if (r)
		goto out_unlock;
	fence = dma_fence_get(job->fence); /* the job may be gone afterwards */
	r = sim_job_add(queue, job, &submit->seqno, &submit->done, &submit->failures);
	if (!r)
		sim_uses_leave(uses, fence);
	dma_fence_put(fence);
out_unlock:
	sim_uses_unlock(uses, &context);
	return r;
}
