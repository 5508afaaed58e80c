// SPDX-License-Identifier: MIT
/* The simulated devices: which pages the library's maps use. */
#include <errno.h>
#include <string.h>

#include "fault/repair.h"
#include "lib/sim_devices.h"

#define PAGES 64

static int sample(struct hm_device *device, struct hm_buffer *buffer, uint32_t action,
		  uint64_t n, uint32_t *counts)
{
	struct hetsim_buffer_sample sample = {
		.size = sizeof(sample),
		.action = action,
		.length = n * PAGE,
		.counts = (uintptr_t)counts,
	};

	CHECK_OK_FATAL(hm_sim_buffer(buffer, &sample.handle));
	return hm_sim_call(device, HETSIM_BUFFER_SAMPLE, &sample);
}

/* Samples of all maps, at their places in the buffer, however rights split them. */
static void test_maps(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, PAGES * PAGE, 2 * PAGES * PAGE, &map);
	uint32_t counts[PAGES], i, wrong = 0;
	char *base = hm_map_address(map), *part_base;
	AUTO(hm_map) *part = rig_map(buffer, DESC(hm_map_desc, .access = HM_READ | HM_WRITE,
						  .offset = 32 * PAGE, .length = 8 * PAGE));

	part_base = hm_map_address(part);
	pattern_write(base, 0, PAGES * PAGE, 1);
	CHECK_ERROR(-ENOENT, sample(device, buffer, HETSIM_SAMPLE_READ, PAGES, counts));
	CHECK_OK_FATAL(sample(device, buffer, HETSIM_SAMPLE_START, 0, NULL));
	CHECK_OK(hm_map_protect(map, 10 * PAGE, 4 * PAGE, HM_READ));
	base[3 * PAGE] = base[33 * PAGE] = 1;
	part_base[PAGE] = part_base[2 * PAGE] = 1;
	CHECK_OK(sample(device, buffer, HETSIM_SAMPLE_READ, PAGES, counts));
	for (i = 0; i < PAGES; i++)
		wrong += counts[i] != (i == 33 ? 2u : i == 3 || i == 34);
	CHECK_EQUAL(wrong, 0);
	/* A change of length ends it. */
	CHECK_OK(hm_buffer_resize(buffer, 2 * PAGES * PAGE, 0));
	CHECK_ERROR(-ENOENT, sample(device, buffer, HETSIM_SAMPLE_READ, PAGES, counts));
	CHECK(pattern_holds(base, 34 * PAGE + 1, PAGES * PAGE, 1));
}

/* Locked pages keep their page-table entries. */
static void test_locked(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, PAGES * PAGE, 0, &map);
	uint32_t counts[PAGES];

	if (buffer_info(buffer).caps & HM_CAP_LOCK) {
		CHECK_OK(hm_map_lock(map, 8 * PAGE, PAGE, 0, NULL));
		CHECK_ERROR(-EBUSY, sample(device, buffer, HETSIM_SAMPLE_START, 0, NULL));
		CHECK_ERROR(-ENOENT, sample(device, buffer, HETSIM_SAMPLE_READ, 1, counts));
		CHECK_OK(hm_map_unlock(map, 8 * PAGE, PAGE));
	}
	CHECK_OK(sample(device, buffer, HETSIM_SAMPLE_START, 0, NULL));
	if (buffer_info(buffer).caps & HM_CAP_LOCK) {
		CHECK_OK(hm_map_lock(map, 8 * PAGE, PAGE, 0, NULL));
		CHECK_ERROR(-EBUSY, sample(device, buffer, HETSIM_SAMPLE_READ, PAGES, counts));
		CHECK_OK(sample(device, buffer, HETSIM_SAMPLE_READ, 8, counts)); /* before it */
	}
	CHECK_OK(sample(device, buffer, HETSIM_SAMPLE_STOP, 0, NULL));
}

