/* SPDX-License-Identifier: MIT */
/* Queue: ordered work on an accelerator. Queues run in parallel. */
#ifndef HETMAP_QUEUE_H
#define HETMAP_QUEUE_H

#include <hetmap/fence.h>
#include <hetmap/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_queue;

/**
 * hm_queue_create - make a queue
 * @accel: [in]
 * @flags: [in] 0
 * @ret_queue: [out] dropped with hm_queue_unref()
 *
 * Errors: -EIO the driver failed; -ENOSPC the engine has no more queues; -ENODEV its
 * device was taken away; -ENOMEM.
 */
HM_API int hm_queue_create(struct hm_accel *accel, uint32_t flags, struct hm_queue **ret_queue);

/*
 * Scalars. Integers and floats have the size that the name says. Of hm_arg_scalar() nobody
 * knows whether its bytes are a float or an integer.
 */
static inline struct hm_arg hm_arg_scalar(const void *value, uint32_t size)
{
	struct hm_arg arg = { HM_ARG_SCALAR, 0, 0, size, { NULL }, 0 };
	const unsigned char *from = (const unsigned char *)value;
	uint32_t i;

	for (i = 0; i < size && i < sizeof(arg.value); i++)
		arg.value[i] = from[i];
	return arg;
}

static inline struct hm_arg hm_arg_integer(const void *value, uint32_t size)
{
	struct hm_arg arg = hm_arg_scalar(value, size);

	arg.type = HM_ARG_INTEGER;
	return arg;
}

static inline struct hm_arg hm_arg_float(const void *value, uint32_t size)
{
	struct hm_arg arg = hm_arg_scalar(value, size);

	arg.type = HM_ARG_FLOAT;
	return arg;
}

/* clang-format off */
static inline struct hm_arg hm_arg_f32(float v) { return hm_arg_float(&v, sizeof(v)); }
static inline struct hm_arg hm_arg_f64(double v) { return hm_arg_float(&v, sizeof(v)); }
static inline struct hm_arg hm_arg_i32(int32_t v) { return hm_arg_integer(&v, sizeof(v)); }
static inline struct hm_arg hm_arg_u32(uint32_t v) { return hm_arg_integer(&v, sizeof(v)); }
static inline struct hm_arg hm_arg_i64(int64_t v) { return hm_arg_integer(&v, sizeof(v)); }
static inline struct hm_arg hm_arg_u64(uint64_t v) { return hm_arg_integer(&v, sizeof(v)); }
/* clang-format on */

static inline struct hm_arg hm_arg_range(const void *pointer, uint64_t length, uint32_t access)
{
	struct hm_arg arg = { HM_ARG_POINTER, (uint8_t)access, 0, 0, { pointer }, length };

	return arg;
}

static inline struct hm_arg hm_arg_local(uint32_t size)
{
	struct hm_arg arg = { HM_ARG_LOCAL, 0, 0, size, { NULL }, 0 };

	return arg;
}

#define HM_F32(v) hm_arg_f32(v)
#define HM_F64(v) hm_arg_f64(v)
#define HM_I32(v) hm_arg_i32(v)
#define HM_U32(v) hm_arg_u32(v)
#define HM_I64(v) hm_arg_i64(v)
#define HM_U64(v) hm_arg_u64(v)
#define HM_LOCAL(size) hm_arg_local(size)
/*
 * Unified pointers. The kernel gets p itself; what it may touch is the whole
 * allocation that contains p, or with HM_RANGE length bytes from p on.
 */
#define HM_IN(p) hm_arg_range((p), 0, HM_READ)
#define HM_OUT(p) hm_arg_range((p), 0, HM_WRITE)
#define HM_INOUT(p) hm_arg_range((p), 0, HM_READ | HM_WRITE)
#define HM_RANGE(p, length, access) hm_arg_range((p), (length), (access))

