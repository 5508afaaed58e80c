// SPDX-License-Identifier: MIT
/* Reads past the page cache: by the multiples that the kernel reports for a file, or 4096. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "lib/inject.h"
#include "reader/reader_support.h"
#include "base/sys.h"

#define SIZE (MIB(3) + 1017)

#ifdef HAVE_LIBURING

#include <liburing.h>

/* ---- reported units, and reads ---- */

static struct {
	struct sys_table real;
	uint32_t mask; /* STATX_DIOALIGN: reported */
	uint32_t memory, offset;
	uint64_t unit; /* each read is by multiples of it */
	uint64_t n_reads;
	uint64_t n_pages; /* n_reads by multiples of a page */
} reported;

static int statx_hook(int fd, const char *path, int flags, unsigned int mask,
		      struct statx *ret_statx)
{
	CHECK(mask & STATX_DIOALIGN);
	if (reported.real.statx(fd, path, flags, mask, ret_statx))
		return -1;
	ret_statx->stx_mask &= ~STATX_DIOALIGN;
	ret_statx->stx_mask |= reported.mask;
	ret_statx->stx_dio_mem_align = reported.memory;
	ret_statx->stx_dio_offset_align = reported.offset;
	return 0;
}

static bool is_by(const struct io_uring_sqe *sqe, uint64_t unit)
{
	return !(sqe->addr % unit || sqe->off % unit || sqe->len % unit);
}

/* Checks the entries that are in the ring, and not submitted yet. */
static int submit_hook(struct io_uring *ring, unsigned int wait)
{
	const struct io_uring_sqe *sqe;
	unsigned int i;

	for (i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		sqe = &ring->sq.sqes[i & *ring->sq.kring_mask];
		CHECK_EQUAL(sqe->opcode, IORING_OP_READ);
		if (!is_by(sqe, reported.unit))
			test_fail(__FILE__, __LINE__, "%u bytes at %llu to 0x%llx, by %llu",
				  sqe->len, sqe->off, sqe->addr, (long long)reported.unit);
		reported.n_reads++;
		reported.n_pages += is_by(sqe, PAGE);
	}
	return reported.real.uring_submit(ring, wait);
}

static void begin_reported(uint32_t mask, uint32_t memory, uint32_t offset, uint64_t unit)
{
	inject_install();
	reported.real = sys_table;
	reported.mask = mask;
	reported.memory = memory;
	reported.offset = offset;
	reported.unit = unit;
	reported.n_reads = 0;
	reported.n_pages = 0;
	sys_table.statx = statx_hook;
	sys_table.uring_submit = submit_hook;
}

static void end_reported(void)
{
	sys_table = reported.real;
}

/* Both patterns, also by a small budget: right bytes, and each read by the unit. */
static void read_all(const char *path, uint64_t unit)
{
	static const uint64_t windows[] = { 0, PAGE };
	struct hm_piece pieces[] = {
		{ 0, 1 },        { PAGE - 1, 2 },        { 70001, 700001 },
		{ SIZE - 1, 1 }, { MIB(1) - 600, 1200 }, { SIZE - 2000, 2000 }
	};
	char text[64], *out = malloc(MIB(1));
	struct hm_reader_desc desc;
	struct hm_reader_info info;
	struct hm_reader *reader;
	uint64_t state = unit;
	size_t i;

	CHECK_FATAL(out != NULL);
	snprintf(text, sizeof(text), "direct in multiples of %llu bytes", (long long)unit);
	for (i = 0; i < 2; i++) {
		desc = reader_desc(HM_PATTERN_SEQUENTIAL, HM_POLICY_DIRECT, windows[i],
				   i * 4 * MIB(1));
		CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
		CHECK(strstr(reader_info(reader).why, text) == reader_info(reader).why);
		CHECK_EQUAL(reader_info(reader).window % unit, 0);
		reader_check_range(reader, 0, SIZE);
		/* A begin that is no multiple of anything. */
		CHECK_OK(hm_reader_range(reader, MIB(1) + 77, SIZE - 5, HM_PATTERN_SEQUENTIAL,
					 HM_POLICY_DIRECT));
		reader_check_range(reader, MIB(1) + 77, SIZE - 5);
		CHECK_OK(hm_reader_range(reader, 0, 0, HM_PATTERN_RANDOM, HM_POLICY_DIRECT));
		reader_gather(reader, SIZE, &state);
		CHECK_OK(hm_reader_gather(reader, pieces, 6, out));
		reader_check_pieces(pieces, 6, out);
		info = reader_info(reader);
		CHECK(info.peak <= info.budget || !i);
		hm_reader_unref(reader);
	}
	CHECK(reported.n_reads > 20);
	free(out);
}

