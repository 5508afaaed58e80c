// SPDX-License-Identifier: MIT
/*
 * An announced range is read ahead in full, although the kernel takes no more of one madvise()
 * than the device reads ahead: 128 KiB here, as FUSE has it by default.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "map/announce.h"
#include "reader/fuse_support.h"
#include "reader/reader_support.h"
#include "base/sys.h"
#include "format/tokens_support.h"

#define SIZE MIB(16)
/* Without more than one announcement there are two: a window, and the one after it. */
#define AT_ONCE 5
#define PATIENCE_MS 20000

struct slow {
	struct fuse_scene scene;
	char *path;
};

static bool slow_begin(struct slow *slow)
{
	if (!fuse_begin(&slow->scene, "slow"))
		return false;
	free(reader_file(slow->scene.source, "slow", SIZE));
	slow->path = folder_path(slow->scene.mount, "slow");
	/* However long it takes on a busy machine until as many as are announced are there. */
	slow->scene.faults->await = AT_ONCE;
	return true;
}

static void slow_end(struct slow *slow)
{
	free(slow->path);
	fuse_end(&slow->scene);
}

static struct hm_map *map_whole(const char *path, struct hm_buffer **ret_buffer)
{
	struct hm_device *device;

	CHECK_OK_FATAL(hm_device_open("file", &device));
	CHECK_OK_FATAL(hm_buffer_from_file(device, path, -1, NULL, ret_buffer));
	hm_device_unref(device);
	return rig_map(*ret_buffer, NULL);
}

static uint64_t resident(const struct hm_map *map)
{
	static unsigned char vector[SIZE / 4096];
	uint64_t n = 0, i, pages = SIZE / (uint64_t)sysconf(_SC_PAGESIZE);

	CHECK_FATAL(!mincore(hm_map_address(map), SIZE, vector));
	for (i = 0; i < pages; i++)
		n += vector[i] & 1;
	return n * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void test_advised(void)
{
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct slow slow;
	int ms;

	if (!slow_begin(&slow))
		return;
	map = map_whole(slow.path, &buffer);
	CHECK_OK(hm_map_advise(map, 0, SIZE, HM_ADVICE_WILLNEED));
	for (ms = 0; ms < PATIENCE_MS && resident(map) < SIZE; ms++)
		usleep(1000);
	CHECK_EQUAL(resident(map), SIZE);
	CHECK(slow.scene.faults->at_most >= AT_ONCE);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	slow_end(&slow);
}

static void test_prefetched(void)
{
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct slow slow;

	if (!slow_begin(&slow))
		return;
	map = map_whole(slow.path, &buffer);
	CHECK_OK(hm_map_prefetch(map, 0, SIZE, HM_READ));
	CHECK_EQUAL(resident(map), SIZE);
	CHECK(slow.scene.faults->at_most >= AT_ONCE);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	slow_end(&slow);
}

/* Blocks of 4 MiB, out of maps, and where the handler is not installed, by pread(2). */
static void test_tokens(void)
{
	uint16_t *x = malloc(MIB(8)), *y = x + MIB(2);
	struct hm_batches *batches;
	struct hm_tokens *tokens;
	struct slow slow;
	int guarded;

	CHECK_FATAL(x != NULL);
	if (!slow_begin(&slow))
		goto out;
	for (guarded = 0; guarded < 2; guarded++) {
		if (guarded)
			CHECK_OK_FATAL(hm_handler_install(0));
		fuse_forget(slow.path);
		slow.scene.faults->await = 0;
		tokens = tokens_open(slow.path, NULL);
		CHECK_OK_FATAL(hm_batches_create(
			tokens,
			DESC(hm_batches_desc, .order = HM_BATCHES_IN_ORDER,
			     .dtype = HM_DTYPE_U16, .block = MIB(2), .batch = 1),
			&batches));
		slow.scene.faults->at_most = 0;
		slow.scene.faults->await = AT_ONCE;
		CHECK_OK(hm_batches_next(batches, x, y, NULL));
		CHECK(reader_is_data(x, 0, MIB(4)));
		CHECK(slow.scene.faults->at_most >= AT_ONCE);
		hm_batches_unref(batches);
		hm_tokens_unref(tokens);
	}
	CHECK_OK(hm_handler_remove());
	slow_end(&slow);
out:
	free(x);
}

/* Pieces of a range that is for windows, which a ring reads, are begun before they are copied. */
static void test_gathered(void)
{
	struct hm_reader_desc desc = reader_desc(HM_PATTERN_SEQUENTIAL, HM_POLICY_URING, 0, 0);
	static char to[16 * 4096], is[4096];
	struct hm_piece pieces[16];
	struct hm_reader *reader;
	struct slow slow;
	uint32_t i;

	if (!slow_begin(&slow))
		return;
	CHECK_OK_FATAL(hm_reader_open(slow.path, &desc, &reader));
	for (i = 0; i < 16; i++)
		pieces[i] = (struct hm_piece){ .offset = i * MIB(1), .bytes = sizeof(is) };
	CHECK_OK(hm_reader_gather(reader, pieces, 16, to));
	CHECK(slow.scene.faults->at_most >= AT_ONCE);
	for (i = 0; i < 16; i++) {
		reader_fill(is, i * MIB(1), sizeof(is));
		CHECK(!memcmp(to + i * sizeof(is), is, sizeof(is)));
	}
	hm_reader_unref(reader);
	slow_end(&slow);
}

/* ---- limits of the storage ---- */

#define DISK "/sys/dev/block/4711:2/../queue/"

static struct sys_table real;
static const char *told; /* a file, in the place of those of a disk that is not there */

static int open_of_disk(const char *path, int flags, mode_t mode)
{
	bool ahead = !strcmp(path, DISK "read_ahead_kb");

	return real.open(ahead || !strcmp(path, DISK "max_sectors_kb") ? told : path, flags,
			 mode);
}

/* The kernel knows its disk, and its own number among partitions alone. */
static void test_partition(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = folder_path(folder, "kib");

	file_write(folder, "kib", "4096\n", 5);
	CHECK_EQUAL(announce_read_ahead(makedev(4711, 2)), 0);
	told = path;
	real = sys_table;
	sys_table.open = open_of_disk;
	CHECK_EQUAL(announce_read_ahead(makedev(4711, 2)), MIB(4));
	CHECK_EQUAL(announce_step(makedev(4711, 2)), MIB(4));
	CHECK_EQUAL(announce_step(makedev(4711, 3)), 128 * 1024);
	sys_table = real;
}

/* A missing file of sysfs is no shortcoming to warn of. */
static void test_no_text(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = reader_file(folder, "data", SIZE);
	struct hm_reader *reader;
	AUTO(hm_buffer) *buffer = NULL;

	CHECK_OK_FATAL(hm_reader_open(path, NULL, &reader));
	CHECK_EQUAL(*hm_errmsg(), 0);
	hm_reader_unref(reader);
	AUTO(hm_map) *map = map_whole(path, &buffer);
	real = sys_table;
	told = "/nonexistent";
	sys_table.open = open_of_disk;
	CHECK_OK(hm_map_advise(map, 0, SIZE, HM_ADVICE_WILLNEED));
	CHECK_EQUAL(*hm_errmsg(), 0);
	sys_table = real;
}

static const struct test tests[] = {
	{ "partition", test_partition, 10, 0 },
	{ "no_text", test_no_text, 10, 0 },
	{ "gathered", test_gathered, 60, 0 },
	{ "advised", test_advised, 60, 0 },
	{ "prefetched", test_prefetched, 60, 0 },
	{ "tokens", test_tokens, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "announce", tests)
