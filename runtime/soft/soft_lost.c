// SPDX-License-Identifier: MIT
/*
 * The twin's device is taken away, under whatever is open, mapped, exported or
 * queued; and the hooks that tell those who have mapped its buffers.
 */
#include <errno.h>

#include "twin.h"

void soft_hooks_begin(struct soft_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	while (dev->hooking)
		pthread_cond_wait(&dev->hooked, &dev->lock);
	dev->hooking = true;
	pthread_mutex_unlock(&dev->lock);
}

void soft_hooks_end(struct soft_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	dev->hooking = false;
	pthread_cond_broadcast(&dev->hooked);
	pthread_mutex_unlock(&dev->lock);
}

/* No opener goes meanwhile: it would have to have the turn. */
void soft_hooks_call(struct soft_buffer *buffer, uint64_t offset, uint64_t length,
		     enum soft_pages how)
{
	struct soft_device *dev = buffer->dev;
	uint32_t handle = buffer->slot;
	struct soft_file *file;

	pthread_mutex_lock(&dev->lock);
	cds_list_for_each_entry(file, &dev->openers, link) {
		if (!file->hooks || handle >= file->n_handles || !file->handles[handle] ||
		    (how == SOFT_PAGES_ZERO && !file->zero_when_lost))
			continue;
		pthread_mutex_unlock(&dev->lock);
		file->hooks->pages(file->user, handle, offset, length, how);
		pthread_mutex_lock(&dev->lock);
	}
	pthread_mutex_unlock(&dev->lock);
}

static void detach(struct soft_buffer *buffer)
{
	soft_pages_detach(buffer);
}

/* All that a map can have, and no change of it is under way any more. */
static void show_zeros(struct soft_buffer *buffer)
{
	soft_hooks_call(buffer, 0, buffer->capacity << SOFT_PAGE_SHIFT, SOFT_PAGES_ZERO);
}

static void drop(struct soft_buffer *buffer)
{
	soft_pages_drop(buffer);
}

static void for_each_buffer(struct soft_device *dev, void (*run)(struct soft_buffer *buffer))
{
	struct soft_buffer *buffer;
	uint32_t slot;

	for (slot = 1; (buffer = soft_buffer_next(dev, &slot)); slot++) {
		run(buffer);
		soft_buffer_put(buffer);
	}
}

/*
 * From here on every call answers -ENODEV, and none makes a buffer that the steps
 * below would miss. No engine is at a page when it goes. Maps that become zeros do
 * so before touching them would be a SIGBUS.
 */
int soft_device_lose(struct soft_device *dev)
{
	int r = soft_device_take(dev);

	if (r)
		return r;
	dev->gone = true;
	soft_engines_wake(dev);
	for_each_buffer(dev, detach);
	soft_hooks_begin(dev);
	for_each_buffer(dev, show_zeros);
	soft_hooks_end(dev);
	for_each_buffer(dev, drop);
	soft_device_put(dev);
	return 0;
}
