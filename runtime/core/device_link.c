// SPDX-License-Identifier: MIT
/* Links of a device to its backend: the current one, and older ones still in use. */
#include "core/device_link.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

int link_open(struct hm_device *device, struct device_link **ret_link)
{
	const char *rest = strchr(device->name, ':');
	uint32_t said = err_count();
	struct device_link *link;
	int r;

	link = sys_calloc(1, sizeof(*link));
	if (!link)
		return err_set(-ENOMEM, "no memory for the device \"%s\"", device->name);
	r = device->ops->device_open(rest ? rest + 1 : "", &link->backend);
	if (r) {
		r = backend_explain(device->ops, said, r, "device_open");
		goto err_free;
	}
	*ret_link = link;
	return 0;

err_free:
	free(link);
	return r;
}

void link_swap(struct hm_device *device, struct device_link *link)
{
	link->next = atomic_load(&device->link);
	atomic_store(&device->link, link);
	link_sweep(device);
}

static struct device_link *take_unused(struct hm_device *device)
{
	struct device_link *link;

	pthread_mutex_lock(&device->lock);
	for (link = atomic_load(&device->link)->next; link; link = link->next)
		if (!link->closed && !atomic_load(&link->n_user)) {
			link->closed = true;
			break;
		}
	pthread_mutex_unlock(&device->lock);
	return link;
}

void link_sweep(struct hm_device *device)
{
	struct device_link *link;

	while ((link = take_unused(device)))
		device->ops->device_close(link->backend);
}

void link_end(struct hm_device *device)
{
	struct device_link *link = atomic_load(&device->link), *next;

	for (; link; link = next) {
		next = link->next;
		if (!link->closed)
			device->ops->device_close(link->backend);
		free(link);
	}
}
