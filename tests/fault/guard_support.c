// SPDX-License-Identifier: MIT
/* Shared by the tests of guarded copies and scopes. */
#include "fault/guard_support.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct file_map open_file_map(uint64_t size)
{
	struct file_map file = { 0 };

	file.fd = scratch_file(size);
	CHECK_OK_FATAL(hm_device_open("file", &file.device));
	CHECK_OK_FATAL(hm_buffer_from_file(file.device, NULL, file.fd, NULL, &file.buffer));
	CHECK_OK_FATAL(hm_map_create(file.buffer, NULL, &file.map));
	file.base = hm_map_address(file.map);
	pattern_write(file.base, 0, size, 1);
	return file;
}

void close_file_map(struct file_map *file)
{
	hm_map_unref(file->map);
	hm_buffer_unref(file->buffer);
	hm_device_unref(file->device);
	close(file->fd);
}

struct hm_fault no_fault(void)
{
	return (struct hm_fault){ .struct_size = sizeof(struct hm_fault) };
}

int read_guarded(const volatile unsigned char *byte, struct hm_fault *ret_fault)
{
	struct hm_guard guard;
	volatile int value = -1;
	int r;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (r) {
		CHECK_EQUAL(value, r == -EBUSY || r == -EOPNOTSUPP ? -1 : 1000);
		*ret_fault = guard.fault;
		return r;
	}
	value = 1000;
	value = *byte;
	CHECK_OK(hm_guard_end(&guard));
	return value;
}

void take_stack(stack_t *stack, int flags)
{
	*stack = (stack_t){ .ss_sp = calloc(1, 64 * 1024),
			    .ss_size = 64 * 1024,
			    .ss_flags = flags };
	CHECK(stack->ss_sp && !sigaltstack(stack, NULL));
}

void give_stack(const stack_t *stack)
{
	stack_t none = { .ss_flags = SS_DISABLE }, old;

	CHECK(!sigaltstack(&none, &old));
	/* Whatever way the handler was left, it is as it was. */
	CHECK(old.ss_sp == stack->ss_sp && !(old.ss_flags & SS_DISABLE));
	free(stack->ss_sp);
}
