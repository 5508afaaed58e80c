/* SPDX-License-Identifier: MIT */
/*
 * Copies by the instructions that suit the memory at both ends.
 *
 * The fastest way to copy depends on the memory:
 *
 * - For write-back memory memcpy() is the fastest. If a long copy is not read again soon, stores
 *   past the caches save the read of each line that is overwritten.
 * - A load from write-combining or uncached memory goes to the device each time. Wide loads are
 *   therefore the best, and a streaming load fetches a whole line.
 * - Stores to such memory should fill whole lines, in order, each byte once.
 */
#ifndef HETMAP_COPY_H
#define HETMAP_COPY_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* hm_copy flags */
#define HM_COPY_STREAM (1u << 0) /* the program does not read the destination again soon */

/* Kind of the memory at an address, as far as copies go. */
enum hm_copy_kind {
	HM_COPY_WRITE_BACK = 0, /* also memory in no map */
	HM_COPY_WRITE_COMBINING = 1,
	HM_COPY_UNCACHED = 2,
	HM_COPY_UNKNOWN = 3, /* the device does not report the cache mode */
	HM_COPY_FAR = 4, /* write-back, bound by HM_NUMA_BIND to other nodes than the CPU's */
};

struct hm_copy_info {
	uint32_t struct_size;
	uint32_t flags;     /* [in] HM_COPY_*, as the copy would have them */
	uint32_t to_kind;   /* enum hm_copy_kind; HM_COPY_FAR only with HM_COPY_STREAM */
	uint32_t from_kind; /* likewise */
	/*
	 * Static strings: "memcpy", or "stores", "loads" or "loads and stores", past the caches;
	 * and the instruction set of each, "" for ordinary ones.
	 */
	const char *way;
	const char *stores; /* "avx2", "avx512", "movdir64b" or "portable" */
	const char *loads;  /* "avx2", "avx512" or "portable" */
	const char *reason; /* a sentence without its period */
	/*
	 * With HM_COPY_STREAM, copies of so many bytes or more to write-back memory pass the
	 * caches: a quarter of the CPU's second cache, or a 16th for HM_COPY_FAR. UINT64_MAX:
	 * none do, since this CPU has no such stores here.
	 */
	uint64_t stream_least;
	uint64_t second_cache; /* bytes */
	uint64_t last_cache;   /* bytes */
};

/**
 * hm_copy - copy bytes between any two addresses
 * @to:     [out] destination, in a map or anywhere else
 * @from:   [in] source, likewise; it has no byte in common with the destination
 * @length: [in] bytes; 0 copies nothing
 * @flags:  [in] HM_COPY_*
 *
 * The call is a memcpy() that chooses its instructions by the cache modes of the maps at both
 * ends, as hm_pointer_find() has them for the first bytes, and by the length. Each end should be
 * in one map or in none: other ends are copied without an error, but perhaps slowly and without
 * the order that follows. In write-combining and uncached memory the call stores each byte once,
 * the lowest address first, by aligned stores. From such memory, and from 16 bytes or more of
 * memory of an unknown mode if the CPU has streaming loads, the call loads each byte once, by
 * aligned loads. All stores of a call are visible before any later store of the thread. Loads from
 * such memory come after all earlier loads.
 *
 * As memcpy() the call makes no bracket, and does not wait for work in flight. A touch of bytes
 * that are lost raises a signal, as any touch does: then part of the bytes are copied. In a
 * guarded scope (hm_guard_begin()) the fault ends the scope. hm_copy_in() and hm_copy_out()
 * return an error instead; they choose in the same way, without HM_COPY_STREAM.
 *
 * Thread safety: any thread. A signal handler must not call this function.
 *
 * Errors:
 *   -EINVAL: a pointer is NULL and the length is not 0, a flag is unknown, or source and
 *            destination overlap; nothing was copied. Two maps of the same bytes are not found
 *            to overlap: then the contents of the destination are undefined.
 */
HM_API int hm_copy(void *to, const void *from, uint64_t length, uint32_t flags);

/**
 * hm_copy_query - tell how a copy would be made
 * @to, @from, @length: [in] as for hm_copy(); no byte is touched
 * @ret_info: [in,out] the caller must set struct_size and flags
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: as for hm_copy().
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_copy_query(const void *to, const void *from, uint64_t length,
			 struct hm_copy_info *ret_info);

#ifdef __cplusplus
}
#endif

#endif
