/* SPDX-License-Identifier: MIT */
/* Shared by the tests of guarded copies and scopes: files that are cut off, a guarded read. */
#ifndef HETMAP_TESTS_GUARD_SUPPORT_H
#define HETMAP_TESTS_GUARD_SUPPORT_H

#include <signal.h>

#include "lib/support.h"

/* A map of a file, which can be cut off. */
struct file_map {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *base;
	int fd;
};

/* Makes one of @size bytes, which have the pattern of salt 1. */
struct file_map open_file_map(uint64_t size);
void close_file_map(struct file_map *file);
AUTO_END(file_map, close_file_map)

struct hm_fault no_fault(void);
/* Reads the byte, in a scope: its value, or the error. */
int read_guarded(const volatile unsigned char *byte, struct hm_fault *ret_fault);

/* This thread's alternate stack, with these flags [sigaltstack(2)]; must be there at the end. */
void take_stack(stack_t *stack, int flags);
void give_stack(const stack_t *stack);

#endif
