/* SPDX-License-Identifier: MIT */
/*
 * Protection scopes: rights of a range that are taken away for a while.
 *
 * What holds for a byte is what it was given (hm_map_create, hm_map_protect) and every
 * open scope that covers it lets through: an intersection. So scopes may overlap, be
 * nested, and end in any order and by any thread; an end never gives back what another
 * scope still takes, and after the last one exactly those rights hold that the range was
 * given, also by an hm_map_protect meanwhile, which changes those and not the scopes.
 *
 * A scope covers the bytes that were there when it began. Bytes that are cut off leave
 * it, and what grows there later is new, with the rights that the map was made with.
 */
#ifndef HETMAP_PROTECT_SCOPE_H
#define HETMAP_PROTECT_SCOPE_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_scope;

/**
 * hm_map_protect_begin - let a range be used for no more than this, until the end
 * @map, @offset, @length: [in] page-aligned, see map.h
 * @access:    [in] what the scope lets through: HM_NONE, HM_READ, or HM_READ | HM_WRITE
 * @ret_scope: [out] given to hm_map_protect_end(); holds a reference to the map
 *
 * Waits for work in flight on the range, and tells views, as hm_map_protect does. From
 * then on a launch that would do more is -EACCES, and so are hm_map_begin_cpu and, of
 * brackets that are open, hm_map_end_cpu; a plain touch is a SIGSEGV, and in a guard
 * (hetmap/guard.h) -EACCES.
 *
 * Errors: hm_map_protect's.
 */
HM_API int hm_map_protect_begin(struct hm_map *map, uint64_t offset, uint64_t length,
				uint32_t access, struct hm_scope **ret_scope);

/**
 * hm_map_protect_end - what the scope took is given back
 * @scope: [in] gone after a success; NULL is allowed
 *
 * Errors, with the scope still open: -EBUSY work did not end within 10 s, or a view
 * refused; -EDEADLK in a callback of a change of its map; -ENOMEM memory, or
 * vm.max_map_count; -EPERM HM_SEAL_ADDRESSES holds the map; -EOWNERDEAD it is the
 * parent's. With the scope gone: -ENODEV the map is lost. What the scope took holds no
 * more there either, and not after hm_device_recover().
 */
HM_API int hm_map_protect_end(struct hm_scope *scope);

#ifdef __cplusplus
}
#endif

#endif
