// SPDX-License-Identifier: MIT
/*
 * Backend "file": regular files, shared, private or read-only. The core opens the path; this
 * file turns a descriptor into a buffer.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "backend/file.h"
#include "core/core.h"
#include "map/map.h"
#include "base/memfd.h"
#include "base/rlimits.h"
#include "base/sys.h"

#define FILE_CAPS                                                                          \
	(HM_CAP_FROM_FILE | HM_CAP_EXPORT | HM_CAP_RESIZE | HM_CAP_PRIVATE | HM_CAP_LOCK | \
	 HM_CAP_PROTECT | HM_CAP_POPULATE | HM_CAP_SYNC | HM_CAP_FORK | HM_CAP_MULTI_MAP | \
	 HM_CAP_CONTIGUOUS | HM_CAP_WRITE | HM_CAP_READ_ONLY)

static int device_open(const char *rest, void **ret_device)
{
	if (*rest)
		return err_set(-ENODEV,
			       "there is no device \"file:%s\": the name is \"file\", "
			       "and the path goes to hm_buffer_from_file()",
			       rest);
	*ret_device = NULL;
	return 0;
}

static void device_close(void *device)
{
	(void)device;
}

static int device_query(void *device, struct hm_device_info *info)
{
	(void)device, (void)info;
	return 0;
}

/* Refuses files that can't be mapped, with the reason: -EINVAL, -ENODATA, and others. */
static int check_file(int fd, uint64_t offset, struct stat *ret_stat)
{
	int r;

	r = sys_fstat(fd, ret_stat);
	if (r)
		return err_set(r, "fstat: %s", err_name(r));
	if (S_ISDIR(ret_stat->st_mode))
		return err_set(-EISDIR, "it is a directory");
	if (!S_ISREG(ret_stat->st_mode))
		return err_set(-EINVAL,
			       "it is no regular file (%s): only regular files can be mapped "
			       "as buffers",
			       S_ISFIFO(ret_stat->st_mode) ? "a FIFO" :
			       S_ISCHR(ret_stat->st_mode)  ? "a character device" :
			       S_ISBLK(ret_stat->st_mode)  ? "a block device" :
							     "a socket");
	if (!ret_stat->st_size)
		return err_set(-ENODATA, "the file is empty: there is nothing to map");
	if (!is_aligned(offset, page_size()))
		return err_set(-EINVAL,
			       "offset %" PRIu64 " is not a multiple of the page size, "
			       "%" PRIu64,
			       offset, page_size());
	if (offset >= (uint64_t)ret_stat->st_size)
		return err_set(-EINVAL,
			       "offset %" PRIu64 " is not before the file's end, %" PRIu64,
			       offset, (uint64_t)ret_stat->st_size);
	return 0;
}

static int from_file(void *device, int fd, const struct hm_buffer_desc *desc,
		     struct hm_recipe *ret_recipe)
{
	bool private_copy = desc->flags & HM_BUFFER_PRIVATE;
	bool read_only = desc->flags & HM_BUFFER_READ_ONLY;
	uint64_t rest, size, capacity;
	struct stat st;
	int mode, r;

	(void)device;
	r = check_file(fd, desc->offset, &st);
	if (r)
		return r;
	rest = (uint64_t)st.st_size - desc->offset;
	size = desc->size ? desc->size : rest;
	if (size > rest)
		return err_set(-EINVAL,
			       "bytes %" PRIu64 " to %" PRIu64 " end beyond the file's "
			       "end, %" PRIu64,
			       desc->offset, desc->offset + size, (uint64_t)st.st_size);
	mode = sys_fcntl(fd, F_GETFL, 0);
	if (mode < 0)
		return err_set(mode, "F_GETFL: %s", err_name(mode));
	r = map_check_mode(mode);
	if (r)
		return r;
	if ((mode & O_ACCMODE) == O_RDONLY && !read_only && !private_copy)
		return err_set(-EACCES, "the descriptor is read-only: pass HM_BUFFER_READ_ONLY "
					"or HM_BUFFER_PRIVATE");

	if (!read_only && !private_copy && memfd_is_one_way(fd))
		return err_set(-EACCES, "a seal of the memory forbids to write it: pass "
					"HM_BUFFER_READ_ONLY or HM_BUFFER_PRIVATE");

