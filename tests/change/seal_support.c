// SPDX-License-Identifier: MIT
#include "change/seal_support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct seal_world seal_begin(void)
{
	struct seal_world w = { 0 };
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
				       .size = SIZE,
				       .max_size = 16 * PAGE };

	CHECK_OK_FATAL(hm_device_open("host", &w.device));
	CHECK_OK_FATAL(hm_buffer_create(w.device, &desc, &w.buffer));
	CHECK_OK_FATAL(hm_map_create(w.buffer, NULL, &w.map));
	w.part = rig_map(w.buffer, DESC(hm_map_desc, .access = RW, .offset = 2 * PAGE,
					.length = 3 * PAGE));
	CHECK_OK_FATAL(hm_buffer_export(w.buffer, 0, &w.fd));
	pattern_write(hm_map_address(w.map), 0, SIZE, 3);
	return w;
}

void seal_end(struct seal_world *w)
{
	close(w->fd);
	hm_map_unref(w->part);
	hm_map_unref(w->map);
	hm_buffer_unref(w->buffer);
	hm_device_unref(w->device);
}

void seal_check_sealed(const struct seal_world *w)
{
	char *bytes = hm_map_address(w->map), *part = hm_map_address(w->part);
	struct hm_buffer_info info = buffer_info(w->buffer);
	uint64_t at;

	CHECK(pattern_holds(bytes, 0, SIZE, 3));
	CHECK(!memcmp(part, bytes + 2 * PAGE, 3 * PAGE));
	for (at = 0; at < SIZE; at += PAGE)
		CHECK_EQUAL(test_write_signal(bytes + at), SIGSEGV);
	CHECK_EQUAL(test_write_signal(part), SIGSEGV);
	CHECK_EQUAL(test_read_signal(bytes + 9 * PAGE), SIGSEGV);
	/* The kernel refuses it, too. */
	CHECK(mprotect(bytes, PAGE, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
	CHECK(mprotect(part, PAGE, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
	CHECK(pwrite(w->fd, "x", 1, 0) == -1 && errno == EPERM);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0) == MAP_FAILED &&
	      errno == EPERM);
	CHECK(fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == -1 &&
	      errno == EPERM);
	CHECK(ftruncate(w->fd, 0) == -1 && errno == EPERM);
	CHECK_EQUAL(info.sealed & HM_SEALED_MEMORY, HM_SEALED_MEMORY);
	CHECK_EQUAL(info.access, HM_READ);
	CHECK(info.flags & HM_BUFFER_READ_ONLY);
	CHECK_EQUAL(info.caps & (HM_CAP_WRITE | HM_CAP_RESIZE), 0);
	CHECK_EQUAL(info.size, SIZE);
}

void seal_check_whole(const struct seal_world *w)
{
	char *bytes = hm_map_address(w->map);
	uint64_t at;

	CHECK(pattern_holds(bytes, 0, SIZE, 3));
	for (at = 0; at < SIZE; at += PAGE)
		CHECK_EQUAL(test_write_signal(bytes + at), 0);
	CHECK_EQUAL(test_write_signal(hm_map_address(w->part)), 0);
	CHECK_EQUAL(test_read_signal(bytes + 9 * PAGE), SIGSEGV);
	CHECK_EQUAL(buffer_info(w->buffer).sealed, 0);
	CHECK_EQUAL(buffer_info(w->buffer).access, RW);
}
