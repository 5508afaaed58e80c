// SPDX-License-Identifier: MIT
/*
 * CPUs' view of the twin's buffers, and the hooks that make maps show it.
 *
 * A thread that changes the view marks the buffer (soft_changed()), and calls soft_show() after
 * dropping its locks. A hook asks for the present state, so that the last one to run is right.
 */
#include <errno.h>

#include "soft/twin.h"

void soft_hooks_begin(struct soft_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	while (dev->hooking || dev->n_visiting)
		pthread_cond_wait(&dev->hooked, &dev->lock);
	dev->hooking = true;
	pthread_mutex_unlock(&dev->lock);
}

/*
 * Takes the turn while visits run. False: the device is gone, and the thread that unplugs it may
 * wait, with the turn, for locks of the caller.
 */
static bool hooks_try(struct soft_device *dev)
{
	bool mine;

	pthread_mutex_lock(&dev->lock);
	while (dev->hooking && !dev->gone)
		pthread_cond_wait(&dev->hooked, &dev->lock);
	mine = !dev->gone;
	if (mine)
		dev->hooking = true;
	pthread_mutex_unlock(&dev->lock);
	return mine;
}

void soft_hooks_end(struct soft_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	dev->hooking = false;
	pthread_cond_broadcast(&dev->hooked);
	pthread_mutex_unlock(&dev->lock);
}

/* The caller holds buffer->lock. */
static bool page_hidden(const struct soft_buffer *buffer, uint64_t index)
{
	return index == buffer->sigbus || index == buffer->poison ||
	       !soft_page_reachable(buffer, index);
}

/*
 * Is @first hidden, and *@ret_n_pages, @n_pages at most, alike? Beyond the end the file has no
 * pages.
 */
static bool pages_hidden(const struct soft_buffer *buffer, uint64_t first, uint64_t n_pages,
			 uint64_t *ret_n_pages)
{
	uint64_t i = first, end = first + min_u64(n_pages, buffer->n_pages - first);
	bool hidden = page_hidden(buffer, i);

	while (i < end && page_hidden(buffer, i) == hidden)
		i++;
	*ret_n_pages = i - first;
	return hidden;
}

bool soft_hidden(struct soft_file *file, uint32_t handle, uint64_t offset, uint64_t length,
		 uint64_t *ret_length)
{
	uint64_t first = offset >> SIM_PAGE_SHIFT, n_pages = length >> SIM_PAGE_SHIFT;
	struct soft_buffer *buffer;
	bool hidden = false;

	*ret_length = length;
	if (!file->dev->hides)
		return false;
	buffer = soft_buffer_get(file, handle);
	if (!buffer)
		return false;
	pthread_rwlock_rdlock(&buffer->lock);
	if (n_pages && first < buffer->n_pages) {
		hidden = pages_hidden(buffer, first, n_pages, &n_pages);
		*ret_length = n_pages << SIM_PAGE_SHIFT;
	}
	pthread_rwlock_unlock(&buffer->lock);
	soft_buffer_put(buffer);
	return hidden;
}

void soft_changed(struct soft_buffer *buffer)
{
	buffer->unshown = true;
	atomic_fetch_add(&buffer->dev->changed, 1);
}

static bool has_hooks(const struct soft_file *file, uint32_t handle)
{
	return file->hooks && handle < file->n_handles && file->handles[handle];
}

/* No opener leaves during this: it would need the turn. */
static void show(struct soft_buffer *buffer)
{
	struct soft_device *dev = buffer->dev;
	uint32_t handle = buffer->slot;
	struct soft_file *file;

	if (!atomic_exchange(&buffer->unshown, false))
		return;
	pthread_mutex_lock(&dev->lock);
	cds_list_for_each_entry(file, &dev->openers, link) {
		if (!has_hooks(file, handle))
			continue;
		pthread_mutex_unlock(&dev->lock);
		file->hooks->pages(file->user, handle);
		pthread_mutex_lock(&dev->lock);
	}
	pthread_mutex_unlock(&dev->lock);
}

void soft_show(struct soft_device *dev)
{
	uint64_t changed;

	/* Reads shown first, which never exceeds changed. */
	if (atomic_load(&dev->shown) == atomic_load(&dev->changed) || !hooks_try(dev))
		return;
	changed = dev->changed;
	soft_buffers_each(dev, show);
	dev->shown = changed;
	soft_hooks_end(dev);
}

/*
 * Visits without taking the turn: a thread with a lock that the hook needs may be waiting for
 * the turn. Waits until the turn is free first, so that a thread that closes a file is not
 * overtaken.
 */
int soft_visit_maps(struct soft_buffer *buffer, soft_visit *visit, void *context)
{
	struct soft_device *dev = buffer->dev;
	uint32_t handle = buffer->slot;
	struct soft_file *file;
	int r = 0;

	pthread_mutex_lock(&dev->lock);
	while (dev->hooking && !dev->gone)
		pthread_cond_wait(&dev->hooked, &dev->lock);
	if (dev->gone) {
		pthread_mutex_unlock(&dev->lock);
		return -ENODEV;
	}
	dev->n_visiting++;
	cds_list_for_each_entry(file, &dev->openers, link) {
		if (!has_hooks(file, handle))
			continue;
		pthread_mutex_unlock(&dev->lock);
		r = file->hooks->maps(file->user, handle, visit, context);
		pthread_mutex_lock(&dev->lock);
		if (r)
			break;
	}
	dev->n_visiting--;
	pthread_cond_broadcast(&dev->hooked);
	pthread_mutex_unlock(&dev->lock);
	return r;
}
