// SPDX-License-Identifier: MIT
/*
 * A ring whose file is cut off, anywhere, and grown again or not: each call on each end is -EIO
 * from then on, and none says that a lost record was written or read.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/support.h"
#include "ring/ring.h"
#include "ring/ring_support.h"

#define SECOND 1000000000ull
#define CAPACITY 8192
#define RECORD 1000

/* To how many bytes: all, a page, in the midst of one of each kind, and the last byte alone. */
static const off_t cuts[] = {
	0,
	RING_CONTROL,
	RING_CONTROL + 4,
	RING_DATA,
	RING_DATA + 100,          /* in the midst of the first record */
	RING_DATA + RECORD + 100, /* the second one */
	RING_DATA + CAPACITY,     /* behind all records */
	RING_DATA + CAPACITY + RING_LAST - 1,
};

struct ends {
	struct hm_ring *writer, *reader;
	char bytes[RECORD];
	void *reserved;
	const void *peeked;
	uint64_t length;
};

/* Calls before the cut, so that there is a record to commit, or to release. */
static void reserve_first(struct ends *ends)
{
	CHECK_OK_FATAL(hm_ring_reserve(ends->writer, RECORD, 0, &ends->reserved));
}

static void peek_first(struct ends *ends)
{
	CHECK_OK_FATAL(hm_ring_peek(ends->reader, 0, &ends->peeked, &ends->length));
}

static int write_record(struct ends *ends)
{
	return hm_ring_write(ends->writer, ends->bytes, RECORD, 0);
}

static int reserve_record(struct ends *ends)
{
	return hm_ring_reserve(ends->writer, RECORD, 0, &ends->reserved);
}

static int commit_record(struct ends *ends)
{
	return hm_ring_commit(ends->writer, RECORD);
}

/* More than there is room for: it is waited for. */
static int fill_it(struct ends *ends)
{
	int r, i;

	for (i = 0, r = 0; !r && i < 10; i++)
		r = hm_ring_write(ends->writer, ends->bytes, RECORD, SECOND / 10);
	return i > 1 ? 0 : r;
}

static int query_writer(struct ends *ends)
{
	struct hm_ring_info info = { .struct_size = sizeof(info) };

	return hm_ring_query(ends->writer, &info);
}

static int sync_writer(struct ends *ends)
{
	return hm_ring_sync(ends->writer);
}

static int read_record(struct ends *ends)
{
	return hm_ring_read(ends->reader, ends->bytes, RECORD, SECOND / 10, &ends->length);
}

static int peek_record(struct ends *ends)
{
	return hm_ring_peek(ends->reader, 0, &ends->peeked, &ends->length);
}

static int release_record(struct ends *ends)
{
	return hm_ring_release(ends->reader);
}

static int query_reader(struct ends *ends)
{
	struct hm_ring_info info = { .struct_size = sizeof(info) };

	return hm_ring_query(ends->reader, &info);
}

static int sync_reader(struct ends *ends)
{
	return hm_ring_sync(ends->reader);
}

static const struct call {
	const char *name;
	void (*before)(struct ends *ends);
	int (*make)(struct ends *ends);
} calls[] = {
	{ "write", NULL, write_record },
	{ "reserve", NULL, reserve_record },
	{ "commit", reserve_first, commit_record },
	{ "fill", NULL, fill_it },
	{ "query, writer", NULL, query_writer },
	{ "sync, writer", NULL, sync_writer },
	{ "read", NULL, read_record },
	{ "read, peeked at", peek_first, read_record },
	{ "peek", NULL, peek_record },
	{ "peek, again", peek_first, peek_record },
	{ "release", peek_first, release_record },
	{ "query, reader", NULL, query_reader },
	{ "sync, reader", NULL, sync_reader },
};

static void cut_file(const char *path, off_t to, bool grow)
{
	CHECK(!truncate(path, to));
	if (grow)
		CHECK(!truncate(path, RING_DATA + CAPACITY + RING_LAST));
}

