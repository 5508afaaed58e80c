// SPDX-License-Identifier: MIT
/*
 * Notices of the end of work: one thread of an accelerator, started by the first notice. The
 * device adds to the thread's eventfd at the end of work with a notice; the thread finds the
 * work, copies bytes back, and runs the callback.
 */
#include "accel/engine/engine.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/rlimits.h"
#include "base/sys.h"
#include "base/thread.h"

/* A lost event delays a notice by this time at most. */
#define LOOK_AGAIN_MS 500

struct engine_notice {
	struct engine_notice *next;
	struct engine_queue *queue; /* with a reference */
	struct engine_stage *stage; /* with a reference, or NULL */
	uint64_t last;              /* submission */
	void (*call)(void *user);
	void *user;
};

void engine_notifier_init(struct engine_notifier *notifier)
{
	pthread_mutex_init(&notifier->lock, NULL);
	notifier->fd = -1;
}

static void free_notice(struct engine_notice *notice)
{
	engine_stage_put(notice->stage);
	engine_queue_put(notice->queue);
	free(notice);
}

/* The caller holds notifier->lock. False: the thread has taken the notice off the list. */
static bool take(struct engine_notifier *notifier, const struct engine_notice *notice)
{
	struct engine_notice **at = &notifier->notices;

	while (*at && *at != notice)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = notice->next;
	return true;
}

static void tell(struct engine_notice *notice, const struct engine_end *end)
{
	if (notice->stage && !end->status)
		engine_stage_back(notice->queue->engine->port, notice->stage);
	notice->call(notice->user);
	free_notice(notice);
}

/* Takes a due notice off the list; NULL: none is due. */
static struct engine_notice *take_due(struct engine_notifier *notifier, struct engine_end *end)
{
	struct engine_notice *notice;
	int r;

	pthread_mutex_lock(&notifier->lock);
	for (notice = notifier->notices; notice; notice = notice->next) {
		r = engine_wait_number(notice->queue->engine->port, notice->queue->number,
				       notice->last, 0, end);
		/* Interrupted beyond the bound of retries: nothing is known. */
		if (r != -ETIME && r != -EINTR)
			break;
	}
	if (notice)
		take(notifier, notice);
	pthread_mutex_unlock(&notifier->lock);
	return notice;
}

/* False: no more events will come. */
static bool wait_for_event(struct engine_notifier *notifier)
{
	struct pollfd file = { .fd = notifier->fd, .events = POLLIN };
	uint64_t count;
	bool stop, due;

	pthread_mutex_lock(&notifier->lock);
	stop = notifier->stop;
	due = notifier->notices;
	pthread_mutex_unlock(&notifier->lock);
	if (stop)
		return false;
	if (sys_poll(&file, 1, due ? LOOK_AGAIN_MS : -1) > 0)
		sys_read(notifier->fd, &count, sizeof(count));
	return true;
}

static void *notifier_main(void *user)
{
	struct engine_notifier *notifier = user;
	struct engine_end end = { .status = 0 };
	struct engine_notice *notice;

	do {
		while ((notice = take_due(notifier, &end)))
			tell(notice, &end);
	} while (wait_for_event(notifier));
	return NULL;
}

/* The caller holds the lock. */
static int start(struct engine_notifier *notifier)
{
	int fd, r;

	if (likely(notifier->started))
		return 0;
	fd = sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return err_set(fd, "an eventfd for the end of work: %s", err_name(fd));
	notifier->fd = fd;
	r = thread_start(&notifier->thread, notifier_main, notifier);
	if (r) {
		notifier->fd = -1;
		sys_close(fd);
		return rlimits_explain_thread(r, "waiting for the end of work");
	}
	notifier->started = true;
	return 0;
}

void engine_notifier_end(struct engine_notifier *notifier)
{
	const uint64_t one = 1;

	if (!notifier->started)
		return;
	pthread_mutex_lock(&notifier->lock);
	notifier->stop = true;
	pthread_mutex_unlock(&notifier->lock);
	/* No other thread wakes it. */
	while (sys_write(notifier->fd, &one, sizeof(one)) < 0)
		sched_yield();
	pthread_join(notifier->thread, NULL);
	sys_close(notifier->fd);
	notifier->started = false;
}

/* Makes the thread look at its notices, and again later as long as it has some. */
static void wake(struct engine_notifier *notifier)
{
	const uint64_t one = 1;

	sys_write(notifier->fd, &one, sizeof(one));
}

/* Puts the notice on the list before the device is asked, which may answer at once. */
static int add(struct engine_notifier *notifier, struct engine_notice *notice)
{
	bool first;
	int r;

	pthread_mutex_lock(&notifier->lock);
	first = !notifier->notices;
	r = start(notifier);
	if (!r) {
		notice->next = notifier->notices;
		notifier->notices = notice;
	}
	pthread_mutex_unlock(&notifier->lock);
	if (!r && first)
		wake(notifier);
	return r;
}

int engine_notify(void *data, struct hm_accel_work *work, void (*call)(void *user), void *user)
{
	struct engine_queue *queue = work_queue(data, work);
	struct engine_notifier *notifier = &queue->engine->notifier;
	struct hetsim_queue_event event = {
		.size = sizeof(event),
		.queue = queue->number,
		.seqno = work_number(work, WORK_LAST),
	};
	struct engine_notice *notice;
	bool taken;
	int r;

	notice = sys_calloc(1, sizeof(*notice));
	if (!notice)
		return err_set(-ENOMEM, "no memory to be told of the end of work");
	atomic_fetch_add(&queue->refs, 1);
	notice->queue = queue;
	notice->stage = work->data[WORK_STAGE];
	if (notice->stage)
		atomic_fetch_add(&notice->stage->refs, 1);
	notice->last = event.seqno;
	notice->call = call;
	notice->user = user;
	r = add(notifier, notice);
	if (r)
		goto err_notice;
	event.eventfd = notifier->fd;
	r = sim_port_call(queue->engine->port, HETSIM_QUEUE_EVENT, &event);
	/* On a device that is gone all work is over. */
	if (r == -ENODEV) {
		wake(notifier);
		r = 0;
	}
	if (!r)
		return 0;
	r = sim_port_explain(queue->engine->port, r, "being told of the end of work");
	pthread_mutex_lock(&notifier->lock);
	taken = !take(notifier, notice);
	pthread_mutex_unlock(&notifier->lock);
	/* The work ended in the meantime, and its callback ran. */
	if (taken)
		return 0;
err_notice:
	free_notice(notice);
	return r;
}
