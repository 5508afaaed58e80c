// SPDX-License-Identifier: MIT
/* Waits for submissions of the twin: WAIT, events, and fences, both of which are eventfds. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "soft/engine.h"

/* Returns 0 once the submission is done. The caller holds queue->lock. */
static int wait_done(struct soft_queue *queue, uint64_t seqno, uint64_t deadline)
{
	struct timespec until = soft_timespec(deadline);
	int r = 0;

	while (queue->done < seqno) {
		if (!deadline || r == ETIMEDOUT)
			return -ETIME;
		queue->wanted = min_u64(queue->wanted, seqno);
		if (deadline > INT64_MAX)
			pthread_cond_wait(&queue->completed, &queue->lock);
		else
			r = pthread_cond_timedwait(&queue->completed, &queue->lock, &until);
	}
	return 0;
}

static bool was_submitted(const struct soft_queue *queue, uint64_t seqno)
{
	return seqno && seqno <= queue->submitted;
}

int soft_wait(struct soft_file *file, void *argument)
{
	struct hetsim_wait *wait = argument;
	struct soft_queue *queue;
	struct sim_fault fault = { 0 };
	int status = 0, r;

	queue = soft_queue_get(file, wait->queue);
	if (!queue)
		return -ENOENT;
	pthread_mutex_lock(&queue->lock);
	if (!was_submitted(queue, wait->seqno))
		r = -ERANGE;
	else if (soft_inject_due(&file->account->eintr))
		r = -EINTR;
	else
		r = wait_done(queue, wait->seqno, wait->deadline_ns);
	if (!r)
		status = sim_failures_find(&queue->failures, wait->seqno, &fault);
	pthread_mutex_unlock(&queue->lock);
	if (!r) {
		wait->status = status;
		wait->fault_address = fault.address;
		wait->fault_reason = fault.reason;
		wait->fault_write = fault.write;
	}
	soft_queue_put(queue);
	return r;
}

void soft_queue_sleep(struct soft_queue *queue, uint64_t seqno, uint64_t deadline_ns,
		      int (*ended)(void *user), void *user)
{
	struct timespec until = soft_timespec(deadline_ns);

	pthread_mutex_lock(&queue->lock);
	if (queue->done < seqno && !ended(user)) {
		queue->wanted = min_u64(queue->wanted, seqno);
		pthread_cond_timedwait(&queue->completed, &queue->lock, &until);
	}
	pthread_mutex_unlock(&queue->lock);
}

void soft_queue_kick(struct soft_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	pthread_cond_broadcast(&queue->completed);
	pthread_mutex_unlock(&queue->lock);
}

/* ---- eventfds ---- */

static void event_free(struct soft_event *event)
{
	sys_close(event->eventfd);
	free(event);
}

/* Adds 1. A full eventfd has been readable for long, and a write would block. */
static void eventfd_signal(int fd)
{
	struct pollfd full = { .fd = fd, .events = POLLOUT };
	const uint64_t one = 1;

	if (sys_poll(&full, 1, 0) != 0)
		sys_write(fd, &one, sizeof(one));
}

void soft_events_signal(struct cds_list_head *events)
{
	struct soft_event *event, *next;

	cds_list_for_each_entry_safe(event, next, events, link) {
		eventfd_signal(event->eventfd);
		event_free(event);
	}
}

bool soft_is_eventfd(int fd)
{
	const uint64_t nothing = 0;
	struct stat stat;

	return !sys_fstat(fd, &stat) && !(stat.st_mode & S_IFMT) &&
	       sys_write(fd, &nothing, sizeof(nothing)) == sizeof(nothing);
}

/* Makes an event with a duplicate of the eventfd @fd. -EINVAL: not an eventfd. */
static int event_new(int fd, uint64_t seqno, struct soft_event **ret_event)
{
	struct soft_event *event;
	int r;

	if (!soft_is_eventfd(fd))
		return -EINVAL;
	event = sys_calloc(1, sizeof(*event));
	if (!event)
		return -ENOMEM;
	r = sys_dup(fd);
	if (r < 0)
		goto err_event;
	event->eventfd = r;
	event->seqno = seqno;
	*ret_event = event;
	return 0;

err_event:
	free(event);
	return r;
}

