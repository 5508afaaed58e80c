// SPDX-License-Identifier: MIT
/*
 * Syncobjs: handles of fences that DRM drivers wait for and signal. The ioctls are those of
 * drmSyncobjExportSyncFile() and drmSyncobjImportSyncFile() [drm_syncobj.c]. A point of a
 * timeline goes through a temporary syncobj of its own.
 */
#include "backend/drm/syncobj.h"

#include <drm.h>
#include <errno.h>

#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"

/* Tries before an EINTR or EAGAIN is returned: signals may come in bursts. */
#define RETRIES 100

static int call(int node, unsigned long cmd, void *argument)
{
	int tries = 0, r;

	do {
		r = sys_ioctl(node, cmd, argument);
	} while ((r == -EINTR || r == -EAGAIN) && ++tries < RETRIES);
	return r;
}

static const struct {
	int error;
	const char *cause;
} causes[] = {
	{ -EOPNOTSUPP, "the node's driver has no syncobjs, or no timelines (DRM_CAP_SYNCOBJ, "
		       "DRM_CAP_SYNCOBJ_TIMELINE): use a dma-buf's fences" },
	{ -ENOENT, "the node has no such handle: handles of another open file don't count" },
	{ -EINVAL, "the syncobj holds no fence yet, or none for that point (import after the "
		   "work was submitted), or takes none for that point" },
	{ -ENOTTY, "the descriptor is of no DRM node" },
};

static int explain(int r, const char *what, uint32_t handle)
{
	const char *cause = err_name(r);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(causes); i++)
		if (causes[i].error == r)
			cause = causes[i].cause;
	return err_set(r, "%s syncobj %u: %s", what, handle, cause);
}

int drm_syncobj_to_sync_file(int node, uint32_t handle, int *ret_fd)
{
	struct drm_syncobj_handle ask = {
		.handle = handle,
		.flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE,
		.fd = -1,
	};
	int r = call(node, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &ask);

	if (r)
		return explain(r, "a sync_file from", handle);
	*ret_fd = ask.fd;
	return 0;
}

int drm_syncobj_from_sync_file(int node, uint32_t handle, int sync_file)
{
	struct drm_syncobj_handle ask = {
		.handle = handle,
		.flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE,
		.fd = sync_file,
	};
	int r = call(node, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &ask);

	return r ? explain(r, "a sync_file into", handle) : 0;
}

/* ---- points of timelines ---- */

static int transfer(int node, uint32_t from, uint64_t from_point, uint32_t to,
		    uint64_t to_point)
{
	struct drm_syncobj_transfer ask = {
		.src_handle = from,
		.dst_handle = to,
		.src_point = from_point,
		.dst_point = to_point,
	};

	return call(node, DRM_IOCTL_SYNCOBJ_TRANSFER, &ask);
}

static int make(int node, uint32_t *ret_handle)
{
	struct drm_syncobj_create ask = { .handle = 0 };
	int r = call(node, DRM_IOCTL_SYNCOBJ_CREATE, &ask);

	if (!r)
		*ret_handle = ask.handle;
	return r;
}

static void end(int node, uint32_t handle)
{
	struct drm_syncobj_destroy ask = { .handle = handle };

	call(node, DRM_IOCTL_SYNCOBJ_DESTROY, &ask);
}

int drm_syncobj_point_to_sync_file(int node, uint32_t handle, uint64_t point, int *ret_fd)
{
	uint32_t own;
	int r;

	r = make(node, &own);
	if (r)
		return explain(r, "a point from", handle);
	r = transfer(node, handle, point, own, 0);
	if (r)
		explain(r, "a point from", handle);
	else
		r = drm_syncobj_to_sync_file(node, own, ret_fd);
	end(node, own);
	return r;
}

int drm_syncobj_point_from_sync_file(int node, uint32_t handle, uint64_t point, int sync_file)
{
	uint32_t own;
	int r;

	r = make(node, &own);
	if (r)
		return explain(r, "a point into", handle);
	r = drm_syncobj_from_sync_file(node, own, sync_file);
	if (!r) {
		r = transfer(node, own, 0, handle, point);
		if (r)
			explain(r, "a point into", handle);
	}
	end(node, own);
	return r;
}

int drm_syncobj_signal(int node, uint32_t handle, uint64_t point)
{
	struct drm_syncobj_array binary = {
		.handles = (uintptr_t)&handle,
		.count_handles = 1,
	};
	struct drm_syncobj_timeline_array timeline = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
	};
	int r = point ? call(node, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &timeline) :
			call(node, DRM_IOCTL_SYNCOBJ_SIGNAL, &binary);

	return r ? explain(r, "signalling", handle) : 0;
}
