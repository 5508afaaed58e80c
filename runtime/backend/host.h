/* SPDX-License-Identifier: MIT */
/* The backend of host memory, which the udmabuf backend builds on. */
#ifndef HETMAP_HOST_H
#define HETMAP_HOST_H

#include <hetmap/backend.h>

extern const struct hm_backend_ops host_backend;

#endif
