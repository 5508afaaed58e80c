// SPDX-License-Identifier: MIT
/* Checksums by accelerators and by the CPU. */
#include "checksum.h"

#include <pthread.h>
#include <string.h>

/* FNV-1a's, over words, in four lanes that do not wait for each other. */
#define BASIS 2166136261u
#define PRIME 16777619u

/* As lanes() below, which see; a part begins 16-byte aligned. */
static const char source[] =
	"#define PART (1ul << 20)\n"
	"#define PRIME 16777619u\n"
	"__kernel void checksum(__global const uchar *bytes, ulong length,\n"
	"		       __global uint *sums)\n"
	"{\n"
	"	const ulong part = get_global_id(0), begin = part * PART;\n"
	"	const ulong n = min(length - begin, PART);\n"
	"	__global const uint4 *words = (__global const uint4 *)(bytes + begin);\n"
	"	uint4 h = (uint4)(2166136261u);\n"
	"	uint sum;\n"
	"\n"
	"	for (ulong i = 0; i < n / 16; i++)\n"
	"		h = (h ^ words[i]) * PRIME;\n"
	"	sum = ((h.x * PRIME ^ h.y) * PRIME ^ h.z) * PRIME ^ h.w;\n"
	"	for (ulong i = n / 16 * 16; i < n; i++)\n"
	"		sum = (sum ^ bytes[begin + i]) * PRIME;\n"
	"	sums[part * 16] = sum;\n"
	"}\n";

static uint32_t lanes(const unsigned char *bytes, uint64_t length)
{
	uint32_t h[4] = { BASIS, BASIS, BASIS, BASIS }, word[4], sum;
	uint64_t i;
	int k;

	for (i = 0; i + 16 <= length; i += 16) {
		memcpy(word, bytes + i, 16);
		for (k = 0; k < 4; k++)
			h[k] = (h[k] ^ word[k]) * PRIME;
	}
	sum = (((h[0] * PRIME) ^ h[1]) * PRIME ^ h[2]) * PRIME ^ h[3];
	for (; i < length; i++)
		sum = (sum ^ bytes[i]) * PRIME;
	return sum;
}

static int checksum_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const unsigned char *bytes = args[0].pointer;
	uint64_t length = args[1].u64, part, begin, n;
	uint32_t *sums = (uint32_t *)args[2].pointer;

	for (part = range->begin[0]; part < range->end[0]; part++) {
		begin = part * CHECKSUM_PART;
		n = length - begin < CHECKSUM_PART ? length - begin : CHECKSUM_PART;
		sums[part * CHECKSUM_STRIDE] = lanes(bytes + begin, n);
	}
	return 0;
}

/* One part, whatever the grid. */
static const struct hm_engine_step steps[] = {
	{ .op = HM_ENGINE_CRC32,
	  .destination = 2,
	  .source = 0,
	  .source2 = HM_ENGINE_NONE,
	  .length = 1,
	  .value = HM_ENGINE_NONE },
};

int checksum_kernel_create(struct hm_kernel **ret_kernel)
{
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "checksum",
		.opencl = source,
		.cpu = checksum_cpu,
		.signature = "in u64 out",
		.engine = steps,
		.n_engine = sizeof(steps) / sizeof(steps[0]),
	};

	return hm_kernel_create(&desc, ret_kernel);
}

static bool is_engine(const struct hm_accel_info *accel)
{
	return accel->kind == HM_ACCEL_ENGINE;
}

enum checksum checksum_of(const struct hm_accel_info *accel)
{
	return is_engine(accel) ? CHECKSUM_CRC32 : CHECKSUM_LANES;
}

const char *checksum_name(enum checksum checksum)
{
	return checksum == CHECKSUM_CRC32 ? "crc32" : "lanes";
}

uint64_t checksum_whole(const struct hm_accel_info *accel, uint64_t bytes)
{
	return is_engine(accel) ? bytes - bytes % accel->alignment : bytes;
}

uint64_t checksum_launch_most(const struct hm_accel_info *accel, uint64_t most)
{
	if (most < CHECKSUM_PART)
		return most;
	return is_engine(accel) ? CHECKSUM_PART : most - most % CHECKSUM_PART;
}

/* ---- CRC-32, as zlib's, eight bytes at a time ---- */

static uint32_t tables[8][256];

static void make_tables(void)
{
	uint32_t i, k, word;

	for (i = 0; i < 256; i++) {
		for (word = i, k = 0; k < 8; k++)
			word = word & 1 ? word >> 1 ^ 0xedb88320u : word >> 1;
		tables[0][i] = word;
	}
	for (k = 1; k < 8; k++)
		for (i = 0; i < 256; i++)
			tables[k][i] = tables[k - 1][i] >> 8 ^
				       tables[0][tables[k - 1][i] & 255];
}

static uint32_t crc32(const unsigned char *bytes, uint64_t length)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint32_t sum = UINT32_MAX;
	uint64_t word, i;
	int k;

	pthread_once(&once, make_tables);
	for (i = 0; i + 8 <= length; i += 8) {
		memcpy(&word, bytes + i, 8);
		word ^= sum;
		for (sum = 0, k = 0; k < 8; k++)
			sum ^= tables[7 - k][word >> (8 * k) & 255];
	}
	for (; i < length; i++)
		sum = sum >> 8 ^ tables[0][(sum ^ bytes[i]) & 255];
	return ~sum;
}

uint32_t checksum_compute(enum checksum checksum, const unsigned char *bytes, uint64_t length)
{
	return checksum == CHECKSUM_CRC32 ? crc32(bytes, length) : lanes(bytes, length);
}
