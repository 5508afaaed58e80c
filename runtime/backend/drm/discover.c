// SPDX-License-Identifier: MIT
/*
 * Discovery of nodes: from libdrm, and from sysfs, which also shows nodes that /dev lacks and
 * buses that libdrm does not know. Render nodes are opened to ask for their driver; card nodes
 * never are.
 */
#include <dirent.h>
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xf86drm.h>

#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"

#include "backend/drm/drm.h"

#define CLASS "/sys/class/drm"
#define DEVICES_MAX 256

struct list {
	struct drm_found *found;
	uint32_t n, room;
};

/* ---- reasons for a refused open ---- */

int drm_explain_open(int r, const char *path, char *remedy, size_t size)
{
	const char *group = strstr(path, "render") ? "render" : "video";
	struct stat st = { 0 };
	int fd;

	switch (r) {
	case -ENOENT:
		snprintf(remedy, size,
			 "/dev has no such node; in a container: start it with --device %s",
			 path);
		return -ENODEV;
	case -ENODEV:
	case -ENXIO:
		snprintf(remedy, size, "the device is gone: see hetmap devices");
		return -ENODEV;
	case -EACCES:
		fd = sys_open(path, O_PATH, 0);
		if (fd >= 0) {
			sys_fstat(fd, &st);
			sys_close(fd);
		}
		snprintf(remedy, size,
			 "add the user to group %s (its number is %u; in a container: "
			 "--group-add %u)",
			 group, st.st_gid, st.st_gid);
		return -EACCES;
	case -EPERM:
		snprintf(remedy, size, "in a container: start it with --device %s", path);
		return -EACCES;
	case -EMFILE:
		snprintf(remedy, size,
			 "all descriptors of this process are in use: raise RLIMIT_NOFILE "
			 "(ulimit -n)");
		return r;
	case -ENFILE:
		snprintf(remedy, size,
			 "the system's table of open files is full: raise fs.file-max");
		return r;
	default:
		snprintf(remedy, size, "%s", err_name(r));
		return r;
	}
}

/* ---- sysfs ---- */

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Reads the last part of the target of a link in the folder of the node's device; or "". */
static void read_link(const struct drm_found *found, const char *link, char *text, size_t size)
{
	char path[480], target[PATH_MAX];
	const char *last;
	ssize_t n;

	*text = '\0';
	snprintf(path, sizeof(path), CLASS "/%s/device/%s", name_of(found->path), link);
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return;
	target[n] = '\0';
	last = strrchr(target, '/');
	snprintf(text, size, "%.*s", (int)size - 1, last ? last + 1 : target);
}

static int is_virtio(const struct dirent *entry)
{
	return !strncmp(entry->d_name, "virtio", 6);
}

/*
 * Reads the node's driver from sysfs. Under a device on virtio that may be the transport's:
 * "virtio-pci", "virtio-mmio" (microVMs, arm64's "virt").
 */
void drm_find_driver(struct drm_found *found)
{
	struct dirent **entries = NULL;
	char path[160], link[300];
	int i, n;

	read_link(found, "driver", found->driver, sizeof(found->driver));
	if (strncmp(found->driver, "virtio-", 7) != 0)
		return;
	snprintf(path, sizeof(path), CLASS "/%s/device", name_of(found->path));
	n = scandir(path, &entries, is_virtio, versionsort);
	for (i = 0; i < n; i++) {
		snprintf(link, sizeof(link), "%s/driver", entries[i]->d_name);
		read_link(found, link, found->driver, sizeof(found->driver));
		free(entries[i]);
	}
	free(entries);
}

/* Reads a number from a file of the node's device; of base 16 with 0x before it. */
static bool read_number(const char *node, const char *file, long *ret_number)
{
	char path[160], text[32];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), CLASS "/%s/device/%s", name_of(node), file);
	fd = sys_open(path, O_RDONLY, 0);
	if (fd < 0)
		return false;
	length = sys_read(fd, text, sizeof(text) - 1);
	sys_close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	*ret_number = strtol(text, NULL, 0);
	return true;
}

int32_t drm_numa_node(const char *path)
{
	long number;

	return read_number(path, "numa_node", &number) ||
			       read_number(path, "../numa_node", &number) ?
		       (int32_t)number :
		       -1;
}

