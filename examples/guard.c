// SPDX-License-Identifier: MIT
/* A file that somebody cuts off while it is mapped: an error, and no SIGBUS. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkstemp(), ftruncate() in -std=c11 */
#endif
#include <err.h>
#include <hetmap/hetmap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE (256 << 10)

/* Counts the file's lines where it is. 0, or why there are no bytes any more. */
static int count_lines(const char *bytes, size_t length, struct hm_guard *guard, int *ret_lines)
{
	const char *at, *end = bytes + length;
	int r;

	HM_GUARD_INIT(guard);
	r = hm_guard_begin(guard);
	if (r)
		return r; /* also after a fault below: the scope is over then */
	*ret_lines = 0;
	for (at = bytes; (at = memchr(at, '\n', (size_t)(end - at))); at++)
		++*ret_lines;
	hm_guard_end(guard);
	return 0;
}

static int make_file(char *path)
{
	int i, fd = mkstemp(path);

	if (fd < 0)
		err(1, "%s", path);
	unlink(path);
	for (i = 0; i < SIZE / 16; i++)
		if (dprintf(fd, "line %10d\n", i) != 16)
			err(1, "%s", path);
	return fd;
}

int main(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
				       .flags = HM_BUFFER_READ_ONLY,
				       .name = "lines" };
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	char path[] = "/tmp/guard.XXXXXX", last[17] = "";
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_guard guard;
	struct hm_map *map;
	const char *bytes;
	int r, fd, lines = 0;

	fd = make_file(path);
	if (hm_handler_install(0) || hm_device_open("file", &device) ||
	    hm_buffer_from_file(device, NULL, fd, &desc, &buffer) ||
	    hm_map_create(buffer, NULL, &map))
		errx(1, "%s", hm_errmsg());
	bytes = hm_map_address(map);
	if (count_lines(bytes, SIZE, &guard, &lines))
		errx(1, "%s", hm_errmsg());
	printf("%d lines\n", lines);

	if (ftruncate(fd, SIZE / 2))
		err(1, "ftruncate");
	r = count_lines(bytes, SIZE, &guard, &lines);
	printf("cut off: %s; the first byte that is not there: %d\n", strerror(-r),
	       (int)guard.fault.offset);
	r = hm_copy_out(last, bytes + SIZE - 16, 16, &fault);
	printf("the last line: %s\n", r ? hm_errmsg() : last);

	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	hm_handler_remove();
	return r ? 0 : 1;
}
