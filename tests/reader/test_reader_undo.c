// SPDX-License-Identifier: MIT
/* Readers of files that are cut off, and of a system that fails; many of them, and threads. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/inject.h"
#include "reader/uring.h"
#include "reader/reader_support.h"

/* ---- cut off ---- */

static void test_cut_off_windows(void)
{
	char *folder = folder_make(), *path;
	struct hm_reader_desc desc;
	struct hm_reader *reader;
	const void *data;
	uint64_t bytes, total;
	uint32_t policy;
	int r;

	for (policy = HM_POLICY_FAULT; policy <= HM_POLICY_DIRECT; policy++) {
		path = reader_file(folder, "data", MIB(8));
		if (!reader_can(path, policy)) {
			free(path);
			continue;
		}
		desc = reader_desc(HM_PATTERN_SEQUENTIAL, policy, MIB(1), 0);
		CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
		CHECK_OK(hm_reader_next(reader, &data, NULL, &bytes));
		CHECK_EQUAL(truncate(path, MIB(5) + 100), 0);
		total = bytes;
		while (!(r = hm_reader_next(reader, &data, NULL, &bytes)) && bytes)
			total += bytes;
		/* Bytes read before may be given; missing ones are not. */
		if (policy >= HM_POLICY_URING && !r) {
			CHECK_EQUAL(total, MIB(8));
		} else {
			CHECK_EQUAL(r, -ENODATA);
			CHECK(strstr(hm_errmsg(), "cut off") != NULL);
			CHECK(total >= MIB(5));
			CHECK_ERROR(-ENODATA, hm_reader_next(reader, &data, NULL, &bytes));
			/* The file is whole again: the same window can be read. */
			free(reader_file(folder, "data", MIB(8)));
			reader_check_range(reader, total, MIB(8));
		}
		hm_reader_unref(reader);
		free(path);
	}
	folder_remove(folder);
}

static void *keep_gathering(void *user)
{
	struct hm_reader *reader = user;
	struct hm_piece piece = { 100, 1000 };
	char out[1000];
	int i;

	for (i = 0; i < 2000; i++) {
		CHECK_OK(hm_reader_gather(reader, &piece, 1, out));
		CHECK(reader_is_data(out, 100, 1000));
	}
	return NULL;
}

static void test_cut_off_pieces(void)
{
	struct hm_piece pieces[2] = { { 0, 5000 }, { MIB(1), 5000 } };
	struct hm_piece tail = { 6 * PAGE, 300 };
	char *folder = folder_make(), *path, out[10000];
	struct hm_reader *reader, *other;
	uint32_t policy, guarded;
	pthread_t thread;

	for (guarded = 0; guarded < 2; guarded++) {
		if (guarded)
			CHECK_OK_FATAL(hm_handler_install(0));
		for (policy = HM_POLICY_FAULT; policy <= HM_POLICY_DIRECT; policy++) {
			path = reader_file(folder, "data", MIB(2));
			if (!reader_can(path, policy)) {
				free(path);
				continue;
			}
			reader = reader_open(path, HM_PATTERN_RANDOM, policy);
			other = reader_open(path, HM_PATTERN_RANDOM, policy);
			CHECK_OK(hm_reader_gather(reader, pieces, 2, out));
			CHECK_EQUAL(pthread_create(&thread, NULL, keep_gathering, other), 0);
			/* Cut in the middle of a page, whose rest is zeros without a fault. */
			CHECK_EQUAL(truncate(path, 6 * PAGE + 200), 0);
			CHECK_ERROR(-ENODATA, hm_reader_gather(reader, pieces, 2, out));
			CHECK(strstr(hm_errmsg(), "cut off") != NULL);
			CHECK_ERROR(-ENODATA, hm_reader_gather(reader, &tail, 1, out));
			CHECK_OK(hm_reader_announce(reader, pieces, 2));
			CHECK_ERROR(-ENODATA, hm_reader_gather(reader, pieces, 2, out));
			CHECK_OK(hm_reader_gather(reader, pieces, 1, out));
			CHECK(reader_is_data(out, 0, 5000));
			pthread_join(thread, NULL);
			hm_reader_unref(other);
			hm_reader_unref(reader);
			free(path);
		}
	}
	CHECK_OK(hm_handler_remove());
	folder_remove(folder);
}

/* ---- failures, one at a time ---- */

static int read_all(struct hm_reader *reader, uint64_t *ret_at)
{
	const void *data;
	uint64_t bytes;
	int r;

	do {
		r = hm_reader_next(reader, &data, NULL, &bytes);
		if (r)
			return r;
		CHECK(reader_is_data(data, *ret_at, bytes));
		*ret_at += bytes;
	} while (bytes);
	return 0;
}

