// SPDX-License-Identifier: MIT
/* The histogram's kernel in its forms, and the CPU's own count. */
#include "histogram.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define GROUP 256 /* work items that share a table, on GPUs */
#define PARTS_MAX 4096
#define PART_BYTES (64ull << 10) /* less is not worth a part */

/*
 * GROUPED (GPUs): a group shares eight tables in local memory, so that equal
 * bytes next to each other do not all wait for one counter; neighbours read
 * neighbouring words.
 * Otherwise (CPUs): a work item reads a stretch of its own, with four tables
 * for the same reason.
 */
static const char source[] =
	"__kernel void histogram(__global const uchar *bytes, ulong length,\n"
	"			__global uint *counts)\n"
	"{\n"
	"	__global const uint4 *words = (__global const uint4 *)bytes;\n"
	"	const ulong n = length / 16;\n"
	"#ifdef GROUPED\n"
	"	__local uint tables[8][256];\n"
	"	const uint lane = get_local_id(0), lanes = get_local_size(0);\n"
	"	const ulong me = get_global_id(0), all = get_global_size(0);\n"
	"	__local uint *table = tables[lane % 8];\n"
	"\n"
	"	for (uint i = lane; i < 8 * 256; i += lanes)\n"
	"		tables[i / 256][i % 256] = 0;\n"
	"	barrier(CLK_LOCAL_MEM_FENCE);\n"
	"	for (ulong i = me; i < n; i += all) {\n"
	"		const uint4 w = words[i];\n"
	"\n"
	"		for (uint shift = 0; shift < 32; shift += 8) {\n"
	"			atomic_inc(&table[w.x >> shift & 255]);\n"
	"			atomic_inc(&table[w.y >> shift & 255]);\n"
	"			atomic_inc(&table[w.z >> shift & 255]);\n"
	"			atomic_inc(&table[w.w >> shift & 255]);\n"
	"		}\n"
	"	}\n"
	"	for (ulong i = n * 16 + me; i < length; i += all)\n"
	"		atomic_inc(&table[bytes[i]]);\n"
	"	barrier(CLK_LOCAL_MEM_FENCE);\n"
	"	for (uint i = lane; i < 256; i += lanes) {\n"
	"		uint sum = 0;\n"
	"\n"
	"		for (uint k = 0; k < 8; k++)\n"
	"			sum += tables[k][i];\n"
	"		counts[get_group_id(0) * 256 + i] = sum;\n"
	"	}\n"
	"#else\n"
	"	uint a[256], b[256], c[256], d[256];\n"
	"	const ulong me = get_global_id(0), all = get_global_size(0);\n"
	"	const ulong end = n * (me + 1) / all;\n"
	"\n"
	"	for (uint i = 0; i < 256; i++)\n"
	"		a[i] = b[i] = c[i] = d[i] = 0;\n"
	"	for (ulong i = n * me / all; i < end; i++) {\n"
	"		const uint4 w = words[i];\n"
	"\n"
	"		a[w.x & 255]++;\n"
	"		b[w.y & 255]++;\n"
	"		c[w.z & 255]++;\n"
	"		d[w.w & 255]++;\n"
	"		a[w.x >> 8 & 255]++;\n"
	"		b[w.y >> 8 & 255]++;\n"
	"		c[w.z >> 8 & 255]++;\n"
	"		d[w.w >> 8 & 255]++;\n"
	"		a[w.x >> 16 & 255]++;\n"
	"		b[w.y >> 16 & 255]++;\n"
	"		c[w.z >> 16 & 255]++;\n"
	"		d[w.w >> 16 & 255]++;\n"
	"		a[w.x >> 24]++;\n"
	"		b[w.y >> 24]++;\n"
	"		c[w.z >> 24]++;\n"
	"		d[w.w >> 24]++;\n"
	"	}\n"
	"	if (me == all - 1)\n"
	"		for (ulong i = n * 16; i < length; i++)\n"
	"			a[bytes[i]]++;\n"
	"	for (uint i = 0; i < 256; i++)\n"
	"		counts[me * 256 + i] = a[i] + b[i] + c[i] + d[i];\n"
	"#endif\n"
	"}\n";