static void one(const struct call *call, off_t cut, bool grow)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, CAPACITY);
	struct ends ends = { .writer = ring_end(path, HM_RING_WRITER) };
	int r;

	ends.reader = ring_end(path, HM_RING_READER);
	ring_fill(ends.bytes, RECORD, 1);
	CHECK_OK_FATAL(write_record(&ends));
	CHECK_OK_FATAL(write_record(&ends));
	if (call->before)
		call->before(&ends);
	cut_file(path, cut, grow);
	r = call->make(&ends);
	if (r != -EIO)
		test_fail(__FILE__, __LINE__, "%s, cut to %lld%s: %d", call->name,
			  (long long)cut, grow ? ", grown again" : "", r);
	/* For good; and the next open finds no ring. */
	CHECK_ERROR(-EIO, call->make(&ends));
	CHECK_ERROR(-EIO, write_record(&ends));
	CHECK_ERROR(-EIO, read_record(&ends));
	CHECK(strstr(hm_errmsg(), "make another ring") ||
	      strstr(hm_errmsg(), "bytes were lost"));
	hm_ring_unref(ends.writer);
	CHECK_ERROR(-EBADMSG, hm_ring_open(path, -1, HM_RING_WRITER, &ends.writer));
	hm_ring_unref(ends.reader);
}

static void each(bool grow)
{
	size_t i, k;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		for (k = 0; k < sizeof(cuts) / sizeof(cuts[0]); k++)
			one(&calls[i], cuts[k], grow);
}

/* A touch of missing bytes is a SIGBUS, which the handler takes. */
static void handled(void)
{
	AUTO(rig_handler) handler = rig_handler(0);

	each(false);
}

static void handled_grown(void)
{
	AUTO(rig_handler) handler = rig_handler(0);

	each(true);
}

/* Without a fault no handler is needed. */
static void grown(void)
{
	each(true);
}

struct sleeper {
	struct hm_ring *ring;
	int r;
};

static void *sleep_for_ever(void *user)
{
	struct sleeper *sleeper = user;
	uint64_t length;
	char byte;

	sleeper->r = sleeper->ring->end == HM_RING_READER ?
			     hm_ring_read(sleeper->ring, &byte, 1, UINT64_MAX, &length) :
			     hm_ring_write(sleeper->ring, "", 1, UINT64_MAX);
	return NULL;
}

/* A call that waits for the other end fails, too. */
static void asleep(void)
{
	char bytes[RECORD] = { 0 };
	uint32_t end, grow;
	AUTO(rig_handler) handler = rig_handler(0);

	for (end = HM_RING_READER; end <= HM_RING_WRITER; end++)
		for (grow = 0; grow < 2; grow++) {
			AUTO_FOLDER char *folder = folder_make();
			AUTO_FREE char *path = ring_make(folder, CAPACITY);
			struct sleeper sleeper = { .ring = ring_end(path, end), .r = 1 };
			pthread_t thread;

			while (end == HM_RING_WRITER &&
			       !hm_ring_write(sleeper.ring, bytes, RECORD / 2, 0))
				;
			while (end == HM_RING_WRITER &&
			       !hm_ring_write(sleeper.ring, bytes, 1, 0))
				;
			CHECK_FATAL(!pthread_create(&thread, NULL, sleep_for_ever, &sleeper));
			usleep(50000);
			cut_file(path, RING_DATA + 64, grow);
			pthread_join(thread, NULL);
			CHECK_EQUAL(sleeper.r, (uint64_t)-EIO);
			hm_ring_unref(sleeper.ring);
		}
}

static const struct test tests[] = {
	{ "handled", handled, 0, 0 }, { "handled_grown", handled_grown, 0, 0 },
	{ "grown", grown, 0, 0 },     { "asleep", asleep, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "ring_cut", tests)
