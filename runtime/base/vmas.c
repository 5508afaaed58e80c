// SPDX-License-Identifier: MIT
/* Reads /proc/self/maps. */
#include "base/vmas.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <hetmap/base.h>

#include "base/lines.h"
#include "base/util.h"

static bool parse(const char *line, struct vma *ret_vma)
{
	struct vma vma = { 0 };
	uint32_t major, minor;
	char rights[5];

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64,
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

/* The bytes that a range has of one object. */
struct extent {
	uint64_t dev, ino, from, to;
};

struct sharing {
	uint64_t start, end;
	uint64_t other, other_end;
	struct extent extent; /* of the first range's mapping at hand */
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
