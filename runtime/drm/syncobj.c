// SPDX-License-Identifier: MIT
/*
 * Syncobjs: what DRM drivers wait for and signal, by handle. The ioctls are those that
 * drmSyncobjExportSyncFile() and drmSyncobjImportSyncFile() make [drm_syncobj.c].
 */
#include "syncobj.h"

#include <drm.h>
#include <errno.h>

#include "err.h"
#include "sys.h"

/* Tries before an EINTR or EAGAIN is handed up: signals may come in bursts. */
#define RETRIES 100

static int call(int node, unsigned long cmd, struct drm_syncobj_handle *argument)
{
	int tries = 0, r;

	do {
		r = sys_ioctl(node, cmd, argument);
	} while ((r == -EINTR || r == -EAGAIN) && ++tries < RETRIES);
	return r;
}

static int explain(int r, uint32_t handle, const char *what)
{
	switch (r) {
	case -EOPNOTSUPP:
		return err_set(r, "this node's driver has no syncobjs: use a dma-buf's fences");
	case -ENOENT:
		return err_set(r, "the node has no syncobj %u", handle);
	default:
		return err_set(r, "%s syncobj %u: %s", what, handle, err_name(r));
	}
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
		return explain(r, handle, "a sync_file of");
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

	return r ? explain(r, handle, "a sync_file into") : 0;
}
