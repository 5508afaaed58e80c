// SPDX-License-Identifier: MIT
/* Runs cases on each simulated device there is. */
#include "lib/sim_devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 32

static const struct sim_case *cases;
static struct test *tests;
static char devices[DEVICES_MAX][64];
static unsigned int n_device, n_case;

static unsigned int at(void)
{
	return (unsigned int)(test_current() - tests);
}

const char *sim_device(void)
{
	return devices[at() / n_case];
}

static void run(void)
{
	cases[at() % n_case].run();
}

struct hm_device *sim_open(void)
{
	return rig_device(sim_device());
}

struct hm_buffer *sim_make(struct hm_device *device, uint64_t size, uint64_t max_size,
			   struct hm_map **ret_map)
{
	struct hm_buffer *buffer;

	buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = size, .max_size = max_size,
					 .name = "simulated"));
	if (ret_map)
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, ret_map));
	return buffer;
}

struct hetsim_query sim_query(struct hm_device *device)
{
	struct hetsim_query query = { .size = sizeof(query) };

	CHECK_OK(hm_sim_call(device, HETSIM_QUERY, &query));
	return query;
}

struct hetsim_buffer_info sim_info(struct hm_device *device, uint32_t handle)
{
	struct hetsim_buffer_info info = { .size = sizeof(info), .handle = handle };

	CHECK_OK(hm_sim_call(device, HETSIM_BUFFER_INFO, &info));
	return info;
}

struct hm_device *sim_open_windowed(uint64_t *ret_window)
{
	struct hm_device *device = sim_open();

	*ret_window = sim_query(device).window_bytes;
	if (*ret_window)
		return device;
	hm_device_unref(device);
	return NULL;
}

uint32_t sim_handle(struct hm_buffer *buffer)
{
	uint32_t handle = 0;

	CHECK_OK_FATAL(hm_sim_buffer(buffer, &handle));
	return handle;
}

int sim_move(struct hm_device *device, struct hm_buffer *buffer, uint64_t offset,
	     uint64_t length, uint32_t place)
{
	struct hetsim_buffer_move move = {
		.size = sizeof(move),
		.handle = sim_handle(buffer),
		.place = place,
		.offset = offset,
		.length = length,
	};

	return hm_sim_call(device, HETSIM_BUFFER_MOVE, &move);
}

void sim_crowd_out(struct hm_device *device, uint64_t window)
{
	hm_buffer_unref(sim_make(device, window, 0, NULL));
}

int sim_inject(struct hm_device *device, uint32_t kind, uint32_t target, uint64_t value)
{
	return hm_sim_call(device, HETSIM_INJECT,
			   SIZED(hetsim_inject, .kind = kind, .target = target,
				 .value = value));
}

bool sim_unplug(struct hm_device *device)
{
	int r = sim_inject(device, HETSIM_INJECT_UNPLUG, 0, 0);

	if (r == -EPERM) {
		test_skip("kernel", "the module's parameter test is not set, or no root");
		return false;
	}
	CHECK_OK(r);
	return !r;
}

void sim_write(struct hm_map *map, uint64_t from, uint64_t to, uint32_t salt)
{
	CHECK_OK(hm_map_begin_cpu(map, from, to - from, HM_READ | HM_WRITE));
	pattern_write(hm_map_address(map), from, to, salt);
	CHECK_OK(hm_map_end_cpu(map, from, to - from, HM_READ | HM_WRITE));
}

void sim_plug(void)
{
	CHECK_OK_FATAL(hm_sim_plug(sim_device()));
}

struct hm_recover_info sim_recover(struct hm_device *device, uint32_t flags)
{
	struct hm_recover_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_device_recover(device, flags, &info));
	return info;
}

/* One of each kind: those that the library can open here. */
static void find_devices(void)
{
	static const char *const names[] = { "soft:0", "sim:0" };
	struct hm_device *device;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!hm_device_open(names[i], &device)) {
			snprintf(devices[n_device++], sizeof(devices[0]), "%s", names[i]);
			hm_device_unref(device);
		}
}

int sim_main(int argc, char **argv, const char *suite, const struct sim_case *table)
{
	return sim_main_with(argc, argv, suite, "test=1 vram_mb=32 system_mb=16 opener_mb=40",
			     table);
}

int sim_main_with(int argc, char **argv, const char *suite, const char *settings,
		  const struct sim_case *table)
{
	unsigned int i;
	char *name;

	setenv("HETMAP_SOFT", settings, 1);
	cases = table;
	while (cases[n_case].name)
		n_case++;
	find_devices();
	tests = calloc((size_t)n_device * n_case + 1, sizeof(tests[0]));
	if (!tests || !n_device)
		return 1;
	for (i = 0; i < n_device * n_case; i++) {
		if (asprintf(&name, "%s.%s", devices[i / n_case], cases[i % n_case].name) < 0)
			return 1;
		tests[i].name = name;
		tests[i].run = run;
	}
	return harness_main(argc, argv, suite, tests);
}
