// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The stream of events of a mirror: a ring, which events are put in under any lock, and a file to
 * read them from. The file may outlive the mirror.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/kref.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include "sim_mirror.h"

#define SIM_EVENTS_BATCH 4u /* copied to a reader at a time */

struct sim_events {
	struct kref ref; /* the mirror, the file */
	struct mutex reading; /* one reader at a time */
	wait_queue_head_t wait;

	spinlock_t lock; /* protects the members below; nothing under it allocates */
	bool open; /* the file is there */
	bool ended; /* the mirror is not */
	u64 put; /* events that ever were; the next is at ring[put % SIM_EVENTS] */
	u64 taken; /* and were read */
	u64 lost; /* that had no room since the last one that did */
	struct hetsim_event ring[SIM_EVENTS];
};

static void sim_events_free(struct kref *ref)
{
	struct sim_events *events = container_of(ref, struct sim_events, ref);

	mutex_destroy(&events->reading);
	kvfree(events);
}

static bool sim_events_full(const struct sim_events *events)
{
	return events->put - events->taken >= SIM_EVENTS;
}

static void sim_events_put(struct sim_events *events, const struct hetsim_event *event)
{
	events->ring[events->put++ % SIM_EVENTS] = *event;
}

/* Puts in, once there is room, how many there was none for. */
static void sim_events_put_lost(struct sim_events *events, u64 now)
{
	struct hetsim_event event = {
		.ns = now,
		.kind = HETSIM_EVENT_LOST,
		.value = events->lost,
	};

	if (!events->lost || sim_events_full(events))
		return;
	sim_events_put(events, &event);
	events->lost = 0;
}

/* Adds an event to the stream, if there is one. May be called under any lock. */
void sim_mirror_tell(struct sim_mirror *mirror, const struct hetsim_event *event)
{
	struct hetsim_event timed = *event;
	struct sim_events *events;

	if (!READ_ONCE(mirror->events))
		return;
	timed.ns = ktime_get_ns();
	spin_lock(&mirror->events_lock);
	events = mirror->events;
	spin_lock(&events->lock);
	if (events->open) {
		sim_events_put_lost(events, timed.ns);
		if (sim_events_full(events))
			events->lost++;
		else
			sim_events_put(events, &timed);
	}
	spin_unlock(&events->lock);
	wake_up(&events->wait);
	spin_unlock(&mirror->events_lock);
}

/* The mirror that hears of the account's pages, from now on. */
void sim_account_mirror(struct sim_account *account, struct sim_mirror *mirror)
{
	spin_lock(&account->mirror_lock);
	account->mirror = mirror;
	spin_unlock(&account->mirror_lock);
}

/* The same for an opener that may have ended. */
void sim_account_tell(struct sim_account *account, const struct hetsim_event *event)
{
	spin_lock(&account->mirror_lock);
	if (account->mirror)
		sim_mirror_tell(account->mirror, event);
	spin_unlock(&account->mirror_lock);
}

/* The mirror ends. */
void sim_mirror_tell_end(struct sim_mirror *mirror)
{
	struct sim_events *events = mirror->events;

	if (!events)
		return;
	spin_lock(&events->lock);
	events->ended = true;
	spin_unlock(&events->lock);
	wake_up_all(&events->wait);
	kref_put(&events->ref, sim_events_free);
}

static bool sim_events_ready(struct sim_events *events)
{
	bool ready;

	spin_lock(&events->lock);
	ready = events->put != events->taken || events->lost || events->ended;
	spin_unlock(&events->lock);
	return ready;
}

/* Copies the next ones that are there, without taking them: up to @most. */
static unsigned int sim_events_look(struct sim_events *events, struct hetsim_event *to,
				    unsigned int most, bool *ret_ended)
{
	unsigned int n = 0;

	spin_lock(&events->lock);
	sim_events_put_lost(events, ktime_get_ns());
	while (n < most && events->taken + n != events->put) {
		to[n] = events->ring[(events->taken + n) % SIM_EVENTS];
		n++;
	}
	*ret_ended = events->ended;
	spin_unlock(&events->lock);
	return n;
}

