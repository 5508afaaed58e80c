// SPDX-License-Identifier: MIT
/* Devices: the object. */
#include <stdlib.h>
#include <string.h>

#include "core/device.h"
#include "core/core.h"
#include "core/device_link.h"
#include "base/sys.h"

static void device_free(struct hm_device *device)
{
	pthread_mutex_destroy(&device->recovery);
	pthread_mutex_destroy(&device->lock);
	free(device);
}

int device_make(const struct hm_backend_ops *ops, const char *name,
		struct hm_device **ret_device)
{
	struct device_link *link;
	struct hm_device *device;
	int r;

	device = sys_calloc(1, sizeof(*device));
	if (!device)
		return err_set(-ENOMEM, "no memory for the device \"%s\"", name);
	object_init(&device->object, OBJECT_DEVICE);
	device->ops = ops;
	memcpy(device->name, name, strlen(name));
	CDS_INIT_LIST_HEAD(&device->buffers);
	pthread_mutex_init(&device->lock, NULL);
	pthread_mutex_init(&device->recovery, NULL);
	r = link_open(device, &link);
	if (r)
		goto err_free;
	atomic_init(&device->link, link);
	stats_add(&stats.devices, 1);
	*ret_device = device;
	return 0;

err_free:
	device_free(device);
	return r;
}

void device_add_buffer(struct hm_buffer *buffer)
{
	struct hm_device *device = buffer->device;

	pthread_mutex_lock(&device->lock);
	cds_list_add_tail(&buffer->device_link, &device->buffers);
	device->n_buffer++;
	pthread_mutex_unlock(&device->lock);
}

void device_remove_buffer(struct hm_buffer *buffer)
{
	struct hm_device *device = buffer->device;

	pthread_mutex_lock(&device->lock);
	cds_list_del(&buffer->device_link);
	counts_leave(buffer, &device->ended);
	pthread_mutex_unlock(&device->lock);
}

struct hm_device *hm_device_ref(struct hm_device *device)
{
	if (device)
		object_ref(&device->object);
	return device;
}

static const struct device_pool_ops *pool_ops;

void device_set_pool_ops(const struct device_pool_ops *ops)
{
	pool_ops = ops;
}

static bool put(struct hm_device *device)
{
	return unlikely(atomic_load(&device->pool)) &&
			       device->object.fork_gen == fork_generation ?
		       pool_ops->put(device) :
		       object_put(&device->object);
}

void hm_device_unref(struct hm_device *device)
{
	if (!device || !put(device))
		return;
	err_hold();
	if (atomic_load(&device->pool))
		pool_ops->end(device);
	link_end(device);
	err_release();
	device->object.kind = OBJECT_FREED;
	device_free(device);
	stats_sub(&stats.devices, 1);
}
