// SPDX-License-Identifier: MIT
/* The twin's open files, and the objects of an opener from its open to its close. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "soft/mirror.h"

void soft_account_put(struct soft_account *account)
{
	if (atomic_fetch_sub(&account->refs, 1) == 1)
		free(account);
}

/* -ENODEV: the device was unplugged in the meantime. */
static int opener_add(struct soft_device *dev, struct soft_file *file)
{
	int r = 0;

	pthread_mutex_lock(&dev->lock);
	if (dev->gone)
		r = err_set(-ENODEV, "soft:%" PRIu32 " was taken away", dev->index);
	else
		cds_list_add_tail(&file->link, &dev->openers);
	pthread_mutex_unlock(&dev->lock);
	return r;
}

int soft_open(uint32_t index, int flags, const struct soft_hooks *hooks, void *user,
	      struct soft_file **ret_file)
{
	struct soft_device *dev = NULL;
	struct soft_file *file;
	int r;

	if (page_size() != SIM_PAGE_SIZE)
		return err_set(-EOPNOTSUPP,
			       "soft:%" PRIu32 " has pages of %llu bytes, this machine of "
			       "%" PRIu64,
			       index, SIM_PAGE_SIZE, page_size());
	r = soft_device_get(index, &dev);
	if (r)
		return r;
	file = sys_calloc(1, sizeof(*file));
	if (!file) {
		r = err_set(-ENOMEM, "soft:%" PRIu32 ": no memory for an opener", index);
		goto err_dev;
	}
	file->account = sys_calloc(1, sizeof(*file->account));
	if (!file->account) {
		r = err_set(-ENOMEM, "soft:%" PRIu32 ": no memory for an account", index);
		goto err_file;
	}
	r = soft_va_init(&file->va);
	if (r) {
		err_set(r, "soft:%" PRIu32 ": no memory for a page table", index);
		goto err_account;
	}
	atomic_init(&file->account->refs, 1);
	pthread_mutex_init(&file->queues_lock, NULL);
	file->dev = dev;
	file->hooks = hooks;
	file->user = user;
	file->flags = flags;
	r = opener_add(dev, file);
	if (r)
		goto err_va;
	*ret_file = file;
	return 0;

err_va:
	pthread_mutex_destroy(&file->queues_lock);
	soft_va_destroy(&file->va);
err_account:
	free(file->account);
err_file:
	free(file);
err_dev:
	soft_device_put(dev);
	return r;
}

void soft_close(struct soft_file *file)
{
	struct soft_device *dev = file->dev;

	atomic_store(&file->account->closed, true);
	soft_hooks_begin(dev);
	pthread_mutex_lock(&dev->lock);
	cds_list_del(&file->link);
	pthread_mutex_unlock(&dev->lock);
	soft_hooks_end(dev);

	soft_queues_destroy(file);
	soft_mirror_free(file->mirror);
	soft_va_destroy(&file->va);
	soft_buffers_close(file);
	pthread_mutex_destroy(&file->queues_lock);
	soft_account_put(file->account);
	free(file);
	soft_device_put(dev);
}

bool soft_is_gone(const struct soft_file *file)
{
	return file->dev->gone;
}

int soft_file_check(struct soft_file *file)
{
	if (!file->accepted)
		return -EPROTO;
	return file->dev->gone ? -ENODEV : 0;
}
