// SPDX-License-Identifier: MIT
/*
 * Failures while a model is loaded: the caller has enough, the file is cut off, storage or a
 * call fails, the device is full or is taken away.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/inject.h"
#include "format/load_support.h"
#include "lib/minimal_backend.h"

static void check_cancelled(struct hm_load_desc *desc, int returned, int expected)
{
	AUTO(hm_device) *device = sim_open();
	struct hm_load *none = UNTOUCHED;
	AUTO_TEXT *folder = folder_make();
	struct load_told *told = desc->user;
	uint64_t before;
	AUTO(hm_pieces) *pieces = pieces_open(load_file(folder, load_four, LOAD_FOUR));

	for (told->at_most = 0; told->at_most < LOAD_FOUR; told->at_most++) {
		told->n = told->bytes = 0;
		told->r = returned;
		before = stats_now().buffers;
		CHECK_ERROR(expected, hm_load_create(device, pieces, desc, &none));
		CHECK_EQUAL(told->n, told->at_most + 1);
		CHECK(none == UNTOUCHED);
		CHECK(strstr(hm_errmsg(), "ended the load") != NULL);
		CHECK_EQUAL(stats_now().buffers, before);
	}
}

static void test_cancelled(void)
{
	struct load_told told = { 0 };
	struct hm_load_desc desc = load_small_steps(2);

	desc.loaded = load_note;
	desc.progress = load_note_bytes;
	desc.user = &told;
	check_cancelled(&desc, -EINTR, -EINTR);
	check_cancelled(&desc, 1, -ECANCELED);
}

static const char *cut_path;

static int cut(uint64_t bytes, uint64_t total, void *user)
{
	(void)bytes, (void)total, (void)user;
	return truncate(cut_path, 4096) ? -EIO : 0;
}

/* Some of the file is there, the rest is cut off under the load: an error, no signal. */
static void test_cut_off(void)
{
	struct hm_load_desc desc = load_small_steps(0);
	AUTO(hm_device) *device = sim_open();
	struct hm_load *none = UNTOUCHED;
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = NULL;

	cut_path = load_file(folder, load_four, LOAD_FOUR);
	pieces = pieces_open(cut_path);
	desc.progress = cut;
	CHECK_ERROR(-ENODATA, hm_load_create(device, pieces, &desc, &none));
	CHECK(strstr(hm_errmsg(), "/a: ") && strstr(hm_errmsg(), "cut off"));
	/* And one that was cut off before. */
	desc.progress = NULL;
	CHECK_ERROR(-ENODATA, hm_load_create(device, pieces, &desc, &none));
	CHECK(none == UNTOUCHED);
}

static void test_storage_fails(void)
{
	struct hm_load_desc desc = load_small_steps(2);
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_load) *load = UNTOUCHED;
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = pieces_open(load_file(folder, load_four, LOAD_FOUR));

	inject_install();
	inject_always("pread", EIO);
	CHECK_ERROR(-EIO, hm_load_create(device, pieces, &desc, &load));
	CHECK(strstr(hm_errmsg(), "/a: reading") != NULL);
	CHECK(load == UNTOUCHED);
	/* A call that only makes the load fast may fail. */
	inject_always("mincore", ENOMEM);
	CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
	inject_disarm();
	CHECK_EQUAL(load_info(load).resident, 0);
	load_check_file(load, load_four, LOAD_FOUR);
}

/* The n-th call fails: nothing is left, or the load is right all the same. */
static void test_undone(void)
{
	static const uint64_t bytes[] = { 5000, 9 };
	struct hm_load_desc desc = load_small_steps(1);
	AUTO(hm_device) *device = sim_open();
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = NULL;
	struct hm_load *load;
	bool failed = true;
	unsigned int n;
	int r;

	make_table();
	pieces = pieces_open(load_file(folder, bytes, 2));
	inject_install();
	for (n = 1; failed; n++) {
		load = UNTOUCHED;
		inject_arm(n, INJECT_ONE);
		r = hm_load_create(device, pieces, &desc, &load);
		failed = inject_disarm();
		if (r) {
			CHECK(failed && load == UNTOUCHED && *hm_errmsg());
		} else {
			load_check_file(load, bytes, 2);
			hm_load_unref(load);
		}
		inject_forgive();
	}
	CHECK(n > 10);
}

