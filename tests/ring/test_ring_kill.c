// SPDX-License-Identifier: MIT
/*
 * A ring between processes: either is killed at some moment, and the records that were
 * committed are read, in order, each as it was written; an end after fork(); and the ring when
 * both have ended.
 *
 * HETMAP_ROUNDS: so many kills of each end, 1000 for the long form.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/command.h"
#include "ring/ring_support.h"
#include "lib/support.h"
#include "base/util.h"

#define CAPACITY (64 * 1024)
#define LATEST_US 3000u
#define ROUNDS_SHORT 40u

struct record {
	uint32_t round, number; /* counted from 0 */
};

/* Memory that the processes share, mapped before fork(). */
static struct {
	_Atomic uint32_t
		done; /* records that the process to be killed is known to have been through */
} * common;

static unsigned int rounds(void)
{
	const char *text = getenv("HETMAP_ROUNDS");

	return text ? (unsigned int)atoi(text) : ROUNDS_SHORT;
}

static void share_memory(void)
{
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	CHECK_FATAL(common != MAP_FAILED);
}

/* Lengths and bytes of a record are told by its number. */
static uint64_t length_of(const struct record *record)
{
	return sizeof(*record) + record->number * 37 % 1500;
}

static void fill(void *bytes, const struct record *record)
{
	memcpy(bytes, record, sizeof(*record));
	ring_fill((char *)bytes + sizeof(*record), length_of(record) - sizeof(*record),
		  record->number);
}

static struct record check_record(const void *bytes, uint64_t length)
{
	struct record record = { .round = UINT32_MAX };

	CHECK_FATAL(length >= sizeof(record));
	memcpy(&record, bytes, sizeof(record));
	CHECK_EQUAL(length, length_of(&record));
	CHECK(ring_holds((const char *)bytes + sizeof(record), length - sizeof(record),
			 record.number));
	return record;
}

static pid_t start(void (*run)(const char *path, uint32_t round), const char *path,
		   uint32_t round)
{
	pid_t pid = fork();

	CHECK_FATAL(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(path, round);
		_exit(0);
	}
	return pid;
}

static void kill_after(pid_t pid, uint64_t *state)
{
	usleep((useconds_t)(test_random(state) % LATEST_US));
	kill(pid, SIGKILL);
	CHECK_EQUAL(waitpid(pid, NULL, 0), pid);
}

/* ---- the writer is killed ---- */

/* Copied and in place in turns, until it is killed. */
static void write_records(const char *path, uint32_t round)
{
	struct record record = { .round = round };
	char bytes[2048];
	struct hm_ring *ring;
	void *to;

	if (hm_ring_open(path, -1, HM_RING_WRITER, &ring))
		_exit(1);
	for (;; record.number++) {
		uint64_t length = length_of(&record);

		if (record.number % 2) {
			if (hm_ring_reserve(ring, length + 100, UINT64_MAX, &to))
				_exit(2);
			fill(to, &record);
			if (hm_ring_commit(ring, length))
				_exit(3);
		} else {
			fill(bytes, &record);
			if (hm_ring_write(ring, bytes, length, UINT64_MAX))
				_exit(4);
		}
		atomic_fetch_add(&common->done, 1);
	}
}

static void writer_killed(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, CAPACITY);
	char bytes[2048];
	struct hm_ring *ring = ring_end(path, HM_RING_READER);
	uint64_t state = test_seed(), length;
	unsigned int i, n = rounds(), most;
	struct record record;
	uint32_t next;
	pid_t pid;
	int r;

	share_memory();
	for (i = 0; i < n; i++) {
		atomic_store(&common->done, 0);
		pid = start(write_records, path, i);
		next = 0;
		/* In some rounds the ring fills up; the first records are read meanwhile. */
		most = test_random(&state) % 3 ? 2000 : 0;
		while (next < most &&
		       !hm_ring_read(ring, bytes, sizeof(bytes), 1000000, &length)) {
			record = check_record(bytes, length);
			CHECK_EQUAL(record.round, i);
			CHECK_EQUAL(record.number, next++);
		}
		kill_after(pid, &state);
		do {
			r = hm_ring_read(ring, bytes, sizeof(bytes), 0, &length);
			if (r)
				break;
			record = check_record(bytes, length);
			CHECK_EQUAL(record.round, i);
			CHECK_EQUAL(record.number, next++);
		} while (1);
		CHECK_EQUAL(r, -ETIME);
		/* One may have been committed that it had not counted yet. */
		CHECK(next == common->done || next == common->done + 1);
	}
	hm_ring_unref(ring);
	CHECK(!munmap(common, sizeof(*common)));
}

/* ---- the reader is killed ---- */

static void read_records(const char *path, uint32_t first)
{
	struct hm_ring *ring;
	struct record record;
	const void *data;
	uint64_t length;

	if (hm_ring_open(path, -1, HM_RING_READER, &ring))
		_exit(1);
	for (;; first++) {
		if (hm_ring_peek(ring, UINT64_MAX, &data, &length))
			_exit(2);
		memcpy(&record, data, sizeof(record));
		/* The first one may have been released and not counted by the one before. */
		if (record.number == common->done + 1)
			atomic_fetch_add(&common->done, 1);
		if (record.number != common->done || length != length_of(&record) ||
		    !ring_holds((const char *)data + sizeof(record), length - sizeof(record),
				record.number))
			_exit(3);
		if (hm_ring_release(ring))
			_exit(4);
		atomic_fetch_add(&common->done, 1);
	}
}

