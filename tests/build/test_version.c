// SPDX-License-Identifier: MIT
/* hm_version(): of the library that is loaded, which need not be the one built against. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "lib/harness.h"

static void same_as_headers(void)
{
	CHECK_EQUAL(hm_version(), HM_VERSION);
	CHECK_EQUAL(hm_version() >> 16, HM_VERSION_MAJOR);
	CHECK_EQUAL(hm_version() >> 8 & 0xff, HM_VERSION_MINOR);
	CHECK_EQUAL(hm_version() & 0xff, HM_VERSION_PATCH);
}

/* Beside the tests' folder of this build. */
static void library_path(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 32);
	int i;

	CHECK_FATAL(n > 0);
	path[n] = '\0';
	for (i = 0; i < 2; i++)
		*strrchr(path, '/') = '\0';
	strcat(path, "/libhetmap.so");
}

/* The shared library says the same, and its name has the major number. */
static void same_as_shared(void)
{
	char path[4096], name[32];
	struct link_map *link;
	uint32_t (*version)(void);
	const ElfW(Dyn) * entry;
	const char *strings = NULL;
	uint64_t soname = 0;
	void *library;

	library_path(path, sizeof(path));
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		test_fail(__FILE__, __LINE__, "%s", dlerror());
	CHECK_FATAL(library);
	*(void **)&version = dlsym(library, "hm_version");
	CHECK_FATAL(version);
	CHECK(version != hm_version);
	CHECK_EQUAL(version(), HM_VERSION);
	CHECK_FATAL(!dlinfo(library, RTLD_DI_LINKMAP, &link));
	for (entry = link->l_ld; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_STRTAB)
			strings = (const char *)entry->d_un.d_ptr;
		else if (entry->d_tag == DT_SONAME)
			soname = entry->d_un.d_val;
	}
	snprintf(name, sizeof(name), "libhetmap.so.%d", HM_VERSION_MAJOR);
	CHECK_FATAL(strings && soname);
	CHECK(!strcmp(strings + soname, name));
	dlclose(library);
}

static const struct test tests[] = {
	{ "same_as_headers", same_as_headers, 0, 0 },
	{ "same_as_shared", same_as_shared, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "version", tests);
}
