// SPDX-License-Identifier: MIT
/*
 * cache_gain: bytes that go between the host's memory and an engine's, for reads of which few pages
 * have the most, with a cache of hot pages in the engine's memory, on soft:0 and sim:0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "bench_engine.h"
#include "bench_options.h"

#define SHARE 8       /* the range is so many times as large as the cache */
#define READS 2       /* for each page of the range */
#define IN_FLIGHT 256 /* launches between two waits */

static const struct hm_engine_step crc_step = {
	.op = HM_ENGINE_CRC32,
	.destination = 1,
	.source = 0,
	.source2 = HM_ENGINE_NONE,
	.length = HM_ENGINE_NONE,
	.value = HM_ENGINE_NONE,
};

static const struct hm_kernel_desc read_page = {
	.struct_size = sizeof(read_page),
	.name = "read_page",
	.signature = "in out",
	.engine = &crc_step,
	.n_engine = 1,
};

struct cache {
	struct engine engine;
	uint64_t n_pages;
	double *sums; /* of the weights up to each rank */
	char *bytes, *result;
};

/* A page by Zipf's law with exponent 1. Neighbours by rank are far from each other by address. */
static uint64_t next_page(const struct cache *cache, uint64_t *state)
{
	uint64_t low = 0, high = cache->n_pages - 1, middle;
	double x;

	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	x = (double)(*state >> 11) / (double)(1ull << 53) * cache->sums[high];
	while (low < high) {
		middle = (low + high) / 2;
		if (cache->sums[middle] < x)
			low = middle + 1;
		else
			high = middle;
	}
	return low * 40503 % cache->n_pages;
}

static int launch(struct cache *cache, uint64_t page, bool waits)
{
	struct hm_fence *fence;
	int r;

	r = hm_launch(cache->engine.queue, cache->engine.kernel, 1, &fence,
		      HM_ANY(cache->bytes + page * PAGE, PAGE, HM_READ),
		      HM_ANY(cache->result, 4, HM_WRITE));
	if (r)
		return r;
	if (waits)
		r = hm_fence_wait(fence, UINT64_MAX);
	hm_fence_unref(fence);
	return r;
}

static int read_all(struct cache *cache, uint64_t n)
{
	uint64_t i, state = 12345;
	int r = 0;

	for (i = 0; !r && i < n; i++)
		r = launch(cache, next_page(cache, &state),
			   i % IN_FLIGHT == IN_FLIGHT - 1 || i == n - 1);
	return r;
}

static int measure(struct cache *cache, const char *name)
{
	const uint64_t length = cache->n_pages * PAGE, n = READS * cache->n_pages;
	struct hm_range_counts counts = { .struct_size = sizeof(counts) };
	struct hm_accel *accel = cache->engine.accel;
	char note[160];
	double moved;
	int r;

	r = hm_range_advise(cache->bytes, length, accel, HM_RANGE_READ_MOSTLY, length / SHARE);
	if (!r)
		r = read_all(cache, n);
	if (!r)
		r = hm_range_counts_get(accel, &counts);
	if (r)
		return bench_fail(name, r, true);
	/* A miss reads a page at the host, or moves it. */
	moved = (double)(counts.cache_misses * PAGE + counts.moved_out);
	snprintf(note, sizeof(note), "%.0f MiB through %.0f MiB: %.1f %% hits",
		 (double)length / MIB(1), (double)length / SHARE / MIB(1),
		 100 * (double)counts.cache_hits /
			 (double)(counts.cache_hits + counts.cache_misses));
	bench_report(&(const struct bench_result){
		.name = name,
		.unit = "KiB a read",
		.value = moved / (double)n / KIB(1),
		.peer = "no cache: each read is the host's",
		.peer_value = (double)PAGE / KIB(1),
		.kind = TARGET_RATIO,
		.target = 0.5,
		.note = note,
	});
	return 0;
}

static int make(struct cache *cache)
{
	uint64_t i;

	cache->sums = calloc(cache->n_pages, sizeof(*cache->sums));
	cache->result =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cache->bytes = mmap(NULL, cache->n_pages * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!cache->sums || cache->result == MAP_FAILED || cache->bytes == MAP_FAILED)
		return -ENOMEM;
	madvise(cache->bytes, cache->n_pages * PAGE, MADV_NOHUGEPAGE);
	bench_touch(cache->bytes, cache->n_pages * PAGE, PAGE);
	for (i = 0; i < cache->n_pages; i++)
		cache->sums[i] = (i ? cache->sums[i - 1] : 0) + 1.0 / (double)(i + 1);
	return 0;
}

static int gain_on(const char *device, const char *name, uint64_t length)
{
	struct cache cache = { .n_pages = (bench_options.small ? MIB(4) : length) / PAGE,
			       .bytes = MAP_FAILED,
			       .result = MAP_FAILED };
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	int r;

	r = engine_open(&cache.engine, device, name, &read_page);
	if (r)
		return r == -ENODEV ? 0 : r;
	r = make(&cache);
	if (r)
		bench_fail(name, r, false);
	else if (hm_accel_query(cache.engine.accel, &info) || !(info.caps & HM_ACCEL_MIGRATE))
		bench_skip(name,
			   "pages are used where they are: hetsim without bar= (tools/vm --bar "
			   "has it), and no kernel with CONFIG_DEVICE_PRIVATE");
	else
		r = measure(&cache, name);
	if (cache.bytes != MAP_FAILED)
		munmap(cache.bytes, cache.n_pages * PAGE);
	if (cache.result != MAP_FAILED)
		munmap(cache.result, PAGE);
	free(cache.sums);
	engine_close(&cache.engine);
	return r;
}

/* A machine's BAR has 16 MiB and more for each device. */
int bench_cache_gain(void)
{
	int r = gain_on("soft:0", "soft:0, in its books", GIB(1));

	return r ? r : gain_on("sim:0", "sim:0", MIB(64));
}
