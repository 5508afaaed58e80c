/* SPDX-License-Identifier: MIT */
/*
 * Files of other kinds than those that are read here, told by their first bytes: one table for all
 * readers of this room.
 */
#ifndef HETMAP_FORMAT_FOREIGN_H
#define HETMAP_FORMAT_FOREIGN_H

#include <stddef.h>

/* The first bytes of a file that are to be shown, where it has so many. */
#define FOREIGN_BYTES 262

/* -EOPNOTSUPP: the text says what begins so, and what to do. 0, without a text: not known. */
int foreign_check(const void *bytes, size_t n);

#endif
