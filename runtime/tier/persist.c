// SPDX-License-Identifier: MIT
/*
 * Persistence of devices. Persistent memory is below a region of the bus "nd" [Documentation/ABI/
 * testing/sysfs-bus-nd], whose domain says what a power failure spares: the memory controllers'
 * queues, or the processors' caches, too. Firmware that says nothing means the former.
 */
#include "tier/persist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "arch/flush.h"
#include "base/proc.h"
#include "base/sys.h"

#define PATH_BYTES 512

static void folder_of(struct device_number device, char *path, size_t size)
{
	snprintf(path, size, "/sys/dev/%s/%u:%u", device.block ? "block" : "char",
		 major(device.number), minor(device.number));
}

bool device_attribute(struct device_number device, const char *name, char *text, size_t size)
{
	char folder[64], path[192];

	folder_of(device, folder, sizeof(folder));
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!proc_read(path, text, size))
		return false;
	text[strcspn(text, "\n")] = '\0';
	return true;
}

bool device_number_attribute(struct device_number device, const char *name,
			     uint64_t *ret_number)
{
	char text[32], *end;
	uint64_t number;

	if (!device_attribute(device, name, text, sizeof(text)))
		return false;
	number = strtoull(text, &end, 0);
	if (end == text)
		return false;
	*ret_number = number;
	return true;
}

/* Is the last part of @path "regionN", N a number? */
static bool is_region(const char *path)
{
	const char *last = strrchr(path, '/');
	size_t digits;

	if (!last || strncmp(last, "/region", 7) != 0)
		return false;
	digits = strspn(last + 7, "0123456789");
	return digits && !last[7 + digits];
}

/* The folder of the region above the device; false: it is below none. */
static bool find_region(struct device_number device, char *path, size_t size)
{
	char folder[64], target[PATH_BYTES], *last;
	ssize_t n;

	folder_of(device, folder, sizeof(folder));
	n = sys_readlink(folder, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	/* "../../devices/.../region0/namespace0.0/block/pmem0" */
	last = strstr(target, "devices/");
	if (!last || (size_t)snprintf(path, size, "/sys/%s", last) >= size)
		return false;
	while (!is_region(path)) {
		last = strrchr(path, '/');
		if (!last || last == path)
			return false;
		*last = '\0';
	}
	return true;
}

bool persist_region(struct device_number device, char *path, size_t size)
{
	char file[PATH_BYTES + 32];

	if (!find_region(device, path, size))
		return false;
	/* Regions of CXL have the same names, and lie above regions of nd; nd's have this file. */
	snprintf(file, sizeof(file), "%s/init_namespaces", path);
	return !sys_access(file, F_OK);
}

uint32_t persist_of_device(struct device_number device)
{
	char path[PATH_BYTES], file[PATH_BYTES + 32], domain[32] = "";

	if (!persist_region(device, path, sizeof(path)))
		return HM_PERSIST_NONE;
	snprintf(file, sizeof(file), "%s/persistence_domain", path);
	if (proc_read(file, domain, sizeof(domain)) && !strncmp(domain, "cpu_cache", 9))
		return HM_PERSIST_BYTE;
	return flush_name() ? HM_PERSIST_LINE : HM_PERSIST_PAGE;
}
