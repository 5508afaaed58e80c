// SPDX-License-Identifier: MIT
/*
 * Readers of a file system that fails: by each policy an error with its offset and cause, the
 * process and its other threads live on, and failed calls work again later.
 */
#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader/fuse_support.h"
#include "fault/guard_support.h"
#include "reader/reader_support.h"

#define SIZE (MIB(2) + 123)
#define WINDOW (256 * 1024)
/* No byte before it is bad, although read-ahead may reach here. */
#define BAD_FROM (MIB(1) + 3 * PAGE)
#define BAD_TO (BAD_FROM + PAGE)

struct bad_file {
	struct fuse_scene scene;
	struct fuse_bystander other;
	char *path;
};

static bool bad_begin(struct bad_file *bad)
{
	if (!fuse_begin(&bad->scene, "bad"))
		return false;
	free(reader_file(bad->scene.source, "bad", SIZE));
	bad->path = folder_path(bad->scene.mount, "bad");
	make_table();
	fuse_bystander_begin(&bad->scene, &bad->other);
	return true;
}

static void bad_end(struct bad_file *bad)
{
	fuse_bystander_end(&bad->other);
	free(bad->path);
	fuse_end(&bad->scene);
}

static bool gives_maps(uint32_t policy)
{
	return policy == HM_POLICY_FAULT || policy == HM_POLICY_AHEAD ||
	       policy == HM_POLICY_ANNOUNCE;
}

static struct hm_reader *open_windows(const struct bad_file *bad, uint32_t policy)
{
	struct hm_reader_desc desc = reader_desc(HM_PATTERN_SEQUENTIAL, policy, WINDOW, MIB(8));
	struct hm_reader *reader;

	CHECK_OK_FATAL(hm_reader_open(bad->path, &desc, &reader));
	return reader;
}

/* ---- windows ---- */

/*
 * Windows up to the end or an error, each byte of which is looked at, in a scope where they
 * are a map's. *ret_at: so far they were right.
 */
static int read_on(struct hm_reader *reader, uint64_t *ret_at, struct hm_fault *fault)
{
	const unsigned char *data;
	const void *window;
	uint64_t offset, bytes, i;
	int r;

	for (;;) {
		r = hm_reader_next(reader, &window, &offset, &bytes);
		if (r || !bytes)
			return r;
		data = window;
		CHECK_EQUAL(offset, *ret_at);
		for (i = 0; i < bytes; i += PAGE) {
			r = read_guarded(data + i, fault);
			if (r < 0)
				return r;
		}
		CHECK(reader_is_data(data, offset, bytes));
		*ret_at += bytes;
	}
}

/* The window at @at, which failed, once more: by a map it is the caller's to look again. */
static void read_rest(struct hm_reader *reader, uint32_t policy, uint64_t at)
{
	struct hm_fault fault = no_fault();

	if (gives_maps(policy))
		CHECK_OK(hm_reader_range(reader, at, 0, HM_PATTERN_SEQUENTIAL, policy));
	CHECK_OK(read_on(reader, &at, &fault));
	CHECK_EQUAL(at, SIZE);
}

/* Storage that fails: @error of the server's, -EIO or itself of the reader's. */
static void check_windows(struct bad_file *bad, uint32_t policy, int error)
{
	AUTO(hm_reader) *reader = NULL;
	struct hm_fault fault = no_fault();
	uint64_t at = 0, failed = bad->scene.faults->n_failed;
	int r;

	fuse_forget(bad->path);
	reader = open_windows(bad, policy);
	fuse_fail_reads(&bad->scene, error, BAD_FROM, BAD_TO);
	r = read_on(reader, &at, &fault);
	CHECK(r == -EIO || r == -error);
	CHECK(bad->scene.faults->n_failed > failed);
	/* All before the window with the bad page came, and none behind it. */
	CHECK_EQUAL(at, MIB(1));
	if (gives_maps(policy)) {
		CHECK_EQUAL(fault.cause, HM_FAULT_UNREACHABLE);
		CHECK_EQUAL(fault.signal, SIGBUS);
		CHECK_EQUAL(fault.offset / PAGE, BAD_FROM % WINDOW / PAGE);
	} else {
		CHECK(strstr(hm_errmsg(), bad->path) && strstr(hm_errmsg(), " at 1"));
		CHECK(strstr(hm_errmsg(), "EIO") || r == -error);
		CHECK_EQUAL(hm_reader_next(reader, (const void **)&(void *){ 0 }, NULL,
					   &(uint64_t){ 0 }),
			    r);
	}
	fuse_fail_reads(&bad->scene, 0, 0, 0);
	read_rest(reader, policy, at);
}

