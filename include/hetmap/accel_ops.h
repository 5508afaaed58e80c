/* SPDX-License-Identifier: MIT */
/*
 * Interface for plug-ins that add a kind of accelerator. The library checks arguments, keeps
 * maps alive and makes fences. An accelerator builds kernels and runs work in the order of its
 * queues.
 */
#ifndef HETMAP_ACCEL_OPS_H
#define HETMAP_ACCEL_OPS_H

#include <stdbool.h>

#include <hetmap/backend.h>
#include <hetmap/error.h>
#include <hetmap/queue.h>
#include <hetmap/range.h>
#include <hetmap/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A resolved pointer argument. */
struct hm_accel_range {
	char *pointer;   /* address that the kernel gets */
	uint64_t length; /* bytes from pointer that the kernel may touch */
	uint64_t offset; /* bytes from the start of the map to pointer */
	uint32_t access; /* HM_READ | HM_WRITE */
	uint32_t way;    /* [out] enum hm_way_in, set by view_acquire */
	void *view;      /* result of view_create for this map */
	void *memory;    /* [out] the accelerator's own, set by view_acquire */
};

enum hm_accel_work_kind {
	HM_WORK_LAUNCH = 0,
	HM_WORK_COPY = 1, /* copies range[1] to range[0] */
	HM_WORK_FILL = 2, /* fills range[0] with the word arg[0].u32 */
};

/* One piece of work. The work stays at its address until work_release. */
struct hm_accel_work {
	uint32_t kind; /* enum hm_accel_work_kind */
	uint32_t n_arg;
	void *kernel; /* launch: result of kernel_build */
	uint64_t grid[3];
	uint64_t bytes_in;  /* [out] bytes copied to the accelerator, set by submit */
	uint64_t bytes_out; /* [out] bytes copied back by the time the work is done */
	uint32_t way;       /* worst of the ranges; [out] for copy and fill */
	int32_t status;     /* [out] 0 or a negative errno, once the work is done */
	void *data[5];      /* the accelerator's own; NULL before submit */
	char text[128];     /* [out] description of the failure if status is not 0 */
	struct hm_arg arg[HM_KERNEL_MAX_ARGS];
	struct hm_accel_range range[HM_KERNEL_MAX_ARGS]; /* range of arg[i], if a pointer */
};

/* Description of a map for an accelerator. The description is valid until view_destroy. */
struct hm_accel_map {
	uint32_t struct_size;
	uint32_t backing; /* enum hm_backing */
	char *address;
	uint64_t length;
	uint32_t access; /* access that all bytes of the map allow */
	uint32_t limit;  /* access that the bytes may come to allow: that of the buffer */
	/* Location of the bytes; valid in view_create only. */
	struct hm_device *device;          /* device of the buffer */
	const char *backend;               /* name of the device's kind */
	const struct hm_segment *segments; /* segments of the buffer */
	uint32_t n_segment;
	uint32_t reserved2;
	uint64_t offset; /* offset in the buffer of the map's first byte */
};

/* Parameters of the built kernel, as far as the driver reports them. */
struct hm_accel_parameters {
	uint32_t n;                         /* number of parameters; UINT32_MAX: not known */
	uint8_t kind[HM_KERNEL_MAX_ARGS];   /* enum hm_arg_kind; 0: not known */
	uint8_t access[HM_KERNEL_MAX_ARGS]; /* pointers: at least this; 0: not known */
	uint8_t size[HM_KERNEL_MAX_ARGS];   /* scalars: bytes; 0: not known */
	/*
	 * Bit i: the built kernel may store through pointer i, whatever the launch says (in
	 * OpenCL C: the pointer is not const). If the library cannot copy the argument, the
	 * argument needs a map that may be written. 0: not known.
	 */
	uint32_t writes;
	/* Bit i: the built kernel cannot store through pointer i (in OpenCL C: const). */
	uint32_t reads_only;
	uint8_t type[HM_KERNEL_MAX_ARGS]; /* scalars: enum hm_arg_type; 0: not known */
};

struct hm_accel_ops {
	size_t size;      /* sizeof(struct hm_accel_ops) of the plug-in */
	const char *name; /* "opencl": the part of an accelerator's name before ':' */
	const char *form; /* form of kernels that run here: "opencl", "cpu", "engine" */

	/* Mandatory operations. */

	/*
	 * Describes accelerator number @index without opening it. Returns -ENODEV past the last
	 * accelerator.
	 */
	int (*list)(uint32_t index, struct hm_accel_info *info);
	/* Opens an accelerator. @rest is the part of its name after the ':', or "". */
	int (*open)(const char *rest, const struct hm_accel_desc *desc, void **ret_accel);
	void (*close)(void *accel);
	int (*query)(void *accel, struct hm_accel_info *info);

	/*
	 * Builds the form of a kernel for this accelerator. @parameters holds the parameters of
	 * the signature. All of them are unknown if the kernel has no signature.
	 */
	int (*kernel_build)(void *accel, const struct hm_kernel_desc *desc,
			    struct hm_accel_parameters *parameters, void **ret_kernel);
	void (*kernel_free)(void *accel, void *kernel);

