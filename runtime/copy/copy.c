// SPDX-License-Identifier: MIT
/* hm_copy, hm_copy_query: the way by the kind of memory at both ends, and by the length. */
#include <hetmap/copy.h>

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "arch/cpu.h"
#include "base/err.h"
#include "copy/copy.h"
#include "core/core.h"

/* Below, no streaming load fetches a line that more than one plain load would touch. */
#define FETCH_LEAST 16u
/* Between two maps of devices: in the nearest cache, beside whatever else is there. */
#define BOUNCE 2048u

_Static_assert((int)HM_COPY_WRITE_BACK == HM_CACHE_WRITE_BACK &&
		       (int)HM_COPY_WRITE_COMBINING == HM_CACHE_WRITE_COMBINING &&
		       (int)HM_COPY_UNCACHED == HM_CACHE_UNCACHED &&
		       (int)HM_COPY_UNKNOWN == HM_CACHE_UNKNOWN,
	       "a kind is a cache mode, or HM_COPY_FAR");

void copy_fence(void)
{
	cpu_store_fence();
}

void copy_both(void *to, const void *from, size_t length)
{
	char bytes[BOUNCE] __attribute__((aligned(64)));
	const struct copy_cpu *cpu = copy_cpu();
	size_t at, n;

	/* The first piece ends where a line of the destination does. */
	n = BOUNCE - ((uintptr_t)to & (COPY_LINE - 1));
	for (at = 0; at < length; at += n, n = BOUNCE) {
		n = min_u64(n, length - at);
		cpu->loads->loads(bytes, (const char *)from + at, n);
		cpu->lines->stores((char *)to + at, bytes, n);
	}
}

/* Stores of a device's memory fill lines in order. */
static bool is_device(uint32_t kind)
{
	return kind == HM_COPY_WRITE_COMBINING || kind == HM_COPY_UNCACHED;
}

/* The portable loads would be slower than memcpy() where the memory is write-back after all. */
static bool is_fetched(uint32_t kind, uint64_t length)
{
	return is_device(kind) || (kind == HM_COPY_UNKNOWN && length >= FETCH_LEAST &&
				   copy_cpu()->loads->passes_caches);
}

copy_function *copy_way_of_kinds(uint8_t to, uint8_t from, uint64_t length)
{
	bool fetched = is_fetched(from, length);

	if (is_device(to))
		return fetched ? copy_both : copy_cpu()->lines->stores;
	return fetched ? copy_cpu()->loads->loads : NULL;
}

/* ---- what is there ---- */

/* Bound to nodes that the calling thread is on none of. */
static bool is_far(const struct hm_buffer *buffer)
{
	unsigned int node;

	if (likely(buffer->numa_mode != HM_NUMA_BIND) || getcpu(NULL, &node) || node > 63)
		return false;
	return !(buffer->numa_nodes >> node & 1);
}

/* Memory in no map, or in one that is being changed, is write-back memory. */
static __attribute__((noinline)) uint32_t kind_of_map(const void *pointer, uint32_t flags)
{
	struct hm_pointer_info at;

	if (registry_find(pointer, &at))
		return HM_COPY_WRITE_BACK;
	if (flags & HM_COPY_STREAM && at.cache == HM_CACHE_WRITE_BACK && is_far(at.buffer))
		return HM_COPY_FAR;
	return at.cache;
}

/* A look-up costs as much as a copy of a page in the cache gains: most programs need none. */
static inline uint32_t kind_at(const void *pointer, uint32_t flags)
{
	if (likely(!flags && !atomic_load_explicit(&registry_n_special, memory_order_relaxed)))
		return HM_COPY_WRITE_BACK;
	return !registry_may_find(pointer) ? (uint32_t)HM_COPY_WRITE_BACK :
					     kind_of_map(pointer, flags);
}

static uint64_t stream_least(uint32_t to, uint32_t from)
{
	return to == HM_COPY_FAR || from == HM_COPY_FAR ? copy_cpu()->far_least :
							  copy_cpu()->stream_least;
}

/* NULL: memcpy(). */
static copy_function *choose(uint32_t to, uint32_t from, uint64_t length, uint32_t flags)
{
	bool far = to == HM_COPY_FAR || from == HM_COPY_FAR;
	copy_function *way;

	if (likely(!(to | from | flags)))
		return NULL;
	way = copy_way(to == HM_COPY_FAR ? 0 : (uint8_t)to,
		       from == HM_COPY_FAR ? 0 : (uint8_t)from, length);
	if (way || !(flags & HM_COPY_STREAM) ||
	    length < (far ? copy_cpu()->far_least : copy_cpu()->stream_least))
		return way;
	return copy_cpu()->streams->stores;
}

