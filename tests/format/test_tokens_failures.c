// SPDX-License-Identifier: MIT
/* Files of tokens that are cut off, written to or not to be read while they are in use. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/inject.h"
#include "base/sys.h"
#include "format/tokens_support.h"

#define UNTOUCHED ((void *)0x10)

/* Cut off inside of a page, where no signal comes, and before, where one does. */
static void cut_off(void)
{
	static const off_t lengths[] = { 100001, 99999, 8192, 1, 0 };
	AUTO_TEXT *folder = folder_make();
	int64_t values[200];
	size_t i;
	int way;

	for (way = 0; way < 2; way++) {
		if (way)
			CHECK_OK_FATAL(hm_handler_install(0));
		for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			AUTO_TEXT *path = tokens_file(folder, "a", 0, 50001);
			AUTO(hm_tokens) *tokens = tokens_open(path, NULL);

			CHECK_OK(hm_tokens_read(tokens, 49901, 100, HM_DTYPE_I64, values));
			CHECK(!truncate(path, lengths[i]));
			CHECK_ERROR(-ENODATA,
				    hm_tokens_read(tokens, 49901, 100, HM_DTYPE_I64, values));
			CHECK(strstr(hm_errmsg(), "cut off while it was in use") &&
			      strstr(hm_errmsg(), path));
		}
	}
	CHECK_OK(hm_handler_remove());
}

/* The n-th call fails: nothing is left, nothing is opened. */
static void undone(void)
{
	AUTO_TEXT *folder = folder_make();
	uint16_t bytes[4] = { 1, 2, 3, 4 };
	AUTO_TEXT *path = tokens_npy(folder, "a.npy", 1, "<u2", true, "(2, 2)", bytes, 8);
	const char *both[2] = { path, path };
	struct hm_tokens *tokens;
	uint16_t values[8];
	unsigned int n;
	bool failed = true;
	int r;

	make_table();
	inject_install();
	for (n = 1; failed; n++) {
		tokens = UNTOUCHED;
		inject_arm(n, INJECT_ONE);
		r = hm_tokens_open(both, 2, NULL, &tokens);
		failed = inject_disarm();
		if (r)
			CHECK(failed && tokens == UNTOUCHED && *hm_errmsg());
		else
			hm_tokens_unref(tokens);
		inject_forgive();
	}
	CHECK(n > 20);
	tokens = tokens_open(path, NULL);
	for (n = 1, failed = true; failed; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_tokens_read(tokens, 0, 4, HM_DTYPE_U16, values);
		failed = inject_disarm();
		CHECK(r ? failed && *hm_errmsg() : values[3] == 4);
	}
	CHECK(n > 5);
	/* Storage that fails. */
	inject_always("pread", EIO);
	CHECK_ERROR(-EIO, hm_tokens_read(tokens, 0, 4, HM_DTYPE_U16, values));
	CHECK(strstr(hm_errmsg(), "a.npy"));
	inject_disarm();
	hm_tokens_unref(tokens);
	/* A file system that shares no maps: read. */
	inject_shared_refused(ENODEV);
	tokens = tokens_open(path, NULL);
	inject_disarm();
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_OK(hm_tokens_read(tokens, 0, 4, HM_DTYPE_U16, values));
	CHECK_EQUAL(values[1], 3);
	CHECK_OK(hm_handler_remove());
	hm_tokens_unref(tokens);
}

/* ---- written to between two looks ---- */

static ssize_t (*real_pread)(int fd, void *to, size_t length, off_t offset);

/* The first look finds a token that is too large; no later one does. */
static ssize_t pread_once_large(int fd, void *to, size_t length, off_t offset)
{
	ssize_t n = real_pread(fd, to, length, offset);

	memset(to, 0xff, length);
	sys_table.pread = real_pread;
	return n;
}

static void no_more_too_large(void)
{
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, 10);
	AUTO(hm_tokens) *tokens = tokens_open(path, NULL);
	unsigned char values[10];

	real_pread = sys_table.pread;
	sys_table.pread = pread_once_large;
	CHECK_ERROR(-EOVERFLOW, hm_tokens_read(tokens, 2, 8, HM_DTYPE_U8, values));
	CHECK_HAS(hm_errmsg(), "one of the 8 tokens from 2 on was too large, and is not now");
	sys_table.pread = real_pread;
	CHECK_OK(hm_tokens_read(tokens, 2, 8, HM_DTYPE_U8, values));
}

/* Each file keeps a descriptor: which one had none left is said, once. */
static void too_many(void)
{
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, 10);
	struct hm_tokens *tokens = UNTOUCHED;
	const char *at;

	inject_install();
	inject_always("open", EMFILE);
	CHECK_ERROR(-EMFILE, hm_tokens_open((const char *const *)&path, 1, NULL, &tokens));
	inject_disarm();
	CHECK(tokens == UNTOUCHED);
	at = strstr(hm_errmsg(), path);
	CHECK_FATAL(at != NULL);
	CHECK(!strstr(at + 1, path));
	CHECK(strstr(at, "RLIMIT_NOFILE"));
}

static const struct test tests[] = {
	{ "cut_off", cut_off, 0, 0 },
	{ "undone", undone, 0, 0 },
	{ "no_more_too_large", no_more_too_large, 0, 0 },
	{ "too_many", too_many, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "tokens_failures", tests)
