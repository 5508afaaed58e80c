/* SPDX-License-Identifier: MIT */
/* Small files of /proc and /sys, read at once. */
#ifndef HETMAP_PROC_H
#define HETMAP_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is in @path, as far as there is room, with a '\0' behind it; false: nothing. */
bool proc_read(const char *path, char *text, size_t size);

/* The number that @path begins with; false: there is none. Neither leaves a text. */
bool proc_number(const char *path, uint64_t *ret_number);

/*
 * What stands behind @key in the line that begins with it, of what the kernel tells of a
 * descriptor [proc_pid_fdinfo(5)]; false: no such line.
 */
bool proc_fdinfo(int fd, const char *key, char *value, size_t size);

#endif
