// SPDX-License-Identifier: MIT
/* Fences that go to DRM drivers as syncobjs, and come from them. */
#include <poll.h>

#include <hetmap/drm.h>

#include "accel/accel.h"
#include "accel/sync_file.h"
#include "backend/drm/syncobj.h"
#include "base/sys.h"

int hm_fence_import_syncobj(int fd, uint32_t handle, uint64_t point,
			    struct hm_fence **ret_fence)
{
	int r, sync_file;

	err_begin();
	if (!ret_fence)
		return err_set(-EINVAL, "hm_fence_import_syncobj: ret_fence is NULL");
	r = point ? drm_syncobj_point_to_sync_file(fd, handle, point, &sync_file) :
		    drm_syncobj_to_sync_file(fd, handle, &sync_file);
	if (r)
		return r;
	r = fence_import(sync_file, POLLIN, ret_fence);
	sys_close(sync_file);
	return r;
}

int hm_fence_export_syncobj(struct hm_fence *fence, int fd, uint32_t handle, uint64_t point)
{
	int r, sync_file;

	err_begin();
	r = sync_file_of(fence, "a syncobj", &sync_file);
	if (r)
		return r;
	if (sync_file < 0)
		return drm_syncobj_signal(fd, handle, point);
	r = point ? drm_syncobj_point_from_sync_file(fd, handle, point, sync_file) :
		    drm_syncobj_from_sync_file(fd, handle, sync_file);
	sys_close(sync_file);
	return r;
}
