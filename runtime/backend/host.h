/* SPDX-License-Identifier: MIT */
/* The backend of host memory, on which others stand. */
#ifndef HETMAP_HOST_H
#define HETMAP_HOST_H

#include <hetmap/backend.h>

extern const struct hm_backend_ops host_backend;

#endif
