// SPDX-License-Identifier: MIT
/*
 * pread and pwrite of the twin's buffers. The kernel copies: it stops at a bad pointer, which
 * would kill this process.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/rlimits.h"
#include "soft/twin.h"

/* First byte from @position on that CPUs can't reach; @position is before the end. */
static uint64_t reach_end(const struct soft_buffer *buffer, uint64_t position, uint64_t length)
{
	uint64_t i = position >> SIM_PAGE_SHIFT;

	while (i < buffer->n_pages && i << SIM_PAGE_SHIFT < position + length &&
	       soft_page_reachable(buffer, i))
		i++;
	return i << SIM_PAGE_SHIFT;
}

static ssize_t copy_out(struct soft_buffer *buffer, void *to, uint64_t length,
			uint64_t position)
{
	uint64_t end = buffer->n_pages << SIM_PAGE_SHIFT;

	if (position >= end)
		return 0;
	length = min_u64(length, end - position);
	end = reach_end(buffer, position, length);
	if (position >= end)
		return -ENXIO;
	return sys_pread(buffer->fd, to, min_u64(length, end - position), position);
}

/* Never writes beyond the end, which would make the file longer. */
static ssize_t copy_in(struct soft_buffer *buffer, const void *from, uint64_t length,
		       uint64_t position)
{
	uint64_t end = buffer->n_pages << SIM_PAGE_SHIFT;

	if (position >= end)
		return -ENOSPC;
	length = min_u64(length, end - position);
	end = reach_end(buffer, position, length);
	if (position >= end)
		return -ENXIO;
	end = min_u64(end, rlimits_file_size());
	if (position >= end)
		return -EFBIG; /* the kernel would end the process: SIGXFSZ */
	return sys_pwrite(buffer->fd, from, min_u64(length, end - position), position);
}

/* One of @to and @from is NULL. */
static ssize_t soft_rw(struct soft_file *file, void *to, const void *from, uint64_t length,
		       uint64_t offset)
{
	struct soft_buffer *buffer;
	uint64_t position;
	ssize_t n;
	int r;

	r = soft_file_check(file);
	if (r)
		return r;
	buffer = soft_buffer_at(file, offset, &position);
	if (!buffer)
		return -ENOENT;
	soft_buffer_used(buffer);
	pthread_rwlock_rdlock(&buffer->lock);
	n = to ? copy_out(buffer, to, length, position) :
		 copy_in(buffer, from, length, position);
	if (file->dev->gone)
		n = -ENODEV;
	pthread_rwlock_unlock(&buffer->lock);
	if (n > 0)
		soft_count_add(file->dev, buffer->account,
			       to ? SIM_BYTES_READ : SIM_BYTES_WRITTEN, (uint64_t)n);
	soft_buffer_put(buffer);
	return n;
}

ssize_t soft_read(struct soft_file *file, void *to, uint64_t length, uint64_t offset)
{
	return to ? soft_rw(file, to, NULL, length, offset) : -EFAULT;
}

ssize_t soft_write(struct soft_file *file, const void *from, uint64_t length, uint64_t offset)
{
	if ((file->flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	return from ? soft_rw(file, NULL, from, length, offset) : -EFAULT;
}