/* Pages that replaced lost ones are not the buffer's: they keep their stores. */
static void test_replaced(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, 2 * REPAIR_BLOCK, 0, &map);
	uint32_t counts[2 * REPAIR_BLOCK / PAGE], i, n_used = 0;
	volatile char *base = hm_map_address(map);

	/* Behind a window nothing is replaced. */
	if (!(buffer_info(buffer).caps & HM_CAP_BRACKET)) {
		AUTO(rig_handler) handler = rig_handler(0);
		pattern_write((void *)base, 0, 2 * REPAIR_BLOCK, 1);
		CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, sim_handle(buffer), PAGE));
		CHECK_EQUAL(base[PAGE], 0);
		base[2 * PAGE] = 5;
		CHECK_OK(sample(device, buffer, HETSIM_SAMPLE_START, 0, NULL));
		CHECK_EQUAL(base[2 * PAGE], 5);
		base[3 * PAGE] = base[REPAIR_BLOCK + 3 * PAGE] = 6;
		CHECK_OK(
			sample(device, buffer, HETSIM_SAMPLE_READ, ARRAY_SIZE(counts), counts));
		for (i = 0; i < ARRAY_SIZE(counts); i++)
			n_used += counts[i];
		CHECK_EQUAL(n_used, 1);
		CHECK_EQUAL(counts[REPAIR_BLOCK / PAGE + 3], 1);
		CHECK_EQUAL(base[2 * PAGE], 5);
		CHECK_EQUAL(base[3 * PAGE], 6);
		CHECK_EQUAL(base[REPAIR_BLOCK + 3 * PAGE], 6);
		CHECK_OK(sample(device, buffer, HETSIM_SAMPLE_STOP, 0, NULL));
	}
}

/* The same if the buffer has grown since, in the same block: the new pages are the buffer's. */
static void test_replaced_grown(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, REPAIR_BLOCK / 2, REPAIR_BLOCK, &map);
	uint32_t counts[REPAIR_BLOCK / PAGE * 3 / 4], i, n_used = 0;
	volatile char *base = hm_map_address(map);

	if (!(buffer_info(buffer).caps & HM_CAP_BRACKET)) {
		AUTO(rig_handler) handler = rig_handler(0);
		pattern_write((void *)base, 0, REPAIR_BLOCK / 2, 1);
		CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, sim_handle(buffer), PAGE));
		CHECK_EQUAL(base[PAGE], 0);
		base[2 * PAGE] = 5;
		for (i = 5; i <= 6; i++)
			CHECK_OK_FATAL(hm_buffer_resize(buffer, i * REPAIR_BLOCK / 8, 0));
		CHECK_OK(sample(device, buffer, HETSIM_SAMPLE_START, 0, NULL));
		CHECK_EQUAL(base[2 * PAGE], 5);
		base[3 * PAGE] = base[REPAIR_BLOCK / 2] = 6;
		CHECK_OK(
			sample(device, buffer, HETSIM_SAMPLE_READ, ARRAY_SIZE(counts), counts));
		for (i = 0; i < ARRAY_SIZE(counts); i++)
			n_used += counts[i];
		CHECK_EQUAL(n_used, 1);
		CHECK_EQUAL(counts[REPAIR_BLOCK / 2 / PAGE], 1);
		/* Another fault changes none of the bytes. */
		CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, sim_handle(buffer), 0));
		CHECK_EQUAL(base[2 * PAGE], 5);
		CHECK_EQUAL(base[3 * PAGE], 6);
		CHECK_EQUAL(base[REPAIR_BLOCK / 2], 6);
		CHECK_OK(sample(device, buffer, HETSIM_SAMPLE_STOP, 0, NULL));
	}
}

static const struct sim_case cases[] = {
	{ "maps", test_maps },
	{ "locked", test_locked },
	{ "replaced", test_replaced },
	{ "replaced_grown", test_replaced_grown },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "sim_sample", cases)
