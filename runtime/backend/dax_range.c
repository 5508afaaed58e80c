// SPDX-License-Identifier: MIT
/* Ranges of DAX devices by locks of their nodes. */
#include "backend/dax_range.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"

static int call(int fd, int command, short type, uint64_t offset, uint64_t length,
		struct flock *range)
{
	*range = (struct flock){
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)offset,
		.l_len = (off_t)length,
	};
	return sys_fcntl(fd, command, (long)(uintptr_t)range);
}

/* Some lock of another buffer on the range: its end, at most @end; 0: there is none. */
static int find_taken(int fd, uint64_t from, uint64_t end, uint64_t *ret_start,
		      uint64_t *ret_end)
{
	struct flock range;
	uint64_t last;
	int r;

	r = call(fd, F_OFD_GETLK, F_WRLCK, from, end - from, &range);
	if (r < 0)
		return r;
	if (range.l_type == F_UNLCK)
		return 0;
	last = range.l_len ? (uint64_t)range.l_start + (uint64_t)range.l_len : end;
	*ret_start = max_u64((uint64_t)range.l_start, from);
	*ret_end = min_u64(last, end);
	return 1;
}

static int refuse(int fd, uint64_t size, uint64_t length)
{
	char wanted[16], available[16];

	return err_set(
		-ENOSPC,
		"the device has no %s in one piece: buffers of this or of other processes "
		"leave %s, see /proc/locks",
		format_bytes(length, wanted, sizeof(wanted)),
		format_bytes(dax_range_free(fd, size), available, sizeof(available)));
}

int dax_range_take(int fd, uint64_t size, uint64_t unit, uint64_t length, uint64_t *ret_offset)
{
	uint64_t at = 0, start, end;
	struct flock range;
	int r;

	while (length <= size && at <= size - length) {
		r = find_taken(fd, at, at + length, &start, &end);
		if (r > 0) {
			at = round_up(end, unit);
			continue;
		}
		if (!r)
			r = call(fd, F_OFD_SETLK, F_WRLCK, at, length, &range);
		/* Another process was faster: look again. */
		if (r == -EAGAIN || r == -EACCES)
			continue;
		if (r < 0)
			return err_set(r, "locking a range of the device: %s", err_name(r));
		*ret_offset = at;
		return 0;
	}
	return refuse(fd, size, length);
}

int dax_range_share(int fd, uint64_t offset, uint64_t length)
{
	struct flock range;
	int r;

	r = call(fd, F_OFD_SETLK, F_RDLCK, offset, length, &range);
	if (r == -EAGAIN || r == -EACCES)
		return err_set(-EBUSY,
			       "bytes %" PRIu64 " to %" PRIu64 " of the device belong to a new "
			       "buffer, perhaps of another process: see /proc/locks",
			       offset, offset + length);
	return r < 0 ? err_set(r, "locking a range of the device: %s", err_name(r)) : 0;
}

static uint64_t free_between(int fd, uint64_t from, uint64_t to)
{
	uint64_t start, end, bytes = 0;

	while (from < to && find_taken(fd, from, to, &start, &end) > 0) {
		/* The kernel shows any lock of the range, not the first one. */
		bytes += free_between(fd, from, start);
		from = end;
	}
	return bytes + (to - from);
}

uint64_t dax_range_free(int fd, uint64_t size)
{
	return free_between(fd, 0, size);
}
