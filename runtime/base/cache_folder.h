/* SPDX-License-Identifier: MIT */
/* The folder of files that may be lost: $XDG_CACHE_HOME/hetmap or ~/.cache/hetmap. */
#ifndef HETMAP_CACHE_FOLDER_H
#define HETMAP_CACHE_FOLDER_H

#include <stddef.h>

/* Stores the folder's path. -ENOENT: the user has no home; -ENAMETOOLONG. No text. */
int cache_folder(char *path, size_t size);

/* Makes each folder above the last part of @path. The function changes @path while it works. */
void cache_make_folders(char *path);

#endif
