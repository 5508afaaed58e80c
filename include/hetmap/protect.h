/* SPDX-License-Identifier: MIT */
/*
 * Protection scopes: rights of a range that are taken away for a while.
 *
 * The rights of a byte are the rights that the byte was given (hm_map_create, hm_map_protect),
 * less the rights that the open scopes covering it take away. Scopes may therefore overlap, may
 * be nested, and may end in any order and in any thread. The end of a scope never gives back a
 * right that another scope still takes. When the last scope ends, the range has exactly the
 * rights that it was given, including those that hm_map_protect() gave it meanwhile;
 * hm_map_protect() changes these rights and not the scopes.
 *
 * A scope covers the bytes that the map had when the scope began. Bytes that are cut off leave
 * the scope. Bytes that grow there later are new, with the rights that the map was made with.
 */
#ifndef HETMAP_PROTECT_SCOPE_H
#define HETMAP_PROTECT_SCOPE_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_scope;

/**
 * hm_map_protect_begin - open a scope, which limits the use of a range until its end
 * @map, @offset, @length: [in] a page-aligned range, see map.h
 * @access:    [in] access that the scope lets through: HM_NONE, HM_READ, or HM_READ | HM_WRITE
 * @ret_scope: [out] a scope, which holds a reference to the map; the caller must end it with
 *             hm_map_protect_end()
 *
 * Waits for work in flight on the range, and tells views, as hm_map_protect() does. From the
 * return on, a launch that would use the range for more is -EACCES, and so are
 * hm_map_begin_cpu() and, for open brackets, hm_map_end_cpu(). A plain touch is a SIGSEGV, and
 * in a guarded scope (hetmap/guard.h) -EACCES.
 *
 * Thread safety: any thread.
 *
 * Errors: the errors of hm_map_protect().
 */
HM_API int hm_map_protect_begin(struct hm_map *map, uint64_t offset, uint64_t length,
				uint32_t access, struct hm_scope **ret_scope);

/**
 * hm_map_protect_end - end a scope, and give its rights back
 * @scope: [in] invalid after a success; NULL is allowed
 *
 * Thread safety: any thread.
 *
 * Errors that leave the scope open:
 *   -EBUSY:      a view refused, or work did not end within 10 s; in the last case wait for the
 *                work, and call again.
 *   -EDEADLK:    a callback of a change of the scope's map made the call; make it outside of the
 *                callback.
 *   -ENOMEM:     memory or vm.max_map_count is used up.
 *   -EPERM:      HM_SEAL_ADDRESSES holds the map.
 *   -EOWNERDEAD: the scope belongs to the parent process.
 *
 * Errors that end the scope:
 *   -ENODEV: the map is lost. The limits of the scope end nevertheless, and do not come back
 *            after hm_device_recover().
 */
HM_API int hm_map_protect_end(struct hm_scope *scope);

#ifdef __cplusplus
}
#endif

#endif
