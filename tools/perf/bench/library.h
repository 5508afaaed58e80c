/* SPDX-License-Identifier: MIT */
/* A further copy of the library in this process, with state of its own, to compare with. */
#ifndef HETMAP_PERF_LIBRARY_H
#define HETMAP_PERF_LIBRARY_H

#include <stdbool.h>

#include <hetmap/hetmap.h>

struct library {
	typeof(hm_errmsg) *errmsg;
	typeof(hm_device_open) *device_open;
	typeof(hm_device_unref) *device_unref;
	typeof(hm_buffer_create) *buffer_create;
	typeof(hm_buffer_unref) *buffer_unref;
	typeof(hm_map_create) *map_create;
	typeof(hm_map_address) *map_address;
	typeof(hm_map_unref) *map_unref;
};

/*
 * Loads the library @name, which stands beside hetmap, or where the system has its
 * libraries: each time another copy of it. It stays until the process ends, as threads may
 * be in it. False: *ret_why (static, until the next call) tells.
 */
bool library_load(const char *name, struct library *ret_library, const char **ret_why);

#endif
