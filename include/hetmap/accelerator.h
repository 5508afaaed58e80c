/* SPDX-License-Identifier: MIT */
/* Accelerator: runs kernels on unified pointers. "opencl:N", "cpu", "sim:N", "soft:N". */
#ifndef HETMAP_ACCELERATOR_H
#define HETMAP_ACCELERATOR_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_accel;

/* How an accelerator reaches the bytes of a map; the best first. */
enum hm_way_in {
	HM_WAY_NONE = 0,     /* not decided yet: nothing was launched */
	HM_WAY_DIRECT = 1,   /* the CPU's addresses are the accelerator's */
	HM_WAY_SVM = 2,      /* system SVM, by capability bit */
	HM_WAY_IMPORT = 3,   /* dma-buf or ARM import */
	HM_WAY_HOST_PTR = 4, /* CL_MEM_USE_HOST_PTR, shown to be in place */
	HM_WAY_COPY = 5,     /* counted copies there and back */
};

enum hm_accel_kind {
	HM_ACCEL_CPU = 0, /* shares caches and page tables with the caller */
	HM_ACCEL_GPU = 1,
	HM_ACCEL_OTHER = 2,
	HM_ACCEL_ENGINE = 3, /* of a simulated device: alignment is of lengths, too */
};

/* hm_accel_desc.flags */
#define HM_ACCEL_FORCE_COPY (1u << 0) /* always HM_WAY_COPY: to compare with */
#define HM_ZERO_COPY_ONLY (1u << 1)   /* an argument that would be copied is an error */
#define HM_ACCEL_NO_QUIRKS (1u << 2)  /* documented behaviour of the driver only */

struct hm_accel_desc {
	uint32_t struct_size;
	uint32_t flags;  /* HM_ACCEL_*, HM_ZERO_COPY_ONLY */
	uint64_t window; /* longest range of one argument; 0: the driver's limit */
};

struct hm_accel_info {
	uint32_t struct_size;
	uint32_t kind;         /* enum hm_accel_kind */
	char name[64];         /* opens it */
	char description[192]; /* device and driver, with version */
	char driver[64];       /* platform or driver name */
	char driver_version[64];
	char forms[64];     /* of kernels it runs: "opencl", "cpu", "engine" */
	char quirks[64];    /* named quirks in force, or "" */
	uint64_t window;    /* longest range of one argument, bytes */
	uint64_t memory;    /* 0: unknown */
	uint64_t alignment; /* of an interior pointer, to go in place */
	uint32_t units;     /* compute units */
	uint32_t ways;      /* bit 1u << enum hm_way_in: may be taken here */
};

/**
 * hm_accel_list - the accelerators that can be opened here, best first
 * @infos:    [in,out] as hm_device_list
 * @capacity: [in]
 * @ret_n:    [out]
 *
 * Loads the OpenCL platforms on the first call. A platform without devices is
 * normal and gives no entry. "cpu" is always there; engines of simulated devices
 * come after it.
 *
 * Errors: -E2BIG. What can't be asked is left out.
 */
HM_API int hm_accel_list(struct hm_accel_info *infos, uint32_t capacity, uint32_t *ret_n);

/**
 * hm_accel_open - open an accelerator
 * @name: [in] "opencl:0", "cpu", "soft:0", or NULL for the best one there is, which
 *        is never an engine
 * @desc: [in, optional]
 * @ret_accel: [out] dropped with hm_accel_unref()
 *
 * Errors: -ENODEV no such accelerator (the text lists those there are), or no engine;
 * -EINVAL flags that exclude each other, or a window of less than a page; -EIO the driver
 * failed (the text has its error's name); -ENOMEM; of "sim" and "soft" hm_device_open's.
 */
HM_API int hm_accel_open(const char *name, const struct hm_accel_desc *desc,
			 struct hm_accel **ret_accel);

/**
 * hm_accel_query - what an accelerator is
 * @accel: [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG.
 */
HM_API int hm_accel_query(struct hm_accel *accel, struct hm_accel_info *ret_info);

/**
 * hm_accel_way_in - how this accelerator reaches a range, and why
 * @accel:   [in]
 * @pointer: [in] inside a map
 * @length:  [in] bytes from there; 0: the rest of the allocation
 * @ret_way: [out] enum hm_way_in that a launch would take now
 *
 * Runs the self-test of that backing where it has not run yet, or a launch on memory of the
 * device's own, by which drivers whose threads block SIGBUS are found out. hm_errmsg()
 * holds the reason when the way is HM_WAY_COPY.
 *
 * Errors: -ENOENT in no map; -ERANGE past its end; -E2BIG beyond the window; -ENODEV the
 * map is lost, or a device was taken away; -EDEADLK from a callback of a view of the map;
 * -EBUSY, -ENOSPC, -EEXIST as of hm_queue_launch; -EIO; -ENOMEM.
 */
HM_API int hm_accel_way_in(struct hm_accel *accel, const void *pointer, uint64_t length,
			   uint32_t *ret_way);

/** hm_accel_ref - take a reference; returns @accel. NULL gives NULL. */
HM_API struct hm_accel *hm_accel_ref(struct hm_accel *accel);

/** hm_accel_unref - drop a reference; NULL is allowed. Queues hold one each. */
HM_API void hm_accel_unref(struct hm_accel *accel);

#ifdef __cplusplus
}
#endif

#endif
