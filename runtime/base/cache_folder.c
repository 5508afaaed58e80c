// SPDX-License-Identifier: MIT
/* The folder of files that may be lost: $XDG_CACHE_HOME/hetmap or ~/.cache/hetmap. */
#include "base/cache_folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/sys.h"

/* Ignores relative paths, as the XDG rules ask. */
int cache_folder(char *path, size_t size)
{
	const char *base = env_get("XDG_CACHE_HOME"), *home = env_get("HOME");
	int n;

	if (base && base[0] == '/')
		n = snprintf(path, size, "%s/hetmap", base);
	else if (home && home[0] == '/')
		n = snprintf(path, size, "%s/.cache/hetmap", home);
	else
		return -ENOENT;
	return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* Makes each folder of the path; those that exist are fine. */
void cache_make_folders(char *path)
{
	char *at;

	for (at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		(void)sys_mkdir(path, 0700);
		*at = '/';
	}
}
