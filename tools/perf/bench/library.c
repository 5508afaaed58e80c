// SPDX-License-Identifier: MIT
/*
 * A further copy of the library in this process. The loader gives one file once, so each
 * copy is of a file of its own, in memory.
 */
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/extension.h"
#include "common/text.h"

static char why[256];

static bool refuse(const char *name, const char *reason)
{
	snprintf(why, sizeof(why), "%s: %s", name, reason);
	return false;
}

/* A descriptor, or a negative errno. */
static int open_library(const char *name)
{
	static const char *const folders[] = { "/usr/local/lib", "/usr/lib" };
	char *hetmap = hetmap_path(), *path;
	char *end = hetmap ? strrchr(hetmap, '/') : NULL;
	int fd = -ENOENT;
	size_t i;

	if (end) {
		*end = '\0';
		path = text_format("%s/%s", hetmap, name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		free(path);
	}
	for (i = 0; i < sizeof(folders) / sizeof(folders[0]) && fd < 0; i++) {
		path = text_format("%s/%s", folders[i], name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		free(path);
	}
	free(hetmap);
	return fd < 0 ? -errno : fd;
}

static int copy(int from, int to)
{
	char block[65536];
	ssize_t n;

	while ((n = read(from, block, sizeof(block))) > 0)
		if (write(to, block, (size_t)n) != n)
			return -EIO;
	return n ? -errno : 0;
}

/* NULL: @why tells. */
static void *load_copy(const char *name)
{
	int from = open_library(name), to = -1, r;
	void *handle = NULL;
	char path[32];

	if (from < 0) {
		refuse(name, "it is not beside this program: make builds it");
		return NULL;
	}
	to = memfd_create(name, MFD_CLOEXEC);
	r = to < 0 ? -errno : copy(from, to);
	if (r) {
		refuse(name, strerror(-r));
		goto close;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", to);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		refuse(name, dlerror());
close:
	close(from);
	/* Of one that is loaded it stays: the loader would take its number for the same file. */
	if (to >= 0 && !handle)
		close(to);
	return handle;
}

/* A function's address, as POSIX has it: through a pointer to an object. */
#define FIND(handle, library, function) \
	(*(void **)&(library)->function = dlsym(handle, "hm_" #function))

bool library_load(const char *name, struct library *ret_library, const char **ret_why)
{
	struct library library = { 0 };
	void *handle = load_copy(name);

	*ret_why = why;
	if (!handle)
		return false;
	if (!FIND(handle, &library, errmsg) || !FIND(handle, &library, device_open) ||
	    !FIND(handle, &library, device_unref) || !FIND(handle, &library, buffer_create) ||
	    !FIND(handle, &library, buffer_unref) || !FIND(handle, &library, map_create) ||
	    !FIND(handle, &library, map_address) || !FIND(handle, &library, map_unref))
		return refuse(name, "it is of another version");
	*ret_library = library;
	return true;
}
