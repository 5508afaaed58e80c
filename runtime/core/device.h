/* SPDX-License-Identifier: MIT */
/* Devices: what the library's own callers need. Backends have functions of these names. */
#ifndef HETMAP_DEVICE_INTERNAL_H
#define HETMAP_DEVICE_INTERNAL_H

#include "core/core.h"

/* Opens a device of @ops, one that is checked, and makes its object. */
int device_make(const struct hm_backend_ops *ops, const char *name,
		struct hm_device **ret_device);

#endif
