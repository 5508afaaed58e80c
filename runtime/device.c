// SPDX-License-Identifier: MIT
/* Devices: open by name, query, list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "sys.h"

/* "host, file": for the text of a name that is not there. */
static void list_names(char *text, size_t size)
{
	const struct hm_backend_ops *ops;
	size_t length = 0;
	uint32_t i;

	text[0] = '\0';
	for (i = 0; (ops = backend_at(i)) && length < size; i++)
		length += (size_t)snprintf(text + length, size - length, "%s%s", i ? ", " : "",
					   ops->name);
}

int hm_device_open(const char *name, struct hm_device **ret_device)
{
	const struct hm_backend_ops *ops;
	struct hm_device *device;
	const char *rest;
	char names[256];
	int r;

	if (!ret_device)
		return err_set(-EINVAL, "hm_device_open: ret_device is NULL");
	err_clear();
	fork_init();
	/* In order of registration the first is the best that always opens. */
	if (!name)
		name = backend_at(0)->name;
	ops = backend_find(name, &rest);
	if (!ops) {
		list_names(names, sizeof(names));
		return err_set(-ENODEV, "there is no device \"%s\": this library knows %s",
			       name, names);
	}
	if (strlen(name) >= sizeof(device->name))
		return err_set(-ENODEV,
			       "the device name has %zu characters, at most %zu are "
			       "possible",
			       strlen(name), sizeof(device->name) - 1);

	device = sys_calloc(1, sizeof(*device));
	if (!device)
		return err_set(-ENOMEM, "no memory for the device \"%s\"", name);
	object_init(&device->object, OBJECT_DEVICE);
	device->ops = ops;
	memcpy(device->name, name, strlen(name));
	r = backend_explain(ops, ops->device_open(rest, &device->backend), "device_open");
	if (r)
		goto err_free;
	stats_add(&stats.devices, 1);
	*ret_device = device;
	return 0;

err_free:
	free(device);
	return r;
}

static int query(struct hm_device *device, struct hm_device_info *info)
{
	*info = (struct hm_device_info){
		.numa_node = -1,
		.caps = device->ops->caps,
		.page_size = page_size(),
		.granule = page_size(),
	};
	memcpy(info->name, device->name, sizeof(info->name));
	snprintf(info->backend, sizeof(info->backend), "%s", device->ops->name);
	snprintf(info->description, sizeof(info->description), "%s", device->ops->description);
	return backend_explain(device->ops, device->ops->device_query(device->backend, info),
			       "device_query");
}

int hm_device_query(struct hm_device *device, struct hm_device_info *ret_info)
{
	struct hm_device_info info;
	int r;

	err_clear();
	r = object_check((struct hm_object *)device, OBJECT_DEVICE);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_device_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_device_info, memory_total), "hm_device_info");
	if (!r)
		r = query(device, &info);
	if (!r)
		struct_write(ret_info, &info, ret_info->struct_size);
	return r;
}

int hm_device_list(struct hm_device_info *infos, uint32_t capacity, uint32_t *ret_n)
{
	uint32_t i, n = 0, stride = 0;
	const struct hm_backend_ops *ops;
	int r;

	if (!ret_n || (capacity && !infos))
		return err_set(-EINVAL, "hm_device_list: %s is NULL",
			       ret_n ? "infos" : "ret_n");
	if (capacity) {
		stride = infos[0].struct_size;
		r = struct_check_out(stride, sizeof(*infos),
				     offsetof(struct hm_device_info, memory_total),
				     "hm_device_info");
		if (r)
			return r;
	}
	for (i = 0; (ops = backend_at(i)); i++) {
		struct hm_device_info info, *to;
		struct hm_device *device;

		r = hm_device_open(ops->name, &device);
		if (r == -ENOMEM)
			return r;
		if (r)
			continue; /* a backend without a device here */
		r = query(device, &info);
		hm_device_unref(device);
		if (r)
			continue;
		if (n < capacity) {
			to = (struct hm_device_info *)((char *)infos + (size_t)n * stride);
			to->struct_size = stride;
			struct_write(to, &info, stride);
		}
		n++;
	}
	*ret_n = n;
	return 0;
}

struct hm_device *hm_device_ref(struct hm_device *device)
{
	if (device)
		object_ref(&device->object);
	return device;
}

void hm_device_unref(struct hm_device *device)
{
	if (!device || !object_put(&device->object))
		return;
	device->ops->device_close(device->backend);
	device->object.kind = OBJECT_FREED;
	free(device);
	stats_sub(&stats.devices, 1);
}
