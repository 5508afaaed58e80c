// SPDX-License-Identifier: MIT
/* Any pointers for their tests. */
#include "range/range_support.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct any_rig any_open(void)
{
	struct any_rig rig = { 0 };

	engine_open(&rig.engine, 0);
	rig.info.struct_size = sizeof(rig.info);
	CHECK_OK_FATAL(hm_accel_query(rig.engine.accel, &rig.info));
	rig.fill = kernel_of_fill();
	rig.copy = kernel_of_op(HM_ENGINE_COPY);
	rig.axpy = kernel_of_op(HM_ENGINE_AXPY);
	rig.crc = kernel_of_op(HM_ENGINE_CRC32);
	rig.histogram = kernel_of_op(HM_ENGINE_HISTOGRAM);
	rig.compare = kernel_of_op(HM_ENGINE_COMPARE);
	return rig;
}

void any_close(struct any_rig *rig)
{
	hm_kernel_unref(rig->fill);
	hm_kernel_unref(rig->copy);
	hm_kernel_unref(rig->axpy);
	hm_kernel_unref(rig->crc);
	hm_kernel_unref(rig->histogram);
	hm_kernel_unref(rig->compare);
	engine_close(&rig->engine);
}

void *any_pages(uint64_t length, int prot)
{
	void *bytes = mmap(NULL, length, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_FATAL(bytes != MAP_FAILED);
	return bytes;
}

static int wait_for(int r, struct hm_fence *fence)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };

	if (r)
		return r;
	r = hm_fence_wait(fence, UINT64_MAX);
	if (!r) {
		CHECK_OK(hm_fence_query(fence, &info));
		CHECK_EQUAL(info.bytes_copied, 0);
		CHECK_EQUAL(info.way_in, HM_WAY_DIRECT);
	}
	hm_fence_unref(fence);
	return r;
}

/* Bytes of the next launch: at most a window's, if the length makes sense. */
static uint64_t piece_of(const struct any_rig *rig, uint64_t length)
{
	return length <= 1ull << 30 && length > rig->info.window ? rig->info.window : length;
}

static int fill_piece(struct any_rig *rig, void *to, uint64_t length, uint32_t word)
{
	struct hm_fence *fence = NULL;
	int r = hm_launch(rig->engine.queue, rig->fill, 1, &fence, HM_ANY(to, length, HM_WRITE),
			  HM_U64(length), HM_U32(word));

	return wait_for(r, fence);
}

int any_fill(struct any_rig *rig, void *to, uint64_t length, uint32_t word)
{
	uint64_t at, piece = piece_of(rig, length);
	int r = fill_piece(rig, to, piece, word);

	for (at = piece; !r && at < length; at += piece) {
		piece = piece_of(rig, length - at);
		r = fill_piece(rig, (char *)to + at, piece, word);
	}
	return r;
}

/* The kernels of one step take "inout in in u64 u32", of which a step uses some. */
static int launch_two(struct any_rig *rig, struct hm_kernel *kernel, void *to,
		      uint64_t to_length, const void *from, uint64_t length, uint32_t by)
{
	struct hm_fence *fence = NULL;
	int r = hm_launch(rig->engine.queue, kernel, 1, &fence,
			  HM_ANY(to, to_length, HM_READ | HM_WRITE),
			  HM_ANY(from, length, HM_READ), HM_ANY(from, length, HM_READ),
			  HM_U64(length), HM_U32(by));

	return wait_for(r, fence);
}

int any_copy(struct any_rig *rig, void *to, const void *from, uint64_t length)
{
	return launch_two(rig, rig->copy, to, length, from, length, 0);
}

int any_axpy(struct any_rig *rig, void *to, const void *from, uint64_t length, uint32_t by)
{
	uint64_t at, piece = piece_of(rig, length);
	int r = launch_two(rig, rig->axpy, to, piece, from, piece, by);

	for (at = piece; !r && at < length; at += piece) {
		piece = piece_of(rig, length - at);
		r = launch_two(rig, rig->axpy, (char *)to + at, piece, (const char *)from + at,
			       piece, by);
	}
	return r;
}

int any_crc(struct any_rig *rig, const void *from, uint64_t length, uint32_t *ret_crc)
{
	static uint32_t result[16] __attribute__((aligned(64)));
	int r = launch_two(rig, rig->crc, result, sizeof(result), from, length, 0);

	if (!r)
		*ret_crc = result[0];
	return r;
}

bool any_told(const void *address, const char *part)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)(uintptr_t)address);
	return text_has(text) && text_has(part);
}

struct hm_range_counts any_counts(struct any_rig *rig)
{
	struct hm_range_counts counts = { .struct_size = sizeof(counts) };

	CHECK_OK(hm_range_counts_get(rig->engine.accel, &counts));
	return counts;
}
