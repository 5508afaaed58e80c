// SPDX-License-Identifier: MIT
/*
 * Buffers that a job of the twin names: the job waits for their fences, and leaves its own. The
 * fence of a job is its queue and its number there. Why no ring of waits can be closed,
 * drivers/sim/sim_uses.c tells; one lock stands for those of all buffers here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "soft/engine.h"

struct soft_fence {
	struct cds_list_head link; /* in soft_buffer.fences */
	struct soft_queue *queue;  /* with a reference */
	uint64_t seqno;
	bool write; /* the work writes to the buffer */
};

static void fence_free(struct soft_fence *fence)
{
	if (!fence)
		return;
	soft_queue_put(fence->queue);
	free(fence);
}

void soft_fences_free(struct soft_buffer *buffer)
{
	struct soft_fence *fence, *next;

	cds_list_for_each_entry_safe(fence, next, &buffer->fences, link)
		fence_free(fence);
}

void soft_uses_end(struct soft_uses *uses)
{
	uint32_t i;

	for (i = 0; i < uses->n; i++) {
		fence_free(uses->use[i].fence);
		soft_buffer_put(uses->use[i].buffer);
	}
	uses->n = 0;
}

/* Returns the use of that buffer, or a new one, which @buffer is put into. */
static struct soft_use *use_of(struct soft_uses *uses, struct soft_buffer *buffer)
{
	uint32_t i;

	for (i = 0; i < uses->n; i++) {
		if (uses->use[i].buffer == buffer) {
			soft_buffer_put(buffer);
			return &uses->use[i];
		}
	}
	uses->n++;
	uses->use[i] = (struct soft_use){ .buffer = buffer };
	return &uses->use[i];
}

static int fence_add(struct soft_use *use, struct soft_queue *queue, bool write)
{
	if (!use->fence) {
		use->fence = sys_calloc(1, sizeof(*use->fence));
		if (!use->fence)
			return -ENOMEM;
		atomic_fetch_add(&queue->refs, 1);
		use->fence->queue = queue;
	}
	use->fence->write |= write;
	return 0;
}

static int use_add(struct soft_file *file, struct soft_queue *queue,
		   const struct hetsim_use *entry, struct soft_uses *uses)
{
	bool write = entry->flags & HETSIM_USE_WRITE;
	struct soft_buffer *buffer;
	struct soft_use *use;
	int r;

	r = sim_use_check(entry, queue->type, (file->flags & O_ACCMODE) != O_RDONLY);
	if (r)
		return r;
	buffer = soft_buffer_get(file, entry->handle);
	if (!buffer)
		return -ENOENT;
	use = use_of(uses, buffer);
	use->write |= write;
	return entry->flags & HETSIM_USE_WAIT_ONLY ? 0 : fence_add(use, queue, write);
}

int soft_uses_read(struct soft_file *file, struct soft_queue *queue,
		   const struct hetsim_submit *submit, bool own, struct soft_job *job,
		   struct soft_uses *uses)
{
	const uint64_t length = submit->n_uses * sizeof(struct hetsim_use);
	struct hetsim_use entries[HETSIM_MAX_USES];
	uint32_t i;
	int r = 0;

	uses->n = 0;
	if (!length)
		return 0;
	if (!own)
		r = soft_memory_check(submit->uses, length);
	if (r)
		return r;
	memcpy(entries, (const void *)(uintptr_t)submit->uses, length);
	for (i = 0; i < submit->n_uses && !r; i++)
		r = use_add(file, queue, &entries[i], uses);
	for (i = 0; i < uses->n; i++)
		job->leaves |= uses->use[i].fence != NULL;
	return r;
}

/* ---- with dev->uses_lock held ---- */

static bool is_done(const struct soft_fence *fence)
{
	return fence->queue->done >= fence->seqno;
}

/* Work of the queue is done before, and of two readers none waits for the other. */
static bool is_awaited(const struct soft_queue *queue, const struct soft_use *use,
		       const struct soft_fence *fence)
{
	return fence->queue != queue && (use->write || fence->write) && !is_done(fence);
}

static uint32_t count_awaited(const struct soft_queue *queue, const struct soft_uses *uses)
{
	const struct soft_fence *fence;
	uint32_t n = 0, i;

	for (i = 0; i < uses->n; i++)
		cds_list_for_each_entry(fence, &uses->use[i].buffer->fences, link)
			n += is_awaited(queue, &uses->use[i], fence);
	return n;
}

static void await(struct soft_syncs *syncs, const struct soft_fence *fence)
{
	atomic_fetch_add(&fence->queue->refs, 1);
	syncs->sync[syncs->n++] = (struct soft_sync){
		.queue = fence->queue, .point = fence->seqno, .fd = -1, .kick = -1
	};
}

/* The job waits for the fences that its buffers have. */
static int wait_for_fences(const struct soft_queue *queue, const struct soft_uses *uses,
			   struct soft_job *job)
{
	uint32_t n = count_awaited(queue, uses), i;
	const struct soft_fence *fence;
	struct soft_syncs *syncs;

	if (!n)
		return 0;
	syncs = sys_calloc(1, sizeof(*syncs) + n * sizeof(*syncs->sync));
	if (!syncs)
		return -ENOMEM;
	/* Some may be done by now, and no other becomes awaited. */
	for (i = 0; i < uses->n; i++)
		cds_list_for_each_entry(fence, &uses->use[i].buffer->fences, link)
			if (is_awaited(queue, &uses->use[i], fence))
				await(syncs, fence);
	syncs->n_waits = syncs->n;
	job->fences = syncs;
	return 0;
}

/* A wait for the new fence of the same queue is one for the old fence, too. */
static bool is_replaced(const struct soft_fence *old, const struct soft_fence *fresh)
{
	return old->queue == fresh->queue && (fresh->write || !old->write);
}

static void leave(struct soft_use *use, uint64_t seqno)
{
	struct soft_fence *fence, *next, *fresh = use->fence;

	cds_list_for_each_entry_safe(fence, next, &use->buffer->fences, link) {
		if (is_done(fence) || is_replaced(fence, fresh)) {
			cds_list_del(&fence->link);
			fence_free(fence);
		}
	}
	fresh->seqno = seqno;
	cds_list_add_tail(&fresh->link, &use->buffer->fences);
	use->fence = NULL;
}

int soft_uses_submit(struct soft_queue *queue, struct soft_job *job, struct soft_uses *uses,
		     struct hetsim_submit *submit)
{
	pthread_mutex_t *lock = &queue->file->dev->uses_lock;
	uint32_t i;
	int r;

	if (!uses->n)
		return soft_job_add(queue, job, submit);
	pthread_mutex_lock(lock);
	r = wait_for_fences(queue, uses, job);
	if (!r)
		r = soft_job_add(queue, job, submit);
	for (i = 0; i < uses->n && !r; i++)
		if (uses->use[i].fence)
			leave(&uses->use[i], submit->seqno);
	pthread_mutex_unlock(lock);
	return r;
}
