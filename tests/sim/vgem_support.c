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
