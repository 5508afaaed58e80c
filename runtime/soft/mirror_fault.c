// SPDX-License-Identifier: MIT
/*
 * Device faults of the twin: the rights of the CPU at an address, the chunk that an answer is for,
 * and the entries that it makes. mirror->lock is held throughout.
 */
#include <errno.h>
#include <sys/mman.h>

#include "soft/mirror.h"

uint32_t soft_mirror_advice(const struct soft_mirror *mirror, uint64_t address)
{
	return mirror->advice ? rangemap_at(mirror->advice, address)->value : 0;
}

/* HETSIM_REASON_NONE: the mapping allows the access. */
static uint32_t reason_of(const struct vma *vma, bool write)
{
	if (!(vma->access & HM_READ))
		return HETSIM_REASON_READ;
	return write && !(vma->access & HM_WRITE) ? HETSIM_REASON_WRITE : HETSIM_REASON_NONE;
}

uint32_t soft_mirror_reason(const struct soft_mirror *mirror, uint64_t address, bool write)
{
	struct vma vma;
	uint32_t reason;

	if (address >= SOFT_PROCESS_END || vma_find(mirror->maps_fd, address, &vma))
		return HETSIM_REASON_UNMAPPED;
	reason = reason_of(&vma, write);
	return reason ? reason : HETSIM_REASON_NO_PAGE;
}

int soft_mirror_refuse(const struct soft_access *access, uint64_t address, uint32_t reason,
		       struct sim_fault *ret_fault)
{
	const struct hetsim_event event = {
		.kind = HETSIM_EVENT_FAULT_REFUSED,
		.address = round_down(address, SIM_PAGE_SIZE),
		.length = SIM_PAGE_SIZE,
		.value = reason,
		.write = access->write,
		.queue = access->queue->id,
	};

	*ret_fault = (struct sim_fault){ .address = address,
					 .reason = reason,
					 .write = access->write };
	soft_mirror_count(access->mirror, SIM_MIRROR_FAULTS_REFUSED, 1);
	soft_mirror_tell(access->mirror, &event);
	return -EFAULT;
}

/* ---- chunks ---- */

struct chunk {
	uint64_t start, end;
	uint8_t order; /* log2 of the pages */
};

/* The largest chunk with @address that lies in the mapping and has one advice. */
static struct chunk chunk_of(const struct soft_mirror *mirror, uint64_t address,
			     const struct vma *vma)
{
	static const unsigned int shifts[] = { 21, 16, SIM_PAGE_SHIFT };
	uint32_t advice = soft_mirror_advice(mirror, address);
	uint32_t limit = (advice & SOFT_ADVICE_GRANULES) >> SOFT_ADVICE_GRANULE;
	struct chunk chunk = { 0 };
	const struct rangemap_run *run;
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(shifts); i++) {
		chunk.start = round_down(address, 1ull << shifts[i]);
		chunk.end = chunk.start + (1ull << shifts[i]);
		chunk.order = (uint8_t)(shifts[i] - SIM_PAGE_SHIFT);
		if (shifts[i] == SIM_PAGE_SHIFT)
			break;
		if ((limit && shifts[i] > limit) || chunk.start < vma->start ||
		    chunk.end > vma->end)
			continue;
		if (!mirror->advice)
			break;
		/* Runs with different values meet in between: a smaller chunk has one. */
		run = rangemap_at(mirror->advice, chunk.start);
		if (run == rangemap_at(mirror->advice, chunk.end - 1))
			break;
	}
	return chunk;
}

static int enter(struct soft_mirror *mirror, uint64_t address, uint8_t rights, uint8_t why,
		 uint8_t order, uint64_t *ret_n)
{
	struct soft_page *page;
	int r;

	r = soft_page_get(mirror, address, &page);
	if (r)
		return r;
	*ret_n += !page->rights;
	if (!page->rights || why == HETSIM_WHY_FAULT) {
		page->why = why;
		page->flags = why == HETSIM_WHY_PREFETCH ? SOFT_PAGE_AHEAD :
			      why == HETSIM_WHY_FAULT    ? SOFT_PAGE_COMING :
							   0;
		page->order = order;
	}
	page->rights |= rights;
	return 0;
}

int soft_mirror_enter(struct soft_mirror *mirror, uint64_t start, uint64_t end, uint8_t rights,
		      uint8_t why, uint64_t *ret_n)
{
	const struct vma vma = { .start = start, .end = end };
	struct chunk chunk = { 0 };
	bool closed = false;
	uint64_t at;
	int r = 0;

	for (at = start; !r && at < end; at += SIM_PAGE_SIZE) {
		if (at >= chunk.end) {
			chunk = chunk_of(mirror, at, &vma);
			closed = soft_mirror_advice(mirror, at) & SOFT_ADVICE_NO_ACCESS;
		}
		if (!closed && !soft_page_find(mirror, at))
			r = enter(mirror, at, rights, why, chunk.order, ret_n);
	}
	return r;
}

/* Pages of the chunk besides those that the command uses. Failures only mean more faults. */
static void enter_neighbours(const struct soft_access *access, const struct chunk *chunk,
			     uint32_t advice, uint64_t *ret_n)
{
	unsigned char there[SOFT_FRAME_PAGES];
	bool all = advice & SOFT_ADVICE_READ_MOSTLY && !access->write;
	uint8_t why = all || advice & SOFT_ADVICE_ACCESSED_BY ? HETSIM_WHY_ADVICE :
								HETSIM_WHY_NEIGHBOUR;
	uint64_t at, length = chunk->end - chunk->start;

	if (all)
		sys_madvise((void *)(uintptr_t)chunk->start, length, MADV_POPULATE_READ);
	if (!all && sys_mincore((void *)(uintptr_t)chunk->start, length, there))
		return;
	for (at = chunk->start; at < chunk->end; at += SIM_PAGE_SIZE) {
		if (soft_page_find(access->mirror, at) ||
		    !(all || there[(at - chunk->start) >> SIM_PAGE_SHIFT] & 1))
			continue;
		if (enter(access->mirror, at, HETSIM_PAGE_READ, why, chunk->order, ret_n))
			return;
	}
}

