/* SPDX-License-Identifier: MIT */
/* Writing cache lines back to memory: by an instruction of this processor. */
#ifndef HETMAP_ARCH_FLUSH_H
#define HETMAP_ARCH_FLUSH_H

#include <stdint.h>

/* "clwb", "clflushopt", "clflush"; NULL: this processor has no such instruction. */
const char *flush_name(void);

/*
 * Writes the lines that have bytes of [@address, @address + @length) back to memory, and returns
 * when memory has them (SFENCE). The processor must have an instruction for it.
 */
void flush_lines(const void *address, uint64_t length);

/* Stores before it reach memory, or caches that a platform saves, before later ones. */
void flush_fence(void);

#endif