/* The same for "cpu": a work item is a part. */
static int histogram_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const unsigned char *bytes = args[0].pointer;
	const uint64_t length = args[1].u64, all = range->global[0];
	uint32_t *counts = (uint32_t *)args[2].pointer;
	uint64_t part, i;

	for (part = range->begin[0]; part < range->end[0]; part++) {
		/* Multiplying in 64 bits: a slice and the parts are below 2^32. */
		const uint64_t end = length * (part + 1) / all;
		uint32_t tables[4][HISTOGRAM_VALUES] = { 0 };

		for (i = length * part / all; i + 4 <= end; i += 4) {
			tables[0][bytes[i]]++;
			tables[1][bytes[i + 1]]++;
			tables[2][bytes[i + 2]]++;
			tables[3][bytes[i + 3]]++;
		}
		for (; i < end; i++)
			tables[0][bytes[i]]++;
		for (i = 0; i < HISTOGRAM_VALUES; i++)
			counts[part * HISTOGRAM_VALUES + i] =
				tables[0][i] + tables[1][i] + tables[2][i] + tables[3][i];
	}
	return 0;
}

/* One command of an engine, over all bytes of a launch: one part, whatever the grid. */
static const struct hm_engine_step steps[] = {
	{ .op = HM_ENGINE_HISTOGRAM,
	  .destination = 2,
	  .source = 0,
	  .source2 = HM_ENGINE_NONE,
	  .length = 1,
	  .value = HM_ENGINE_NONE },
};

static bool is_engine(const struct hm_accel_info *accel)
{
	return accel->kind == HM_ACCEL_ENGINE;
}

int histogram_kernel_create(const struct hm_accel_info *accel, struct hm_kernel **ret_kernel)
{
	struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "histogram",
		.opencl = source,
		.options = accel->kind == HM_ACCEL_CPU ? NULL : "-DGROUPED",
		.cpu = histogram_cpu,
		.signature = "in u64 out",
		.group = { histogram_group(accel), 1, 1 },
		.engine = steps,
		.n_engine = sizeof(steps) / sizeof(steps[0]),
	};

	return hm_kernel_create(&desc, ret_kernel);
}

uint64_t histogram_group(const struct hm_accel_info *accel)
{
	return accel->kind == HM_ACCEL_CPU || is_engine(accel) ? 1 : GROUP;
}

uint64_t histogram_whole(const struct hm_accel_info *accel, uint64_t bytes)
{
	return is_engine(accel) ? bytes - bytes % accel->alignment : bytes;
}

uint64_t histogram_parts(const struct hm_accel_info *accel, uint64_t bytes)
{
	uint64_t parts = (accel->units ? accel->units : 1) * 8ull;

	if (is_engine(accel))
		return 1;
	if (parts > PARTS_MAX)
		parts = PARTS_MAX;
	if (parts > bytes / PART_BYTES + 1)
		parts = bytes / PART_BYTES + 1;
	return parts;
}

void histogram_count(const unsigned char *bytes, uint64_t length,
		     uint64_t counts[HISTOGRAM_VALUES])
{
	/* Eight tables: a byte that repeats does not wait for its own counter. */
	uint64_t tables[8][HISTOGRAM_VALUES] = { 0 };
	uint64_t word, i;
	unsigned int k;

	for (i = 0; i + 8 <= length; i += 8) {
		memcpy(&word, bytes + i, 8);
		for (k = 0; k < 8; k++)
			tables[k][word >> (8 * k) & 255]++;
	}
	for (; i < length; i++)
		tables[0][bytes[i]]++;
	for (i = 0; i < HISTOGRAM_VALUES; i++)
		for (k = 0; k < 8; k++)
			counts[i] += tables[k][i];
}

double histogram_entropy(const uint64_t counts[HISTOGRAM_VALUES])
{
	double total = 0, bits = 0, p;
	int i;

	for (i = 0; i < HISTOGRAM_VALUES; i++)
		total += (double)counts[i];
	for (i = 0; i < HISTOGRAM_VALUES; i++) {
		p = (double)counts[i] / total;
		/* Not -0 for a file of one value. */
		if (counts[i] && p < 1)
			bits -= p * log2(p);
	}
	return bits;
}
