// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * dma_fences of submissions, made when a sync_file is asked for. A fence may
 * live on in other drivers: it holds the module until it is freed, and nothing
 * else of the device.
 */
#include <linux/debugfs.h>
#include <linux/dma-fence.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sync_file.h>

#include "sim_queue.h"
#include "sim_trace.h"

/*
 * Fences of all devices until they are freed, as they outlive devices. Readers go through the list
 * under RCU; changes take the lock, with interrupts off: a fence's last reference may be given up
 * under any lock.
 */
static LIST_HEAD(sim_fences);
static DEFINE_SPINLOCK(sim_fences_lock);

struct sim_fence {
	struct dma_fence base;
	spinlock_t lock; /* base's */
	struct list_head link; /* sim_fences */
	u64 owner; /* the submitter: an account's id, pid and comm */
	pid_t pid;
	char comm[TASK_COMM_LEN];
	char timeline[32];
};

static const char *sim_fence_driver(struct dma_fence *base)
{
	return KBUILD_MODNAME;
}

static const char *sim_fence_timeline(struct dma_fence *base)
{
	return container_of(base, struct sim_fence, base)->timeline;
}

/*
 * The module may be unloaded once its reference is gone. sim_exit() waits for
 * this callback to return, and for callers that are still in sim_fence_release().
 */
static void sim_fence_free(struct rcu_head *rcu)
{
	struct sim_fence *fence = container_of(rcu, struct sim_fence, base.rcu);

	kfree(fence);
	module_put(THIS_MODULE);
}

static void sim_fence_release(struct dma_fence *base)
{
	struct sim_fence *fence = container_of(base, struct sim_fence, base);
	unsigned long flags;

	spin_lock_irqsave(&sim_fences_lock, flags);
	list_del_rcu(&fence->link);
	spin_unlock_irqrestore(&sim_fences_lock, flags);
	call_rcu(&base->rcu, sim_fence_free);
}

static const struct dma_fence_ops sim_fence_ops = {
	.get_driver_name	= sim_fence_driver,
	.get_timeline_name	= sim_fence_timeline,
	.release		= sim_fence_release,
};

/* A fence that no other task has seen may get its @seqno later. */
struct dma_fence *sim_fence_new(struct sim_queue *queue, u64 seqno)
{
	struct sim_fence *fence = kzalloc(sizeof(*fence), SIM_GFP);
	const struct sim_account *account = queue->opener->account;

	if (!fence)
		return NULL;
	spin_lock_init(&fence->lock);
	fence->owner = account->id;
	fence->pid = account->pid;
	strscpy(fence->comm, account->comm, sizeof(fence->comm));
	snprintf(fence->timeline, sizeof(fence->timeline), "%s-%llu.%u",
		 queue->opener->dev->name, account->id, queue->id);
	dma_fence_init(&fence->base, &sim_fence_ops, &fence->lock, queue->fence_context, seqno);
	__module_get(THIS_MODULE); /* the caller's open file has one */
	spin_lock_irq(&sim_fences_lock);
	list_add_tail_rcu(&fence->link, &sim_fences);
	spin_unlock_irq(&sim_fences_lock);
	return &fence->base;
}

/* Gives up the reference. */
void sim_fence_signal(struct dma_fence *fence, int status)
{
	if (status)
		dma_fence_set_error(fence, status);
	dma_fence_signal(fence);
	dma_fence_put(fence);
}

/* The job that is queued, or runs, under that number; NULL if none is. */
static struct sim_job *sim_fence_job(struct sim_queue *queue, u64 seqno)
{
	struct sim_job *job;

	lockdep_assert_held(&queue->lock);
	list_for_each_entry(job, &queue->jobs, link) {
		if (job->seqno == seqno)
			return job;
	}
	return NULL;
}

/*
 * Undoes sim_fence_attach() of @n_calls, for a caller that fails. A fence that no call has given to
 * anyone must not limit the time of the job.
 */
void sim_fence_detach(struct sim_queue *queue, u64 seqno, u64 n_calls)
{
	struct dma_fence *fence = NULL;
	struct sim_job *job;

	spin_lock(&queue->lock);
	job = sim_fence_job(queue, seqno);
	if (job)
		job->n_fence_calls -= n_calls;
	if (job && !job->n_fence_calls) {
		list_del(&job->fence_link);
		fence = job->fence;
		job->fence = NULL;
	}
	spin_unlock(&queue->lock);
	dma_fence_put(fence);
}

