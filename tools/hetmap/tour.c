// SPDX-License-Identifier: MIT
/* hetmap tour: options, the choice of device and accelerator, the order of steps. */
#include "tour.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"
#include "job.h"
#include "subcommands.h"

#define SIZE_DEFAULT (16ull << 20)
#define SIZE_LEAST (64ull << 10)

static const struct {
	const char *name;
	tour_step *run;
} steps[] = {
	{ "open", tour_open },        { "create", tour_create },
	{ "map", tour_map },          { "write", tour_write },
	{ "grow", tour_grow },        { "lock", tour_lock },
	{ "protect", tour_protect },  { "launch", tour_launch },
	{ "read", tour_read },        { "bracket", tour_bracket },
	{ "map again", tour_second }, { "prefetch", tour_prefetch },
	{ "shrink", tour_shrink },    { "release", tour_release },
};

#define N_STEP (sizeof(steps) / sizeof(steps[0]))

/* Backends that have memory of their own, real ones first. */
static const char *const backends[] = { "drm", "sim", "soft" };

#define N_BACKEND (sizeof(backends) / sizeof(backends[0]))

enum {
	OPTION_DEVICE,
	OPTION_ACCEL,
	OPTION_SIZE,
	OPTION_JSON,
	OPTION_QUIET,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_DEVICE] = OPTION_ROW_DEVICE("HETMAP_DEVICE, or the first of drm, sim\n"
					    "and soft that opens"),
	[OPTION_ACCEL] = OPTION_ROW_ACCEL("the device's own engine, or the default"),
	[OPTION_SIZE] = { 's', "size", "BYTES",
			  "the buffer's size, from 64K on (default 16M);\n"
			  "it grows by half" },
	[OPTION_JSON] = OPTION_ROW_JSON("print the steps, or the failure, as JSON"),
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

static void usage(void)
{
	puts("Usage: hetmap tour [OPTION]...\n"
	     "\n"
	     "Takes one buffer of a device through its whole life: made, mapped, written,\n"
	     "grown where it is, locked, protected, computed on by an accelerator through the\n"
	     "CPU's own pointer, mapped a second time, shrunk and given back. After each step\n"
	     "it checks the new state, and draws the map. A step that the device can't do is\n"
	     "shown with the reason.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap tour\n"
	     "  hetmap tour --device soft:0 --accel soft:0\n"
	     "  hetmap tour --device host --accel cpu --size 1G\n"
	     "  hetmap tour --json | jq '.steps[] | {step, seconds}'\n"
	     "\n"
	     "Exit status: 0 every step done and verified, or not on this device; 1 a step\n"
	     "that did not hold, or the device was lost; 2 usage; 3 no such device, no\n"
	     "permission, a limit; 128 + n on signal n. See also hetmap-tour(1).");
}

/* ---- device and accelerator ---- */

static int open_named(struct tour *tour, const char *name)
{
	int r = hm_device_open(name, &tour->device);

	if (r)
		return r;
	tour->device_info.struct_size = sizeof(tour->device_info);
	r = hm_device_query(tour->device, &tour->device_info);
	if (r) {
		hm_device_unref(tour->device);
		tour->device = NULL;
	}
	return r;
}

/* The first of @backend that opens. */
static void open_first(struct tour *tour, const char *backend,
		       const struct hm_device_info *infos, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n && !tour->device; i++)
		if (!strcmp(infos[i].backend, backend) && open_named(tour, infos[i].name))
			remark("%s can't be opened: %s", infos[i].name, hm_errmsg());
}

/* A cause that keeps host memory from opening, too, is no fault of devices. */
static int none_opens(int r)
{
	char *why = strdup(hm_errmsg());
	struct hm_device *host;
	int status, r_host = hm_device_open("host", &host);

	if (r_host) {
		status = fail_library(
			STATUS_ENVIRONMENT, r_host,
			r_host == -EINVAL ? "hetmap(7) lists the variables of the environment" :
					    NULL,
			"no device opens here");
	} else {
		hm_device_unref(host);
		status = fail(STATUS_ENVIRONMENT, r, "hetmap tour --device host needs none",
			      "no device with memory of its own opens here: %s",
			      why && *why ? why : strerror(-r));
	}
	free(why);
	return status;
}

static int open_first_of_all(struct tour *tour)
{
	struct hm_device_info *infos;
	uint32_t n = 0, n_before;
	size_t i;
	int r;

	r = hm_device_list(NULL, 0, &n);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot list the devices");
	n_before = n;
	infos = calloc(n + 1, sizeof(*infos));
	if (!infos)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the list");
	infos[0].struct_size = sizeof(*infos);
	r = hm_device_list(infos, n, &n);
	if (n > n_before)
		n = n_before;
	for (i = 0; i < N_BACKEND && !r && !tour->device; i++)
		open_first(tour, backends[i], infos, n);
	free(infos);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot list the devices");
	/* None of them is listed: the device that needs nothing reports the cause. */
	if (!tour->device)
		r = open_named(tour, "soft:0");
	return r ? none_opens(r) : 0;
}

