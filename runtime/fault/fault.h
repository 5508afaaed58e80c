/* SPDX-License-Identifier: MIT */
/* Finds out, after the handler, why bytes of a map could not be touched. */
#ifndef HETMAP_FAULT_H
#define HETMAP_FAULT_H

#include <hetmap/guard.h>

/*
 * Sets @fault->cause, for the map that begins at @base, and the text, which begins with @what.
 * Returns the errno of the cause. The caller holds no lock.
 */
int fault_explain(struct hm_fault *fault, const void *base, const char *what);

/*
 * Checks bytes at @address that were given to a system call, which may have answered -EFAULT.
 * 0: they are in no map, or were its buffer's.
 * -ENODEV, -EIO, with a text: they were lost.
 */
int fault_check(const void *address, uint64_t length);
/* The same, followed by callbacks. The caller holds no lock. */
int fault_notice(const void *address, uint64_t length);

#endif
