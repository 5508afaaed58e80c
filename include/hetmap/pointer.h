/* SPDX-License-Identifier: MIT */
/* Pointer: which map, buffer and device an address belongs to. */
#ifndef HETMAP_POINTER_H
#define HETMAP_POINTER_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The objects are borrowed: valid while the caller knows, by a reference of
 * its own or by its program's logic, that they live.
 */
struct hm_pointer_info {
	struct hm_map *map;
	struct hm_buffer *buffer;
	struct hm_device *device;
	uint64_t map_offset;    /* of the address in the map */
	uint64_t buffer_offset; /* of the address in the buffer */
	void *base;             /* allocation: first byte */
	uint64_t length;        /* allocation: bytes */
	uint32_t generation;    /* of the map */
	uint8_t access;         /* HM_READ | HM_WRITE at the address */
	uint8_t cache;          /* enum hm_cache at the address */
	uint16_t reserved;
};

/**
 * hm_pointer_find - look an address up
 * @pointer:  [in] any value
 * @ret_info: [out]
 *
 * No system call, no lock, no allocation; async-signal-safe. Takes a few
 * nanoseconds, whatever the number and length of maps.
 *
 * Errors: -ENOENT in no map (also: in a fork child, maps it did not inherit);
 * -EAGAIN a change was under way in every one of the bounded tries.
 * Does not set hm_errmsg().
 */
HM_API int hm_pointer_find(const void *pointer, struct hm_pointer_info *ret_info);

/* hm_pointer_detail.fields */
#define HM_POINTER_NODE (1u << 0)      /* NUMA node: move_pages(2) */
#define HM_POINTER_PAGE_SIZE (1u << 1) /* kernel page size: smaps */
#define HM_POINTER_RESIDENT (1u << 2)  /* mincore(2) */
#define HM_POINTER_LOCKED (1u << 3)    /* smaps */

struct hm_pointer_detail {
	uint32_t struct_size;
	uint32_t fields; /* [in] what to find out */
	struct hm_pointer_info info;
	int32_t numa_node; /* -1: the page is not there yet */
	uint32_t resident; /* 1: in RAM (page cache included) */
	uint32_t locked;   /* 1: its mapping is locked */
	uint32_t reserved;
	uint64_t page_size; /* by which it may be mapped */
};

/**
 * hm_pointer_query - what costs system calls to know about an address
 * @pointer:    [in]
 * @ret_detail: [in,out] struct_size and fields set by the caller
 *
 * Errors: -ENOENT in no map; -EAGAIN as of hm_pointer_find; -E2BIG; -EOPNOTSUPP the
 * kernel has not that facility, or not for maps of this device (HM_POINTER_RESIDENT), or
 * /proc is not mounted; -EMFILE, -ENFILE, -EIO what is needed of it can't be read; -ENOMEM
 * HM_POINTER_RESIDENT: it was unmapped meanwhile.
 */
HM_API int hm_pointer_query(const void *pointer, struct hm_pointer_detail *ret_detail);

#ifdef __cplusplus
}
#endif

#endif
