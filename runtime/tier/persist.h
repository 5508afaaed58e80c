/* SPDX-License-Identifier: MIT */
/* Persistence of a device's memory, as sysfs has it. */
#ifndef HETMAP_TIER_PERSIST_H
#define HETMAP_TIER_PERSIST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <hetmap/tier.h>

/* A character or block device, by the number of its node. */
struct device_number {
	bool block;
	dev_t number;
};

/*
 * Unit in which stores to the memory behind the device last, once the CPU has written them back:
 * HM_PERSIST_NONE for memory that loses its bytes with the power.
 */
uint32_t persist_of_device(struct device_number device);

/* The folder of the region of persistent memory that has the device's; false: none has. */
bool persist_region(struct device_number device, char *path, size_t size);

/* Text of the file @name in the device's folder of sysfs; false: there is none. */
bool device_attribute(struct device_number device, const char *name, char *text, size_t size);
bool device_number_attribute(struct device_number device, const char *name,
			     uint64_t *ret_number);

#endif
