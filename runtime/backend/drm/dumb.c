// SPDX-License-Identifier: MIT
/*
 * Dumb buffers: every driver of a screen has them, and so does vgem, without a screen. The
 * kernel makes them for openers of the card node [drm_ioctls[] in drm_ioctl.c].
 */
#include <drm.h>
#include <drm_mode.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xf86drm.h>

#include "base/err.h"
#include "base/util.h"

#include "backend/drm/drm.h"

/* A row of one-byte pixels is a page: the kernel makes exactly the requested length. */
#define ROW 4096
#define BITS_PER_PIXEL 8

static int dumb_open(struct drm_node *node)
{
	char *card;
	int r;

	if (node->primary)
		return 0;
	card = drmGetPrimaryDeviceNameFromFd(node->fd);
	r = err_set(-EACCES,
		    "drm:%s (%s): this driver makes buffers on its card node only: pass "
		    "\"drm:%s\"",
		    node->path, node->name, card ? card : "/dev/dri/cardN");
	free(card);
	return r;
}

/*
 * Cache mode of maps. Drivers choose write-combining or another mode, and don't tell. For vgem
 * it is known: it asks for write-combining of RAM, and x86 gives the mode that other maps of
 * that RAM have [vgem_gem_create_object(), track_pfn_insert()].
 */
static uint32_t cache_of(const struct drm_node *node)
{
	if (strcmp(node->name, drm_dumb.name) != 0)
		return HM_CACHE_UNKNOWN;
#if defined(__x86_64__)
	return HM_CACHE_WRITE_BACK;
#else
	return HM_CACHE_WRITE_COMBINING;
#endif
}

static void destroy(struct drm_node *node, uint32_t handle)
{
	struct drm_mode_destroy_dumb ask = { .handle = handle };

	drm_call(node, DRM_IOCTL_MODE_DESTROY_DUMB, &ask);
}

static int dumb_create(struct drm_node *node, uint64_t size, enum drm_place place,
		       struct drm_object *object)
{
	struct drm_mode_create_dumb create = {
		.width = ROW,
		.bpp = BITS_PER_PIXEL,
	};
	uint64_t rows = round_up(size, ROW) / ROW;
	int r;

	(void)place; /* the driver's choice */
	if (rows > UINT32_MAX / ROW)
		return err_set(-ENOSPC,
			       "drm:%s (%s): %" PRIu64 " bytes are more than a dumb buffer "
			       "can have, %" PRIu64 ": let it grow by HM_GROW_APPEND",
			       node->path, node->name, size,
			       (uint64_t)(UINT32_MAX / ROW) * ROW);
	create.height = (uint32_t)rows;
	r = drm_call(node, DRM_IOCTL_MODE_CREATE_DUMB, &create);
	if (r)
		return r;
	if (create.size < size) {
		destroy(node, create.handle);
		return err_set(-EIO, "drm:%s (%s): asked for %" PRIu64 " bytes, got %" PRIu64,
			       node->path, node->name, size, (uint64_t)create.size);
	}
	object->handle = create.handle;
	object->size = create.size;
	object->place = DRM_PLACE_DEFAULT;
	object->cache = cache_of(node);
	return 0;
}

static int dumb_map_offset(struct drm_object *object)
{
	struct drm_mode_map_dumb map = { .handle = object->handle };
	int r;

	r = drm_call(object->node, DRM_IOCTL_MODE_MAP_DUMB, &map);
	if (!r)
		object->map_offset = map.offset;
	return r;
}

static int dumb_describe(struct drm_object *object)
{
	object->cache = cache_of(object->node);
	return 0;
}

const struct drm_driver drm_dumb = {
	.name = "vgem",
	.description = "dumb buffers",
	.caps = HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT,
	.present = true,
	.open = dumb_open,
	.create = dumb_create,
	.map_offset = dumb_map_offset,
	.describe = dumb_describe,
};
