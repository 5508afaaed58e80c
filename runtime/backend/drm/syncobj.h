/* SPDX-License-Identifier: MIT */
/* Fences of DRM drivers: a syncobj holds one, and a sync_file carries it out and in. */
#ifndef HETMAP_DRM_SYNCOBJ_H
#define HETMAP_DRM_SYNCOBJ_H

#include <stdint.h>

/*
 * @node is an open DRM node, @handle a syncobj of it.
 * Errors:
 *   -EOPNOTSUPP the driver has no syncobjs
 *   -ENOENT no such handle
 *   -EINVAL the syncobj holds no fence yet
 */
int drm_syncobj_to_sync_file(int node, uint32_t handle, int *ret_fd);
/* Makes the syncobj hold the fence of @sync_file, which stays the caller's. */
int drm_syncobj_from_sync_file(int node, uint32_t handle, int sync_file);

/* The same for a point of a timeline, by a temporary syncobj. */
int drm_syncobj_point_to_sync_file(int node, uint32_t handle, uint64_t point, int *ret_fd);
int drm_syncobj_point_from_sync_file(int node, uint32_t handle, uint64_t point, int sync_file);

/* Leaves the syncobj, or its @point if that is not 0, as work that has completed does. */
int drm_syncobj_signal(int node, uint32_t handle, uint64_t point);

#endif
