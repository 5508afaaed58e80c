// SPDX-License-Identifier: MIT
/*
 * The tour's computing: the accelerator takes addresses of the CPU's map, adds the
 * first part times a number to the second, and counts the bytes of the sum. The
 * CPU knows the result from the words' own rule, without the device.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "job.h"
#include "tour.h"

#define A 3u
#define N_VALUE 256

static const char source[] =
	"__kernel void tour(uint a, __global const uint *x, __global uint *y,\n"
	"		   __global uint *counts, ulong length)\n"
	"{\n"
	"	const size_t i = get_global_id(0);\n"
	"	const uint sum = y[i] + a * x[i];\n"
	"\n"
	"	y[i] = sum;\n"
	"	for (uint shift = 0; shift < 32; shift += 8)\n"
	"		atomic_inc(&counts[sum >> shift & 255]);\n"
	"}\n";

static void count(uint32_t counts[N_VALUE], uint32_t word)
{
	unsigned int shift;

	for (shift = 0; shift < 32; shift += 8)
		counts[word >> shift & 255]++;
}

static int on_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const uint32_t a = args[0].u32, *x = args[1].pointer;
	uint32_t *y = (uint32_t *)args[2].pointer, *to = (uint32_t *)args[3].pointer;
	uint32_t counts[N_VALUE] = { 0 };
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++) {
		y[i] += a * x[i];
		count(counts, y[i]);
	}
	for (i = 0; i < N_VALUE; i++)
		__atomic_fetch_add(&to[i], counts[i], __ATOMIC_RELAXED);
	return 0;
}

/* Arguments: 0 a, 1 x, 2 y, 3 counts, 4 length of x and y. */
static const struct hm_engine_step engine[] = {
	{ .op = HM_ENGINE_AXPY,
	  .destination = 2,
	  .source = 1,
	  .source2 = HM_ENGINE_NONE,
	  .length = 4,
	  .value = 0 },
	{ .op = HM_ENGINE_HISTOGRAM,
	  .destination = 3,
	  .source = 2,
	  .source2 = HM_ENGINE_NONE,
	  .length = 4,
	  .value = HM_ENGINE_NONE },
};

/* In the part by which the buffer grew, or else in the last quarter. */
static uint64_t counts_at(const struct tour *tour)
{
	const uint64_t page = tour->device_info.page_size;

	return tour->size > 2 * tour->part ? 2 * tour->part :
					     tour->part + tour->part / 2 / page * page;
}

static uint64_t result_length(const struct tour *tour)
{
	return counts_at(tour) - tour->part;
}

/* A table for each launch: an engine does not add to older counts. */
static uint32_t *counts_of(const struct tour *tour, uint64_t launch)
{
	return tour->words + counts_at(tour) / 4 + launch * N_VALUE;
}

/* No operand of a launch may cross one of the accelerator's windows. */
static uint64_t slice_end(const struct tour *tour, uint64_t offset)
{
	const uint64_t window = tour->accel_info.window, all = result_length(tour);
	uint64_t length = all - offset;

	if (!window)
		return all;
	if (length > window - offset % window)
		length = window - offset % window;
	if (length > window - (tour->part + offset) % window)
		length = window - (tour->part + offset) % window;
	return offset + length;
}

static uint64_t count_slices(const struct tour *tour)
{
	uint64_t offset, n = 0;

	for (offset = 0; offset < result_length(tour); offset = slice_end(tour, offset))
		n++;
	return n;
}

static int launch(struct tour *tour, uint64_t i, uint64_t offset, const uint32_t *y,
		  struct hm_fence **ret_fence)
{
	const uint64_t length = slice_end(tour, offset) - offset;
	const uint32_t *x = tour->words + offset / 4;

	return hm_launch(tour->queue, tour->kernel, length / 4, ret_fence, HM_U32(A),
			 HM_RANGE(x, length, HM_READ), HM_RANGE(y, length, HM_READ | HM_WRITE),
			 HM_RANGE(counts_of(tour, i), N_VALUE * 4, HM_READ | HM_WRITE),
			 HM_U64(length));
}

/* A kernel that would write where the map is read-only does not even start. */
static int expect_refused(struct tour *tour)
{
	struct hm_fence *fence = NULL;
	int r = launch(tour, 0, 0, tour->words, &fence);

	if (!r) {
		hm_fence_wait(fence, UINT64_MAX);
		hm_fence_unref(fence);
	}
	return tour_expect(tour, r == -EACCES,
			   "a kernel that would write to the read-only part is not "
			   "refused (%d)",
			   r);
}

