// SPDX-License-Identifier: MIT
/*
 * Prefetches with a fence: each in a thread of its own, which ends with it. The fence is one of
 * foreign work (accel/fence_foreign.c has others).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/rlimits.h"
#include "base/sys.h"
#include "range/range.h"
#include "tier/move.h"
#include "tier/tier.h"

#define TIER_SHIFT 16
#define TIER_MASK 0xff0000u /* HM_RANGE_TIER() */
#define NO_NODE UINT32_MAX

struct job {
	_Atomic uint32_t refs;  /* the thread, and the fence */
	struct hm_accel *accel; /* with a reference; NULL: the host */
	struct range_pages pages;
	uint32_t access;
	uint32_t node; /* that the pages move to; NO_NODE */
	pthread_t thread;
	pthread_mutex_t lock; /* protects the fields below */
	pthread_cond_t ended;
	bool done;
	bool decided; /* the fence has the status */
	int status;
	int fd; /* eventfd for those who wait by poll(); -1: none */
	char text[128];
};

static int move(const struct range_pages *pages, uint32_t node)
{
	struct tier_moved moved = { 0 };
	int r = tier_move(pages->address, pages->length, node, &moved);

	if (r || !moved.refused)
		return r;
	return err_set(moved.why == -ENOMEM ? -ENOMEM : -EBUSY,
		       "%" PRIu64 " of %" PRIu64 " bytes at 0x%" PRIx64
		       " can't move to node %" PRIu32 ": %s",
		       moved.refused, pages->length, pages->address, node,
		       moved.why == -ENOMEM ? "it has no room" :
					      "they are pinned, or not of this process alone");
}

static int run(struct hm_accel *accel, const struct range_pages *pages, uint32_t access,
	       uint32_t node)
{
	int r;

	if (accel)
		return accel->ops->range_prefetch(accel->data, pages->address, pages->length,
						  access);
	r = host_prefetch(pages, access);
	return r || node == NO_NODE ? r : move(pages, node);
}

static void put(struct job *job)
{
	if (atomic_fetch_sub(&job->refs, 1) != 1)
		return;
	hm_accel_unref(job->accel);
	if (job->fd >= 0)
		sys_close(job->fd);
	pthread_cond_destroy(&job->ended);
	pthread_mutex_destroy(&job->lock);
	free(job);
}

static void *thread_main(void *user)
{
	const uint64_t one = 1;
	struct job *job = user;
	int r;

	err_begin();
	r = run(job->accel, &job->pages, job->access, job->node);
	pthread_mutex_lock(&job->lock);
	job->status = r;
	if (r)
		snprintf(job->text, sizeof(job->text), "prefetch: %.116s", hm_errmsg());
	job->done = true;
	if (job->fd >= 0)
		sys_write(job->fd, &one, sizeof(one));
	pthread_cond_broadcast(&job->ended);
	pthread_mutex_unlock(&job->lock);
	put(job);
	return NULL;
}

/* ---- the fence's operations ---- */

static int job_wait(void *queue, struct hm_accel_work *work, uint64_t timeout_ns)
{
	struct job *job = work->data[0];
	struct timespec deadline;
	int r = 0;

	(void)queue;
	deadline_after(timeout_ns, &deadline);
	pthread_mutex_lock(&job->lock);
	while (!job->done && !r && timeout_ns) {
		if (timeout_ns == UINT64_MAX)
			r = pthread_cond_wait(&job->ended, &job->lock);
		else
			r = pthread_cond_timedwait(&job->ended, &job->lock, &deadline);
	}
	r = job->done ? 0 : -ETIME;
	if (job->done && !job->decided) {
		work->status = job->status;
		snprintf(work->text, sizeof(work->text), "%s", job->text);
		job->decided = true;
	}
	pthread_mutex_unlock(&job->lock);
	return r;
}

static int job_notify(void *queue, struct hm_accel_work *work, void (*call)(void *user),
		      void *user)
{
	(void)queue, (void)work, (void)call, (void)user;
	return err_set(-EOPNOTSUPP, "a prefetch tells of its end by a descriptor only");
}

