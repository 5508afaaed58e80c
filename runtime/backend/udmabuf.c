// SPDX-License-Identifier: MIT
/*
 * Backend "udmabuf": this machine's memory for other devices. A buffer is like one of the
 * host's, a sealed memfd that CPUs reach through their caches, and is exported as a dma-buf.
 */
#include <errno.h>

#include "backend/host.h"
#include "core/core.h"
#include "dmabuf/dmabuf.h"
#include "dmabuf/udmabuf.h"

/* Capabilities of the host that are missing here. */
#define NOT_HERE (HM_CAP_PRIVATE | HM_CAP_HUGETLB | HM_CAP_READ_ONLY)

#define UDMABUF_CAPS                                                                         \
	(HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT | HM_CAP_RESIZE | HM_CAP_APPEND |     \
	 HM_CAP_REPLACE | HM_CAP_NUMA | HM_CAP_LOCK | HM_CAP_PROTECT | HM_CAP_POPULATE |     \
	 HM_CAP_FORK | HM_CAP_MULTI_MAP | HM_CAP_CONTIGUOUS | HM_CAP_WRITE | HM_CAP_DMABUF | \
	 DMABUF_BRACKET_CAPS)

static int device_open(const char *rest, void **ret_device)
{
	int r;

	if (*rest)
		return err_set(-ENODEV,
			       "there is no device \"udmabuf:%s\": the name is \"udmabuf\"",
			       rest);
	r = udmabuf_check();
	if (!r)
		*ret_device = NULL;
	return r;
}

static void device_close(void *device)
{
	(void)device;
}

static int create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	int r = host_backend.create(device, desc, ret_recipe);

	if (!r)
		ret_recipe->caps = (ret_recipe->caps & ~NOT_HERE) | HM_CAP_DMABUF;
	return r;
}

static int import_fd(void *device, int fd, const struct hm_buffer_desc *desc,
		     struct hm_recipe *ret_recipe)
{
	(void)device;
	return dmabuf_import(fd, desc, ret_recipe);
}

static int export_fd(void *device, const struct hm_segment *segment, uint32_t flags,
		     int *ret_fd)
{
	return host_backend.export_fd(device, segment, flags | HM_EXPORT_DMABUF, ret_fd);
}

static int device_query(void *device, struct hm_device_info *info)
{
	return host_backend.device_query(device, info);
}

static int resize(void *device, struct hm_segment *segment, uint64_t old_size,
		  uint64_t new_size)
{
	return host_backend.resize(device, segment, old_size, new_size);
}

static void object_destroy(void *device, struct hm_segment *segment)
{
	host_backend.object_destroy(device, segment);
}

const struct hm_backend_ops udmabuf_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "udmabuf",
	.description = "memory of this machine that leaves as dma-bufs",
	.caps = UDMABUF_CAPS,
	.device_open = device_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = create,
	.import_fd = import_fd,
	.export_fd = export_fd,
	.resize = resize,
	.begin_cpu = dmabuf_segments_begin,
	.end_cpu = dmabuf_segments_end,
};
