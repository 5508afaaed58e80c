// SPDX-License-Identifier: MIT
/*
 * Programs that do a part of the command, libexec/hetmap/NAME: of extensions, which packages of
 * their own have, and of the benchmarks.
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
/* hetmap, from there. */
static const char *const hetmaps[] = { "../../hetmap", "../../bin/hetmap", NULL };

/* The folder that this program is in. */
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

static bool is_libexec(const char *folder)
{
	size_t n = strlen(folder), end = strlen(folders[0]);

	return n > end && folder[n - end - 1] == '/' && !strcmp(folder + n - end, folders[0]);
}

/* "FOLDER/PLACE/NAME", or without "/NAME"; free() it. NULL: it is not there. */
static char *path_if_there(const char *folder, const char *place, const char *name)
{
	char *path = text_format("%s/%s%s%s", folder, place, name ? "/" : "", name ? name : "");

	if (!access(path, F_OK))
		return path;
	free(path);
	return NULL;
}

/* The path of the program; free() it. NULL: it is not there. */
static char *find_program(const char *name)
{
	char own[PATH_MAX];
	char *path = NULL;
	size_t i;

	if (own_folder(own)) {
		if (is_libexec(own))
			path = path_if_there(own, name, NULL);
		for (i = 0; folders[i] && !path; i++)
			path = path_if_there(own, folders[i], name);
	}
	return path ? path : path_if_there(HETMAP_LIBEXEC, name, NULL);
}

char *hetmap_path(void)
{
	char own[PATH_MAX];
	char *path = NULL;
	size_t i;

	if (own_folder(own) && is_libexec(own))
		for (i = 0; hetmaps[i] && !path; i++)
			path = path_if_there(own, hetmaps[i], NULL);
	return path ? path : path_if_there(HETMAP_BINDIR, "hetmap", NULL);
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
	char *remedy = text_format("install the package %s, or %s", extension->package,
				   extension->build);
	int status = libexec_run(name, what, remedy, argv);

	free(remedy);
	return status;
}

int libexec_run(const char *name, const char *what, const char *remedy, char **argv)
{
	char *path = find_program(name), *shown;
	int error;

	if (!path)
		return fail(STATUS_ENVIRONMENT, ENOENT, remedy, "%s is not part of this hetmap",
			    what);
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