static int job_fd(void *queue, struct hm_accel_work *work, int *ret_fd)
{
	struct job *job = work->data[0];
	int fd;

	(void)queue;
	pthread_mutex_lock(&job->lock);
	if (job->fd < 0)
		job->fd = sys_eventfd(job->done, EFD_CLOEXEC);
	fd = job->fd < 0 ? job->fd : sys_dup(job->fd);
	if (job->fd < 0)
		job->fd = -1;
	pthread_mutex_unlock(&job->lock);
	if (fd < 0)
		return rlimits_explain_fd(fd, "a descriptor of a fence");
	*ret_fd = fd;
	return 0;
}

static void job_release(struct hm_accel_work *work)
{
	struct job *job = work->data[0];
	bool done;

	pthread_mutex_lock(&job->lock);
	done = job->done;
	pthread_mutex_unlock(&job->lock);
	/* No waiter is left: the thread ends by itself. */
	if (done)
		pthread_join(job->thread, NULL);
	else
		pthread_detach(job->thread);
	put(job);
}

static const struct hm_accel_ops job_ops = {
	.size = sizeof(job_ops),
	.name = "prefetch",
	.wait = job_wait,
	.notify = job_notify,
	.work_release = job_release,
	.fence_fd = job_fd,
};

/* ---- beginning ---- */

static struct job *job_new(struct hm_accel *accel, const struct range_pages *pages,
			   uint32_t access, uint32_t node)
{
	struct job *job = sys_calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	atomic_init(&job->refs, 2);
	job->accel = hm_accel_ref(accel);
	job->pages = *pages;
	job->access = access;
	job->node = node;
	job->fd = -1;
	pthread_mutex_init(&job->lock, NULL);
	thread_condition_init(&job->ended);
	return job;
}

static int begin(struct hm_accel *accel, const struct range_pages *pages, uint32_t access,
		 uint32_t node, struct hm_fence **ret_fence)
{
	struct hm_fence *fence;
	struct job *job;
	int r;

	job = job_new(accel, pages, access, node);
	if (!job)
		return err_set(-ENOMEM, "hm_range_prefetch: no memory");
	r = thread_start(&job->thread, thread_main, job);
	if (r) {
		r = rlimits_explain_thread(r, "a prefetch");
		atomic_store(&job->refs, 1);
		put(job);
		return r;
	}
	r = fence_make_foreign(&job_ops, job, &fence);
	if (r) {
		/* The pages may be there by now: harmless, and told as a failure. */
		pthread_join(job->thread, NULL);
		put(job);
		return r;
	}
	*ret_fence = fence;
	return 0;
}

/* @tier: what HM_RANGE_TIER() has made. */
static int choose_node(struct hm_accel *who, uint32_t tier, uint32_t *ret_node)
{
	*ret_node = NO_NODE;
	if (!tier)
		return 0;
	if (who)
		return err_set(-EINVAL,
			       "hm_range_prefetch: tiers are the host's: pass NULL as the "
			       "accelerator");
	return tier_node(tier >> TIER_SHIFT, ret_node);
}

int hm_range_prefetch(const void *pointer, uint64_t length, struct hm_accel *accel,
		      uint32_t access, struct hm_fence **ret_fence)
{
	const uint32_t tier = access & TIER_MASK;
	struct range_pages pages;
	struct hm_accel *who;
	uint32_t node;
	int r;

	err_begin();
	access &= ~TIER_MASK;
	r = range_pages_of(pointer, length, "hm_range_prefetch", &pages);
	if (!r)
		r = range_choose(accel, "hm_range_prefetch", &who);
	if (r)
		return r;
	if (access != HM_READ && access != (HM_READ | HM_WRITE) && access != HM_RANGE_BACK)
		return err_set(-EINVAL,
			       "hm_range_prefetch: access 0x%" PRIx32 " is neither HM_READ nor "
			       "HM_READ | HM_WRITE, nor HM_RANGE_BACK",
			       access);
	if (access == HM_RANGE_BACK && !who)
		return err_set(-EINVAL,
			       "hm_range_prefetch: HM_RANGE_BACK takes pages out of an "
			       "accelerator's memory: pass that accelerator");
	r = choose_node(who, tier, &node);
	if (r)
		return r;
	return ret_fence ? begin(who, &pages, access, node, ret_fence) :
			   run(who, &pages, access, node);
}
