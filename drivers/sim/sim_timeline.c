// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Timelines: numbers that rise, behind descriptors of their own, which processes and devices
 * share. An open file holds the module, and so does the open file of each job that names one:
 * none outlives it.
 */
#include <linux/anon_inodes.h>
#include <linux/debugfs.h>
#include <linux/file.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "sim_queue.h"

struct sim_timeline {
	struct kref ref; /* the open file, jobs, calls */
	struct list_head link; /* in sim_timelines */
	struct rcu_head rcu;
	u64 owner; /* the maker: an account's id, pid and comm */
	pid_t pid;
	char comm[TASK_COMM_LEN];

	spinlock_t lock; /* protects the next three members; innermost */
	u64 value; /* read without the lock, too */
	u64 expected; /* the highest point that a job signals, or did */
	u64 promised; /* the same of jobs of HETSIM_QUEUE_DMA_FENCE */
	wait_queue_head_t reached; /* holds struct sim_timeline_waiter: value has risen */
};

/* Timelines of all devices. Readers go through the list under RCU. */
static LIST_HEAD(sim_timelines);
static DEFINE_SPINLOCK(sim_timelines_lock);

static void sim_timeline_free(struct kref *ref)
{
	struct sim_timeline *timeline = container_of(ref, struct sim_timeline, ref);

	spin_lock(&sim_timelines_lock);
	list_del_rcu(&timeline->link);
	spin_unlock(&sim_timelines_lock);
	kfree_rcu(timeline, rcu);
}

void sim_timeline_put(struct sim_timeline *timeline)
{
	kref_put(&timeline->ref, sim_timeline_free);
}

u64 sim_timeline_value(struct sim_timeline *timeline)
{
	return READ_ONCE(timeline->value);
}

static int sim_timeline_release(struct inode *inode, struct file *file)
{
	sim_timeline_put(file->private_data);
	return 0;
}

static const struct file_operations sim_timeline_fops = {
	.owner		= THIS_MODULE,
	.release	= sim_timeline_release,
	.llseek		= noop_llseek,
};

/* With a reference. -EINVAL: the descriptor is something else, or none. */
struct sim_timeline *sim_timeline_get(int fd)
{
	struct sim_timeline *timeline = ERR_PTR(-EINVAL);
	struct file *file = fget(fd);

	if (!file)
		return timeline;
	if (file->f_op == &sim_timeline_fops) {
		timeline = file->private_data;
		kref_get(&timeline->ref);
	}
	fput(file);
	return timeline;
}

/*
 * May a job of HETSIM_QUEUE_DMA_FENCE wait for the point? Only if it is reached, or an earlier
 * job of such a queue signals it.
 */
bool sim_timeline_is_promised(struct sim_timeline *timeline, u64 point)
{
	bool is;

	spin_lock(&timeline->lock);
	is = max(timeline->value, timeline->promised) >= point;
	spin_unlock(&timeline->lock);
	return is;
}

/* A job that signals the point gets its number. */
void sim_timeline_expect(struct sim_timeline *timeline, u64 point, bool promise)
{
	spin_lock(&timeline->lock);
	timeline->expected = max(timeline->expected, point);
	if (promise)
		timeline->promised = max(timeline->promised, point);
	spin_unlock(&timeline->lock);
}

static bool sim_timeline_is_expected(struct sim_timeline *timeline, u64 point)
{
	bool is;

	spin_lock(&timeline->lock);
	is = timeline->expected >= point;
	spin_unlock(&timeline->lock);
	return is;
}

/* Raises the value to the point. On the way to signalling a dma_fence: nothing here allocates. */
void sim_timeline_reach(struct sim_timeline *timeline, u64 point)
{
	u64 value;

	spin_lock(&timeline->lock);
	value = max(timeline->value, point);
	WRITE_ONCE(timeline->value, value);
	spin_unlock(&timeline->lock);
	__wake_up(&timeline->reached, TASK_NORMAL, 0, &value);
}

/* Wakes up the waiter, unless its point is not reached yet. */
static int sim_timeline_wake(struct wait_queue_entry *entry, unsigned int mode, int flags,
			     void *value)
{
	if (container_of(entry, struct sim_timeline_waiter, entry)->point > *(u64 *)value)
		return 0;
	return autoremove_wake_function(entry, mode, flags, NULL);
}

static void sim_timeline_waiter_init(struct sim_timeline_waiter *waiter, u64 point)
{
	init_wait(&waiter->entry);
	waiter->entry.func = sim_timeline_wake;
	waiter->point = point;
}

/* From here to the end, the calling task is woken up once the point is reached. */
void sim_timeline_wait_begin(struct sim_timeline *timeline, struct sim_timeline_waiter *waiter,
			     u64 point)
{
	sim_timeline_waiter_init(waiter, point);
	add_wait_queue(&timeline->reached, &waiter->entry);
}

void sim_timeline_wait_end(struct sim_timeline *timeline, struct sim_timeline_waiter *waiter)
{
	finish_wait(&timeline->reached, &waiter->entry);
}

/* ---- calls ---- */

