// SPDX-License-Identifier: MIT
/* A tensor of GGUF at an address, in place in its file's map or copied. */
#include <inttypes.h>
#include <string.h>

#include "api/api.h"
#include "format/gguf/gguf.h"
#include "format/safetensors/safetensors.h"
#include "map/map.h"

/* The whole tensor, for the functions that safetensors has of views and copies. */
static void select_all(const struct hm_gguf *gguf, uint64_t index, struct tensor *as,
		       struct selection *ret_selection)
{
	const struct gguf_tensor *tensor = gguf->tensor[index];
	const struct gguf_file *file = &gguf->file[tensor->file];

	*as = (struct tensor){
		.dtype = gguf_is_swapped(gguf, tensor) ? HM_DTYPE_OPAQUE :
							 gguf_type_of(tensor)->dtype,
		.rank = tensor->rank,
		.offset = tensor->offset,
		.bytes = tensor->bytes,
	};
	ret_selection->tensor = as;
	ret_selection->path = file->path;
	ret_selection->map = file->map;
	memcpy(ret_selection->shape, tensor->shape, tensor->rank * sizeof(*tensor->shape));
	ret_selection->offset = tensor->offset;
	ret_selection->bytes = ret_selection->run = tensor->bytes;
	ret_selection->n_outer = 0;
}

int hm_gguf_tensor(struct hm_gguf *gguf, uint64_t index, uint64_t alignment, uint32_t flags,
		   struct hm_tensor **ret_tensor)
{
	struct selection selection;
	struct tensor as;
	int r;

	err_begin();
	r = gguf_check(gguf, ret_tensor, "hm_gguf_tensor");
	if (r)
		return r;
	if (flags & ~HM_TENSOR_MAY_COPY)
		return err_set(-EINVAL, "hm_gguf_tensor: flags 0x%x are unknown", flags);
	if ((alignment & (alignment - 1)) || alignment > page_size())
		return err_set(-EINVAL,
			       "hm_gguf_tensor: an alignment of %" PRIu64
			       ": powers of two up to %" PRIu64 " can be had",
			       alignment, page_size());
	r = gguf_check_index(index, gguf->n_tensor, "tensor");
	if (r)
		return r;
	select_all(gguf, index, &as, &selection);
	return tensor_view(&selection, gguf->tensor[index]->name, alignment, flags, ret_tensor);
}

int hm_gguf_read(struct hm_gguf *gguf, uint64_t index, void *to, uint64_t length)
{
	struct selection selection;
	struct tensor as;
	int r;

	err_begin();
	r = object_check(gguf ? &gguf->object : NULL, OBJECT_GGUF);
	if (!r)
		r = gguf_check_index(index, gguf->n_tensor, "tensor");
	if (r)
		return r;
	select_all(gguf, index, &as, &selection);
	if (selection.bytes > length)
		return err_set(-ENOSPC,
			       "hm_gguf_read: the tensor has %" PRIu64
			       " bytes, and there is room for %" PRIu64,
			       selection.bytes, length);
	if (selection.bytes && !to)
		return err_set(-EINVAL, "hm_gguf_read: to is NULL");
	return safetensors_copy(&selection, to);
}
