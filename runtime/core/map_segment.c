// SPDX-License-Identifier: MIT
/* The map step, below maps: bytes of segments at an address. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "map/map.h"
#include "base/reserve.h"
#include "base/rlimits.h"
#include "base/sys.h"

int map_check_mode(int mode)
{
	if (mode & O_PATH)
		return err_set(-EBADF,
			       "the descriptor is one of O_PATH, which can't be mapped: "
			       "open the file for reading, or for both");
	if ((mode & O_ACCMODE) == O_WRONLY)
		return err_set(-EACCES, "the descriptor is write-only: mmap() needs to read");
	return 0;
}

static int flags_of_segment(const struct hm_segment *segment)
{
	int flags = segment->flags & HM_SEGMENT_PRIVATE ? MAP_PRIVATE : MAP_SHARED;

	if (segment->flags & HM_SEGMENT_SYNC)
		flags = MAP_SHARED_VALIDATE | MAP_SYNC;
	if (segment->flags & HM_SEGMENT_ANON)
		flags |= MAP_ANONYMOUS;
	if (segment->flags & HM_SEGMENT_NORESERVE)
		flags |= MAP_NORESERVE;
	return flags;
}

/* Pages read by one writev(): fewer bytes than the smallest pipe holds. */
#define PART_PAGES 256

/* Reads a byte of each page into an empty pipe, and empties the pipe again. */
static int read_pages(const int pipes[2], const char *address, uint64_t length)
{
	struct iovec parts[PART_PAGES];
	char bytes[PART_PAGES];
	uint32_t n = 0;
	ssize_t r;

	for (; length; length -= page_size(), address += page_size())
		parts[n++] = (struct iovec){ (void *)(uintptr_t)address, 1 };
	r = sys_writev(pipes[1], parts, n);
	if (r == (ssize_t)n)
		r = sys_read(pipes[0], bytes, n);
	if (r < 0)
		return (int)r;
	return r == (ssize_t)n ? 0 : -EFAULT;
}

/*
 * Like MADV_POPULATE_READ, which skips device pages [check_vma_flags()]. Loads won't do: the
 * range is no map yet, and no guard would catch the SIGBUS of a page that its driver does not
 * give. The kernel copies instead, and gets -EFAULT.
 */
static int bring_in(const char *address, uint64_t length)
{
	uint64_t at, part;
	int pipes[2], r;

	r = sys_pipe(pipes);
	if (r)
		return r;
	for (at = 0; at < length && !r; at += part) {
		part = min_u64(length - at, PART_PAGES * page_size());
		r = read_pages(pipes, address + at, part);
	}
	sys_close(pipes[0]);
	sys_close(pipes[1]);
	return r == -EFAULT ? -EIO : r;
}

int map_direct(const struct hm_segment *segment, uint64_t offset, uint64_t length,
	       char *address, int flags, int prot, void **ret_address)
{
	bool present = segment->flags & HM_SEGMENT_PRESENT;
	int first = present ? prot | PROT_READ : prot;
	void *mapped;
	int r;

	r = sys_mmap(address, length, first, flags_of_segment(segment) | flags, segment->fd,
		     segment->fd_offset + (offset - segment->offset), &mapped);
	if (r)
		return r;
	if (present) {
		r = bring_in(mapped, length);
		if (r)
			goto err_unmap;
	}
	if (first != prot) {
		r = sys_mprotect(mapped, length, prot);
		if (r)
			goto err_unmap;
	}
	*ret_address = mapped;
	return 0;

err_unmap:
	if (flags & MAP_FIXED)
		reserve_mend(mapped, length);
	else
		sys_munmap(mapped, length);
	return r;
}

bool map_is_direct(const struct hm_segment *segment, uint64_t offset, uint64_t length)
{
	if (segment->flags & HM_SEGMENT_WHOLE)
		return offset == segment->offset && length == segment->length;
	return !(segment->flags & HM_SEGMENT_FROM_START) || offset == segment->offset;
}

/*
 * Maps elsewhere, and moves the part: for an object that is found by its first byte, or mapped
 * as a whole only, or whose driver may refuse.
 */
static int map_moved(const struct hm_segment *segment, uint64_t offset, uint64_t length,
		     char *address, int prot)
{
	uint64_t head = map_is_direct(segment, offset, length) ? 0 : offset - segment->offset;
	uint64_t end = head + length;
	uint64_t all = segment->flags & HM_SEGMENT_WHOLE ? segment->length : end;
	void *mapped;
	int r;

	r = map_direct(segment, offset - head, all, NULL, 0, prot, &mapped);
	if (r)
		return r;
	r = reserve_move((char *)mapped + head, length, length, address);
	if (r) {
		sys_munmap(mapped, all);
		return r;
	}
	if (head)
		sys_munmap(mapped, head);
	if (all > end)
		sys_munmap((char *)mapped + end, all - end);
	return 0;
}

int map_explain(const struct hm_segment *segment, uint64_t length, uint32_t takes, int r)
{
	if (segment->flags & HM_SEGMENT_PRIVATE)
		takes |= TAKES_DATA;
	return rlimits_explain_map(r, length, takes, "mapping");
}

int map_one(const struct hm_segment *segment, uint64_t offset, uint64_t length, char *address,
	    int prot)
{
	uint32_t takes = 0;
	void *mapped;
	int r;

	/*
	 * The kernel unmaps the old mapping before it calls the driver: if the driver refuses,
	 * another thread may take the hole before it can be mended.
	 */
	if (segment->flags & (HM_SEGMENT_MAY_REFUSE | HM_SEGMENT_DMABUF) ||
	    !map_is_direct(segment, offset, length)) {
		r = map_moved(segment, offset, length, address, prot);
		takes = TAKES_SPACE;
	} else {
		r = map_direct(segment, offset, length, address, MAP_FIXED, prot, &mapped);
	}
	return likely(!r) ? 0 : map_explain(segment, length, takes, r);
}

int map_segments(const struct hm_segment *segments, uint32_t n, uint64_t offset,
		 uint64_t length, char *address, int prot)
{
	uint64_t from, to;
	uint32_t i;
	int r;

	for (i = 0; i < n; i++) {
		from = max_u64(offset, segments[i].offset);
		to = min_u64(offset + length, segments[i].offset + segments[i].length);
		if (from >= to)
			continue;
		r = map_one(&segments[i], from, to - from, address + (from - offset), prot);
		if (r)
			return r;
	}
	return 0;
}

int map_scratch(const struct hm_segment *segments, uint32_t n, uint64_t offset, uint64_t length,
		uint64_t alignment, int prot, struct reservation *ret_reservation,
		char **ret_address)
{
	struct reservation reservation;
	char *address;
	int r;

	r = reserve_range(length, alignment, alignment, 0, &reservation, &address);
	if (r)
		return r;
	stats_add(&stats.bytes_reserved, reservation.length);
	r = map_segments(segments, n, offset, length, address, prot);
	if (r)
		goto err_release;
	*ret_reservation = reservation;
	*ret_address = address;
	return 0;

err_release:
	reserve_release(&reservation);
	return r;
}
