/* SPDX-License-Identifier: MIT */
/* Fences of DRM drivers: a syncobj holds one, and a sync_file carries it out and in. */
#ifndef HETMAP_DRM_SYNCOBJ_H
#define HETMAP_DRM_SYNCOBJ_H

#include <stdint.h>

/*
 * @node is an open DRM node, @handle a syncobj of it. -EOPNOTSUPP: its driver has
 * none; -ENOENT: no such handle; -EINVAL: it holds no fence yet.
 */
int drm_syncobj_to_sync_file(int node, uint32_t handle, int *ret_fd);
/* It holds the fence of @sync_file from here on, which stays the caller's. */
int drm_syncobj_from_sync_file(int node, uint32_t handle, int sync_file);

#endif
