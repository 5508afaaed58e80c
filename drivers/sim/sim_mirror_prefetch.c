// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * PREFETCH: a submission without commands, whose work is to bring pages.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "sim_mirror.h"
#include "sim_queue.h"

/* Pages in the device's memory come back, by chunks of the largest size. */
static int sim_prefetch_host(struct sim_queue *queue, const struct sim_job *job)
{
	struct sim_mirror *mirror = queue->opener->va.mirror;
	u64 page = job->prefetch.span.start, end = sim_span_end(&job->prefetch.span);
	int r = sim_engine_poll(queue);

	if (!mirror->dev->store || !mmget_not_zero(mirror->mm))
		return r;
	while (page < end && !r) {
		struct sim_span span = { .start = page };

		span.n_pages = min(end, ALIGN_DOWN(page, SIM_CHUNK_PAGES) + SIM_CHUNK_PAGES) - page;
		sim_engine_bring(queue);
		mutex_lock(&mirror->lock);
		sim_return_span(mirror, &span);
		mutex_unlock(&mirror->lock);
		sim_engine_brought(queue);
		page += span.n_pages;
		r = sim_engine_poll(queue);
	}
	mmput_async(mirror->mm);
	return r;
}

/* The work of a PREFETCH. */
static int sim_prefetch_device(struct sim_queue *queue, const struct sim_job *job,
			       struct sim_fault *ret_fault)
{
	struct sim_mirror *mirror = queue->opener->va.mirror;
	u64 page = job->prefetch.span.start, end = sim_span_end(&job->prefetch.span);
	int r = 0;

	while (page < end && !r) {
		struct sim_want want = {
			.queue = queue,
			.page = page,
			.n_pages = end - page,
			.write = job->prefetch.write,
			.why = HETSIM_WHY_PREFETCH,
			.moves = true,
		};

		ret_fault->address = page << PAGE_SHIFT;
		ret_fault->write = job->prefetch.write;
		sim_engine_bring(queue);
		r = sim_fault_serve(mirror, &want, ret_fault);
		sim_engine_brought(queue);
		page = want.page + want.n_pages;
	}
	return r;
}

static int sim_prefetch_work(struct sim_queue *queue, struct sim_job *job,
			     struct sim_fault *ret_fault)
{
	struct sim_mirror *mirror = queue->opener->va.mirror;
	struct hetsim_event event = {
		.kind = HETSIM_EVENT_PREFETCH,
		.address = job->prefetch.span.start << PAGE_SHIFT,
		.length = job->prefetch.span.n_pages << PAGE_SHIFT,
		.write = job->prefetch.write,
		.queue = queue->id,
	};
	int r;

	sim_mirror_count(mirror, SIM_PREFETCHES, 1);
	if (job->prefetch.location == HETSIM_LOCATION_HOST)
		r = sim_prefetch_host(queue, job);
	else
		r = sim_prefetch_device(queue, job, ret_fault);
	event.value = -r;
	sim_mirror_tell(mirror, &event);
	return r;
}

int sim_prefetch(struct file *file, void *argument)
{
	struct hetsim_prefetch *ask = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_mirror *mirror = sim_mirror_of(opener);
	struct sim_queue *queue;
	u64 done, failures;
	struct sim_job *job;
	int r;

	if (IS_ERR(mirror))
		return PTR_ERR(mirror);
	queue = sim_queue_get(opener, ask->queue);
	if (!queue)
		return -ENOENT;
	if (queue->type != HETSIM_QUEUE_COUNTER) {
		r = -EOPNOTSUPP;
		goto out;
	}
	job = sim_job_new(0);
	if (!job) {
		r = -ENOMEM;
		goto out;
	}
	job->mirrors = true;
	job->work = sim_prefetch_work;
	job->prefetch.write = ask->flags & HETSIM_PREFETCH_WRITE;
	job->prefetch.location = ask->location;
	job->prefetch.span = sim_span_of(ask->address, ask->length);
	r = sim_job_add(queue, job, &ask->seqno, &done, &failures);
	if (r)
		sim_job_free(job);
out:
	sim_queue_put(queue);
	return r;
}
