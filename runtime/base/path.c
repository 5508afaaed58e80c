// SPDX-License-Identifier: MIT
/* Explains why paths can't be opened: see path.h. */
#include "base/path.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/sys.h"

/* The kernel follows as many links [path_resolution(7)]. */
#define LINKS_MOST 40

/* Replaces the link at @path by its target; false: no link, or the target is too long. */
static bool follow(char path[PATH_MAX])
{
	char target[PATH_MAX], folder[PATH_MAX];
	ssize_t n = sys_readlink(path, target, sizeof(target) - 1);
	char *slash;
	int length;

	if (n < 0)
		return false;
	target[n] = '\0';
	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (*target == '/' || !slash)
		*folder = '\0';
	else
		slash[1] = '\0';
	length = snprintf(path, PATH_MAX, "%s%s", folder, target);
	return length < PATH_MAX;
}

int path_explain_open(int r, const char *path)
{
	char end[PATH_MAX];
	uint32_t links = 0;

	snprintf(end, sizeof(end), "%s", path);
	while (r == -ENOENT && links < LINKS_MOST && follow(end))
		links++;
	if (links)
		return err_set(r,
			       "it is a link to %s, which is not there: get that file, or the "
			       "link, again",
			       end);
	return err_set(r, "opening it: %s", err_name(r));
}
