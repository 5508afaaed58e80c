// SPDX-License-Identifier: MIT
/*
 * Syncobjs, and the sync_files that go in and out of them. drivers/gpu/drm/drm_syncobj.c,
 * drivers/dma-buf/sync_file.c
 *
 * A fence is only a flag, whether its work is done, which never changes: a sync_file is a memfd
 * that has it in its name. A poll finds it ready, and its reader looks at the flag.
 */
#include <errno.h>
#include <linux/sync_file.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <drm.h>

#include "fake.h"

#define SYNC_FILE_NAME "fake_sync_file"
#define POINTS_MAX 16

struct fake_syncobj {
	/* One fence, of point 0; or a chain, by points (dma_fence_chain). None: n is 0. */
	unsigned int n;
	bool chain;
	uint64_t point[POINTS_MAX];
	bool done[POINTS_MAX];
};

static bool has_syncobj(const struct fake_file *file)
{
	return fake_drivers[file->node]->syncobj;
}

static bool has_timeline(const struct fake_file *file)
{
	return fake_drivers[file->node]->timeline;
}

/* ---- fences ---- */

/* drm_syncobj_replace_fence */
static void replace_fence(struct fake_syncobj *syncobj, bool done)
{
	syncobj->n = 1;
	syncobj->chain = false;
	syncobj->point[0] = 0;
	syncobj->done[0] = done;
}

/* drm_syncobj_add_point; dma_fence_chain_init: a point out of order gets the last number */
static void add_point(struct fake_syncobj *syncobj, uint64_t point, bool done)
{
	unsigned int n = syncobj->n;

	if (n == POINTS_MAX)
		abort(); /* no test adds as many */
	if (syncobj->chain && syncobj->point[n - 1] > point)
		point = syncobj->point[n - 1];
	syncobj->point[n] = point;
	syncobj->done[n] = done;
	syncobj->chain = true;
	syncobj->n++;
}

/* drm_syncobj_find_fence; dma_fence_chain_find_seqno: the first from @point on, and before */
static int find_fence(const struct fake_syncobj *syncobj, uint64_t point, bool *ret_done)
{
	unsigned int i;

	if (!syncobj)
		return -ENOENT;
	if (!syncobj->n)
		return -EINVAL;
	if (point && (!syncobj->chain || syncobj->point[syncobj->n - 1] < point))
		return -EINVAL;
	*ret_done = true;
	for (i = 0; i < syncobj->n; i++) {
		*ret_done &= syncobj->done[i];
		if (point && syncobj->point[i] >= point)
			break;
	}
	return 0;
}

/* ---- sync_files ---- */

bool fake_is_sync_file(int fd, unsigned int *ret_done)
{
	return fake_is_named(fd, "/memfd:" SYNC_FILE_NAME "%u", ret_done);
}

int fake_sync_file_new(bool done)
{
	return fake_memory_new(SYNC_FILE_NAME, done);
}

/* sync_file.c, sync_file_ioctl_fence_info */
int fake_sync_file_ioctl(unsigned long cmd, void *argument, bool done)
{
	struct sync_file_info info;

	if (cmd != SYNC_IOC_FILE_INFO)
		return -ENOTTY;
	if (fake_read("sync_file_info", &info, (uintptr_t)argument, sizeof(info)))
		return -EFAULT;
	if (info.flags || info.pad)
		return -EINVAL;
	/* Without room the one fence is not reported. */
	if (info.num_fences)
		return -EFAULT;
	info.status = done;
	info.num_fences = 1;
	return fake_write((uintptr_t)argument, &info, sizeof(info));
}

/* ---- handles ---- */

static struct fake_syncobj *find(const struct fake_file *file, uint32_t handle)
{
	return handle && handle <= FAKE_SYNCOBJS ? file->syncobjs[handle - 1] : NULL;
}

unsigned int fake_syncobjs(const struct fake_file *file)
{
	unsigned int n = 0, i;

	for (i = 0; i < FAKE_SYNCOBJS; i++)
		n += !!file->syncobjs[i];
	return n;
}

/* drm_syncobj_release */
void fake_syncobjs_release(struct fake_file *file)
{
	unsigned int i;

	for (i = 0; i < FAKE_SYNCOBJS; i++)
		free(file->syncobjs[i]);
}

/* drm_syncobj_create_ioctl; drm_syncobj_get_handle: the lowest that is free, from 1 */
int fake_syncobj_create_call(struct fake_file *file, void *data)
{
	struct drm_syncobj_create *args = data;
	struct fake_syncobj *syncobj;
	uint32_t i;

	if (!has_syncobj(file))
		return -EOPNOTSUPP;
	if (args->flags & ~(uint32_t)DRM_SYNCOBJ_CREATE_SIGNALED)
		return -EINVAL;
	for (i = 0; i < FAKE_SYNCOBJS && file->syncobjs[i]; i++)
		;
	syncobj = i < FAKE_SYNCOBJS ? calloc(1, sizeof(*syncobj)) : NULL;
	if (!syncobj)
		return -ENOMEM;
	if (args->flags & DRM_SYNCOBJ_CREATE_SIGNALED)
		replace_fence(syncobj, true);
	file->syncobjs[i] = syncobj;
	args->handle = i + 1;
	fake_trace("syncobj flags %x\n", args->flags);
	return 0;
}