/* Fills in the fields that libdrm tells only of nodes in /dev. */
static void fill_pci(struct drm_found *found, const char *up)
{
	char path[160], device[PATH_MAX], file[16];
	long number;

	snprintf(path, sizeof(path), CLASS "/%s/device/%s", name_of(found->path), up);
	if (!realpath(path, device))
		return;
	snprintf(found->address, sizeof(found->address), "pci-%.26s", name_of(device));
	snprintf(file, sizeof(file), "%svendor", up);
	if (read_number(found->path, file, &number))
		found->vendor = (uint16_t)number;
	snprintf(file, sizeof(file), "%sdevice", up);
	if (read_number(found->path, file, &number))
		found->device = (uint16_t)number;
}

/* A device on virtio gets the bus of its transport, as in libdrm. */
static void fill_bus(struct drm_found *found)
{
	static const char *const places[] = { "", "../" };
	char link[16], bus[sizeof(found->bus)];
	size_t i;

	read_link(found, "subsystem", found->bus, sizeof(found->bus));
	for (i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(link, sizeof(link), "%ssubsystem", places[i]);
		read_link(found, link, bus, sizeof(bus));
		if (!strcmp(bus, "pci")) {
			memcpy(found->bus, bus, sizeof(bus));
			fill_pci(found, places[i]);
		}
		if (strcmp(bus, "virtio") != 0)
			break;
	}
}

static void fill_from_sysfs(struct drm_found *found)
{
	if (!*found->driver)
		drm_find_driver(found);
	if (!*found->bus)
		fill_bus(found);
	found->numa_node = drm_numa_node(found->path);
}

/* ---- nodes ---- */

static void ask(struct drm_found *found)
{
	struct drm_version version = {
		.name = found->driver,
		.name_len = sizeof(found->driver) - 1,
	};
	int fd = sys_open(found->path, O_RDWR, 0);

	if (fd < 0) {
		found->error =
			drm_explain_open(fd, found->path, found->remedy, sizeof(found->remedy));
		return;
	}
	if (!sys_ioctl(fd, DRM_IOCTL_VERSION, &version))
		snprintf(found->version, sizeof(found->version), "%d.%d.%d",
			 version.version_major, version.version_minor,
			 version.version_patchlevel);
	sys_close(fd);
}

/* Does not open a card node: that may take rights from another process, and wakes screens. */
static void look(struct drm_found *found)
{
	int r = sys_access(found->path, R_OK | W_OK);

	if (r)
		found->error =
			drm_explain_open(r, found->path, found->remedy, sizeof(found->remedy));
}

static bool has(const struct list *list, const char *path)
{
	uint32_t i;

	for (i = 0; i < list->n; i++)
		if (!strcmp(list->found[i].path, path))
			return true;
	return false;
}

static int add(struct list *list, const struct drm_found *found)
{
	struct drm_found *larger;
	uint32_t room;

	if (list->n == list->room) {
		room = list->room ? 2 * list->room : 16;
		larger = sys_calloc(room, sizeof(*larger));
		if (!larger)
			return err_set(-ENOMEM, "no memory to list DRM nodes");
		if (list->n)
			memcpy(larger, list->found, list->n * sizeof(*larger));
		free(list->found);
		list->found = larger;
		list->room = room;
	}
	list->found[list->n++] = *found;
	return 0;
}

static int add_node(struct list *list, struct drm_found *found, const char *path, bool primary)
{
	if (has(list, path) || strlen(path) >= sizeof(found->path))
		return 0;
	snprintf(found->path, sizeof(found->path), "%s", path);
	found->primary = primary;
	if (primary)
		look(found);
	else
		ask(found);
	fill_from_sysfs(found);
	return add(list, found);
}

/* Fills in libdrm's description of the bus. */
static void describe(const drmDevice *device, struct drm_found *found)
{
	const drmPciBusInfo *pci = device->businfo.pci;

	memset(found, 0, sizeof(*found));
	switch (device->bustype) {
	case DRM_BUS_PCI:
		snprintf(found->bus, sizeof(found->bus), "pci");
		snprintf(found->address, sizeof(found->address), "pci-%04x:%02x:%02x.%d",
			 pci->domain, pci->bus, pci->dev, pci->func);
		found->vendor = device->deviceinfo.pci->vendor_id;
		found->device = device->deviceinfo.pci->device_id;
		break;
	case DRM_BUS_USB:
		snprintf(found->bus, sizeof(found->bus), "usb");
		break;
	case DRM_BUS_PLATFORM:
		snprintf(found->bus, sizeof(found->bus), "platform");
		break;
	default:
		break;
	}
}

