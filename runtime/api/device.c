// SPDX-License-Identifier: MIT
/* Devices: open by name, query, list. */
#include <stdio.h>
#include <string.h>

#include "api/door.h"
#include "base/env.h"
#include "base/fork.h"
#include "core/device.h"
#include "core/device_link.h"
#include "fault/check.h"
#include "tell/publish.h"

/* "host, file", for the text about an unknown name. */
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

static int open_named(const char *name, struct hm_device **ret_device)
{
	const struct hm_backend_ops *ops;
	bool relieved = false;
	const char *rest;
	char names[256];
	int r;

	err_clear();
	ops = backend_find(name, &rest);
	if (!ops) {
		list_names(names, sizeof(names));
		return err_set(-ENODEV, "there is no device \"%s\": this library knows %s",
			       name, names);
	}
	if (strlen(name) >= sizeof((*ret_device)->name))
		return err_set(-ENODEV,
			       "the device name has %zu characters, at most %zu are "
			       "possible",
			       strlen(name), sizeof((*ret_device)->name) - 1);
	r = hook_open(name, NULL);
	if (r)
		return r;

	do
		r = device_make(ops, name, ret_device);
	while (retire_relieve(r, &relieved));
	return r;
}

/*
 * Calls @each in order of registration, which hm_device_list() shows: devices with memory of
 * their own come first. Ends with the first result other than 0, and returns it.
 */
static int each_device(int (*each)(void *user, const char *name), void *user)
{
	const struct hm_backend_ops *ops;
	uint32_t i;
	int r = 0;

	for (i = 0; !r && (ops = backend_at(i)); i++)
		r = backend_has(ops, HM_BACKEND_LIST) ? ops->each_device(each, user) :
							each(user, ops->name);
	return r;
}

/*
 * Opens the device of programs that name none: "host", unless HETMAP_DEVICE names another. It is
 * the same on all machines, and has all that hm_alloc() and sharing promise.
 */
static int open_default(struct hm_device **ret_device)
{
	const char *name = env_get("HETMAP_DEVICE");
	int r;

	if (!name || !*name)
		return open_named("host", ret_device);
	r = open_named(name, ret_device);
	return r ? err_prefix(r, "HETMAP_DEVICE=%s", name) : 0;
}

int device_open(const char *name, struct hm_device **ret_device)
{
	int r;

	if (!ret_device)
		return err_set(-EINVAL, "hm_device_open: ret_device is NULL");
	fork_init();
	r = check_read_environment();
	if (!r)
		r = retire_read_environment();
	if (r)
		return r;
	r = name ? open_named(name, ret_device) : open_default(ret_device);
	if (!r) {
		trace_tell();
		publish_tell();
	}
	return r;
}

int hm_device_open(const char *name, struct hm_device **ret_device)
{
	err_begin();
	return device_open(name, ret_device);
}

static int query(struct hm_device *device, struct hm_device_info *info)
{
	uint32_t said = err_count();
	struct device_link *link;
	int r;

	*info = (struct hm_device_info){
		.numa_node = -1,
		.caps = device->ops->caps & ~HM_BACKEND_CAPS,
		.page_size = page_size(),
		.granule = page_size(),
		.generation = device->generation,
	};
	memcpy(info->name, device->name, sizeof(info->name));
	snprintf(info->backend, sizeof(info->backend), "%s", device->ops->name);
	snprintf(info->description, sizeof(info->description), "%s", device->ops->description);
	link = link_get(device);
	r = device->ops->device_query(link->backend, info);
	link_put(device, link);
	return backend_explain(device->ops, said, r, "device_query");
}

int device_query(struct hm_device *device, struct hm_device_info *ret_info)
{
	struct hm_device_info info;
	int r;

	r = object_check((struct hm_object *)device, OBJECT_DEVICE);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_device_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_device_info, memory_total), "hm_device_info");
	if (r)
		return r;
	r = device_loss_notice(device, query(device, &info));
	if (!r)
		struct_write(ret_info, &info, ret_info->struct_size);
	return r;
}

int hm_device_query(struct hm_device *device, struct hm_device_info *ret_info)
{
	err_begin();
	return device_query(device, ret_info);
}

struct listing {
	struct hm_device_info *infos;
	uint32_t capacity, stride; /* bytes from one to the next */
	uint32_t n;
};

static int list_one(void *user, const char *name)
{
	struct listing *listing = user;
	struct hm_device_info info, *to;
	struct hm_device *device;
	int r;

	r = device_open(name, &device);
	if (!r) {
		r = query(device, &info);
		hm_device_unref(device);
	}
	if (r == -ENOMEM)
		return r;
	if (r) { /* the device exists, but this process can't use it */
		err_clear();
		return 0;
	}
	if (listing->n < listing->capacity) {
		to = (struct hm_device_info *)((char *)listing->infos +
					       (size_t)listing->n * listing->stride);
		to->struct_size = listing->stride;
		struct_write(to, &info, listing->stride);
	}
	listing->n++;
	return 0;
}

int hm_device_list(struct hm_device_info *infos, uint32_t capacity, uint32_t *ret_n)
{
	struct listing listing = { infos, capacity, 0, 0 };
	int r;

	err_begin();
	if (!ret_n || (capacity && !infos))
		return err_set(-EINVAL, "hm_device_list: %s is NULL",
			       ret_n ? "infos" : "ret_n");
	if (capacity) {
		listing.stride = infos[0].struct_size;
		r = struct_check_out(listing.stride, sizeof(*infos),
				     offsetof(struct hm_device_info, memory_total),
				     "hm_device_info");
		if (r)
			return r;
	}
	r = each_device(list_one, &listing);
	if (r)
		return r;
	*ret_n = listing.n;
	return 0;
}
