/* SPDX-License-Identifier: MIT */
/* Queue: ordered work on an accelerator. Different queues run in parallel. */
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
 * @flags: [in] must be 0
 * @ret_queue: [out] a reference; the caller must drop it with hm_queue_unref()
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EIO:    the driver failed.
 *   -ENOSPC: the engine has no further queue.
 *   -ENODEV: the accelerator's device was taken away.
 *   -ENOMEM: memory is exhausted.
 */
HM_API int hm_queue_create(struct hm_accel *accel, uint32_t flags, struct hm_queue **ret_queue);

/*
 * Scalars. Integers and floats have the size that the name says. For hm_arg_scalar() the library
 * knows only the size, and not whether the bytes are a float or an integer.
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

static inline struct hm_arg hm_arg_any(const void *pointer, uint64_t length, uint32_t access)
{
	struct hm_arg arg = hm_arg_range(pointer, length, access);

	arg.kind = HM_ARG_ANY;
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
 * Unified pointers. The kernel receives p itself. The kernel may touch the whole allocation that
 * contains p, or with HM_RANGE only length bytes from p on.
 */
#define HM_IN(p) hm_arg_range((p), 0, HM_READ)
#define HM_OUT(p) hm_arg_range((p), 0, HM_WRITE)
#define HM_INOUT(p) hm_arg_range((p), 0, HM_READ | HM_WRITE)
#define HM_RANGE(p, length, access) hm_arg_range((p), (length), (access))
/*
 * Any pointer of the process: malloc(), a stack, a mapped file, a map. Accelerators with
 * HM_ACCEL_ANY_POINTER take it. The program must keep the memory until the work is done: the
 * library keeps maps only. A range lies inside one map, or touches none.
 */
#define HM_ANY(p, length, access) hm_arg_any((p), (length), (access))

/**
 * hm_queue_launch - run a kernel
 * @queue:  [in]
 * @kernel: [in] a kernel, which the first launch builds for this accelerator
 * @grid:   [in] work items in 3 dimensions; an unused dimension must be 1. If the kernel has a
 *          work-group size, an OpenCL driver may refuse a grid that is no multiple of it
 * @args:   [in] arguments in the order of the kernel's parameters; may be NULL if n_arg is 0
 * @n_arg:  [in] number of arguments, at most HM_KERNEL_MAX_ARGS
 * @ret_fence: [out, optional] a reference; the caller must drop it with hm_fence_unref()
 *
 * The kernel sees all stores that the CPU made before the launch, except stores into a combine
 * that is not written out (combine.h), and stores that need a bracket (hm_map_begin_cpu()) that has
 * not ended. From the launch to hm_fence_wait() the bytes that the kernel may touch belong to the
 * accelerator; the CPU may read those that all work in flight only reads. Work that fails stops no
 * later work. The maps stay until the work is done, even if all other references to them are
 * dropped. After an error nothing was submitted.
 *
 * The queue of an engine holds 2048 submissions. A call that finds the queue full waits for the
 * oldest of them, for at most 5 s.
 *
 * Overlaps are found by the bytes of the ranges: also through two maps of one buffer, two buffers
 * of one file, or a buffer and an import of it in this process, and with HM_ANY through any
 * mappings of one file or shared memory.
 *
 * The launch does not look at the memory of an HM_ANY. An engine checks each access: one that the
 * CPU may not make either ends the work with -EFAULT, and the fence's text has the address and
 * the reason. On "cpu" and on OpenCL such an access is a signal, as in any function.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: the arguments are wrong:
 *            - their number or kinds do not match the kernel's signature or, as far as the driver
 *              reports it, the OpenCL source: a float for an integer, another size, or a pointer
 *              passed for writing that the source declares const; the text says which. The type
 *              that a pointer points to is not compared.
 *            - a dimension of the grid is 0.
 *            - an HM_ANY outside maps has a length of 0, or wraps around.
 *            - an argument that is passed by copy overlaps one that is written.
 *            - with HM_ZERO_COPY_ONLY, an argument would be copied; the text has the required
 *              alignment.
 *   -EFAULT: a pointer is outside every map; the text names the nearest map.
 *   -ERANGE: a range ends past its map, or past its allocation of a pool, or an HM_ANY begins
 *            outside a map and reaches into one; pass each part by itself.
 *   -EOPNOTSUPP: an HM_ANY, and the accelerator reaches memory of maps only; the text names the
 *            ways that work: a buffer of the accelerator's device, an import, a copy.
 *   -EACCES: the kernel would write to a range of a map that does not allow writes, or read a
 *            range without access; the text has the kernel, the argument and the range. The error
 *            also occurs for an argument that the launch only reads, if its map is not writable,
 *            the parameter in the OpenCL source is not const and nothing is copied: declare the
 *            parameter const. A store of a CPU function that the launch does not tell of is a
 *            SIGSEGV.
 *   -E2BIG:  an argument does not lie in one window of the accelerator: windows follow each other
 *            from the start of the map on; pass an HM_RANGE inside one. Copies and fills may be
 *            of any length.
 *   -EBUSY:  a map is being changed, or the queue is full and its oldest work does not end; wait
 *            for earlier fences, and launch again.
 *   -ENODEV: a map is lost, or the accelerator's device was taken away.
 *   -ENOSPC: the engine has no room at a map's address.
 *   -EEXIST: the program has bound other memory at a map's address, by the engine's own calls.
 *   -EAGAIN: no thread could be started, for "cpu" or the engine of "soft"; the text names the
 *            limit.
 *   -EIO:    the driver failed.
 *
 * In addition the error of a fence that hm_queue_wait() gave, and the errors of
 * hm_kernel_build().
 */
