// SPDX-License-Identifier: MIT
/* Pools as their users see them: sizes, addresses, refused calls, limits, trims, the end. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/pool_support.h"

/* Every size: an address that is found, with base, length and pool; and not beyond. */
static void sizes(void)
{
	AUTO(hm_pool) *pool = pool_make("host", 0, 0);
	struct hm_pointer_info at;
	uint64_t size;

	for (size = 1; size <= MIB(40); size += 1 + size / 7) {
		struct hm_pointer_detail detail = { .struct_size = sizeof(detail) };
		unsigned char *bytes = pool_take(pool, size);

		CHECK_EQUAL((uintptr_t)bytes % 16, 0);
		pattern_write(bytes, 0, size, 1);
		CHECK(pattern_holds(bytes, 0, size, 1));
		CHECK_EQUAL(hm_pointer_find(bytes + size - 1, &at), 0);
		CHECK(at.base == bytes && at.pool == pool);
		CHECK_EQUAL(at.length, size);
		CHECK(hm_map_address(at.map) == (char *)bytes + size - 1 - at.map_offset);
		CHECK_OK(hm_pointer_query(bytes + size / 2, &detail));
		CHECK(detail.info.base == bytes && detail.info.pool == pool);
		CHECK_EQUAL(hm_pointer_find(bytes + size, &at), -ENOENT);
		if (size % 2)
			CHECK_OK(hm_pool_free(pool, bytes));
		else
			CHECK_OK(hm_free(bytes));
		CHECK_EQUAL(hm_pointer_find(bytes, &at), -ENOENT);
		CHECK_ERROR(-ENOENT, hm_pointer_query(bytes, &detail));
	}
	CHECK_EQUAL(pool_info(pool).allocations, 0);
	CHECK_EQUAL(pool_info(pool).live, 0);
}

static void alignments(void)
{
	AUTO(hm_pool) *pool = pool_make("host", 0, 0);
	struct hm_pointer_info at;
	uint64_t alignment, size;
	unsigned int i, n = 0;
	void *kept[1024];

	for (alignment = 1; alignment <= MIB(8); alignment *= 2)
		for (size = 1; size <= MIB(2); size = size * 5 + 3) {
			CHECK_OK_FATAL(hm_pool_alloc(pool, size, alignment, &kept[n]));
			CHECK_EQUAL((uintptr_t)kept[n] % alignment, 0);
			CHECK_EQUAL(hm_pointer_find(kept[n], &at), 0);
			CHECK_EQUAL(at.length, size);
			n++;
		}
	for (i = 0; i < n; i++)
		CHECK_OK(hm_pool_free(pool, kept[i]));
	CHECK_ERROR(-EINVAL, hm_pool_alloc(pool, 1, 24, &kept[0]));
	CHECK_ERROR(-EINVAL, hm_pool_alloc(pool, 1, MIB(2048), &kept[0]));
}

static void refused_desc(uint32_t flags, uint64_t limit, uint64_t block, uint64_t alignment,
			 const char *name)
{
	struct hm_pool *pool = NULL;
	AUTO(hm_device) *device = rig_device("host");

	CHECK_ERROR(-EINVAL, hm_pool_create(device,
					    DESC(hm_pool_desc, .flags = flags, .name = name,
						 .limit = limit, .block_size = block,
						 .alignment = alignment),
					    &pool));
	CHECK(!pool && hm_errmsg()[0]);
}

