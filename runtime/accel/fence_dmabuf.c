// SPDX-License-Identifier: MIT
/*
 * The fences of a dma-buf that drivers wait for by themselves ("implicit synchronisation"), into
 * hm_fence and out of it [Documentation/driver-api/dma-buf.rst, linux/dma-buf.h].
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include <hetmap/fence.h>

#include "accel/accel.h"
#include "accel/sync_file.h"
#include "dmabuf/dmabuf.h"
#include "base/err.h"
#include "base/sys.h"

static int check(const char *function, int fd, uint32_t access)
{
	int r;

	if (!access || access & ~(HM_READ | HM_WRITE))
		return err_set(-EINVAL, "%s: access 0x%x: HM_READ, HM_WRITE or both", function,
			       access);
	if (dmabuf_is(fd))
		return 0;
	r = sys_fcntl(fd, F_GETFD, 0);
	if (r < 0)
		return err_set(r, "%s: descriptor %d: %s", function, fd, err_name(r));
	return err_set(-EINVAL,
		       "%s: descriptor %d is no dma-buf: hm_buffer_export() with "
		       "HM_EXPORT_DMABUF gives one",
		       function, fd);
}

/*
 * For kernels without sync_files of a dma-buf: it polls readable when no work that writes is
 * left, writable when no work is left [dma_buf_poll()]. Each poll looks at the present work, so
 * later work is waited for, too.
 */
static int import_polled(int fd, uint32_t access, struct hm_fence **ret_fence)
{
	int r = fence_import(fd, access & HM_WRITE ? POLLOUT : POLLIN, ret_fence);

	if (r)
		return err_prefix(r, "hm_fence_import_dmabuf: by poll()");
	err_warn("hm_fence_import_dmabuf: this kernel gives no sync_file of a dma-buf "
		 "(Linux 6.0 and later do): the fence polls the dma-buf, waits for "
		 "later work, too, reports no failure, and no driver takes it");
	return 0;
}

int hm_fence_import_dmabuf(int fd, uint32_t access, struct hm_fence **ret_fence)
{
	int r, sync_file;

	err_begin();
	if (!ret_fence)
		return err_set(-EINVAL, "hm_fence_import_dmabuf: ret_fence is NULL");
	r = check("hm_fence_import_dmabuf", fd, access);
	if (!r)
		r = dmabuf_export_fence(fd, access, &sync_file);
	if (r == -EOPNOTSUPP)
		return import_polled(fd, access, ret_fence);
	if (r)
		return r;
	r = fence_import(sync_file, POLLIN, ret_fence);
	sys_close(sync_file);
	return r;
}

int hm_fence_export_dmabuf(struct hm_fence *fence, int fd, uint32_t access)
{
	int r, sync_file;

	err_begin();
	r = sync_file_of(fence, "a dma-buf", &sync_file);
	if (r)
		return r;
	r = check("hm_fence_export_dmabuf", fd, access);
	/* Completed work needs no fence. */
	if (!r && sync_file >= 0)
		r = dmabuf_import_fence(fd, access, sync_file);
	if (sync_file >= 0)
		sys_close(sync_file);
	return r;
}