static void test_windows(void)
{
	struct bad_file bad;
	uint32_t policy;

	if (!bad_begin(&bad))
		return;
	for (policy = HM_POLICY_AUTO; policy <= HM_POLICY_DIRECT; policy++)
		if (reader_can(bad.path, policy)) {
			check_windows(&bad, policy, EIO);
			check_windows(&bad, policy, ETIMEDOUT);
		}
	bad_end(&bad);
}

/* ---- pieces ---- */

static void check_pieces(struct bad_file *bad, uint32_t policy, int error)
{
	struct hm_piece good[] = { { 5, 3000 }, { 600000, 9000 } };
	struct hm_piece both[] = { { 5, 3000 }, { BAD_FROM + 100, 200 } };
	AUTO(hm_reader) *reader = NULL;
	char out[12000];
	int r;

	fuse_forget(bad->path);
	reader = reader_open(bad->path, HM_PATTERN_RANDOM, policy);
	fuse_fail_reads(&bad->scene, error, BAD_FROM, BAD_TO);
	CHECK_OK(hm_reader_announce(reader, both, 2));
	r = hm_reader_gather(reader, both, 2, out);
	CHECK(r == -EIO || r == -error);
	CHECK(strstr(hm_errmsg(), bad->path) != NULL);
	/* Where: 1060864 is the bad page, 1060964 the piece. */
	CHECK(strstr(hm_errmsg(), "1060") != NULL);
	CHECK_OK(hm_reader_gather(reader, good, 2, out));
	reader_check_pieces(good, 2, out);
	CHECK_ERROR(r, hm_reader_gather(reader, both, 2, out));
	fuse_fail_reads(&bad->scene, 0, 0, 0);
	CHECK_OK(hm_reader_gather(reader, both, 2, out));
	reader_check_pieces(both, 2, out);
}

static void test_pieces(void)
{
	struct bad_file bad;
	uint32_t policy;

	if (!bad_begin(&bad))
		return;
	for (policy = HM_POLICY_AUTO; policy <= HM_POLICY_DIRECT; policy++)
		if (reader_can(bad.path, policy)) {
			check_pieces(&bad, policy, EIO);
			check_pieces(&bad, policy, ENOTCONN);
		}
	bad_end(&bad);
}

/* ---- cut off, by the server ---- */

static void check_cut(struct bad_file *bad, uint32_t policy)
{
	struct hm_piece pieces[] = { { 5, 3000 }, { MIB(1) + 50000, 3000 } };
	struct hm_fault fault = no_fault();
	AUTO(hm_reader) *reader = NULL, *pieces_of = NULL;
	uint64_t at = 0;
	char out[6000];
	int r;

	fuse_forget(bad->path);
	reader = open_windows(bad, policy);
	pieces_of = reader_open(bad->path, HM_PATTERN_RANDOM, policy);
	/* The kernel is not told. */
	bad->scene.faults->cut = MIB(1) + 100;
	r = read_on(reader, &at, &fault);
	CHECK(r == -ENODATA || (gives_maps(policy) && r == -ERANGE));
	CHECK_EQUAL(at, MIB(1));
	CHECK_ERROR(-ENODATA, hm_reader_gather(pieces_of, pieces, 2, out));
	CHECK(strstr(hm_errmsg(), "cut off") != NULL);
	CHECK_OK(hm_reader_gather(pieces_of, pieces, 1, out));
	reader_check_pieces(pieces, 1, out);
	/* The bytes are there again: the kernel learns that when a size is asked for. */
	bad->scene.faults->cut = UINT64_MAX;
	fuse_forget(bad->path);
	CHECK_EQUAL(hm_reader_range(reader, at, 0, HM_PATTERN_SEQUENTIAL, policy), 0);
	fault = no_fault();
	CHECK_OK(read_on(reader, &at, &fault));
	CHECK_EQUAL(at, SIZE);
	CHECK_OK(hm_reader_gather(pieces_of, pieces, 2, out));
	reader_check_pieces(pieces, 2, out);
}

static void test_cut(void)
{
	struct bad_file bad;
	uint32_t policy;

	if (!bad_begin(&bad))
		return;
	for (policy = HM_POLICY_AUTO; policy <= HM_POLICY_DIRECT; policy++)
		if (reader_can(bad.path, policy))
			check_cut(&bad, policy);
	bad_end(&bad);
}

