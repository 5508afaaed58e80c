// SPDX-License-Identifier: MIT
/*
 * The twin's buffers as descriptors: for maps, for other processes, and imported by another
 * opener of the same device.
 *
 * The twin can't tell when an exported descriptor is closed: from the export on the buffer does
 * not shrink. An import finds the buffer as long as any opener has a handle of it.
 */
#include <errno.h>
#include <fcntl.h>

#include "soft/twin.h"

/* Returns a descriptor with the rights of @file; the buffer keeps it. */
static int map_fd_of(struct soft_file *file, struct soft_buffer *buffer)
{
	int fd;

	if ((file->flags & O_ACCMODE) != O_RDONLY)
		return buffer->fd;
	pthread_mutex_lock(&buffer->change);
	fd = buffer->fd_read;
	if (fd < 0) {
		fd = soft_pages_reader(buffer);
		if (fd >= 0)
			buffer->fd_read = fd;
	}
	pthread_mutex_unlock(&buffer->change);
	return fd;
}

int soft_map_fd(struct soft_file *file, uint64_t offset, int *ret_fd, uint64_t *ret_fd_offset)
{
	struct soft_buffer *buffer;
	uint64_t position;
	int fd, r;

	r = soft_file_check(file);
	if (r)
		return r;
	buffer = soft_buffer_at(file, offset, &position);
	if (!buffer)
		return -ENOENT;
	pthread_rwlock_rdlock(&buffer->lock);
	if (position >> SIM_PAGE_SHIFT >= buffer->capacity)
		r = -ERANGE;
	pthread_rwlock_unlock(&buffer->lock);
	if (r)
		goto out;
	fd = map_fd_of(file, buffer);
	if (fd < 0) {
		r = fd;
		goto out;
	}
	soft_buffer_used(buffer);
	*ret_fd = fd;
	*ret_fd_offset = position;
out:
	soft_buffer_put(buffer);
	return r;
}

int soft_export(struct soft_file *file, void *argument)
{
	struct hetsim_export *ask = argument;
	struct soft_buffer *buffer;
	int fd;

	buffer = soft_buffer_get(file, ask->handle);
	if (!buffer)
		return -ENOENT;
	pthread_rwlock_wrlock(&buffer->lock);
	fd = ask->flags & HETSIM_EXPORT_WRITE ? sys_dup(buffer->fd) : soft_pages_reader(buffer);
	if (fd >= 0)
		buffer->exported = true;
	pthread_rwlock_unlock(&buffer->lock);
	soft_buffer_put(buffer);
	if (fd < 0)
		return fd;
	ask->fd = fd;
	return 0;
}

/* Finds the exported buffer of a file, with a reference; NULL: no buffer of the device. */
static struct soft_buffer *buffer_of_file(struct soft_device *dev, const struct stat *st)
{
	struct soft_buffer *buffer;
	uint32_t slot;
	bool found;

	for (slot = 1; (buffer = soft_buffer_next(dev, &slot)); slot++) {
		pthread_rwlock_rdlock(&buffer->lock);
		found = buffer->exported && buffer->file_ino == st->st_ino &&
			buffer->file_dev == st->st_dev;
		pthread_rwlock_unlock(&buffer->lock);
		if (found)
			return buffer;
		soft_buffer_put(buffer);
	}
	return NULL;
}

int soft_import(struct soft_file *file, void *argument)
{
	struct hetsim_import *ask = argument;
	struct soft_buffer *buffer;
	struct stat st;
	int flags, r;

	flags = sys_fcntl(ask->fd, F_GETFL, 0);
	r = flags < 0 ? flags : sys_fstat(ask->fd, &st);
	if (r)
		return r == -EBADF ? -EINVAL : r;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	buffer = buffer_of_file(file->dev, &st);
	if (!buffer)
		return -EOPNOTSUPP;
	/* A handle has the rights of the open file that it is on. */
	if ((file->flags & O_ACCMODE) != O_RDONLY && (flags & O_ACCMODE) != O_RDWR) {
		r = -EACCES;
		goto out;
	}
	r = soft_handle_add(file, buffer);
	if (r)
		goto out;
	ask->handle = buffer->slot;
	ask->offset = soft_slot_offset(file->dev, buffer->slot);
	pthread_rwlock_rdlock(&buffer->lock);
	ask->length = buffer->n_pages << SIM_PAGE_SHIFT;
	pthread_rwlock_unlock(&buffer->lock);
out:
	soft_buffer_put(buffer);
	return r;
}