#define SMALL (12 * PAGE + 5)

/* The whole life of one, with the @n-th call failing: an error, or as without. */
static bool live(const char *path, uint32_t policy, unsigned int n)
{
	struct hm_reader_desc desc = reader_desc(0, policy, 3 * PAGE, 0);
	struct hm_piece pieces[3] = { { 5, 100 }, { 9 * PAGE, 8000 }, { 4 * PAGE - 3, 7 } };
	struct hm_reader *reader = UNTOUCHED;
	uint64_t at = 0;
	char out[8107];
	bool failed;
	int r;

	inject_arm(n, INJECT_ONE);
	r = hm_reader_open(path, &desc, &reader);
	if (!r) {
		r = read_all(reader, &at);
		if (!r)
			r = hm_reader_range(reader, PAGE, 0, HM_PATTERN_RANDOM, policy);
		if (!r)
			r = hm_reader_announce(reader, pieces, 3);
		if (!r)
			r = hm_reader_gather(reader, pieces, 3, out);
		if (!r)
			reader_check_pieces(pieces, 3, out);
	}
	failed = inject_disarm();
	if (r)
		CHECK(failed && *hm_errmsg());
	if (reader != UNTOUCHED) {
		/* Whatever failed, it goes on from there. */
		if (at < SMALL) {
			CHECK_OK(read_all(reader, &at));
			CHECK_EQUAL(at, SMALL);
		}
		CHECK_OK(hm_reader_range(reader, 0, 0, HM_PATTERN_RANDOM, policy));
		CHECK_OK(hm_reader_gather(reader, pieces, 3, out));
		reader_check_pieces(pieces, 3, out);
		hm_reader_unref(reader);
	}
	inject_forgive();
	return failed;
}

static void test_failures(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", SMALL);
	uint32_t policy;
	unsigned int n;
	AUTO(rig_handler) handler = rig_handler(0);

	make_table();
	inject_install();
	for (policy = HM_POLICY_AUTO; policy <= HM_POLICY_DIRECT; policy++) {
		if (!reader_can(path, policy))
			continue;
		for (n = 1; live(path, policy, n); n++)
			;
		CHECK(n > 20);
	}
}

/* Giving pages back fails: the reader keeps them, and goes on. */
static void test_give_back_fails(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", MIB(10));
	struct hm_piece piece = { 0, MIB(10) };
	struct hm_reader_desc desc;
	struct hm_reader *reader;
	AUTO_TEXT *out = malloc(MIB(10));
	unsigned int n = 0;
	bool failed = true;
	int r;
	AUTO(rig_handler) handler = rig_handler(0);

	CHECK_FATAL(out != NULL);
	make_table();
	inject_install();
	desc = reader_desc(HM_PATTERN_RANDOM, HM_POLICY_FAULT, 0, MIB(6));
	while (failed) {
		CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
		inject_arm(++n, INJECT_ONE);
		r = hm_reader_gather(reader, &piece, 1, out);
		failed = inject_disarm();
		if (!r)
			CHECK(reader_is_data(out, 0, MIB(10)));
		else
			CHECK(failed && *hm_errmsg());
		hm_reader_unref(reader);
		inject_forgive();
	}
	CHECK(n > 4);
}

/* ---- many, and several at once ---- */

static void test_many(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", 3 * PAGE);
	struct test_holding before;
	const void *data;
	uint64_t bytes;
	int i;

	make_table();
	hm_reader_unref(reader_open(path, 0, 0));
	before = test_holding_now();
	for (i = 0; i < 10000; i++) {
		AUTO(hm_reader) *reader = reader_open(path, i & 1, HM_POLICY_AUTO);

		if (!(i & 1))
			CHECK_OK(hm_reader_next(reader, &data, NULL, &bytes));
	}
	test_holding_same(&before);
}

static void *gather_some(void *user)
{
	uint64_t state = (uintptr_t)&state;

	reader_gather(user, MIB(1), &state);
	return NULL;
}