int sim_timeline_create(struct file *file, void *argument)
{
	struct hetsim_timeline_create *create = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_timeline *timeline = kzalloc(sizeof(*timeline), SIM_GFP);
	struct file *made;
	int fd;

	if (!timeline)
		return -ENOMEM;
	kref_init(&timeline->ref);
	timeline->owner = opener->account->id;
	timeline->pid = opener->account->pid;
	strscpy(timeline->comm, opener->account->comm, sizeof(timeline->comm));
	spin_lock_init(&timeline->lock);
	timeline->value = create->value;
	init_waitqueue_head(&timeline->reached);
	spin_lock(&sim_timelines_lock);
	list_add_tail_rcu(&timeline->link, &sim_timelines);
	spin_unlock(&sim_timelines_lock);

	made = anon_inode_getfile("[hetsim-timeline]", &sim_timeline_fops, timeline, O_RDWR);
	if (IS_ERR(made)) {
		sim_timeline_put(timeline);
		return PTR_ERR(made);
	}
	fd = sim_reply_file(argument, made);
	if (fd < 0) {
		fput(made);
		return fd;
	}
	create->fd = fd;
	return 0;
}

/*
 * 0 once the point is reached. When the device is gone, submissions that were under way still
 * signal their points: only others are given up.
 */
static int sim_timeline_await(struct sim_device *dev, struct sim_timeline *timeline, u64 point,
			      u64 deadline)
{
	struct sim_timeline_waiter waiter;
	ktime_t until = min_t(u64, deadline, KTIME_MAX);
	bool expired = !deadline;
	DEFINE_WAIT(lost);
	int r = 0;

	sim_timeline_waiter_init(&waiter, point);
	while (sim_timeline_value(timeline) < point && !r) {
		if (expired) {
			r = -ETIME;
			break;
		}
		prepare_to_wait(&timeline->reached, &waiter.entry, TASK_INTERRUPTIBLE);
		prepare_to_wait(&dev->lost, &lost, TASK_INTERRUPTIBLE);
		if (sim_timeline_value(timeline) >= point)
			break;
		if (READ_ONCE(dev->gone) && !sim_timeline_is_expected(timeline, point))
			r = -ENODEV;
		else if (signal_pending(current))
			r = -ERESTARTSYS;
		else
			expired = !schedule_hrtimeout(until == KTIME_MAX ? NULL : &until,
						      HRTIMER_MODE_ABS);
	}
	finish_wait(&dev->lost, &lost);
	finish_wait(&timeline->reached, &waiter.entry);
	return r;
}

int sim_timeline_wait(struct file *file, void *argument)
{
	struct hetsim_timeline_wait *wait = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_timeline *timeline = sim_timeline_get(wait->fd);
	int r;

	if (IS_ERR(timeline))
		return PTR_ERR(timeline);
	r = sim_timeline_await(opener->dev, timeline, wait->point, wait->deadline_ns);
	wait->value = sim_timeline_value(timeline);
	sim_timeline_put(timeline);
	return r;
}

int sim_timeline_signal(struct file *file, void *argument)
{
	struct hetsim_timeline_signal *ask = argument;
	struct sim_timeline *timeline = sim_timeline_get(ask->fd);

	if (IS_ERR(timeline))
		return PTR_ERR(timeline);
	sim_timeline_reach(timeline, ask->point);
	sim_timeline_put(timeline);
	return 0;
}

/* ---- debugfs: those that are not freed ---- */

static void *sim_timelines_start(struct seq_file *m, loff_t *pos)
	__acquires(RCU)
{
	rcu_read_lock();
	return seq_list_start_head_rcu(&sim_timelines, *pos);
}

static void *sim_timelines_next(struct seq_file *m, void *v, loff_t *pos)
{
	return seq_list_next_rcu(v, &sim_timelines, pos);
}

static void sim_timelines_stop(struct seq_file *m, void *v)
	__releases(RCU)
{
	rcu_read_unlock();
}

static int sim_timelines_show(struct seq_file *m, void *v)
{
	struct sim_timeline *timeline = list_entry(v, struct sim_timeline, link);
	u64 value, expected;

	if (v == &sim_timelines) {
		seq_puts(m, "object\towner\tpid\tcommand\tvalue\texpected\treferences\n");
		return 0;
	}
	spin_lock(&timeline->lock);
	value = timeline->value;
	expected = timeline->expected;
	spin_unlock(&timeline->lock);
	seq_printf(m, "timeline\t%llu\t%d\t%s\t%llu\t%llu\t%u\n", timeline->owner, timeline->pid,
		   timeline->comm, value, max(value, expected), kref_read(&timeline->ref));
	return 0;
}

static const struct seq_operations sim_timelines_sops = {
	.start = sim_timelines_start,
	.next = sim_timelines_next,
	.stop = sim_timelines_stop,
	.show = sim_timelines_show,
};
DEFINE_SEQ_ATTRIBUTE(sim_timelines);

void sim_timeline_debugfs(struct dentry *parent)
{
	debugfs_create_file("timelines", 0400, parent, NULL, &sim_timelines_fops);
}
