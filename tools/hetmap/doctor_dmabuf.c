// SPDX-License-Identifier: MIT
/*
 * Doctor: dma-bufs of this machine's memory. The kernel lists its heaps in sysfs;
 * whether the nodes are in /dev, and may be opened, is the system's or container's
 * affair.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/machine.h"
#include "common/text.h"
#include "doctor.h"

static bool may_open(const struct doctor *doctor, const char *relative, int mode)
{
	char *path = machine_path(doctor->root, relative);
	bool may = !access(path, mode);

	free(path);
	return may;
}

static int is_heap(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void check_heap(struct doctor *doctor, const char *name)
{
	char *node = text_format("/dev/dma_heap/%s", name);
	char *limits = text_format("\"heap:%s\" can't be opened", name);
	char *change;

	if (!may_open(doctor, node, F_OK)) {
		change = text_format("in a container: start it with --device %s", node);
		doctor_report(doctor, DOCTOR_LIMIT, limits, change,
			      "heap %s: the kernel has it, and %s is absent", name, node);
	} else if (!may_open(doctor, node, R_OK)) {
		change = text_format("sudo chmod a+r %s; for good by a udev rule of "
				     "SUBSYSTEM==\"dma_heap\"",
				     node);
		doctor_report(doctor, DOCTOR_LIMIT, limits, change,
			      "heap %s: %s may not be opened", name, node);
	} else {
		change = NULL;
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "heap:%s: %s may be opened", name,
			      node);
	}
	free(change);
	free(limits);
	free(node);
}

void check_dma_heaps(struct doctor *doctor)
{
	char *path = machine_path(doctor->root, "/sys/class/dma_heap");
	struct dirent **heaps = NULL;
	int n = scandir(path, &heaps, is_heap, alphasort), i;

	free(path);
	if (n <= 0)
		doctor_report(doctor, DOCTOR_NOTE, "\"heap:system\" is not there",
			      "modprobe system_heap, where the kernel has it "
			      "(CONFIG_DMABUF_HEAPS_SYSTEM)",
			      "this kernel has no dma-buf heaps");
	for (i = 0; i < n; i++) {
		check_heap(doctor, heaps[i]->d_name);
		free(heaps[i]);
	}
	free(heaps);
}

void check_udmabuf(struct doctor *doctor)
{
	static const char limits[] = "buffers of \"host\" can't be exported as dma-bufs";
	char size[TEXT_MAX];
	uint64_t limit;

	if (!may_open(doctor, "/dev/udmabuf", F_OK)) {
		doctor_report(
			doctor, DOCTOR_NOTE, limits,
			"modprobe udmabuf, where the kernel has it (CONFIG_UDMABUF); in a "
			"container: --device /dev/udmabuf",
			"no /dev/udmabuf");
		return;
	}
	if (!may_open(doctor, "/dev/udmabuf", R_OK | W_OK)) {
		doctor_report(doctor, DOCTOR_LIMIT, limits,
			      "join its group, kvm as a rule: ls -l /dev/udmabuf",
			      "/dev/udmabuf may not be opened for reading and writing");
		return;
	}
	if (machine_read_number(doctor->root, "/sys/module/udmabuf/parameters/size_limit_mb",
				&limit))
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "/dev/udmabuf may be opened");
	else
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "/dev/udmabuf makes dma-bufs of up to %s (size_limit_mb)",
			      text_bytes(limit << 20, size));
}
