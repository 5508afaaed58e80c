// SPDX-License-Identifier: MIT
/*
 * Slices: the bytes of a part of a tensor, as runs in the file, and copies of them, by few large
 * reads even where the runs are short.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/safetensors/safetensors.h"
#include "base/sys.h"

/* Shorter runs, no further apart than NEAR, are copied out of windows of this size. */
#define WINDOW KIB(256)
#define NEAR KIB(16)

static int check_slices(const struct tensor *tensor, const uint64_t *shape,
			const struct hm_slice *slices, uint32_t n_slices, const char *name)
{
	char shown[SHOWN_MAX];
	uint32_t i;

	if (n_slices && !slices)
		return err_set(-EINVAL, "%u slices, and slices is NULL", n_slices);
	if (n_slices > tensor->rank)
		return err_set(-ERANGE, "%u slices of tensor %s, which has %u dimensions",
			       n_slices, name_shown(name, shown), tensor->rank);
	for (i = 0; i < n_slices; i++)
		if (slices[i].begin > slices[i].end || slices[i].end > shape[i])
			return err_set(-ERANGE,
				       "elements %" PRIu64 " to %" PRIu64
				       " of dimension %u of tensor %s, which has %" PRIu64,
				       slices[i].begin, slices[i].end, i,
				       name_shown(name, shown), shape[i]);
	return 0;
}

/* Converts bits to bytes, where they are whole ones. */
static int to_bytes(uint64_t bits, uint32_t dtype, uint64_t *ret_bytes)
{
	if (bits % 8)
		return err_set(
			-EOPNOTSUPP,
			"the slice begins or ends inside of a byte: elements of %s have %u "
			"bits",
			hm_dtype_name(dtype), hm_dtype_bits(dtype));
	*ret_bytes = bits / 8;
	return 0;
}

/*
 * From the last dimension on, whole dimensions make one run, and so does a range of the one
 * before them. The remaining dimensions count runs, except for those with one element taken.
 * Products are below 2^64: safetensors_bytes() has checked the whole tensor's, in bits; a tensor
 * without bytes has been dealt with.
 */
static int find_runs(struct selection *selection, const uint64_t *shape,
		     const struct hm_slice *slices, uint32_t n_slices)
{
	uint64_t step = hm_dtype_bits(selection->tensor->dtype), run = step, begin = 0;
	uint32_t dtype = selection->tensor->dtype, i = selection->tensor->rank;
	bool whole = true;
	int r = 0;

	selection->n_outer = 0;
	while (i-- > 0 && !r) {
		uint64_t from = i < n_slices ? slices[i].begin : 0;
		uint64_t n = selection->shape[i];

		begin += from * step;
		if (whole) {
			run = n * step;
			whole = n == shape[i];
		} else if (n > 1) {
			/* The slowest must come first. */
			memmove(selection->count + 1, selection->count,
				selection->n_outer * sizeof(*selection->count));
			memmove(selection->stride + 1, selection->stride,
				selection->n_outer * sizeof(*selection->stride));
			selection->count[0] = n;
			selection->n_outer++;
			r = to_bytes(step, dtype, &selection->stride[0]);
		}
		step *= shape[i];
	}
	if (!r)
		r = to_bytes(begin, dtype, &begin);
	if (!r)
		r = to_bytes(run, dtype, &selection->run);
	selection->offset = selection->tensor->offset + begin;
	return r;
}

int safetensors_select(struct hm_safetensors *safetensors, uint64_t index,
		       const struct hm_slice *slices, uint32_t n_slices,
		       struct selection *ret_selection)
{
	const struct tensor *tensor;
	const uint64_t *shape;
	uint64_t elements = 1;
	uint32_t i;
	int r;

	if (index >= safetensors->n_tensor)
		return err_set(-ERANGE, "there is no tensor %" PRIu64 ": there are %u", index,
			       safetensors->n_tensor);
	tensor = &safetensors->tensor[index];
	shape = safetensors->extents + tensor->shape;
	r = check_slices(tensor, shape, slices, n_slices,
			 safetensors->names.name[tensor->name].text);
	if (r)
		return r;
	ret_selection->tensor = tensor;
	ret_selection->path = safetensors->shard[tensor->shard].path;
	ret_selection->map = safetensors->shard[tensor->shard].map;
	for (i = 0; i < tensor->rank; i++) {
		ret_selection->shape[i] = i < n_slices ? slices[i].end - slices[i].begin :
							 shape[i];
		elements = ret_selection->shape[i] ? elements : 0;
	}
	if (!elements) {
		/* The product of the other dimensions may be anything. */
		ret_selection->offset = tensor->offset;
		ret_selection->bytes = ret_selection->run = 0;
		ret_selection->n_outer = 0;
		return 0;
	}
	r = find_runs(ret_selection, shape, slices, n_slices);
	if (r)
		return r;
	ret_selection->bytes = ret_selection->run;
	for (i = 0; i < ret_selection->n_outer; i++)
		ret_selection->bytes *= ret_selection->count[i];
	return 0;
}

/* ---- copying ---- */

struct window {
	char *bytes;
	uint64_t begin, end; /* in the file; equal: empty */
};

/* Copies a run out of the window, which moves to the run's beginning if need be. */
static int copy_run(const struct selection *selection, struct window *window, uint64_t offset,
		    char *to)
{
	uint64_t tensor_end = selection->tensor->offset + selection->tensor->bytes;
	uint64_t length = selection->run;
	int r;

	if (!window->bytes)
		return pieces_pread(selection->map->buffer, to, length, offset);
	if (offset < window->begin || offset + length > window->end) {
		window->begin = offset;
		window->end = min_u64(offset + WINDOW, tensor_end);
		r = pieces_pread(selection->map->buffer, window->bytes, window->end - offset,
				 offset);
		if (r) {
			window->end = offset;
			return r;
		}
	}
	memcpy(to, window->bytes + (offset - window->begin), length);
	return 0;
}

int safetensors_copy(const struct selection *selection, void *to)
{
	uint64_t at[HM_TENSOR_RANK_MAX] = { 0 }, offset = selection->offset;
	struct window window = { 0 };
	char *next = to;
	int r = 0, d;

	if (!selection->bytes)
		return 0;
	if (selection->n_outer && selection->stride[selection->n_outer - 1] <= NEAR) {
		window.bytes = sys_calloc(1, WINDOW);
		if (!window.bytes)
			return err_set(-ENOMEM, "no memory for a window of %" PRIu64 " bytes",
				       WINDOW);
	}
	for (;;) {
		r = copy_run(selection, &window, offset, next);
		if (r)
			break;
		next += selection->run;
		/* The next run: the last dimension first, like an odometer. */
		for (d = (int)selection->n_outer - 1; d >= 0; d--) {
			offset += selection->stride[d];
			if (++at[d] < selection->count[d])
				break;
			offset -= selection->stride[d] * selection->count[d];
			at[d] = 0;
		}
		if (d < 0)
			break;
	}
	free(window.bytes);
	return r ? err_prefix(r, "%s", selection->path) : 0;
}
