// SPDX-License-Identifier: MIT
/* Short calls: a buffer with one whole map, known by its address. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "core/buffer.h"
#include "map/map.h"
#include "pool/pool.h"

/* Address space for growth: sixteen times the size, and not less than this. */
#define ALLOC_GROWTH 16
#define ALLOC_RESERVE_LEAST MIB(64)

/* Is @r a lack of something that a smaller reservation needs less of? */
static bool may_be_smaller(int r)
{
	return r == -ENOMEM || r == -EFBIG || r == -EAGAIN || r == -ENOSPC;
}

static int create(struct hm_device *device, const char *name, uint64_t size, uint64_t max_size,
		  uint32_t access, struct hm_map **ret_map)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = size,
		.max_size = max_size,
		.name = name,
	};
	const struct hm_map_desc map_desc = {
		.struct_size = sizeof(map_desc),
		.access = access,
	};
	struct hm_buffer *buffer;
	int r;

	r = buffer_create(device, &desc, &buffer);
	if (r)
		return r;
	r = map_create(buffer, &map_desc, ret_map);
	hm_buffer_unref(buffer); /* the map holds it */
	return r;
}

/* False: *@ret_r is nothing to the caller, who allocates without the pool. */
static bool from_pool(struct hm_device *device, uint64_t size, void *ret_pointer, int *ret_r)
{
	char *pointer;
	int r;

	if (size > POOL_CLASS_MOST)
		return false;
	r = pool_alloc_of_device(device, size, &pointer);
	if (may_be_smaller(r))
		return false;
	if (!r)
		memcpy(ret_pointer, &pointer, sizeof(pointer));
	*ret_r = r;
	return true;
}

int hm_alloc(struct hm_device *device, uint64_t size, uint32_t access, void *ret_pointer)
{
	const uint32_t pooled = HM_READ | HM_WRITE | HM_ALLOC_POOLED;
	static _Atomic uint64_t number;
	uint64_t wanted, max_size;
	char want[16], have[16], name[32];
	struct hm_map *map;
	int r;

	err_begin();
	r = object_check((struct hm_object *)device, OBJECT_DEVICE);
	if (r)
		return r;
	if (!ret_pointer)
		return err_set(-EINVAL, "hm_alloc: ret_pointer is NULL");
	if (!size || size > BUFFER_SIZE_MAX)
		return err_set(-EINVAL, "hm_alloc: %" PRIu64 " bytes are not in 1 to 2^62",
			       size);
	if (access != HM_READ && access != (HM_READ | HM_WRITE) && access != pooled)
		return err_set(-EINVAL,
			       "hm_alloc: access 0x%x is neither HM_READ nor "
			       "HM_READ | HM_WRITE, the latter with or without HM_ALLOC_POOLED",
			       access);
	if (access & HM_ALLOC_POOLED) {
		if (from_pool(device, size, ret_pointer, &r))
			return r;
		err_clear();
		access &= ~HM_ALLOC_POOLED;
	}

	wanted = size < BUFFER_SIZE_MAX / ALLOC_GROWTH ? ALLOC_GROWTH * size : size;
	wanted = max_u64(wanted, ALLOC_RESERVE_LEAST);
	max_size = wanted;
	snprintf(name, sizeof(name), "alloc-%" PRIu64, atomic_fetch_add(&number, 1) + 1);
	for (;;) {
		r = create(device, name, size, max_size, access, &map);
		if (!r || max_size == size || !may_be_smaller(r))
			break;
		max_size = max_u64(max_size / 2, size);
	}
	if (r)
		return r;
	if (max_size != wanted)
		err_warn(
			"%s of address space were reserved for growth instead of %s: a limit "
			"(RLIMIT_AS, RLIMIT_FSIZE, RLIMIT_MEMLOCK, memory, or the device's) did "
			"not allow more",
			format_bytes(max_size, have, sizeof(have)),
			format_bytes(wanted, want, sizeof(want)));
	atomic_store(&map->allocation, true);
	memcpy(ret_pointer, &map->address, sizeof(map->address));
	return 0;
}

