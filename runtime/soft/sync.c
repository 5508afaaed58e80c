// SPDX-License-Identifier: MIT
/*
 * The waits and signals of a job of the twin: from the caller's arrays to the job's end. Why no
 * ring of waits can be closed, drivers/sim/sim_sync.c tells.
 */
#include <errno.h>
#include <linux/sync_file.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "soft/engine.h"

static void sync_put(struct soft_sync *sync)
{
	if (sync->timeline)
		soft_timeline_put(sync->timeline);
	if (sync->queue)
		soft_queue_put(sync->queue);
	if (sync->fd >= 0)
		sys_close(sync->fd);
	if (sync->kick >= 0)
		sys_close(sync->kick);
}

void soft_syncs_free(struct soft_syncs *syncs)
{
	uint32_t i;

	if (!syncs)
		return;
	for (i = 0; i < syncs->n; i++)
		sync_put(&syncs->sync[i]);
	free(syncs);
}

/* -EINVAL: neither an eventfd, as FENCE_FD gives one, nor a sync_file. */
static int fence_check(int fd)
{
	struct sync_file_info info;

	if (soft_is_eventfd(fd))
		return 0;
	memset(&info, 0, sizeof(info));
	return sys_ioctl(fd, SYNC_IOC_FILE_INFO, &info) < 0 ? -EINVAL : 0;
}

static int fence_add(struct soft_sync *sync, int fd)
{
	int r = fence_check(fd);

	if (r)
		return r;
	sync->fd = sys_dup(fd);
	if (sync->fd < 0)
		return sync->fd;
	sync->kick = sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return sync->kick < 0 ? sync->kick : 0;
}

/* Adds an entry of the caller. A failure leaves it there, with the part that it has. */
static int sync_add(struct soft_syncs *syncs, const struct hetsim_sync *entry)
{
	struct soft_sync *sync = &syncs->sync[syncs->n++];

	*sync = (struct soft_sync){ .point = entry->point, .fd = -1, .kick = -1 };
	return entry->kind == HETSIM_SYNC_TIMELINE ?
		       soft_timeline_get(entry->fd, &sync->timeline) :
		       fence_add(sync, entry->fd);
}

/* Returns a descriptor of the job's fence. */
static int fence_signal(struct soft_queue *queue, struct soft_job *job)
{
	if (queue->type != HETSIM_QUEUE_DMA_FENCE)
		return -EOPNOTSUPP;
	if (job->fence < 0)
		job->fence = sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return job->fence < 0 ? job->fence : sys_dup(job->fence);
}

static int entries_read(uint64_t address, uint32_t n, struct hetsim_sync *entries)
{
	uint32_t i;
	int r;

	if (!n)
		return 0;
	r = soft_memory_check(address, n * sizeof(*entries));
	if (r)
		return r;
	memcpy(entries, (const void *)(uintptr_t)address, n * sizeof(*entries));
	for (i = 0; i < n && !r; i++)
		r = sim_sync_check(&entries[i]);
	return r;
}

void soft_fds_close(int *fds, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (fds[i] >= 0)
			sys_close(fds[i]);
}

/* Leaves what it has made to the caller, also on failure. */
static int signals_read(struct soft_queue *queue, const struct sim_later *later,
			struct soft_job *job, int *fds)
{
	struct hetsim_sync entries[HETSIM_MAX_SYNCS];
	uint32_t i;
	int r;

	r = entries_read(later->signals, later->n_signals, entries);
	for (i = 0; i < later->n_signals && !r; i++) {
		if (entries[i].kind == HETSIM_SYNC_TIMELINE) {
			r = sync_add(job->syncs, &entries[i]);
			continue;
		}
		fds[i] = fence_signal(queue, job);
		r = fds[i] < 0 ? fds[i] : 0;
	}
	return r;
}

int soft_syncs_read(struct soft_queue *queue, const struct sim_later *later,
		    struct soft_job *job, int *ret_fds)
{
	uint32_t n = later->n_waits + later->n_signals, i;
	struct hetsim_sync entries[HETSIM_MAX_SYNCS];
	int r;

	if (!n)
		return 0;
	job->syncs = sys_calloc(1, sizeof(*job->syncs) + n * sizeof(*job->syncs->sync));
	if (!job->syncs)
		return -ENOMEM;
	for (i = 0; i < later->n_signals; i++)
		ret_fds[i] = -1;
	r = entries_read(later->waits, later->n_waits, entries);
	for (i = 0; i < later->n_waits && !r; i++)
		r = sync_add(job->syncs, &entries[i]);
	job->syncs->n_waits = job->syncs->n;
	if (!r)
		r = signals_read(queue, later, job, ret_fds);
	if (r)
		soft_fds_close(ret_fds, later->n_signals);
	return r;
}

