// SPDX-License-Identifier: MIT
/* Address ranges: reserved first, mapped into afterwards, given back whole. */
#include "base/reserve.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/rlimits.h"
#include "base/sys.h"

#define RESERVE_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* Reserves @length bytes near @hint or anywhere. *@ret_base is the first byte. */
static int reserve_at(uintptr_t hint, uint64_t length, char **ret_base)
{
	void *mapped;
	int r;

	r = sys_mmap((void *)hint, length, PROT_NONE, RESERVE_FLAGS, -1, 0, &mapped);
	if (!r)
		*ret_base = mapped;
	return r;
}

/*
 * Reserves room to align in, and gives the rest back. *@ret_base is the first of @length bytes, at
 * a multiple of @alignment less @guard.
 */
static int reserve_aligned(uint64_t length, uint64_t alignment, uint64_t guard, char **ret_base)
{
	uint64_t slack = alignment > page_size() ? alignment - page_size() : 0;
	uint64_t wanted = length + slack;
	uint64_t head, tail;
	char *base, *first;
	int r;

	r = reserve_at(0, wanted, &base);
	if (r)
		return r;
	first = (char *)round_up((uintptr_t)base + guard, alignment) - guard;

	/* Trimming an end off an own mapping can fail only by the number of mappings. */
	head = (uint64_t)(first - base);
	tail = wanted - head - length;
	if (tail) {
		r = sys_munmap(first + length, tail);
		if (r)
			goto err_unmap;
		wanted -= tail;
	}
	if (head) {
		r = sys_munmap(base, head);
		if (r)
			goto err_unmap;
	}
	*ret_base = first;
	return 0;

err_unmap:
	sys_munmap(base, wanted);
	return r;
}

/*
 * Reserves @length bytes without room to align in. The kernel's choice is aligned if it is the hole
 * of an aligned map. If it is not, tries the multiple of @alignment below it, which is usually
 * free. The address may be a multiple of @page only.
 */
static int reserve_exact(uint64_t length, uint64_t page, uint64_t alignment, uint64_t guard,
			 char **ret_base)
{
	uintptr_t first, below;
	char *base;
	int r;

	r = reserve_at(0, length, &base);
	if (r)
		return r;
	first = (uintptr_t)base + guard;
	below = round_down(first, alignment);
	/* As long as the range is held, it counts against RLIMIT_AS. */
	if (first != below && !sys_munmap(base, length)) {
		r = reserve_at(below - guard, length, &base);
		if (r)
			return r;
	}
	if (is_aligned((uintptr_t)base + guard, page)) {
		*ret_base = base;
		return 0;
	}
	sys_munmap(base, length);
	return -ENOMEM;
}

int reserve_range(uint64_t length, uint64_t page, uint64_t alignment, uint64_t guard,
		  struct reservation *ret_reservation, char **ret_address)
{
	uint64_t all = length + 2 * guard;
	char *base = NULL; /* GCC 12 with -fsanitize=thread takes it for unset */
	int r;

	r = reserve_aligned(all, alignment, guard, &base);
	if (unlikely(r == -ENOMEM && alignment > page_size()))
		r = reserve_exact(all, page, alignment, guard, &base);
	if (r)
		return rlimits_explain_map(r, all, TAKES_SPACE, "reserving address space");
	ret_reservation->base = base;
	ret_reservation->length = all;
	*ret_address = base + guard;
	return 0;
}

int reserve_mend(char *address, uint64_t length)
{
	void *mapped;
	int r;

	r = sys_mmap(address, length, PROT_NONE, RESERVE_FLAGS | MAP_FIXED, -1, 0, &mapped);
	return r ? rlimits_explain_map(r, length, 0, "closing a hole in reserved space") : 0;
}

int reserve_move(void *address, uint64_t length, uint64_t new_length, char *to)
{
	int r = sys_mremap_to(address, length, new_length, to);
	void *mapped;

	/* Most refusals come before anything is unmapped: then the old mapping stays (EEXIST). */
	if (r &&
	    !sys_mmap(to, new_length, PROT_NONE, RESERVE_FLAGS | MAP_FIXED_NOREPLACE, -1, 0,
		      &mapped) &&
	    mapped != to)
		sys_munmap(mapped, new_length); /* before 4.17 the address is a hint */
	return r;
}

/*
 * Under vm.overcommit_memory=2 a writable mapping is charged against the commit limit, whatever
 * MAP_NORESERVE says, and a readable one is not [overcommit-accounting in the kernel's
 * documents]: without PROT_WRITE a reader still gets its pages instead of a fault.
 */
static int map_readable(char *address, uint64_t length, int *prot, int flags, int fd,
			uint64_t offset, void **ret_address)
{
	int r = sys_mmap_over(address, length, *prot, flags, fd, offset, ret_address);

	if (unlikely(r == -ENOMEM && *prot & PROT_WRITE)) {
		*prot &= ~PROT_WRITE;
		r = sys_mmap_over(address, length, *prot, flags, fd, offset, ret_address);
	}
	return r;
}

/*
 * Before Linux 6.12 MAP_FIXED unmaps its target before the kernel finds that it has no memory to
 * promise: another thread's mmap() could take the hole. mremap() asks for everything that may be
 * refused first, except for a few hundred bytes of its own.
 */
int reserve_map_over(char *address, uint64_t length, int prot, int flags, int fd,
		     uint64_t offset)
{
	int with = prot;
	void *mapped;

	if (!map_readable(NULL, length, &with, flags, fd, offset, &mapped)) {
		if (!reserve_move(mapped, length, length, address)) {
			/*
			 * The move freed the replaced mapping, whose charge may have been in the
			 * way: try again.
			 */
			if (unlikely(with != prot))
				sys_mprotect(address, length, prot);
			return 0;
		}
		sys_munmap(mapped, length);
	}
	/* In place takes less address space and fewer mappings. */
	return map_readable(address, length, &prot, flags | MAP_FIXED, fd, offset, &mapped);
}

/* Frees the pages, and stops the range counting against the limit on locked memory. */
static void discard(const struct reservation *reservation)
{
	sys_munlock(reservation->base, reservation->length);
	sys_madvise(reservation->base, reservation->length, MADV_DONTNEED);
}

void reserve_release(struct reservation *reservation)
{
	/*
	 * Can fail (-ENOMEM) where the kernel merged a neighbour into our mapping and the number
	 * of mappings is at its limit. The range stays ours then, unused; its pages go, and
	 * bytes_reserved keeps counting it.
	 */
	if (!sys_munmap(reservation->base, reservation->length))
		stats_sub(&stats.bytes_reserved, reservation->length);
	else
		discard(reservation);
	reservation->base = NULL;
	reservation->length = 0;
}
