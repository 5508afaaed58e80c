// SPDX-License-Identifier: MIT
/* Public functions of discovery. */
#include <hetmap/drm.h>

#include <drm.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"

#include "backend/drm/drm.h"

/* From the table alone: card nodes stay closed. Only those make dumb buffers. */
static uint64_t caps_of(const struct drm_found *found)
{
	const struct drm_driver *driver = drm_driver_of(found->driver, false);

	return driver && (found->primary || driver != &drm_dumb) ? driver->caps : 0;
}

static bool is_experimental(const struct drm_found *found)
{
	const struct drm_driver *driver = drm_driver_of(found->driver, false);

	return driver && driver->experimental;
}

static bool has_cap(const struct drm_node *node, uint64_t capability)
{
	struct drm_get_cap cap = { .capability = capability };

	return !sys_ioctl_again(node->fd, DRM_IOCTL_GET_CAP, &cap) && cap.value;
}

/*
 * Asks a render node for its capabilities. Opening it as a device will tell a failure's reason.
 */
static void ask(struct hm_drm_node *node)
{
	struct drm_node *opened;

	if (node->primary || node->error)
		return;
	if (drm_node_get(node->path, &opened)) {
		err_clear();
		return;
	}
	node->memory = opened->vram_total;
	node->memory_visible = opened->vram_visible;
	node->memory_system = opened->system_total;
	node->features |= (opened->driver->wait ? HM_DRM_WAIT : 0) |
			  (opened->driver->userptr ? HM_DRM_USERPTR : 0) |
			  (has_cap(opened, DRM_CAP_SYNCOBJ) ? HM_DRM_SYNCOBJ : 0) |
			  (has_cap(opened, DRM_CAP_SYNCOBJ_TIMELINE) ? HM_DRM_TIMELINE : 0);
	drm_node_put(opened);
}

static struct hm_drm_node public_of(const struct drm_found *found)
{
	struct hm_drm_node node = {
		.primary = found->primary,
		.vendor = found->vendor,
		.device = found->device,
		.numa_node = found->numa_node,
		.error = found->error,
		.caps = caps_of(found),
		.features = is_experimental(found) ? HM_DRM_EXPERIMENTAL : 0,
	};

	memcpy(node.path, found->path, sizeof(node.path));
	memcpy(node.driver, found->driver, sizeof(node.driver));
	memcpy(node.version, found->version, sizeof(node.version));
	memcpy(node.bus, found->bus, sizeof(node.bus));
	memcpy(node.address, found->address, sizeof(node.address));
	memcpy(node.remedy, found->remedy, sizeof(node.remedy));
	ask(&node);
	return node;
}

int hm_drm_list(struct hm_drm_node *nodes, uint32_t capacity, uint32_t *ret_n)
{
	struct hm_drm_node node, *to;
	struct drm_found *found;
	uint32_t i, n, stride = 0;
	int r;

	err_begin();
	if (!ret_n || (capacity && !nodes))
		return err_set(-EINVAL, "hm_drm_list: %s is NULL", ret_n ? "nodes" : "ret_n");
	if (capacity) {
		stride = nodes[0].struct_size;
		r = struct_check_out(stride, sizeof(node), offsetof(struct hm_drm_node, remedy),
				     "hm_drm_node");
		if (r)
			return r;
	}
	r = drm_discover(&found, &n);
	if (r)
		return r;
	for (i = 0; i < n && i < capacity; i++) {
		node = public_of(&found[i]);
		to = (struct hm_drm_node *)((char *)nodes + (size_t)i * stride);
		to->struct_size = stride;
		struct_write(to, &node, stride);
	}
	free(found);
	*ret_n = n;
	return 0;
}
