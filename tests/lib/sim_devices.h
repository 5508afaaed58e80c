/* SPDX-License-Identifier: MIT */
/* Test programs whose cases run on each simulated device there is, through the library. */
#ifndef HETMAP_TESTS_SIM_DEVICES_H
#define HETMAP_TESTS_SIM_DEVICES_H

#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "lib/support.h"

struct sim_case {
	const char *name;
	void (*run)(void);
};

/* The device of the case that is running: "soft:0", "sim:0". */
const char *sim_device(void);
struct hm_device *sim_open(void);
/* NULL: one where CPUs reach all memory, so that it has no window. */
struct hm_device *sim_open_windowed(uint64_t *ret_window);

/* A buffer with a map of all of it; abandons the test on failure. */
struct hm_buffer *sim_make(struct hm_device *device, uint64_t size, uint64_t max_size,
			   struct hm_map **ret_map);
/* pattern_write() to a map, in a bracket. */
void sim_write(struct hm_map *map, uint64_t from, uint64_t to, uint32_t salt);
struct hetsim_query sim_query(struct hm_device *device);
struct hetsim_buffer_info sim_info(struct hm_device *device, uint32_t handle);
uint32_t sim_handle(struct hm_buffer *buffer);
int sim_move(struct hm_device *device, struct hm_buffer *buffer, uint64_t offset,
	     uint64_t length, uint32_t place);
/* Another buffer, as long as the window, takes the place of all that is in it. */
void sim_crowd_out(struct hm_device *device, uint64_t window);
int sim_inject(struct hm_device *device, uint32_t kind, uint32_t target, uint64_t value);
/*
 * Takes the device away, under all its users. False: it is not permitted here, as the module's
 * takes root and its parameter test; the test was skipped.
 */
bool sim_unplug(struct hm_device *device);
/* A fresh one in the place of the case's device. */
void sim_plug(void);
struct hm_recover_info sim_recover(struct hm_device *device, uint32_t flags);

/* main(): each case on each device. HETMAP_SOFT is set, with test=1 and little memory. */
int sim_main(int argc, char **argv, const char *suite, const struct sim_case *cases);
/* The same with other settings. */
int sim_main_with(int argc, char **argv, const char *suite, const char *settings,
		  const struct sim_case *cases);

#endif