/* Finds the allocation that begins at @pointer, and takes a reference. */
static int acquire(const void *pointer, const char *what, struct hm_map **ret_map)
{
	struct hm_pointer_info info;
	struct hm_map *map;
	int r;

	map = registry_acquire(pointer, &info);
	if (!map) {
		r = registry_check_left(pointer);
		return r ? err_prefix(r, "%s", what) :
			   err_set(-EINVAL,
				   "%s: %p is in no allocation: freed already, or foreign",
				   what, pointer);
	}
	r = object_check(&map->object, OBJECT_MAP);
	if (r)
		goto err_unref;
	if (!atomic_load(&map->allocation)) {
		r = err_set(-EINVAL,
			    "%s: %p belongs to a map that hm_alloc did not make, or "
			    "that was freed while work still uses it",
			    what, pointer);
		goto err_unref;
	}
	if (info.map_offset) {
		r = err_set(-EINVAL,
			    "%s: %p is %" PRIu64 " bytes into the allocation that "
			    "begins at %p: pass that",
			    what, pointer, info.map_offset, info.base);
		goto err_unref;
	}
	*ret_map = map;
	return 0;

err_unref:
	hm_map_unref(map);
	return r;
}

#define COPY_INSTEAD "make another allocation by hm_alloc(), and copy"

/* A buffer can be made with more room, an allocation can't: @r and the way that is left. */
static int explain_room(struct hm_buffer *buffer, int r, uint64_t size, uint32_t flags)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	bool moves;
	int query;

	err_hold();
	query = buffer_query(buffer, &info);
	err_release();
	if (query)
		return r;
	if (!(info.caps & HM_CAP_RESIZE))
		return err_set(r,
			       "hm_realloc: %s has %" PRIu64 " bytes, and this device's memory "
			       "can't change its size: " COPY_INSTEAD,
			       buffer->name, info.size);
	moves = info.caps & HM_CAP_REPLACE;
	if (size <= info.max_size || (moves && flags & HM_MAY_MOVE))
		return r;
	return err_set(r,
		       "hm_realloc: %" PRIu64 " bytes are not in the %" PRIu64
		       " that %s may have at its address: %s",
		       size, info.max_size, buffer->name,
		       moves ? "pass HM_MAY_MOVE" :
			       "this device's memory can't move: " COPY_INSTEAD);
}

int hm_realloc(void *pointer, uint64_t size, uint32_t flags, void *ret_pointer)
{
	struct hm_map *map = NULL;
	int r;

	err_begin();
	if (flags & ~HM_MAY_MOVE)
		return err_set(-EINVAL, "hm_realloc: unknown flags 0x%x", flags & ~HM_MAY_MOVE);
	if (pool_has(pointer))
		return pool_realloc(NULL, pointer, size, flags, "hm_realloc", ret_pointer);
	r = acquire(pointer, "hm_realloc", &map);
	if (r)
		return r;
	r = buffer_resize(map->buffer, size, flags);
	if (r == -ENOSPC || r == -EOPNOTSUPP)
		r = explain_room(map->buffer, r, size, flags);
	if (!r && ret_pointer)
		memcpy(ret_pointer, &map->address, sizeof(map->address));
	hm_map_unref(map);
	return r;
}

int hm_free(void *pointer)
{
	struct hm_map *map = NULL;
	int r;

	if (!pointer)
		return 0;
	if (pool_has(pointer))
		return pool_free(NULL, pointer, "hm_free");
	r = acquire(pointer, "hm_free", &map);
	if (r)
		return r;
	/* If two threads free it at once, the second one is refused. */
	if (!atomic_exchange(&map->allocation, false))
		r = err_set(-EINVAL, "hm_free: %p was freed already", pointer);
	else
		hm_map_unref(map); /* the allocation's own */
	hm_map_unref(map);
	return r;
}
