// SPDX-License-Identifier: MIT
/* Maps of every cache mode, for tests of copies and combines. */
#include "copy/copy_support.h"

#include <errno.h>
#include <hetmap/backend.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "lib/units.h"

/* The device "modes:N" is the number N. */
static int device_open(const char *rest, void **ret_device)
{
	*ret_device = (void *)(uintptr_t)atoi(rest);
	return 0;
}

static void device_close(void *device)
{
	(void)device;
}

static int device_query(void *device, struct hm_device_info *info)
{
	(void)device, (void)info;
	return 0;
}

static int create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	uint64_t length = (desc->max_size + PAGE - 1) / PAGE * PAGE;
	int fd = memfd_create("modes", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)length)) {
		close(fd);
		return -ENOMEM;
	}
	*ret_recipe = (struct hm_recipe){
		.segment = {
			.length = length,
			.fd = fd,
			.flags = HM_SEGMENT_SHARED,
		},
		.page_size = PAGE,
		.caps = HM_CAP_CONTIGUOUS | HM_CAP_WRITE,
		.access = HM_READ | HM_WRITE,
		.cache = (uint32_t)(uintptr_t)device,
	};
	return 0;
}

static void object_destroy(void *device, struct hm_segment *segment)
{
	(void)device;
	close(segment->fd);
}

static const struct hm_backend_ops modes_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "modes",
	.description = "memory of the cache mode that its name says",
	.caps = HM_CAP_CREATE | HM_CAP_CONTIGUOUS | HM_CAP_WRITE,
	.device_open = device_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = create,
};

struct rig device_map_open(const char *name, uint64_t size)
{
	return rig_make(name, DESC(hm_buffer_desc, .size = size));
}

struct rig mode_open(uint32_t cache, uint64_t size)
{
	char name[] = "modes:0";
	int r = hm_backend_register(&modes_backend);
	struct rig mode;

	CHECK(!r || r == -EEXIST);
	name[6] = (char)('0' + cache);
	mode = device_map_open(name, size);
	CHECK_EQUAL(map_info(mode.map, 0).cache, cache);
	return mode;
}

bool device_is_there(const char *name)
{
	AUTO(hm_device) *device = NULL;

	if (hm_device_open(name, &device))
		return false;
	return true;
}

struct hm_copy_info copy_info(const void *to, const void *from, uint64_t length, uint32_t flags)
{
	struct hm_copy_info info = { .struct_size = sizeof(info), .flags = flags };

	CHECK_OK_FATAL(hm_copy_query(to, from, length, &info));
	return info;
}

struct hm_combine_info combine_info(struct hm_combine *combine)
{
	struct hm_combine_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_combine_query(combine, &info));
	return info;
}
