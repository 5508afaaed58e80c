/* SPDX-License-Identifier: MIT */
/* Maps of every cache mode, for tests of copies and combines. */
#ifndef HETMAP_TESTS_COPY_SUPPORT_H
#define HETMAP_TESTS_COPY_SUPPORT_H

#include "lib/support.h"

struct mode_map {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *base;
};

/*
 * A map of ordinary memory whose backend says it were @cache (enum hm_cache): copies go the way
 * of a device's, and any machine can read them back.
 */
void mode_open(struct mode_map *mode, uint32_t cache, uint64_t size);
/* One of a device by its name. */
void device_map_open(struct mode_map *mode, const char *name, uint64_t size);
void mode_close(struct mode_map *mode);
bool device_is_there(const char *name);

struct hm_copy_info copy_info(const void *to, const void *from, uint64_t length,
			      uint32_t flags);
struct hm_combine_info combine_info(struct hm_combine *combine);

#endif