static int add_of_libdrm(struct list *list, drmDevicePtr *devices, int n, int type)
{
	struct drm_found found;
	int i, r = 0;

	for (i = 0; i < n && !r; i++) {
		if (!(devices[i]->available_nodes & (1 << type)))
			continue;
		describe(devices[i], &found);
		r = add_node(list, &found, devices[i]->nodes[type], type == DRM_NODE_PRIMARY);
	}
	return r;
}

/* "card0" and "renderD128"; not "card0-HDMI-A-1", "version". */
static int is_node(const struct dirent *entry)
{
	static const char *const kinds[] = { "card", "renderD" };
	const char *digits;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		digits = entry->d_name + strlen(kinds[i]);
		if (!strncmp(entry->d_name, kinds[i], strlen(kinds[i])) && *digits &&
		    !digits[strspn(digits, "0123456789")])
			return 1;
	}
	return 0;
}

static int add_of_sysfs(struct list *list, struct dirent **entries, int n, bool primary)
{
	struct drm_found found;
	char path[300];
	int i, r = 0;

	for (i = 0; i < n && !r; i++) {
		if ((entries[i]->d_name[0] == 'c') != primary)
			continue;
		memset(&found, 0, sizeof(found));
		snprintf(path, sizeof(path), "/dev/dri/%s", entries[i]->d_name);
		r = add_node(list, &found, path, primary);
	}
	return r;
}

/* Asks libdrm once: it opens some hundred files of sysfs. */
static int add_all(struct list *list)
{
	static const int types[] = { DRM_NODE_RENDER, DRM_NODE_PRIMARY };
	drmDevicePtr devices[DEVICES_MAX];
	struct dirent **entries = NULL;
	int i, n_device, n_entry, r = 0;

	n_device = drmGetDevices2(0, devices, DEVICES_MAX);
	n_entry = scandir(CLASS, &entries, is_node, versionsort);
	for (i = 0; i < (int)ARRAY_SIZE(types) && !r; i++) {
		r = add_of_libdrm(list, devices, n_device, types[i]);
		if (!r)
			r = add_of_sysfs(list, entries, n_entry, types[i] == DRM_NODE_PRIMARY);
	}
	if (n_device > 0)
		drmFreeDevices(devices, n_device);
	for (i = 0; i < n_entry; i++)
		free(entries[i]);
	free(entries);
	return r;
}

static int by_path(const void *a, const void *b)
{
	const struct drm_found *x = a, *y = b;

	if (x->primary != y->primary)
		return x->primary ? 1 : -1;
	return strverscmp(x->path, y->path);
}

/* A card without a driver in sysfs (vgem) gets its render node's. */
static void fill_drivers(struct list *list)
{
	char mine[PATH_MAX], other[PATH_MAX], path[160];
	uint32_t i, k;

	for (i = 0; i < list->n; i++) {
		struct drm_found *found = &list->found[i];

		snprintf(path, sizeof(path), CLASS "/%s/device", name_of(found->path));
		if (*found->driver || !realpath(path, mine))
			continue;
		for (k = 0; k < list->n; k++) {
			snprintf(path, sizeof(path), CLASS "/%s/device",
				 name_of(list->found[k].path));
			if (*list->found[k].driver && realpath(path, other) &&
			    !strcmp(mine, other)) {
				memcpy(found->driver, list->found[k].driver,
				       sizeof(found->driver));
				break;
			}
		}
	}
}

int drm_discover(struct drm_found **ret_found, uint32_t *ret_n)
{
	struct list list = { 0 };
	int r;

	r = add_all(&list);
	if (r)
		goto err_free;
	if (list.n)
		qsort(list.found, list.n, sizeof(*list.found), by_path);
	fill_drivers(&list);
	*ret_found = list.found;
	*ret_n = list.n;
	return 0;

err_free:
	free(list.found);
	return r;
}