void soft_syncs_answer(const struct sim_later *later, const int *fds)
{
	struct hetsim_sync *entries = (void *)(uintptr_t)later->signals;
	uint32_t i;

	for (i = 0; i < later->n_signals; i++)
		if (fds[i] >= 0)
			entries[i].fd = fds[i];
}

int soft_syncs_check(struct soft_queue *queue, const struct soft_syncs *syncs)
{
	const struct soft_sync *sync;
	uint32_t i;

	if (queue->type != HETSIM_QUEUE_DMA_FENCE)
		return 0;
	for (i = 0; i < syncs->n_waits; i++) {
		sync = &syncs->sync[i];
		if (sync->timeline && !soft_timeline_is_promised(sync->timeline, sync->point))
			return -ERANGE;
	}
	return 0;
}

void soft_syncs_promise(struct soft_queue *queue, const struct soft_syncs *syncs)
{
	uint32_t i;

	for (i = syncs->n_waits; i < syncs->n; i++)
		soft_timeline_expect(syncs->sync[i].timeline, syncs->sync[i].point,
				     queue->type == HETSIM_QUEUE_DMA_FENCE);
}

void soft_syncs_signal(const struct soft_syncs *syncs)
{
	uint32_t i;

	for (i = syncs->n_waits; i < syncs->n; i++)
		soft_timeline_reach(syncs->sync[i].timeline, syncs->sync[i].point);
}

/* ---- waits ---- */

/* A thread that waits, in soft_device.waits. */
struct soft_wait_entry {
	struct cds_list_head link;
	const struct soft_sync *sync;
};

void soft_waits_wake_locked(struct soft_device *dev)
{
	const uint64_t one = 1;
	struct soft_wait_entry *entry;

	cds_list_for_each_entry(entry, &dev->waits, link) {
		if (entry->sync->timeline)
			soft_timeline_kick(entry->sync->timeline);
		else if (entry->sync->queue)
			soft_queue_kick(entry->sync->queue);
		else
			sys_write(entry->sync->kick, &one, sizeof(one));
	}
}

static bool is_there(const struct soft_sync *sync)
{
	struct pollfd fence = { .fd = sync->fd, .events = POLLIN };

	if (sync->queue)
		return sync->queue->done >= sync->point;
	return sync->timeline ? soft_timeline_value(sync->timeline) >= sync->point :
				sys_poll(&fence, 1, 0) > 0;
}

/* @changes: of the timeline, before the caller looked. */
static void sleep_for(const struct soft_sync *sync, uint32_t changes, uint64_t ns)
{
	struct pollfd files[] = {
		{ .fd = sync->fd, .events = POLLIN },
		{ .fd = sync->kick, .events = POLLIN },
	};
	uint64_t kicks;

	if (sync->timeline) {
		soft_timeline_sleep(sync->timeline, changes, ns);
		return;
	}
	sys_poll_ns(files, ARRAY_SIZE(files), ns);
	if (files[1].revents)
		sys_read(sync->kick, &kicks, sizeof(kicks));
}

int soft_sync_await(struct soft_device *dev, const struct soft_sync *sync, uint64_t deadline_ns,
		    int (*ended)(void *user), void *user)
{
	struct soft_wait_entry entry = { .sync = sync };
	uint32_t changes = 0;
	uint64_t now;
	int r = 0;

	if (is_there(sync))
		return 0;
	pthread_mutex_lock(&dev->lock);
	cds_list_add(&entry.link, &dev->waits);
	pthread_mutex_unlock(&dev->lock);
	for (;;) {
		if (sync->timeline)
			changes = soft_timeline_changes(sync->timeline);
		if (is_there(sync))
			break;
		r = ended(user);
		now = time_now_ns();
		if (!r && now >= deadline_ns)
			r = -ETIME;
		if (r)
			break;
		if (sync->queue)
			soft_queue_sleep(sync->queue, sync->point, deadline_ns, ended, user);
		else
			sleep_for(sync, changes, deadline_ns - now);
	}
	pthread_mutex_lock(&dev->lock);
	cds_list_del(&entry.link);
	pthread_mutex_unlock(&dev->lock);
	return r;
}