	/* Only a buffer that ends at the file's end can grow or be cut. */
	capacity = max_u64(desc->max_size, size);
	*ret_recipe = (struct hm_recipe){
		.segment = {
			.length = round_up(capacity, page_size()),
			.fd = fd,
			.fd_offset = desc->offset,
			.flags = private_copy ? HM_SEGMENT_PRIVATE | HM_SEGMENT_NORESERVE :
						HM_SEGMENT_SHARED,
		},
		.size = size,
		.page_size = page_size(),
		.alignment = size >= MIB(2) ? MIB(2) : page_size(),
		.caps = FILE_CAPS & ~(HM_CAP_FROM_FILE | HM_CAP_PRIVATE),
		.access = read_only ? HM_READ : HM_READ | HM_WRITE,
		.memory = HM_MEMORY_STORAGE,
		.flags = desc->flags &
			 (HM_BUFFER_PRIVATE | HM_BUFFER_READ_ONLY | HM_BUFFER_PUBLISH),
	};
	if (private_copy)
		ret_recipe->caps &= ~(HM_CAP_EXPORT | HM_CAP_SYNC | HM_CAP_MULTI_MAP);
	if (read_only)
		ret_recipe->caps &= ~(HM_CAP_WRITE | HM_CAP_SYNC);
	if (private_copy || read_only || size != rest)
		ret_recipe->caps &= ~HM_CAP_RESIZE;
	return 0;
}

static int export_fd(void *device, const struct hm_segment *segment, uint32_t flags,
		     int *ret_fd)
{
	char path[32];
	int fd;

	(void)device;
	if (!(flags & HM_EXPORT_READ_ONLY)) {
		fd = sys_dup(segment->fd);
	} else {
		/* A duplicate shares the open file's mode: this needs a new open. */
		snprintf(path, sizeof(path), "/proc/self/fd/%d", segment->fd);
		fd = sys_open(path, O_RDONLY, 0);
	}
	if (fd < 0)
		return rlimits_explain_fd(fd, "a further descriptor of the file");
	*ret_fd = fd;
	return 0;
}

/*
 * Clears stores behind the end in its page: not all file systems clear them when the file grows.
 * Punching a hole zeroes partial blocks [fallocate(2)] and allocates none; where it is not
 * supported, zeros are written.
 */
static int clear_tail(int fd, uint64_t from, uint64_t to)
{
	static const char zeros[4096];
	ssize_t n;
	int r;

	if (from < to)
		r = sys_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from,
				  to - from);
	else
		r = 0;
	for (; r == -EOPNOTSUPP && from < to; from += (uint64_t)n) {
		n = sys_pwrite(fd, zeros, min_u64(to - from, sizeof(zeros)), from);
		if (n <= 0)
			return err_set(n ? (int)n : -EIO,
				       "clearing %" PRIu64 " bytes of the file from %" PRIu64
				       " on: %s",
				       to - from, from, err_name(n ? (int)n : -EIO));
	}
	return r && r != -EOPNOTSUPP ?
		       err_set(r,
			       "clearing %" PRIu64 " bytes of the file from %" PRIu64
			       " on (PUNCH_HOLE): %s",
			       to - from, from, err_name(r)) :
		       0;
}

static int resize(void *device, struct hm_segment *segment, uint64_t old_size,
		  uint64_t new_size)
{
	uint64_t end = segment->fd_offset + new_size;
	struct stat st;
	int r;

	(void)device;
	r = sys_fstat(segment->fd, &st);
	if (r)
		return err_set(r, "fstat: %s", err_name(r));
	if ((uint64_t)st.st_size != segment->fd_offset + old_size)
		return err_set(-EBUSY,
			       "the file has %" PRIu64 " bytes, its buffer ends at "
			       "%" PRIu64 ": the file was resized by other code",
			       (uint64_t)st.st_size, segment->fd_offset + old_size);
	/* A file beyond the limit may still be made shorter. */
	r = new_size > old_size ? rlimits_check_file_size(end) : 0;
	if (r)
		return r;
	r = sys_ftruncate(segment->fd, end);
	if (r)
		return err_set(r, "making the file %" PRIu64 " bytes long: %s", end,
			       err_name(r));
	if (new_size < old_size)
		return 0;
	r = clear_tail(segment->fd, segment->fd_offset + old_size,
		       segment->fd_offset + min_u64(new_size, round_up(old_size, page_size())));
	if (r)
		sys_ftruncate(segment->fd, segment->fd_offset + old_size);
	return r;
}

static void object_destroy(void *device, struct hm_segment *segment)
{
	(void)device;
	sys_close(segment->fd);
}

const struct hm_backend_ops file_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "file",
	.description = "regular files",
	.caps = FILE_CAPS,
	.device_open = device_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.from_file = from_file,
	.export_fd = export_fd,
	.resize = resize,
};
