/* SPDX-License-Identifier: MIT */
/* Accelerator: runs kernels on unified pointers. "opencl:N", "cpu", "sim:N", "soft:N". */
#ifndef HETMAP_ACCEL_H
#define HETMAP_ACCEL_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_accel;

/* Ways in which an accelerator reaches the bytes of a map; the best comes first. */
enum hm_way_in {
	HM_WAY_NONE = 0,     /* not decided yet: nothing was launched */
	HM_WAY_DIRECT = 1,   /* the accelerator uses the CPU's addresses */
	HM_WAY_SVM = 2,      /* system SVM, announced by a capability bit */
	HM_WAY_IMPORT = 3,   /* dma-buf or ARM import */
	HM_WAY_HOST_PTR = 4, /* CL_MEM_USE_HOST_PTR, shown to be in place */
	HM_WAY_COPY = 5,     /* counted copies to the accelerator and back */
};

enum hm_accel_kind {
	HM_ACCEL_CPU = 0, /* shares caches and page tables with the caller */
	HM_ACCEL_GPU = 1,
	HM_ACCEL_OTHER = 2,
	HM_ACCEL_ENGINE = 3, /* a simulated device's; alignment is of lengths, too */
};

/* hm_accel_info.caps */
#define HM_ACCEL_ANY_POINTER (1u << 0) /* launches take HM_ANY, see hetmap/queue.h */
#define HM_ACCEL_MIRROR (1u << 1)      /* has entries of its own for it, see hetmap/range.h */
#define HM_ACCEL_MIGRATE (1u << 2)     /* pages of ranges outside maps move to its memory */
#define HM_ACCEL_TOLD (1u << 3)   /* its entries go when the CPU's pages do, not at a use */
#define HM_ACCEL_FENCES (1u << 4) /* it takes HM_ACCEL_IMPLICIT */

/* hm_accel_desc.flags */
#define HM_ACCEL_FORCE_COPY (1u << 0) /* always HM_WAY_COPY, for comparison */
#define HM_ZERO_COPY_ONLY (1u << 1)   /* an argument that needs a copy is an error */
#define HM_ACCEL_NO_QUIRKS (1u << 2)  /* documented behaviour of the driver only */
#define HM_ACCEL_IMPLICIT (1u << 3)   /* work obeys fences of dma-bufs, see hm_accel_open() */

struct hm_accel_desc {
	uint32_t struct_size;
	uint32_t flags;  /* HM_ACCEL_*, HM_ZERO_COPY_ONLY */
	uint64_t window; /* bytes of the longest range of one argument; 0: the driver's limit */
};

struct hm_accel_info {
	uint32_t struct_size;
	uint32_t kind;         /* enum hm_accel_kind */
	char name[64];         /* opens this accelerator */
	char description[192]; /* device and driver, with version */
	char driver[64];       /* platform or driver name */
	char driver_version[64];
	char forms[64];     /* forms of kernels that run here: "opencl", "cpu", "engine" */
	char quirks[64];    /* named quirks in force, or "" */
	uint64_t window;    /* bytes of the longest range of one argument */
	uint64_t memory;    /* bytes; 0: unknown */
	uint64_t alignment; /* bytes: an interior pointer goes in place at multiples */
	uint32_t units;     /* compute units */
	uint32_t ways;      /* possible ways: bit 1u << enum hm_way_in */
	uint32_t caps;      /* HM_ACCEL_ANY_POINTER and the following */
	uint32_t reserved;  /* 0 */
};

/**
 * hm_accel_list - list the accelerators that can be opened here, the best first
 * @infos:    [in,out] array of @capacity, as for hm_device_list()
 * @capacity: [in] entries in @infos
 * @ret_n:    [out] number of accelerators, even if larger than @capacity
 *
 * The first call loads the OpenCL platforms. A platform without devices is normal and adds no
 * entry. "cpu" is always in the list. The engines of simulated devices come after "cpu". The
 * list leaves out accelerators that cannot be asked.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_accel_list(struct hm_accel_info *infos, uint32_t capacity, uint32_t *ret_n);

/**
 * hm_accel_open - open an accelerator
 * @name:      [in] "opencl:0", "cpu", "soft:0", or NULL for the best accelerator of this
 *             machine, which is never an engine
 * @desc:      [in, optional] flags and window
 * @ret_accel: [out] a reference, which the caller drops with hm_accel_unref()
 *
 * With HM_ACCEL_IMPLICIT, work in place takes part in the order that drivers keep by the fences of
 * dma-bufs ("implicit synchronisation", see hetmap/fence.h). Work waits for the fences of other
 * users of its buffers before it begins, and leaves its own. The work of a queue then has one
 * time-out of the device to end, as with hm_fence_fd(). Two kinds of work are refused with
 * -EOPNOTSUPP: work on HM_ANY pointers outside maps, which has no such fence, and work on more than
 * 16 buffers. Arguments that are copied take no part.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENODEV: no accelerator has this name (the text lists the accelerators of this machine), or
 *            the device has no engine.
 *   -EACCES: "opencl": the program has more rights than its caller (set-user-ID).
 *   -EINVAL: two flags exclude each other, or the window is less than a page.
 *   -EOPNOTSUPP: HM_ACCEL_IMPLICIT, and the accelerator lacks HM_ACCEL_FENCES.
 *   -EIO:    the driver failed; the text has the name of the driver's error.
 *   -ENOMEM: not enough memory is available.
 *
 * In addition, for "sim" and "soft", the errors of hm_device_open().
 */
HM_API int hm_accel_open(const char *name, const struct hm_accel_desc *desc,
			 struct hm_accel **ret_accel);

/**
 * hm_accel_query - describe an accelerator
 * @accel:    [in] accelerator
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_accel_query(struct hm_accel *accel, struct hm_accel_info *ret_info);

/**
 * hm_accel_way_in - tell how this accelerator reaches a range, and why
 * @accel:   [in] accelerator
 * @pointer: [in] address inside a map
 * @length:  [in] bytes from @pointer; 0: the rest of the allocation
 * @ret_way: [out] enum hm_way_in that a launch would take now
 *
 * The call runs the self-test of that backing if the self-test has not run yet. If no self-test
 * launches work on the device, the call makes a launch on memory of the device's own. By such a
 * launch the library finds drivers with threads that block SIGBUS. If the way is HM_WAY_COPY,
 * hm_warning() holds the reason.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOENT:  the pointer is in no map.
 *   -ERANGE:  the range ends past the end of its map.
 *   -E2BIG:   the range does not lie in one window of the accelerator; ask about a shorter range.
 *   -ENODEV:  the map is lost, or a device was taken away.
 *   -EDEADLK: a callback of a view of the map made the call.
 *   -EBUSY:   a map is being changed; call again.
 *   -ENOSPC:  the engine has no room at the map's address, or no more queues.
 *   -EEXIST:  something else is bound at the map's address in the engine's page table.
 *   -EIO:     the driver failed.
 *   -ENOMEM:  not enough memory is available.
 */
HM_API int hm_accel_way_in(struct hm_accel *accel, const void *pointer, uint64_t length,
			   uint32_t *ret_way);

/** hm_accel_ref - take a reference, and return @accel. NULL gives NULL. */
HM_API struct hm_accel *hm_accel_ref(struct hm_accel *accel);

/** hm_accel_unref - drop a reference; NULL is allowed. Each queue holds one reference. */
HM_API void hm_accel_unref(struct hm_accel *accel);

#ifdef __cplusplus
}
#endif

#endif
