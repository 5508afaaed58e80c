// SPDX-License-Identifier: MIT
/* Queues of the twin: create, destroy, submit. */
#include <errno.h>
#include <stdlib.h>

#include "soft/engine.h"
#include "base/thread.h"

#define NS_PER_MS 1000000ull

void soft_queue_put(struct soft_queue *queue)
{
	if (atomic_fetch_sub(&queue->refs, 1) != 1)
		return;
	pthread_cond_destroy(&queue->completed);
	pthread_cond_destroy(&queue->work);
	pthread_mutex_destroy(&queue->lock);
	free(queue->bounce);
	free(queue);
}

struct soft_queue *soft_queue_get(struct soft_file *file, uint32_t id)
{
	struct soft_queue *queue = NULL;

	pthread_mutex_lock(&file->queues_lock);
	if (id < ARRAY_SIZE(file->queues))
		queue = file->queues[id];
	if (queue)
		atomic_fetch_add(&queue->refs, 1);
	pthread_mutex_unlock(&file->queues_lock);
	return queue;
}

/* Gives the queue a number. -ENOSPC. */
static int queue_add(struct soft_file *file, struct soft_queue *queue)
{
	uint32_t id = 1;

	pthread_mutex_lock(&file->queues_lock);
	while (id <= SIM_MAX_QUEUES && file->queues[id])
		id++;
	if (id <= SIM_MAX_QUEUES) {
		queue->id = id;
		file->queues[id] = queue;
	}
	pthread_mutex_unlock(&file->queues_lock);
	return id <= SIM_MAX_QUEUES ? 0 : -ENOSPC;
}

int soft_queue_create(struct soft_file *file, void *argument)
{
	struct hetsim_queue_create *create = argument;
	struct soft_queue *queue;
	pthread_mutexattr_t attr;
	int r;

	if (atomic_fetch_add(&file->dev->n_queues, 1) >= SIM_MAX_DEVICE_QUEUES) {
		r = -ENOSPC;
		goto err_count;
	}
	queue = sys_calloc(1, sizeof(*queue));
	if (!queue) {
		r = -ENOMEM;
		goto err_count;
	}
	atomic_init(&queue->refs, 1);
	queue->file = file;
	queue->type = create->type;
	queue->timeout_ns =
		(create->timeout_ms ? create->timeout_ms : SIM_TIMEOUT_MS) * NS_PER_MS;
	queue->wanted = UINT64_MAX;
	CDS_INIT_LIST_HEAD(&queue->jobs);
	CDS_INIT_LIST_HEAD(&queue->fenced);
	CDS_INIT_LIST_HEAD(&queue->events);
	/*
	 * The lock is held for some instructions: spinning for a moment is cheaper than
	 * sleeping.
	 */
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&queue->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	thread_condition_init(&queue->work);
	thread_condition_init(&queue->completed);
	r = queue_add(file, queue);
	if (r)
		goto err_queue;
	create->queue = queue->id;
	return 0;

err_queue:
	soft_queue_put(queue);
err_count:
	atomic_fetch_sub(&file->dev->n_queues, 1);
	return r;
}

/* Takes the queue out of its file, with the file's reference; NULL: there is none. */
static struct soft_queue *queue_take(struct soft_file *file, uint32_t id)
{
	struct soft_queue *queue = NULL;

	pthread_mutex_lock(&file->queues_lock);
	if (id < ARRAY_SIZE(file->queues)) {
		queue = file->queues[id];
		file->queues[id] = NULL;
	}
	pthread_mutex_unlock(&file->queues_lock);
	return queue;
}

static void queue_end(struct soft_queue *queue)
{
	struct soft_device *dev = queue->file->dev;

	pthread_mutex_lock(&queue->lock);
	queue->stopped = true;
	pthread_mutex_unlock(&queue->lock);
	soft_engine_stop(queue);
	soft_queue_put(queue);
	atomic_fetch_sub(&dev->n_queues, 1);
}

