/* SPDX-License-Identifier: MIT */
/* Fault: why bytes of a map could not be touched, found out after the handler. */
#ifndef HETMAP_FAULT_H
#define HETMAP_FAULT_H

#include <hetmap/guard.h>

/*
 * Fills @fault->cause, of the map that begins at @base, and sets the text, which begins
 * with @what. Returns the cause's error. No lock is held.
 */
int fault_explain(struct hm_fault *fault, const void *base, const char *what);

/*
 * Bytes at @address were given to a system call, which may have answered -EFAULT: 0 where they
 * are in no map, or were its buffer's; -ENODEV, -EIO, with a text, where they were lost.
 */
int fault_check(const void *address, uint64_t length);
/* The same, and callbacks are called. No lock is held. */
int fault_notice(const void *address, uint64_t length);

#endif
