// SPDX-License-Identifier: MIT
/*
 * The way from a DAX device to its memory device [Documentation/ABI/testing/sysfs-bus-cxl]: the
 * device is below a region, whose target0 names the decoder of an endpoint, whose uport is the
 * memory device, whose serial number is printed on it.
 */
#include "tier/cxl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "base/sys.h"
#include "base/util.h"

#define DEVICES "/sys/bus/cxl/devices"
#define PATH_BYTES 512

static bool read_text(const char *folder, const char *name, char *text, size_t size)
{
	char path[PATH_BYTES];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path) ||
	    !proc_read(path, text, size))
		return false;
	text[strcspn(text, "\n")] = '\0';
	return *text != '\0';
}

static bool read_link(const char *path, char *target, size_t size)
{
	ssize_t n = sys_readlink(path, target, size - 1);

	if (n <= 0)
		return false;
	target[n] = '\0';
	return true;
}

/* "region0" of ".../decoder0.0/region0/dax_region0/dax0.0". */
static bool find_region(const char *folder, char *name, size_t size)
{
	char target[PATH_BYTES], *end, *at;

	if (!read_link(folder, target, sizeof(target)))
		return false;
	end = strstr(target, "/dax_region");
	if (!end)
		return false;
	*end = '\0';
	at = strrchr(target, '/');
	if (!at || strncmp(at, "/region", 7) != 0)
		return false;
	name_copy(name, size, at + 1);
	return true;
}

/* "mem0": the endpoint above the decoder has a link to it. */
static bool find_memory(const char *decoder, char *name, size_t size)
{
	char path[PATH_BYTES], target[PATH_BYTES], *at;

	snprintf(path, sizeof(path), DEVICES "/%.64s", decoder);
	if (!read_link(path, target, sizeof(target)))
		return false;
	at = strrchr(target, '/');
	if (!at)
		return false;
	*at = '\0';
	at = strrchr(target, '/');
	snprintf(path, sizeof(path), DEVICES "/%.64s/uport", at ? at + 1 : target);
	if (!read_link(path, target, sizeof(target)))
		return false;
	at = strrchr(target, '/');
	name_copy(name, size, at ? at + 1 : target);
	return true;
}

bool cxl_made_of(const char *folder, char *text, size_t size)
{
	char region[32], path[PATH_BYTES], decoder[64], memory[32] = "", serial[32] = "";
	char ways[16] = "1", granularity[16] = "";

	if (!find_region(folder, region, sizeof(region)))
		return false;
	snprintf(path, sizeof(path), DEVICES "/%s", region);
	if (!read_text(path, "target0", decoder, sizeof(decoder)) ||
	    !find_memory(decoder, memory, sizeof(memory)))
		return false;
	read_text(path, "interleave_ways", ways, sizeof(ways));
	read_text(path, "interleave_granularity", granularity, sizeof(granularity));
	snprintf(path, sizeof(path), DEVICES "/%s", memory);
	read_text(path, "serial", serial, sizeof(serial));
	snprintf(text, size, "CXL %.8s serial %.18s, %.10s, %.3s way%s of %.6s bytes", memory,
		 *serial ? serial : "not told", region, ways, strcmp(ways, "1") ? "s" : "",
		 granularity);
	return true;
}
