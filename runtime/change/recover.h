/* SPDX-License-Identifier: MIT */
/* Opens a device that was lost again, and makes the buffers' objects on it anew. */
#ifndef HETMAP_RECOVER_H
#define HETMAP_RECOVER_H

#include "core/core.h"

/* hm_device_recover() on arguments that are checked. Fills in @info as far as it comes. */
int recover_device(struct hm_device *device, uint32_t flags, struct hm_recover_info *info);

#endif