static int choose_device(struct tour *tour)
{
	const char *wish = getenv("HETMAP_DEVICE");
	int r;

	/* Host memory has few of the steps to show: that one has to be named. */
	if (!tour->device_name && (!wish || !*wish))
		return open_first_of_all(tour);
	r = open_named(tour, tour->device_name);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, "hetmap devices lists the devices",
				    "cannot open the device");
	if (!(tour->device_info.caps & HM_CAP_CREATE))
		return fail(STATUS_USAGE, EOPNOTSUPP, "--device host",
			    "tour: it makes a buffer, and device %s creates none",
			    tour->device_info.name);
	return 0;
}

static int choose_accel(struct tour *tour)
{
	int r;

	if (tour->accel_name) {
		r = hm_accel_open(tour->accel_name, NULL, &tour->accel);
	} else {
		/* A device with an engine has an accelerator of the same name. */
		r = hm_accel_open(tour->device_info.name, NULL, &tour->accel);
		if (r == -ENODEV)
			r = hm_accel_open(NULL, NULL, &tour->accel);
	}
	if (!r)
		r = hm_queue_create(tour->accel, 0, &tour->queue);
	tour->accel_info.struct_size = sizeof(tour->accel_info);
	if (!r)
		r = hm_accel_query(tour->accel, &tour->accel_info);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, "hetmap devices lists the devices",
				    "cannot open the accelerator");
	return 0;
}

/* Whole pages, so that each part can have rights and locks of its own. */
static int choose_sizes(struct tour *tour)
{
	const uint64_t page = tour->device_info.page_size ? tour->device_info.page_size : 4096;

	tour->part = ((tour->first_size + 1) / 2 + page - 1) / page * page;
	tour->first_size = 2 * tour->part;
	tour->max_size = 3 * tour->part;
	return machine_check_memory(tour->max_size, "choose a smaller --size");
}

/* ---- the steps ---- */

static void drop(struct tour *tour)
{
	hm_map_unref(tour->map);
	hm_buffer_unref(tour->buffer);
	hm_queue_unref(tour->queue);
	hm_kernel_unref(tour->kernel);
	hm_accel_unref(tour->accel);
	hm_device_unref(tour->device);
	json_decref(tour->steps);
	free(tour->text);
	free(tour->failure);
}

static int walk(struct tour *tour)
{
	double begin;
	int status;
	size_t i;

	tour_show_head(tour);
	for (i = 0; i < N_STEP; i++) {
		tour->step = steps[i].name;
		tour->n_expected = 0;
		begin = job_now();
		/* A signal that came between two steps is told of the one that it left out. */
		status = signals_pending() ? 128 + signals_pending() : steps[i].run(tour);
		tour->seconds = job_now() - begin;
		progress_end();
		tour_show_step(tour, status);
		if (tour->failure)
			fail(status, tour->error,
			     job_less(tour->error, "choose a smaller --size"), "tour: %s: %s",
			     tour->step, tour->failure);
		if (status > STATUS_DONE)
			return status;
	}
	tour_show_end(tour);
	return STATUS_DONE;
}

static int tour_run(struct tour *tour)
{
	int r, status;

	tour->before.struct_size = sizeof(tour->before);
	r = hm_stats_get(&tour->before);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot read the counters");
	tour->steps = json_array();
	status = choose_device(tour);
	if (!status)
		status = choose_accel(tour);
	if (!status)
		status = choose_sizes(tour);
	if (!status)
		status = walk(tour);
	drop(tour);
	return status;
}

static int take_option(const struct option_state *state, int option, void *user)
{
	struct tour *tour = user;

	switch (option) {
	case OPTION_DEVICE:
		tour->device_name = state->value;
		break;
	case OPTION_ACCEL:
		tour->accel_name = state->value;
		break;
	default:
		if (option_bytes(state->value, &tour->first_size) ||
		    tour->first_size < SIZE_LEAST)
			return option_refuse(state, option,
					     "bytes, from 64K on, as in 64K, 16M, 1.5G");
		break;
	}
	return 0;
}

int tour_main(int argc, char **argv)
{
	static const struct option_table table = { .command = "tour",
						   .rows = rows,
						   .usage = usage,
						   .option = take_option,
						   .remedy = "hetmap tour --help" };
	struct tour tour = { .first_size = SIZE_DEFAULT };
	int status;

	return option_walk(&table, argc, argv, &tour, &status) ? tour_run(&tour) : status;
}
