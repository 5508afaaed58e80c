/* SPDX-License-Identifier: MIT */
/* The short way: memory of a device as a pointer, like malloc(3). */
#ifndef HETMAP_ALLOC_H
#define HETMAP_ALLOC_H

#include <hetmap/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * hm_alloc - memory of a device, mapped
 * @device: [in]
 * @size:   [in] bytes, from 1
 * @access: [in] HM_READ | HM_WRITE, or HM_READ
 * @ret_pointer: [out] address of any object pointer (float **, ...)
 *
 * Reserves max(16 x size, 64 MiB) of address space so that hm_realloc() need
 * not move. Where limits do not allow that, less is reserved, down to size,
 * and hm_errmsg() says so though the call succeeds.
 *
 * Errors: as hm_buffer_create and hm_map_create; -EINVAL size 0, or another @access.
 */
HM_API int hm_alloc(struct hm_device *device, uint64_t size, uint32_t access,
		    void *ret_pointer);

/**
 * hm_realloc - resize an allocation
 * @pointer: [in] what hm_alloc gave
 * @size:    [in] bytes, from 1
 * @flags:   [in] 0: the pointer stays, or -ENOSPC; HM_MAY_MOVE: it may change
 * @ret_pointer: [out, optional] address of an object pointer: where it is now
 *
 * Errors: -EINVAL not the base of an allocation (the text names the base), freed before,
 * or foreign; otherwise as hm_buffer_resize.
 */
HM_API int hm_realloc(void *pointer, uint64_t size, uint32_t flags, void *ret_pointer);

/**
 * hm_free - give an allocation back
 * @pointer: [in] what hm_alloc or hm_realloc gave; NULL is allowed
 *
 * Work in flight on it is not disturbed: the memory goes when that is done.
 *
 * Errors: -EINVAL not the base of an allocation, freed before, or foreign.
 */
HM_API int hm_free(void *pointer);

#ifdef __cplusplus
}
#endif

#endif
