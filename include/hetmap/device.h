/* SPDX-License-Identifier: MIT */
/*
 * Device: owns memory that buffers can live in. The caller opens a device by one of these
 * names:
 *
 *	"host"      memfds and private anonymous memory of this machine
 *	"node:N"    memory of NUMA node N: memfds and private memory that stay there
 *	"tier:WORD" memory of the node that fast, large or far stands for (hetmap/tier.h)
 *	"dax:PATH"  a DAX device, /dev/daxX.Y: persistent or far memory without a file system
 *	"pmem:PATH" files beside PATH that outlive a power failure (hm_map_persist())
 *	"file"      regular files
 *	"drm:NODE"  a DRM node by path, driver or PCI address: hetmap/drm.h lists the nodes
 *	"heap:NAME" /dev/dma_heap/NAME: memory that devices and CPUs share, allocated at once
 *	"udmabuf"   memfds that leave as dma-bufs by /dev/udmabuf
 *	"sim:N"     /dev/hetsimN, the simulated device of the kernel module
 *	"soft:N"    the twin of "sim:N" in this process, which always exists
 *
 * "sim" and "soft" alone mean number 0.
 *
 * A device may be taken away while it is used. Its maps then keep their addresses and show
 * zeros, each map its own. The generation of these maps increases by one. Calls that need the
 * device fail with -ENODEV from then on. The caller may still drop references, in any order.
 * hetmap/loss.h has the policies other than zeros, and recovery.
 */
#ifndef HETMAP_DEVICE_H
#define HETMAP_DEVICE_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_device;

/* Capabilities of a device or a buffer; one bit for each optional operation. */
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
#define HM_CAP_POPULATE (1ull << 12)   /* MADV_POPULATE_* works on the maps */
#define HM_CAP_SYNC (1ull << 13)       /* hm_map_sync reaches storage */
#define HM_CAP_FORK (1ull << 14)       /* fork() children inherit maps */
#define HM_CAP_MULTI_MAP (1ull << 15)  /* a buffer may have more than one map */
#define HM_CAP_CONTIGUOUS (1ull << 16) /* the buffer is one device object */
#define HM_CAP_WRITE (1ull << 17)      /* maps may be writable */
#define HM_CAP_BRACKET (1ull << 18)    /* CPU access needs brackets: hm_map_begin_cpu */
/*
 * Objects of the device keep the length that they were made with. A resize without flags
 * therefore makes a new object, as HM_GROW_REPLACE does. This does not hold if the old object
 * is in use elsewhere (an export, a further map, a map of a part). In that case the buffer
 * grows as by HM_GROW_APPEND, and the bytes that a shrink cuts off stay with the object.
 */
#define HM_CAP_RESIZE_REPLACES (1ull << 19)
#define HM_CAP_DMABUF (1ull << 20)    /* HM_EXPORT_DMABUF: leaves as a dma-buf */
#define HM_CAP_READ_ONLY (1ull << 21) /* HM_EXPORT_READ_ONLY */
#define HM_CAP_PLACE (1ull << 22)     /* hm_buffer_desc.place: a choice may exist */
#define HM_CAP_PERSIST (1ull << 23)   /* hm_map_persist: bytes outlive a power failure */

struct hm_device_info {
	uint32_t struct_size;
	int32_t numa_node; /* -1: none or unknown */
	char name[64];     /* opens this device */
	char backend[16];
	char description[128]; /* one line for people */
	uint64_t caps;         /* HM_CAP_* */
	uint64_t page_size;    /* unit of offsets and rights, in bytes */
	uint64_t granule;      /* unit in which the device prefers to map and move, in bytes */
	uint64_t memory_total; /* bytes; 0: unknown */
	uint64_t memory_free;  /* bytes; 0: none is free, or unknown */
	uint32_t generation;   /* number of recoveries: hetmap/loss.h */
	uint32_t reserved;
};

/**
 * hm_device_list - list the devices that can be opened here
 * @infos:    [in,out] array of @capacity; may be NULL when @capacity is 0. infos[0].struct_size
 *            is the size of one entry, and the caller must set it
 * @capacity: [in] entries in @infos
 * @ret_n:    [out] number of devices, even if larger than @capacity
 *
 * The list leaves out devices that cannot be opened.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG:  struct_size is larger than this library knows.
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_device_list(struct hm_device_info *infos, uint32_t capacity, uint32_t *ret_n);

/**
 * hm_device_open - open a device by name
 * @name:       [in] "host", "sim:0", ..., or NULL for the device that the environment variable
 *              HETMAP_DEVICE names, by default "host"; all other devices open by name only
 *              (hm_device_list())
 * @ret_device: [out] a reference, which the caller drops with hm_device_unref()
 *
 * hm_device_query() describes the opened device. Each call makes a handle of its own, also for a
 * device that is open already: hm_device_recover() brings back the buffers of one handle only.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENODEV:     no device has this name; the text lists the devices of this machine, or has
 *                the remedy.
 *   -EACCES:     the process may not open the device; the text tells which user or group may,
 *                and has the remedy.
 *   -EPROTO:     the device and this library speak different versions; the text has both.
 *   -EINVAL:     HETMAP_RETIRE, HETMAP_SOFT (the settings of "soft") or HETMAP_DRM_IDLE has a
 *                mistake; correct the variable.
 *   -EOPNOTSUPP: "drm:": the path is not a DRM node, or the library cannot use the driver or
 *                the kernel. "soft": this machine's pages are not of 4 KiB.
 *   -EMFILE:     the process has too many open files.
 *   -ENOMEM:     not enough memory is available.
 *   -EAGAIN:     HETMAP_RETIRE asks for a thread, which cannot be started now.
 *
 * For a path, in addition the errors of open(2). If HETMAP_DEVICE named the device, the text
 * says so.
 */
HM_API int hm_device_open(const char *name, struct hm_device **ret_device);

/**
 * hm_device_query - describe a device and its capabilities
 * @device:   [in] device
 * @ret_info: [in,out] struct_size set by the caller
 *
 * The function asks the device, and thus tells whether it is lost.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG:  struct_size is larger than this library knows.
 *   -ENODEV: the device was taken away.
 */
HM_API int hm_device_query(struct hm_device *device, struct hm_device_info *ret_info);

/** hm_device_ref - take a reference, and return @device. NULL gives NULL. */
HM_API struct hm_device *hm_device_ref(struct hm_device *device);

/**
 * hm_device_unref - drop a reference; NULL is allowed
 * @device: [in] device
 *
 * A device closes with its last reference. Each buffer holds one, so the caller may drop
 * references in any order.
 *
 * Thread safety: any thread.
 */
HM_API void hm_device_unref(struct hm_device *device);

#ifdef __cplusplus
}
#endif

#endif
