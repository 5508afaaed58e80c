/* SPDX-License-Identifier: MIT */
/* Names of a file, which may have any bytes, in sentences. */
#ifndef HETMAP_FORMAT_SHOWN_H
#define HETMAP_FORMAT_SHOWN_H

/*
 * Copies as much of a name as a sentence has room for, made safe for a terminal. Returns @text.
 */
#define SHOWN_MAX 100
const char *name_shown(const char *name, char text[SHOWN_MAX]);

#endif
