// SPDX-License-Identifier: MIT
/* Bad ranges of persistent memory and of CXL memory: listed, and cleared. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include <linux/ndctl.h>

#include "api/door.h"
#include "base/sys.h"
#include "tier/bad.h"

struct listing {
	struct hm_bad_range *ranges;
	uint32_t capacity, n;
};

static void note(void *user, uint64_t offset, uint64_t length)
{
	struct listing *listing = user;

	if (listing->n < listing->capacity)
		listing->ranges[listing->n] = (struct hm_bad_range){ offset, length };
	listing->n++;
}

int hm_tier_bad_ranges(const char *device, struct hm_bad_range *ranges, uint32_t capacity,
		       uint32_t *ret_n)
{
	struct listing listing = { ranges, capacity, 0 };
	struct bad_place place;
	int r;

	err_begin();
	if (!device || !ret_n || (capacity && !ranges))
		return err_set(-EINVAL, "hm_tier_bad_ranges: %s is NULL",
			       !device ? "device" :
			       !ret_n  ? "ret_n" :
					 "ranges");
	r = bad_find(device, &place);
	if (!r)
		r = bad_each(&place, note, &listing);
	if (!r)
		*ret_n = listing.n;
	return r;
}

/* The firmware clears the error, and the bus takes the range off its lists. */
static int clear(const struct bad_place *place, uint64_t offset, uint64_t length,
		 uint64_t *ret_cleared)
{
	struct nd_cmd_clear_error command = {
		.address = place->address + offset,
		.length = length,
	};
	char path[32];
	int fd, r;

	snprintf(path, sizeof(path), "/dev/ndctl%" PRIu32, place->bus);
	fd = sys_open(path, O_RDWR, 0);
	if (fd < 0)
		return err_set(fd, "%s can't be opened, which clears bad ranges: %s", path,
			       err_name(fd));
	r = sys_ioctl_again(fd, ND_IOCTL_CLEAR_ERROR, &command);
	sys_close(fd);
	if (r == -ENOTTY || r == -EINVAL || r == -EOPNOTSUPP)
		return err_set(-EOPNOTSUPP, "%s: this platform clears no bad ranges", path);
	if (r < 0)
		return err_set(r, "clearing %" PRIu64 " bytes at offset %" PRIu64 " by %s: %s",
			       length, offset, path, err_name(r));
	if (command.status || command.cleared < length)
		return err_set(-EIO,
			       "clearing %" PRIu64 " bytes at offset %" PRIu64
			       ": the firmware cleared %" PRIu64 ", status 0x%" PRIx32,
			       length, offset, (uint64_t)command.cleared,
			       (uint32_t)command.status);
	*ret_cleared = command.cleared;
	return 0;
}

int hm_tier_bad_clear(const char *device, uint64_t offset, uint64_t length,
		      uint64_t *ret_cleared)
{
	struct bad_place place;
	uint64_t end;
	int r;

	err_begin();
	if (!device || !ret_cleared)
		return err_set(-EINVAL, "hm_tier_bad_clear: %s is NULL",
			       device ? "ret_cleared" : "device");
	r = bad_find(device, &place);
	if (r)
		return r;
	if (!length || __builtin_add_overflow(offset, length, &end) || end > place.size)
		return err_set(-EINVAL,
			       "%s: %" PRIu64 " bytes from offset %" PRIu64
			       " are no range of its %" PRIu64 " bytes",
			       device, length, offset, place.size);
	if (!place.address)
		return err_set(
			-EACCES,
			"%s: the kernel tells only root where the device is: run this as "
			"root",
			device);
	if (!*place.cxl)
		return clear(&place, offset, length, ret_cleared);
	r = bad_clear_cxl(&place, offset, length);
	if (!r)
		*ret_cleared = length;
	return r;
}
