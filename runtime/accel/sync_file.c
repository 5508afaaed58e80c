// SPDX-License-Identifier: MIT
/* The kernel's fences as descriptors. */
#include "accel/sync_file.h"

#include <errno.h>
#include <linux/sync_file.h>
#include <string.h>

#include <hetmap/fence.h>

#include "accel/accel.h"
#include "base/err.h"
#include "base/sys.h"

/* For any descriptor: other files don't know this request, and fail with various errnos. */
static int file_info(int fd, struct sync_file_info *info)
{
	memset(info, 0, sizeof(*info)); /* num_fences 0: the sum of all, no list */
	return sys_ioctl(fd, SYNC_IOC_FILE_INFO, info);
}

int sync_file_query(int fd, int *ret_status)
{
	struct sync_file_info info;
	int r = file_info(fd, &info);

	if (r)
		return r;
	/* 1: signalled, 0: active, or its error [linux/sync_file.h]. */
	*ret_status = info.status < 0 ? info.status : !info.status;
	return 0;
}

bool sync_file_is(int fd)
{
	struct sync_file_info info;

	return !file_info(fd, &info);
}

int sync_file_of(struct hm_fence *fence, const char *holder, int *ret_fd)
{
	int fd, r;

	r = fence_fd(fence, &fd);
	if (r)
		return r;
	if (!sync_file_is(fd)) {
		sys_close(fd);
		fd = -1;
		r = fence_wait_and_tell(fence, 0);
		if (r == -ETIME)
			return err_set(-EOPNOTSUPP,
				       "the fence's work has not ended, and no kernel driver "
				       "does it: %s can't hold the fence; wait for it first",
				       holder);
		if (r)
			return err_set(-EOPNOTSUPP,
				       "the fence's work has failed (%s), and %s can't carry "
				       "a failure: don't begin the work that depends on it",
				       err_name(r), holder);
	}
	*ret_fd = fd;
	return 0;
}

int sync_file_merge(int a, int b, int *ret_fd)
{
	struct sync_merge_data merge = { .name = "hetmap", .fd2 = b };
	int r = sys_ioctl(a, SYNC_IOC_MERGE, &merge);

	if (r)
		return r;
	*ret_fd = merge.fence;
	return 0;
}
