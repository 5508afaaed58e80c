// SPDX-License-Identifier: MIT
/*
 * Pointers of submitted work: finds their maps, and enters the uses that keep those maps
 * unchanged until the work is done.
 *
 * A range is looked up first and its use entered after; the result of the lookup is checked
 * again then, because the map may have changed in between.
 */
#include <inttypes.h>
#include <stdio.h>

#include "accel/accel.h"
#include "pool/pool.h"

const char *range_label(const struct hm_fence *fence, uint32_t index)
{
	static const char *const of_copy[] = { "the target", "the source" };
	static _Thread_local char text[2][96];
	static _Thread_local unsigned int turn;
	char *label = text[turn++ % 2];

	if (fence->work.kind != HM_WORK_LAUNCH)
		return of_copy[index];
	snprintf(label, sizeof(text[0]), "kernel %.64s, argument %" PRIu32,
		 fence->kernel->desc.name, index);
	return label;
}

/* Returns the remedy for a pointer that is in no map, "" for NULL and for copies and fills. */
static const char *pointer_remedy(const struct hm_fence *fence, const void *pointer)
{
	if (!pointer || fence->work.kind != HM_WORK_LAUNCH)
		return "";
	if (fence->queue->accel->caps & HM_ACCEL_ANY_POINTER)
		return "; pass memory from elsewhere as HM_ANY()";
	return "; take the memory from hm_alloc()";
}

static int refuse_pointer(const struct hm_fence *fence, uint32_t index, const void *pointer)
{
	const char *remedy = pointer_remedy(fence, pointer);
	const char *label = range_label(fence, index);
	struct registry_entry near;
	uint64_t at = (uint64_t)(uintptr_t)pointer;
	int r = registry_check_left(pointer);

	if (r)
		return err_prefix(r, "%s", label);
	if (!registry_nearest(pointer, &near))
		return err_set(-EFAULT, "%s: %p is in no map: this process has none%s", label,
			       pointer, remedy);
	if (at < near.base)
		return err_set(-EFAULT,
			       "%s: %p is in no map: the nearest begins at 0x%" PRIx64
			       ", %" PRIu64 " bytes above it%s",
			       label, pointer, near.base, near.base - at, remedy);
	return err_set(-EFAULT,
		       "%s: %p is in no map: the nearest, at 0x%" PRIx64 " with %" PRIu64
		       " bytes, ends %" PRIu64 " bytes below it%s",
		       label, pointer, near.base, near.length, at - (near.base + near.length),
		       remedy);
}

static int refuse_unallocated(const struct hm_fence *fence, uint32_t index, const void *pointer)
{
	return err_set(-EFAULT,
		       "%s: %p is in a block of a pool and in no allocation: freed already, or "
		       "beside one",
		       range_label(fence, index), pointer);
}

/* Bytes of the allocation from @pointer on. */
static uint64_t room_behind(const struct hm_pointer_info *info, const char *pointer)
{
	return info->length - (uint64_t)(pointer - (const char *)info->base);
}

static int refuse_beyond(const struct hm_fence *fence, uint32_t index, uint64_t length,
			 const struct hm_pointer_info *info)
{
	const char *pointer = fence->work.range[index].pointer;

	return err_set(-ERANGE,
		       "%s: %" PRIu64 " bytes at %p end past its allocation of %" PRIu64
		       " bytes, of which %" PRIu64 " are left from there on",
		       range_label(fence, index), length, pointer, info->length,
		       room_behind(info, pointer));
}

static int refuse_length(const struct hm_fence *fence, uint32_t index, uint64_t offset,
			 uint64_t length, uint64_t map_length)
{
	return err_set(-ERANGE,
		       "%s: %" PRIu64 " bytes from offset %" PRIu64
		       " end past its map of %" PRIu64,
		       range_label(fence, index), length, offset, map_length);
}

/* Adds a use, or widens the one of the same map that it touches. */
static void add_use(struct hm_fence *fence, struct hm_map *map, uint64_t offset,
		    uint64_t length, uint32_t access)
{
	struct map_use *use;
	uint64_t end;
	uint32_t i;

	for (i = 0; i < fence->n_use; i++) {
		use = &fence->use[i];
		if (use->map != map || offset > use->offset + use->length ||
		    use->offset > offset + length)
			continue;
		end = max_u64(use->offset + use->length, offset + length);
		use->offset = min_u64(use->offset, offset);
		use->length = end - use->offset;
		use->access |= access;
		hm_map_unref(map);
		return;
	}
	use = &fence->use[fence->n_use++];
	use->map = map;
	use->fence = fence;
	use->work = &fence_work;
	use->offset = offset;
	use->length = length;
	use->access = access;
}

int resolve_range(struct hm_fence *fence, uint32_t index, uint64_t length)
{
	struct hm_accel_range *range = &fence->work.range[index];
	struct hm_pointer_info info;
	uint64_t map_length, begin;
	struct hm_map *map;
	int r;

	map = registry_acquire(range->pointer, &info);
	if (!map)
		return refuse_pointer(fence, index, range->pointer);
	/* No lock of a parent's map may be taken: another thread may have held it at the fork. */
	r = object_check(&map->object, OBJECT_MAP);
	if (unlikely(r))
		goto err_unref;
	/* In a pool's block, the range must lie in one allocation. */
	if (pool_narrow_wait(range->pointer, &info)) {
		r = refuse_unallocated(fence, index, range->pointer);
		goto err_unref;
	}
	if (info.pool && length > room_behind(&info, range->pointer)) {
		r = refuse_beyond(fence, index, length, &info);
		goto err_unref;
	}
	map_length = atomic_load(&map->length);
	range->offset = info.map_offset;
	begin = info.map_offset;
	if (!length) {
		begin -= (uint64_t)(range->pointer - (char *)info.base);
		length = info.length;
		range->length = begin + length - range->offset;
	} else {
		range->length = length;
	}
	if (begin > map_length || length > map_length - begin) {
		r = refuse_length(fence, index, begin, length, map_length);
		goto err_unref;
	}
	add_use(fence, map, begin, length, range->access);
	return 0;

err_unref:
	hm_map_unref(map);
	return r;
}

int resolve_begin(struct hm_fence *fence)
{
	uint32_t i, k;
	int r;

	for (i = 0; i < fence->n_use; i++) {
		r = map_use_begin(&fence->use[i]);
		if (unlikely(r))
			goto err_unref;
	}
	return 0;

err_unref:
	/* Uses that have begun end with the fence; the remaining ones only hold a reference. */
	for (k = i; k < fence->n_use; k++)
		hm_map_unref(fence->use[k].map);
	fence->n_use = i;
	return r;
}
