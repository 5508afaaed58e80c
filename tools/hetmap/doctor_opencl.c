// SPDX-License-Identifier: MIT
/*
 * Doctor: OpenCL platforms through the ICD loader, and the signal handlers that loading them
 * installed.
 */
#include <CL/cl.h>
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/base/thread_status.h"
#include "common/text.h"
#include "doctor.h"

#define PLATFORMS_MAX 32
#define DEVICES_MAX 32

static void platform_text(cl_platform_id platform, cl_platform_info what, char *text,
			  size_t size)
{
	memset(text, 0, size);
	if (clGetPlatformInfo(platform, what, size - 1, text, NULL) != CL_SUCCESS)
		snprintf(text, size, "unknown");
}

static void device_text(cl_device_id device, cl_device_info what, char *text, size_t size)
{
	memset(text, 0, size);
	if (clGetDeviceInfo(device, what, size - 1, text, NULL) != CL_SUCCESS)
		snprintf(text, size, "unknown");
}

/* "coarse and fine-grained buffers": SVM decides about the way in. */
static const char *svm_text(cl_device_id device)
{
	cl_device_svm_capabilities svm = 0;

	if (clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof(svm), &svm, NULL))
		svm = 0;
	if (svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM)
		return "system SVM: every pointer is the device's, too";
	if (svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER)
		return "SVM for buffers only: maps go in by host pointer";
	if (svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER)
		return "coarse SVM only: maps go in by host pointer or copy";
	return "no SVM: maps go in by host pointer or copy";
}

static void report_device(struct doctor *doctor, cl_device_id device)
{
	char name[256], version[256], memory[TEXT_MAX], window[TEXT_MAX];
	cl_ulong bytes = 0, allocation = 0;
	cl_uint units = 0;

	device_text(device, CL_DEVICE_NAME, name, sizeof(name));
	device_text(device, CL_DRIVER_VERSION, version, sizeof(version));
	clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
	clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
	clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(allocation), &allocation,
			NULL);
	doctor_report(doctor, DOCTOR_OK, NULL, NULL,
		      "device %s (driver %s): %u units, %s of memory, %s at once; %s", name,
		      version, units, text_bytes(bytes, memory), text_bytes(allocation, window),
		      svm_text(device));
}

/* Returns how many devices it has. */
static cl_uint report_platform(struct doctor *doctor, cl_platform_id platform)
{
	cl_device_id devices[DEVICES_MAX];
	char name[256], version[256];
	cl_uint n = 0, i;

	platform_text(platform, CL_PLATFORM_NAME, name, sizeof(name));
	platform_text(platform, CL_PLATFORM_VERSION, version, sizeof(version));
	if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &n) !=
	    CL_SUCCESS)
		n = 0;
	if (n > DEVICES_MAX)
		n = DEVICES_MAX;
	if (!n) {
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "platform %s (%s): no devices, which is normal where its "
			      "hardware is not there or its driver is not enabled",
			      name, version);
		return 0;
	}
	doctor_report(doctor, DOCTOR_OK, NULL, NULL, "platform %s (%s): %u device%s", name,
		      version, n, n == 1 ? "" : "s");
	for (i = 0; i < n; i++)
		report_device(doctor, devices[i]);
	return n;
}

void check_opencl(struct doctor *doctor)
{
	cl_platform_id platforms[PLATFORMS_MAX];
	cl_uint n = 0, n_device = 0, i;
	cl_int error;

	error = clGetPlatformIDs(PLATFORMS_MAX, platforms, &n);
	if (error != CL_SUCCESS || !n) {
		doctor_report(
			doctor, DOCTOR_LIMIT,
			"kernels run on accelerator cpu, by their CPU function only",
			"sudo apt install pocl-opencl-icd, or the driver of your GPU; "
			"OCL_ICD_VENDORS, if it is set, must name a folder of .icd files, or a library",
			"no platform: the ICD loader found no driver (error %d)", error);
		return;
	}
	if (n > PLATFORMS_MAX)
		n = PLATFORMS_MAX;
	for (i = 0; i < n; i++)
		n_device += report_platform(doctor, platforms[i]);
	if (!n_device)
		doctor_report(doctor, DOCTOR_LIMIT,
			      "kernels run on accelerator cpu, by their CPU function only",
			      "sudo apt install pocl-opencl-icd; where it is installed: "
			      "POCL_CACHE_DIR, or ~/.cache, must be a folder that can be "
			      "written",
			      "none of the platforms has a device");
}

/* ---- signals ---- */

static void report_handler(struct doctor *doctor, int sig, const char *name)
{
	struct sigaction action;
	Dl_info where;
	void *handler;

	if (sigaction(sig, NULL, &action) < 0)
		return;
	if (action.sa_handler == SIG_DFL) {
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "%s: no library has a handler",
			      name);
		return;
	}
	if (action.sa_handler == SIG_IGN) {
		doctor_report(doctor, DOCTOR_NOTE, NULL, NULL, "%s is ignored", name);
		return;
	}
	memcpy(&handler, &action.sa_sigaction, sizeof(handler));
	doctor_report(doctor, DOCTOR_NOTE,
		      "it takes the place of a handler for lost pages that the "
		      "application installed before OpenCL was loaded",
		      "in the application: call hm_accel_list() first, then sigaction(), and "
		      "pass all other signals on to this handler",
		      "%s has a handler, of %s", name,
		      dladdr(handler, &where) && where.dli_fname ? where.dli_fname :
								   "an unknown library");
}

void check_signal_handlers(struct doctor *doctor)
{
	report_handler(doctor, SIGSEGV, "SIGSEGV");
	report_handler(doctor, SIGBUS, "SIGBUS");
}

static bool blocks_sigbus(const char *thread)
{
	char *path = text_format("/proc/self/task/%s/status", thread);
	FILE *file = fopen(path, "re");
	char status[THREAD_STATUS_MAX];
	size_t n = 0;

	free(path);
	if (file) {
		n = fread(status, 1, sizeof(status) - 1, file);
		fclose(file);
	}
	status[n] = '\0';
	return thread_status_blocks(status, SIGBUS);
}

void check_signal_masks(struct doctor *doctor)
{
	DIR *threads = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned int n = 0, n_blocking = 0;

	while (threads && (entry = readdir(threads))) {
		if (*entry->d_name == '.')
			continue;
		n++;
		n_blocking += blocks_sigbus(entry->d_name);
	}
	if (threads)
		closedir(threads);
	if (n_blocking)
		doctor_report(doctor, DOCTOR_NOTE,
			      "a page lost under such a thread (file truncated, device "
			      "gone) ends the process, whatever the handler: maps of files "
			      "and of devices that go are copied for their drivers",
			      "device host has memory that stays: kernels on it need no copy",
			      "%u of %u threads, made by drivers, block SIGBUS", n_blocking, n);
	else
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "SIGBUS reaches all threads: %u",
			      n);
}
