// SPDX-License-Identifier: MIT
/*
 * Arguments passed as HM_ANY: pointers that need not be in a map of the library.
 *
 * In a map such a pointer is resolved like every other one, so that changes of the map wait for
 * the work; only where its view would copy, the accelerator uses the CPU's pages instead. Outside
 * maps the library knows nothing of the memory and keeps nothing of it: the accelerator checks its
 * accesses.
 */
#include <inttypes.h>

#include "accel/accel.h"
#include "base/vmas.h"

static int refuse_accel(const struct hm_accel *accel, const struct hm_fence *fence,
			uint32_t index)
{
	return err_set(
		-EOPNOTSUPP,
		"%s: %s reaches memory of maps only, and no other pointer (it lacks "
		"HM_ACCEL_ANY_POINTER)%s: use memory of hm_alloc(), bring the bytes into a "
		"buffer with hm_buffer_from_file() or hm_buffer_import() where they are a "
		"file or a descriptor, or copy them",
		range_label(fence, index), accel->name,
		accel->flags & HM_ACCEL_FORCE_COPY ?
			", as it was opened with HM_ACCEL_FORCE_COPY" :
			"");
}

struct first_map {
	uint64_t end;
	uint64_t base; /* first address of the first map before the end; UINT64_MAX: none */
};

static int note_first(void *user, const struct registry_entry *entry)
{
	struct first_map *first = user;

	if (entry->base < first->end)
		first->base = entry->base;
	return 1;
}

/* For a range outside of maps. */
static int check_loose(struct hm_fence *fence, uint32_t index, uint64_t length)
{
	const char *pointer = fence->work.range[index].pointer;
	uint64_t start = (uintptr_t)pointer;
	struct first_map first = { .base = UINT64_MAX };
	int r;

	/* Memory of a map that this fork child has not inherited. */
	r = registry_check_left(pointer);
	if (r)
		return err_prefix(r, "%s", range_label(fence, index));
	if (!length || __builtin_add_overflow(start, length, &first.end))
		return err_set(-EINVAL,
			       "%s: %" PRIu64 " bytes at %p: outside of maps a range has a "
			       "length, and ends below the highest address",
			       range_label(fence, index), length, pointer);
	registry_each(start, note_first, &first);
	if (first.base == UINT64_MAX)
		return 0;
	return err_set(-ERANGE,
		       "%s: %" PRIu64 " bytes at %p reach into the map at 0x%" PRIx64
		       ", %" PRIu64 " bytes further on: pass each part by itself",
		       range_label(fence, index), length, pointer, first.base,
		       first.base - start);
}

int any_resolve(struct hm_accel *accel, struct hm_fence *fence, uint32_t index, uint64_t length)
{
	struct hm_accel_range *range = &fence->work.range[index];
	int r;

	if (!(accel->caps & HM_ACCEL_ANY_POINTER))
		return refuse_accel(accel, fence, index);
	if (registry_may_find(range->pointer))
		return resolve_range(fence, index, length);
	r = check_loose(fence, index, length);
	if (r)
		return r;
	if (length > accel->window)
		return err_set(-E2BIG,
			       "%s: %" PRIu64
			       " bytes are more than a window of %s, which is %" PRIu64
			       " bytes: pass less at a time",
			       range_label(fence, index), length, accel->name, accel->window);
	range->length = length;
	range->offset = 0;
	range->view = NULL;
	fence->loose |= 1u << index;
	return 0;
}

int any_acquire(struct hm_accel *accel, struct hm_fence *fence, uint32_t index)
{
	struct hm_accel_range *range = &fence->work.range[index];
	int r;

	range->view = NULL;
	range->memory = NULL;
	range->way = HM_WAY_DIRECT;
	r = accel->ops->any_acquire(accel->data, range);
	return r ? err_prefix(r, "%s", range_label(fence, index)) : 0;
}

bool any_overlap(const struct hm_accel_range *a, const struct hm_accel_range *b,
		 uint64_t length)
{
	uint64_t a_length = min_u64(a->length, length), b_length = min_u64(b->length, length);
	uint64_t at_a = (uintptr_t)a->pointer, at_b = (uintptr_t)b->pointer;

	return ranges_overlap(at_a, a_length, at_b, b_length) ||
	       vmas_share_bytes(at_a, a_length, at_b, b_length);
}
