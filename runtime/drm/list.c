// SPDX-License-Identifier: MIT
/* The public side of discovery. */
#include <hetmap/drm.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"
#include "util.h"

#include "drm/drm.h"

/* By the table alone: card nodes stay closed. Dumb buffers are made on those only. */
static uint64_t caps_of(const struct drm_found *found)
{
	const struct drm_driver *driver = drm_driver_of(found->driver, false);

	return driver && (found->primary || driver != &drm_dumb) ? driver->caps : 0;
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
	};

	memcpy(node.path, found->path, sizeof(node.path));
	memcpy(node.driver, found->driver, sizeof(node.driver));
	memcpy(node.version, found->version, sizeof(node.version));
	memcpy(node.bus, found->bus, sizeof(node.bus));
	memcpy(node.address, found->address, sizeof(node.address));
	memcpy(node.remedy, found->remedy, sizeof(node.remedy));
	return node;
}

int hm_drm_list(struct hm_drm_node *nodes, uint32_t capacity, uint32_t *ret_n)
{
	struct hm_drm_node node, *to;
	struct drm_found *found;
	uint32_t i, n, stride = 0;
	int r;

	err_clear();
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