HM_API int hm_queue_launch(struct hm_queue *queue, struct hm_kernel *kernel,
			   const uint64_t grid[3], const struct hm_arg *args, uint32_t n_arg,
			   struct hm_fence **ret_fence);

/**
 * hm_launch - run a kernel over one dimension, with the arguments written out
 *
 *     hm_launch(queue, saxpy, n, &done, HM_F32(a), HM_IN(x), HM_INOUT(y));
 *
 * Does the same as hm_queue_launch(). The fence comes before the arguments, and may be NULL.
 */
#define hm_launch(queue, kernel, n, ...) \
	hm_queue_launch_list(queue, kernel, n, __VA_ARGS__, hm_arg_end())

static inline struct hm_arg hm_arg_end(void)
{
	struct hm_arg arg = { HM_ARG_END, 0, 0, 0, { NULL }, 0 };

	return arg;
}

/**
 * hm_queue_launch_list - do the work of hm_launch(): takes struct hm_arg up to HM_ARG_END
 *
 * Thread safety: any thread.
 *
 * Errors: the errors of hm_queue_launch().
 */
HM_API int hm_queue_launch_list(struct hm_queue *queue, struct hm_kernel *kernel, uint64_t n,
				struct hm_fence **ret_fence, ...);

/**
 * hm_queue_copy - copy bytes between maps, in the queue's order
 * @queue: [in]
 * @to, @from: [in] addresses inside maps; the ranges must not overlap, by their bytes, as above
 * @length: [in] bytes, from 1
 * @ret_fence: [out, optional] a reference; the caller must drop it with hm_fence_unref()
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     the ranges overlap, or the length is 0.
 *   -EOPNOTSUPP: the accelerator is a plug-in that only launches.
 *
 * In addition the errors of hm_queue_launch(), except -E2BIG and those of hm_kernel_build().
 */
HM_API int hm_queue_copy(struct hm_queue *queue, void *to, const void *from, uint64_t length,
			 struct hm_fence **ret_fence);

/**
 * hm_queue_fill - fill bytes of a map with a repeated 32-bit word
 * @queue: [in]
 * @to: [in] an address inside a map, a multiple of 4
 * @word: [in]
 * @length: [in] bytes, a multiple of 4, from 4
 * @ret_fence: [out, optional] a reference; the caller must drop it with hm_fence_unref()
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: @to or @length is no multiple of 4, or @length is 0.
 *
 * In addition the other errors of hm_queue_copy().
 */
HM_API int hm_queue_fill(struct hm_queue *queue, void *to, uint32_t word, uint64_t length,
			 struct hm_fence **ret_fence);

/**
 * hm_queue_wait - make work that is submitted from here on begin after a fence
 * @queue: [in]
 * @fence: [in] a fence of another queue, or an imported fence; the queue takes a reference
 *
 * Returns at once. The next launch, copy or fill waits for the fence before the library gives any
 * work to the device. Every thread that submits to this queue waits with that call. The library
 * waits because work on a device must end by itself, and no fence from outside the queue promises
 * to be done. If one of several fences ends with an error, that call still waits for the
 * other fences, returns the first error and submits nothing; the next call goes on. A fence of
 * the queue itself changes nothing. Work on two queues that writes to the same bytes without such
 * a wait is a race, which the library neither orders nor refuses.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOMEM: memory is exhausted.
 */
HM_API int hm_queue_wait(struct hm_queue *queue, struct hm_fence *fence);

/** hm_queue_ref - take a reference; returns @queue. NULL gives NULL. */
HM_API struct hm_queue *hm_queue_ref(struct hm_queue *queue);

/**
 * hm_queue_unref - drop a reference; NULL is allowed
 *
 * Dropping the last reference waits for the queue's work, without a time limit. A CPU function
 * must not do so with the queue that runs the function, nor call hm_fence_wait() on a fence of that
 * queue, nor hm_map_begin_cpu() on its arguments: the function would wait for itself.
 *
 * Thread safety: any thread.
 */
HM_API void hm_queue_unref(struct hm_queue *queue);

#ifdef __cplusplus
}
#endif

#endif