static void refuses(void)
{
	static const char name[] = "a name that has one byte more than a pool may...";
	struct hm_pool *pool = pool_make("host", 0, 0), *other = pool_make("host", 0, 0),
		       *none = NULL;
	struct hm_pool_info info = { .struct_size = sizeof(info) + 8 };
	char *bytes = pool_take(pool, 100), *beside = pool_take(pool, 100), *map, local;
	struct hm_device *device;

	refused_desc(2, 0, 0, 0, NULL);
	refused_desc(0, 1, 0, 0, NULL);
	refused_desc(0, 0, 5000, 0, NULL);
	refused_desc(0, 0, MIB(2048), 0, NULL);
	refused_desc(0, 0, 0, 48, NULL);
	CHECK_EQUAL(strlen(name), 48);
	refused_desc(0, 0, 0, 0, "a name that has one byte more than a pool may...!");
	CHECK_OK_FATAL(hm_device_open("file", &device));
	CHECK_ERROR(-EOPNOTSUPP, hm_pool_create(device, NULL, &none));
	hm_device_unref(device);
	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_ERROR(-EINVAL, hm_pool_create(device, NULL, NULL));
	CHECK_OK_FATAL(hm_alloc(device, 100, HM_READ | HM_WRITE, &map));
	CHECK_ERROR(-EINVAL, hm_pool_create((struct hm_device *)pool, NULL, &none));
	CHECK_ERROR(-EINVAL, hm_pool_alloc((struct hm_pool *)device, 1, 0, &bytes));
	hm_device_unref(device);

	CHECK_ERROR(-EINVAL, hm_pool_alloc(pool, 0, 0, &bytes));
	CHECK_ERROR(-EINVAL, hm_pool_alloc(pool, UINT64_MAX, 0, &bytes));
	CHECK_ERROR(-EINVAL, hm_pool_alloc(pool, 1, 0, NULL));
	CHECK_ERROR(-EINVAL, hm_pool_alloc(NULL, 1, 0, &bytes));
	CHECK_ERROR(-E2BIG, hm_pool_query(pool, &info));
	CHECK_ERROR(-EINVAL, hm_pool_query(pool, NULL));
	CHECK_ERROR(-EINVAL, hm_pool_trim(NULL, 0, NULL));

	CHECK_OK(hm_pool_free(pool, NULL));
	CHECK_ERROR(-EINVAL, hm_pool_free(pool, bytes + 1));
	CHECK(strstr(hm_errmsg(), "1 bytes into the allocation of 100 bytes"));
	CHECK_ERROR(-EINVAL, hm_pool_free(other, bytes));
	CHECK(strstr(hm_errmsg(), "belongs to pool tested"));
	CHECK_ERROR(-EINVAL, hm_pool_free(pool, map));
	CHECK(strstr(hm_errmsg(), "is in no pool"));
	CHECK_ERROR(-EINVAL, hm_pool_free(pool, &local));
	CHECK_ERROR(-EINVAL, hm_pool_free(pool, (void *)~(uintptr_t)0));
	CHECK_ERROR(-EINVAL, hm_pool_realloc(pool, bytes, 0, 0, NULL));
	CHECK_ERROR(-EINVAL, hm_pool_realloc(pool, bytes, 1, 8, NULL));
	CHECK_ERROR(-EINVAL, hm_pool_realloc(pool, map, 1, 0, NULL));
	CHECK_OK(hm_pool_free(pool, bytes));
	CHECK_ERROR(-EINVAL, hm_pool_free(pool, bytes));
	CHECK(strstr(hm_errmsg(), "was freed already"));
	CHECK_ERROR(-EINVAL, hm_free(bytes));
	CHECK_ERROR(-EINVAL, hm_pool_realloc(pool, bytes, 1, 0, NULL));
	/* In its block, too, and not only in this thread's cache. */
	CHECK_OK(hm_pool_trim(pool, 0, NULL));
	CHECK_ERROR(-EINVAL, hm_pool_free(pool, bytes));
	CHECK_OK(hm_free(beside));
	CHECK_OK(hm_pool_trim(pool, 0, NULL));
	CHECK_ERROR(-EINVAL, hm_pool_free(pool, beside));
	CHECK_OK(hm_free(map));
	hm_pool_unref(other);
	hm_pool_unref(pool);
}

#if TEST_ASAN
#include <sanitizer/asan_interface.h>
#else
static int __asan_address_is_poisoned(const volatile void *address)
{
	(void)address;
	return -1;
}
#endif

static void check_poison(const char *bytes, bool wanted)
{
	if (TEST_ASAN)
		CHECK_EQUAL(!!__asan_address_is_poisoned(bytes), wanted);
}

/* Under AddressSanitizer bytes are poisoned unless they are in an allocation. */
static void poisons(void)
{
	AUTO(hm_pool) *pool = pool_make("host", 0, 0);
	char *bytes = pool_take(pool, 100);

	check_poison(bytes + 99, false);
	check_poison(bytes + 104, true); /* in the same object */
	CHECK_OK(hm_pool_realloc(pool, bytes, 110, 0, NULL));
	check_poison(bytes + 109, false);
	CHECK_OK(hm_pool_realloc(pool, bytes, 50, 0, NULL));
	check_poison(bytes + 49, false);
	check_poison(bytes + 56, true);
	CHECK_OK(hm_pool_free(pool, bytes));
	check_poison(bytes, true);
	CHECK_OK(hm_pool_trim(pool, 0, NULL));
	check_poison(bytes, false); /* no more of a pool */
}