/* Larger than all of the device's memory; nothing of it is on the disk. */
static void test_full(void)
{
	static const char header[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[68719476736],"
				     "\"data_offsets\":[0,68719476736]}}";
	AUTO(hm_device) *device = sim_open();
	struct hm_load *none = UNTOUCHED;
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = NULL;
	int r;

	pieces = pieces_open(tensors_odd_file(folder, "a", header, strlen(header),
					      8 + strlen(header) + 68719476736));
	r = hm_load_create(device, pieces, NULL, &none);
	CHECK(r == -ENOSPC || r == -ENOMEM);
	CHECK(strstr(hm_errmsg(), "a buffer of 64 GiB") != NULL);
	CHECK(none == UNTOUCHED);
}

struct loss {
	struct hm_device *device;
	uint64_t at; /* bytes */
	bool refused, gone;
};

static int take_away(uint64_t bytes, uint64_t total, void *user)
{
	struct loss *loss = user;

	(void)total;
	if (bytes >= loss->at && !loss->gone && !loss->refused) {
		loss->gone = sim_unplug(loss->device);
		loss->refused = !loss->gone;
	}
	return 0;
}

/* The device is taken away in the beginning, in the middle and after the last byte. */
static void test_lost(void)
{
	static const uint64_t at[] = { 1, 100000, 3 * 65536 + 100008 };
	struct hm_load_desc desc = load_small_steps(0);
	AUTO_TEXT *folder = folder_make();
	struct hm_load *load;
	size_t i;
	int r;
	AUTO(hm_pieces) *pieces = pieces_open(load_file(folder, load_four, LOAD_FOUR));

	for (i = 0; i < 3; i++) {
		struct loss loss = { .device = sim_open(), .at = at[i] };

		load = UNTOUCHED;
		desc.progress = take_away;
		desc.user = &loss;
		r = hm_load_create(loss.device, pieces, &desc, &load);
		if (loss.gone) {
			CHECK_EQUAL(r, -ENODEV);
			CHECK(load == UNTOUCHED && *hm_errmsg());
		} else if (!r) {
			hm_load_unref(load);
		}
		hm_device_unref(loss.device);
		if (loss.gone)
			sim_plug();
		if (loss.refused)
			break;
	}
}

/* ---- crowded ---- */

static uint64_t crowd_begin, crowd_ns; /* since when others have the room, and how long */
static unsigned int crowd_asked;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int crowded_create(void *device, const struct hm_buffer_desc *desc,
			  struct hm_recipe *ret_recipe)
{
	int r = growing_backend.create(device, desc, ret_recipe);

	if (!r)
		ret_recipe->caps |= HM_CAP_BRACKET;
	return r;
}

static int crowded_begin(void *device, const struct hm_segment *segments, uint32_t n,
			 uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device, (void)segments, (void)n, (void)offset, (void)length, (void)access;
	if (!crowd_asked++)
		crowd_begin = now_ns();
	return now_ns() - crowd_begin < crowd_ns ? -ENOSPC : 0;
}

static int crowded_end(void *device, const struct hm_segment *segments, uint32_t n,
		       uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device, (void)segments, (void)n, (void)offset, (void)length, (void)access;
	return 0;
}

static struct hm_device *crowded_open(void)
{
	static struct hm_backend_ops ops;
	struct hm_device *device;

	ops = growing_backend;
	ops.name = "crowded";
	ops.caps |= HM_CAP_BRACKET | HM_BACKEND_BRACKET_END;
	ops.create = crowded_create;
	ops.begin_cpu = crowded_begin;
	ops.end_cpu = crowded_end;
	/* The second round finds it there. */
	CHECK_FATAL(!hm_device_open("crowded", &device) ||
		    (!hm_backend_register(&ops) && !hm_device_open("crowded", &device)));
	return device;
}

/* The others leave the room after 0.4 s of the 0.5 s that the load tries; or never. */
static void test_crowded(void)
{
	static const uint64_t bytes[] = { 5000 };
	struct hm_load *load = NULL, *none = UNTOUCHED;
	AUTO(hm_device) *device = crowded_open();
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = pieces_open(load_file(folder, bytes, 1));

	crowd_asked = 0;
	crowd_ns = 400000000;
	CHECK_OK(hm_load_create(device, pieces, NULL, &load));
	if (load)
		load_check_file(load, bytes, 1);
	hm_load_unref(load);
	crowd_asked = 0;
	crowd_ns = UINT64_MAX;
	CHECK_ERROR(-ENOSPC, hm_load_create(device, pieces, NULL, &none));
	CHECK(none == UNTOUCHED);
	CHECK_EQUAL(crowd_asked, 10);
	CHECK(now_ns() - crowd_begin > 500000000);
}

static const struct sim_case cases[] = {
	{ "cancelled", test_cancelled },
	{ "cut_off", test_cut_off },
	{ "storage_fails", test_storage_fails },
	{ "undone", test_undone },
	{ "full", test_full },
	{ "lost", test_lost },
	{ "crowded", test_crowded },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "load_failures", cases)
