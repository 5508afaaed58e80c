/* SPDX-License-Identifier: MIT */
/*
 * Slabs: memory that keeps its type for as long as the process lives, so that a reader without a
 * lock may look at an object that was given back.
 */
#ifndef HETMAP_SLAB_H
#define HETMAP_SLAB_H

#include <stddef.h>
#include <stdint.h>

/*
 * Objects of one kind. Those given back are reused oldest first, which keeps
 * the time between two uses of one object as long as it can be.
 *
 * While an object waits for reuse, the 64-bit atomic word at @link holds a
 * pointer to the next one with bit 0 set, or just bit 0: a reader can tell it
 * from an aligned pointer. All other bytes stay as they were.
 *
 * The caller serialises all calls on one slab.
 */
struct slab {
	uint32_t size;  /* of one object */
	uint32_t link;  /* offset of the link word */
	uint32_t chunk; /* bytes got from the kernel at a time */
	char *fresh;    /* never used yet: from here */
	char *end;      /* to here */
	void *oldest;
	void *newest;
};

/*
 * Returns an object: zeroed if it was never used, otherwise as it was left. Returns NULL, with
 * nothing changed, when there is no memory.
 */
void *slab_take(struct slab *slab);

/* Gives an object back. */
void slab_put(struct slab *slab, void *object);

/* As slab_take, for objects of several sizes that are never given back. */
void *slab_carve(struct slab *slab, uint32_t size);

/* Bytes that all slabs of the process hold. */
uint64_t slab_total(void);

#endif
