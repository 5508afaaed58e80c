// SPDX-License-Identifier: MIT
/*
 * Accesses of the engine to memory of the process, and prefetches, which are accesses without
 * bytes.
 */
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "soft/mirror.h"

/* Bytes of a prefetch between looks at the clock: few enough for a device that is being reset. */
#define BRING_STEP MIB(2)

/* The setting fault_us: a device with faults that take that long. */
static void wait_as_set(void)
{
	const struct timespec pause = soft_timespec(soft_fault_ns);

	if (unlikely(soft_fault_ns))
		nanosleep(&pause, NULL);
}

/*
 * Makes entries for the page of @start, and looks how far others go on: up to *@end, which it
 * lowers to there. What is before a bad page is to be done first.
 */
static int prepare(const struct soft_access *access, uint64_t start, uint64_t *end,
		   struct sim_fault *ret_fault)
{
	uint8_t need = access->write ? HETSIM_PAGE_WRITE : HETSIM_PAGE_READ;
	struct soft_mirror *mirror = access->mirror;
	uint64_t first = round_down(start, SIM_PAGE_SIZE), at = first;
	uint64_t last = round_up(*end, SIM_PAGE_SIZE);
	const struct soft_page *page;
	bool faulted = false, used;
	uint64_t begin = 0;
	int r = 0;

	pthread_mutex_lock(&mirror->lock);
	soft_entries_check(mirror, first, last);
	page = soft_page_find(mirror, first);
	used = page && page->flags & SOFT_PAGE_AHEAD;
	if (!page || !(page->rights & need)) {
		soft_entries_used(mirror, first, first + SIM_PAGE_SIZE);
		begin = time_now_ns();
		r = soft_mirror_fault(access, start, ret_fault);
		faulted = !r;
	}
	while (!r && at < last && (page = soft_page_find(mirror, at)) && page->rights & need)
		at += SIM_PAGE_SIZE;
	if (!r) {
		*end = min_u64(*end, at);
		used |= soft_entries_used(mirror, first, at) > 0;
		soft_place_used(mirror, first, min_u64(at, last));
	}
	if (faulted || used)
		soft_mirror_learn_from(access, first, at);
	pthread_mutex_unlock(&mirror->lock);
	if (faulted) {
		wait_as_set();
		soft_engine_brought(access->queue, begin);
	}
	return r;
}

/* An entry was stale: the CPU may not do that any more, or not now. */
static void forget_stale(struct soft_mirror *mirror, uint64_t address)
{
	uint64_t n, at = round_down(address, SIM_PAGE_SIZE);

	pthread_mutex_lock(&mirror->lock);
	soft_entries_refresh(mirror, at, at + SIM_PAGE_SIZE);
	n = soft_entries_drop(mirror, at, at + SIM_PAGE_SIZE, HETSIM_EVENT_INVALIDATE);
	soft_mirror_count(mirror, SIM_MIRROR_INVALIDATIONS, !!n);
	soft_mirror_count(mirror, SIM_MIRROR_PAGES_INVALIDATED, n);
	pthread_mutex_unlock(&mirror->lock);
}

static ssize_t copy_once(const struct soft_access *access, bool out, uint64_t address,
			 char *ours, size_t n, size_t *ret_asked, struct sim_fault *ret_fault)
{
	void *any = (void *)(uintptr_t)address;
	uint64_t end = address + n;
	ssize_t done = 0;
	int r;

	pthread_rwlock_rdlock(&access->mirror->use);
	r = prepare(access, address, &end, ret_fault);
	n = end - address;
	if (!r)
		done = out ? sys_copy_to_any(any, ours, n) : sys_copy_from_any(ours, any, n);
	*ret_asked = n;
	pthread_rwlock_unlock(&access->mirror->use);
	return r ? r : done == -EFAULT ? 0 : done;
}

int soft_mirror_copy(const struct soft_access *access, bool out, uint64_t address, void *ours,
		     size_t n, struct sim_fault *ret_fault)
{
	struct soft_mirror *mirror = access->mirror;
	bool again = false;
	char *at = ours;
	size_t asked;
	ssize_t done;
	int r;

	while (n) {
		done = copy_once(access, out, address, at, n, &asked, ret_fault);
		if (done < 0)
			return (int)done;
		address += (size_t)done;
		at += done;
		n -= (size_t)done;
		if ((size_t)done == asked)
			continue;
		forget_stale(mirror, address);
		if (done) {
			again = false;
			continue;
		}
		/* The fault that comes now has the reason, unless the mapping allows it. */
		if (!again) {
			again = true;
			continue;
		}
		pthread_mutex_lock(&mirror->lock);
		r = soft_mirror_refuse(access, address,
				       soft_mirror_reason(mirror, address, access->write),
				       ret_fault);
		pthread_mutex_unlock(&mirror->lock);
		return r;
	}
	return 0;
}

/* ---- prefetches ---- */

/* Brings pages in as the CPU's own faults would. -EFAULT: one of them can't come. */
static int populate(uint64_t start, uint64_t end, bool write)
{
	int r = sys_madvise((void *)(uintptr_t)start, end - start,
			    write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);

	/* Before 5.14, and memory that the kernel maps at once: the entries are all there is. */
	return r == -EINVAL ? 0 : r == -EHWPOISON ? -EFAULT : r;
}

