/* SPDX-License-Identifier: MIT */
/* The backend of files, which the backend of persistent files builds on. */
#ifndef HETMAP_BACKEND_FILE_H
#define HETMAP_BACKEND_FILE_H

#include <hetmap/backend.h>

extern const struct hm_backend_ops file_backend;

#endif
