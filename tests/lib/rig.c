// SPDX-License-Identifier: MIT
/* A device, a buffer, a map: what most tests begin with. */
#include "lib/rig.h"

struct hm_device *rig_device(const char *name)
{
	struct hm_device *device = NULL;

	CHECK_OK_FATAL(hm_device_open(name, &device));
	return device;
}

struct hm_buffer *rig_buffer(struct hm_device *device, const struct hm_buffer_desc *desc)
{
	struct hm_buffer *buffer = NULL;

	CHECK_OK_FATAL(hm_buffer_create(device, desc, &buffer));
	return buffer;
}

struct hm_map *rig_map(struct hm_buffer *buffer, const struct hm_map_desc *desc)
{
	struct hm_map *map = NULL;

	CHECK_OK_FATAL(hm_map_create(buffer, desc, &map));
	return map;
}

struct hm_buffer *rig_file(struct hm_device *device, const char *path, int fd,
			   const struct hm_buffer_desc *desc)
{
	struct hm_buffer *buffer = NULL;

	CHECK_OK_FATAL(hm_buffer_from_file(device, path, fd, desc, &buffer));
	return buffer;
}

struct hm_buffer *rig_import(struct hm_device *device, int fd,
			     const struct hm_buffer_desc *desc)
{
	struct hm_buffer *buffer = NULL;

	CHECK_OK_FATAL(hm_buffer_import(device, fd, desc, &buffer));
	return buffer;
}

struct hm_accel *rig_accel(const char *name, const struct hm_accel_desc *desc)
{
	struct hm_accel *accel = NULL;

	CHECK_OK_FATAL(hm_accel_open(name, desc, &accel));
	return accel;
}

struct hm_queue *rig_queue(struct hm_accel *accel, uint32_t flags)
{
	struct hm_queue *queue = NULL;

	CHECK_OK_FATAL(hm_queue_create(accel, flags, &queue));
	return queue;
}

struct hm_kernel *rig_kernel(const struct hm_kernel_desc *desc)
{
	struct hm_kernel *kernel = NULL;

	CHECK_OK_FATAL(hm_kernel_create(desc, &kernel));
	return kernel;
}

struct hm_fence *rig_fence(int fd)
{
	struct hm_fence *fence = NULL;

	CHECK_OK_FATAL(hm_fence_import_fd(fd, &fence));
	return fence;
}

struct hm_frame_pool *rig_frame_pool(struct hm_device *device,
				     const struct hm_frame_pool_desc *desc)
{
	struct hm_frame_pool *pool = NULL;

	CHECK_OK_FATAL(hm_frame_pool_create(device, desc, &pool));
	return pool;
}

struct rig rig_make(const char *device, const struct hm_buffer_desc *desc)
{
	struct rig rig = { .device = rig_device(device) };

	rig.buffer = rig_buffer(rig.device, desc);
	rig.map = rig_map(rig.buffer, NULL);
	rig.bytes = hm_map_address(rig.map);
	return rig;
}

void rig_drop(struct rig *rig)
{
	hm_map_unref(rig->map);
	hm_buffer_unref(rig->buffer);
	hm_device_unref(rig->device);
	*rig = (struct rig){ 0 };
}

struct rig_handler rig_handler(uint32_t flags)
{
	CHECK_OK_FATAL(hm_handler_install(flags));
	return (struct rig_handler){ flags };
}
