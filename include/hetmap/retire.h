/* SPDX-License-Identifier: MIT */
/* Retirement: what is unreferenced is released by a thread, not by its last user. */
#ifndef HETMAP_RETIRE_H
#define HETMAP_RETIRE_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum hm_retire_flags {
	HM_RETIRE_DEFER = 1u << 0, /* else all is released in place, as at the start */
};

struct hm_retire_desc {
	uint32_t struct_size;
	uint32_t flags;       /* HM_RETIRE_* */
	uint64_t max_objects; /* maps, buffers, moves that may wait, to 2^20; 0: 256 */
	uint64_t max_bytes;   /* of memory that they may hold; 0: 64 MiB */
};

/**
 * hm_retire_set - from now on, have a thread release what nobody refers to any more
 * @desc: [in] the bounds of what may wait for it; NULL: as without HM_RETIRE_DEFER
 *
 * Without it, as a process starts, the last hm_map_unref(), hm_buffer_unref() or
 * hm_free() unmaps, closes and frees before it returns. With it they only take the map
 * out of the registry, so that hm_pointer_find() is -ENOENT at once, end its views and
 * the CPU's turn, and leave the rest to a thread of the library's: until then bytes stay
 * mapped, descriptors open and device memory in use. So does hm_buffer_resize() with what a
 * map leaves that HM_MAY_MOVE moved, the old range and object. A last reference or a move
 * beyond the bounds, or the last reference to a map with locked bytes or whose buffer other
 * processes share, is released in place all the same. What lacks what the backlog holds
 * (-ENOMEM, -ENOSPC, -EMFILE, -ENFILE) waits for it and is tried once more, in hm_device_open,
 * hm_buffer_create, _export and _resize, hm_alloc, hm_realloc, hm_map_create, hm_map_protect
 * and scopes, and the opening of what hm_buffer_from_file and _import take in; and so does
 * hm_buffer_seal, which also waits for maps that could write (-EBUSY). Other calls answer with
 * it at once.
 *
 * The thread releases after a grace period of liburcu-bp, and so does, while this is on,
 * whoever releases in place: inside a read-side critical section (urcu_bp_read_lock())
 * what hm_pointer_find() found stays mapped until the section ends. A map that moved meanwhile
 * is there as it was before. What is withdrawn while the map lives is so at once, from
 * readers, too: bytes that a shrink cuts off, rights that hm_map_protect() or a scope takes,
 * maps that are lost with a failed change. There, call nothing of the library but
 * hm_pointer_find() and unref functions, which then wait for nothing and may exceed the
 * bounds.
 *
 * The thread is started here. It sleeps while there is nothing to release, and ends with
 * the deferral.
 *
 * Lower bounds, or none, are waited for: when this returns, the backlog is within them.
 * The environment variable HETMAP_RETIRE=OBJECTS[,MIB] sets the first ones (OBJECTS 0:
 * in place) when the first device is opened. A fork child starts without; what waits is
 * its parent's. At exit the backlog is released, for which 10 seconds are waited.
 *
 * Thread safety: any thread; not in a signal handler.
 *
 * Errors: -EINVAL unknown flags, or a bound that is out of range; -E2BIG the struct is of
 * a newer library; -EDEADLK in a read-side critical section, or in the thread (a
 * backend's operation); -EOPNOTSUPP in a child that was forked in such a section;
 * -EAGAIN no thread could be started, or the process is ending: nothing has changed. Where
 * HETMAP_RETIRE asks for it, hm_device_open() is.
 *
 * Source: liburcu(3), urcu-bp: rcu-api.md of liburcu.
 */
HM_API int hm_retire_set(const struct hm_retire_desc *desc);

/**
 * hm_retire_flush - wait until all that was unreferenced, or left, before is released
 *
 * For what counts: before a file system is unmounted, a module removed, descriptors or
 * address space looked at. Without HM_RETIRE_DEFER there is nothing to wait for. What
 * work in flight still holds is not waited for.
 *
 * Thread safety: any thread; not in a signal handler.
 *
 * Errors: -EDEADLK as for hm_retire_set, and only where there is something to wait for.
 */
HM_API int hm_retire_flush(void);

#ifdef __cplusplus
}
#endif

#endif
