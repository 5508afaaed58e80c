// SPDX-License-Identifier: MIT
/* Reads /proc/self/maps. */
#include "base/vmas.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ioctl.h>
#include <stdio.h>
#include <string.h>

#include "base/lines.h"
#include "base/sys.h"
#include "base/util.h"

static bool parse(const char *line, struct vma *ret_vma)
{
	struct vma vma = { 0 };
	uint32_t major, minor;
	char rights[5];

	if (sscanf(line,
		   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64,
		   &vma.start, &vma.end, rights, &vma.offset, &major, &minor, &vma.ino) != 7)
		return false;
	vma.dev = (uint64_t)major << 32 | minor;
	vma.access = (rights[0] == 'r' ? HM_READ : 0) | (rights[1] == 'w' ? HM_WRITE : 0);
	vma.shared = rights[3] == 's';
	*ret_vma = vma;
	return true;
}

int vmas_each(uint64_t start, uint64_t end, int (*each)(void *user, const struct vma *vma),
	      void *user)
{
	struct lines lines;
	struct vma vma;
	int r, stopped = 0;
	char *line;

	r = lines_open(&lines, "/proc/self/maps");
	if (r)
		return r;
	while (!stopped && (line = lines_next(&lines))) {
		if (!parse(line, &vma) || vma.end <= start)
			continue;
		if (vma.start >= end)
			break;
		stopped = each(user, &vma);
	}
	r = lines_close(&lines);
	return stopped ? stopped : r;
}

/* struct procmap_query of linux/fs.h, since 6.11: one mapping without a text of all of them. */
struct procmap_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size;
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};

#define PROCMAP_QUERY_CALL _IOWR('f', 17, struct procmap_query)
#define PROCMAP_READABLE 1u
#define PROCMAP_WRITABLE 2u
#define PROCMAP_SHARED 8u

int vmas_open(void)
{
	return sys_open("/proc/self/maps", O_RDONLY, 0);
}

/* -ENOTTY: the kernel does not know the call. */
static int ask(int fd, uint64_t address, struct vma *ret_vma)
{
	struct procmap_query query = { .size = sizeof(query), .query_addr = address };
	int r = sys_ioctl(fd, PROCMAP_QUERY_CALL, &query);

	if (r)
		return r;
	*ret_vma = (struct vma){
		.start = query.vma_start,
		.end = query.vma_end,
		.access = (query.vma_flags & PROCMAP_READABLE ? HM_READ : 0) |
			  (query.vma_flags & PROCMAP_WRITABLE ? HM_WRITE : 0),
		.shared = query.vma_flags & PROCMAP_SHARED,
		.offset = query.vma_offset,
		.dev = (uint64_t)query.dev_major << 32 | query.dev_minor,
		.ino = query.inode,
	};
	return 0;
}

static int take(void *user, const struct vma *vma)
{
	*(struct vma *)user = *vma;
	return 1;
}

int vma_find(int fd, uint64_t address, struct vma *ret_vma)
{
	static _Atomic bool lacks; /* the call */
	int r = -ENOTTY;

	if (address == UINT64_MAX)
		return -ENOENT;
	if (fd >= 0 && !lacks)
		r = ask(fd, address, ret_vma);
	if (!r || r == -ENOENT)
		return r;
	lacks = lacks || fd >= 0;
	r = vmas_each(address, address + 1, take, ret_vma);
	return r > 0 ? 0 : r ? r : -ENOENT;
}

/* The bytes that a range has of one object. */
struct extent {
	uint64_t dev, ino, from, to;
};

struct sharing {
	uint64_t start, end;
	uint64_t other, other_end;
	struct extent extent; /* the first range's mapping at hand */
};

static bool cut(const struct vma *vma, uint64_t start, uint64_t end, struct extent *ret_extent)
{
	uint64_t from = max_u64(vma->start, start), to = min_u64(vma->end, end);

	/* A private mapping has bytes of its own once they are written. */
	if (!vma->shared || !vma->ino || from >= to)
		return false;
	*ret_extent = (struct extent){ vma->dev, vma->ino, vma->offset + (from - vma->start),
				       vma->offset + (to - vma->start) };
	return true;
}

static int compare(void *user, const struct vma *vma)
{
	const struct sharing *sharing = user;
	struct extent extent;

	return cut(vma, sharing->other, sharing->other_end, &extent) &&
	       extent.dev == sharing->extent.dev && extent.ino == sharing->extent.ino &&
	       extent.from < sharing->extent.to && sharing->extent.from < extent.to;
}

static int look(void *user, const struct vma *vma)
{
	struct sharing *sharing = user;

	if (!cut(vma, sharing->start, sharing->end, &sharing->extent))
		return 0;
	return vmas_each(sharing->other, sharing->other_end, compare, sharing);
}

bool vmas_share_bytes(uint64_t a, uint64_t a_length, uint64_t b, uint64_t b_length)
{
	struct sharing sharing = {
		.start = a, .end = a + a_length, .other = b, .other_end = b + b_length
	};

	return vmas_each(a, a + a_length, look, &sharing) > 0;
}
