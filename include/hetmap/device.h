/* SPDX-License-Identifier: MIT */
/*
 * Device: owns memory that buffers can live in. Opened by name: "host" (memfds
 * and private anonymous memory of this machine), "file" (regular files), "drm:NODE" (a
 * DRM node by path, driver or PCI address: hetmap/drm.h lists them), "heap:NAME"
 * (/dev/dma_heap/NAME: memory that devices and CPUs share, taken at once), "udmabuf"
 * (memfds that leave as dma-bufs by /dev/udmabuf), "sim:N"
 * (/dev/hetsimN, the simulated device of the kernel module), "soft:N" (its twin in
 * this process, which is always there). "sim" and "soft" are their first ones.
 *
 * A device may be taken away while it is used. Its maps keep their addresses, have
 * zeros there from then on, each its own, and the next generation; what needs the
 * device answers -ENODEV, and references are dropped in any order, as ever. Other
 * policies, and the way back, are in hetmap/lost.h.
 */
#ifndef HETMAP_DEVICE_H
#define HETMAP_DEVICE_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_device;

/* What a device or a buffer can do; one bit for each optional operation. */
#define HM_CAP_CREATE (1ull << 0)      /* hm_buffer_create */
#define HM_CAP_FROM_FILE (1ull << 1)   /* hm_buffer_from_file */
#define HM_CAP_IMPORT (1ull << 2)      /* hm_buffer_import */
#define HM_CAP_EXPORT (1ull << 3)      /* hm_buffer_export */
#define HM_CAP_RESIZE (1ull << 4)      /* grows and shrinks inside max_size */
#define HM_CAP_APPEND (1ull << 5)      /* HM_GROW_APPEND */
#define HM_CAP_REPLACE (1ull << 6)     /* HM_GROW_REPLACE and HM_MAY_MOVE */
#define HM_CAP_PRIVATE (1ull << 7)     /* HM_BUFFER_PRIVATE */
#define HM_CAP_HUGETLB (1ull << 8)     /* HM_BUFFER_HUGETLB */
#define HM_CAP_NUMA (1ull << 9)        /* placement by desc.numa_mode */
#define HM_CAP_LOCK (1ull << 10)       /* mlock() keeps pages resident */
#define HM_CAP_PROTECT (1ull << 11)    /* rights change by range */
#define HM_CAP_POPULATE (1ull << 12)   /* MADV_POPULATE_* works on its maps */
#define HM_CAP_SYNC (1ull << 13)       /* hm_map_sync reaches storage */
#define HM_CAP_FORK (1ull << 14)       /* maps are inherited by fork() */
#define HM_CAP_MULTI_MAP (1ull << 15)  /* more than one map of a buffer */
#define HM_CAP_CONTIGUOUS (1ull << 16) /* buffer: one device object */
#define HM_CAP_WRITE (1ull << 17)      /* maps may be writable */
#define HM_CAP_BRACKET (1ull << 18)    /* CPU access needs brackets: hm_map_begin_cpu */
/*
 * Its objects have a length for life: a resize without flags makes a new one, as
 * HM_GROW_REPLACE does, but where somebody else knows the old one: an export, a
 * further map, a map of a part. There it grows as by HM_GROW_APPEND, and what a
 * shrink cuts off stays with the object.
 */
#define HM_CAP_RESIZE_REPLACES (1ull << 19)
#define HM_CAP_DMABUF (1ull << 20)    /* HM_EXPORT_DMABUF: leaves as a dma-buf */
#define HM_CAP_READ_ONLY (1ull << 21) /* HM_EXPORT_READ_ONLY */
#define HM_CAP_PLACE (1ull << 22)     /* hm_buffer_desc.place: there may be a choice */

struct hm_device_info {
	uint32_t struct_size;
	int32_t numa_node; /* -1: none or unknown */
	char name[64];     /* opens this device */
	char backend[16];
	char description[128]; /* one line for people */
	uint64_t caps;         /* HM_CAP_* */
	uint64_t page_size;    /* unit of offsets and rights */
	uint64_t granule;      /* unit the device likes to map and move by */
	uint64_t memory_total; /* 0: unknown */
	uint64_t memory_free;  /* 0: unknown */
	uint32_t generation;   /* times that it was recovered: hetmap/lost.h */
	uint32_t reserved;
};

/**
 * hm_device_list - the devices that can be opened here
 * @infos:    [in,out] array of @capacity; may be NULL when @capacity is 0.
 *            infos[0].struct_size gives the stride and must be set
 * @capacity: [in] entries in @infos
 * @ret_n:    [out] devices there are, also when more than @capacity
 *
 * What can't be opened is left out.
 *
 * Errors: -E2BIG; -ENOMEM.
 */
HM_API int hm_device_list(struct hm_device_info *infos, uint32_t capacity, uint32_t *ret_n);

/**
 * hm_device_open - open a device by name
 * @name:       [in] "host", "sim:0", ..., or NULL for "host", or what the variable
 *              HETMAP_DEVICE of the environment names; all others by name
 *              (hm_device_list()). hm_device_query() tells which it is
 * @ret_device: [out] a reference, dropped with hm_device_unref()
 *
 * Errors: -ENODEV no such device (the text lists those there are, or has the
 * remedy); -EACCES not permitted (the text says to whom it is); -EPROTO it and this
 * library don't speak the same version (the text has both); -EINVAL HETMAP_RETIRE,
 * HETMAP_SOFT, the settings of "soft", or HETMAP_DRM_IDLE has a mistake; -EOPNOTSUPP
 * "drm:": no DRM node, or a driver or kernel that the library can't use; "soft": this
 * machine's pages are not of 4 KiB; -EMFILE; -ENOMEM; -EAGAIN HETMAP_RETIRE asks for a
 * thread that can't be started; of a path, what open(2) answers.
 * The text says so where it was HETMAP_DEVICE that named the device.
 */
HM_API int hm_device_open(const char *name, struct hm_device **ret_device);

/**
 * hm_device_query - what a device is and can do
 * @device:   [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG; -ENODEV it was taken away.
 */
HM_API int hm_device_query(struct hm_device *device, struct hm_device_info *ret_info);

/** hm_device_ref - take a reference; returns @device. NULL gives NULL. */
HM_API struct hm_device *hm_device_ref(struct hm_device *device);

/**
 * hm_device_unref - drop a reference; NULL is allowed
 *
 * The device closes with its last reference; buffers hold one each, so any
 * order is right.
 */
HM_API void hm_device_unref(struct hm_device *device);

#ifdef __cplusplus
}
#endif

#endif