/* Launches slice by slice. @info: of the last, with the bytes copied by all. */
static int launch_all(struct tour *tour, struct hm_fence_info *info)
{
	uint64_t offset, copied = 0, i = 0;
	struct hm_fence *fence;
	int r;

	for (offset = 0; offset < result_length(tour); offset = slice_end(tour, offset)) {
		r = launch(tour, i++, offset, tour->words + (tour->part + offset) / 4, &fence);
		if (r)
			return tour_failed(tour, r, 0, "no launch");
		r = hm_fence_wait(fence, UINT64_MAX);
		if (!r)
			r = hm_fence_query(fence, info);
		hm_fence_unref(fence);
		if (r)
			return tour_fail(tour, STATUS_WRONG, r, "the accelerator failed: %s",
					 hm_errmsg());
		copied += info->bytes_copied;
		if (signals_pending())
			return 128 + signals_pending();
	}
	info->bytes_copied = copied;
	return 0;
}

/* With the reason, which asking for the way in leaves as a warning. */
static void say_copied(struct tour *tour, const struct hm_fence_info *info)
{
	const char *reason = "";
	char copied[TEXT_MAX];
	uint32_t way;
	int r = hm_accel_way_in(tour->accel, tour->words, result_length(tour), &way);

	if (!r && way == HM_WAY_COPY)
		reason = hm_warning();
	tour_say(tour, "y += %ux: %s copied%s%s", A, text_bytes(info->bytes_copied, copied),
		 *reason ? ": " : "", reason);
}

int tour_launch(struct tour *tour)
{
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "tour",
		.opencl = source,
		.cpu = on_cpu,
		.signature = "u32 in inout inout u64",
		.engine = engine,
		.n_engine = sizeof(engine) / sizeof(engine[0]),
	};
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct hm_stats stats = { .struct_size = sizeof(stats) };
	const uint64_t n = count_slices(tour);
	char copied[TEXT_MAX], number[TEXT_MAX];
	uint64_t launches;
	int r, status = 0;

	if (n * N_VALUE * 4 > tour->size - counts_at(tour))
		return tour_fail(tour, STATUS_ENVIRONMENT, E2BIG,
				 "it takes %" PRIu64 " launches in windows of %" PRIu64
				 " bytes: choose a larger --size",
				 n, tour->accel_info.window);
	memset(counts_of(tour, 0), 0, n * N_VALUE * 4);
	r = hm_kernel_create(&desc, &tour->kernel);
	if (!r)
		r = hm_kernel_build(tour->kernel, tour->accel);
	if (r)
		return tour_failed(tour, r, 0, "no kernel");
	if (tour->is_protected)
		status = expect_refused(tour);
	if (status)
		return status;
	hm_stats_get(&stats);
	launches = stats.launches;
	status = launch_all(tour, &info);
	if (status)
		return status;
	tour->computed = true;
	hm_stats_get(&stats);
	if (info.way_in == HM_WAY_COPY)
		say_copied(tour, &info);
	else
		tour_say(tour, "y += %ux%s%s%s: %s, %s bytes copied", A, n > 1 ? " in " : "",
			 n > 1 ? text_count(n, number) : "", n > 1 ? " launches" : "",
			 job_way_name(info.way_in), text_count(info.bytes_copied, copied));
	status = tour_expect_number(tour, info.done, 1, "the fence");
	if (!status)
		status = tour_expect_number(tour, stats.launches, launches + n, "launches");
	if (!status)
		status = tour_expect(tour, info.bytes_copied == 0 || info.way_in == HM_WAY_COPY,
				     "%" PRIu64 " bytes were copied, and the way in is %s",
				     info.bytes_copied, job_way_name(info.way_in));
	return status;
}

int tour_read(struct tour *tour)
{
	const uint64_t first = tour->part / 4, n = result_length(tour) / 4;
	uint32_t counts[N_VALUE] = { 0 };
	uint64_t i, slice;

	if (!tour->computed) {
		tour_say(tour, "nothing was computed");
		return TOUR_ABSENT;
	}
	progress_begin("checking on the CPU", 4 * n);
	for (i = 0; i < n; i++) {
		uint32_t sum = tour_word(first + i) + A * tour_word(i);

		if (tour->words[first + i] != sum)
			return tour_expect(tour, false,
					   "wrong result: y[%" PRIu64
					   "] is 0x%08x, and should be 0x%08x",
					   i, tour->words[first + i], sum);
		count(counts, sum);
		if (i % (1 << 20))
			continue;
		progress_add(4 << 20);
		if (signals_pending())
			return 128 + signals_pending();
	}
	progress_end();
	for (i = 0; i < N_VALUE; i++) {
		uint32_t found = 0;

		for (slice = 0; slice < count_slices(tour); slice++)
			found += counts_of(tour, slice)[i];
		if (found != counts[i])
			return tour_expect(tour, false,
					   "wrong result: byte 0x%02x %u times, and the CPU "
					   "counts %u",
					   (unsigned int)i, found, counts[i]);
	}
	tour_say(tour, "sums and counts are the CPU's own");
	tour->n_expected += 2;
	return STATUS_DONE;
}
