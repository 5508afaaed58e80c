/* SPDX-License-Identifier: MIT */
/*
 * Tier: a place in this machine's ladder of memory, from the fastest rung to the slowest.
 *
 * A rung is the memory of one NUMA node, a DAX device, or a file system on persistent memory. The
 * name of a rung opens it as a device (hm_device_open()). Three words stand for the rung of a node
 * that fits them best on this machine:
 *
 *	fast   the lowest latency
 *	large  the most bytes
 *	far    the highest latency; only where the machine has memory of two nodes or more
 *
 * A program passes a word as hm_buffer_desc.tier, or opens the device "tier:fast", "tier:large"
 * or "tier:far".
 *
 * The figures come from the firmware (HMAT) where the kernel shows them in
 * /sys/devices/system/node/nodeN/access0/initiators. Elsewhere the library measures each node
 * once, for a fifth of a second as a rule, and keeps the figures in $XDG_CACHE_HOME/hetmap or
 * ~/.cache/hetmap until the machine's nodes, their sizes or its processor change.
 */
#ifndef HETMAP_TIER_H
#define HETMAP_TIER_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* hm_buffer_desc.tier, and bit numbers of hm_tier.words */
enum hm_tier_word {
	HM_TIER_DEFAULT =
		0, /* the kernel's choice: near the thread that touches a page first */
	HM_TIER_FAST = 1,
	HM_TIER_LARGE = 2,
	HM_TIER_FAR = 3,
};

enum hm_tier_source {
	HM_TIER_UNKNOWN = 0,  /* there are no figures */
	HM_TIER_FIRMWARE = 1, /* the firmware's table, for the processors that are nearest */
	HM_TIER_MEASURED = 2, /* measured by one thread, on the processor that it ran on */
};

struct hm_tier {
	uint32_t struct_size;
	int32_t node;       /* NUMA node; -1: none, or not known */
	char device[64];    /* hm_device_open() opens it: "node:1" */
	char made_of[64];   /* for people: "memory with 4 processors" */
	uint32_t words;     /* bit 1 << enum hm_tier_word for each word that means this rung */
	uint32_t source;    /* enum hm_tier_source of latency and bandwidth */
	uint64_t latency;   /* ns until a load has its bytes; 0: not known */
	uint64_t bandwidth; /* bytes a second, read; 0: not known */
	uint64_t capacity;  /* bytes */
	uint64_t available; /* bytes that are free now; 0: none, or not known */
	uint32_t persist;   /* enum hm_persist: unit in which stores can be made to last */
	uint32_t reserved;  /* 0 */
};

/* Unit in which bytes outlive a power failure once hm_map_persist() has returned. */
enum hm_persist {
	HM_PERSIST_NONE = 0, /* they do not */
	HM_PERSIST_PAGE = 1, /* the kernel writes whole pages to storage */
	HM_PERSIST_LINE = 2, /* the CPU writes cache lines of 64 bytes to persistent memory */
	HM_PERSIST_BYTE = 3, /* the platform saves the CPU's caches: a fence is enough */
};

/* hm_tier_list flags */
#define HM_TIER_MEASURE (1u << 0) /* measure nodes without figures, and keep the figures */

/**
 * hm_tier_list - list this machine's ladder of memory, the fastest rung first
 * @tiers:    [in,out] array of @capacity; may be NULL when @capacity is 0. tiers[0].struct_size
 *            is the size of one entry, and the caller must set it
 * @capacity: [in] entries in @tiers
 * @flags:    [in] 0 or HM_TIER_MEASURE
 * @ret_n:    [out] number of rungs, even if larger than @capacity
 *
 * The ladder has the nodes that this process may take memory from. Without HM_TIER_MEASURE, rungs
 * with figures come first, and nodes without figures follow in the order of their distance from
 * the processor that the call runs on. A measurement takes up to a quarter of a gigabyte of the
 * node while it runs.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG:  struct_size is larger than this library knows.
 *   -EINVAL: @flags has an unknown bit, or a pointer is NULL.
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_tier_list(struct hm_tier *tiers, uint32_t capacity, uint32_t flags,
			uint32_t *ret_n);

/* Bytes of persistent memory, or of CXL memory, that the hardware can't read. */
struct hm_bad_range {
	uint64_t offset; /* in the device; "pmem:": in the block device of the file system */
	uint64_t length; /* bytes, a multiple of 64 */
};

/**
 * hm_tier_bad_ranges - list the bad ranges of a device with persistent or CXL memory
 * @device:   [in] "dax:PATH"; "pmem:PATH" with a path on a DAX file system; "node:N" of a node that
 *            is one region of CXL memory
 * @ranges:   [out] array of @capacity; may be NULL when @capacity is 0
 * @capacity: [in] entries in @ranges
 * @ret_n:    [out] number of bad ranges, even if larger than @capacity
 *
 * The list is the kernel's (badblocks in sysfs): ranges that a scrub of the platform or a failed
 * access has found. CXL memory keeps the list itself (the poison list), and the kernel, from Linux
 * 6.4 on, asks for it: as root, by a trace instance that this call makes and removes. A load from
 * such a range raises SIGBUS; hm_copy_out() makes -EHWPOISON of it.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     a pointer is NULL.
 *   -ENODEV:     there is no such device.
 *   -EOPNOTSUPP: the memory is neither persistent memory nor CXL memory, or the kernel has no list
 *                of it.
 *   -EACCES:     the list of a DAX device, or of CXL memory, is for root only.
 */
HM_API int hm_tier_bad_ranges(const char *device, struct hm_bad_range *ranges,
			      uint32_t capacity, uint32_t *ret_n);

/**
 * hm_tier_bad_clear - make a bad range usable again; its bytes are lost
 * @device:      [in] as for hm_tier_bad_ranges()
 * @offset:      [in] offset in the device
 * @length:      [in] bytes, from 1; the platform may want a multiple of its unit, mostly 256
 * @ret_cleared: [out] bytes that were cleared
 *
 * The platform clears the error, and the kernel takes the range off its list. The bytes have an
 * undefined value afterwards: write them. No page of the range may be in use. Of CXL memory the
 * lines of 64 bytes that are on the list are cleared, by debugfs, and are zero afterwards.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     a pointer is NULL, or the range is not one of the device.
 *   -ENODEV:     there is no such device.
 *   -EOPNOTSUPP: the memory is neither persistent memory nor CXL memory, or the platform clears no
 *                errors.
 *   -EACCES:     the call is for root only.
 *   -EIO:        the platform has not cleared all of the range; the text says how much.
 */
HM_API int hm_tier_bad_clear(const char *device, uint64_t offset, uint64_t length,
			     uint64_t *ret_cleared);

#ifdef __cplusplus
}
#endif

#endif