/* The limit holds for blocks, and the text names the holder of the memory. */
static void limit(void)
{
	AUTO(hm_pool) *pool = pool_make("host", MIB(3), 0);
	static void *kept[800];
	struct hm_pool_info info;
	unsigned int n;
	char *last = NULL;
	int r;

	for (n = 0; n < 800; n++) {
		r = hm_pool_alloc(pool, 4096, 0, &kept[n]);
		if (r)
			break;
	}
	CHECK_EQUAL(r, -ENOSPC);
	CHECK_ERROR(-ENOSPC, hm_pool_alloc(pool, 4096, 0, &last));
	CHECK(strstr(hm_errmsg(), "pool tested: no room for 4096 bytes: its limit is 3145728"));
	CHECK(strstr(hm_errmsg(), "allocations of up to 4096 bytes hold"));
	CHECK(strstr(hm_errmsg(), "bytes more than it freed"));
	CHECK(strstr(hm_errmsg(), "hm_pool_desc.limit"));
	info = pool_info(pool);
	CHECK_EQUAL(info.held, MIB(3));
	CHECK_EQUAL(info.held_peak, MIB(3));
	CHECK(n >= 750);
	CHECK_EQUAL(info.allocations, n);
	/* As before: a failure changes nothing. */
	CHECK_ERROR(-ENOSPC, hm_pool_alloc(pool, MIB(4), 0, &last));
	CHECK_EQUAL(pool_info(pool).allocations, n);
	/* Objects in this thread's cache are joined to serve another size. */
	while (n)
		CHECK_OK(hm_pool_free(pool, kept[--n]));
	last = pool_take(pool, 1500 * 1024);
	CHECK_OK(hm_pool_free(pool, last));
}

static void trims(void)
{
	AUTO(hm_pool) *pool = pool_make("host", 0, 0);
	struct hm_pool_info info;
	static void *kept[64];
	uint64_t bytes = 1;
	unsigned int i;

	for (i = 0; i < 64; i++)
		kept[i] = pool_take(pool, MIB(1));
	info = pool_info(pool);
	CHECK(info.held >= MIB(64) && info.blocks > 1);
	CHECK_EQUAL(info.live, MIB(64));
	for (i = 1; i < 64; i++)
		CHECK_OK(hm_pool_free(pool, kept[i]));
	CHECK(pool_info(pool).held < MIB(32)); /* one empty block is kept, and no more */
	CHECK_OK(hm_pool_trim(pool, UINT64_MAX, &bytes));
	CHECK_EQUAL(bytes, 0);
	CHECK_OK(hm_pool_trim(pool, 0, &bytes));
	CHECK(bytes > 0);
	CHECK_EQUAL(pool_info(pool).blocks, 1);
	CHECK_EQUAL(pool_info(pool).cached, 0);
	CHECK_OK(hm_pool_free(pool, kept[0]));
	CHECK_OK(hm_pool_trim(pool, 0, NULL));
	info = pool_info(pool);
	CHECK_EQUAL(info.held + info.blocks, 0);
	CHECK(info.live_peak >= MIB(64) - MIB(1) && info.held_peak >= MIB(64));
	CHECK_EQUAL(info.allocated, 64);
}

