/* SPDX-License-Identifier: MIT */
/*
 * Pool: many small allocations out of few buffers of a device.
 *
 * A pool takes blocks from its device, each one a buffer with a map of all of it, and cuts them
 * into allocations. An address in an allocation is a unified pointer like any other:
 * hm_pointer_find() gives the base and the length of the allocation, a launch that names the
 * pointer may touch the allocation and no more, brackets, guards and the loss of the device act
 * on the map of the block. All that the pool knows about its allocations is in ordinary memory:
 * a lost device takes none of it away.
 *
 * Each thread keeps freed allocations of up to 1 MiB for its next ones, so that most calls take
 * no lock that another thread wants. A thread's cache ends with the thread.
 */
#ifndef HETMAP_POOL_H
#define HETMAP_POOL_H

#include <hetmap/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_pool;

/* hm_pool_desc.flags */
#define HM_POOL_ZERO (1u << 0) /* every new byte of an allocation is zero */

struct hm_pool_desc {
	uint32_t struct_size;
	uint32_t flags; /* HM_POOL_* */
	/*
	 * Shown in hm_pool_info, in /proc/self/maps and by hetmap-top(1); at most 48 bytes.
	 * NULL: "pool"
	 */
	const char *name;
	uint64_t limit;      /* most bytes of all blocks together; 0: none */
	uint64_t block_size; /* bytes of a block, whole pages; 0: as hm_pool_info says */
	uint64_t alignment;  /* least alignment of an allocation, a power of two; 0: 16 */
	uint32_t numa_mode;  /* enum hm_numa_mode: hetmap/buffer.h */
	uint32_t place;      /* enum hm_place, likewise */
	uint64_t numa_nodes; /* likewise */
};

/*
 * Bytes of an allocation are those that the caller asked for. held is the sum of live, rounding,
 * cached, busy and unused.
 */
struct hm_pool_info {
	uint32_t struct_size;
	uint32_t flags; /* HM_POOL_* */
	char name[64];
	uint64_t limit;
	/*
	 * A block has block_least bytes while the pool is small, and an eighth of the pool, up to
	 * block_most, when it is large; for a longer allocation more. Unless the description
	 * sets block_size, the two depend on the kind of device:
	 *
	 *	GPU          2 MiB to 128 MiB, from the device's granule on
	 *	FPGA         64 KiB, its unit of DMA, to 4 MiB
	 *	NIC          2 MiB to 4 MiB
	 *	host, others 2 MiB to 32 MiB
	 */
	uint64_t block_least;
	uint64_t block_most;
	uint64_t alignment;
	uint64_t blocks;      /* now */
	uint64_t held;        /* bytes of all blocks */
	uint64_t held_peak;   /* the most so far */
	uint64_t live;        /* bytes of allocations */
	uint64_t live_peak;   /* the most so far, to 1 MiB for each thread */
	uint64_t allocations; /* now */
	uint64_t allocated;   /* allocations so far */
	uint64_t rounding;    /* bytes by which allocations are rounded up */
	uint64_t cached;      /* bytes that threads keep for their next allocations */
	uint64_t busy;        /* bytes that were freed while work still used them */
	uint64_t unused;  /* bytes of blocks that are in no thread's cache and no allocation */
	uint64_t largest; /* the longest range of unused bytes that is in no size class */
	uint32_t threads; /* threads that have a cache */
	uint32_t reserved;
};

/**
 * hm_pool_create - make a pool
 * @device:   [in] device with HM_CAP_CREATE; the pool takes a reference
 * @desc:     [in, optional] NULL: no name, no limit
 * @ret_pool: [out] a reference; the caller must drop it with hm_pool_unref()
 *
 * The first allocation takes the first block from the device.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     block_size is not a multiple of the device's page size, or above 1 GiB;
 *                alignment is not a power of two, or above 1 GiB; the limit is below one page;
 *                the name is too long; or a flag is unknown.
 *   -EOPNOTSUPP: the device makes no buffers (HM_CAP_CREATE).
 *   -ENODEV:     the device was taken away.
 */
HM_API int hm_pool_create(struct hm_device *device, const struct hm_pool_desc *desc,
			  struct hm_pool **ret_pool);

