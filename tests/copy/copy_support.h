/* SPDX-License-Identifier: MIT */
/* Maps of every cache mode, for tests of copies and combines. */
#ifndef HETMAP_TESTS_COPY_SUPPORT_H
#define HETMAP_TESTS_COPY_SUPPORT_H

#include "lib/support.h"

/*
 * A map of ordinary memory whose backend says it were @cache (enum hm_cache): copies go the way
 * of a device's, and any machine can read them back.
 */
struct rig mode_open(uint32_t cache, uint64_t size);
/* One of a device by its name. */
struct rig device_map_open(const char *name, uint64_t size);
bool device_is_there(const char *name);

struct hm_copy_info copy_info(const void *to, const void *from, uint64_t length,
			      uint32_t flags);
struct hm_combine_info combine_info(struct hm_combine *combine);

#endif
