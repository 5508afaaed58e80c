/* SPDX-License-Identifier: MIT */
/* Helpers of the tests of retirement: bounds, and a reader who holds everything up. */
#ifndef HETMAP_TESTS_RETIRE_SUPPORT_H
#define HETMAP_TESTS_RETIRE_SUPPORT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "lib/support.h"

/* A thread inside a read-side critical section of liburcu: nothing is released meanwhile. */
struct section {
	pthread_t thread;
	sem_t begun, end;
	unsigned int delay_us; /* between section_end() and its end */
};

void section_begin(struct section *section);
void section_end(struct section *section);
/* The same, without waiting for it: it ends by itself after @delay_us. */
void section_end_later(struct section *section, unsigned int delay_us);
void section_join(struct section *section);

/* Deferral with these bounds; 0 objects: none. */
void defer(uint64_t objects, uint64_t bytes);
/* A buffer of @size on @device with one map, which alone holds it. */
struct hm_map *lone_map(struct hm_device *device, uint64_t size);

/*
 * "counted", registered at the first call: a device that counts its live objects in memory that
 * children share.
 */
_Atomic int *counted_objects(void);

#endif
