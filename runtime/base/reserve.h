/* SPDX-License-Identifier: MIT */
/* Address ranges: reserved first, mapped into afterwards, given back whole. */
#ifndef HETMAP_RESERVE_H
#define HETMAP_RESERVE_H

#include "core/core.h"

/*
 * Reserves @length bytes at a multiple of @alignment with @guard bytes on both
 * sides: inaccessible, backed by nothing, charged to nobody.
 * ret_address is the first byte behind the first guard.
 */
int reserve_range(uint64_t length, uint64_t alignment, uint64_t guard,
		  struct reservation *ret_reservation, char **ret_address);

/*
 * Makes [address, address + length) of a reservation inaccessible and empty
 * again. Never by munmap(): another thread could take the hole.
 */
int reserve_mend(char *address, uint64_t length);

/*
 * Moves the mapping at @address over @new_length bytes of a reservation. Where that fails
 * the kernel may have unmapped them already: such a hole is closed, or what the caller maps
 * next, anywhere, could lie where it is to be moved to.
 */
int reserve_move(void *address, uint64_t length, uint64_t new_length, char *to);

/*
 * Maps over bytes of a reservation that others may be touching, as mmap(2) of @prot, @flags,
 * @fd and @offset: elsewhere first, where a failure leaves what is there, then moved. Where
 * there is no room for that, in place. Without PROT_WRITE where the kernel has no memory to
 * promise. Without a text, and legal in a signal handler. A negative errno, after which
 * nothing is known of the range.
 */
int reserve_map_over(char *address, uint64_t length, int prot, int flags, int fd,
		     uint64_t offset);

/* Gives the whole range back. */
void reserve_release(struct reservation *reservation);

#endif