void soft_queues_destroy(struct soft_file *file)
{
	struct soft_queue *queue;
	uint32_t id;

	for (id = 1; id <= SIM_MAX_QUEUES; id++) {
		queue = queue_take(file, id);
		if (queue)
			queue_end(queue);
	}
}

int soft_queue_destroy(struct soft_file *file, void *argument)
{
	struct hetsim_queue_destroy *destroy = argument;
	struct soft_queue *queue = queue_take(file, destroy->queue);

	if (!queue)
		return -ENOENT;
	queue_end(queue);
	return 0;
}

uint32_t soft_queues_alive(struct soft_device *dev)
{
	struct soft_file *file;
	uint32_t n = 0, id;

	pthread_mutex_lock(&dev->lock);
	cds_list_for_each_entry(file, &dev->openers, link) {
		pthread_mutex_lock(&file->queues_lock);
		for (id = 1; id <= SIM_MAX_QUEUES; id++)
			n += !!file->queues[id];
		pthread_mutex_unlock(&file->queues_lock);
	}
	pthread_mutex_unlock(&dev->lock);
	return n;
}

void soft_engines_wake(struct soft_device *dev)
{
	struct soft_file *file;
	uint32_t id;

	pthread_mutex_lock(&dev->lock);
	cds_list_for_each_entry(file, &dev->openers, link) {
		pthread_mutex_lock(&file->queues_lock);
		for (id = 1; id <= SIM_MAX_QUEUES; id++)
			if (file->queues[id])
				soft_engine_wake(file->queues[id]);
		pthread_mutex_unlock(&file->queues_lock);
	}
	soft_waits_wake_locked(dev);
	pthread_mutex_unlock(&dev->lock);
}

int soft_queue_inject(struct soft_file *file, const struct hetsim_inject *inject)
{
	struct soft_queue *queue;

	queue = soft_queue_get(file, inject->target);
	if (!queue)
		return -ENOENT;
	if (inject->kind == HETSIM_INJECT_STUCK) {
		queue->stuck = (int64_t)inject->value;
	} else if (inject->kind == HETSIM_INJECT_LOST_INTERRUPT) {
		queue->lost = (int64_t)inject->value;
	} else if (inject->value > HETSIM_MAX_TIMEOUT_MS * NS_PER_MS) {
		soft_queue_put(queue);
		return -EINVAL;
	} else {
		queue->latency = inject->value;
	}
	soft_queue_put(queue);
	return 0;
}

struct soft_job *soft_job_new(uint32_t n_commands)
{
	struct soft_job *job =
		sys_calloc(1, sizeof(*job) + n_commands * sizeof(*job->commands));

	if (job)
		job->fence = -1;
	return job;
}

void soft_job_free(struct soft_job *job)
{
	if (job->drop)
		job->drop(job);
	soft_syncs_free(job->syncs);
	soft_syncs_free(job->fences);
	free(job);
}

/*
 * -EFAULT where nothing is mapped. A mapping without read access is not detected: touching it
 * raises SIGSEGV, as anywhere in a process.
 */
int soft_memory_check(uint64_t address, uint64_t length)
{
	unsigned char there[SIM_MAX_COMMANDS + 2]; /* pages that commands may lie in */
	uint64_t start = round_down(address, page_size()), end;

	if (__builtin_add_overflow(address, length, &end) ||
	    sys_mincore((void *)(uintptr_t)start, end - start, there))
		return -EFAULT;
	return 0;
}

/*
 * @own: the library made the commands, so they are mapped: checking costs as much as all the
 * rest.
 */
static int job_read(struct soft_file *file, const struct hetsim_submit *submit, bool own,
		    struct soft_job *job)
{
	const struct sim_kind *kind = &sim_kinds[file->dev->kind];
	const char *from = (const char *)(uintptr_t)submit->commands;
	uint32_t i;
	int r = 0;