/* ---- the tests ---- */

static bool have_direct(const char *path)
{
	if (reader_can(path, HM_POLICY_DIRECT))
		return true;
	test_skip("kernel", "no reads past the page cache: %s", hm_errmsg());
	return false;
}

/* Larger than the device's own, which any device can do. */
static void test_larger(void)
{
	static const struct {
		uint32_t memory, offset, unit;
	} rows[] = {
		{ PAGE, PAGE, PAGE },     { 4, 16384, 16384 },      { 65536, 8192, 65536 },
		{ 8192, MIB(1), MIB(1) }, { MIB(1), PAGE, MIB(1) },
	};
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", SIZE);
	size_t i;

	make_table();
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]) && have_direct(path); i++) {
		begin_reported(STATX_DIOALIGN, rows[i].memory, rows[i].offset, rows[i].unit);
		read_all(path, rows[i].unit);
		CHECK_EQUAL(reported.n_pages, reported.n_reads);
		end_reported();
	}
}

/* As the kernel has it: here they may be less than a page. */
static void test_as_reported(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", SIZE);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct statx statx = { 0 };
	uint64_t unit;

	make_table();
	if (have_direct(path)) {
		CHECK_OK(sys_fstatx(fd, STATX_DIOALIGN, &statx));
		unit = statx.stx_dio_mem_align > statx.stx_dio_offset_align ?
			       statx.stx_dio_mem_align :
			       statx.stx_dio_offset_align;
		if (!(statx.stx_mask & STATX_DIOALIGN))
			unit = PAGE;
		begin_reported(statx.stx_mask & STATX_DIOALIGN, statx.stx_dio_mem_align,
			       statx.stx_dio_offset_align, unit);
		read_all(path, unit);
		/* A piece of less than a page is not read as a page. */
		CHECK((reported.n_pages < reported.n_reads) == (unit < PAGE));
		end_reported();
	}
	close(fd);
}

/* Nothing is said: pages, as before there was anything to ask. */
static void test_not_reported(void)
{
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", SIZE);

	make_table();
	if (have_direct(path)) {
		begin_reported(0, 512, 512, PAGE);
		read_all(path, PAGE);
		end_reported();
		/* A kernel that does not know the call, or a filter that refuses it. */
		begin_reported(0, 0, 0, PAGE);
		sys_table.statx = reported.real.statx;
		inject_always("statx", ENOSYS);
		read_all(path, PAGE);
		CHECK(inject_disarm());
		end_reported();
	}
}

/* The file can be opened with O_DIRECT, and has none; or none that is of use. */
static void test_none(void)
{
	static const struct {
		uint32_t memory, offset;
		const char *text;
	} rows[] = {
		{ 0, 0, "has no O_DIRECT for this file" },
		{ 512, 0, "has no O_DIRECT for this file" },
		{ 512, 24576, "multiples of 24576 bytes" },
		{ MIB(2), 512, "multiples of 2097152 bytes" },
	};
	AUTO_TEXT *folder = folder_make(), *path = reader_file(folder, "data", SIZE);
	struct hm_reader_desc desc = reader_desc(0, HM_POLICY_DIRECT, 0, 0);
	struct hm_reader *reader = UNTOUCHED;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]) && have_direct(path); i++) {
		begin_reported(STATX_DIOALIGN, rows[i].memory, rows[i].offset, 1);
		CHECK_ERROR(-EOPNOTSUPP, hm_reader_open(path, &desc, &reader));
		CHECK(strstr(hm_errmsg(), rows[i].text) && strstr(hm_errmsg(), "\"uring\""));
		CHECK(reader == UNTOUCHED);
		/* The other policies do not need it. */
		reader = reader_open(path, HM_PATTERN_SEQUENTIAL, HM_POLICY_URING);
		reader_check_range(reader, 0, SIZE);
		hm_reader_unref(reader);
		reader = UNTOUCHED;
		end_reported();
	}
}

#else

static void no_liburing(void)
{
	test_skip("kernel", "built without liburing");
}

#define test_larger no_liburing
#define test_as_reported no_liburing
#define test_not_reported no_liburing
#define test_none no_liburing

#endif

static const struct test tests[] = {
	{ "larger", test_larger, 60, 0 },
	{ "as_reported", test_as_reported, 30, 0 },
	{ "not_reported", test_not_reported, 30, 0 },
	{ "none", test_none, 20, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "reader_direct", tests)