/* With events->reading held. Returns the bytes, 0 if no event is there, or an error. */
static ssize_t sim_events_copy(struct sim_events *events, char __user *to, size_t size,
			       bool *ret_ended)
{
	struct hetsim_event batch[SIM_EVENTS_BATCH];
	size_t done = 0;
	unsigned int n;

	while (size - done >= sizeof(batch[0])) {
		n = min_t(size_t, SIM_EVENTS_BATCH, (size - done) / sizeof(batch[0]));
		n = sim_events_look(events, batch, n, ret_ended);
		if (!n)
			break;
		if (copy_to_user(to + done, batch, n * sizeof(batch[0])))
			return done ?: -EFAULT;
		/* Only what has arrived is taken. */
		spin_lock(&events->lock);
		events->taken += n;
		spin_unlock(&events->lock);
		done += n * sizeof(batch[0]);
	}
	return done;
}

static ssize_t sim_events_read(struct file *file, char __user *to, size_t size, loff_t *position)
{
	struct sim_events *events = file->private_data;
	bool ended = false;
	ssize_t n;

	if (size < sizeof(struct hetsim_event))
		return -EINVAL;
	for (;;) {
		if (mutex_lock_interruptible(&events->reading))
			return -ERESTARTSYS;
		n = sim_events_copy(events, to, size, &ended);
		mutex_unlock(&events->reading);
		if (n || ended)
			return n;
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(events->wait, sim_events_ready(events)))
			return -ERESTARTSYS;
	}
}

static __poll_t sim_events_poll(struct file *file, poll_table *table)
{
	struct sim_events *events = file->private_data;
	__poll_t ready = 0;

	poll_wait(file, &events->wait, table);
	if (sim_events_ready(events))
		ready = EPOLLIN | EPOLLRDNORM;
	return READ_ONCE(events->ended) ? ready | EPOLLHUP : ready;
}

/* Events that were not read are gone: another file begins with nothing. */
static int sim_events_release(struct inode *inode, struct file *file)
{
	struct sim_events *events = file->private_data;

	spin_lock(&events->lock);
	events->open = false;
	events->taken = events->put;
	events->lost = 0;
	spin_unlock(&events->lock);
	kref_put(&events->ref, sim_events_free);
	return 0;
}

static const struct file_operations sim_events_fops = {
	.owner		= THIS_MODULE,
	.read		= sim_events_read,
	.poll		= sim_events_poll,
	.release	= sim_events_release,
	.llseek		= noop_llseek,
};

static struct sim_events *sim_events_new(void)
{
	struct sim_events *events = kvzalloc(sizeof(*events), SIM_GFP_KV);

	if (!events)
		return NULL;
	kref_init(&events->ref);
	mutex_init(&events->reading);
	init_waitqueue_head(&events->wait);
	spin_lock_init(&events->lock);
	return events;
}

/* The mirror's ring, which stays with it, with a reference for a file that is alone. -EBUSY. */
static struct sim_events *sim_events_open(struct sim_mirror *mirror)
{
	struct sim_events *fresh = sim_events_new(), *events;
	bool busy;

	if (!fresh)
		return ERR_PTR(-ENOMEM);
	spin_lock(&mirror->events_lock);
	events = mirror->events;
	if (!events) {
		events = fresh;
		fresh = NULL;
		WRITE_ONCE(mirror->events, events);
	}
	spin_lock(&events->lock);
	busy = events->open;
	events->open = true;
	spin_unlock(&events->lock);
	if (!busy)
		kref_get(&events->ref);
	spin_unlock(&mirror->events_lock);
	if (fresh)
		kref_put(&fresh->ref, sim_events_free);
	return busy ? ERR_PTR(-EBUSY) : events;
}

int sim_mirror_events(struct file *file, void *argument)
{
	struct hetsim_mirror_events *ask = argument;
	struct sim_mirror *mirror = sim_mirror_of(file->private_data);
	struct sim_events *events;
	struct file *stream;
	int fd;

	if (IS_ERR(mirror))
		return PTR_ERR(mirror);
	events = sim_events_open(mirror);
	if (IS_ERR(events))
		return PTR_ERR(events);
	stream = anon_inode_getfile("[hetsim-events]", &sim_events_fops, events, O_RDONLY);
	if (IS_ERR(stream)) {
		spin_lock(&events->lock);
		events->open = false;
		spin_unlock(&events->lock);
		kref_put(&events->ref, sim_events_free);
		return PTR_ERR(stream);
	}
	fd = sim_reply_file(argument, stream);
	if (fd < 0) {
		fput(stream);
		return fd;
	}
	ask->fd = fd;
	return 0;
}
