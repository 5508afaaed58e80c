// SPDX-License-Identifier: MIT
/*
 * The prefetch that learns, on files: each range of a launch that lies in a file is an access, and
 * the ones that are expected next begin to be read while the work runs. By address, in pages: a
 * map keeps its address. Off until learn_set().
 */
#include <pthread.h>
#include <sys/mman.h>

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

/* Where the range's file is mapped: [*@ret_start, *@ret_end). False: it is none. */
static bool find_file(const struct hm_fence *fence, uint32_t index,
		      struct hm_buffer **ret_buffer, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct hm_accel_range *range = &fence->work.range[index];
	const struct map_use *use;
	struct vma vma;
	uint32_t i;

	*ret_buffer = NULL;
	if (fence->loose & 1u << index) {
		if (vma_find(-1, (uintptr_t)range->pointer, &vma) || !vma.ino)
			return false;
		*ret_start = vma.start;
		*ret_end = vma.end;
		return true;
	}
	for (i = 0; i < fence->n_use; i++) {
		use = &fence->use[i];
		if ((uint64_t)(range->pointer - use->map->address) != range->offset)
			continue;
		if (!buffer_is(use->map->buffer, HM_MEMORY_STORAGE))
			return false;
		*ret_buffer = use->map->buffer;
		*ret_start = (uintptr_t)use->map->address;
		*ret_end = *ret_start + atomic_load(&use->map->length);
		return true;
	}
	return false;
}

static void bring(struct hm_buffer *buffer, uint64_t start, uint64_t end)
{
	void *address = (void *)(uintptr_t)start;

	/* Advice only: a range that is gone since has nothing to read. */
	if (buffer)
		announce_pages(buffer, address, end - start);
	else
		sys_madvise(address, end - start, MADV_WILLNEED);
}

static void learn_from_range(const struct hm_fence *fence, uint32_t index)
{
	const struct hm_accel_range *range = &fence->work.range[index];
	uint64_t first = (uintptr_t)range->pointer / PAGE, start, end, from, to;
	uint64_t last = ((uintptr_t)range->pointer + range->length - 1) / PAGE;
	struct hm_buffer *buffer;
	struct ahead_plan plan;
	bool planned;
	uint32_t i;

	if (!find_file(fence, index, &buffer, &start, &end))
		return;
	pthread_mutex_lock(&mutex);
	planned = ahead_access(&ahead, first, last - first + 1, &plan);
	pthread_mutex_unlock(&mutex);
	for (i = 0; planned && i < plan.count; i++) {
		from = (plan.start + (uint64_t)plan.stride * i) * PAGE;
		to = from + plan.length * PAGE;
		if (from >= start && from < end) {
			bring(buffer, from, min_u64(to, end));
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
