// SPDX-License-Identifier: MIT
/* Kinds of mapped memory, by the names that the kernel gives it. */
#include "spaces_name.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds[N_OBJECT_KIND] = {
	[OBJECT_HETMAP] = "hetmap", [OBJECT_FILE] = "file",       [OBJECT_DEVICE] = "device",
	[OBJECT_ANON] = "anon",     [OBJECT_HEAP] = "heap",       [OBJECT_STACK] = "stack",
	[OBJECT_OTHER] = "other",   [OBJECT_UNKNOWN] = "unknown",
};

const char *object_kind_name(enum object_kind kind)
{
	return kinds[kind];
}

/* A memfd of the library's: "/memfd:hetmap:NAME (deleted)". */
bool name_of_hetmap(const char *file, char *name, size_t size)
{
	static const char prefix[] = "/memfd:hetmap:", suffix[] = " (deleted)";
	size_t length = strlen(file);

	if (strncmp(file, prefix, strlen(prefix)) != 0)
		return false;
	if (length > strlen(suffix) && !strcmp(file + length - strlen(suffix), suffix))
		length -= strlen(suffix);
	snprintf(name, size, "%.*s", (int)(length - strlen(prefix)), file + strlen(prefix));
	return true;
}

enum object_kind name_kind(const char *name)
{
	/* Memory that processes share has a file, by name only. */
	if (!*name || !strcmp(name, "//anon") || !strncmp(name, "/dev/zero", 9) ||
	    !strncmp(name, "/anon_hugepage", 14))
		return OBJECT_ANON;
	if (!strcmp(name, "[heap]"))
		return OBJECT_HEAP;
	if (!strncmp(name, "[stack", 6))
		return OBJECT_STACK;
	if (!strncmp(name, "[anon", 5))
		return OBJECT_ANON;
	if (*name == '[')
		return OBJECT_OTHER;
	if (!strncmp(name, "/dev/", 5) && strncmp(name, "/dev/shm/", 9) != 0)
		return OBJECT_DEVICE;
	return OBJECT_FILE;
}

/* Files of memory have nothing to read. */
bool name_is_stored(const char *name)
{
	return name_kind(name) == OBJECT_FILE && *name == '/' &&
	       strncmp(name, "/memfd:", 7) != 0 && strncmp(name, "/dev/shm/", 9) != 0 &&
	       strncmp(name, "/SYSV", 5) != 0;
}

bool name_is_c_library(const char *file)
{
	const char *slash = strrchr(file, '/'), *last = slash ? slash + 1 : file;

	return !strncmp(last, "libc.so", 7) || !strncmp(last, "libc-", 5) ||
	       !strncmp(last, "ld-linux", 8);
}