	if (!own)
		r = soft_memory_check(submit->commands,
				      (uint64_t)submit->n_commands * submit->command_size);
	for (i = 0; i < submit->n_commands && !r; i++) {
		r = struct_read(&job->commands[i], sizeof(job->commands[i]), from,
				submit->command_size, sizeof(job->commands[i]),
				"hetsim_command");
		if (!r)
			r = sim_command_check(kind, &job->commands[i]);
		from += submit->command_size;
	}
	job->n_commands = submit->n_commands;
	return r;
}

int soft_job_add(struct soft_queue *queue, struct soft_job *job, struct hetsim_submit *submit)
{
	bool idle = false;
	int r = 0;

	pthread_mutex_lock(&queue->lock);
	if (queue->stopped)
		r = -ENOENT;
	else if (queue->submitted - queue->done >= SIM_MAX_PENDING)
		r = -EAGAIN;
	else if (!queue->started)
		r = soft_engine_start(queue);
	if (!r && job->syncs)
		r = soft_syncs_check(queue, job->syncs);
	if (!r) {
		job->seqno = ++queue->submitted;
		if (job->syncs)
			soft_syncs_promise(queue, job->syncs);
		if (job->fence >= 0 || job->leaves)
			soft_fence_due(queue, job);
		submit->seqno = job->seqno;
		submit->done = queue->done;
		submit->failures = queue->failures.n;
		cds_list_add_tail(&job->link, &queue->jobs);
		idle = queue->idle;
		queue->idle = false;
	}
	pthread_mutex_unlock(&queue->lock);
	/* Without the lock, so that the thread does not wake up only to wait for it. */
	if (idle)
		pthread_cond_signal(&queue->work);
	return r;
}

int soft_job_later(struct soft_file *file, const struct sim_later *later, struct soft_job *job,
		   __u64 *ret_seqno)
{
	struct soft_queue *queue = soft_queue_get(file, later->queue);
	int fds[HETSIM_MAX_SYNCS]; /* none: there are no fences */
	struct hetsim_submit submit = { 0 };
	int r = -ENOENT;

	if (!queue)
		goto err_job;
	r = queue->type == HETSIM_QUEUE_COUNTER ? 0 : -EOPNOTSUPP;
	if (!r)
		r = soft_syncs_read(queue, later, job, fds);
	if (!r)
		r = soft_job_add(queue, job, &submit);
	soft_queue_put(queue);
	if (r)
		goto err_job;
	*ret_seqno = submit.seqno;
	return 0;

err_job:
	soft_job_free(job);
	return r;
}

static int submit_job(struct soft_file *file, struct hetsim_submit *submit, bool own)
{
	const struct sim_later later = SIM_LATER(submit);
	int fds[HETSIM_MAX_SYNCS];
	struct soft_queue *queue;
	struct soft_uses uses;
	struct soft_job *job;
	int r;

	queue = soft_queue_get(file, submit->queue);
	if (!queue)
		return -ENOENT;
	job = soft_job_new(submit->n_commands);
	if (!job) {
		r = -ENOMEM;
		goto err_queue;
	}
	r = job_read(file, submit, own, job);
	if (r)
		goto err_job;
	r = soft_syncs_read(queue, &later, job, fds);
	if (r)
		goto err_fence;
	r = soft_uses_read(file, queue, submit, own, job, &uses);
	if (!r)
		r = soft_uses_submit(queue, job, &uses, submit);
	soft_uses_end(&uses);
	if (r)
		goto err_fds;
	soft_syncs_answer(&later, fds);
	soft_queue_put(queue);
	return 0;

err_fds:
	soft_fds_close(fds, submit->n_signals);
err_fence:
	if (job->fence >= 0)
		sys_close(job->fence);
err_job:
	soft_job_free(job);
err_queue:
	soft_queue_put(queue);
	return r;
}

int soft_submit(struct soft_file *file, void *argument)
{
	return submit_job(file, argument, false);
}

int soft_submit_own(struct soft_file *file, struct hetsim_submit *submit)
{
	int r = soft_file_check(file);

	if (r)
		return r;
	r = sim_submit_check(submit);
	if (!r)
		r = submit_job(file, submit, true);
	return r && file->dev->gone ? -ENODEV : r;
}