/* ---- short, and slow ---- */

/*
 * A server may give less than was asked for only where the page cache is not used: else
 * the kernel takes the rest for zeros [libfuse, fuse.h, read()].
 */
static void test_short(void)
{
	static const uint32_t sizes[] = { 1, 1000, 4096, 100001 };
	struct bad_file bad;
	/* The first piece takes so many requests, of some ms each in emulated machines. */
	struct hm_piece piece = { 12345, 300 };
	struct hm_reader *reader;
	uint32_t policy;
	char out[300];
	size_t i;

	if (!bad_begin(&bad))
		return;
	bad.scene.faults->direct_io = 1;
	for (policy = HM_POLICY_READ; policy <= HM_POLICY_URING; policy++)
		for (i = 0; i < 4 && reader_can(bad.path, policy); i++) {
			bad.scene.faults->short_to = sizes[i];
			reader = open_windows(&bad, policy);
			if (sizes[i] >= PAGE) {
				reader_check_range(reader, 0, SIZE);
			} else if (i) {
				CHECK_OK(hm_reader_range(reader, 0, WINDOW / 2,
							 HM_PATTERN_SEQUENTIAL, policy));
				reader_check_range(reader, 0, WINDOW / 2);
			}
			CHECK_OK(hm_reader_range(reader, 0, 0, HM_PATTERN_RANDOM, policy));
			CHECK_OK(hm_reader_gather(reader, &piece, 1, out));
			reader_check_pieces(&piece, 1, out);
			hm_reader_unref(reader);
		}
	bad_end(&bad);
}

/* Does the other thread make a round while all of the slow file is read? */
static bool goes_on(const struct bad_file *bad, uint32_t policy)
{
	AUTO(hm_reader) *reader = NULL;
	uint64_t rounds;

	fuse_forget(bad->path);
	rounds = bad->other.rounds;
	reader = open_windows(bad, policy);
	reader_check_range(reader, 0, SIZE);
	return bad->other.rounds > rounds;
}

static void test_slow(void)
{
	struct bad_file bad;
	uint32_t policy;
	int tries;

	if (!bad_begin(&bad))
		return;
	bad.scene.faults->slow_ms = 10;
	for (policy = HM_POLICY_AUTO; policy <= HM_POLICY_DIRECT; policy++) {
		if (!reader_can(bad.path, policy))
			continue;
		/* A reader with its pages waits for nothing, if a busy machine gives it a turn. */
		for (tries = 0; !goes_on(&bad, policy) && tries < 10; tries++)
			;
		CHECK(tries < 10);
	}
	bad_end(&bad);
}

/* ---- gone ---- */

/* The server is killed under the reader: cached pages stay, the rest is an error. */
static bool check_gone(uint32_t policy)
{
	struct hm_piece piece = { BAD_FROM, 100 };
	struct fuse_scene scene;
	struct hm_reader *reader;
	struct bad_file bad;
	struct hm_fault fault = no_fault();
	uint64_t at = 0;
	char out[100];
	int r;

	if (!fuse_begin(&scene, "bad"))
		return false;
	free(reader_file(scene.source, "bad", SIZE));
	bad.path = folder_path(scene.mount, "bad");
	if (reader_can(bad.path, policy)) {
		reader = open_windows(&bad, policy);
		fuse_kill(&scene);
		r = read_on(reader, &at, &fault);
		CHECK(r == -ENOTCONN || r == -EIO || r == -ECONNABORTED);
		CHECK(at < SIZE && (*hm_errmsg() || fault.cause == HM_FAULT_UNREACHABLE));
		CHECK(hm_reader_gather(reader, &piece, 1, out) < 0);
		CHECK(hm_reader_range(reader, 0, 0, HM_PATTERN_RANDOM, policy) < 0);
		hm_reader_unref(reader);
	}
	free(bad.path);
	fuse_end(&scene);
	return true;
}

static void test_gone(void)
{
	uint32_t policy = HM_POLICY_AUTO;
	AUTO(rig_handler) handler = rig_handler(0);

	make_table();
	while (policy <= HM_POLICY_DIRECT && check_gone(policy))
		policy++;
}

static const struct test tests[] = {
	{ "windows", test_windows, 120, 0 },
	{ "pieces", test_pieces, 120, 0 },
	{ "cut", test_cut, 120, 0 },
	{ "short", test_short, 120, 0 },
	{ "slow", test_slow, 120, 0 },
	{ "gone", test_gone, 120, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "fuse", tests)
