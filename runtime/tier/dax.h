/* SPDX-License-Identifier: MIT */
/* DAX devices as sysfs shows them. */
#ifndef HETMAP_TIER_DAX_H
#define HETMAP_TIER_DAX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct dax_facts {
	dev_t number;
	uint64_t size;  /* bytes */
	uint64_t align; /* unit of maps: address, offset and length */
	int32_t node;   /* NUMA node that is next to it; -1: not known */
	uint32_t persist;
	char made_of[64]; /* "persistent memory, without a file system"; of CXL: cxl.h */
};

/* False: the character device is no DAX device. */
bool dax_facts_of(dev_t number, struct dax_facts *ret_facts);

/*
 * Calls @each with each DAX device that a program may open now, and with its path, until @each
 * returns another value than 0.
 */
void dax_each(int (*each)(void *user, const char *path, const struct dax_facts *facts),
	      void *user);

/* Describes a node without processors that CXL memory has made (cxl.h), or leaves @text alone. */
void dax_made_of_node(uint32_t node, char *text, size_t size);
/* The CXL region that the node is made of, "region0"; false: of none, or of several. */
bool dax_region_of_node(uint32_t node, char *name, size_t size);

/* A file system whose files are mapped by DAX. */
struct dax_mount {
	char path[64];
	char made_of[64]; /* "ext4 on /dev/pmem0, by DAX" */
	uint64_t size, available;
	uint32_t persist;
};

/* Likewise; mounts with longer paths than a device's name can have are left out. */
void dax_each_mount(int (*each)(void *user, const struct dax_mount *mount), void *user);

#endif
