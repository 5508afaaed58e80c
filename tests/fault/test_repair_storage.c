// SPDX-License-Identifier: MIT
/* Replaced blocks, and bytes on storage: no call takes one for the other. */
#include <hetmap/file.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "lib/harness.h"
#include "fault/repair.h"
#include "lib/sim_devices.h"
#include "lib/support.h"

#define SIZE (3 * REPAIR_BLOCK)

/* A range that shows its bytes, and one that does not any more. */
static void check_shown(struct hm_map *map, uint64_t offset, uint64_t length)
{
	CHECK_OK(hm_map_sync(map, offset, length, 0));
	CHECK_OK(hm_map_sync(map, offset, length, HM_SYNC_ASYNC));
	CHECK_OK(hm_file_publish(map, offset, length));
	CHECK_OK(hm_file_refresh(map, offset, length));
}

static void check_replaced(struct hm_map *map, uint64_t offset, uint64_t length)
{
	CHECK_ERROR(-EIO, hm_map_sync(map, offset, length, 0));
	CHECK(strstr(hm_errmsg(), "make a new map"));
	CHECK_ERROR(-EIO, hm_map_sync(map, offset, length, HM_SYNC_ASYNC));
	CHECK_ERROR(-EIO, hm_file_publish(map, offset, length));
	CHECK(strstr(hm_errmsg(), "hm_file_publish: "));
	CHECK_ERROR(-EIO, hm_file_refresh(map, offset, length));
}

static bool file_has(int fd, uint64_t at, char value)
{
	char byte = (char)~value;

	return pread(fd, &byte, 1, (off_t)at) == 1 && byte == value;
}

/*
 * Stores for which the file has no room, as on a full disk: here it was cut. They go on, in pages
 * that are in no file, and each request for them reports it.
 */
static void stored(void)
{
	int fd = scratch_file(SIZE);
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_device) *device = rig_device("file");
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, NULL);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	volatile char *base = hm_map_address(map);

	check_shown(map, 0, SIZE);
	CHECK(!ftruncate(fd, (off_t)REPAIR_BLOCK));
	base[REPAIR_BLOCK + PAGE] = 7;
	CHECK(!ftruncate(fd, (off_t)SIZE));
	base[REPAIR_BLOCK + 2 * PAGE] = 8;
	base[0] = base[2 * REPAIR_BLOCK] = 9;
	/* From the first page of the block to its last. */
	check_replaced(map, REPAIR_BLOCK, PAGE);
	check_replaced(map, 2 * REPAIR_BLOCK - PAGE, PAGE);
	check_replaced(map, 0, SIZE);
	check_shown(map, 0, REPAIR_BLOCK);
	check_shown(map, 2 * REPAIR_BLOCK, REPAIR_BLOCK);
	CHECK(file_has(fd, 0, 9) && file_has(fd, 2 * REPAIR_BLOCK, 9));
	CHECK(file_has(fd, REPAIR_BLOCK + PAGE, 0) && file_has(fd, REPAIR_BLOCK + 2 * PAGE, 0));
	/* A new map is of the file. */
	hm_map_unref(map);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	base = hm_map_address(map);
	base[REPAIR_BLOCK + PAGE] = 7;
	check_shown(map, 0, SIZE);
	CHECK(file_has(fd, REPAIR_BLOCK + PAGE, 7));
	close(fd);
}

/* Memory without storage has nothing to write back, and shows other bytes than its own. */
static void without_storage(void)
{
	uint32_t handle;
	AUTO(hm_map) *map = NULL;

	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=16 test=1", 1);
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_device) *device = rig_device("soft:0");
	AUTO(hm_buffer) *buffer = sim_make(device, 2 * REPAIR_BLOCK, 0, &map);
	CHECK(!(buffer_info(buffer).caps & HM_CAP_SYNC));
	check_shown(map, 0, 2 * REPAIR_BLOCK);
	CHECK_OK(hm_sim_buffer(buffer, &handle));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, PAGE));
	CHECK_EQUAL(*((volatile char *)hm_map_address(map) + PAGE), 0);
	check_replaced(map, 0, PAGE);
	check_shown(map, REPAIR_BLOCK, REPAIR_BLOCK);
}

static const struct test tests[] = {
	{ "stored", stored, 0, 0 },
	{ "without_storage", without_storage, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "repair_storage", tests)
