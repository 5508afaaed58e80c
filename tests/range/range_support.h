/* SPDX-License-Identifier: MIT */
/* Any pointers for their tests: memory of every kind, launches on it, and how they fail. */
#ifndef HETMAP_TESTS_RANGE_SUPPORT_H
#define HETMAP_TESTS_RANGE_SUPPORT_H

#include "accel/engine_support.h"
#include "lib/units.h"

/* Fills, adds and so on with any pointers: an engine and kernels of one step each. */
struct any_rig {
	struct engine_rig engine;
	struct hm_kernel *fill, *copy, *axpy, *crc, *histogram, *compare;
	struct hm_accel_info info;
};

struct any_rig any_open(void);
void any_close(struct any_rig *rig);
AUTO_END(any_rig, any_close)

/* Anonymous private memory, or the test is abandoned. */
void *any_pages(uint64_t length, int prot);

/* Launches of one step; the result of the launch, or of its fence. */
int any_fill(struct any_rig *rig, void *to, uint64_t length, uint32_t word);
int any_copy(struct any_rig *rig, void *to, const void *from, uint64_t length);
int any_axpy(struct any_rig *rig, void *to, const void *from, uint64_t length, uint32_t by);
/* A read of @length bytes; the result goes to memory of the caller. */
int any_crc(struct any_rig *rig, const void *from, uint64_t length, uint32_t *ret_crc);

/* The last wait of this thread was refused: does its text have the address, and @part? */
bool any_told(const void *address, const char *part);

struct hm_range_counts any_counts(struct any_rig *rig);

#endif
