/* SPDX-License-Identifier: MIT */
/* The backends of this folder, for start/start.c to register. */
#ifndef HETMAP_BUILTIN_H
#define HETMAP_BUILTIN_H

#include <hetmap/backend.h>

extern const struct hm_backend_ops drm_backend;
extern const struct hm_backend_ops sim_backend;
extern const struct hm_backend_ops soft_backend;
extern const struct hm_backend_ops host_backend;
extern const struct hm_backend_ops heap_backend;
extern const struct hm_backend_ops udmabuf_backend;
extern const struct hm_backend_ops file_backend;

#endif