static void resizes(void)
{
	static const uint64_t sizes[] = { 1,      20,      100,     3000,     40000,
					  300000, 2000000, 5000000, 2500001,  70000,
					  1,      16,      17,      20000000, 100 };
	struct hm_pool *pool = pool_make("host", 0, 0);
	char *bytes = pool_take(pool, 1), *again = NULL, *neighbour;
	struct hm_pointer_info at;
	uint64_t had = 1;
	size_t i;

	/* The pool stays while one reference is left. */
	CHECK(hm_pool_ref(pool) == pool && !hm_pool_ref(NULL));
	hm_pool_unref(pool);
	pattern_write(bytes, 0, 1, 3);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		CHECK_OK_FATAL(hm_pool_realloc(pool, bytes, sizes[i], HM_MAY_MOVE, &again));
		bytes = again;
		CHECK(pattern_holds(bytes, 0, had < sizes[i] ? had : sizes[i], 3));
		pattern_write(bytes, 0, sizes[i], 3);
		had = sizes[i];
		CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
		CHECK_EQUAL(at.length, had);
		CHECK_EQUAL(pool_info(pool).live, had);
		CHECK_EQUAL(pool_info(pool).allocations, 1);
	}
	CHECK_OK(hm_pool_free(pool, bytes));
	/* In place: pages behind the allocation, while they are free. */
	bytes = pool_take(pool, MIB(2));
	CHECK_OK(hm_pool_realloc(pool, bytes, MIB(3), 0, &again));
	CHECK(again == bytes);
	CHECK_OK(hm_realloc(bytes, MIB(1), 0, NULL));
	neighbour = pool_take(pool, 2 * MIB(1));
	CHECK_ERROR(-ENOSPC, hm_pool_realloc(pool, bytes, MIB(16), 0, &again));
	CHECK(strstr(hm_errmsg(), "HM_MAY_MOVE"));
	CHECK(again == bytes);
	CHECK_OK(hm_free(neighbour));
	CHECK_OK(hm_free(bytes));
	CHECK_EQUAL(pool_info(pool).live, 0);
	hm_pool_unref(pool);
}

static void zeroes(void)
{
	struct hm_pool_desc desc = { .struct_size = sizeof(desc), .flags = HM_POOL_ZERO };
	struct hm_device *device;
	unsigned char *bytes;
	uint64_t size;
	int round;
	AUTO(hm_pool) *pool = NULL;

	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_pool_create(device, &desc, &pool));
	hm_device_unref(device);
	for (round = 0; round < 3; round++)
		for (size = 1; size < MIB(3); size = size * 3 + 1) {
			bytes = pool_take(pool, size);
			CHECK(is_zero(bytes, 0, size));
			memset(bytes, 0xff, size);
			CHECK_OK(hm_pool_realloc(pool, bytes, size + 50, HM_MAY_MOVE, &bytes));
			CHECK(is_zero(bytes, size, size + 50));
			memset(bytes, 0xff, size + 50);
			CHECK_OK(hm_pool_free(pool, bytes));
		}
}

/* Allocations outlive the pool's last reference, and the device's. */
static void outlives(void)
{
	struct hm_stats before = stats_now();
	struct hm_pool *pool = pool_make("host", 0, 0);
	struct hm_pointer_info at;
	char *one = pool_take(pool, 100), *two = pool_take(pool, MIB(3)),
	     *three = pool_take(pool, 100), *four = NULL;

	CHECK_OK(hm_free(three));
	hm_pool_unref(pool);
	one[99] = two[MIB(3) - 1] = 1;
	CHECK_EQUAL(hm_pointer_find(one + 50, &at), 0);
	CHECK(at.base == one);
	CHECK_OK(hm_realloc(one, 90, 0, NULL));
	CHECK_ERROR(-ENOSPC, hm_realloc(one, 5000, HM_MAY_MOVE, NULL));
	/* Becoming shorter takes no memory. */
	CHECK_OK(hm_realloc(one, 10, HM_MAY_MOVE, &four));
	CHECK(four == one && !hm_errmsg()[0]);
	CHECK_EQUAL(hm_pointer_find(one, &at), 0);
	CHECK_EQUAL(at.length, 10);
	CHECK_OK(hm_free(two));
	CHECK_ERROR(-EINVAL, hm_free(three));
	CHECK_EQUAL(stats_now().devices, before.devices + 1);
	CHECK_OK(hm_free(one));
	CHECK_EQUAL(stats_now().devices, before.devices);
	CHECK_EQUAL(stats_now().buffers, before.buffers);
	CHECK_EQUAL(stats_now().maps, before.maps);
	CHECK_ERROR(-EINVAL, hm_free(one));
}

