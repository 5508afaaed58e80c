// SPDX-License-Identifier: MIT
/* Loss of a device: a buffer's policy, its shadow, the device's recovery. */
#include "api/door.h"
#include "change/recover.h"
#include "loss/loss.h"
#include "map/view.h"

static int read_desc(const struct hm_loss_desc *from, struct hm_loss_desc *desc)
{
	int r;

	if (!from)
		return err_set(-EINVAL, "hm_buffer_set_loss: desc is NULL");
	r = struct_read(desc, sizeof(*desc), from, from->struct_size,
			offsetof(struct hm_loss_desc, flags), "hm_loss_desc");
	if (r)
		return r;
	if (desc->policy > HM_LOSS_RECREATE)
		return err_set(-EINVAL, "hm_loss_desc.policy %u is none of enum hm_loss_policy",
			       desc->policy);
	if (desc->flags & ~HM_LOSS_WITH_SHADOW || desc->reserved ||
	    (desc->flags && desc->policy != HM_LOSS_RECREATE))
		return err_set(-EINVAL,
			       "hm_loss_desc.flags 0x%x, reserved %u: the one flag is "
			       "HM_LOSS_WITH_SHADOW, for HM_LOSS_RECREATE, and reserved must "
			       "be 0",
			       desc->flags, desc->reserved);
	return 0;
}

int hm_buffer_set_loss(struct hm_buffer *buffer, const struct hm_loss_desc *from)
{
	struct hm_loss_desc desc;
	int r;

	err_begin();
	r = buffer_check(buffer);
	if (!r)
		r = read_desc(from, &desc);
	/* This call waits for callbacks, which may wait for a lock of the view's caller. */
	if (!r && view_in_callback())
		r = err_set(-EDEADLK,
			    "hm_buffer_set_loss: a view's callback must not make this call, "
			    "as a map is being changed: call after the callback");
	if (r)
		return r;
	return device_loss_notice(buffer->device, loss_set(buffer, &desc));
}

int hm_buffer_shadow(struct hm_buffer *buffer, uint64_t offset, uint64_t length)
{
	int r;

	err_begin();
	r = buffer_check(buffer);
	if (r)
		return r;
	return device_loss_notice(buffer->device, loss_shadow(buffer, offset, length));
}

int hm_device_recover(struct hm_device *device, uint32_t flags,
		      struct hm_recover_info *ret_info)
{
	struct hm_recover_info info = { 0 };
	int r;

	err_begin();
	r = object_check((struct hm_object *)device, OBJECT_DEVICE);
	if (r)
		return r;
	if (flags & ~HM_RECOVER_SHADOWED)
		return err_set(-EINVAL, "hm_device_recover: unknown flags 0x%x",
			       flags & ~HM_RECOVER_SHADOWED);
	if (ret_info) {
		r = struct_check_out(ret_info->struct_size, sizeof(info), sizeof(info),
				     "hm_recover_info");
		if (r)
			return r;
	}
	if (view_in_callback())
		return err_set(-EDEADLK,
			       "hm_device_recover: a view's callback must not make this call, "
			       "as a map is being changed: call after the callback");
	r = device_loss_notice(device, recover_device(device, flags, &info));
	if (!r && ret_info)
		struct_write(ret_info, &info, ret_info->struct_size);
	return r;
}
