/* SPDX-License-Identifier: MIT */
/* The histogram's kernel in its forms, and the CPU's own count. */
#ifndef HETMAP_HISTOGRAM_H
#define HETMAP_HISTOGRAM_H

#include <stdint.h>

#include <hetmap/hetmap.h>

#define HISTOGRAM_VALUES 256

/*
 * Each part counts into a table of its own; the caller that waits adds up the parts' tables.
 * Grid: histogram_parts() x histogram_group().
 */
int histogram_kernel_create(const struct hm_accel_info *accel, struct hm_kernel **ret_kernel);
/* How many of @bytes, from the first on, this accelerator can count. */
uint64_t histogram_whole(const struct hm_accel_info *accel, uint64_t bytes);
/* How many parts a launch over @bytes should have on this accelerator. */
uint64_t histogram_parts(const struct hm_accel_info *accel, uint64_t bytes);
/* Work items of a part. */
uint64_t histogram_group(const struct hm_accel_info *accel);

/* Independent of the kernel, to check its result. */
void histogram_count(const unsigned char *bytes, uint64_t length,
		     uint64_t counts[HISTOGRAM_VALUES]);

/* Bits a byte: 0 for no bytes. */
double histogram_entropy(const uint64_t counts[HISTOGRAM_VALUES]);

/* Chart, entropy, most common values. */
void histogram_chart(const uint64_t counts[HISTOGRAM_VALUES]);

#endif
