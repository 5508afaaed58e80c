/* SPDX-License-Identifier: MIT */
/*
 * fork(2) handlers, and the setup at a process' first use of the library. start/start.c has a
 * row for each module that takes part in either.
 */
#ifndef HETMAP_FORK_H
#define HETMAP_FORK_H

#include <stddef.h>
#include <stdint.h>

/* One module's part; any of these may be NULL. */
struct fork_part {
	void (*first)(void);   /* before the first device, map or accelerator */
	void (*prepare)(void); /* in the parent, in the order of the table */
	void (*parent)(void);  /* afterwards, in the opposite order */
	void (*child)(void);   /* in the child, in the opposite order; must not allocate */
};

/* Sets the table of all parts. Must be called before the library is used. */
void fork_set_parts(const struct fork_part *parts, size_t n);

/* Counts the forks between this process and the one that loaded the library. */
extern uint32_t fork_generation;

/* Registers the fork handlers once; every *_open and first insert calls it. */
void fork_init(void);

/*
 * free() for memory of at least a pointer's size. A child's handlers put it off: another thread
 * of the parent may have held an allocator's lock, and nothing releases that in the child
 * [fork(2)].
 */
void fork_free(void *memory);

#endif