int soft_mirror_fault(const struct soft_access *access, uint64_t address,
		      struct sim_fault *ret_fault)
{
	struct soft_mirror *mirror = access->mirror;
	uint32_t reason, advice = soft_mirror_advice(mirror, address);
	uint64_t at, end, n = 0, begin = time_now_ns();
	struct hetsim_event event = { .kind = HETSIM_EVENT_FAULT };
	uint8_t rights = HETSIM_PAGE_READ | (access->write ? HETSIM_PAGE_WRITE : 0);
	struct chunk chunk;
	struct vma vma;
	int r;

	soft_mirror_count(mirror, SIM_MIRROR_FAULTS, 1);
	if (address >= SOFT_PROCESS_END)
		return soft_mirror_refuse(access, address, HETSIM_REASON_UNMAPPED, ret_fault);
	if (advice & SOFT_ADVICE_NO_ACCESS)
		return soft_mirror_refuse(access, address, HETSIM_REASON_NO_ACCESS, ret_fault);
	r = vma_find(mirror->maps_fd, address, &vma);
	if (r && r != -ENOENT)
		return -ENOMEM;
	reason = r ? HETSIM_REASON_UNMAPPED : reason_of(&vma, access->write);
	if (reason)
		return soft_mirror_refuse(access, address, reason, ret_fault);

	chunk = chunk_of(mirror, address, &vma);
	at = round_down(address, SIM_PAGE_SIZE);
	end = min_u64(chunk.end, round_up(access->end, SIM_PAGE_SIZE));
	event.address = at;
	event.length = end - at;
	for (; at < end; at += SIM_PAGE_SIZE) {
		r = enter(mirror, at, rights, HETSIM_WHY_FAULT, chunk.order, &n);
		if (r)
			return r;
	}
	enter_neighbours(access, &chunk, advice, &n);
	if ((advice & SOFT_ADVICE_LOCATION) == HETSIM_LOCATION_DEVICE)
		soft_place_move(mirror, chunk.start, chunk.end);
	soft_mirror_count(mirror, SIM_MIRROR_PAGES, n);
	event.write = access->write;
	event.queue = access->queue->id;
	event.duration_ns = (uint32_t)min_u64(time_now_ns() - begin, UINT32_MAX);
	soft_mirror_tell(mirror, &event);
	return 0;
}

/* ---- the prefetch that learns, in units of 64 KiB ---- */

static void bring_ahead(const struct soft_access *access, uint64_t start, uint64_t end)
{
	struct soft_mirror *mirror = access->mirror;
	uint8_t rights = HETSIM_PAGE_READ;
	uint64_t n = 0, at;
	struct vma vma;

	if (start >= SOFT_PROCESS_END || end > SOFT_PROCESS_END ||
	    vma_find(mirror->maps_fd, start, &vma) || reason_of(&vma, access->write) ||
	    soft_mirror_advice(mirror, start) & SOFT_ADVICE_NO_ACCESS) {
		ahead_forget(&mirror->ahead, start / SZ_64K, 1);
		return;
	}
	end = min_u64(end, vma.end);
	if (access->write)
		rights |= HETSIM_PAGE_WRITE;
	if (soft_mirror_enter(mirror, start, end, rights, HETSIM_WHY_PREFETCH, &n))
		return;
	soft_mirror_count(mirror, SIM_MIRROR_PAGES, n);
	/* Starts reading where the bytes are on a disk; advice only. */
	for (at = start; vma.ino && at < end; at += SZ_128K)
		sys_madvise((void *)(uintptr_t)at, min_u64(SZ_128K, end - at), MADV_WILLNEED);
}

void soft_mirror_count_learned(struct soft_mirror *mirror)
{
	const struct ahead_counts *now = &mirror->ahead.counts, *then = &mirror->learned;

	soft_mirror_count(mirror, SIM_LEARN_ACCESSES, now->accesses - then->accesses);
	soft_mirror_count(mirror, SIM_LEARN_SEQUENTIAL, now->sequential - then->sequential);
	soft_mirror_count(mirror, SIM_LEARN_STRIDED, now->strided - then->strided);
	soft_mirror_count(mirror, SIM_LEARN_RANDOM, now->random - then->random);
	soft_mirror_count(mirror, SIM_LEARN_PLANNED,
			  (now->planned - then->planned) * (SZ_64K / SIM_PAGE_SIZE));
	soft_mirror_count(mirror, SIM_LEARN_DOUBLED, now->doubled - then->doubled);
	soft_mirror_count(mirror, SIM_LEARN_HALVED, now->halved - then->halved);
	mirror->learned = *now;
}

void soft_mirror_learn_from(const struct soft_access *access, uint64_t start, uint64_t end)
{
	struct soft_mirror *mirror = access->mirror;
	uint64_t first = start / SZ_64K, last = (end - 1) / SZ_64K, at;
	struct ahead_plan plan;
	bool planned;
	uint32_t i;

	if (!mirror->learns)
		return;
	planned = ahead_access(&mirror->ahead, first, last - first + 1, &plan);
	for (i = 0; planned && i < plan.count; i++) {
		at = (plan.start + (uint64_t)plan.stride * i) * SZ_64K;
		bring_ahead(access, at, at + plan.length * SZ_64K);
	}
	soft_mirror_count_learned(mirror);
}
