// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * PREFETCH: a submission without commands, whose work is to bring pages.
 */
#include <linux/slab.h>

#include "sim_mirror.h"

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
	job->prefetch = true;
	job->prefetch_write = ask->flags & HETSIM_PREFETCH_WRITE;
	job->prefetch_location = ask->location;
	job->prefetch_span = sim_span_of(ask->address, ask->length);
	r = sim_job_add(queue, job, &ask->seqno, &done, &failures);
	if (r)
		kvfree(job);
out:
	sim_queue_put(queue);
	return r;
}
