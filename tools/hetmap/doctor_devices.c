// SPDX-License-Identifier: MIT
/*
 * Doctor: DRM render nodes. The kernel lists the devices that it drives in sysfs; the system or
 * the container decides whether the node is in /dev and may be opened.
 */
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hetmap/drm.h>
#include <hetmap/hetmap.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"
#include "doctor.h"
#include "subcommands.h"

/* The last part of the target of a link in sysfs, or "". */
static void link_name(const struct doctor *doctor, const char *node, const char *link,
		      char *name, size_t size)
{
	char *path = text_format("%s/sys/class/drm/%s/%s", doctor->root, node, link);
	char target[512];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	const char *last;

	free(path);
	*name = '\0';
	if (n <= 0)
		return;
	target[n] = '\0';
	last = strrchr(target, '/');
	snprintf(name, size, "%.63s", last ? last + 1 : target);
}

/*
 * Asks the library for facts of a node that sysfs lacks; leaves the texts as they are if it
 * knows none.
 */
static void ask_library(const char *path, char *driver, size_t driver_size, char *id,
			size_t id_size)
{
	struct hm_drm_node *nodes;
	uint32_t i, n;

	if (devices_nodes(&nodes, &n))
		return;
	for (i = 0; i < n; i++) {
		if (strcmp(nodes[i].path, path) != 0)
			continue;
		if (*nodes[i].driver)
			snprintf(driver, driver_size, "%s", nodes[i].driver);
		if (nodes[i].vendor)
			snprintf(id, id_size, "%04x:%04x", nodes[i].vendor, nodes[i].device);
	}
	free(nodes);
}

static const char unseen[] = "OpenCL, and all else that needs this device, does not see it";

static void report_denied(struct doctor *doctor, const char *node, const char *what,
			  const struct stat *st)
{
	const struct group *group = getgrgid(st->st_gid);
	char *change;

	if ((st->st_mode & 060) != 060)
		change = text_format(
			"its group may not use it either: sudo chmod g+rw /dev/dri/%s", node);
	else if (group && st->st_gid)
		change =
			text_format("sudo adduser $USER %s, then log in again", group->gr_name);
	else
		change = text_format(
			"become a member of group %u; in a container: --group-add %u",
			st->st_gid, st->st_gid);
	doctor_report(doctor, DOCTOR_LIMIT, unseen, change,
		      "%s, /dev/dri/%s, may not be opened: owner %u, group %s (%u), mode %04o",
		      what, node, st->st_uid, group ? group->gr_name : "without a name",
		      st->st_gid, st->st_mode & 07777);
	free(change);
}

static void report_absent(struct doctor *doctor, const char *node, const char *what)
{
	char *change = text_format("in a container: start it with --device /dev/dri/%s; "
				   "otherwise: sudo udevadm trigger --subsystem-match=drm",
				   node);

	doctor_report(doctor, DOCTOR_LIMIT, unseen, change,
		      "%s: the kernel has it, and /dev/dri/%s is absent", what, node);
	free(change);
}

/* Whether the library knows its driver is seen by opening it. */
static void report_there(struct doctor *doctor, const char *node, const char *what)
{
	struct hm_device *device;
	char name[80];

	doctor_report(doctor, DOCTOR_OK, NULL, NULL, "%s: /dev/dri/%s may be opened", what,
		      node);
	if (*doctor->root)
		return;
	snprintf(name, sizeof(name), "drm:/dev/dri/%.60s", node);
	if (hm_device_open(name, &device)) {
		doctor_report(doctor, DOCTOR_NOTE, "it is no device for hetmap", NULL, "%s",
			      hm_errmsg());
		return;
	}
	hm_device_unref(device);
}

static void check_node(struct doctor *doctor, const char *node)
{
	char driver[64], bus[64], id[16] = "";
	char *path = text_format("%s/dev/dri/%s", doctor->root, node);
	char *what;
	struct stat st;

	link_name(doctor, node, "device/driver", driver, sizeof(driver));
	link_name(doctor, node, "device", bus, sizeof(bus));
	if (!*doctor->root)
		ask_library(path, driver, sizeof(driver), id, sizeof(id));
	what = text_format("render node of %s%s%s%s%s", *driver ? driver : "an unknown driver",
			   *bus ? " at " : "", bus, *id ? ", " : "", id);
	if (stat(path, &st) < 0)
		report_absent(doctor, node, what);
	else if (access(path, R_OK | W_OK) < 0)
		report_denied(doctor, node, what, &st);
	else
		report_there(doctor, node, what);
	free(what);
	free(path);
}

static int is_render_node(const struct dirent *entry)
{
	return !strncmp(entry->d_name, "render", 6);
}

void check_render_nodes(struct doctor *doctor)
{
	char *path = machine_path(doctor->root, "/sys/class/drm");
	struct dirent **nodes = NULL;
	int n = scandir(path, &nodes, is_render_node, versionsort), i;

	free(path);
	if (n <= 0)
		doctor_report(doctor, DOCTOR_NOTE, "accelerators are those of the CPU", NULL,
			      "no render node: this kernel drives no GPU");
	for (i = 0; i < n; i++) {
		check_node(doctor, nodes[i]->d_name);
		free(nodes[i]);
	}
	free(nodes);
}
