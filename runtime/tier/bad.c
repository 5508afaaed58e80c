// SPDX-License-Identifier: MIT
/*
 * The kernel's list of bad ranges is the file badblocks of a region, or of a block device, in units
 * of 512 bytes [Documentation/ABI/testing/sysfs-block, sysfs-bus-nfit]. Offsets of a region become
 * those of the device by the physical addresses of both. CXL memory has poison lists (poison.h)
 * instead, of physical addresses.
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
#include "tier/cxl.h"
#include "tier/dax.h"
#include "tier/poison.h"

#define SECTOR 512ull

/* A node that is a region of CXL memory begins where the region does. */
static int find_node(const char *name, struct bad_place *place)
{
	const uint32_t node = (uint32_t)strtoul(strchr(name, ':') + 1, NULL, 10);

	if (!dax_region_of_node(node, place->cxl, sizeof(place->cxl)))
		return err_set(-EOPNOTSUPP,
			       "%s is not one region of CXL memory, which keeps lists of bad "
			       "ranges",
			       name);
	if (!cxl_region_number(place->cxl, "resource", &place->address) ||
	    !cxl_region_number(place->cxl, "size", &place->size))
		return err_set(-ENODEV, "%s: its CXL memory, %s, is gone", name, place->cxl);
	return 0;
}

static int open_named(const char *name, struct device_number *ret_device)
{
	const bool dax = !strncmp(name, "dax:", 4);
	struct stat st;
	int fd, r;

	if (!dax && strncmp(name, "pmem:", 5) != 0)
		return err_set(-ENODEV,
			       "\"%s\" has no list of bad ranges: \"dax:PATH\", "
			       "\"pmem:PATH\" and nodes of CXL memory have",
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

static bool find_place_in_cxl(struct bad_place *place)
{
	const bool block = place->device.block;

	if (!device_number_attribute(place->device, block ? "device/resource" : "resource",
				     &place->address) ||
	    !place->address || !device_number_attribute(place->device, "size", &place->size))
		return false;
	place->size *= block ? SECTOR : 1;
	return true;
}

static bool find_cxl(struct bad_place *place)
{
	char folder[64];

	snprintf(folder, sizeof(folder), "/sys/dev/%s/%u:%u",
		 place->device.block ? "block" : "char", major(place->device.number),
		 minor(place->device.number));
	return cxl_region_of(folder, place->cxl, sizeof(place->cxl));
}

int bad_find(const char *name, struct bad_place *ret_place)
{
	struct bad_place place = { 0 };
	uint64_t sectors;
	int r;

	if (!strncmp(name, "node:", 5)) {
		r = find_node(name, &place);
		if (!r)
			*ret_place = place;
		return r;
	}
	r = open_named(name, &place.device);
	if (r)
		return r;
	if (find_cxl(&place)) {
		if (!find_place_in_cxl(&place))
			return err_set(
				-EACCES,
				"%s: the kernel tells only root where the device is: run "
				"this as root",
				name);
		*ret_place = place;
		return 0;
	}
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

/* ---- CXL memory ---- */

struct handing {
	const struct bad_place *place;
	void (*each)(void *user, uint64_t offset, uint64_t length);
	void *user;
	uint64_t offset, end; /* of the bytes to clear */
};

/* The bytes of a range that the device has, as offsets in it; false: there are none. */
static bool cut_to_device(const struct bad_place *place, const struct poison_range *range,
			  uint64_t *ret_from, uint64_t *ret_to)
{
	const uint64_t from = max_u64(range->address, place->address);
	const uint64_t to =
		min_u64(range->address + range->length, place->address + place->size);

	*ret_from = from - place->address;
	*ret_to = to - place->address;
	return from < to;
}

static int hand_on(void *user, const struct poison_range *range)
{
	const struct handing *handing = user;
	uint64_t from, to;

	if (cut_to_device(handing->place, range, &from, &to))
		handing->each(handing->user, from, to - from);
	return 0;
}

static int clear_lines(void *user, const struct poison_range *range)
{
	const struct handing *handing = user;
	uint64_t from, to, dpa;
	int r = 0;

	if (!cut_to_device(handing->place, range, &from, &to))
		return 0;
	dpa = range->dpa + handing->place->address + from - range->address;
	for (; from < to && !r; from += POISON_LINE, dpa += POISON_LINE)
		if (from + POISON_LINE > handing->offset && from < handing->end)
			r = poison_clear(range->memory, dpa);
	return r;
}

int bad_clear_cxl(const struct bad_place *place, uint64_t offset, uint64_t length)
{
	struct handing handing = { .place = place, .offset = offset, .end = offset + length };

	return poison_each(place->cxl, clear_lines, &handing);
}

/* ---- lists ---- */

int bad_each(const struct bad_place *place,
	     void (*each)(void *user, uint64_t offset, uint64_t length), void *user)
{
	const uint64_t first = place->device.block ? 0 : place->first;
	uint64_t sector, sectors, from, to;
	struct handing handing = { .place = place, .each = each, .user = user };
	struct lines lines;
	char path[560], *line;
	int r;

	if (*place->cxl)
		return poison_each(place->cxl, hand_on, &handing);
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
