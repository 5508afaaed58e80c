// SPDX-License-Identifier: MIT
/* Buffers of several processes: send, receive. */
#include "api/door.h"
#include "base/sys.h"
#include "change/resize.h"
#include "core/buffer.h"
#include "share/control.h"
#include "share/share.h"

/* Gets the object's descriptor; @ret_own: the caller must close it. */
static int get_object_locked(struct hm_buffer *buffer, uint32_t flags, struct resize_set *set,
			     int *ret_fd, bool *ret_own)
{
	/* This one stays open as long as the buffer; an export would only duplicate it. */
	if (buffer->settled_fd >= 0 && !buffer->settled_own && buffer->n_segment == 1 &&
	    !(flags & HM_EXPORT_READ_ONLY)) {
		*ret_fd = buffer->settled_fd;
		*ret_own = false;
		return 0;
	}
	*ret_own = true;
	return buffer_export_locked(buffer, flags, set, ret_fd);
}

int buffer_send(struct hm_buffer *buffer, int socket, uint32_t flags)
{
	struct resize_set set = { 0 };
	struct share_message message;
	int fds[SHARE_FDS];
	uint64_t cookie;
	bool own = false;
	int r;

	r = buffer_check(buffer);
	if (!r)
		r = buffer_check_export("hm_buffer_send", flags);
	if (!r)
		r = share_check_socket(socket, "hm_buffer_send", &cookie);
	if (!r)
		r = hook_send(buffer, socket, flags);
	if (r)
		return r;
	r = buffer_lock(buffer);
	if (r)
		return r;
	r = device_loss_check_buffer(buffer);
	if (!r)
		r = share_check_sendable_locked(buffer, flags);
	if (!r)
		r = get_object_locked(buffer, flags, &set, &fds[SHARE_FD_OBJECT], &own);
	if (r)
		goto out;
	r = share_begin_locked(buffer, flags, fds[SHARE_FD_OBJECT], &message);
	if (r)
		goto err_close;
	/* Both stay open as long as the buffer has its slot. */
	fds[SHARE_FD_CONTROL] = control_fd(buffer->share);
	fds[SHARE_FD_OWNER] = control_owner_fd(buffer->share);
	buffer_unlock(buffer);
	resize_set_drop(&set);
	/* Sent without locks, because the peer may be slow. */
	r = share_message_send(socket, &message, fds);
	if (own)
		sys_close(fds[SHARE_FD_OBJECT]);
	return r;

err_close:
	if (own)
		sys_close(fds[SHARE_FD_OBJECT]);
out:
	buffer_unlock(buffer);
	resize_set_drop(&set);
	return device_loss_notice(buffer->device, r);
}

int hm_buffer_send(struct hm_buffer *buffer, int socket, uint32_t flags)
{
	err_begin();
	return buffer_send(buffer, socket, flags);
}

static int read_desc(const struct hm_buffer_desc *from, struct hm_buffer_desc *desc)
{
	int r;

	r = buffer_read_desc(from, desc);
	if (r)
		return r;
	if (desc->flags & ~HM_BUFFER_READ_ONLY)
		return err_set(-EINVAL,
			       "hm_buffer_receive: flags 0x%x: only HM_BUFFER_READ_ONLY is "
			       "possible",
			       desc->flags);
	if (desc->size || desc->offset || desc->numa_mode != HM_NUMA_DEFAULT || desc->place)
		return err_set(-EINVAL, "hm_buffer_receive: size, offset and placement are the "
					"owner's: pass 0");
	return 0;
}

int buffer_receive(struct hm_device *device, int socket, const struct hm_buffer_desc *from,
		   struct hm_buffer **ret_buffer)
{
	struct share_message message;
	struct hm_buffer_desc desc;
	struct hm_buffer *buffer;
	int fds[SHARE_FDS];
	uint64_t cookie;
	int r;

	r = buffer_check_args(device, ret_buffer, "hm_buffer_receive");
	if (!r)
		r = read_desc(from, &desc);
	if (!r)
		r = share_check_socket(socket, "hm_buffer_receive", &cookie);
	if (!r)
		r = share_message_receive(socket, &message, fds);
	if (r)
		return r;
	r = share_check_message(&message, desc.max_size);
	if (!r)
		r = hook_receive(device, socket, fds[SHARE_FD_OBJECT], message.max_size,
				 message.access, &desc);
	if (r)
		goto err_fds;
	r = share_take(device, fds, &message, cookie, &desc, &buffer);
	/* The message has come: -EAGAIN, of mmap(), would ask for it once more. */
	if (r == -EAGAIN)
		r = err_prefix(-ENOMEM, "a buffer was received and can't be mapped");
	if (r)
		return device_loss_notice(device, r);
	buffer_settle_locked(buffer);
	*ret_buffer = buffer;
	return 0;

err_fds:
	share_message_close(fds, SHARE_FDS);
	return r;
}

int hm_buffer_receive(struct hm_device *device, int socket, const struct hm_buffer_desc *from,
		      struct hm_buffer **ret_buffer)
{
	err_begin();
	return buffer_receive(device, socket, from, ret_buffer);
}
