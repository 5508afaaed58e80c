/* SPDX-License-Identifier: MIT */
/* Pointer: the map, buffer and device that an address belongs to. */
#ifndef HETMAP_POINTER_H
#define HETMAP_POINTER_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_pool;

/*
 * Objects at an address. The struct takes no references: the pointers are valid only as long as
 * the caller knows that the objects live, by a reference of its own or by the logic of its
 * program. In a fork child calls on the objects fail with -EOWNERDEAD.
 */
struct hm_pointer_info {
	struct hm_map *map;
	struct hm_buffer *buffer;
	struct hm_device *device;
	uint64_t map_offset;    /* offset of the address in the map */
	uint64_t buffer_offset; /* offset of the address in the buffer */
	void *base;             /* first byte of the allocation */
	uint64_t length;        /* bytes of the allocation */
	struct hm_pool *pool;   /* NULL: the allocation has a map of its own */
	uint32_t generation;    /* generation of the map */
	uint8_t access;         /* HM_READ | HM_WRITE at the address */
	uint8_t cache;          /* enum hm_cache at the address */
	uint16_t reserved;
};

/**
 * hm_pointer_find - look an address up
 * @pointer:  [in] any value, NULL included
 * @ret_info: [out] the objects at the address, without references
 *
 * Makes no system call, takes no lock and allocates nothing. A look-up takes a few nanoseconds,
 * whatever the number and length of the maps. The function does not set hm_errmsg(). A lost map
 * is found, too, with a new generation, until its last reference is dropped.
 *
 * Thread safety: any thread; async-signal-safe.
 *
 * Errors:
 *   -ENOENT: the address is in no map; or, in a fork child, in a map that the child did not
 *            inherit; or in a block of a pool, and in no allocation.
 *   -EAGAIN: a change was under way in each of a bounded number of tries; try again.
 */
HM_API int hm_pointer_find(const void *pointer, struct hm_pointer_info *ret_info);

/* hm_pointer_detail.fields */
#define HM_POINTER_NODE (1u << 0)      /* NUMA node, by move_pages(2) */
#define HM_POINTER_PAGE_SIZE (1u << 1) /* kernel page size, from smaps */
#define HM_POINTER_RESIDENT (1u << 2)  /* presence in RAM, by mincore(2) */
#define HM_POINTER_LOCKED (1u << 3)    /* lock of the mapping, from smaps */

struct hm_pointer_detail {
	uint32_t struct_size;
	uint32_t fields; /* [in] facts to find out, HM_POINTER_* */
	struct hm_pointer_info info;
	int32_t numa_node; /* -1: the page is not there yet */
	uint32_t resident; /* 1: in RAM, page cache included */
	uint32_t locked;   /* 1: its mapping is locked */
	uint32_t reserved;
	uint64_t page_size; /* of its mapping: that of base pages, or of HM_BUFFER_HUGETLB */
};

/**
 * hm_pointer_query - look an address up, with facts that need system calls
 * @pointer:    [in] any value
 * @ret_detail: [in,out] the caller must set struct_size and fields
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOENT:     as for hm_pointer_find(); the text says which.
 *   -EAGAIN:     as for hm_pointer_find().
 *   -E2BIG:      struct_size is larger than this library knows.
 *   -EOPNOTSUPP: the kernel lacks the facility, or lacks it for maps of this device
 *                (HM_POINTER_RESIDENT); or /proc is not mounted.
 *   -EMFILE:     a file of /proc can't be opened, because the process has no descriptor left.
 *   -ENFILE:     a file of /proc can't be opened, because the system has no open file left.
 *   -EIO:        a file of /proc that the function needs can't be read.
 *   -ENOMEM:     HM_POINTER_RESIDENT: the address was unmapped meanwhile.
 */
HM_API int hm_pointer_query(const void *pointer, struct hm_pointer_detail *ret_detail);

#ifdef __cplusplus
}
#endif

#endif
