// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Faults on request. An opener may hurt its own objects. Poison, which the kernel logs as broken
 * memory, needs CAP_SYS_ADMIN; faults of whole devices also need the module's parameter test.
 */
#include <linux/capability.h>
#include <linux/time64.h>

#include "sim_queue.h"

/* Counts down; true once, when it comes to its end. */
bool sim_inject_due(atomic64_t *countdown)
{
	return atomic64_read(countdown) > 0 && atomic64_dec_return(countdown) == 0;
}

/* True as many times as was asked for. */
bool sim_inject_take(atomic64_t *count)
{
	return atomic64_dec_if_positive(count) >= 0;
}

static int sim_inject_queue(struct sim_opener *opener, const struct hetsim_inject *inject)
{
	struct sim_queue *queue = sim_queue_get(opener, inject->target);
	int r = 0;

	if (!queue)
		return -ENOENT;
	switch (inject->kind) {
	case HETSIM_INJECT_LATENCY:
		if (inject->value > (u64)HETSIM_MAX_TIMEOUT_MS * NSEC_PER_MSEC)
			r = -EINVAL;
		else
			atomic64_set(&queue->latency, inject->value);
		break;
	case HETSIM_INJECT_STUCK:
		atomic64_set(&queue->stuck, inject->value);
		break;
	case HETSIM_INJECT_LOST_INTERRUPT:
		atomic64_set(&queue->lost, inject->value);
		break;
	}
	sim_queue_put(queue);
	return r;
}

/* A page that answers every touch from now on as @mark says; U64_MAX: none. */
static int sim_inject_page(struct sim_buffer *buffer, u64 offset, s64 *mark)
{
	u64 index = offset >> PAGE_SHIFT;
	int r = 0;

	/* Faults that began before are over when the lock was had. */
	down_write(&buffer->lock);
	if (offset == U64_MAX)
		*mark = -1;
	else if (index >= buffer->n_pages)
		r = -ERANGE;
	else
		*mark = index;
	if (!r && *mark >= 0)
		sim_mmap_revoke(buffer, index, 1);
	up_write(&buffer->lock);
	return r;
}

static int sim_inject_buffer(struct sim_opener *opener, const struct hetsim_inject *inject)
{
	struct sim_buffer *buffer = sim_buffer_get(opener, inject->target);
	int r = 0;

	if (!buffer)
		return -ENOENT;
	if (buffer->account != opener->account ||
	    (inject->kind == HETSIM_INJECT_POISON && !capable(CAP_SYS_ADMIN))) {
		r = -EPERM;
		goto out;
	}
	if (buffer->import) {
		r = -EOPNOTSUPP;
		goto out;
	}
	switch (inject->kind) {
	case HETSIM_INJECT_SIGBUS:
		r = sim_inject_page(buffer, inject->value, &buffer->sigbus);
		break;
	case HETSIM_INJECT_POISON:
		r = sim_inject_page(buffer, inject->value, &buffer->poison);
		break;
	case HETSIM_INJECT_EVICTION:
		r = sim_evict_part(buffer, inject->value >> PAGE_SHIFT);
		break;
	}
out:
	sim_buffer_put(buffer);
	return r;
}

static int sim_inject_device(struct sim_device *dev, u32 kind)
{
	if (!sim_test || !capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (kind == HETSIM_INJECT_UNPLUG)
		return sim_device_unplug(dev);
	atomic64_inc(&dev->n_resets);
	sim_engines_wake(dev);
	return 0;
}

int sim_inject(struct file *file, void *argument)
{
	struct hetsim_inject *inject = argument;
	struct sim_opener *opener = file->private_data;

	switch (inject->kind) {
	case HETSIM_INJECT_LATENCY:
	case HETSIM_INJECT_STUCK:
	case HETSIM_INJECT_LOST_INTERRUPT:
		return sim_inject_queue(opener, inject);
	case HETSIM_INJECT_SIGBUS:
	case HETSIM_INJECT_POISON:
	case HETSIM_INJECT_EVICTION:
		return sim_inject_buffer(opener, inject);
	case HETSIM_INJECT_ENOMEM:
	case HETSIM_INJECT_EINTR:
		atomic64_set(inject->kind == HETSIM_INJECT_ENOMEM ? &opener->account->enomem :
								    &opener->account->eintr,
			     inject->value);
		return 0;
	case HETSIM_INJECT_RESET:
	case HETSIM_INJECT_UNPLUG:
		return sim_inject_device(opener->dev, inject->kind);
	default:
		return -EINVAL;
	}
}
