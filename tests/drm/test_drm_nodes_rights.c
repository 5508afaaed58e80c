// SPDX-License-Identifier: MIT
/* The right to write to exports of a DRM node of a real kernel. */
#include <drm.h>
#include <drm_mode.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drm/drm_support.h"

#define SIZE (16 * 4096ull)

static struct hm_buffer *make(struct hm_device *device)
{
	return rig_buffer(device, DESC(hm_buffer_desc, .size = SIZE));
}

/* The kernel keeps one dma-buf of an object, with the rights of the first time. */
static void rights_of_exports(void)
{
	AUTO(hm_device) *device = rig_device("drm:virtio_gpu");
	struct hm_buffer *buffer = make(device), *other = NULL;
	struct hm_map *map;
	int fd, none = -7;

	fd = drm_export_read_only(buffer);
	CHECK_ERROR(-EBUSY, hm_buffer_export(buffer, 0, &none));
	CHECK(strstr(hm_errmsg(), "read-only first"));
	CHECK_ERROR(-EACCES, hm_buffer_import(device, fd, NULL, &other));
	CHECK(!other && none == -7);
	other = rig_import(device, fd, DESC(hm_buffer_desc, .flags = HM_BUFFER_READ_ONLY));
	CHECK_OK_FATAL(hm_map_create(other, NULL, &map));
	CHECK_EQUAL(test_write_signal(hm_map_address(map)), SIGSEGV);
	CHECK_ERROR(-EACCES, hm_map_protect(map, 0, SIZE, HM_READ | HM_WRITE));
	hm_map_unref(map);
	hm_buffer_unref(other);
	hm_buffer_unref(buffer);
	close(fd);
	buffer = make(device);
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, HM_EXPORT_READ_ONLY, &none));
	CHECK(none == -7);
	hm_buffer_unref(buffer);
	close(fd);
}

/* Why nothing here is shared read-only: a process that may open the node can write to it. */
static void reading_is_no_right(void)
{
	struct drm_prime_handle prime = { .fd = -1 };
	struct drm_mode_map_dumb map = { .handle = 0 };
	char name[80];
	char *bytes;
	int fd, node;
	AUTO(hm_device) *device = rig_device(drm_vgem_name(name, sizeof(name)));
	AUTO(hm_buffer) *buffer = make(device);

	fd = drm_export_read_only(buffer);
	CHECK(mmap(NULL, SIZE, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	node = open(name + strlen("drm:"), O_RDWR | O_CLOEXEC);
	CHECK_FATAL(node >= 0);
	prime.fd = fd;
	CHECK_FATAL(!ioctl(node, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime));
	map.handle = prime.handle;
	CHECK_FATAL(!ioctl(node, DRM_IOCTL_MODE_MAP_DUMB, &map));
	bytes = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, node, (off_t)map.offset);
	CHECK_FATAL(bytes != MAP_FAILED);
	CHECK_EQUAL(test_write_signal(bytes), 0);
	munmap(bytes, SIZE);
	close(node);
	close(fd);
}

static const struct test tests[] = {
	{ "rights_of_exports", rights_of_exports, 0, 0 },
	{ "reading_is_no_right", reading_is_no_right, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "drm_nodes_rights", tests)