static void test_threads(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", MIB(1));
	struct hm_reader_desc desc;
	struct hm_reader *reader;
	pthread_t threads[4];
	uint32_t policy;
	int i;
	AUTO(rig_handler) handler = rig_handler(0);

	for (policy = HM_POLICY_ANNOUNCE; policy <= HM_POLICY_URING; policy++) {
		if (!reader_can(path, policy))
			continue;
		desc = reader_desc(HM_PATTERN_RANDOM, policy, 0, 512 * 1024);
		CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
		for (i = 0; i < 4; i++)
			CHECK_EQUAL(pthread_create(&threads[i], NULL, gather_some, reader), 0);
		for (i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		hm_reader_unref(reader);
	}
}

/* ---- reads in flight ---- */

/* A read of a pipe, which is in flight until the test writes to it. */
struct waiting {
	struct uring *ring;
	struct uring_group group;
	int pipe[2];
	char byte;
};

static void *begin_waiting(void *user)
{
	struct waiting *waiting = user;
	struct uring_read read = {
		.fd = waiting->pipe[0],
		.to = &waiting->byte,
		.length = 1,
		.wanted = 1,
		.unit = 1,
		.own = true,
		.group = &waiting->group,
	};
	uint32_t slot;

	CHECK_OK(uring_slot(waiting->ring, &slot));
	uring_read(waiting->ring, slot, &read);
	CHECK_OK(uring_submit(waiting->ring));
	CHECK_EQUAL(waiting->group.pending, 1);
	return NULL;
}

static bool make_waiting(struct waiting *waiting)
{
	*waiting = (struct waiting){ 0 };
	if (uring_open(2, &waiting->ring)) {
		test_skip("kernel", "no io_uring: %s", hm_errmsg());
		return false;
	}
	CHECK_EQUAL(pipe2(waiting->pipe, O_CLOEXEC), 0);
	return true;
}

static void end_waiting(struct waiting *waiting)
{
	uring_close(waiting->ring);
	close(waiting->pipe[0]);
	close(waiting->pipe[1]);
}

/* A read goes on when the thread that began it has ended. */
static void test_thread_ends(void)
{
	struct waiting waiting;
	pthread_t thread;

	TEST_NEEDS(make_waiting(&waiting));
	CHECK_EQUAL(pthread_create(&thread, NULL, begin_waiting, &waiting), 0);
	pthread_join(thread, NULL);
	CHECK_EQUAL(write(waiting.pipe[1], "x", 1), 1);
	CHECK_OK(uring_wait(waiting.ring, &waiting.group));
	CHECK_EQUAL(waiting.group.error, 0);
	CHECK_EQUAL(waiting.byte, 'x');
	end_waiting(&waiting);
}

static void *write_later(void *user)
{
	usleep(200000);
	CHECK_EQUAL(write(*(int *)user, "x", 1), 1);
	return NULL;
}

/* Milliseconds of a processor, and how often it was lost or given up without need. */
static uint64_t busy(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000 +
	       (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
	       (uint64_t)usage.ru_nivcsw;
}

/* Waiting for reads in flight takes no processor. */
static void test_drain(void)
{
	struct waiting waiting;
	pthread_t thread;
	uint64_t before;

	TEST_NEEDS(make_waiting(&waiting));
	begin_waiting(&waiting);
	CHECK_EQUAL(pthread_create(&thread, NULL, write_later, &waiting.pipe[1]), 0);
	before = busy();
	uring_drain(waiting.ring);
	CHECK(busy() - before < 20);
	CHECK_EQUAL(waiting.group.pending, 0);
	pthread_join(thread, NULL);
	end_waiting(&waiting);
}

static void use_parents(void *user)
{
	AUTO(hm_reader) *reader = user;
	struct hm_piece piece = { 0, 1 };
	char out;

	CHECK_ERROR(-EOWNERDEAD, hm_reader_gather(reader, &piece, 1, &out));
	CHECK_ERROR(-EOWNERDEAD, hm_reader_range(reader, 0, 0, 0, 0));
}

static void test_forked(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", PAGE);
	struct hm_reader *reader;
	uint32_t policy;

	for (policy = HM_POLICY_AUTO; policy <= HM_POLICY_DIRECT; policy++) {
		if (!reader_can(path, policy))
			continue;
		reader = reader_open(path, 0, policy);
		CHECK_EQUAL(test_fork(use_parents, reader), 0);
		reader_check_range(reader, 0, PAGE);
		hm_reader_unref(reader);
	}
}

static const struct test tests[] = {
	{ "cut_off_windows", test_cut_off_windows, 60, 0 },
	{ "cut_off_pieces", test_cut_off_pieces, 60, 0 },
	{ "failures", test_failures, 120, TEST_ONCE },
	{ "give_back_fails", test_give_back_fails, 60, TEST_ONCE },
	{ "many", test_many, 60, TEST_ONCE },
	{ "threads", test_threads, 60, 0 },
	{ "thread_ends", test_thread_ends, 20, 0 },
	{ "drain", test_drain, 20, 0 },
	{ "forked", test_forked, 20, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "reader_undo", tests)
