/* SPDX-License-Identifier: MIT */
/*
 * Failing system calls and allocations, through the library's sys_table: the
 * n-th one whatever it is, or every call of a kind that a test chooses.
 */
#ifndef HETMAP_TESTS_INJECT_H
#define HETMAP_TESTS_INJECT_H

#include <stdbool.h>

enum inject_mode {
	INJECT_ONE,  /* the n-th call fails */
	INJECT_TWO,  /* the n-th, and the next one of the same kind */
	INJECT_REST, /* the n-th, and every later one of the same kind */
};

/*
 * Puts the hooks in. Every call then goes to the kernel as before, until armed.
 * A failing mmap(MAP_FIXED) or mremap(MREMAP_FIXED) has unmapped its target, as
 * kernels do, failing mprotect(), mlock2() and munlock() have changed the first page, a
 * failing close() has closed.
 */
void inject_install(void);

/*
 * The steps of a walk with @mode: from which call on, and to which next one. All, and where
 * HETMAP_EVERY says so some of those of which more than one call fails.
 */
unsigned int inject_steps(enum inject_mode mode, unsigned int *ret_first);

/* From now on the @n-th call fails (from 1), with an errno that fits the call. */
void inject_arm(unsigned int n, enum inject_mode mode);

/* Every call of @name ("msync") fails with @error, until disarmed. */
void inject_always(const char *name, int error);

/* The next @times calls of @name fail with @error. */
void inject_some(const char *name, int error, unsigned int times);

/* Every mmap(MAP_SHARED) of a descriptor fails with @error, until disarmed. */
void inject_shared_refused(int error);

/* Ends it. True if any call was made to fail. */
bool inject_disarm(void);

/* The first call that was made to fail since the last arming: "mmap", or "". */
const char *inject_failed(void);

/* Calls since the last arming. */
unsigned int inject_calls(void);

/*
 * Unmaps address space that the library could not give back because its munmap() was made to fail:
 * it is lost by design, and would look like a leak.
 */
void inject_forgive(void);

#endif
