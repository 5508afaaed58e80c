/* SPDX-License-Identifier: MIT */
/*
 * For those who plug in a kind of accelerator. The library checks arguments,
 * keeps maps alive and makes fences; an accelerator builds kernels and runs
 * work in the order of its queues.
 */
#ifndef HETMAP_ACCEL_H
#define HETMAP_ACCEL_H

#include <stdbool.h>

#include <hetmap/backend.h>
#include <hetmap/queue.h>
#include <hetmap/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pointer argument, resolved. */
struct hm_accel_range {
	char *pointer;   /* what the kernel gets */
	uint64_t length; /* bytes from there on that it may touch */
	uint64_t offset; /* of pointer in the map */
	uint32_t access; /* HM_READ | HM_WRITE */
	uint32_t way;    /* [out] enum hm_way_in, by view_acquire */
	void *view;      /* what view_create gave for this map */
	void *memory;    /* [out] the accelerator's own, by view_acquire */
};

enum hm_accel_work_kind {
	HM_WORK_LAUNCH = 0,
	HM_WORK_COPY = 1, /* range[0] to, range[1] from */
	HM_WORK_FILL = 2, /* range[0] to, arg[0].u32 the word */
};

/* One piece of work. Stays where it is until work_release. */
struct hm_accel_work {
	uint32_t kind; /* enum hm_accel_work_kind */
	uint32_t n_arg;
	void *kernel; /* launch: what kernel_build gave */
	uint64_t grid[3];
	uint64_t bytes_in;  /* [out] copied towards the accelerator, by submit */
	uint64_t bytes_out; /* [out] copied back by the time it is done */
	uint32_t way;       /* worst of its ranges; [out] for copy and fill */
	int32_t status;     /* [out] 0 or a negative errno, once done */
	void *data[5];      /* the accelerator's own; NULL before submit */
	char text[128];     /* [out] what failed, once status is not 0 */
	struct hm_arg arg[HM_KERNEL_MAX_ARGS];
	struct hm_accel_range range[HM_KERNEL_MAX_ARGS]; /* of arg[i], if a pointer */
};

/* A map, as an accelerator is told of it. Valid until view_destroy. */
struct hm_accel_map {
	uint32_t struct_size;
	uint32_t backing; /* enum hm_backing */
	char *address;
	uint64_t length;
	uint32_t access; /* what all of its bytes allow */
	uint32_t limit;  /* what its bytes may come to allow: the buffer's access */
	/* Where its bytes are; valid in view_create only. */
	struct hm_device *device;          /* the buffer's */
	const char *backend;               /* name of its kind */
	const struct hm_segment *segments; /* of the buffer */
	uint32_t n_segment;
	uint32_t reserved2;
	uint64_t offset; /* in the buffer, of the map's first byte */
};

/* What the built kernel's parameters are, as far as the driver tells. */
struct hm_accel_parameters {
	uint32_t n;                         /* UINT32_MAX: not known */
	uint8_t kind[HM_KERNEL_MAX_ARGS];   /* enum hm_arg_kind; 0: not known */
	uint8_t access[HM_KERNEL_MAX_ARGS]; /* pointers: at least this; 0: not known */
	uint8_t size[HM_KERNEL_MAX_ARGS];   /* scalars: bytes; 0: not known */
	/*
	 * Bit i: what is built may store through pointer i, whatever the launch says
	 * (in OpenCL C: it is not const). Where it can't be copied it needs a map that
	 * may be written. 0: not known.
	 */
	uint32_t writes;
	/* Bit i: what is built can't store through pointer i (in OpenCL C: it is const). */
	uint32_t reads_only;
	uint8_t type[HM_KERNEL_MAX_ARGS]; /* scalars: enum hm_arg_type; 0: not known */
};

struct hm_accel_ops {
	size_t size;      /* sizeof(struct hm_accel_ops) of the plug-in */
	const char *name; /* "opencl": the part of an accelerator's name before ':' */
	const char *form; /* of kernels it runs: "opencl", "cpu", "engine" */

	/* Mandatory. */

	/* What there is, without opening it: -ENODEV past the last @index. */
	int (*list)(uint32_t index, struct hm_accel_info *info);
	/* @rest is what followed the ':' in the name, or "". */
	int (*open)(const char *rest, const struct hm_accel_desc *desc, void **ret_accel);
	void (*close)(void *accel);
	int (*query)(void *accel, struct hm_accel_info *info);

	/* @parameters holds the signature's, all unknown where there is none. */
	int (*kernel_build)(void *accel, const struct hm_kernel_desc *desc,
			    struct hm_accel_parameters *parameters, void **ret_kernel);
	void (*kernel_free)(void *accel, void *kernel);

	int (*queue_create)(void *accel, void **ret_queue);
	/* Its work is done, and nobody is in a call of it, but for work_release. */
	void (*queue_destroy)(void *queue);

	/* Starts @work behind the queue's earlier work. Several threads at once. */
	int (*submit)(void *queue, struct hm_accel_work *work);
	/*
	 * 0: @work is done and its status set, -ETIME: not yet. 0 ns polls,
	 * UINT64_MAX waits for ever. Several threads at once.
	 */
	int (*wait)(void *queue, struct hm_accel_work *work, uint64_t timeout_ns);
	/* Calls @call(@user) from any thread once @work is done; once, late too. */
	int (*notify)(void *queue, struct hm_accel_work *work, void (*call)(void *user),
		      void *user);
	/* Ends what submit put into data[]. Comes after done, perhaps after close. */
	void (*work_release)(struct hm_accel_work *work);

	/*
	 * Optional, all or none. Without them every range is HM_WAY_DIRECT.
	 *
	 * A view holds what an accelerator keeps for a map; the library ends it
	 * before the map changes or goes, and never while a submit uses it.
	 */
	int (*view_create)(void *accel, const struct hm_accel_map *map, void **ret_view);
	void (*view_destroy)(void *view);
	/*
	 * Decides the way in of a range and gets hold of it; hm_errmsg() holds the
	 * reason for HM_WAY_COPY. Held from here over submit to view_release.
	 */
	int (*view_acquire)(void *view, struct hm_accel_range *range);
	void (*view_release)(void *view, struct hm_accel_range *range);

	/*
	 * Optional: a descriptor that becomes readable when @work is done, which is
	 * not known to be yet. -EOPNOTSUPP: none for this work; then notify is used.
	 */
	int (*fence_fd)(void *queue, struct hm_accel_work *work, int *ret_fd);
	/*
	 * Optional: whether @work may be done, from what is known without asking
	 * anyone. The library looks at its oldest work whenever it submits, and polls
	 * by wait only where this says so. False may be late, by a submit or so.
	 */
	bool (*may_be_done)(void *queue, const struct hm_accel_work *work);
	/* Further ops are appended here. */
};

/**
 * hm_accel_register - add a kind of accelerator to the process
 * @ops: [in] must stay valid; not copied when it has this library's size
 *
 * Errors: -EINVAL an op is missing (the text names it), or the name or the form; -EEXIST
 * the name is taken; -E2BIG a longer table than this library knows; -ENOSPC; -ENOMEM.
 */
HM_API int hm_accel_register(const struct hm_accel_ops *ops);

/**
 * hm_accel_error - set hm_errmsg() from an accelerator
 * @r: [in] negative errno
 * @format: [in] as printf(3)
 *
 * Returns: @r.
 */
HM_API int hm_accel_error(int r, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
