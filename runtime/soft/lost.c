// SPDX-License-Identifier: MIT
/* Unplugs the twin's device, with its open files, maps, exports and submissions in any state. */
#include <errno.h>

#include "soft/twin.h"

static void detach(struct soft_buffer *buffer)
{
	soft_pages_detach(buffer);
}

/* No opener leaves during this: it would need the turn. */
static void show_zeros(struct soft_device *dev)
{
	struct soft_file *file;

	pthread_mutex_lock(&dev->lock);
	cds_list_for_each_entry(file, &dev->openers, link) {
		if (!file->hooks || !file->zero_when_lost)
			continue;
		pthread_mutex_unlock(&dev->lock);
		file->hooks->lost(file->user);
		pthread_mutex_lock(&dev->lock);
	}
	pthread_mutex_unlock(&dev->lock);
}

static void drop(struct soft_buffer *buffer)
{
	soft_pages_drop(buffer);
}

/*
 * From here on every call answers -ENODEV, and none makes a buffer that the steps below would
 * miss. No engine uses a page when it goes. Maps that must become zeros do so before a touch
 * would raise SIGBUS.
 */
int soft_device_lose(struct soft_device *dev)
{
	int r = soft_device_take(dev);

	if (r)
		return r;
	pthread_mutex_lock(&dev->lock);
	dev->gone = true;
	pthread_cond_broadcast(&dev->hooked); /* nothing is shown any more */
	pthread_mutex_unlock(&dev->lock);
	soft_engines_wake(dev);
	soft_buffers_each(dev, detach);
	soft_hooks_begin(dev);
	show_zeros(dev);
	soft_hooks_end(dev);
	soft_buffers_each(dev, drop);
	soft_device_put(dev);
	return 0;
}
