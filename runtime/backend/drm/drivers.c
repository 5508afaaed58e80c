// SPDX-License-Identifier: MIT
/* The table of drivers. A further driver is a row here, and a file of its own. */
#include <string.h>

#include "base/util.h"

#include "backend/drm/drm.h"

static const struct drm_driver *const drivers[] = {
	&drm_amdgpu, &drm_i915, &drm_nouveau, &drm_virtio_gpu, &drm_xe, &drm_dumb,
};

const struct drm_driver *drm_driver_at(uint32_t index)
{
	return index < ARRAY_SIZE(drivers) ? drivers[index] : NULL;
}

const struct drm_driver *drm_driver_of(const char *name, bool has_dumb)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(drivers); i++)
		if (!strcmp(drivers[i]->name, name))
			return drivers[i];
	return has_dumb ? &drm_dumb : NULL;
}
