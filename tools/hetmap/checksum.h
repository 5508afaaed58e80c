/* SPDX-License-Identifier: MIT */
/*
 * Checksums of bytes where they lie, by an accelerator, and the CPU's own of the same
 * bytes. Each part of CHECKSUM_PART bytes has one, in a slot of its own.
 */
#ifndef HETMAP_CHECKSUM_H
#define HETMAP_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>

#include <hetmap/hetmap.h>

#define CHECKSUM_PART (1ull << 20)
/* Words from one part's sum to the next one's: engines write at multiples of 64 bytes. */
#define CHECKSUM_STRIDE 16

/* Which one an accelerator computes. */
enum checksum {
	CHECKSUM_LANES, /* sums of 32-bit words in four lanes: cpu, opencl */
	CHECKSUM_CRC32, /* engines */
};

enum checksum checksum_of(const struct hm_accel_info *accel);
const char *checksum_name(enum checksum checksum);

/* The kernel "checksum": in, u64 bytes, out. */
int checksum_kernel_create(struct hm_kernel **ret_kernel);
/* How many of @bytes, from the first on, this accelerator can take. */
uint64_t checksum_whole(const struct hm_accel_info *accel, uint64_t bytes);
/* How many of @most bytes a launch takes: an engine has one result each. */
uint64_t checksum_launch_most(const struct hm_accel_info *accel, uint64_t most);

static inline uint64_t checksum_parts(uint64_t bytes)
{
	return bytes / CHECKSUM_PART + (bytes % CHECKSUM_PART != 0);
}

/* The CPU's, of one part. */
uint32_t checksum_compute(enum checksum checksum, const unsigned char *bytes, uint64_t length);

#endif
