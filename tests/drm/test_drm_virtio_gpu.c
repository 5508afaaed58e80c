// SPDX-License-Identifier: MIT
/* Specific to virtio_gpu: hosts with and without blobs, and their memory. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drm/drm_support.h"
#include "lib/support.h"
#include "base/util.h"

#define SIZE (64 * 1024ull)

static const struct fake_drm_control *fake;

/* By blobs where the host has them, and of its memory in a context of Venus only. */
static void virtio_hosts(void)
{
	struct drm_node *node = drm_open_fake(FAKE_VIRTIO);
	struct drm_object *object = (void *)0x10;
	void *mapped;

	fake->trace_clear();
	CHECK_ERROR(-EOPNOTSUPP, drm_object_create(node, SIZE, DRM_PLACE_VRAM, &object));
	CHECK(strstr(hm_errmsg(), "blob=on"));
	/* 2D: a picture of one pixel, and no more than 32 bits of size. */
	CHECK_ERROR(-ENOSPC, drm_object_create(node, GIB(4), DRM_PLACE_DEFAULT, &object));
	CHECK(strstr(hm_errmsg(), "blobs"));
	CHECK(object == (void *)0x10);
	CHECK_OK_FATAL(drm_object_create(node, SIZE, DRM_PLACE_DEFAULT, &object));
	CHECK(strstr(fake->trace(), "create 65536: 1x1 format 1"));
	drm_object_put(object);
	drm_node_put(node);

	fake->trace_clear();
	node = drm_open_fake(FAKE_VIRTIO_HOST);
	CHECK(strstr(fake->trace(), "context 4"));
	CHECK_OK_FATAL(drm_object_create(node, SIZE, DRM_PLACE_DEFAULT, &object));
	CHECK(strstr(fake->trace(), "blob 65536 memory 1 flags 7"));
	drm_object_put(object);
	CHECK_OK_FATAL(drm_object_create(node, SIZE, DRM_PLACE_VRAM, &object));
	CHECK(strstr(fake->trace(), "blob 65536 memory 2 flags 1 id 0 context 4"));
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, node->fd, (off_t)object->map_offset) ==
	      MAP_FAILED);
	CHECK_EQUAL(errno, EINVAL);
	mapped = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, node->fd, (off_t)object->map_offset);
	CHECK(mapped != MAP_FAILED && !munmap(mapped, SIZE));
	drm_object_put(object);
	/* More than the window. */
	CHECK_ERROR(-ENOSPC, drm_object_create(node, MIB(128), DRM_PLACE_VRAM, &object));
	drm_node_put(node);
}

/* A host blob that comes back is known as one; its cache mode the kernel does not tell. */
static void virtio_import(void)
{
	struct drm_node *node = drm_open_fake(FAKE_VIRTIO_HOST);
	struct drm_object *object;
	int fd;

	CHECK_OK_FATAL(drm_object_create(node, SIZE, DRM_PLACE_VRAM, &object));
	CHECK_OK_FATAL(drm_object_export(object, true, &fd));
	drm_object_put(object);
	CHECK_OK_FATAL(drm_object_import(node, fd, &object));
	CHECK_EQUAL(object->place, DRM_PLACE_VRAM);
	CHECK_EQUAL(object->cache, HM_CACHE_UNKNOWN);
	drm_object_put(object);
	close(fd);
	drm_node_put(node);
}

static const struct test tests[] = {
	{ "hosts", virtio_hosts, .seconds = 0 },
	{ "import", virtio_import, .seconds = 0 },
	{ 0 },
};

int main(int argc, char **argv)
{
	fake = drm_under_fake(argv);
	return harness_main(argc, argv, "drm_virtio_gpu", tests);
}