/* The first page of [@start, @end) that can't come. */
static uint64_t find_bad(uint64_t start, uint64_t end, bool write)
{
	while (start < end && !populate(start, start + SIM_PAGE_SIZE, write))
		start += SIM_PAGE_SIZE;
	return start;
}

/* Makes entries for one step in one mapping. */
static int bring_step(const struct soft_access *access, uint64_t start, uint64_t end,
		      struct sim_fault *ret_fault)
{
	struct soft_mirror *mirror = access->mirror;
	uint8_t rights = HETSIM_PAGE_READ | (access->write ? HETSIM_PAGE_WRITE : 0);
	uint64_t n = 0;
	int r = 0;

	pthread_mutex_lock(&mirror->lock);
	soft_mirror_count(mirror, SIM_MIRROR_FAULTS, 1);
	if (soft_mirror_advice(mirror, start) & SOFT_ADVICE_NO_ACCESS)
		r = soft_mirror_refuse(access, start, HETSIM_REASON_NO_ACCESS, ret_fault);
	if (!r)
		r = soft_mirror_enter(mirror, start, end, rights, HETSIM_WHY_PREFETCH, &n);
	if (!r &&
	    (soft_mirror_advice(mirror, start) & SOFT_ADVICE_LOCATION) != HETSIM_LOCATION_HOST)
		soft_place_move(mirror, start, end);
	soft_mirror_count(mirror, SIM_MIRROR_PAGES, n);
	pthread_mutex_unlock(&mirror->lock);
	return r;
}

static int refuse(const struct soft_access *access, uint64_t address, uint32_t reason,
		  struct sim_fault *ret_fault)
{
	int r;

	pthread_mutex_lock(&access->mirror->lock);
	r = soft_mirror_refuse(access, address, reason, ret_fault);
	pthread_mutex_unlock(&access->mirror->lock);
	return r;
}

/* The end of the step from @start on: of the mapping, of the advice, and not too far. */
static int find_step(const struct soft_access *access, uint64_t start, uint64_t *ret_end,
		     struct sim_fault *ret_fault)
{
	struct soft_mirror *mirror = access->mirror;
	uint64_t end = round_down(start, BRING_STEP) + BRING_STEP, at;
	uint32_t advice;
	struct vma vma;

	pthread_mutex_lock(&mirror->lock);
	advice = soft_mirror_advice(mirror, start);
	pthread_mutex_unlock(&mirror->lock);
	if (advice & SOFT_ADVICE_NO_ACCESS)
		return refuse(access, start, HETSIM_REASON_NO_ACCESS, ret_fault);
	if (start >= SOFT_PROCESS_END || vma_find(mirror->maps_fd, start, &vma))
		return refuse(access, start, HETSIM_REASON_UNMAPPED, ret_fault);
	if (!(vma.access & HM_READ) || (access->write && !(vma.access & HM_WRITE)))
		return refuse(access, start,
			      vma.access & HM_READ ? HETSIM_REASON_WRITE : HETSIM_REASON_READ,
			      ret_fault);
	end = min_u64(end, vma.end);
	pthread_mutex_lock(&mirror->lock);
	advice = soft_mirror_advice(mirror, start);
	for (at = start; at < end && soft_mirror_advice(mirror, at) == advice;)
		at += SIM_PAGE_SIZE;
	pthread_mutex_unlock(&mirror->lock);
	*ret_end = at;
	return 0;
}

int soft_mirror_bring(struct soft_queue *queue, const struct hetsim_prefetch *prefetch,
		      struct sim_fault *ret_fault)
{
	struct soft_mirror *mirror = queue->file->mirror;
	uint64_t at = prefetch->address, end = at + prefetch->length, next = end;
	const struct soft_access access = {
		.mirror = mirror,
		.queue = queue,
		.write = prefetch->flags & HETSIM_PREFETCH_WRITE,
		.end = end,
	};
	struct hetsim_event event = {
		.kind = HETSIM_EVENT_PREFETCH,
		.address = at,
		.length = prefetch->length,
		.write = access.write,
		.queue = queue->id,
	};
	uint64_t begin;
	int r = 0;

	soft_mirror_count(mirror, SIM_PREFETCHES, 1);
	if (prefetch->location == HETSIM_LOCATION_HOST) {
		pthread_mutex_lock(&mirror->lock);
		soft_place_return(mirror, at, end);
		pthread_mutex_unlock(&mirror->lock);
		at = end;
	}
	for (; !r && at < end; at = next) {
		r = soft_engine_poll(queue);
		if (!r)
			r = find_step(&access, at, &next, ret_fault);
		if (r)
			break;
		next = min_u64(next, end);
		begin = time_now_ns();
		r = populate(at, next, access.write);
		if (r == -EFAULT) {
			at = find_bad(at, next, access.write);
			r = refuse(&access, at, soft_mirror_reason(mirror, at, access.write),
				   ret_fault);
		}
		if (!r)
			r = bring_step(&access, at, next, ret_fault);
		soft_engine_brought(queue, begin);
	}
	event.value = (uint64_t)-r;
	pthread_mutex_lock(&mirror->lock);
	soft_mirror_tell(mirror, &event);
	pthread_mutex_unlock(&mirror->lock);
	return r;
}
