// SPDX-License-Identifier: MIT
/* Peers of DRM nodes: bare libdrm, the drivers' ioctls, and mmap(). */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <virtgpu_drm.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

#include "bench.h"
#include "peer.h"

PEER_SOURCE(peer_drm_source);

int peer_drm_open(struct peer_drm *drm, const char *path, bool dumb)
{
	drm->dumb = dumb;
	drm->fd = open(path, O_RDWR | O_CLOEXEC);
	return drm->fd < 0 ? -errno : 0;
}

void peer_drm_close(struct peer_drm *drm)
{
	close(drm->fd);
}

/* ---- drm_map_cycle drm_reuse ---- */

static int create_dumb(int fd, size_t length, uint32_t *ret_handle, uint64_t *ret_offset)
{
	uint64_t size;
	uint32_t pitch;
	int r;

	r = drmModeCreateDumbBuffer(fd, 4096, (uint32_t)(length / 4096), 8, 0, ret_handle,
				    &pitch, &size);
	return r ? r : drmModeMapDumbBuffer(fd, *ret_handle, ret_offset);
}

static int create_virtio(int fd, size_t length, uint32_t *ret_handle, uint64_t *ret_offset)
{
	struct drm_virtgpu_resource_create create = {
		.target = 2, /* PIPE_TEXTURE_2D */
		.format = 1, /* VIRTIO_GPU_FORMAT_B8G8R8A8_UNORM */
		.width = 1,
		.height = 1,
		.depth = 1,
		.array_size = 1,
		.size = (uint32_t)length,
	};
	struct drm_virtgpu_map map = { 0 };

	if (drmIoctl(fd, DRM_IOCTL_VIRTGPU_RESOURCE_CREATE, &create))
		return -errno;
	map.handle = *ret_handle = create.bo_handle;
	if (drmIoctl(fd, DRM_IOCTL_VIRTGPU_MAP, &map))
		return -errno;
	*ret_offset = map.offset;
	return 0;
}

int peer_drm_cycle(const struct peer_drm *drm, size_t length, size_t stride)
{
	uint32_t handle = 0;
	uint64_t offset;
	char *address;
	int r;

	r = drm->dumb ? create_dumb(drm->fd, length, &handle, &offset) :
			create_virtio(drm->fd, length, &handle, &offset);
	if (r)
		return r;
	address =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, drm->fd, (off_t)offset);
	if (address == MAP_FAILED)
		return -errno;
	bench_touch(address, length, stride);
	munmap(address, length);
	return drmCloseBufferHandle(drm->fd, handle);
}
