// SPDX-License-Identifier: MIT
/*
 * What is announced is read, all of it: of one madvise() the kernel takes no more than the
 * device reads ahead, 128 KiB here, as FUSE has it by default.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuse_support.h"
#include "reader_support.h"
#include "tokens_support.h"

#define SIZE (16 * MIB)
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
	slow->scene.faults->slow_ms = 20;
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
	struct hm_map *map;

	CHECK_OK_FATAL(hm_device_open("file", &device));
	CHECK_OK_FATAL(hm_buffer_from_file(device, path, -1, NULL, ret_buffer));
	hm_device_unref(device);
	CHECK_OK_FATAL(hm_map_create(*ret_buffer, NULL, &map));
	return map;
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
	const struct hm_batches_desc desc = {
		.struct_size = sizeof(desc),
		.order = HM_BATCHES_IN_ORDER,
		.dtype = HM_DTYPE_U16,
		.block = 2 * MIB,
		.batch = 1,
	};
	uint16_t *x = malloc(8 * MIB), *y = x + 2 * MIB;
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
		slow.scene.faults->at_most = 0;
		tokens = tokens_open(slow.path, NULL);
		CHECK_OK_FATAL(hm_batches_create(tokens, &desc, &batches));
		CHECK_OK(hm_batches_next(batches, x, y, NULL));
		CHECK(reader_is_data(x, 0, 4 * MIB));
		CHECK(slow.scene.faults->at_most >= AT_ONCE);
		hm_batches_unref(batches);
		hm_tokens_unref(tokens);
	}
	CHECK_OK(hm_handler_remove());
	slow_end(&slow);
out:
	free(x);
}

static const struct test tests[] = {
	{ "advised", test_advised, 60, 0 },
	{ "prefetched", test_prefetched, 60, 0 },
	{ "tokens", test_tokens, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "announce", tests);
}
