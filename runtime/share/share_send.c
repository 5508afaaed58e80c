// SPDX-License-Identifier: MIT
/* What a buffer's owner says of it to the process that receives it. */
#include <fcntl.h>

#include "dmabuf/dmabuf.h"
#include "share/control.h"
#include "share/share.h"
#include "base/sys.h"

/*
 * Memory that another process can cut off would kill receivers that touch it. The device "soft"
 * refuses for that reason, too: its memory goes when it is unplugged.
 */
int share_check_sendable_locked(const struct hm_buffer *buffer, uint32_t flags)
{
	bool huge = buffer_is(buffer, MEMORY_HUGE);
	int seals;

	if (!(buffer->caps & HM_CAP_EXPORT) || buffer_is(buffer, HM_MEMORY_STORAGE) ||
	    buffer->segment[0].flags & HM_SEGMENT_DMABUF)
		return 0;
	seals = sys_fcntl(buffer->segment[0].fd, F_GET_SEALS, 0);
	if (huge && !(flags & HM_EXPORT_READ_ONLY) && !share_is_kept(seals))
		return err_set(-EOPNOTSUPP,
			       "%s: a receiver that may write huge pages may give them back, "
			       "and a touch would then end a process while the pool is empty: "
			       "pass HM_EXPORT_READ_ONLY, or have the bytes in base pages",
			       buffer->name);
	if (seals < 0 || seals & F_SEAL_SHRINK)
		return 0;
	return err_set(-EOPNOTSUPP,
		       "%s: memory of \"%s\" may be cut off, and a touch would then end the "
		       "receiver: share a buffer of \"host\"",
		       buffer->name, buffer->device->name);
}

/* Takes a slot of the control page with the first send; the buffer keeps it. */
static int begin_share_locked(struct hm_buffer *buffer, int fd)
{
	const struct hm_segment *segment = &buffer->segment[0];
	struct share *share;
	int r;

	if (buffer->share)
		return 0;
	r = control_create(buffer->serial, buffer->size, &share);
	if (r)
		return r;
	share->max_size = buffer->max_size;
	/* This process maps the same descriptor, so its map flags are known already. */
	share->map_flags = segment->flags & HM_SEGMENT_DMABUF ?
				   segment->flags & DMABUF_MAP_FLAGS :
				   dmabuf_map_flags(fd);
	buffer->share = share;
	return 0;
}

/* SHARE_MEMORY of @fd: a dma-buf of a memfd's pages is a device's object for receivers. */
static uint32_t memory_of(const struct hm_buffer *buffer, int fd)
{
	if (buffer_is(buffer, HM_MEMORY_SEALED) && dmabuf_is(fd))
		return 0;
	return atomic_load(&buffer->memory) & SHARE_MEMORY;
}

/* The access that a receiver may have. An earlier export may have sealed the object for all. */
static uint32_t access_of(const struct hm_buffer *buffer, uint32_t flags, int fd)
{
	int seals;

	if (flags & HM_EXPORT_READ_ONLY)
		return HM_READ;
	if (!buffer_is(buffer, HM_MEMORY_SEALED))
		return buffer->access;
	seals = sys_fcntl(fd, F_GET_SEALS, 0);
	if (seals >= 0 && seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return HM_READ;
	return buffer->access;
}

static void describe_locked(const struct hm_buffer *buffer, uint32_t flags, int fd,
			    struct share_message *message)
{
	*message = (struct share_message){
		.magic = SHARE_MAGIC,
		.version = SHARE_VERSION,
		.length = sizeof(*message),
		.access = access_of(buffer, flags, fd),
		.cache = buffer->cache,
		.memory = memory_of(buffer, fd),
		.max_size = buffer->share->max_size,
		.page_size = buffer->page_size,
		.serial = buffer->share->serial,
		.size = buffer->size,
		.slot = buffer->share->index,
		.page = control_inode(buffer->share),
	};

	if (share_is_object(message->memory))
		message->map_flags = buffer->share->map_flags;
	if (buffer_is(buffer, HM_MEMORY_STORAGE))
		message->offset = buffer->segment[0].fd_offset;
	name_copy(message->backend, sizeof(message->backend), buffer->device->ops->name);
}

int share_begin_locked(struct hm_buffer *buffer, uint32_t flags, int fd,
		       struct share_message *ret_message)
{
	int r = begin_share_locked(buffer, fd);

	if (r)
		return r;
	describe_locked(buffer, flags, fd, ret_message);
	return 0;
}
