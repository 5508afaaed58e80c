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
	char made_of[64]; /* "persistent memory, 256 MiB", "CXL memory mem0" */
};

/* False: the character device is no DAX device. */
bool dax_facts_of(dev_t number, struct dax_facts *ret_facts);

#endif
