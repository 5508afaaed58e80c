// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Brackets: CPU accesses to a dma-buf, begun and ended. The kernel tells an exporter of
 * both, in the process that asks for them, but not of the end of a process. Open begins are
 * noted here by process. The next look, for a begin, an end, the counters or the end of the
 * dma-buf, closes the begins of processes that have ended.
 */
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "sim.h"

#define SIM_BRACKETS_LOOKS 256u /* at dma-bufs, while other tasks wait for the list */

/*
 * The begins of one process that are not ended. The kernel keeps its struct pid until a look
 * after its end drops this. Each begin looks, so there are never more of them than there were
 * processes at one time, each of which was charged for its own.
 */
struct sim_bracket {
	struct list_head link; /* in sim_brackets.processes */
	struct pid *tgid;      /* with a reference */
	unsigned int n;	       /* never 0 */
};

void sim_brackets_add(struct sim_brackets *brackets, struct sim_buffer *buffer)
{
	struct sim_device *dev = buffer->dev;

	brackets->buffer = buffer;
	mutex_init(&brackets->lock);
	INIT_LIST_HEAD(&brackets->processes);
	mutex_lock(&dev->brackets_lock);
	list_add_tail(&brackets->link, &dev->brackets);
	dev->n_brackets++;
	mutex_unlock(&dev->brackets_lock);
}

/*
 * True also for a zombie that has no waiter yet. The first thread may be one while further
 * threads go on, and may then be exchanged for the one that calls execve(): the process stays
 * the same, and its begins do.
 */
static bool sim_process_ended(struct pid *tgid)
{
	struct task_struct *task;
	bool ended;

	rcu_read_lock();
	task = pid_task(tgid, PIDTYPE_TGID);
	ended = !task || (READ_ONCE(task->exit_state) && thread_group_empty(task));
	rcu_read_unlock();
	return ended;
}

static void sim_bracket_drop(struct sim_brackets *brackets, struct sim_bracket *bracket,
			     unsigned int n)
{
	WRITE_ONCE(brackets->n, brackets->n - n);
	bracket->n -= n;
	if (bracket->n)
		return;
	list_del(&bracket->link);
	put_pid(bracket->tgid);
	kfree(bracket);
}

/* Counts the begins of all processes, or of ended ones, as missed. */
static void sim_brackets_close(struct sim_brackets *brackets, bool all)
{
	struct sim_buffer *buffer = brackets->buffer;
	struct sim_bracket *bracket, *next;

	list_for_each_entry_safe(bracket, next, &brackets->processes, link) {
		if (!all && !sim_process_ended(bracket->tgid))
			continue;
		sim_count(buffer->dev, buffer->account, SIM_BRACKETS_MISSED, bracket->n);
		sim_bracket_drop(brackets, bracket, bracket->n);
	}
}

/* Only processes that have the dma-buf make this list long, and only they wait for it. */
static struct sim_bracket *sim_bracket_of(struct sim_brackets *brackets, struct pid *tgid)
{
	struct sim_bracket *bracket;

	list_for_each_entry(bracket, &brackets->processes, link) {
		if (bracket->tgid == tgid)
			return bracket;
	}
	return NULL;
}

int sim_bracket_begin(struct sim_brackets *brackets)
{
	struct sim_bracket *bracket, *fresh = NULL;
	struct pid *tgid = task_tgid(current);
	int r = 0;

	mutex_lock(&brackets->lock);
	sim_brackets_close(brackets, false);
	bracket = sim_bracket_of(brackets, tgid);
	if (!bracket) {
		/* Memory may be long in coming: no other begin or end waits for it. */
		mutex_unlock(&brackets->lock);
		fresh = kzalloc(sizeof(*fresh), SIM_GFP);
		if (!fresh)
			return -ENOMEM;
		mutex_lock(&brackets->lock);
		/* Another thread may have been here. */
		bracket = sim_bracket_of(brackets, tgid);
	}
	if (brackets->n == INT_MAX) {
		r = -EOVERFLOW;
		goto out_unlock;
	}
	if (!bracket) {
		bracket = fresh;
		fresh = NULL;
		bracket->tgid = get_pid(tgid);
		list_add_tail(&bracket->link, &brackets->processes);
	}
	bracket->n++;
	WRITE_ONCE(brackets->n, brackets->n + 1);
out_unlock:
	mutex_unlock(&brackets->lock);
	kfree(fresh);
	return r;
}

/* A process that has begun none ends another's, as one may begin for the other. */
int sim_bracket_end(struct sim_brackets *brackets)
{
	struct sim_bracket *bracket;

	mutex_lock(&brackets->lock);
	sim_brackets_close(brackets, false);
	bracket = sim_bracket_of(brackets, task_tgid(current));
	if (!bracket)
		bracket = list_first_entry_or_null(&brackets->processes, struct sim_bracket, link);
	if (bracket)
		sim_bracket_drop(brackets, bracket, 1);
	mutex_unlock(&brackets->lock);
	return bracket ? 0 : -EINVAL;
}

/* Closes the brackets of former users before the dma-buf goes to a new one. */
void sim_brackets_miss(struct sim_brackets *brackets)
{
	mutex_lock(&brackets->lock);
	sim_brackets_close(brackets, true);
	mutex_unlock(&brackets->lock);
}

/* The dma-buf has no user any more. */
void sim_brackets_remove(struct sim_brackets *brackets)
{
	struct sim_device *dev = brackets->buffer->dev;

	mutex_lock(&dev->brackets_lock);
	list_del(&brackets->link);
	dev->n_brackets--;
	mutex_unlock(&dev->brackets_lock);
	sim_brackets_close(brackets, true);
	mutex_destroy(&brackets->lock);
}

/*
 * Closes, before the counters are read, the brackets of processes that have ended and those of
 * idle dma-bufs. brackets_lock keeps an idle dma-buf from new users. An entry moves to the list's
 * end once it was looked at: each entry has its turn, although the lock is dropped in between.
 */
void sim_brackets_look(struct sim_device *dev)
{
	struct sim_brackets *brackets;
	unsigned int left;

	mutex_lock(&dev->brackets_lock);
	for (left = dev->n_brackets; left && dev->n_brackets; left--) {
		brackets = list_first_entry(&dev->brackets, struct sim_brackets, link);
		list_move_tail(&brackets->link, &dev->brackets);
		if (READ_ONCE(brackets->n)) {
			bool idle = sim_dmabuf_is_idle(brackets->buffer, brackets->dmabuf);

			mutex_lock(&brackets->lock);
			sim_brackets_close(brackets, idle);
			mutex_unlock(&brackets->lock);
		}
		if (left % SIM_BRACKETS_LOOKS)
			continue;
		mutex_unlock(&dev->brackets_lock);
		cond_resched();
		mutex_lock(&dev->brackets_lock);
	}
	mutex_unlock(&dev->brackets_lock);
}
