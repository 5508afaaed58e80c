// SPDX-License-Identifier: MIT
/*
 * The way from a DAX device to its memory devices [Documentation/ABI/testing/sysfs-bus-cxl]: the
 * device is below a region, whose targets name decoders of endpoints, whose uport is the memory
 * device, whose serial number is printed on it.
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
#define REGIONS_MOST 64u
#define TARGETS_MOST 16u /* of a region [CXL 3.0] */

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

/* A number that is hexadecimal behind "0x". */
static bool read_number(const char *folder, const char *name, uint64_t *ret_number)
{
	char text[32], *end;
	uint64_t number;

	if (!read_text(folder, name, text, sizeof(text)))
		return false;
	number = strtoull(text, &end, 0);
	if (end == text)
		return false;
	*ret_number = number;
	return true;
}

/* Cuts @text behind the name that begins with @from. */
static char *cut_behind(char *text, const char *from)
{
	char *at = strstr(text, from);

	if (at && (at = strchr(at + 1, '/')))
		*at = '\0';
	return at;
}

/* The region whose physical addresses have the one of a region of the bus "nd". */
static bool find_region_at(uint64_t address, char *name, size_t size)
{
	uint64_t start, length;
	char region[16];
	uint32_t i;

	for (i = 0; i < REGIONS_MOST; i++) {
		snprintf(region, sizeof(region), "region%u", i);
		if (cxl_region_number(region, "resource", &start) &&
		    cxl_region_number(region, "size", &length) && address >= start &&
		    address - start < length) {
			name_copy(name, size, region);
			return true;
		}
	}
	return false;
}

/*
 * Persistent memory is below a region of the bus "nd" that CXL's bridge has made: ".../nvdimm-
 * bridge0/ndbus1/region3/dax3.0". Only root is told where that is.
 */
static bool find_persistent(char *target, char *name, size_t size)
{
	char path[PATH_BYTES + 16], *bus = strstr(target, "/ndbus");
	char *from = strstr(target, "devices/");
	uint64_t address;

	if (!bus || !from || !strstr(target, "/nvdimm-bridge") || !cut_behind(bus, "/region"))
		return false;
	snprintf(path, sizeof(path), "/sys/%s", from);
	return read_number(path, "resource", &address) && address &&
	       find_region_at(address, name, size);
}

/* "region0" of ".../decoder0.0/region0/dax_region0/dax0.0". */
bool cxl_region_of(const char *folder, char *name, size_t size)
{
	char target[PATH_BYTES], *end, *at;

	if (!read_link(folder, target, sizeof(target)))
		return false;
	end = strstr(target, "/dax_region");
	if (!end)
		return find_persistent(target, name, size);
	*end = '\0';
	at = strrchr(target, '/');
	if (!at || strncmp(at, "/region", 7) != 0)
		return false;
	name_copy(name, size, at + 1);
	return true;
}

bool cxl_region_number(const char *region, const char *attribute, uint64_t *ret_number)
{
	char path[64];

	snprintf(path, sizeof(path), DEVICES "/%.24s", region);
	return read_number(path, attribute, ret_number);
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

void cxl_each_memory(const char *region, void (*each)(void *user, const char *memory),
		     void *user)
{
	char path[PATH_BYTES], target[16], decoder[64], memory[32];
	uint32_t i;

	snprintf(path, sizeof(path), DEVICES "/%.24s", region);
	for (i = 0; i < TARGETS_MOST; i++) {
		snprintf(target, sizeof(target), "target%u", i);
		if (!read_text(path, target, decoder, sizeof(decoder)))
			return;
		if (find_memory(decoder, memory, sizeof(memory)))
			each(user, memory);
	}
}

bool cxl_made_of(const char *folder, char *text, size_t size)
{
	char region[32], path[PATH_BYTES], decoder[64], memory[32] = "", serial[32] = "";
	char ways[16] = "1", granularity[16] = "";

	if (!cxl_region_of(folder, region, sizeof(region)))
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
