// SPDX-License-Identifier: MIT
#include "loss/losing_move.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#include <hetmap/hetmap.h>

#include "base/sys.h"

#define NOTHING (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED)

static struct sys_table real;
static bool moved_away;

/*
 * The target's pages go. Not its addresses, which another thread could take before the
 * library has them back: a sanitizer's own, in the middle of this.
 */
static void *losing_mremap(void *address, size_t old_length, size_t new_length, int flags,
			   void *new_address)
{
	struct hm_pointer_info found;

	/* The library's own moves, on the way to that, are none of a map's. */
	if (hm_pointer_find(new_address, &found))
		return real.mremap(address, old_length, new_length, flags, new_address);
	real.mmap(new_address, new_length, PROT_NONE, NOTHING, -1, 0);
	moved_away = true;
	errno = ENOMEM;
	return MAP_FAILED;
}

static void *losing_mmap(void *address, size_t length, int prot, int flags, int fd,
			 off_t offset)
{
	if (!moved_away || fd < 0)
		return real.mmap(address, length, prot, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

void losing_move_begin(void)
{
	real = sys_table;
	moved_away = false;
	sys_table.mremap = losing_mremap;
	sys_table.mmap = losing_mmap;
}

void losing_move_end(void)
{
	sys_table = real;
}
