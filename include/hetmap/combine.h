/* SPDX-License-Identifier: MIT */
/*
 * Combine: gathers many small writes to a map into few large ones.
 *
 * Each store to memory of a device is a transfer on the way there. The CPU joins stores only while
 * they follow one another closely and in order. A combine keeps scattered writes in ordinary
 * memory, by lines of 64 bytes, and writes each line once:
 *
 * - at the end of a bracket (hm_map_end_cpu()) with HM_WRITE on any range of the map, and at
 *   hm_map_sync(), for all combines of the map,
 * - at hm_combine_flush(),
 * - when a write needs a line and all lines are taken: then all of them are written out.
 *
 * Order: until a combine is written out, all readers of the map see the old bytes, the writing
 * thread included. Of several writes to a byte the last one counts, and the others are never seen.
 * Lines are written out by ascending offset, and not in the order of the writes; the bytes of a
 * line are written by the fewest aligned stores, one for a whole line where the CPU has such a
 * store. After the call that writes them out, all of them come before any later store of the
 * thread. If one write must be seen before another, such as data before the doorbell that
 * announces it, call hm_combine_flush() after the first one.
 *
 * Bytes that are stored to the map in another way while a combine holds writes to them are
 * overwritten when the combine is written out. A launch does not write combines out: end the
 * bracket, or flush, before it. Writing out is a store like the program's own: where the map needs
 * a bracket, or has a shadow (loss.h), the program has one with HM_WRITE open on these bytes, and
 * ends it behind, or by, writing them out.
 *
 * In a callback of a view, each call for a combine that another thread uses for more than a second
 * is -EAGAIN: that thread may wait for the callback.
 */
#ifndef HETMAP_COMBINE_H
#define HETMAP_COMBINE_H

#include <hetmap/guard.h>
#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_combine;

struct hm_combine_desc {
	uint32_t struct_size;
	uint32_t flags; /* 0 */
	uint64_t lines; /* lines of 64 bytes that it can hold, up to 2^20; 0: 1024 */
};

/* Counts since the combine was made. */
struct hm_combine_info {
	uint32_t struct_size;
	uint32_t reserved;
	uint64_t lines;         /* lines that it can hold */
	uint64_t pending;       /* lines that it holds now */
	uint64_t writes;        /* calls of hm_combine_write() that succeeded */
	uint64_t bytes;         /* their bytes */
	uint64_t alone;         /* stores that these writes would have been by themselves */
	uint64_t lines_written; /* a line counts each time that it is written out */
	uint64_t transfers;     /* stores by which they were written */
	uint64_t flushes;       /* times that lines were written out */
};

/**
 * hm_combine_create - make a combine for a map
 * @map:         [in] map with HM_WRITE; the combine takes a reference
 * @desc:        [in, optional] NULL: 1024 lines
 * @ret_combine: [out] a reference; the caller must drop it with hm_combine_unref()
 *
 * A map may have several combines.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EACCES: the map was made without HM_WRITE.
 *   -EINVAL: lines is above 2^20, or a flag is not 0.
 *   -E2BIG:  struct_size is larger than this library knows.
 *   -ENODEV: the map is lost, or its device was taken away.
 */
HM_API int hm_combine_create(struct hm_map *map, const struct hm_combine_desc *desc,
			     struct hm_combine **ret_combine);

/**
 * hm_combine_write - keep a write for later
 * @combine: [in]
 * @offset:  [in] offset in the map, of any alignment
 * @bytes:   [in] not in the bytes of the map that are written
 * @length:  [in] bytes, from 1
 *
 * Touches no byte of the map, unless the combine has no line left, and writes its lines out. This
 * may fail as hm_combine_flush() does; the combine then keeps only a part of the bytes. A fault at
 * @bytes in a guarded scope (hm_guard_begin()) ends the scope, and leaves part of them unkept, too.
 *
 * Thread safety: any thread; calls for one combine wait for each other, so threads that write
 * much should have one each.
 *
 * Errors:
 *   -EINVAL: @length is 0.
 *   -ERANGE: the range ends past the map's end.
 *
 * In addition the errors of hm_combine_flush().
 */
HM_API int hm_combine_write(struct hm_combine *combine, uint64_t offset, const void *bytes,
			    uint64_t length);

/**
 * hm_combine_flush - write out what a combine holds
 * @combine: [in]
 * @fault:   [in,out, optional] as for hm_copy_in(); of the first error
 *
 * The lines are checked and written as by hm_copy_in(), those of each 2 MiB of the map together.
 * Lines that can't be written stay in the combine; all others are written, but after -EAGAIN and
 * -ENODEV, which end the call. Call hm_combine_discard() to drop lines that can never be written.
 *
 * If the handler is not installed (hm_handler_install()), a touch of lost bytes raises a signal,
 * as a store would. A program that jumps out of its handler then must not use the combine again.
 *
 * Thread safety: any thread, as for hm_combine_write().
 *
 * Errors: those of hm_copy_in(), except -EOPNOTSUPP and -ENOENT. They do not depend on who asks
 * for the flush: hm_map_end_cpu() and hm_map_sync() return them, too.
 */
HM_API int hm_combine_flush(struct hm_combine *combine, struct hm_fault *fault);

/**
 * hm_combine_discard - drop the writes that a combine holds
 * @combine: [in]
 *
 * Thread safety: any thread.
 *
 * Errors: only those that every function may have.
 */
HM_API int hm_combine_discard(struct hm_combine *combine);

/**
 * hm_combine_query - report the counts of a combine
 * @combine:  [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_combine_query(struct hm_combine *combine, struct hm_combine_info *ret_info);

/** hm_combine_ref - take a reference; returns @combine. NULL gives NULL. */
HM_API struct hm_combine *hm_combine_ref(struct hm_combine *combine);

/**
 * hm_combine_unref - drop a reference; NULL is allowed
 * @combine: [in]
 *
 * The last reference writes out what the combine holds; errors are not seen then. Flush before
 * to see them.
 *
 * Thread safety: any thread.
 */
HM_API void hm_combine_unref(struct hm_combine *combine);

#ifdef __cplusplus
}
#endif

#endif
