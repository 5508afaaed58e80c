/* SPDX-License-Identifier: MIT */
/*
 * Files of kinds that this room does not read, known by their first bytes: one table for all
 * readers of this room.
 */
#ifndef HETMAP_FORMAT_FOREIGN_H
#define HETMAP_FORMAT_FOREIGN_H

#include <stddef.h>

/* Number of first bytes that callers must pass, of a file that has as many. */
#define FOREIGN_BYTES 262

/* -EOPNOTSUPP: the text names the kind and the remedy. 0, without a text: no known kind. */
int foreign_check(const void *bytes, size_t n);

/* The same for files that stand in for another one only: pointers of Git, a server's pages. */
int foreign_check_stand_in(const void *bytes, size_t n);

#endif
