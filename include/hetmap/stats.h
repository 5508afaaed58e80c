/* SPDX-License-Identifier: MIT */
/*
 * Counters of a buffer and of a device; hm_stats_get() has those of the process. Counting costs
 * next to nothing and is always on. Reading the counters waits for no other call: a monitor may
 * read them while a buffer is being resized, and in a view's callback.
 */
#ifndef HETMAP_STATS_H
#define HETMAP_STATS_H

#include <hetmap/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "Ever" is since the buffer was made, in this process. A failed call is not counted. */
struct hm_buffer_stats {
	uint32_t struct_size;
	uint32_t reserved;
	uint64_t bytes;     /* size of the buffer, in whole pages */
	uint64_t maps;      /* now */
	uint64_t maps_ever; /* ever: hm_map_create, hm_alloc */
	uint64_t maps_lost; /* ever: maps lost with their device, or by a change not undone */
	uint64_t maps_recovered; /* ever: maps that hm_device_recover brought back */
	uint64_t views;          /* now: views of its maps, with those of accelerators */
	uint64_t bytes_mapped;   /* now: lengths of its maps, in whole pages */
	uint64_t bytes_locked;   /* now: bytes of its maps that hm_map_lock keeps */
	uint64_t bytes_copied;   /* ever: by launches that could not reach them, by resizes */
	uint64_t resizes;        /* ever: changes of its size, with those of an owner */
	uint64_t protects;       /* ever: changes of rights, begins and ends of scopes */
	uint64_t brackets;       /* ever: hm_map_begin_cpu */
	uint64_t brackets_open;  /* now */
	uint64_t launches;       /* ever: launches, copies and fills that used it */
};

/* Sums over the buffers that this handle of the device made; "ever" includes ended buffers. */
struct hm_device_stats {
	uint32_t struct_size;
	uint32_t reserved;
	uint64_t buffers;         /* now */
	uint64_t buffers_ever;    /* created, imported, received, of files */
	uint64_t bytes_allocated; /* now: sizes of its buffers, in whole pages */
	uint64_t maps;
	uint64_t maps_ever;
	uint64_t maps_lost;
	uint64_t maps_recovered;
	uint64_t views;
	uint64_t bytes_mapped;
	uint64_t bytes_locked;
	uint64_t bytes_copied;
	uint64_t resizes;
	uint64_t protects;
	uint64_t brackets;
	uint64_t brackets_open;
	uint64_t launches; /* a launch on two buffers counts twice */
};

/**
 * hm_buffer_stats_get - read a buffer's counters
 * @buffer:    [in]
 * @ret_stats: [in,out] the caller must set struct_size; filled on success
 *
 * The function reads each counter separately; together the counters are not a snapshot. Each
 * counter includes every call that has returned.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_buffer_stats_get(struct hm_buffer *buffer, struct hm_buffer_stats *ret_stats);

/**
 * hm_device_stats_get - read a device's counters
 * @device:    [in] a device, which may have been taken away
 * @ret_stats: [in,out] the caller must set struct_size; filled on success
 *
 * Takes as long as adding up the buffers does. Only the making and the end of a buffer wait for
 * the function.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_device_stats_get(struct hm_device *device, struct hm_device_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
