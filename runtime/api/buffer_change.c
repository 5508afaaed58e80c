// SPDX-License-Identifier: MIT
/* Buffers: resize, export, seal. */
#include <inttypes.h>

#include "api/door.h"
#include "change/resize.h"
#include "core/buffer.h"

#define RESIZE_FLAGS (HM_MAY_MOVE | HM_GROW_REPLACE | HM_GROW_APPEND)

int buffer_resize(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags)
{
	int r;

	r = buffer_check(buffer);
	if (r)
		return r;
	if (!new_size || new_size > BUFFER_SIZE_MAX)
		return err_set(-EINVAL,
			       "hm_buffer_resize: %" PRIu64 " bytes are not in 1 to 2^62",
			       new_size);
	if (flags & ~RESIZE_FLAGS)
		return err_set(-EINVAL, "hm_buffer_resize: unknown flags 0x%x",
			       flags & ~RESIZE_FLAGS);
	if ((flags & HM_GROW_REPLACE) && (flags & HM_GROW_APPEND))
		return err_set(-EINVAL,
			       "HM_GROW_REPLACE and HM_GROW_APPEND exclude each other");
	r = hook_resize(buffer, new_size, flags);
	if (r)
		return r;
	return device_loss_notice(buffer->device, resize_buffer(buffer, new_size, flags));
}

int hm_buffer_resize(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags)
{
	err_begin();
	return buffer_resize(buffer, new_size, flags);
}

int buffer_export(struct hm_buffer *buffer, uint32_t flags, int *ret_fd)
{
	bool relieved = false;
	struct resize_set set;
	int fd, r;

	r = buffer_check(buffer);
	if (r)
		return r;
	if (!ret_fd)
		return err_set(-EINVAL, "hm_buffer_export: ret_fd is NULL");
	r = buffer_check_export("hm_buffer_export", flags);
	if (!r)
		r = hook_export(buffer, flags);
	if (r)
		return r;
	do {
		set = (struct resize_set){ 0 };
		r = buffer_lock(buffer);
		if (r)
			return r;
		r = device_loss_check_buffer(buffer);
		if (!r)
			r = buffer_export_locked(buffer, flags, &set, &fd);
		buffer_unlock(buffer);
		resize_set_drop(&set);
	} while (retire_relieve(r, &relieved));
	if (!r)
		*ret_fd = fd;
	return device_loss_notice(buffer->device, r);
}

int hm_buffer_export(struct hm_buffer *buffer, uint32_t flags, int *ret_fd)
{
	err_begin();
	return buffer_export(buffer, flags, ret_fd);
}

int hm_buffer_seal(struct hm_buffer *buffer, uint32_t flags)
{
	bool is_mapped, relieved = false;
	struct resize_set set;
	int r;

	err_begin();
	r = buffer_check(buffer);
	if (r)
		return r;
	if (flags & ~HM_SEAL_ADDRESSES)
		return err_set(-EINVAL, "hm_buffer_seal: unknown flags 0x%x",
			       flags & ~HM_SEAL_ADDRESSES);
	r = hook_seal(buffer, flags);
	if (r)
		return r;
	do {
		err_clear();
		set = (struct resize_set){ 0 };
		is_mapped = false;
		r = buffer_lock(buffer);
		if (r)
			return r;
		if (!(buffer->sealed & HM_SEALED_MEMORY))
			r = buffer_seal_locked(buffer, &set, flags, &is_mapped);
		buffer_unlock(buffer);
		resize_set_drop(&set);
		/* A map that waits for its release is such a mapping. */
	} while (retire_relieve(r, &relieved) || (is_mapped && retire_unmap(&relieved)));
	return r;
}