/*
 * The fence of a submission, with a reference for the caller: @fresh, which then
 * is the job's if it is under way, or the one that the job has. From here on the job has one
 * time-out to end, and so have those before it: see sim_engine_deadline().
 */
static struct dma_fence *sim_fence_attach(struct sim_queue *queue, struct dma_fence *fresh)
{
	struct dma_fence *fence = ERR_PTR(-ERANGE);
	struct sim_job *job;
	bool done = false, wake = false;
	int status = 0;
	struct sim_fault fault;

	spin_lock(&queue->lock);
	if (fresh->seqno && fresh->seqno <= queue->done) {
		done = true;
		status = sim_failures_find(&queue->failures, fresh->seqno, &fault);
		fence = dma_fence_get(fresh);
	} else if (fresh->seqno && fresh->seqno <= queue->submitted) {
		job = sim_fence_job(queue, fresh->seqno);
		if (!job->fence) {
			job->fence = dma_fence_get(fresh);
			job->fence_due = jiffies + queue->timeout;
			list_add_tail(&job->fence_link, &queue->fenced);
		}
		job->n_fence_calls++;
		fence = dma_fence_get(job->fence);
		wake = sim_engine_rouse(queue);
	}
	spin_unlock(&queue->lock);
	if (wake)
		wake_up(&queue->work);

	if (done)
		sim_fence_signal(dma_fence_get(fresh), status);
	return fence;
}

/* A sync_file of the fence in the answer of a call: its descriptor, or a negative errno. */
int sim_fence_reply(struct dma_fence *fence, void *argument)
{
	struct sync_file *sync = sync_file_create(fence);
	int fd;

	if (!sync)
		return -ENOMEM;
	fd = sim_reply_file(argument, sync->file);
	if (fd < 0)
		fput(sync->file);
	return fd;
}

int sim_fence_fd(struct file *file, void *argument)
{
	struct hetsim_fence_fd *ask = argument;
	struct dma_fence *fresh, *fence;
	struct sim_queue *queue;
	int fd, r = 0;

	queue = sim_queue_get(file->private_data, ask->queue);
	if (!queue)
		return -ENOENT;
	if (queue->type != HETSIM_QUEUE_DMA_FENCE) {
		r = -EOPNOTSUPP;
		goto out_queue;
	}
	fresh = sim_fence_new(queue, ask->seqno);
	if (!fresh) {
		r = -ENOMEM;
		goto out_queue;
	}
	fence = sim_fence_attach(queue, fresh);
	if (IS_ERR(fence)) {
		r = PTR_ERR(fence);
		goto out_fresh;
	}
	fd = sim_fence_reply(fence, argument);
	if (fd < 0) {
		r = fd;
		goto out_detach;
	}
	trace_fence(queue, ask->seqno, 0);
	ask->fd = fd;
out_detach:
	if (r)
		sim_fence_detach(queue, ask->seqno, 1);
	dma_fence_put(fence);
out_fresh:
	dma_fence_put(fresh);
out_queue:
	sim_queue_put(queue);
	return r;
}

/* ---- debugfs: those that are not freed ---- */

static void *sim_fences_start(struct seq_file *m, loff_t *pos)
	__acquires(RCU)
{
	rcu_read_lock();
	return seq_list_start_head_rcu(&sim_fences, *pos);
}

static void *sim_fences_next(struct seq_file *m, void *v, loff_t *pos)
{
	return seq_list_next_rcu(v, &sim_fences, pos);
}

static void sim_fences_stop(struct seq_file *m, void *v)
	__releases(RCU)
{
	rcu_read_unlock();
}

static int sim_fences_show(struct seq_file *m, void *v)
{
	struct sim_fence *fence = list_entry(v, struct sim_fence, link);

	if (v == &sim_fences) {
		seq_puts(m, "object\tname\towner\tpid\tcommand\tstate\n");
		return 0;
	}
	seq_printf(m, "fence\t%s:%llu\t%llu\t%d\t%s\t%s\n", fence->timeline,
		   (u64)fence->base.seqno, fence->owner, fence->pid, fence->comm,
		   test_bit(DMA_FENCE_FLAG_SIGNALED_BIT, &fence->base.flags) ? "signalled" :
									       "pending");
	return 0;
}

static const struct seq_operations sim_fences_sops = {
	.start = sim_fences_start,
	.next = sim_fences_next,
	.stop = sim_fences_stop,
	.show = sim_fences_show,
};
DEFINE_SEQ_ATTRIBUTE(sim_fences);

void sim_fence_debugfs(struct dentry *parent)
{
	debugfs_create_file("fences", 0400, parent, NULL, &sim_fences_fops);
}