static __attribute__((noinline, cold)) int
refuse(const char *what, const void *to, const void *from, uint64_t length, uint32_t flags)
{
	if (flags & ~HM_COPY_STREAM)
		return err_set(-EINVAL, "%s: unknown flags 0x%x", what,
			       flags & ~HM_COPY_STREAM);
	if (!to || !from)
		return err_set(-EINVAL, "%s: a pointer is NULL", what);
	return err_set(-EINVAL, "%s: %" PRIu64 " bytes at %p and at %p overlap: use memmove()",
		       what, length, to, from);
}

/* 0, or -EINVAL; a length of 0 is none of the caller's. */
static inline int check(const char *what, const void *to, const void *from, uint64_t length,
			uint32_t flags)
{
	uintptr_t a = (uintptr_t)to, b = (uintptr_t)from;

	if (unlikely(flags & ~HM_COPY_STREAM))
		return refuse(what, to, from, length, flags);
	if (likely(to && from && a - b >= length && b - a >= length))
		return 0;
	return length ? refuse(what, to, from, length, flags) : 0;
}

/* All copies but those that are memcpy() at first sight. */
static __attribute__((noinline)) int copy(void *to, const void *from, uint64_t length,
					  uint32_t flags)
{
	copy_function *way;
	int r;

	r = check("hm_copy", to, from, length, flags);
	if (r || !length)
		return r;
	way = choose(kind_at(to, flags), kind_at(from, flags), length, flags);
	if (way)
		way(to, from, length);
	else
		memcpy(to, from, length);
	return 0;
}

int hm_copy(void *to, const void *from, uint64_t length, uint32_t flags)
{
	uintptr_t a = (uintptr_t)to, b = (uintptr_t)from;

	err_begin();
	if (unlikely(!length || flags || !to || !from || a - b < length || b - a < length ||
		     atomic_load_explicit(&registry_n_special, memory_order_relaxed)))
		return copy(to, from, length, flags);
	memcpy(to, from, length);
	return 0;
}

/* ---- telling ---- */

static const char *reason(uint32_t to, uint32_t from, uint64_t length, uint32_t flags,
			  bool special)
{
	if (is_device(to))
		return is_fetched(from, length) ?
			       "both ends are memory of a device: whole lines are loaded, and "
			       "stored in order" :
			       "the destination is memory of a device: its lines are stored "
			       "whole and in order";
	if (special && is_device(from))
		return "each load from the source goes to a device: the widest are used";
	if (special && from == HM_COPY_UNKNOWN)
		return "the device of the source does not report its cache mode: streaming "
		       "loads are right for any";
	if (special)
		return "the destination is not read again soon, and the copy is long enough "
		       "to gain by passing the caches";
	if (flags & HM_COPY_STREAM)
		return "the copy is shorter than stream_least: the caches are faster";
	if (to == HM_COPY_UNKNOWN || from == HM_COPY_UNKNOWN)
		return "the device of an end does not report its cache mode: the C library's "
		       "copy is right for any, and fast if it is write-back";
	return "both ends are write-back memory: the C library's copy is the fastest";
}

int hm_copy_query(const void *to, const void *from, uint64_t length,
		  struct hm_copy_info *ret_info)
{
	struct hm_copy_info info = { 0 };
	const struct copy_cpu *cpu;
	copy_function *way;
	int r;

	err_begin();
	if (!ret_info)
		return err_set(-EINVAL, "hm_copy_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_copy_info, to_kind), "hm_copy_info");
	if (!r)
		r = check("hm_copy_query", to, from, length, ret_info->flags);
	if (r)
		return r;
	cpu = copy_cpu();
	info.struct_size = ret_info->struct_size;
	info.flags = ret_info->flags;
	info.to_kind = kind_at(to, info.flags);
	info.from_kind = kind_at(from, info.flags);
	way = choose(info.to_kind, info.from_kind, length, info.flags);
	info.way = !way                     ? "memcpy" :
		   way == copy_both         ? "loads and stores" :
		   way == cpu->loads->loads ? "loads" :
					      "stores";
	info.loads = way == copy_both || way == cpu->loads->loads ? cpu->loads->name : "";
	info.stores = way == copy_both || (way && is_device(info.to_kind)) ? cpu->lines->name :
		      way && way != cpu->loads->loads ? cpu->streams->name :
							"";
	info.reason = reason(info.to_kind, info.from_kind, length, info.flags, way != NULL);
	info.stream_least = stream_least(info.to_kind, info.from_kind);
	info.second_cache = cpu->second_cache;
	info.last_cache = cpu->last_cache;
	struct_write(ret_info, &info, info.struct_size);
	return 0;
}
