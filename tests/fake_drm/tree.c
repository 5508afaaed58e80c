// SPDX-License-Identifier: MIT
/*
 * The files behind /dev/dri and sysfs: a folder that the first process makes (its
 * children find it in the environment) and takes away. Layout and texts as
 * Documentation/ABI and drivers/gpu/drm/drm_sysfs.c, drivers/pci/pci-sysfs.c have them.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"

#define ROOT "FAKE_DRM_ROOT"

/* drm_drv.c: DRM_MAJOR */
#define MAJOR "226"

static char root[PATH_MAX / 2];
static pid_t owner;

const struct fake_driver *const fake_drivers[FAKE_DRM_ALL] = {
	[FAKE_AMDGPU] = &fake_amdgpu,
	[FAKE_I915] = &fake_i915,
	[FAKE_XE] = &fake_xe,
	[FAKE_NOUVEAU] = &fake_nouveau,
	[FAKE_I915_INTEGRATED] = &fake_i915,
	[FAKE_VIRTIO] = &fake_virtio_gpu,
	[FAKE_VIRTIO_HOST] = &fake_virtio_gpu,
	[FAKE_I915_OLD] = &fake_i915,
	[FAKE_CARD] = &fake_mgag200,
};

static bool begins(const char *path, const char *with)
{
	size_t length = strlen(with);

	return !strncmp(path, with, length) && (!path[length] || path[length] == '/');
}

const char *fake_path(const char *path, char *to)
{
	if (!path || !root[0] ||
	    (!begins(path, "/dev/dri") && !begins(path, "/sys/class/drm") &&
	     !begins(path, "/sys/devices/fake_drm") &&
	     strncmp(path, "/sys/dev/char/" MAJOR ":", 14 + sizeof(MAJOR)) != 0))
		return path;
	snprintf(to, PATH_MAX, "%s%s", root, path);
	return to;
}

size_t fake_unpath(char *path, size_t length)
{
	size_t ours = strlen(root);

	if (!ours || length < ours || strncmp(path, root, ours) != 0)
		return length;
	memmove(path, path + ours, length - ours);
	return length - ours;
}

unsigned int fake_minor(unsigned int node)
{
	return node == FAKE_CARD ? FAKE_DRM_CARD_MINOR : FAKE_DRM_MINOR + node;
}

/* "renderD180" */
static const char *node_name(unsigned int node, char name[32])
{
	snprintf(name, 32, "%s%u", node == FAKE_CARD ? "card" : "renderD", fake_minor(node));
	return name;
}

bool fake_node_of(const char *path, unsigned int *ret_node)
{
	unsigned int node;
	char name[32];

	if (strncmp(path, "/dev/dri/", 9) != 0)
		return false;
	for (node = 0; node < FAKE_DRM_ALL; node++)
		if (!strcmp(path + 9, node_name(node, name))) {
			*ret_node = node;
			return true;
		}
	return false;
}

bool fake_is_placeholder(int fd, unsigned int *ret_node)
{
	size_t length = strlen(root);
	char path[64], name[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = syscall(SYS_readlinkat, AT_FDCWD, path, name, sizeof(name) - 1);
	if (!length || n <= (ssize_t)length || strncmp(name, root, length) != 0)
		return false;
	name[n] = '\0';
	return fake_node_of(name + length, ret_node);
}

/* A test that has no file to test is over: there is nothing to go back to. */
static void or_die(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "fake_drm: %s: %s\n", what, strerror(errno));
	abort();
}

__attribute__((format(printf, 2, 3))) static void name_it(char *to, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(to, PATH_MAX, format, arguments);
	va_end(arguments);
}

static void make_folder(const char *path)
{
	char part[PATH_MAX];
	char *slash;

	name_it(part, "%s", path);
	for (slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(part, 0755);
		*slash = '/';
	}
	or_die(mkdir(part, 0755) && errno != EEXIST ? -1 : 0, part);
}

