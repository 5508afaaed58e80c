// SPDX-License-Identifier: MIT
/*
 * A ring that lies, in its file, by stores of the other end, or by a cut: errors, or records
 * that are inside of the ring.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"
#include "ring/ring.h"
#include "ring/ring_support.h"
#include "lib/support.h"

#define SECOND 1000000000ull

static unsigned char file_byte(int fd, off_t at)
{
	unsigned char byte = 0;

	CHECK_EQUAL(pread(fd, &byte, 1, at), 1);
	return byte;
}

/* Whatever the file says: errors, or records that are inside of the ring. */
static void read_all(const char *path)
{
	uint64_t length;
	const void *data;
	int r, i;
	AUTO(hm_ring) *ring = NULL;

	r = hm_ring_open(path, -1, HM_RING_READER, &ring);
	CHECK(!r || r == -EBADMSG);
	if (r)
		return;
	for (i = 0; !r && i < 100; i++) {
		r = hm_ring_peek(ring, 0, &data, &length);
		CHECK(!r || r == -EBADMSG || r == -ETIME);
		if (r)
			break;
		CHECK((const char *)data >= ring->data && length <= ring->capacity);
		CHECK((const char *)data + length <= ring->data + ring->capacity);
		CHECK_OK(hm_ring_release(ring));
	}
	CHECK(r);
}

static void write_some(const char *path)
{
	int r, i;
	AUTO(hm_ring) *ring = NULL;

	r = hm_ring_open(path, -1, HM_RING_WRITER, &ring);
	CHECK(!r || r == -EBADMSG);
	if (r)
		return;
	for (i = 0; i < 3; i++) {
		r = hm_ring_write(ring, path, strlen(path), 0);
		CHECK(!r || r == -EBADMSG || r == -ETIME);
	}
}

/* Each byte of header, positions and records by itself. */
static void each_byte(void)
{
	static const struct {
		off_t from, to;
	} parts[] = {
		{ 0, sizeof(struct ring_header) },
		{ RING_CONTROL, RING_CONTROL + sizeof(struct ring_control) },
		{ RING_DATA, RING_DATA + 400 },
		{ RING_DATA + 3900, RING_DATA + 4096 },
		{ RING_DATA + 4096 + RING_LAST - 16, RING_DATA + 4096 + RING_LAST },
	};
	static const unsigned char masks[] = { 0xff, 1, 0x80 };
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, 4096);
	AUTO_FREE char *bytes = malloc(16384);
	struct hm_ring *ring = ring_end(path, HM_RING_WRITER);
	struct hm_ring *reader = ring_end(path, HM_RING_READER);
	unsigned char text[600], byte;
	uint64_t length;
	size_t i, k;
	off_t at;
	int fd;

	CHECK_FATAL(bytes != NULL);
	/* The last one but one does not fit before the end: there is a skip. */
	for (i = 0; i < 12; i++) {
		ring_fill(text, 333 + i, (uint32_t)i);
		CHECK_OK(hm_ring_write(ring, text, 333 + i, 0));
		if (i < 5)
			CHECK_OK(hm_ring_read(reader, text, sizeof(text), 0, &length));
	}
	hm_ring_unref(ring);
	hm_ring_unref(reader);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK_FATAL(fd >= 0 && pread(fd, bytes, 16384, 0) == 16384);
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		for (at = parts[i].from; at < parts[i].to; at++)
			for (k = 0; k < sizeof(masks); k++) {
				byte = file_byte(fd, at) ^ masks[k];
				CHECK_EQUAL(pwrite(fd, &byte, 1, at), 1);
				read_all(path);
				write_some(path);
				CHECK_EQUAL(pwrite(fd, bytes, 16384, 0), 16384);
			}
	close(fd);
}

/* The other end changes its mind while both are open. */
static void live_lies(void)
{
	static const uint64_t lies[] = { 8, 4, 1ull << 40, UINT64_MAX, UINT64_MAX - 7, 100000 };
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, 4096);
	AUTO(hm_ring) *reader = ring_end(path, HM_RING_READER);
	AUTO(hm_ring) *writer = ring_end(path, HM_RING_WRITER);
	struct ring_control *control = reader->control;
	struct hm_ring_info info = { .struct_size = sizeof(info) };
	uint64_t length, position;
	char bytes[200] = { 0 };
	size_t i;

	for (i = 0; i < 30; i++) {
		CHECK_OK(hm_ring_write(writer, bytes, 100, 0));
		CHECK_OK(hm_ring_read(reader, bytes, 100, 0, &length));
	}
	/* A position never goes back. */
	CHECK_OK(hm_ring_query(writer, &info));
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		position = atomic_exchange(&control->tail, lies[i]);
		CHECK_ERROR(-EBADMSG, hm_ring_read(reader, bytes, 100, SECOND, &length));
		CHECK_ERROR(-EBADMSG, hm_ring_query(reader, &info));
		atomic_store(&control->tail, position);
		position = atomic_exchange(&control->head, lies[i]);
		CHECK_ERROR(-EBADMSG, hm_ring_query(writer, &info));
		atomic_store(&control->head, position);
	}
	/* The truth again: nothing was taken from the lies. */
	CHECK_OK(hm_ring_write(writer, "true", 5, 0));
	CHECK_OK(hm_ring_read(reader, bytes, 100, 0, &length));
	CHECK(length == 5 && !strcmp(bytes, "true"));
}

static int read_guarded(struct hm_ring *ring, struct hm_guard *guard)
{
	uint64_t length;
	char byte;
	int r;

	HM_GUARD_INIT(guard);
	r = hm_guard_begin(guard);
	if (r)
		return r;
	r = hm_ring_read(ring, &byte, 1, 0, &length);
	CHECK_OK(hm_guard_end(guard));
	return r;
}

/* Its file is cut off: an error in a guarded scope, and this end is left as it is. */
static void cut_off(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, 4096);
	AUTO(hm_ring) *ring = ring_end(path, HM_RING_READER);
	struct hm_guard guard;
	AUTO(rig_handler) handler = rig_handler(0);

	CHECK_EQUAL(read_guarded(ring, &guard), (uint64_t)-ETIME);
	CHECK(!truncate(path, 0));
	CHECK_EQUAL(read_guarded(ring, &guard), (uint64_t)-ERANGE);
	CHECK_EQUAL(guard.fault.cause, HM_FAULT_END);
	CHECK_EQUAL(read_guarded(ring, &guard), (uint64_t)-EBUSY);
}

static const struct test tests[] = {
	{ "each_byte", each_byte, 0, 0 },
	{ "live_lies", live_lies, 0, 0 },
	{ "cut_off", cut_off, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "ring_lies", tests)