static void reader_killed(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, CAPACITY);
	char bytes[2048];
	struct hm_ring *ring = ring_end(path, HM_RING_WRITER);
	struct record record = { .round = 0 };
	uint64_t state = test_seed(), until;
	unsigned int i, n = rounds();
	int status, r;
	pid_t pid;

	share_memory();
	for (i = 0; i < n; i++) {
		pid = start(read_records, path, 0);
		until = time_now_ns() + test_random(&state) % (LATEST_US * 1000ull);
		while (time_now_ns() < until) {
			fill(bytes, &record);
			r = hm_ring_write(ring, bytes, length_of(&record), 1000000);
			CHECK(!r || r == -ETIME || r == -EPIPE);
			record.number += !r;
		}
		CHECK_EQUAL(waitpid(pid, &status, WNOHANG), 0);
		kill(pid, SIGKILL);
		CHECK_EQUAL(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status));
	}
	CHECK(record.number > 0 && common->done <= record.number);
	hm_ring_unref(ring);
	CHECK(!munmap(common, sizeof(*common)));
}

/* ---- both have ended ---- */

static void write_ten(const char *path, uint32_t round)
{
	struct record record = { .round = round };
	struct hm_ring *ring;
	char bytes[2048];

	if (hm_ring_open(path, -1, HM_RING_WRITER, &ring))
		_exit(1);
	for (; record.number < 10; record.number++) {
		fill(bytes, &record);
		if (hm_ring_write(ring, bytes, length_of(&record), 0))
			_exit(2);
	}
	raise(SIGKILL);
}

static void read_five(const char *path, uint32_t first)
{
	struct hm_ring *ring;
	char bytes[2048];
	uint64_t length;
	uint32_t i;

	if (hm_ring_open(path, -1, HM_RING_READER, &ring))
		_exit(1);
	for (i = first; i < first + 5; i++)
		if (hm_ring_read(ring, bytes, sizeof(bytes), 0, &length) ||
		    check_record(bytes, length).number != i)
			_exit(2);
	raise(SIGKILL);
}

static void outlives(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, CAPACITY);
	int status, i;
	pid_t pid;

	waitpid(start(write_ten, path, 3), &status, 0);
	CHECK(WIFSIGNALED(status));
	for (i = 0; i < 2; i++) {
		pid = start(read_five, path, (uint32_t)i * 5);
		CHECK_EQUAL(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status));
	}
	AUTO(hm_ring) *ring = ring_end(path, HM_RING_READER);
	CHECK_EQUAL(ring_info(ring).used, 0);
	CHECK_EQUAL(ring_info(ring).peer, 0);
}

/* ---- fork ---- */

static struct {
	struct hm_ring *ring;
	int go;
} inherited;

/* The end is the parent's, and not kept open by a child that lives on. */
static void child(void *user)
{
	struct hm_ring_info info = { .struct_size = sizeof(info) };
	char byte;

	(void)user;
	CHECK_ERROR(-EOWNERDEAD, hm_ring_write(inherited.ring, "a", 1, 0));
	CHECK_ERROR(-EOWNERDEAD, hm_ring_query(inherited.ring, &info));
	CHECK_ERROR(-EOWNERDEAD, hm_ring_sync(inherited.ring));
	hm_ring_unref(inherited.ring);
	CHECK_EQUAL(read(inherited.go, &byte, 1), 1);
}

static void forks(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, CAPACITY);
	AUTO(hm_ring) *reader = ring_end(path, HM_RING_READER);
	int pipes[2], told[2];
	char byte = 0;
	pid_t pid;

	inherited.ring = ring_end(path, HM_RING_WRITER);
	CHECK_FATAL(!pipe(pipes) && !pipe(told));
	inherited.go = pipes[0];
	pid = fork();
	CHECK_FATAL(pid >= 0);
	if (!pid) {
		close(pipes[1]);
		_exit(write(told[1], &byte, 1) == 1 && read(pipes[0], &byte, 1) == 1 ? 0 : 1);
	}
	CHECK_EQUAL(read(told[0], &byte, 1), 1);
	/* The child is past fork(), and lives. */
	hm_ring_unref(inherited.ring);
	CHECK_EQUAL(ring_info(reader).peer, 0);
	inherited.ring = ring_end(path, HM_RING_WRITER);
	CHECK_OK(hm_ring_write(inherited.ring, "a", 2, 0));
	CHECK_EQUAL(write(pipes[1], &byte, 1), 1);
	waitpid(pid, NULL, 0);
	CHECK_EQUAL(write(pipes[1], &byte, 1), 1);
	CHECK_EQUAL(test_fork(child, NULL), 0);
	/* The child took nothing of the parent's end. */
	CHECK_OK(hm_ring_write(inherited.ring, "b", 2, 0));
	CHECK_EQUAL(ring_info(reader).used, 32);
	CHECK_EQUAL(ring_info(reader).peer, 1);
	hm_ring_unref(inherited.ring);
	close(pipes[0]);
	close(pipes[1]);
	close(told[0]);
	close(told[1]);
}

static const struct test tests[] = {
	{ "writer_killed", writer_killed, 60, 0 },
	{ "reader_killed", reader_killed, 60, 0 },
	{ "outlives", outlives, 0, 0 },
	{ "forks", forks, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "ring_kill", tests)
