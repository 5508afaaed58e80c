/* SPDX-License-Identifier: MIT */
/* Facts of this machine: files of /proc and /sys, rights, free memory. */
#ifndef HETMAP_MACHINE_H
#define HETMAP_MACHINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Before /sys, /proc and /dev: "", or HETMAP_ROOT, by which tests show another machine. Callers
 * that tests never send there pass "".
 */
const char *machine_root(void);
/* @path below the root; free() it. */
char *machine_path(const char *root, const char *path);
/* The first line of a file, without its newline. 0 or -errno. */
int machine_read(const char *root, const char *path, char *text, size_t size);
/* A whole file. 0 and free(*ret_text), or -errno. */
int machine_read_all(const char *root, const char *path, char **ret_text);
/* The number in it; "max" is UINT64_MAX. */
int machine_read_number(const char *root, const char *path, uint64_t *ret_number);
/* The word in [brackets]: how sysfs shows a choice. */
int machine_read_choice(const char *root, const char *path, char *text, size_t size);

/* Has this process the capability with this number? */
bool machine_capable(unsigned int capability);
/* 0; or the exit status of a failure, told already: @bytes more are not to be had. */
int machine_check_memory(uint64_t bytes, const char *remedy);

/* Kernel, processors, memory, settings and load: times are compared by them. A new object. */
json_t *machine_json(void);

#endif
