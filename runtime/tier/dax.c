// SPDX-License-Identifier: MIT
/* DAX devices as sysfs shows them [Documentation/ABI/testing/sysfs-bus-dax]. */
#include "tier/dax.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/lines.h"
#include "base/proc.h"
#include "base/sys.h"
#include "base/util.h"
#include "tier/cxl.h"
#include "tier/persist.h"

/* The bus is the only one that has devices with a target node and an alignment. */
static bool is_dax(dev_t number)
{
	char path[64], target[512];
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u", major(number), minor(number));
	n = sys_readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	return strstr(target, "/dax") != NULL;
}

bool dax_facts_of(dev_t number, struct dax_facts *ret_facts)
{
	const struct device_number device = { false, number };
	struct dax_facts facts = { .number = number, .node = -1 };
	char text[32], folder[64];

	if (!is_dax(number) || !device_number_attribute(device, "size", &facts.size) ||
	    !facts.size)
		return false;
	/* Kernels before 5.10 do not show it: 2 MiB is what they have. */
	if (!device_number_attribute(device, "align", &facts.align) || !facts.align ||
	    facts.align & (facts.align - 1))
		facts.align = MIB(2);
	if (device_attribute(device, "numa_node", text, sizeof(text)))
		facts.node = (int32_t)strtol(text, NULL, 10);
	facts.persist = persist_of_device(device);
	snprintf(facts.made_of, sizeof(facts.made_of), "%s, without a file system",
		 facts.persist ? "persistent memory" : "memory of a device");
	snprintf(folder, sizeof(folder), "/sys/dev/char/%u:%u", major(number), minor(number));
	cxl_made_of(folder, facts.made_of, sizeof(facts.made_of));
	*ret_facts = facts;
	return true;
}

/* Calls @each for the entries of a folder, but "." and "..". */
static void each_entry(const char *path, int (*each)(void *user, const char *name), void *user)
{
	_Alignas(struct dirent64) char entries[4096];
	int fd = sys_open(path, O_RDONLY | O_DIRECTORY, 0);
	const struct dirent64 *entry;
	int64_t n, at;
	int r = 0;

	if (fd < 0)
		return;
	while (!r && (n = sys_getdents(fd, entries, sizeof(entries))) > 0)
		for (at = 0; !r && at < n; at += entry->d_reclen) {
			entry = (const struct dirent64 *)(entries + at);
			if (entry->d_name[0] != '.')
				r = each(user, entry->d_name);
		}
	sys_close(fd);
}

struct node_walk {
	uint32_t node, n;
	char region[32]; /* of the first of the @n devices with CXL memory */
	char folder[96];
};

static int look_at_target(void *user, const char *name)
{
	struct node_walk *walk = user;
	char path[96], region[32];
	uint64_t node;

	snprintf(path, sizeof(path), "/sys/bus/dax/devices/%.32s/target_node", name);
	if (!proc_number(path, &node) || node != walk->node)
		return 0;
	snprintf(path, sizeof(path), "/sys/bus/dax/devices/%.32s", name);
	if (!cxl_region_of(path, region, sizeof(region)))
		return 0;
	if (!walk->n++) {
		name_copy(walk->region, sizeof(walk->region), region);
		name_copy(walk->folder, sizeof(walk->folder), path);
	}
	return 0;
}

void dax_made_of_node(uint32_t node, char *text, size_t size)
{
	struct node_walk walk = { .node = node };

	each_entry("/sys/bus/dax/devices", look_at_target, &walk);
	if (walk.n)
		cxl_made_of(walk.folder, text, size);
}

bool dax_region_of_node(uint32_t node, char *name, size_t size)
{
	struct node_walk walk = { .node = node };

	each_entry("/sys/bus/dax/devices", look_at_target, &walk);
	if (walk.n == 1)
		name_copy(name, size, walk.region);
	return walk.n == 1;
}

struct walk {
	int (*each)(void *user, const char *path, const struct dax_facts *facts);
	void *user;
};

/* The driver kmem has made a NUMA node of it, and it can't be opened, whatever /dev has. */
static bool is_system_ram(const char *name)
{
	char path[96], target[256];
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/bus/dax/devices/%.32s/driver", name);
	n = sys_readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	return strstr(target, "/drivers/kmem") != NULL;
}

static int look_at_device(void *user, const char *name)
{
	const struct walk *walk = user;
	unsigned int major_number, minor_number;
	char path[96], text[32];
	struct dax_facts facts;

	snprintf(path, sizeof(path), "/sys/bus/dax/devices/%.32s/dev", name);
	if (!proc_read(path, text, sizeof(text)) ||
	    sscanf(text, "%u:%u", &major_number, &minor_number) != 2)
		return 0;
	if (is_system_ram(name))
		return 0;
	snprintf(path, sizeof(path), "/dev/%.32s", name);
	/* A device whose driver is not loaded may have no node. */
	if (sys_access(path, R_OK) ||
	    !dax_facts_of(makedev(major_number, minor_number), &facts))
		return 0;
	return walk->each(walk->user, path, &facts);
}

void dax_each(int (*each)(void *user, const char *path, const struct dax_facts *facts),
	      void *user)
{
	struct walk walk = { each, user };

	each_entry("/sys/bus/dax/devices", look_at_device, &walk);
}

/* Is @option one of the list "rw,dax=always"? */
static bool has_option(const char *list, const char *option)
{
	size_t length = strlen(option);
	const char *at;

	for (at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, option, length) && (!at[length] || at[length] == ','))
			return true;
	}
	return false;
}

/* A line of mountinfo [proc(5)]; false: it is of no file system with DAX. */
static bool read_mount(char *line, struct dax_mount *mount)
{
	char path[64], type[16], source[64], options[256], *rest;
	unsigned int major_number, minor_number;
	struct statfs fs;
	int fd, r;

	if (sscanf(line, "%*u %*u %u:%u %*s %63s", &major_number, &minor_number, path) != 3)
		return false;
	rest = strstr(line, " - ");
	if (!rest || sscanf(rest, " - %15s %63s %255s", type, source, options) != 3 ||
	    !(has_option(options, "dax") || has_option(options, "dax=always")) ||
	    strchr(path, '\\') || strlen(path) > sizeof(path) - sizeof("pmem:"))
		return false;
	*mount = (struct dax_mount){ 0 };
	name_copy(mount->path, sizeof(mount->path), path);
	snprintf(mount->made_of, sizeof(mount->made_of), "%s on %.32s, by DAX", type, source);
	mount->persist = persist_of_device(
		(struct device_number){ true, makedev(major_number, minor_number) });
	fd = sys_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return false;
	r = sys_fstatfs(fd, &fs);
	sys_close(fd);
	if (r)
		return false;
	mount->size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	mount->available = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	return true;
}

void dax_each_mount(int (*each)(void *user, const struct dax_mount *mount), void *user)
{
	struct dax_mount mount;
	struct lines lines;
	char *line;
	int r = 0;

	if (lines_open(&lines, "/proc/self/mountinfo"))
		return;
	while (!r && (line = lines_next(&lines)))
		if (read_mount(line, &mount))
			r = each(user, &mount);
	lines_close(&lines);
}
