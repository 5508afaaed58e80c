// SPDX-License-Identifier: MIT
/* vgem, as another device: dma-bufs of its, and others' dma-bufs in it. */
#include "sim/vgem_support.h"

#include <drm.h>
#include <drm_mode.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/harness.h"

/* include/uapi/drm/vgem_drm.h of the kernel, which packages leave out. */
struct vgem_fence_attach {
	uint32_t handle, flags, out_fence, pad;
};

struct vgem_fence_signal {
	uint32_t fence, flags;
};

#define VGEM_FENCE_ATTACH DRM_IOWR(DRM_COMMAND_BASE + 0x1, struct vgem_fence_attach)
#define VGEM_FENCE_SIGNAL DRM_IOW(DRM_COMMAND_BASE + 0x2, struct vgem_fence_signal)
#define VGEM_FENCE_WRITE 1u

int vgem_open(void)
{
	char path[32], name[16];
	unsigned int i;

	for (i = 0; i < 16; i++) {
		struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/card%u", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		memset(name, 0, sizeof(name));
		if (!ioctl(fd, DRM_IOCTL_VERSION, &version) && strcmp(name, "vgem") == 0)
			return fd;
		close(fd);
	}
	return -1;
}

int vgem_make(int vgem, uint64_t bytes, uint32_t flags)
{
	/* Lines of a page. */
	struct drm_mode_create_dumb dumb = {
		.width = 1024,
		.height = (uint32_t)(bytes / 4096),
		.bpp = 32,
	};
	struct drm_prime_handle prime = { .flags = flags | DRM_CLOEXEC };
	struct drm_mode_destroy_dumb destroy = { 0 };

	CHECK_FATAL(ioctl(vgem, DRM_IOCTL_MODE_CREATE_DUMB, &dumb) == 0);
	CHECK_EQUAL(dumb.size, bytes);
	prime.handle = dumb.handle;
	CHECK_FATAL(ioctl(vgem, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime) == 0);
	destroy.handle = dumb.handle;
	CHECK_EQUAL(ioctl(vgem, DRM_IOCTL_MODE_DESTROY_DUMB, &destroy), 0);
	return prime.fd;
}

uint32_t vgem_fence_attach(int vgem, int dmabuf)
{
	struct drm_prime_handle prime = { .fd = dmabuf };
	struct vgem_fence_attach attach = { .flags = VGEM_FENCE_WRITE };
	struct drm_gem_close gone = { 0 };
	int r;

	CHECK_FATAL(ioctl(vgem, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime) == 0);
	attach.handle = gone.handle = prime.handle;
	r = ioctl(vgem, VGEM_FENCE_ATTACH, &attach);
	CHECK_EQUAL(ioctl(vgem, DRM_IOCTL_GEM_CLOSE, &gone), 0);
	return r ? 0 : attach.out_fence;
}

void vgem_fence_signal(int vgem, uint32_t fence)
{
	struct vgem_fence_signal signal = { .fence = fence };

	CHECK_EQUAL(ioctl(vgem, VGEM_FENCE_SIGNAL, &signal), 0);
}
