// SPDX-License-Identifier: MIT
/* The module of the simulated device, loaded and unloaded by tests. */
#include "sim/module_support.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/harness.h"

#define PARAMETERS "/sys/module/hetsim/parameters/"

int module_open(void)
{
	const char *path = getenv("HETMAP_MODULE");
	int file;

	if (!path) {
		test_skip("kernel", "no HETMAP_MODULE, as tests/vm/variants has it");
		return -1;
	}
	file = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_FATAL(file >= 0);
	return file;
}

int module_load(int file, const char *parameters)
{
	return syscall(SYS_finit_module, file, parameters, 0) ? -errno : 0;
}

int module_unload(void)
{
	return syscall(SYS_delete_module, "hetsim", O_NONBLOCK) ? -errno : 0;
}

void module_parameters(char *text, size_t size)
{
	size_t length = 0, i;
	glob_t found;

	CHECK_EQUAL(glob(PARAMETERS "*", 0, NULL, &found), 0);
	for (i = 0; i < found.gl_pathc; i++) {
		FILE *file = fopen(found.gl_pathv[i], "re");
		char value[32] = "";

		CHECK_FATAL(file && fgets(value, sizeof(value), file));
		fclose(file);
		length += (size_t)snprintf(text + length, size - length, "%s=%.*s ",
					   found.gl_pathv[i] + strlen(PARAMETERS),
					   (int)strcspn(value, "\n"), value);
		CHECK_FATAL(length < size);
	}
	globfree(&found);
}

/* The kernel has addresses for it, which a load takes. */
static bool has_addresses(void)
{
	FILE *file = fopen("/proc/iomem", "re");
	bool has = false;
	char line[128];

	CHECK_FATAL(file != NULL);
	while (fgets(line, sizeof(line), file))
		has |= strstr(line, " : hetsim") != NULL;
	fclose(file);
	return has;
}

void module_is_gone(const char *what)
{
	static const char *const places[] = {
		"/sys/module/hetsim",
		"/sys/kernel/debug/hetsim",
		"/dev/hetsim*",
		"/sys/class/misc/hetsim*",
		"/sys/bus/platform/devices/hetsim*",
		"/sys/bus/platform/drivers/hetsim",
	};
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		glob_t found;

		if (!glob(places[i], 0, NULL, &found))
			test_fail(__FILE__, __LINE__, "%s: there is %s", what,
				  found.gl_pathv[0]);
		globfree(&found);
	}
	if (has_addresses())
		test_fail(__FILE__, __LINE__, "%s: /proc/iomem has addresses of it", what);
}