/* hm_alloc() out of the device's own pool, which ends with the device. */
static void pooled_alloc(void)
{
	const uint32_t pooled = HM_READ | HM_WRITE | HM_ALLOC_POOLED;
	struct hm_stats before = stats_now();
	struct hm_pointer_info at, other;
	struct hm_device *device;
	char *bytes, *more, *large;

	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_ERROR(-EINVAL, hm_alloc(device, 10, HM_READ | HM_ALLOC_POOLED, &bytes));
	CHECK_OK_FATAL(hm_alloc(device, 1000, pooled, &bytes));
	CHECK_OK_FATAL(hm_alloc(device, 1000, pooled, &more));
	CHECK_OK_FATAL(hm_alloc(device, MIB(1) + 1, pooled, &large));
	CHECK(is_zero(bytes, 0, 1000));
	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	CHECK_EQUAL(hm_pointer_find(more, &other), 0);
	CHECK(at.map == other.map && at.pool && at.base == bytes && at.length == 1000);
	CHECK_EQUAL(hm_pointer_find(large, &other), 0);
	CHECK(!other.pool && other.map != at.map);
	memset(bytes, 1, 1000);
	CHECK_OK(hm_free(bytes));
	CHECK_OK_FATAL(hm_alloc(device, 1000, pooled, &bytes));
	CHECK(is_zero(bytes, 0, 1000));
	CHECK_OK(hm_free(bytes));
	CHECK_OK(hm_free(large));
	hm_device_unref(device);
	/* An allocation holds the device, and cached memory does not. */
	CHECK_EQUAL(stats_now().devices, before.devices + 1);
	CHECK_EQUAL(stats_now().maps, before.maps + 1);
	more[999] = 1;
	CHECK_OK(hm_free(more));
	CHECK_EQUAL(stats_now().devices, before.devices);
	CHECK_EQUAL(stats_now().maps, before.maps);

	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_alloc(device, 1000, pooled, &bytes));
	CHECK_OK(hm_free(bytes));
	hm_device_unref(device);
	CHECK_EQUAL(stats_now().devices, before.devices);
	CHECK_EQUAL(stats_now().buffers, before.buffers);
}

/* The device's own pool stays while anyone has a reference on it, and the device with it. */
static void pooled_ref(void)
{
	struct hm_stats before = stats_now();
	struct hm_device *device;
	struct hm_pointer_info at;
	struct hm_pool *pool;
	char *bytes, *more;

	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_alloc(device, 100, HM_READ | HM_WRITE | HM_ALLOC_POOLED, &bytes));
	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	pool = hm_pool_ref(at.pool);
	CHECK_OK(hm_free(bytes));
	hm_device_unref(device);
	CHECK_EQUAL(stats_now().devices, before.devices + 1);
	more = pool_take(pool, 100);
	CHECK_EQUAL(pool_info(pool).allocated, 2);
	CHECK_OK(hm_pool_free(pool, more));
	hm_pool_unref(pool);
	CHECK_EQUAL(stats_now().devices, before.devices);
	CHECK_EQUAL(stats_now().maps, before.maps);
}

static void blocks_of(const char *device, uint64_t least, uint64_t most)
{
	AUTO(hm_pool) *pool = pool_make(device, 0, 0);
	struct hm_pool_info info = pool_info(pool);

	CHECK_EQUAL(info.block_least, least);
	CHECK_EQUAL(info.block_most, most);
	CHECK_EQUAL(info.blocks, 0);
	CHECK(!strcmp(info.name, "tested"));
}

/* The length of blocks by kind of device, and by the description. */
static void blocks(void)
{
	struct hm_pointer_info at;
	struct hm_pool_info info;
	char *bytes;

	blocks_of("host", MIB(2), MIB(32));
	AUTO(hm_pool) *pool = pool_make("host", 0, KIB(64));
	bytes = pool_take(pool, 100);
	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	CHECK_EQUAL(hm_map_length(at.map), KIB(64));
	/* One that is longer than a block has a longer block. */
	CHECK_OK(hm_pool_free(pool, pool_take(pool, KIB(100))));
	info = pool_info(pool);
	CHECK_EQUAL(info.block_most, KIB(64));
	CHECK_EQUAL(info.held, KIB(64) + KIB(128));
	CHECK_OK(hm_pool_free(pool, bytes));
}

static void blocks_gpu(void)
{
	setenv("HETMAP_SOFT", "vram_mb=256 system_mb=64", 1);
	blocks_of("soft:0", MIB(128), MIB(128));
	/* A device with too little room for such a block has a shorter one. */
	AUTO(hm_pool) *pool = pool_make("soft:0", MIB(100), 0);
	CHECK_OK(hm_free(pool_take(pool, 100)));
	CHECK(pool_info(pool).held <= MIB(100));
}

