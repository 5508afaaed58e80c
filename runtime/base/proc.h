/* SPDX-License-Identifier: MIT */
/* Small files of /proc and /sys, read at once. */
#ifndef HETMAP_PROC_H
#define HETMAP_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads @path into @text, cut to its size, with a '\0' behind it; false: nothing was read. */
bool proc_read(const char *path, char *text, size_t size);

/* Reads the number at the beginning of @path; false: there is none. Neither sets a text. */
bool proc_number(const char *path, uint64_t *ret_number);

/*
 * Copies the value behind @key from the line that begins with it in the kernel's description of
 * a descriptor [proc_pid_fdinfo(5)]; false: there is no such line.
 */
bool proc_fdinfo(int fd, const char *key, char *value, size_t size);

#endif
