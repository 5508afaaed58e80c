/* SPDX-License-Identifier: MIT */
/* Retirement: a thread releases unreferenced objects, instead of their last user. */
#ifndef HETMAP_RETIRE_H
#define HETMAP_RETIRE_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum hm_retire_flags {
	HM_RETIRE_DEFER = 1u << 0, /* without the flag, release in place, as at the start */
};

struct hm_retire_desc {
	uint32_t struct_size;
	uint32_t flags;       /* HM_RETIRE_* */
	uint64_t max_objects; /* maps, buffers and moves that may wait, to 2^20; 0: 256 */
	uint64_t max_bytes;   /* bytes of memory that they may hold; 0: 64 MiB */
};

/**
 * hm_retire_set - make a thread release unreferenced objects from now on, or end that
 * @desc: [in, optional] bounds of the backlog; NULL: as without HM_RETIRE_DEFER
 *
 * Without HM_RETIRE_DEFER, the state at the start of a process, the last hm_map_unref(),
 * hm_buffer_unref() or hm_free() unmaps, closes and frees the object before it returns. With the
 * flag these functions only take the map out of the registry, so that hm_pointer_find() returns
 * -ENOENT at once, and end the map's views and the CPU's turn. A thread of the library does the
 * rest; until then bytes stay mapped, descriptors open and device memory in use. The thread also
 * releases the old range and the old object of a map that hm_buffer_resize() with HM_MAY_MOVE
 * moved. The function starts the thread, which sleeps while it has nothing to release, and ends
 * with the deferral.
 *
 * Beyond the bounds, the last reference or a move is released in place. The last reference to a
 * map with locked bytes, or to a map of a buffer that other processes share, is always released
 * in place.
 *
 * If a call fails because the backlog holds the resources that the call needs (-ENOMEM, -ENOSPC,
 * -EMFILE, -ENFILE), some functions wait for the backlog and try once more: hm_device_open(),
 * hm_buffer_create(), hm_buffer_export(), hm_buffer_resize(), hm_alloc(), hm_realloc(),
 * hm_map_create(), hm_map_protect(), scopes, and the opening of the object in
 * hm_buffer_from_file() and hm_buffer_import(). hm_buffer_seal() does the same, and also waits
 * for maps that could write (-EBUSY). Other calls return the error at once.
 *
 * The thread releases after a grace period of liburcu-bp. While deferral is on, a thread that
 * releases in place waits for a grace period, too. A map that hm_pointer_find() found inside a
 * read-side critical section (urcu_bp_read_lock()) therefore stays mapped until the section ends.
 * A map that moved meanwhile is at its old address as it was before. Some changes of a living map
 * reach readers at once: bytes that a shrink cuts off, rights that hm_map_protect() or a scope
 * takes away, and maps that are lost with a failed change. Inside a section the caller must call
 * no function of the library except hm_pointer_find() and unref functions. The unref functions do
 * not wait inside a section, and may exceed the bounds.
 *
 * A call that lowers the bounds, or ends the deferral, returns when the backlog is within the new
 * bounds. The environment variable HETMAP_RETIRE=OBJECTS[,MIB] sets the initial bounds (OBJECTS
 * 0: in place) when the first device is opened. A fork child starts without deferral; the backlog
 * belongs to its parent. At exit the library releases the backlog, and waits at most 10 seconds
 * for that.
 *
 * Thread safety: any thread; not in a signal handler.
 *
 * Errors:
 *   -EINVAL:     a flag is unknown, or a bound is out of range.
 *   -E2BIG:      the struct is of a newer library.
 *   -EDEADLK:    the caller is in a read-side critical section, or is a backend's operation on
 *                the thread that releases.
 *   -EOPNOTSUPP: the process was forked inside a read-side critical section.
 *   -EAGAIN:     no thread could be started, or the process is ending; nothing has changed. If
 *                HETMAP_RETIRE asks for deferral, hm_device_open() fails with this error.
 *
 * Source: liburcu(3), urcu-bp: rcu-api.md of liburcu.
 */
HM_API int hm_retire_set(const struct hm_retire_desc *desc);

/**
 * hm_retire_flush - wait until earlier unreferenced or moved objects are released
 *
 * Waits for all objects that were unreferenced, or left behind by a move, before the call. A
 * caller needs the function before it unmounts a file system, removes a module, or counts
 * descriptors or address space. Without HM_RETIRE_DEFER the function returns at once. The
 * function does not wait for objects that work in flight still holds.
 *
 * Thread safety: any thread; not in a signal handler.
 *
 * Errors:
 *   -EDEADLK: as for hm_retire_set(), and only if the backlog is not empty.
 */
HM_API int hm_retire_flush(void);

#ifdef __cplusplus
}
#endif

#endif
