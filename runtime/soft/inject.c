// SPDX-License-Identifier: MIT
/*
 * Injected faults. An opener may harm its own objects; harm to other openers requires test=1 in
 * HETMAP_SOFT.
 */
#include <errno.h>

#include "soft/twin.h"

bool soft_inject_due(_Atomic int64_t *countdown)
{
	return atomic_load(countdown) > 0 && atomic_fetch_sub(countdown, 1) == 1;
}

bool soft_inject_take(_Atomic int64_t *count)
{
	int64_t n = atomic_load(count);

	while (n > 0)
		if (atomic_compare_exchange_weak(count, &n, n - 1))
			return true;
	return false;
}

/*
 * Marks a page, in the place of the one marked before: each touch of it raises SIGBUS from now
 * on. All ones: no page.
 */
static int inject_page(struct soft_buffer *buffer, uint64_t offset, uint64_t *mark)
{
	uint64_t index = offset == UINT64_MAX ? SOFT_NO_PAGE : offset >> SIM_PAGE_SHIFT;
	int r = 0;

	buffer->dev->hides = true;
	pthread_rwlock_wrlock(&buffer->lock);
	if (buffer->dev->gone)
		r = -ENODEV;
	else if (index != SOFT_NO_PAGE && index >= buffer->n_pages)
		r = -ERANGE;
	else
		*mark = index;
	pthread_rwlock_unlock(&buffer->lock);
	if (!r)
		soft_changed(buffer);
	return r;
}

static int inject_buffer(struct soft_file *file, const struct hetsim_inject *inject)
{
	struct soft_buffer *buffer = soft_buffer_get(file, inject->target);
	int r;

	if (!buffer)
		return -ENOENT;
	if (buffer->account != file->account)
		r = -EPERM;
	else if (inject->kind == HETSIM_INJECT_SIGBUS)
		r = inject_page(buffer, inject->value, &buffer->sigbus);
	else if (inject->kind == HETSIM_INJECT_POISON)
		r = inject_page(buffer, inject->value, &buffer->poison);
	else
		r = soft_evict_part(buffer, inject->value >> SIM_PAGE_SHIFT);
	soft_buffer_put(buffer);
	return r;
}

static int inject_call(struct soft_file *file, const struct hetsim_inject *inject)
{
	atomic_store(inject->kind == HETSIM_INJECT_ENOMEM ? &file->account->enomem :
							    &file->account->eintr,
		     (int64_t)inject->value);
	return 0;
}

static int inject_device(struct soft_file *file, const struct hetsim_inject *inject)
{
	if (!soft_test)
		return -EPERM;
	if (inject->kind == HETSIM_INJECT_UNPLUG)
		return soft_device_lose(file->dev);
	atomic_fetch_add(&file->dev->n_resets, 1);
	soft_engines_wake(file->dev);
	return 0;
}

int soft_inject(struct soft_file *file, void *argument)
{
	static int (*const kinds[])(struct soft_file *, const struct hetsim_inject *) = {
		[HETSIM_INJECT_LATENCY] = soft_queue_inject,
		[HETSIM_INJECT_STUCK] = soft_queue_inject,
		[HETSIM_INJECT_LOST_INTERRUPT] = soft_queue_inject,
		[HETSIM_INJECT_SIGBUS] = inject_buffer,
		[HETSIM_INJECT_POISON] = inject_buffer,
		[HETSIM_INJECT_EVICTION] = inject_buffer,
		[HETSIM_INJECT_ENOMEM] = inject_call,
		[HETSIM_INJECT_EINTR] = inject_call,
		[HETSIM_INJECT_RESET] = inject_device,
		[HETSIM_INJECT_UNPLUG] = inject_device,
	};
	const struct hetsim_inject *inject = argument;

	return kinds[inject->kind](file, inject);
}
