/* SPDX-License-Identifier: MIT */
/* Address ranges: reserved first, mapped into afterwards, given back whole. */
#ifndef HETMAP_RESERVE_H
#define HETMAP_RESERVE_H

#include "core/core.h"

/*
 * Reserves @length bytes at a multiple of @page with @guard bytes on both sides: inaccessible,
 * backed by nothing, charged to no limit of memory. The address is a multiple of @alignment, too,
 * if there is room to align in. *ret_address is the first byte behind the first guard.
 */
int reserve_range(uint64_t length, uint64_t page, uint64_t alignment, uint64_t guard,
		  struct reservation *ret_reservation, char **ret_address);

/*
 * Makes [address, address + length) of a reservation inaccessible and empty again. Never uses
 * munmap(): another thread could take the hole.
 */
int reserve_mend(char *address, uint64_t length);

/*
 * Moves the mapping at @address over @new_length bytes of a reservation. On failure the kernel
 * may have unmapped the target already: the function closes such a hole, since the next mmap(),
 * the caller's own included, could take it.
 */
int reserve_move(void *address, uint64_t length, uint64_t new_length, char *to);

/*
 * Maps over bytes of a reservation that other threads may be touching, as mmap(2) with @prot,
 * @flags, @fd and @offset. Maps elsewhere first and moves, so that a failure leaves the old
 * mapping; without room for that, maps in place. Leaves PROT_WRITE out where the kernel has no
 * memory to promise. Sets no text, and is legal in a signal handler. On a negative errno the
 * state of the range is unknown.
 */
int reserve_map_over(char *address, uint64_t length, int prot, int flags, int fd,
		     uint64_t offset);

/* Gives the whole range back. */
void reserve_release(struct reservation *reservation);

#endif
