/* SPDX-License-Identifier: MIT */
/* Devices: what the library's own callers need. Backends have functions of these names. */
#ifndef HETMAP_DEVICE_INTERNAL_H
#define HETMAP_DEVICE_INTERNAL_H

#include <hetmap/device.h>

/* The public functions of these names, without their door: for callers inside the library. */
int device_open(const char *name, struct hm_device **ret_device);
int device_query(struct hm_device *device, struct hm_device_info *ret_info);

#endif
