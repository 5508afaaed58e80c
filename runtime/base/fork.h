/* SPDX-License-Identifier: MIT */
/*
 * fork(2), and what is done once when a process first uses the library. Each module that
 * has to do with either has a row in the table of start/start.c.
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
	void (*child)(void);   /* in the child, in the opposite order; it allocates nothing */
};

/* Sets the table of all parts; before the library is used. */
void fork_set_parts(const struct fork_part *parts, size_t n);

/* Counts the forks between this process and the one that loaded the library. */
extern uint32_t fork_generation;

/* Registers the fork handlers once; every *_open and first insert calls it. */
void fork_init(void);

/*
 * free(), for memory of at least a pointer's bytes. A child's handlers put it off: another
 * thread of the parent may have held an allocator's lock, which nothing releases in the
 * child [fork(2)].
 */
void fork_free(void *memory);

#endif
