/* SPDX-License-Identifier: MIT */
/* The short way: memory of a device as a pointer, like malloc(3). */
#ifndef HETMAP_ALLOC_H
#define HETMAP_ALLOC_H

#include <hetmap/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Together with HM_READ | HM_WRITE in @access of hm_alloc(). */
#define HM_ALLOC_POOLED (1u << 16)

/**
 * hm_alloc - allocate zeroed memory of a device, and map it
 * @device:      [in] device that owns the memory
 * @size:        [in] bytes, from 1
 * @access:      [in] HM_READ | HM_WRITE, HM_READ, or HM_READ | HM_WRITE | HM_ALLOC_POOLED
 * @ret_pointer: [out] address of any object pointer (float **, ...); the caller gives the
 *               memory back with hm_free(). The pointer that the call stores is a multiple of
 *               the page size; out of a pool, of 16
 *
 * The call reserves max(16 x size, 64 MiB) of address space, so that hm_realloc() need not move
 * the allocation. If limits do not allow that much, the call reserves less, down to size. The
 * call still succeeds, and hm_warning() reports the smaller reservation. The allocation has the
 * name "alloc-N" in error texts, in /proc/self/maps and for hetmap top: N counts the calls of the
 * process, from 1 on. For another name, use hm_buffer_create() and hm_map_create().
 *
 * With HM_ALLOC_POOLED, up to 1 MiB come out of a pool of the device (hetmap/pool.h), which is
 * far cheaper, and reserves nothing to grow into. They are zeroed, too. If the device has no room
 * for a block of the pool, the call does without a pool.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: size is 0, or @access has another value.
 *
 * In addition the errors of hm_buffer_create() and hm_map_create().
 */
HM_API int hm_alloc(struct hm_device *device, uint64_t size, uint32_t access,
		    void *ret_pointer);

/**
 * hm_realloc - resize an allocation
 * @pointer:     [in] pointer that hm_alloc() or hm_realloc() returned
 * @size:        [in] bytes, from 1
 * @flags:       [in] 0: the pointer stays, or the call fails with -ENOSPC; HM_MAY_MOVE: the
 *               pointer may change
 * @ret_pointer: [out, optional] address of an object pointer, which gets the new address; with
 *               HM_MAY_MOVE nothing else reports that address
 *
 * New bytes are zero, in a pool, too. The call waits for work in flight, for 10 s at most; in a
 * pool, without a limit, for work that writes to bytes that the call copies or clears.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     @pointer is not the base of an allocation (the text names the base), was
 *                freed before, or does not come from hm_alloc().
 *   -ENOSPC:     the allocation would have to move, or has no room. Call again with HM_MAY_MOVE;
 *                if that fails, too, the device has no room or its memory can't move: make
 *                another allocation.
 *   -EOWNERDEAD: the parent made the allocation before fork().
 *
 * In addition the errors of hm_buffer_resize().
 */
HM_API int hm_realloc(void *pointer, uint64_t size, uint32_t flags, void *ret_pointer);

/**
 * hm_free - give an allocation back
 * @pointer: [in] pointer that hm_alloc() or hm_realloc() returned; NULL is allowed
 *
 * Work in flight on the allocation goes on, and the memory goes when that work is done. A
 * reference to the map, which hm_pointer_find() finds, keeps the bytes, too, unless the
 * allocation is in a pool.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     @pointer is not the base of an allocation, was freed before, or does not come
 *                from hm_alloc().
 *   -EOWNERDEAD: the parent made the allocation before fork(); the parent frees it.
 */
HM_API int hm_free(void *pointer);

#ifdef __cplusplus
}
#endif

#endif