static void blocks_small_gpu(void)
{
	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=16", 1);
	AUTO(hm_pool) *pool = pool_make("soft:0", 0, 0);
	CHECK_OK(hm_free(pool_take(pool, 100)));
	CHECK(pool_info(pool).held >= MIB(1) && pool_info(pool).held <= MIB(32));
}

/* A device that is full is not a limit of the pool's, and says so itself. */
static void device_full(void)
{
	char *bytes[64], *none = NULL;
	unsigned int n = 0;

	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=16", 1);
	AUTO(hm_pool) *pool = pool_make("soft:0", 0, 0);
	while (n < 64 && !hm_pool_alloc(pool, MIB(2), 0, &bytes[n]))
		n++;
	CHECK(n < 64);
	CHECK_ERROR(-ENOSPC, hm_pool_alloc(pool, MIB(2), 0, &none));
	CHECK(hm_errmsg()[0] && !strstr(hm_errmsg(), "limit is 0"));
	while (n)
		CHECK_OK(hm_pool_free(pool, bytes[--n]));
}

static void blocks_fpga(void)
{
	setenv("HETMAP_SOFT", "vram_mb=64 kind=fpga", 1);
	blocks_of("soft:0", KIB(64), MIB(4));
	AUTO(hm_pool) *pool = pool_make("soft:0", 0, 0);
	CHECK_OK(hm_free(pool_take(pool, 100)));
	CHECK_EQUAL(pool_info(pool).held, KIB(64));
}

static void blocks_nic(void)
{
	setenv("HETMAP_SOFT", "vram_mb=64 kind=nic", 1);
	blocks_of("soft:0", MIB(2), MIB(4));
}

/* Blocks have the pool's name in /proc/PID/maps. */
static void names(void)
{
	AUTO(hm_pool) *pool = pool_make("host", 0, 0);
	char *bytes = pool_take(pool, 100), line[512];
	FILE *maps = fopen("/proc/self/maps", "re");
	bool named = false;
	char *end;

	CHECK_FATAL(maps != NULL);
	while (fgets(line, sizeof(line), maps))
		if (strtoul(line, &end, 16) <= (uintptr_t)bytes &&
		    (uintptr_t)bytes < strtoul(end + 1, NULL, 16))
			named = strstr(line, "tested");
	CHECK(named);
	fclose(maps);
	CHECK_OK(hm_pool_free(pool, bytes));
}

/* A buffer of the pool can't be taken from under it. */
static void buffer_stays(void)
{
	AUTO(hm_pool) *pool = pool_make("host", 0, 0);
	char *bytes = pool_take(pool, 100);
	struct hm_pointer_info at;

	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	CHECK_EQUAL(at.buffer_offset, at.map_offset);
	CHECK(hm_buffer_resize(at.buffer, 4096, 0) == -EBUSY);
	CHECK(hm_buffer_resize(at.buffer, MIB(64), HM_MAY_MOVE) <= 0);
	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	CHECK(at.base == bytes);
	bytes[99] = 1;
	CHECK_OK(hm_pool_free(pool, bytes));
}

static const struct test tests[] = {
	{ .name = "sizes", .run = sizes },
	{ .name = "alignments", .run = alignments },
	{ .name = "refuses", .run = refuses },
	{ .name = "poisons", .run = poisons },
	{ .name = "limit", .run = limit },
	{ .name = "trims", .run = trims },
	{ .name = "resizes", .run = resizes },
	{ .name = "zeroes", .run = zeroes },
	{ .name = "outlives", .run = outlives },
	{ .name = "pooled_alloc", .run = pooled_alloc },
	{ .name = "pooled_ref", .run = pooled_ref },
	{ .name = "blocks", .run = blocks },
	{ .name = "blocks_gpu", .run = blocks_gpu },
	{ .name = "blocks_small_gpu", .run = blocks_small_gpu },
	{ .name = "device_full", .run = device_full },
	{ .name = "blocks_fpga", .run = blocks_fpga },
	{ .name = "blocks_nic", .run = blocks_nic },
	{ .name = "names", .run = names },
	{ .name = "buffer_stays", .run = buffer_stays },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "pool", tests)
