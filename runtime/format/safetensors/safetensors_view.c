// SPDX-License-Identifier: MIT
/*
 * A tensor at an address: in its file's map where the bytes are together and aligned, otherwise
 * in a buffer of "host".
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "format/safetensors/safetensors.h"
#include "base/sys.h"
#include "map/map.h"

#define TENSOR_PLACE_LEAST sizeof(struct hm_tensor_place)

struct hm_tensor {
	struct hm_object object;
	struct hm_map *map; /* holds a ref */
	uint64_t offset;    /* in map */
	uint64_t bytes;
	bool copied;
	uint32_t dtype, rank;
	uint64_t shape[];
};

static struct hm_tensor *create(const struct selection *selection)
{
	uint32_t rank = selection->tensor->rank;
	struct hm_tensor *tensor;

	tensor = sys_calloc(1, sizeof(*tensor) + rank * sizeof(*tensor->shape));
	if (!tensor)
		return NULL;
	object_init(&tensor->object, OBJECT_TENSOR);
	tensor->bytes = selection->bytes;
	tensor->dtype = selection->tensor->dtype;
	tensor->rank = rank;
	memcpy(tensor->shape, selection->shape, rank * sizeof(*tensor->shape));
	return tensor;
}

/* 0, or -EXDEV with the reason why it can't be used in place. */
static int check_place(const struct selection *selection, uint64_t alignment, const char *name)
{
	uint64_t address = (uint64_t)(uintptr_t)selection->map->address + selection->offset;
	char shown[SHOWN_MAX];

	if (selection->n_outer)
		return err_set(-EXDEV,
			       "this slice of tensor %s is in runs of %" PRIu64
			       " bytes, not together: pass HM_TENSOR_MAY_COPY",
			       name_shown(name, shown), selection->run);
	if (alignment && !is_aligned(address, alignment))
		return err_set(-EXDEV,
			       "tensor %s is at byte %" PRIu64
			       " of its file, a multiple of %" PRIu64 " and not of %" PRIu64
			       ": pass HM_TENSOR_MAY_COPY",
			       name_shown(name, shown), selection->offset,
			       selection->offset & -selection->offset, alignment);
	return 0;
}

static int copy(const struct selection *selection, struct hm_map **ret_map)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = max_u64(selection->bytes, 1),
		.name = "tensor",
	};
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	int r;

	r = device_open("host", &device);
	if (r)
		return r;
	r = buffer_create(device, &desc, &buffer);
	hm_device_unref(device);
	if (r)
		return r;
	r = map_create(buffer, NULL, &map);
	hm_buffer_unref(buffer);
	if (r)
		return r;
	r = safetensors_copy(selection, map->address);
	if (r) {
		hm_map_unref(map);
		return r;
	}
	*ret_map = map;
	return 0;
}

int tensor_view(const struct selection *selection, const char *name, uint64_t alignment,
		uint32_t flags, struct hm_tensor **ret_tensor)
{
	struct hm_tensor *tensor;
	int r;

	tensor = create(selection);
	if (!tensor)
		return err_set(-ENOMEM, "no memory for a tensor of %u dimensions",
			       selection->tensor->rank);
	r = check_place(selection, alignment, name);
	if (!r) {
		tensor->map = hm_map_ref(selection->map);
		tensor->offset = selection->offset;
	} else if (flags & HM_TENSOR_MAY_COPY) {
		err_clear();
		tensor->copied = true;
		r = copy(selection, &tensor->map);
	}
	if (r) {
		free(tensor);
		return r;
	}
	*ret_tensor = tensor;
	return 0;
}

static int check_arguments(struct hm_safetensors *safetensors, uint64_t alignment,
			   uint32_t flags, const void *result)
{
	if (!result)
		return err_set(-EINVAL, "hm_safetensors_view: ret_tensor is NULL");
	if (flags & ~HM_TENSOR_MAY_COPY)
		return err_set(-EINVAL, "hm_safetensors_view: flags 0x%x are unknown", flags);
	if ((alignment & (alignment - 1)) || alignment > page_size())
		return err_set(-EINVAL,
			       "hm_safetensors_view: an alignment of %" PRIu64
			       ": powers of two up to %" PRIu64 " can be had",
			       alignment, page_size());
	return object_check(safetensors ? &safetensors->object : NULL, OBJECT_SAFETENSORS);
}

int hm_safetensors_view(struct hm_safetensors *safetensors, uint64_t index,
			const struct hm_slice *slices, uint32_t n_slices, uint64_t alignment,
			uint32_t flags, struct hm_tensor **ret_tensor)
{
	struct selection selection;
	int r;

	err_begin();
	r = check_arguments(safetensors, alignment, flags, ret_tensor);
	if (!r)
		r = safetensors_select(safetensors, index, slices, n_slices, &selection);
	if (r)
		return r;
	return tensor_view(&selection, safetensors->names.name[selection.tensor->name].text,
			   alignment, flags, ret_tensor);
}

int hm_safetensors_read(struct hm_safetensors *safetensors, uint64_t index,
			const struct hm_slice *slices, uint32_t n_slices, void *to,
			uint64_t length)
{
	struct selection selection;
	int r;

	err_begin();
	r = object_check(safetensors ? &safetensors->object : NULL, OBJECT_SAFETENSORS);
	if (!r)
		r = safetensors_select(safetensors, index, slices, n_slices, &selection);
	if (r)
		return r;
	if (selection.bytes > length)
		return err_set(-ENOSPC,
			       "hm_safetensors_read: the tensor or slice has %" PRIu64
			       " bytes, and there is room for %" PRIu64,
			       selection.bytes, length);
	if (selection.bytes && !to)
		return err_set(-EINVAL, "hm_safetensors_read: to is NULL");
	return safetensors_copy(&selection, to);
}

/* ---- results ---- */

void *hm_tensor_address(const struct hm_tensor *tensor)
{
	return tensor ? tensor->map->address + tensor->offset : NULL;
}

int hm_tensor_query(struct hm_tensor *tensor, struct hm_tensor_place *ret_place)
{
	int r;

	err_begin();
	if (!ret_place)
		return err_set(-EINVAL, "hm_tensor_query: ret_place is NULL");
	r = object_check(tensor ? &tensor->object : NULL, OBJECT_TENSOR);
	if (!r)
		r = struct_check_out(ret_place->struct_size, sizeof(*ret_place),
				     TENSOR_PLACE_LEAST, "hm_tensor_place");
	if (r)
		return r;
	struct_write(ret_place,
		     &(struct hm_tensor_place){
			     .copied = tensor->copied,
			     .address = hm_tensor_address(tensor),
			     .bytes = tensor->bytes,
			     .map = tensor->map,
			     .offset = tensor->offset,
			     .dtype = tensor->dtype,
			     .rank = tensor->rank,
			     .shape = tensor->shape,
		     },
		     ret_place->struct_size);
	return 0;
}

struct hm_tensor *hm_tensor_ref(struct hm_tensor *tensor)
{
	if (tensor)
		object_ref(&tensor->object);
	return tensor;
}

void hm_tensor_unref(struct hm_tensor *tensor)
{
	if (!tensor || !object_put(&tensor->object))
		return;
	hm_map_unref(tensor->map);
	tensor->object.kind = OBJECT_FREED;
	free(tensor);
}
