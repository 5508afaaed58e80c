// SPDX-License-Identifier: MIT
/*
 * Entries that the process's mappings contradict: the kernel tells the module of them by a
 * notifier, the twin finds out here. mirror->lock is held throughout.
 */
#include <errno.h>

#include "soft/mirror.h"

#define FRAME (1ull << SOFT_FRAME_SHIFT)

struct refresh {
	struct soft_mirror *mirror;
	uint64_t at, end; /* the rest to look at */
	uint64_t from;    /* start of a run of stale pages up to at; UINT64_MAX: none */
	uint64_t n_dropped;
	uint64_t n_calls;
};

static void drop_run(struct refresh *refresh)
{
	if (refresh->from != UINT64_MAX) {
		refresh->n_dropped += soft_entries_drop(refresh->mirror, refresh->from,
							refresh->at, HETSIM_EVENT_INVALIDATE);
		refresh->n_calls++;
	}
	refresh->from = UINT64_MAX;
}

/* A page that has an entry, or not. */
static void look(struct refresh *refresh, uint8_t rights, bool resident)
{
	struct soft_page *page = soft_page_find(refresh->mirror, refresh->at);

	if (page && page->rights & rights && (resident || page->flags & SOFT_PAGE_UNUSED)) {
		page->rights &= rights;
		page = NULL;
	}
	if (!page)
		drop_run(refresh);
	else if (refresh->from == UINT64_MAX)
		refresh->from = refresh->at;
	refresh->at += SIM_PAGE_SIZE;
}

static void look_up_to(struct refresh *refresh, uint64_t end, uint8_t rights)
{
	unsigned char there[SOFT_FRAME_PAGES];
	uint64_t n, i;
	bool known;

	while (refresh->at < end) {
		n = min_u64((end - refresh->at) / SIM_PAGE_SIZE, SOFT_FRAME_PAGES);
		known = rights &&
			!sys_mincore((void *)(uintptr_t)refresh->at, n * SIM_PAGE_SIZE, there);
		for (i = 0; i < n; i++)
			look(refresh, rights, known && there[i] & 1);
	}
}

static int look_at_vma(void *user, const struct vma *vma)
{
	struct refresh *refresh = user;
	uint8_t rights = (vma->access & HM_READ ? HETSIM_PAGE_READ : 0) |
			 (vma->access & HM_WRITE ? HETSIM_PAGE_WRITE : 0);

	look_up_to(refresh, min_u64(max_u64(vma->start, refresh->at), refresh->end), 0);
	look_up_to(refresh, min_u64(vma->end, refresh->end),
		   rights & HETSIM_PAGE_READ ? rights : 0);
	return 0;
}

int soft_entries_refresh(struct soft_mirror *mirror, uint64_t start, uint64_t end)
{
	struct refresh refresh = {
		.mirror = mirror,
		.at = round_down(start, FRAME),
		.end = min_u64(round_up(end, FRAME), SOFT_PROCESS_END),
		.from = UINT64_MAX,
	};
	int r;

	r = vmas_each(refresh.at, refresh.end, look_at_vma, &refresh);
	if (r)
		return r;
	look_up_to(&refresh, refresh.end, 0);
	drop_run(&refresh);
	soft_mirror_count(mirror, SIM_MIRROR_INVALIDATIONS, refresh.n_calls);
	soft_mirror_count(mirror, SIM_MIRROR_PAGES_INVALIDATED, refresh.n_dropped);
	return 0;
}

/* mincore(2) tells of pages that are gone, and of holes; rights show when they are used. */
void soft_entries_check(struct soft_mirror *mirror, uint64_t start, uint64_t end)
{
	unsigned char there[SIM_BURST / SIM_PAGE_SIZE + 1];
	const struct soft_page *page;
	uint64_t i, n = (end - start) / SIM_PAGE_SIZE;
	bool stale;

	if (end > SOFT_PROCESS_END)
		return;
	stale = sys_mincore((void *)(uintptr_t)start, end - start, there);
	for (i = 0; !stale && i < n; i++) {
		page = soft_page_find(mirror, start + i * SIM_PAGE_SIZE);
		stale = page && !(there[i] & 1) && !(page->flags & SOFT_PAGE_UNUSED);
	}
	if (stale)
		soft_entries_refresh(mirror, start, end);
}
