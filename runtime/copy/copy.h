/* SPDX-License-Identifier: MIT */
/*
 * Ways to copy: each instruction set is a table in a file of its own, and the CPU's are chosen
 * once. No function here takes a lock or knows a map: a fault may leave it by a jump.
 */
#ifndef HETMAP_COPY_INTERNAL_H
#define HETMAP_COPY_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hetmap/copy.h>

#include "base/util.h"

#define COPY_LINE 64u

/* Copies @length bytes; the ends do not overlap. */
typedef void copy_function(void *to, const void *from, size_t length);

struct copy_set {
	const char *name;
	/* Is it this CPU's? */
	bool (*is_here)(void);
	/*
	 * Stores past the caches, whole aligned lines at a time; each byte once, the lowest
	 * address first. Visible before later stores. NULL: the set has none.
	 */
	copy_function *stores;
	/* Aligned loads, streaming where the memory is write-combining. NULL: likewise. */
	copy_function *loads;
	/* Stores one line at a multiple of COPY_LINE: no fence. */
	void (*line)(void *to, const void *from);
	uint32_t line_stores; /* stores that line() makes */
	bool passes_caches;   /* stores() leaves lines of write-back memory out of the caches */
};

/* A set for each name, the preferred one first, up to NULL. */
extern const struct copy_set *const copy_sets[];

extern const struct copy_set copy_portable;
#if defined(__x86_64__)
extern const struct copy_set copy_avx2;
extern const struct copy_set copy_avx512;
extern const struct copy_set copy_movdir64b;
#endif

/* What was found out about the CPU. */
struct copy_cpu {
	const struct copy_set *lines;   /* stores to devices */
	const struct copy_set *streams; /* stores to write-back memory */
	const struct copy_set *loads;
	uint64_t second_cache, last_cache; /* bytes */
	uint64_t stream_least;             /* UINT64_MAX: never */
	uint64_t far_least;
};

const struct copy_cpu *copy_cpu(void);
/* For tests: the sets named so, or the CPU's own again (NULL). False: the CPU lacks one. */
bool copy_force(const char *lines, const char *streams, const char *loads);

/* Orders the stores of line() before later ones. */
void copy_fence(void);

/* By aligned loads and by stores past the caches, by way of a buffer. */
copy_function copy_both;

copy_function *copy_way_of_kinds(uint8_t to, uint8_t from, uint64_t length);

/* The way between memory of two cache modes (enum hm_cache); NULL: memcpy(). */
static inline copy_function *copy_way(uint8_t to, uint8_t from, uint64_t length)
{
	return likely(!(to | from)) ? NULL : copy_way_of_kinds(to, from, length);
}

#endif
