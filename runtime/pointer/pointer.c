// SPDX-License-Identifier: MIT
/* Facts about an address. The registry does the lookup itself. */
#include <hetmap/pointer.h>

#include <errno.h>
#include <inttypes.h>

#include "core/core.h"
#include "base/err.h"
#include "pool/pool.h"
#include "registry/registry.h"
#include "base/smaps.h"
#include "base/sys.h"
#include "base/util.h"

int hm_pointer_find(const void *pointer, struct hm_pointer_info *ret_info)
{
	struct hm_pointer_info info;
	int r;

	if (unlikely(!ret_info))
		return -EINVAL;
	if (likely(!pool_has(pointer)))
		return registry_find(pointer, ret_info);
	r = registry_find(pointer, &info);
	if (!r)
		r = pool_narrow(pointer, &info);
	if (likely(!r))
		*ret_info = info;
	return r;
}

static int query_node(void *page, struct hm_pointer_detail *detail)
{
	int node = sys_page_node(page);

	if (node == -ENOENT || node == -EFAULT) {
		/* Not touched yet, or (-EFAULT) the page of zeros. */
		detail->numa_node = -1;
		return 0;
	}
	if (node == -ENOSYS)
		return err_set(-EOPNOTSUPP, "this kernel has no move_pages(): it was built "
					    "without CONFIG_MIGRATION or CONFIG_NUMA");
	if (node < 0)
		return err_set(node,
			       "move_pages() does not tell the node of the page at %p: %s",
			       page, err_name(node));
	detail->numa_node = node;
	return 0;
}

/*
 * Can the kernel look into maps of this kind? Walks of page tables skip a device's special pages
 * (VM_PFNMAP), and mincore() answers 0 for them.
 */
static int check_walkable(const void *pointer)
{
	struct hm_pointer_info info;
	struct hm_map *map = registry_acquire(pointer, &info);
	bool special;

	if (!map)
		return err_set(-ENOENT, "%p is in no map any more", pointer);
	special = !(map->buffer->caps & HM_CAP_POPULATE);
	hm_map_unref(map);
	return special ? err_set(-EOPNOTSUPP,
				 "the kernel does not tell which pages of this device's maps "
				 "are present") :
			 0;
}

static int query_resident(const void *pointer, void *page, struct hm_pointer_detail *detail)
{
	unsigned char present = 0;
	int r = check_walkable(pointer);

	if (r)
		return r;
	r = sys_mincore(page, page_size(), &present);
	if (r == -ENOSYS)
		return err_set(-EOPNOTSUPP, "this kernel has no mincore()");
	if (r)
		return err_set(r, "mincore() of the page at %p: %s", page, err_name(r));
	detail->resident = present & 1;
	return 0;
}

static int query_smaps(void *page, struct hm_pointer_detail *detail)
{
	struct smaps_sum sum;
	int r = smaps_read(page, page_size(), &sum);

	if (r == -ENOENT)
		return err_set(-EOPNOTSUPP,
			       "page size and locks are read from "
			       "/proc/self/smaps, which is not there: mount /proc");
	if (r)
		return err_set(r, "/proc/self/smaps: %s", err_name(r));
	if (detail->fields & HM_POINTER_PAGE_SIZE)
		detail->page_size = sum.page_size;
	if (detail->fields & HM_POINTER_LOCKED)
		detail->locked = sum.marked;
	return 0;
}

int hm_pointer_query(const void *pointer, struct hm_pointer_detail *ret_detail)
{
	const uint32_t known = HM_POINTER_NODE | HM_POINTER_PAGE_SIZE | HM_POINTER_RESIDENT |
			       HM_POINTER_LOCKED;
	struct hm_pointer_detail detail = { .numa_node = -1 };
	struct registry_entry nearest;
	void *page;
	int r;

	err_begin();
	if (!ret_detail)
		return err_set(-EINVAL, "ret_detail is NULL");
	r = struct_check_out(ret_detail->struct_size, sizeof(detail),
			     offsetof(struct hm_pointer_detail, numa_node),
			     "hm_pointer_detail");
	if (r)
		return r;
	detail.struct_size = ret_detail->struct_size;
	detail.fields = ret_detail->fields;
	if (detail.fields & ~known)
		return err_set(-EINVAL, "fields has unknown bits 0x%" PRIx32,
			       detail.fields & ~known);
	r = registry_find(pointer, &detail.info);
	if (!r && pool_narrow_wait(pointer, &detail.info))
		return err_set(
			-ENOENT,
			"%p is in a block of a pool and in no allocation: freed already, "
			"or beside one",
			pointer);
	if (r == -EAGAIN)
		return err_set(r, "the map at %p kept changing: call again", pointer);
	if (r && !registry_nearest(pointer, &nearest))
		return err_set(r, "%p is in no map: this process has none", pointer);
	if (r)
		return err_set(r,
			       "%p is in no map; the nearest one is %" PRIu64
			       " bytes from 0x%" PRIx64 " on",
			       pointer, nearest.length, nearest.base);
	page = (void *)round_down((uintptr_t)pointer, page_size());
	if (detail.fields & HM_POINTER_NODE) {
		r = query_node(page, &detail);
		if (r)
			return r;
	}
	if (detail.fields & HM_POINTER_RESIDENT) {
		r = query_resident(pointer, page, &detail);
		if (r)
			return r;
	}
	if (detail.fields & (HM_POINTER_PAGE_SIZE | HM_POINTER_LOCKED)) {
		r = query_smaps(page, &detail);
		if (r)
			return r;
	}
	struct_write(ret_detail, &detail, detail.struct_size);
	return 0;
}