/* drm_syncobj_destroy_ioctl and drm_syncobj_destroy */
int fake_syncobj_destroy_call(struct fake_file *file, void *data)
{
	const struct drm_syncobj_destroy *args = data;
	struct fake_syncobj *syncobj = find(file, args->handle);

	if (!has_syncobj(file))
		return -EOPNOTSUPP;
	if (args->pad || !syncobj)
		return -EINVAL;
	file->syncobjs[args->handle - 1] = NULL;
	free(syncobj);
	fake_trace("syncobj ends\n");
	return 0;
}

/* drm_syncobj_handle_to_fd_ioctl; drm_syncobj_export_sync_file, drm_syncobj_handle_to_fd */
int fake_syncobj_to_fd_call(struct fake_file *file, void *data)
{
	struct drm_syncobj_handle *args = data;
	struct fake_syncobj *syncobj = find(file, args->handle);
	bool done = false;
	int fd, r;

	if (!has_syncobj(file))
		return -EOPNOTSUPP;
	if (args->pad)
		return -EINVAL;
	if (args->flags & ~(uint32_t)DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE)
		return -EINVAL;
	if (!args->flags) {
		/* All of it as a descriptor, which is no sync_file: no row asks for one. */
		if (!syncobj)
			return -EINVAL;
		fd = fake_memory_new("fake_syncobj", 0);
	} else {
		r = find_fence(syncobj, 0, &done);
		if (r)
			return r;
		fd = fake_sync_file_new(done);
	}
	if (fd < 0)
		return -EMFILE;
	args->fd = fd;
	fake_trace("syncobj to fd flags %x, %s\n", args->flags, done ? "done" : "goes on");
	return 0;
}

/* drm_syncobj_fd_to_handle_ioctl; drm_syncobj_import_sync_file_fence */
int fake_syncobj_from_fd_call(struct fake_file *file, void *data)
{
	const struct drm_syncobj_handle *args = data;
	struct fake_syncobj *syncobj = find(file, args->handle);
	unsigned int done;

	if (!has_syncobj(file))
		return -EOPNOTSUPP;
	if (args->pad)
		return -EINVAL;
	/* 0 is known, too: of a syncobj's descriptor, which none is here. */
	if (args->flags != DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE)
		return -EINVAL;
	if (!fake_is_sync_file(args->fd, &done))
		return -EINVAL;
	if (!syncobj)
		return -ENOENT;
	replace_fence(syncobj, done);
	fake_trace("syncobj from fd, %s\n", done ? "done" : "goes on");
	return 0;
}

/*
 * drm_syncobj_transfer_ioctl, drm_syncobj_transfer_to_timeline and _to_binary. Of the flags,
 * drm_syncobj_find_fence() looks at WAIT_FOR_SUBMIT, where there is no fence yet.
 */
int fake_syncobj_transfer_call(struct fake_file *file, void *data)
{
	const struct drm_syncobj_transfer *args = data;
	struct fake_syncobj *to = find(file, args->dst_handle);
	bool done;
	int r;

	if (!has_timeline(file))
		return -EOPNOTSUPP;
	if (args->pad)
		return -EINVAL;
	if (!to)
		return -ENOENT;
	r = find_fence(find(file, args->src_handle), args->src_point, &done);
	if (r)
		return r;
	if (args->dst_point)
		add_point(to, args->dst_point, done);
	else
		replace_fence(to, done);
	fake_trace("syncobj point %llu to point %llu, %s\n",
		   (unsigned long long)args->src_point, (unsigned long long)args->dst_point,
		   done ? "done" : "goes on");
	return 0;
}

/* drm_syncobj_array_find: of one handle, which is all that a row sends */
static int array_find(const struct fake_file *file, uint64_t handles, uint32_t n,
		      struct fake_syncobj **ret_syncobj)
{
	uint32_t handle;

	/* "== 0" there; of two the second would be anything here. */
	if (n != 1)
		return -EINVAL;
	if (fake_read("drm_syncobj handles", &handle, handles, sizeof(handle)))
		return -EFAULT;
	*ret_syncobj = find(file, handle);
	return *ret_syncobj ? 0 : -ENOENT;
}

/* drm_syncobj_signal_ioctl; drm_syncobj_assign_null_handle */
int fake_syncobj_signal_call(struct fake_file *file, void *data)
{
	const struct drm_syncobj_array *args = data;
	struct fake_syncobj *syncobj;
	int r;

	if (!has_syncobj(file))
		return -EOPNOTSUPP;
	if (args->pad)
		return -EINVAL;
	r = array_find(file, args->handles, args->count_handles, &syncobj);
	if (r)
		return r;
	replace_fence(syncobj, true);
	fake_trace("syncobj signalled\n");
	return 0;
}

/* drm_syncobj_timeline_signal_ioctl: without points, of point 0 */
int fake_syncobj_timeline_signal_call(struct fake_file *file, void *data)
{
	const struct drm_syncobj_timeline_array *args = data;
	struct fake_syncobj *syncobj;
	uint64_t point = 0;
	int r;

	if (!has_timeline(file))
		return -EOPNOTSUPP;
	if (args->flags)
		return -EINVAL;
	r = array_find(file, args->handles, args->count_handles, &syncobj);
	if (r)
		return r;
	if (args->points &&
	    fake_read("drm_syncobj points", &point, args->points, sizeof(point)))
		return -EFAULT;
	add_point(syncobj, point, true);
	fake_trace("syncobj point %llu signalled\n", (unsigned long long)point);
	return 0;
}
