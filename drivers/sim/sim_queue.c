// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Queues: create, destroy, and submit to them.
 */
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/dma-fence.h>
#include <linux/kthread.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "sim_queue.h"
#include "sim_trace.h"

static void sim_queue_free(struct kref *ref)
{
	kvfree(container_of(ref, struct sim_queue, ref));
}

void sim_queue_put(struct sim_queue *queue)
{
	kref_put(&queue->ref, sim_queue_free);
}

/* The queue of that number, with a reference; NULL if none. */
struct sim_queue *sim_queue_get(struct sim_opener *opener, u32 id)
{
	struct sim_queue *queue;

	xa_lock(&opener->queues);
	queue = xa_load(&opener->queues, id);
	if (queue)
		kref_get(&queue->ref);
	xa_unlock(&opener->queues);
	return queue;
}

/* Counts one more queue against the limits of the opener's user and of the device. */
static int sim_queue_count(struct sim_opener *opener)
{
	struct sim_device *dev = opener->dev;
	struct sim_user *user = opener->user;
	int r = 0;

	mutex_lock(&dev->lock);
	if (dev->n_queues >= SIM_MAX_DEVICE_QUEUES ||
	    (user->n_queues >= SIM_MAX_USER_QUEUES && !capable(CAP_SYS_RESOURCE))) {
		r = -ENOSPC;
	} else {
		dev->n_queues++;
		user->n_queues++;
	}
	mutex_unlock(&dev->lock);
	return r;
}

static void sim_queue_uncount(struct sim_opener *opener)
{
	mutex_lock(&opener->dev->lock);
	opener->dev->n_queues--;
	opener->user->n_queues--;
	mutex_unlock(&opener->dev->lock);
}

int sim_queue_create(struct file *file, void *argument)
{
	struct hetsim_queue_create *create = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_queue *queue;
	int r;

	queue = kvzalloc(sizeof(*queue), SIM_GFP_KV);
	if (!queue)
		return -ENOMEM;
	r = sim_queue_count(opener);
	if (r)
		goto err_queue;
	kref_init(&queue->ref);
	queue->opener = opener;
	queue->type = create->type;
	queue->timeout = msecs_to_jiffies(create->timeout_ms ?: SIM_TIMEOUT_MS);
	queue->fence_context = dma_fence_context_alloc(1);
	spin_lock_init(&queue->lock);
	INIT_LIST_HEAD(&queue->jobs);
	INIT_LIST_HEAD(&queue->fenced);
	INIT_LIST_HEAD(&queue->events);
	init_waitqueue_head(&queue->work);
	init_waitqueue_head(&queue->completed);

	r = xa_alloc(&opener->queues, &queue->id, NULL, XA_LIMIT(1, SIM_MAX_QUEUES),
		     SIM_GFP);
	if (r) {
		r = r == -EBUSY ? -ENOSPC : r;
		goto err_count;
	}
	queue->thread = kthread_run(sim_engine_thread, queue, "%s-%llu.%u", opener->dev->name,
				    opener->account->id, queue->id);
	if (IS_ERR(queue->thread)) {
		r = PTR_ERR(queue->thread) == -EINTR ? -EINTR : -ENOMEM;
		goto err_id;
	}
	/*
	 * The work of a caller has the caller's nice value. The thread is in no
	 * control group of the caller: one without CPU time left would hold up a dma_fence, and
	 * va->lock, for which an eviction of another opener waits. An administrator may prefer
	 * that to CPU time that no group is charged for.
	 */
	set_user_nice(queue->thread, max(task_nice(current), 0));
	if (READ_ONCE(sim_engine_cgroup)) {
		r = cgroup_attach_task_all(current, queue->thread);
		if (r) {
			r = r == -ENOMEM ? r : -EOPNOTSUPP;
			goto err_thread;
		}
	}
	sim_tlb_add(&opener->va, &queue->tlb);
	create->queue = queue->id;
	xa_store(&opener->queues, queue->id, queue, GFP_KERNEL); /* reserved: can't fail */
	return 0;

err_thread:
	kthread_stop(queue->thread);
err_id:
	xa_erase(&opener->queues, queue->id);
err_count:
	sim_queue_uncount(opener);
err_queue:
	kvfree(queue);
	return r;
}

/* Takes over the reference of the caller, which has taken the queue out of opener->queues. */
static void sim_queue_end(struct sim_queue *queue)
{
	spin_lock(&queue->lock);
	queue->stopped = true;
	spin_unlock(&queue->lock);
	sim_engine_stop(queue);
	sim_tlb_remove(&queue->opener->va, &queue->tlb);
	sim_queue_uncount(queue->opener);
	sim_queue_put(queue);
}

void sim_queues_destroy(struct sim_opener *opener)
{
	struct sim_queue *queue;
	unsigned long id;

	xa_for_each(&opener->queues, id, queue)
		sim_queue_end(queue);
	xa_destroy(&opener->queues);
}

int sim_queue_destroy(struct file *file, void *argument)
{
	struct hetsim_queue_destroy *destroy = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_queue *queue;

	queue = sim_name_take(&opener->queues, destroy->queue);
	if (!queue)
		return -ENOENT;
	sim_queue_end(queue);
	return 0;
}

struct sim_job *sim_job_new(unsigned int n_commands)
{
	struct sim_job *job;

	return kvzalloc(struct_size(job, commands, n_commands), SIM_GFP_KV);
}