/**
 * hm_queue_launch - run a kernel
 * @queue:  [in]
 * @kernel: [in] built here on the first launch
 * @grid:   [in] work items in 3 dimensions; unused ones 1
 * @args:   [in] in the order of the kernel's parameters
 * @n_arg:  [in] up to HM_KERNEL_MAX_ARGS
 * @ret_fence: [out, optional] dropped with hm_fence_unref()
 *
 * Does for its arguments what hm_map_end_cpu(WRITE) does. From here to
 * hm_fence_wait() the bytes it may touch belong to the accelerator. The maps
 * stay until the work is done, whoever drops his references.
 *
 * Errors: -EINVAL the number or kinds of arguments do not match the kernel's signature or,
 * as far as the driver tells, its OpenCL source: a float for an integer, another size, or a
 * pointer passed to be written where the source says const (the text says which). What a
 * pointer points to is not compared. A zero grid, an argument that goes by copy overlaps
 * one that is written (by their bytes: also through two maps of one buffer, two buffers
 * of one file, or a buffer and an import of it in this process); -EFAULT a pointer outside
 * every map (the text names the nearest); -ERANGE a range past its map; -EACCES the kernel
 * would write to a range that its map does not let be written, or read one without
 * access (the text has kernel, argument and range): where the launch says so, or where
 * it says that a pointer is only read, but the OpenCL source does not (no const) and
 * nothing is copied; what a CPU function stores untold is a SIGSEGV; -E2BIG beyond the
 * accelerator's window; -EBUSY a map is being changed, or the queue is full and its oldest
 * work does not end; with HM_ZERO_COPY_ONLY -EINVAL an argument that would be copied (the
 * text has the alignment); -ENODEV a map is lost, or the accelerator's device was taken
 * away; -ENOSPC, -EEXIST its engine has no room, or something else, at a map's address;
 * -EAGAIN no thread could be started ("cpu"); -EIO the driver failed; that of a fence that
 * hm_queue_wait() gave; hm_kernel_build's. Nothing was submitted.
 */
HM_API int hm_queue_launch(struct hm_queue *queue, struct hm_kernel *kernel,
			   const uint64_t grid[3], const struct hm_arg *args, uint32_t n_arg,
			   struct hm_fence **ret_fence);

/**
 * hm_launch - run a kernel over one dimension, arguments as they are written
 *
 *     hm_launch(queue, saxpy, n, &done, HM_F32(a), HM_IN(x), HM_INOUT(y));
 *
 * As hm_queue_launch(); the fence comes before the arguments, and may be NULL.
 */
#define hm_launch(queue, kernel, n, ...) \
	hm_queue_launch_list(queue, kernel, n, __VA_ARGS__, hm_arg_end())

static inline struct hm_arg hm_arg_end(void)
{
	struct hm_arg arg = { HM_ARG_END, 0, 0, 0, { NULL }, 0 };

	return arg;
}

/** hm_queue_launch_list - what hm_launch() calls: struct hm_arg up to HM_ARG_END */
HM_API int hm_queue_launch_list(struct hm_queue *queue, struct hm_kernel *kernel, uint64_t n,
				struct hm_fence **ret_fence, ...);

/**
 * hm_queue_copy - copy bytes between maps, in the queue's order
 * @queue: [in]
 * @to, @from: [in] inside maps; the ranges may not overlap, by their bytes, as above
 * @length: [in] bytes, from 1
 * @ret_fence: [out, optional]
 *
 * Errors: -EINVAL overlapping, or length 0; -EOPNOTSUPP a plug-in that only launches;
 * otherwise as hm_queue_launch, but for -E2BIG and hm_kernel_build's.
 */
HM_API int hm_queue_copy(struct hm_queue *queue, void *to, const void *from, uint64_t length,
			 struct hm_fence **ret_fence);

/**
 * hm_queue_fill - fill bytes of a map with a repeated 32-bit word
 * @queue: [in]
 * @to: [in] 4-byte aligned, inside a map
 * @word: [in]
 * @length: [in] bytes, a multiple of 4
 * @ret_fence: [out, optional]
 *
 * Errors: -EINVAL @to or @length no multiple of 4, or length 0; otherwise as
 * hm_queue_copy.
 */
HM_API int hm_queue_fill(struct hm_queue *queue, void *to, uint32_t word, uint64_t length,
			 struct hm_fence **ret_fence);

/**
 * hm_queue_wait - what is submitted from here on begins after a fence
 * @queue: [in]
 * @fence: [in] of another queue, or imported; a reference is taken
 *
 * Returns at once. The next launch, copy or fill waits for the fence before it gives
 * the device anything, and with it every thread that submits to this queue: work that
 * a device has must end by itself, which no fence of others promises. Should one of several
 * end with an error, that call waits for the others nevertheless, answers with the first
 * error and submits nothing; the next goes on. A fence of the queue's own is in order already.
 *
 * Errors: -ENOMEM.
 */
HM_API int hm_queue_wait(struct hm_queue *queue, struct hm_fence *fence);

/** hm_queue_ref - take a reference; returns @queue. NULL gives NULL. */
HM_API struct hm_queue *hm_queue_ref(struct hm_queue *queue);

/**
 * hm_queue_unref - drop a reference; NULL is allowed
 *
 * The last one waits for the queue's work: it is not for a CPU function that
 * this queue runs, which would wait for itself. The same holds for
 * hm_fence_wait() there on the queue's fences.
 */
HM_API void hm_queue_unref(struct hm_queue *queue);

#ifdef __cplusplus
}
#endif

#endif
