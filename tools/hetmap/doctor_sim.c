// SPDX-License-Identifier: MIT
/*
 * Doctor: the simulated devices. Those of the module are misc devices, which sysfs
 * lists while they are plugged in; whether the nodes are in /dev is the system's or
 * container's affair. Their twin needs nothing but settings that can be read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "common/machine.h"
#include "common/text.h"
#include "doctor.h"

/* The module's own limit on its parameter "devices". */
#define SIM_MAX_DEVICES 16

static bool is_there(const struct doctor *doctor, const char *format, unsigned int index)
{
	char relative[64], *path;
	struct stat st;
	bool there;

	snprintf(relative, sizeof(relative), format, index);
	path = machine_path(doctor->root, relative);
	there = !stat(path, &st);
	free(path);
	return there;
}

static void report_absent(struct doctor *doctor, unsigned int index)
{
	char *limits = text_format("\"sim:%u\" can't be opened", index);
	char *change = text_format("in a container: start it with --device /dev/hetsim%u; "
				   "otherwise mount devtmpfs on /dev",
				   index);

	doctor_report(doctor, DOCTOR_LIMIT, limits, change,
		      "hetsim%u: the kernel has it, and /dev/hetsim%u is absent", index, index);
	free(change);
	free(limits);
}

static void report_denied(struct doctor *doctor, unsigned int index)
{
	char *limits = text_format("\"sim:%u\" can't be opened", index);
	char *change = text_format("its mode is no longer the module's: sudo chmod 0666 "
				   "/dev/hetsim%u",
				   index);

	doctor_report(doctor, DOCTOR_LIMIT, limits, change,
		      "hetsim%u: /dev/hetsim%u may not be opened for reading and writing",
		      index, index);
	free(change);
	free(limits);
}

static void report_unplugged(struct doctor *doctor, unsigned int index)
{
	char *change = text_format("echo %u | sudo tee /sys/kernel/debug/hetsim/plug", index);

	doctor_report(doctor, DOCTOR_NOTE, NULL, change,
		      "hetsim%u was taken away, and not plugged in again", index);
	free(change);
}

/* Whether module and library understand each other is seen by opening one. */
static void report_there(struct doctor *doctor, unsigned int index)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_device *device;
	char name[16];

	snprintf(name, sizeof(name), "sim:%u", index);
	if (*doctor->root) {
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "%s: /dev/hetsim%u may be opened",
			      name, index);
		return;
	}
	if (hm_device_open(name, &device)) {
		doctor_report(doctor, DOCTOR_LIMIT, "this device can't be used", NULL, "%s: %s",
			      name, hm_errmsg());
		return;
	}
	if (hm_device_query(device, &info))
		doctor_report(doctor, DOCTOR_NOTE, NULL, NULL, "%s: %s", name, hm_errmsg());
	else
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "%s: %s", name, info.description);
	hm_device_unref(device);
}

static void check_device(struct doctor *doctor, unsigned int index)
{
	char relative[32], *path;

	if (!is_there(doctor, "/sys/class/misc/hetsim%u", index)) {
		report_unplugged(doctor, index);
		return;
	}
	if (!is_there(doctor, "/dev/hetsim%u", index)) {
		report_absent(doctor, index);
		return;
	}
	snprintf(relative, sizeof(relative), "/dev/hetsim%u", index);
	path = machine_path(doctor->root, relative);
	if (access(path, R_OK | W_OK) < 0)
		report_denied(doctor, index);
	else
		report_there(doctor, index);
	free(path);
}

void check_simulated_devices(struct doctor *doctor)
{
	uint64_t n = 1, i;

	if (!is_there(doctor, "/sys/module/hetsim", 0)) {
		doctor_report(
			doctor, DOCTOR_NOTE,
			"\"sim:0\" is not there; \"soft:0\", its twin, is in each process",
			"make module, and sudo insmod the file that it names; or try it in a "
			"machine: make vm",
			"the module of the simulated device, hetsim, is not loaded");
		return;
	}
	machine_read_number(doctor->root, "/sys/module/hetsim/parameters/devices", &n);
	for (i = 0; i < n && i < SIM_MAX_DEVICES; i++)
		check_device(doctor, (unsigned int)i);
}

void check_soft_devices(struct doctor *doctor)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_device *device;

	if (hm_device_open("soft:0", &device)) {
		doctor_report(doctor, DOCTOR_LIMIT, "\"soft:0\" can't be opened",
			      "see hetmap(7), ENVIRONMENT", "%s", hm_errmsg());
		return;
	}
	if (!hm_device_query(device, &info))
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "soft:0: %s", info.description);
	hm_device_unref(device);
}
