// SPDX-License-Identifier: MIT
/*
 * Extensions: jobs of hetmap run, and parts of other commands, that are a program of their own,
 * libexec/hetmap/NAME, which a package of its own has.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "extension.h"
#include "text.h"

static const struct extension extensions[] = {
	{ "graph", "hetmap-plan", "run \"make\" in the checkout of hetmap" },
	{ "particles", "hetmap-cluster", "build hetmap where pkg-config finds mpi" },
	{ "table", "hetmap-table", "run \"make table\" in the checkout of hetmap" },
	{ "tier", "hetmap-tier", "build hetmap where pkg-config finds libpmem2" },
	{ "video", "hetmap-video",
	  "build hetmap where pkg-config finds libavcodec, libavformat, libavutil and libpng" },
};

/* Where make puts it: beside hetmap in the build folder; beside bin/ where it is installed. */
static const char *const folders[] = { "libexec/hetmap", "../libexec/hetmap", NULL };

/* The folder that hetmap itself is in. */
static bool own_folder(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	if (n <= 0)
		return false;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

/* The path of the program; free() it. NULL: it is not there. */
static char *find_program(const char *name)
{
	char own[PATH_MAX];
	char *path;
	size_t i;

	if (own_folder(own)) {
		for (i = 0; folders[i]; i++) {
			path = text_format("%s/%s/%s", own, folders[i], name);
			if (!access(path, F_OK))
				return path;
			free(path);
		}
	}
	path = text_format("%s/%s", HETMAP_LIBEXEC, name);
	if (!access(path, F_OK))
		return path;
	free(path);
	return NULL;
}

static const struct extension *find(const char *name)
{
	size_t i;

	for (i = 0; extension_at(i); i++)
		if (!strcmp(extension_at(i)->name, name))
			return extension_at(i);
	return NULL;
}

const struct extension *extension_at(size_t i)
{
	return i < sizeof(extensions) / sizeof(extensions[0]) ? &extensions[i] : NULL;
}

bool extension_has_job(const char *name)
{
	return find(name) != NULL;
}

int extension_run(const char *name, const char *what, char **argv)
{
	const struct extension *extension = find(name);
	char *path = find_program(name);
	char *remedy, *shown;
	int error;

	if (!path) {
		remedy = text_format("install the package %s, or %s", extension->package,
				     extension->build);
		fail(STATUS_ENVIRONMENT, ENOENT, remedy, "%s is not part of this hetmap", what);
		free(remedy);
		return STATUS_ENVIRONMENT;
	}
	fflush(NULL);
	signals_restore();
	execv(path, argv);
	error = errno;
	shown = text_escape(path);
	fail(STATUS_ENVIRONMENT, error, NULL, "cannot run %s", shown);
	free(shown);
	free(path);
	return STATUS_ENVIRONMENT;
}
