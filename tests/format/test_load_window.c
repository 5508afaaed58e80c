// SPDX-License-Identifier: MIT
/* Models loaded by a window that CPUs reach, which other buffers want, too. */
#include <errno.h>
#include <inttypes.h>

#include "format/load_support.h"

/* All of the window, by steps as large as it and by small ones; and a page more than it. */
static void test_sizes(void)
{
	uint64_t bytes[2] = { 777777, 0 }, window;
	struct hm_load_desc desc = { .struct_size = sizeof(desc) };
	AUTO(hm_device) *device = sim_open_windowed(&window);
	struct hm_load *load, *none = UNTOUCHED;
	struct hm_pieces *pieces;
	AUTO_TEXT *folder = NULL;
	int i;

	if (!device)
		return;
	folder = folder_make();
	/* Behind the first one, at the next multiple of 256. */
	bytes[1] = 4 * 1048576 - 777984;
	CHECK_FATAL(window >= 4 * 1048576);
	pieces = pieces_open(load_file(folder, bytes, 2));
	for (i = 0; i < 2; i++) {
		CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
		/* A second thread would crowd out the first one's window. */
		CHECK_EQUAL(load_info(load).threads, 1);
		load_check_file(load, bytes, 2);
		hm_load_unref(load);
		desc.window = 16 * PAGE;
	}
	hm_pieces_unref(pieces);
	if (window == 4 * 1048576) {
		bytes[1]++;
		pieces = pieces_open(load_file(folder, bytes, 2));
		CHECK_ERROR(-ENOSPC, hm_load_create(device, pieces, &desc, &none));
		CHECK(none == UNTOUCHED);
		hm_pieces_unref(pieces);
	}
}

struct crowd {
	struct hm_device *device;
	uint64_t window;
};

static int crowd_out(uint64_t bytes, uint64_t total, void *user)
{
	struct crowd *crowd = user;

	(void)bytes, (void)total;
	sim_crowd_out(crowd->device, crowd->window / 4 * 3);
	return 0;
}

/* Other threads bring their buffers in while the model is loaded. */
static void test_crowded_out(void)
{
	static const uint64_t bytes[] = { 1048576, 1048577 };
	struct hm_load_desc desc = { .struct_size = sizeof(desc), .window = 64 * PAGE };
	AUTO(hm_pieces) *pieces = NULL;
	AUTO(hm_load) *load = NULL;
	struct crowd crowd;
	AUTO_TEXT *folder = NULL;

	crowd.device = sim_open_windowed(&crowd.window);
	if (!crowd.device)
		return;
	folder = folder_make();
	pieces = pieces_open(load_file(folder, bytes, 2));
	desc.progress = crowd_out;
	desc.user = &crowd;
	CHECK_OK_FATAL(hm_load_create(crowd.device, pieces, &desc, &load));
	load_check_file(load, bytes, 2);
	hm_device_unref(crowd.device);
}

static const struct sim_case cases[] = {
	{ "sizes", test_sizes },
	{ "crowded_out", test_crowded_out },
	{ NULL, NULL },
};

TEST_MAIN(sim_main_with, "load_window", "test=1 vram_mb=32 system_mb=16 opener_mb=40 bar_mb=4",
	  cases)