	int (*queue_create)(void *accel, void **ret_queue);
	/*
	 * Destroys a queue. The queue's work is done by then, and no thread is in a call on the
	 * queue, except that work_release may still come.
	 */
	void (*queue_destroy)(void *queue);

	/* Starts @work behind the queue's earlier work. Several threads may call it at once. */
	int (*submit)(void *queue, struct hm_accel_work *work);
	/*
	 * Waits for @work. Returns 0 once @work is done and its status is set, and -ETIME
	 * before that. A timeout of 0 ns polls, UINT64_MAX waits for ever. Several threads may
	 * call this operation at once.
	 */
	int (*wait)(void *queue, struct hm_accel_work *work, uint64_t timeout_ns);
	/*
	 * Calls @call(@user) from any thread once @work is done. The call comes once, also if
	 * @work was done before.
	 */
	int (*notify)(void *queue, struct hm_accel_work *work, void (*call)(void *user),
		      void *user);
	/*
	 * Frees the data that submit put into data[]. The call comes after the work is done,
	 * perhaps after close.
	 */
	void (*work_release)(struct hm_accel_work *work);

	/*
	 * Optional operations, all or none. Without them every range is HM_WAY_DIRECT.
	 *
	 * A view holds the accelerator's data for a map. The library destroys the view before
	 * the map changes or goes, and never while a submit uses the view.
	 */
	int (*view_create)(void *accel, const struct hm_accel_map *map, void **ret_view);
	void (*view_destroy)(void *view);
	/*
	 * Decides the way in of a range and takes hold of the range. If the way is HM_WAY_COPY,
	 * hm_warning() must hold the reason: hm_error_set(0, ...) puts it there. The hold lasts
	 * from here over submit to view_release.
	 */
	int (*view_acquire)(void *view, struct hm_accel_range *range);
	void (*view_release)(void *view, struct hm_accel_range *range);

	/*
	 * Optional: returns a descriptor that becomes readable when @work is done. At the time
	 * of the call @work is not known to be done. -EOPNOTSUPP means that this work has no
	 * descriptor; the library then uses notify.
	 */
	int (*fence_fd)(void *queue, struct hm_accel_work *work, int *ret_fd);
	/*
	 * Optional: tells whether @work may be done, from local knowledge, without asking the
	 * driver or the device. The library looks at its oldest work whenever it submits, and
	 * polls by wait only if this operation returns true. The answer false may be late, by
	 * about one submit.
	 */
	bool (*may_be_done)(void *queue, const struct hm_accel_work *work);
	/*
	 * Optional: takes hold of a range that was passed as HM_ANY and that no view reaches: it
	 * is in no map, or in one whose view would be HM_WAY_COPY. Sets its way, to any but
	 * HM_WAY_COPY. The hold lasts until the work is done. range->view is NULL, from here to
	 * the end of submit. An accelerator with HM_ACCEL_ANY_POINTER in its caps has this
	 * operation.
	 */
	int (*any_acquire)(void *accel, struct hm_accel_range *range);
	/*
	 * Optional operations, all or none, with HM_ACCEL_MIRROR: entries of the accelerator for
	 * memory of the process, as hetmap/range.h has them. Ranges are whole pages, below 2^47
	 * or not: the operations check.
	 *
	 * range_prefetch returns when the pages are there. range_query sets why, device_access,
	 * order and moves of every page, and place to HM_RANGE_DEVICE where the page is there.
	 * range_events copies events from number *@cursor on, and sets *@cursor behind them; a
	 * first call with UINT64_MAX only sets it to the next event. It does not wait: 0 events.
	 */
	int (*range_advise)(void *accel, uint64_t address, uint64_t length, uint32_t advice,
			    uint64_t value);
	int (*range_prefetch)(void *accel, uint64_t address, uint64_t length, uint32_t access);
	int (*range_query)(void *accel, uint64_t address, uint64_t length,
			   struct hm_range_page *pages);
	int (*range_events)(void *accel, uint64_t *cursor, struct hm_range_event *events,
			    uint32_t capacity, uint32_t *ret_n, uint64_t *ret_lost);
	int (*range_counts)(void *accel, struct hm_range_counts *counts);
	int (*range_learn)(void *accel, uint64_t least, uint64_t most);
	/* Further operations are appended here. */
};

/**
 * hm_accel_register - add a kind of accelerator to the process
 * @ops: [in] table of operations, which must stay valid; a table of this library's size is not
 *       copied
 *
 * Programs then open accelerators of this kind as "name" or "name:rest".
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: a mandatory operation is missing, or one of a group (the text names it); or the
 *            name or the form is missing, or the name has a colon.
 *   -EEXIST: another kind of accelerator has this name; choose another name.
 *   -E2BIG:  the table is longer than this library knows; build the plug-in with the headers of
 *            this library.
 *   -ENOSPC: the process has the largest possible number of kinds; the text has that number.
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_accel_register(const struct hm_accel_ops *ops);

#ifdef __cplusplus
}
#endif

#endif
