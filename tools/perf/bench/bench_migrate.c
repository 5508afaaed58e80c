// SPDX-License-Identifier: MIT
/*
 * migrate: pages of the process to an engine's memory and back, and dev_tlb: translations of an
 * engine, on sim:0 and soft:0.
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
#include "peer.h"

#define PIECE MIB(16) /* fits a device's memory, where that is small */

#define FILL_STEP                                                                 \
	{                                                                         \
		.op = HM_ENGINE_FILL, .destination = 1, .source = HM_ENGINE_NONE, \
		.source2 = HM_ENGINE_NONE, .length = HM_ENGINE_NONE, .value = 0,  \
	}

static const struct hm_engine_step fill_step = FILL_STEP;

static const struct hm_kernel_desc fill = {
	.struct_size = sizeof(fill),
	.name = "fill",
	.signature = "u32 inout",
	.engine = &fill_step,
	.n_engine = 1,
};

static char *small_pages(size_t length)
{
	char *bytes =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		return NULL;
	madvise(bytes, length, MADV_NOHUGEPAGE);
	bench_touch(bytes, length, PAGE);
	return bytes;
}

/* ---- migrate ---- */

struct migrate {
	struct engine engine;
	char *bytes, *there;
	size_t length;
};

static int migrate_ours(void *user, double *ret_ns)
{
	const struct migrate *migrate = user;
	double start = bench_now();
	size_t at;
	int r = 0;

	for (at = 0; !r && at < migrate->length; at += PIECE) {
		char *piece = migrate->bytes + at;

		r = hm_range_prefetch(piece, PIECE, migrate->engine.accel, HM_READ | HM_WRITE,
				      NULL);
		if (!r)
			r = hm_range_prefetch(piece, PIECE, migrate->engine.accel,
					      HM_RANGE_BACK, NULL);
	}
	*ret_ns = bench_now() - start;
	return r;
}

static int migrate_peer(void *user, double *ret_ns)
{
	const struct migrate *migrate = user;

	*ret_ns = peer_there_and_back(migrate->bytes, migrate->there, migrate->length, PIECE);
	return 0;
}

static int migrate_measure(struct migrate *migrate, const char *name)
{
	struct hm_range_counts before = { .struct_size = sizeof(before) }, after = before;
	struct bench_pair pair = {
		.name = name,
		.peer = "two memcpy() of the same bytes",
		.ours = migrate_ours,
		.peer_side = migrate_peer,
		.rounds = 9,
		.warm_up = 1,
	};
	struct bench_figures figures;
	int r;

	r = hm_range_counts_get(migrate->engine.accel, &before);
	if (!r)
		r = bench_measure(&pair, migrate, &figures);
	if (!r)
		r = hm_range_counts_get(migrate->engine.accel, &after);
	if (r)
		return bench_fail(name, r, true);
	if (after.moved_in - before.moved_in < migrate->length) {
		bench_skip(name, "the device had no room to move %zu MiB at a time",
			   PIECE >> 20);
		return 0;
	}
	bench_report_pair(&pair, &figures, "ms", 1e6, TARGET_NONE, 0);
	return 0;
}

static int migrate_on(const char *device, const char *name)
{
	struct migrate migrate = { .length = bench_options.small ? PIECE : MIB(256) };
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	int r;

	r = engine_open(&migrate.engine, device, name, &fill);
	if (r)
		return r == -ENODEV ? 0 : r;
	migrate.bytes = small_pages(migrate.length);
	migrate.there = small_pages(PIECE);
	if (!migrate.bytes || !migrate.there)
		r = bench_fail(name, -ENOMEM, false);
	else if (hm_accel_query(migrate.engine.accel, &info) || !(info.caps & HM_ACCEL_MIGRATE))
		bench_skip(name,
			   "pages are used where they are: hetsim without bar= (tools/vm --bar "
			   "has it), and no kernel with CONFIG_DEVICE_PRIVATE");
	else
		r = migrate_measure(&migrate, name);
	if (migrate.bytes)
		munmap(migrate.bytes, migrate.length);
	if (migrate.there)
		munmap(migrate.there, PIECE);
	engine_close(&migrate.engine);
	return r;
}

int bench_migrate(void)
{
	int r = migrate_on("soft:0", "soft:0, in its books");

	return r ? r : migrate_on("sim:0", "sim:0");
}

/* ---- dev_tlb ---- */

#define STEPS 16
#define HIT_PAGES 32 /* half of the engine's TLB */