/**
 * hm_pool_alloc - allocate memory of a pool
 * @pool:        [in]
 * @size:        [in] bytes, from 1
 * @alignment:   [in] a power of two up to 1 GiB; 0: the pool's
 * @ret_pointer: [out] address of any object pointer (float **, ...); the caller gives the memory
 *               back with hm_pool_free() or hm_free()
 *
 * The contents are undefined, except with HM_POOL_ZERO. Memory that is unused, in threads'
 * caches or in blocks without allocations is brought together before the call fails for want
 * of memory.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: @size is 0 or above 2^46, or @alignment is not a power of two up to 1 GiB.
 *   -ENOSPC: the pool would exceed its limit; the text has the limit, and tells how many bytes
 *            are in allocations, in caches and in pieces, and which sizes and threads have most
 *            of them. Or the device is full.
 *   -ENODEV: the device was taken away.
 *   -EAGAIN: other threads took the memory that was made for the call, 64 times; try again.
 *   -EDEADLK: the pool needs a block, and the call is made by the access hook that is asked for
 *            that block; allocate outside of the hook.
 *
 * In addition the errors of hm_buffer_create() and hm_map_create(), for a new block.
 */
HM_API int hm_pool_alloc(struct hm_pool *pool, uint64_t size, uint64_t alignment,
			 void *ret_pointer);

/**
 * hm_pool_realloc - resize an allocation
 * @pool:        [in]
 * @pointer:     [in] pointer that hm_pool_alloc() or hm_pool_realloc() of the pool returned
 * @size:        [in] bytes, from 1
 * @flags:       [in] 0: the pointer stays, or the call fails with -ENOSPC; HM_MAY_MOVE: the
 *               pointer may change
 * @ret_pointer: [out, optional] address of an object pointer, which gets the new address
 *
 * The first bytes, up to the smaller of both sizes, stay. CPUs copy them if the allocation
 * moves. A moved allocation keeps the alignment of the pool, not that of its hm_pool_alloc().
 *
 * Thread safety: any thread; the call must not run at the same time as another one for the same
 * pointer.
 *
 * Errors:
 *   -EINVAL: @pointer is not the base of an allocation of the pool (the text says where it is),
 *            or was freed before; @size is 0; or a flag is unknown.
 *   -ENOSPC: the allocation would have to move; pass HM_MAY_MOVE. Or as for hm_pool_alloc().
 *
 * In addition the errors of hm_pool_alloc() and, for the bytes, of hm_map_begin_cpu().
 */
HM_API int hm_pool_realloc(struct hm_pool *pool, void *pointer, uint64_t size, uint32_t flags,
			   void *ret_pointer);

/**
 * hm_pool_free - give an allocation back
 * @pool:    [in]
 * @pointer: [in] pointer that hm_pool_alloc() or hm_pool_realloc() of the pool returned; NULL is
 *           allowed
 *
 * Work in flight on the allocation goes on. Its bytes are in no new allocation before that work
 * is done. hm_free() does the same without a pool.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: @pointer is not the base of an allocation of the pool (the text says where it is),
 *            or was freed before.
 */
HM_API int hm_pool_free(struct hm_pool *pool, void *pointer);

/**
 * hm_pool_trim - give blocks without allocations back to the device
 * @pool:      [in]
 * @keep:      [in] bytes of blocks to keep; 0: as few as possible
 * @ret_bytes: [out, optional] bytes that went back
 *
 * Empties the caches of all threads first.
 *
 * Thread safety: any thread.
 *
 * Errors: only those that every function may have.
 */
HM_API int hm_pool_trim(struct hm_pool *pool, uint64_t keep, uint64_t *ret_bytes);

/**
 * hm_pool_query - report the present state of a pool
 * @pool:     [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * The numbers are those of one moment, also while other threads allocate.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_pool_query(struct hm_pool *pool, struct hm_pool_info *ret_info);

/**
 * hm_pool_ref - take a reference; returns @pool. NULL gives NULL.
 * @pool: [in, optional] a device's own pool (HM_ALLOC_POOLED), too: the reference holds the device
 */
HM_API struct hm_pool *hm_pool_ref(struct hm_pool *pool);

/**
 * hm_pool_unref - drop a reference; NULL is allowed
 * @pool: [in]
 *
 * Allocations outlive the last reference: hm_free() takes them, and a block goes back to the
 * device with its last allocation.
 *
 * Thread safety: any thread.
 */
HM_API void hm_pool_unref(struct hm_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
