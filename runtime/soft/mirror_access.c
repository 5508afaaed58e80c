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

/* Makes entries for all pages of [@start, @end) that lack one, or a right. */
static int prepare(const struct soft_access *access, uint64_t start, uint64_t end,
		   struct sim_fault *ret_fault)
{
	uint8_t need = access->write ? HETSIM_PAGE_WRITE : HETSIM_PAGE_READ;
	struct soft_mirror *mirror = access->mirror;
	uint64_t first = round_down(start, SIM_PAGE_SIZE), at, n_fault = 0;
	const struct soft_page *page;
	uint64_t n_used;
	int r = 0;

	pthread_mutex_lock(&mirror->lock);
	n_used = soft_entries_used(mirror, first, end);
	for (at = first; !r && at < end; at += SIM_PAGE_SIZE) {
		page = soft_page_find(mirror, at);
		if (page && page->rights & need)
			continue;
		r = soft_mirror_fault(access, max_u64(at, start), ret_fault);
		n_fault += !r;
	}
	if (!r && (n_used || n_fault))
		soft_mirror_learn_from(access, first, end);
	pthread_mutex_unlock(&mirror->lock);
	while (n_fault--)
		wait_as_set();
	return r;
}

/* An entry was stale: the CPU may not do that any more. */
static void forget_stale(struct soft_mirror *mirror, uint64_t address)
{
	uint64_t n, at = round_down(address, SIM_PAGE_SIZE);

	pthread_mutex_lock(&mirror->lock);
	n = soft_entries_drop(mirror, at, at + SIM_PAGE_SIZE, HETSIM_EVENT_INVALIDATE);
	soft_mirror_count(mirror, SIM_MIRROR_INVALIDATIONS, !!n);
	soft_mirror_count(mirror, SIM_MIRROR_PAGES_INVALIDATED, n);
	pthread_mutex_unlock(&mirror->lock);
}

static ssize_t copy_once(const struct soft_access *access, bool out, uint64_t address,
			 char *ours, size_t n, struct sim_fault *ret_fault)
{
	void *any = (void *)(uintptr_t)address;
	ssize_t done = 0;
	int r;

	pthread_rwlock_rdlock(&access->mirror->use);
	r = prepare(access, address, address + n, ret_fault);
	if (!r)
		done = out ? sys_copy_to_any(any, ours, n) : sys_copy_from_any(ours, any, n);
	pthread_rwlock_unlock(&access->mirror->use);
	return r ? r : done == -EFAULT ? 0 : done;
}

int soft_mirror_copy(const struct soft_access *access, bool out, uint64_t address, void *ours,
		     size_t n, struct sim_fault *ret_fault)
{
	struct soft_mirror *mirror = access->mirror;
	bool again = false;
	char *at = ours;
	ssize_t done;
	int r;

	while (n) {
		done = copy_once(access, out, address, at, n, ret_fault);
		if (done < 0)
			return (int)done;
		address += (size_t)done;
		at += done;
		n -= (size_t)done;
		if (!n)
			return 0;
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
	uint64_t at = prefetch->address, end = at + prefetch->length, next;
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
	int r = 0;

	soft_mirror_count(mirror, SIM_PREFETCHES, 1);
	/* No page is anywhere but with the host. */
	if (prefetch->location == HETSIM_LOCATION_HOST)
		at = end;
	for (; !r && at < end; at = next) {
		r = soft_engine_poll(queue);
		if (!r)
			r = find_step(&access, at, &next, ret_fault);
		if (r)
			break;
		next = min_u64(next, end);
		r = populate(at, next, access.write);
		if (r == -EFAULT) {
			at = find_bad(at, next, access.write);
			r = refuse(&access, at, soft_mirror_reason(mirror, at, access.write),
				   ret_fault);
		}
		if (!r)
			r = bring_step(&access, at, next, ret_fault);
	}
	event.value = (uint64_t)-r;
	pthread_mutex_lock(&mirror->lock);
	soft_mirror_tell(mirror, &event);
	pthread_mutex_unlock(&mirror->lock);
	return r;
}