/* The same range, over and over, in one launch. */
static const struct hm_engine_step often[STEPS] = {
	FILL_STEP, FILL_STEP, FILL_STEP, FILL_STEP, FILL_STEP, FILL_STEP, FILL_STEP, FILL_STEP,
	FILL_STEP, FILL_STEP, FILL_STEP, FILL_STEP, FILL_STEP, FILL_STEP, FILL_STEP, FILL_STEP,
};

static const struct hm_kernel_desc fill_often = {
	.struct_size = sizeof(fill_often),
	.name = "fill often",
	.signature = "u32 inout",
	.engine = often,
	.n_engine = STEPS,
};

struct tlb {
	struct engine engine;
	struct hm_kernel *often;
	char *bytes, *plain;
};

/* The time of a page. */
static int fill_range(const struct tlb *tlb, struct hm_kernel *kernel, size_t length,
		      double *ret_ns)
{
	struct hm_fence *fence;
	double start = bench_now();
	int r;

	r = hm_launch(tlb->engine.queue, kernel, length / 4, &fence, HM_U32(1),
		      HM_ANY(tlb->bytes, length, HM_READ | HM_WRITE));
	if (!r) {
		r = hm_fence_wait(fence, UINT64_MAX);
		hm_fence_unref(fence);
	}
	*ret_ns = (bench_now() - start) / (HIT_PAGES * STEPS);
	return r;
}

static int tlb_hit(void *user, double *ret_ns)
{
	const struct tlb *tlb = user;

	return fill_range(tlb, tlb->often, HIT_PAGES * PAGE, ret_ns);
}

/* As many pages, each of which takes the place of another one in the TLB. */
static int tlb_miss(void *user, double *ret_ns)
{
	const struct tlb *tlb = user;

	return fill_range(tlb, tlb->engine.kernel, HIT_PAGES * STEPS * PAGE, ret_ns);
}

/* Rights are taken from pages that the engine has just used. */
static int tlb_shoot(void *user, double *ret_ns)
{
	const struct tlb *tlb = user;
	int r = tlb_hit(user, ret_ns);

	return r ? r : peer_take_pages(tlb->bytes, HIT_PAGES * PAGE, ret_ns);
}

static int tlb_none(void *user, double *ret_ns)
{
	const struct tlb *tlb = user;

	peer_touch(tlb->plain, HIT_PAGES * PAGE);
	return peer_take_pages(tlb->plain, HIT_PAGES * PAGE, ret_ns);
}

static int tlb_measure(struct tlb *tlb, const char *device)
{
	char miss[48], shoot[48];
	const struct bench_pair pairs[] = {
		{ .name = miss,
		  .peer = "pages that the engine's TLB has",
		  .ours = tlb_miss,
		  .peer_side = tlb_hit,
		  .rounds = 200,
		  .warm_up = 10 },
		{ .name = shoot,
		  .peer = "mprotect of pages that no device has",
		  .ours = tlb_shoot,
		  .peer_side = tlb_none,
		  .rounds = 200,
		  .warm_up = 10 },
	};
	int r;

	snprintf(miss, sizeof(miss), "%s, a page that it has not", device);
	snprintf(shoot, sizeof(shoot), "%s, a page shot down", device);
	r = bench_compare(&pairs[0], tlb, "ns", 1, TARGET_NONE, 0);
	return r ? r : bench_compare(&pairs[1], tlb, "ns", 1, TARGET_NONE, 0);
}

static int tlb_on(const char *device)
{
	struct tlb tlb = { 0 };
	int r;

	r = engine_open(&tlb.engine, device, device, &fill);
	if (r)
		return r == -ENODEV ? 0 : r;
	tlb.bytes = small_pages(HIT_PAGES * STEPS * PAGE);
	tlb.plain = small_pages(HIT_PAGES * PAGE);
	r = tlb.bytes && tlb.plain ? hm_kernel_create(&fill_often, &tlb.often) : -ENOMEM;
	r = r ? bench_fail(device, r, true) : tlb_measure(&tlb, device);
	hm_kernel_unref(tlb.often);
	if (tlb.bytes)
		munmap(tlb.bytes, HIT_PAGES * STEPS * PAGE);
	if (tlb.plain)
		munmap(tlb.plain, HIT_PAGES * PAGE);
	engine_close(&tlb.engine);
	return r;
}

int bench_dev_tlb(void)
{
	int r = tlb_on("soft:0");

	return r ? r : tlb_on("sim:0");
}