__attribute__((format(printf, 3, 4))) static void
make_file(const char *folder, const char *name, const char *format, ...)
{
	char path[PATH_MAX], text[512];
	va_list arguments;
	int fd, n;

	va_start(arguments, format);
	n = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	name_it(path, "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	or_die(fd, path);
	or_die(write(fd, text, (size_t)n) == n ? 0 : -1, path);
	close(fd);
}

static void name_device(char *to, unsigned int node)
{
	name_it(to, "%s/sys/devices/fake_drm/0000:%02x:00.0", root, 5 + node);
}

/* DEVICE/driver, which leads to the driver's folder: drivers/base/dd.c, driver_sysfs_add() */
static void bind_driver(const char *device, const char *driver)
{
	char path[PATH_MAX], target[PATH_MAX];

	name_it(target, "%s/sys/bus/pci/drivers/%s", root, driver);
	make_folder(target);
	name_it(path, "%s/driver", device);
	or_die(unlink(path) && errno != ENOENT ? -1 : 0, path);
	or_die(symlink(target, path), path);
}

static void make_node(unsigned int node)
{
	const struct fake_driver *driver = fake_drivers[node];
	unsigned int minor = fake_minor(node);
	char device[PATH_MAX], path[PATH_MAX], target[PATH_MAX], name[32];

	name_it(path, "%s/dev/dri", root);
	make_folder(path);
	node_name(node, name);
	make_file(path, name, "%s", "");

	name_device(device, node);
	make_folder(device);
	make_file(device, "vendor", "0x%04x\n", driver->vendor);
	make_file(device, "device", "0x%04x\n",
		  driver->device + (node == FAKE_I915_INTEGRATED));
	make_file(device, "subsystem_vendor", "0x%04x\n", driver->vendor);
	make_file(device, "subsystem_device", "0x0001\n");
	make_file(device, "revision", "0x01\n");
	make_file(device, "numa_node", "-1\n");
	make_file(
		device, "uevent",
		"DRIVER=%s\nPCI_CLASS=30000\nPCI_ID=%04X:%04X\nPCI_SLOT_NAME=0000:%02x:00.0\n",
		driver->name, driver->vendor, driver->device, 5 + node);
	name_it(target, "%s/sys/bus/pci", root);
	make_folder(target);
	name_it(path, "%s/subsystem", device);
	or_die(symlink(target, path), path);
	bind_driver(device, driver->name);

	name_it(target, "%s/drm/%s", device, name);
	make_folder(target);
	make_file(target, "dev", MAJOR ":%u\n", minor);
	make_file(target, "uevent",
		  "MAJOR=" MAJOR "\nMINOR=%u\nDEVNAME=dri/%s\nDEVTYPE=drm_minor\n", minor,
		  name);
	name_it(path, "%s/device", target);
	or_die(symlink(device, path), path);
	name_it(path, "%s/sys/dev/char", root);
	make_folder(path);
	name_it(path, "%s/sys/dev/char/" MAJOR ":%u", root, minor);
	or_die(symlink(target, path), path);
	name_it(path, "%s/sys/class/drm", root);
	make_folder(path);
	name_it(path, "%s/sys/class/drm/%s", root, name);
	or_die(symlink(target, path), path);
}

bool fake_is_hidden(unsigned int node)
{
	char path[PATH_MAX], name[32];

	name_it(path, "%s/dev/dri/%s", root, node_name(node, name));
	return faccessat(AT_FDCWD, path, F_OK, 0);
}

void fake_plug_card(void)
{
	/* An earlier round of the test may have asked for it. */
	if (fake_is_hidden(FAKE_CARD))
		make_node(FAKE_CARD);
}

void fake_hide(unsigned int node, bool hidden)
{
	char folder[PATH_MAX], path[PATH_MAX], name[32];

	name_it(folder, "%s/dev/dri", root);
	node_name(node, name);
	if (!hidden) {
		make_file(folder, name, "%s", "");
		return;
	}
	name_it(path, "%.*s/%s", PATH_MAX / 2, folder, name);
	or_die(unlink(path), path);
}

/* virtio_mmio.c and virtio_pci_common.c: the device is a child, virtio0, of its carrier */
void fake_carry(unsigned int node, const char *carrier)
{
	const char *driver = fake_drivers[node]->name;
	char device[PATH_MAX], child[PATH_MAX];

	name_device(device, node);
	bind_driver(device, carrier ? carrier : driver);
	name_it(child, "%.*s/virtio0", PATH_MAX / 2, device);
	make_folder(child);
	bind_driver(child, driver);
}

__attribute__((constructor)) static void make_tree(void)
{
	const char *known = getenv(ROOT), *folder = getenv("TMPDIR");
	unsigned int node;
	char path[PATH_MAX / 2];

	if (known) {
		snprintf(root, sizeof(root), "%s", known);
		return;
	}
	snprintf(path, sizeof(path), "%s/fake_drm.XXXXXX", folder && *folder ? folder : "/tmp");
	or_die(mkdtemp(path) ? 0 : -1, path);
	snprintf(root, sizeof(root), "%s", path);
	for (node = 0; node < FAKE_DRM_NODES; node++)
		make_node(node);
	if (getenv("FAKE_DRM_CARD"))
		make_node(FAKE_CARD);
	setenv(ROOT, root, 1);
	owner = getpid();
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

__attribute__((destructor)) static void remove_tree(void)
{
	if (owner == getpid())
		nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
