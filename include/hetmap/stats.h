/* SPDX-License-Identifier: MIT */
/*
 * Counters of a buffer and of a device; the process's are hm_stats_get's. They cost what
 * is counted next to nothing, are always on, and wait for nobody: a monitor may ask while
 * a buffer is being resized, and in a view's callback.
 */
#ifndef HETMAP_STATS_H
#define HETMAP_STATS_H

#include <hetmap/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "Ever" is since the buffer was made, in this process; what failed is not counted. */
struct hm_buffer_stats {
	uint32_t struct_size;
	uint32_t reserved;
	uint64_t bytes;          /* its size, in whole pages */
	uint64_t maps;           /* now */
	uint64_t maps_ever;      /* hm_map_create, hm_alloc */
	uint64_t maps_lost;      /* ever: their device was taken away, or a change not undone */
	uint64_t maps_recovered; /* ever: hm_device_recover brought them back */
	uint64_t views;          /* now, of its maps, those of accelerators included */
	uint64_t bytes_mapped;   /* now: committed bytes of its maps */
	uint64_t bytes_locked;   /* now: what hm_map_lock keeps of its maps */
	uint64_t bytes_copied;   /* ever: by launches that could not reach them, by resizes */
	uint64_t resizes;        /* ever: changes of its size, an owner's included */
	uint64_t protects;       /* ever: changes of rights, begins and ends of scopes */
	uint64_t brackets;       /* ever: hm_map_begin_cpu */
	uint64_t brackets_open;  /* now */
	uint64_t launches;       /* ever: launches, copies and fills that used it */
};

/* The sums over the buffers made by this handle of the device, and of what is now gone. */
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
 * @ret_stats: [in,out] struct_size set by the caller; filled on success
 *
 * Each counter is read by itself; together they are not a snapshot. Of what one thread
 * did, and has returned from, each has all.
 *
 * Errors: -E2BIG.
 */
HM_API int hm_buffer_stats_get(struct hm_buffer *buffer, struct hm_buffer_stats *ret_stats);

/**
 * hm_device_stats_get - read a device's counters
 * @device:    [in]
 * @ret_stats: [in,out] struct_size set by the caller; filled on success
 *
 * Takes as long as adding the buffers up does; only the making and the end of a buffer
 * wait for it. Also of a device that was taken away.
 *
 * Errors: -E2BIG.
 */
HM_API int hm_device_stats_get(struct hm_device *device, struct hm_device_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
