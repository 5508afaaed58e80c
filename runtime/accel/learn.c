// SPDX-License-Identifier: MIT
/*
 * The prefetch that learns, on files: each range of a launch that lies in a file is an access, and
 * the ones that are expected next begin to be read while the work runs. By address, in pages: a
 * map keeps its address. Off until learn_set().
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/types.h>

#include "accel/accel.h"
#include "base/sys.h"
#include "base/vmas.h"
#include "map/announce.h"
#include "model/ahead.h"

#define PAGE 4096ull

_Atomic bool learn_on;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects what follows; a leaf */
static struct ahead ahead;

void learn_set(uint64_t least, uint64_t most)
{
	struct ahead_counts counts;

	pthread_mutex_lock(&mutex);
	ahead_end(&ahead);
	counts = ahead.counts;
	ahead_init(&ahead, least / PAGE, most / PAGE);
	/*
	 * The kernel reads ahead of sequential faults itself, into large folios. MADV_WILLNEED
	 * makes small ones [mm/readahead.c, force_page_cache_ra()], and took three times as long.
	 */
	ahead.strided_only = true;
	ahead.counts = counts;
	atomic_store(&learn_on, most > 0);
	pthread_mutex_unlock(&mutex);
}

void learn_counts(struct ahead_counts *ret_counts)
{
	pthread_mutex_lock(&mutex);
	*ret_counts = ahead.counts;
	pthread_mutex_unlock(&mutex);
}

/* A child goes on with the parent's streams, whose lock another thread may have held. */
void learn_fork_prepare(void)
{
	pthread_mutex_lock(&mutex);
}

void learn_fork_after(void)
{
	pthread_mutex_unlock(&mutex);
}

/* A file where a range of a launch is. */
struct source {
	struct hm_buffer *buffer; /* NULL: mapped by the program */
	dev_t device;             /* then: the device of the file's storage */
	uint64_t start, end;      /* addresses of the map */
};

/* False: the range is in none. */
static bool find_file(const struct hm_fence *fence, uint32_t index, struct source *ret_source)
{
	const struct hm_accel_range *range = &fence->work.range[index];
	const struct map_use *use;
	struct vma vma;
	uint32_t i;

	if (fence->loose & 1u << index) {
		if (vma_find(-1, (uintptr_t)range->pointer, &vma) || !vma.ino)
			return false;
		*ret_source = (struct source){
			.device = makedev((uint32_t)(vma.dev >> 32), (uint32_t)vma.dev),
			.start = vma.start,
			.end = vma.end,
		};
		return true;
	}
	for (i = 0; i < fence->n_use; i++) {
		use = &fence->use[i];
		if ((uint64_t)(range->pointer - use->map->address) != range->offset)
			continue;
		if (!buffer_is(use->map->buffer, HM_MEMORY_STORAGE))
			return false;
		*ret_source = (struct source){
			.buffer = use->map->buffer,
			.start = (uintptr_t)use->map->address,
			.end = (uintptr_t)use->map->address + atomic_load(&use->map->length),
		};
		return true;
	}
	return false;
}

/* The step of the device that was asked for last: it takes reads of files to find out. */
static uint64_t step_of(dev_t device)
{
	static _Atomic uint64_t last_device = UINT64_MAX, last_step;
	uint64_t step = last_step;

	if (last_device != device || !step) {
		step = announce_step(device);
		last_step = step;
		last_device = device;
	}
	return step;
}

/* Advice only: a range that is gone since has nothing to read. */
static void bring(const struct source *source, uint64_t start, uint64_t end)
{
	uint64_t step, at;

	if (source->buffer) {
		announce_pages(source->buffer, (void *)(uintptr_t)start, end - start);
		return;
	}
	step = step_of(source->device);
	for (at = start; at < end; at += step)
		sys_madvise((void *)(uintptr_t)at, min_u64(step, end - at), MADV_WILLNEED);
}

static void learn_from_range(const struct hm_fence *fence, uint32_t index)
{
	const struct hm_accel_range *range = &fence->work.range[index];
	uint64_t first = (uintptr_t)range->pointer / PAGE, from, to;
	uint64_t last = ((uintptr_t)range->pointer + range->length - 1) / PAGE;
	struct source source;
	struct ahead_plan plan;
	bool planned;
	uint32_t i;

	if (!find_file(fence, index, &source))
		return;
	pthread_mutex_lock(&mutex);
	planned = ahead_access(&ahead, first, last - first + 1, &plan);
	pthread_mutex_unlock(&mutex);
	for (i = 0; planned && i < plan.count; i++) {
		from = (plan.start + (uint64_t)plan.stride * i) * PAGE;
		to = from + plan.length * PAGE;
		if (from >= source.start && from < source.end) {
			bring(&source, from, min_u64(to, source.end));
			continue;
		}
		pthread_mutex_lock(&mutex);
		ahead_forget(&ahead, from / PAGE, plan.length);
		pthread_mutex_unlock(&mutex);
	}
}

void learn_from(struct hm_fence *fence, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (fence->work.kind != HM_WORK_LAUNCH ||
		    fence->work.arg[i].kind == HM_ARG_POINTER)
			learn_from_range(fence, i);
}