/* The job is in no queue, or not any more. */
void sim_job_free(struct sim_job *job)
{
	if (job->drop)
		job->drop(job);
	sim_syncs_free(job->syncs);
	sim_syncs_free(job->fences);
	mem_cgroup_put(job->memcg);
	kvfree(job);
}

static int sim_job_read(struct sim_opener *opener, const struct hetsim_submit *submit,
			struct sim_job *job)
{
	const struct sim_kind *kind = &sim_kinds[opener->dev->kind];
	const char __user *from = u64_to_user_ptr(submit->commands);
	unsigned int i;
	int r;

	for (i = 0; i < submit->n_commands; i++) {
		r = copy_struct_from_user(&job->commands[i], sizeof(job->commands[i]), from,
					  submit->command_size);
		if (r)
			return r;
		r = sim_command_check(kind, &job->commands[i]);
		if (r)
			return r;
		from += submit->command_size;
	}
	job->n_commands = submit->n_commands;
	return 0;
}

/* Gives the job its number and its place. From there on, it is the thread's. */
int sim_job_add(struct sim_queue *queue, struct sim_job *job, u64 *ret_seqno, u64 *ret_done,
		u64 *ret_failures)
{
	bool wake = false;
	int r = 0;

	spin_lock(&queue->lock);
	if (queue->stopped)
		r = -ENOENT;
	else if (queue->submitted - queue->done >= SIM_MAX_PENDING)
		r = -EAGAIN;
	else if (job->syncs)
		r = sim_syncs_check(queue, job->syncs);
	if (!r) {
		job->seqno = ++queue->submitted;
		if (job->syncs)
			sim_syncs_promise(queue, job->syncs);
		if (job->fence) {
			/* No other task has seen it yet. */
			job->fence->seqno = job->seqno;
			job->fence_due = jiffies + queue->timeout;
			list_add_tail(&job->fence_link, &queue->fenced);
		}
		*ret_seqno = job->seqno;
		*ret_done = queue->done;
		*ret_failures = queue->failures.n;
		/* Told before it can be done. */
		trace_submit(queue, job->seqno, 0);
		list_add_tail(&job->link, &queue->jobs);
		wake = sim_engine_offer(queue, job);
	}
	spin_unlock(&queue->lock);
	if (wake)
		wake_up(&queue->work);
	return r;
}

/*
 * The job is one that has work, of a call that is a submission; its caller pays for it. Takes over
 * the job, also on failure.
 */
int sim_job_later(struct sim_opener *opener, void *argument, const struct sim_later *later,
		  struct sim_job *job, u64 *ret_seqno)
{
	struct sim_queue *queue = sim_queue_get(opener, later->queue);
	s32 fds[HETSIM_MAX_SYNCS]; /* none: there are no fences */
	u64 done, failures;
	int r = 0;

	job->memcg = get_mem_cgroup_from_mm(current->mm);
	if (!queue) {
		r = -ENOENT;
		goto err_job;
	}
	if (queue->type != HETSIM_QUEUE_COUNTER)
		r = -EOPNOTSUPP;
	r = r ?: sim_syncs_read(queue, argument, later, job, fds);
	r = r ?: sim_job_add(queue, job, ret_seqno, &done, &failures);
	sim_queue_put(queue);
	if (!r)
		return 0;
err_job:
	sim_job_free(job);
	return r;
}

/* The submission, which may be done by now, has fences that the caller is told of. -EFAULT. */
static int sim_submit_fences(struct sim_queue *queue, const struct hetsim_submit *submit,
			     const s32 *fds, u64 n_fences)
{
	const struct sim_later later = SIM_LATER(submit);
	int r = sim_syncs_answer(&later, fds);

	if (r)
		sim_fence_detach(queue, submit->seqno, n_fences);
	else
		trace_fence(queue, submit->seqno, 0);
	return r;
}

int sim_submit(struct file *file, void *argument)
{
	struct hetsim_submit *submit = argument;
	const struct sim_later later = SIM_LATER(submit);
	struct sim_opener *opener = file->private_data;
	s32 fds[HETSIM_MAX_SYNCS];
	struct sim_queue *queue;
	struct sim_uses uses;
	struct sim_job *job;
	u64 n_fences;
	int r;

	queue = sim_queue_get(opener, submit->queue);
	if (!queue)
		return -ENOENT;
	job = sim_job_new(submit->n_commands);
	if (!job) {
		r = -ENOMEM;
		goto err_queue;
	}
	r = sim_job_read(opener, submit, job);
	if (r)
		goto err_job;
	r = sim_syncs_read(queue, submit, &later, job, fds);
	if (r)
		goto err_job;
	n_fences = job->n_fence_calls;
	job->mirrors = queue->type == HETSIM_QUEUE_COUNTER && sim_mirror_is_mine(opener);
	r = sim_uses_read(queue, submit, file->f_mode & FMODE_WRITE, job, &uses);
	if (r)
		goto err_uses;
	r = sim_uses_submit(queue, job, &uses, submit);
	if (r)
		goto err_uses;
	sim_uses_end(&uses);
	if (n_fences)
		r = sim_submit_fences(queue, submit, fds, n_fences);
	sim_queue_put(queue);
	return r;

err_uses:
	sim_uses_end(&uses);
err_job:
	dma_fence_put(job->fence); /* which no other task has seen */
	sim_job_free(job);
err_queue:
	sim_queue_put(queue);
	return r;
}
