/* SPDX-License-Identifier: MIT */
/* The places in the code that asked for a device's work, by buffer, kind and call chain. */
#ifndef HETMAP_DEVICE_SITES_H
#define HETMAP_DEVICE_SITES_H

#include "analysis.h"

enum device_work {
	WORK_FAULT,
	WORK_ACCESS, /* that was sampled */
	WORK_MOVE,
	WORK_EVICTION,
};

/* Whose thread it was in: of an eviction, who needed the room. */
enum device_asker {
	ASKER_CODE,    /* a traced process's: site says where */
	ASKER_ENGINE,  /* the device's own, one of the kernel's */
	ASKER_OTHER,   /* that of a process that is not traced */
	ASKER_UNKNOWN, /* a traced process's, of which no chain was to be had */
};

struct stack;

struct device_site {
	const struct object *object;
	uint32_t device;
	enum device_work work;
	uint32_t place; /* of moves and evictions: where to */
	enum device_asker asker;
	const struct stack *stack; /* of ASKER_CODE, else NULL */
	uint64_t n, bytes;
	uint64_t first_ns, last_ns;
	struct site site;         /* of ASKER_CODE: filled by symbols.c */
	struct device_site *next; /* of all that there are */
};

/* NULL: no memory. */
struct device_sites *device_sites_create(struct spaces *spaces);
void device_sites_free(struct device_sites *sites);

/*
 * Counts @event, a device's fault, access or move of @object. *ret_site: where it was asked
 * for; NULL: the recording has no call chain of it. 0 or -ENOMEM.
 */
int device_sites_note(struct device_sites *sites, const struct recorded_event *event,
		      bool evicted, const struct object *object, struct device_site **ret_site);

/* The first of all of them. */
struct device_site *device_sites_first(const struct device_sites *sites);

#endif