/* Gives the event to the engine; signals it if due. */
static int event_add(struct soft_queue *queue, struct soft_event *event)
{
	CDS_LIST_HEAD(due);
	int r = 0;

	pthread_mutex_lock(&queue->lock);
	if (!was_submitted(queue, event->seqno)) {
		r = -ERANGE;
	} else if (event->seqno <= queue->done) {
		cds_list_add_tail(&event->link, &due);
	} else if (queue->n_events == SIM_MAX_EVENTS) {
		r = -EAGAIN;
	} else {
		cds_list_add_tail(&event->link, &queue->events);
		queue->n_events++;
	}
	pthread_mutex_unlock(&queue->lock);
	soft_events_signal(&due);
	return r;
}

static int event_ask(struct soft_queue *queue, int fd, uint64_t seqno)
{
	struct soft_event *event = NULL;
	int r;

	r = event_new(fd, seqno, &event);
	if (r)
		return r;
	r = event_add(queue, event);
	if (r)
		event_free(event);
	return r;
}

int soft_queue_event(struct soft_file *file, void *argument)
{
	struct hetsim_queue_event *ask = argument;
	struct soft_queue *queue;
	int r;

	queue = soft_queue_get(file, ask->queue);
	if (!queue)
		return -ENOENT;
	r = event_ask(queue, ask->eventfd, ask->seqno);
	soft_queue_put(queue);
	return r;
}

/* ---- fences ---- */

void soft_fence_signal(struct soft_job *job)
{
	if (job->fence < 0)
		return;
	eventfd_signal(job->fence);
	sys_close(job->fence);
}

void soft_fence_due(struct soft_queue *queue, struct soft_job *job)
{
	if (job->is_fenced)
		return;
	job->is_fenced = true;
	job->fence_due_ns = time_now_ns() + queue->timeout_ns;
	cds_list_add_tail(&job->fence_link, &queue->fenced);
}

/* Finds the job of a submission that is not done. The caller holds queue->lock. */
static struct soft_job *job_find(struct soft_queue *queue, uint64_t seqno)
{
	struct soft_job *job;

	cds_list_for_each_entry(job, &queue->jobs, link)
		if (job->seqno == seqno)
			break;
	return job;
}

/*
 * Returns a descriptor for the submission, one eventfd for all callers: their number is bounded
 * by the submissions that a queue may have pending. The caller holds queue->lock.
 */
static int fence_get(struct soft_queue *queue, uint64_t seqno)
{
	struct soft_job *job;
	int fence, copy;

	if (!was_submitted(queue, seqno))
		return -ERANGE;
	if (seqno <= queue->done)
		return sys_eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	job = job_find(queue, seqno);
	if (job->fence >= 0)
		return sys_dup(job->fence);
	fence = sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fence < 0)
		return fence;
	copy = sys_dup(fence);
	if (copy < 0) {
		sys_close(fence);
		return copy;
	}
	job->fence = fence;
	soft_fence_due(queue, job);
	return copy;
}

int soft_fence_fd(struct soft_file *file, void *argument)
{
	struct hetsim_fence_fd *ask = argument;
	struct soft_queue *queue;
	int r = -EOPNOTSUPP;

	queue = soft_queue_get(file, ask->queue);
	if (!queue)
		return -ENOENT;
	if (queue->type == HETSIM_QUEUE_DMA_FENCE) {
		pthread_mutex_lock(&queue->lock);
		r = fence_get(queue, ask->seqno);
		pthread_mutex_unlock(&queue->lock);
	}
	soft_queue_put(queue);
	if (r < 0)
		return r;
	ask->fd = r;
	return 0;
}
