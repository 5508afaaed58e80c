/* SPDX-License-Identifier: MIT */
/* Kinds of mapped memory, by the names that the kernel gives it. */
#ifndef HETMAP_SPACES_NAME_H
#define HETMAP_SPACES_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "spaces.h"

/* Is @file one of the library's own? Then @name is what it calls it. */
bool name_of_hetmap(const char *file, char *name, size_t size);
enum object_kind name_kind(const char *name);
/* Is it a file that storage has? */
bool name_is_stored(const char *name);
/* Is @file, a path or its last part, the C library's? */
bool name_is_c_library(const char *file);

#endif
