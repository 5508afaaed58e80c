// SPDX-License-Identifier: MIT
/*
 * The kernel's list of bad ranges is the file badblocks of a region, or of a block device, in units
 * of 512 bytes [Documentation/ABI/testing/sysfs-block, sysfs-bus-nfit]. Offsets of a region become
 * those of the device by the physical addresses of both.
 */
#include "tier/bad.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/err.h"
#include "base/lines.h"
#include "base/proc.h"
#include "base/sys.h"
#include "base/util.h"

#define SECTOR 512ull

static int open_named(const char *name, struct device_number *ret_device)
{
	const bool dax = !strncmp(name, "dax:", 4);
	struct stat st;
	int fd, r;

	if (!dax && strncmp(name, "pmem:", 5) != 0)
		return err_set(-ENODEV,
			       "\"%s\" has no list of bad ranges: \"dax:PATH\" and "
			       "\"pmem:PATH\" have",
			       name);
	fd = sys_open(strchr(name, ':') + 1, O_RDONLY | O_NONBLOCK, 0);
	r = fd < 0 ? fd : sys_fstat(fd, &st);
	if (fd >= 0)
		sys_close(fd);
	if (r)
		return err_set(r == -EACCES ? r : -ENODEV, "%s can't be opened: %s", name,
			       err_name(r));
	if (dax && !S_ISCHR(st.st_mode))
		return err_set(-ENODEV, "%s is no DAX device", name);
	*ret_device = dax ? (struct device_number){ false, st.st_rdev } :
			    (struct device_number){ true, st.st_dev };
	return 0;
}

/* The number behind the last "ndbus" of the path. */
static bool find_bus(const char *region, uint32_t *ret_bus)
{
	const char *at = strstr(region, "/ndbus");

	if (!at)
		return false;
	*ret_bus = (uint32_t)strtoul(at + 6, NULL, 10);
	return true;
}

/* A resource file is root's: another user finds a number of 0, or no file. */
static int find_addresses(const char *name, struct bad_place *place)
{
	const char *file = place->device.block ? "device/resource" : "resource";
	char path[560], text[32] = "";
	uint64_t region;

	snprintf(path, sizeof(path), "%s/resource", place->region);
	proc_read(path, text, sizeof(text));
	region = strtoull(text, NULL, 0);
	if (region && device_number_attribute(place->device, file, &place->address) &&
	    place->address >= region) {
		place->first = place->address - region;
		return 0;
	}
	/* A block device has a list with offsets of its own. */
	place->address = 0;
	return place->device.block ? 0 :
				     err_set(-EACCES,
					     "%s: the kernel tells only root where the device "
					     "is in its region: run this as root",
					     name);
}

int bad_find(const char *name, struct bad_place *ret_place)
{
	struct bad_place place = { 0 };
	uint64_t sectors;
	int r = open_named(name, &place.device);

	if (r)
		return r;
	if (!persist_region(place.device, place.region, sizeof(place.region)) ||
	    !find_bus(place.region, &place.bus))
		return err_set(
			-EOPNOTSUPP,
			"%s: its memory is not persistent memory of the bus \"nd\", which "
			"keeps the lists of bad ranges",
			name);
	if (device_number_attribute(place.device, "size", &sectors))
		place.size = place.device.block ? sectors * SECTOR : sectors;
	r = find_addresses(name, &place);
	if (!r)
		*ret_place = place;
	return r;
}

int bad_each(const struct bad_place *place,
	     void (*each)(void *user, uint64_t offset, uint64_t length), void *user)
{
	const uint64_t first = place->device.block ? 0 : place->first;
	uint64_t sector, sectors, from, to;
	struct lines lines;
	char path[560], *line;
	int r;

	if (place->device.block)
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/badblocks",
			 major(place->device.number), minor(place->device.number));
	else
		snprintf(path, sizeof(path), "%s/badblocks", place->region);
	r = lines_open(&lines, path);
	if (r)
		return err_set(r == -EACCES ? r : -EOPNOTSUPP,
			       "the list of bad ranges can't be read, %s: %s", path,
			       err_name(r));
	while ((line = lines_next(&lines))) {
		if (sscanf(line, "%" SCNu64 " %" SCNu64, &sector, &sectors) != 2 ||
		    sector > UINT64_MAX / SECTOR || sectors > UINT64_MAX / SECTOR - sector)
			continue;
		from = max_u64(sector * SECTOR, first);
		to = (sector + sectors) * SECTOR;
		if (place->size)
			to = min_u64(to, first + place->size);
		if (from < to)
			each(user, from - first, to - from);
	}
	return lines_close(&lines);
}
