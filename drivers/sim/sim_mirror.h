/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The mirror of a process: what its steps share. An opener has one from MIRROR to its end.
 *
 * The device's entries for pages of the process are in chunks, each with a notifier by which
 * the kernel takes them back. An entry is good while no invalidation has come: pages have no
 * reference for it. The engine uses entries with va->lock held for reading, and an invalidation
 * takes that lock for writing: it waits for accesses under way, a burst at most, and for no
 * queue. sim_mirror.lock is held while a device fault makes the kernel bring pages, so an
 * invalidation never waits for it.
 */
#ifndef SIM_MIRROR_H
#define SIM_MIRROR_H

#include <linux/mmu_notifier.h>
#include <linux/workqueue.h>

#include "model/ahead.h"
#include "model/hot.h"
#include "sim.h"

#define SIM_CHUNK_PAGES BIT(SIM_LARGE_ORDER) /* of the largest chunk */
#define SIM_PIECE_PAGES (SZ_64K / PAGE_SIZE) /* whose uses are counted together */
#define SIM_LEARN_USES 16u /* first uses of prefetched pieces that wait to be learned from */
#define SIM_HOT_LEAVES 32u /* pages that wait to leave the device's memory */

struct sim_events;

/* An access that the prefetch is to learn from: pieces of the process. */
struct sim_use {
	u64 first;
	u64 n;
	bool write;
};

struct sim_mirror {
	struct sim_device *dev;
	struct sim_account *account;
	struct sim_va *va;	   /* the opener's */
	struct mm_struct *mm;	   /* kept from being freed, but not from ending */
	struct mem_cgroup *memcg;  /* of the process; pays for chunks */

	struct mutex lock; /* protects the members to learned; allocates, takes mmap_lock */
	struct sim_advice *advice; /* see model/advice.c; NULL for none */
	unsigned int n_advice;
	struct list_head order; /* sim_chunk.link: the oldest is first */
	unsigned int n_chunks;
	unsigned long pfns[SIM_CHUNK_PAGES]; /* for the fault under way */
	unsigned long from[SIM_CHUNK_PAGES]; /* for the migration under way, as the next one */
	unsigned long to[SIM_CHUNK_PAGES];
	bool learns; /* also read without the lock */
	struct ahead ahead; /* in pieces */
	struct ahead_counts learned; /* that the counters have */

	struct rb_root chunks; /* by address; under va->lock, and changed with both */
	struct list_head dead; /* sim_chunk.dead_link; under va->lock */
	struct work_struct reap; /* frees these, and as many of order's as the next one says */
	atomic_t n_asked; /* chunks that reclaim wants freed */
	struct list_head mirrors_link; /* in the shrinker's list */

	spinlock_t uses_lock; /* protects the next members, up to hot_leaves; innermost */
	struct sim_use uses[SIM_LEARN_USES]; /* the oldest are first */
	unsigned int n_uses;
	struct hot *hot; /* pages under HETSIM_ADVISE_CACHE; NULL: none; changed with both locks */
	u64 hot_leaves[SIM_HOT_LEAVES];
	unsigned int n_hot_leaves;
	struct work_struct learn; /* takes these, and brings pages ahead */

	spinlock_t events_lock; /* protects the next member; nothing under it allocates */
	struct sim_events *events; /* NULL: no call has asked */
};

/* Pages of the process that the device has entries for, or may get them. */
struct sim_chunk {
	struct mmu_interval_notifier notifier; /* of exactly this range */
	struct sim_mirror *mirror;
	struct list_head link;	/* in sim_mirror.order */
	struct rb_node node;	/* in sim_mirror.chunks */
	struct list_head dead_link;
	struct sim_span span;
	u16 counter; /* uses of a piece until it moves; 0: not counted */
	bool hot; /* pages that are used often move; the mirror has its hot */
	u16 uses[SIM_CHUNK_PAGES / SIM_PIECE_PAGES]; /* under no lock: about so many */
	/* The rest is under va->lock. */
	bool dead; /* a part of the range is no more what it was */
	u16 moves; /* times that pages were about to move by a wish, or by a CPU's use */
	unsigned int n_entries; /* pages that have one */
	/* One for each page; or, with SIM_ENTRY_LARGE, the first is for all. 0: none. */
	u64 entries[];
};

/* A wish for entries. */
struct sim_want {
	struct sim_queue *queue; /* that waits for them; NULL: none */
	u64 page;
	u64 n_pages; /* from @page on, as many as lie in its chunk */
	bool write;
	bool snapshot; /* only of pages that are there: nothing is brought */
	bool once; /* one try is enough: it is no wish of the engine's */
	bool moves; /* to the device's memory, too */
	enum hetsim_why why;
};

static inline enum hetsim_why sim_entry_why(u64 entry)
{
	return (entry & SIM_ENTRY_WHY) >> SIM_ENTRY_WHY_SHIFT;
}

static inline bool sim_chunk_is_large(const struct sim_chunk *chunk)
{
	return chunk->entries[0] & SIM_ENTRY_LARGE;
}

static inline void sim_mirror_count(struct sim_mirror *mirror, enum sim_counter counter, s64 n)
{
	if (n)
		sim_count(mirror->dev, mirror->account, counter, n);
}

/* sim_mirror.c */
struct sim_mirror *sim_mirror_of(struct sim_opener *opener);
struct sim_chunk *sim_chunk_after(struct sim_mirror *mirror, u64 page);

/* sim_chunk.c: with mirror->lock held */
int sim_chunk_get(struct sim_mirror *mirror, u64 page, u64 most, struct sim_chunk **ret_chunk,
		  enum hetsim_fault_reason *reason);
void sim_chunk_free(struct sim_chunk *chunk);
void sim_chunk_reap(struct work_struct *work);
unsigned int sim_chunk_drop(struct sim_chunk *chunk, u64 first, u64 end);

/* sim_mirror_shrink.c */
void sim_mirror_shrinks(struct sim_mirror *mirror);
void sim_mirror_shrinks_no_more(struct sim_mirror *mirror);

/* sim_mirror_fault.c */
enum hetsim_fault_reason sim_map_reason(struct vm_area_struct *vma, u64 page, bool write);
int sim_mirror_bring(struct sim_mirror *mirror, struct sim_want *want,
		     enum hetsim_fault_reason *reason);
int sim_fault_serve(struct sim_mirror *mirror, struct sim_want *want, struct sim_fault *fault);

/* sim_mirror_learn.c */
void sim_learn_used(struct sim_mirror *mirror, u64 page, u64 n_pages, bool write);
void sim_learn_work(struct work_struct *work);

/* sim_mirror_events.c */
void sim_mirror_tell(struct sim_mirror *mirror, const struct hetsim_event *event);
void sim_mirror_tell_end(struct sim_mirror *mirror);
void sim_account_tell(struct sim_account *account, const struct hetsim_event *event);
void sim_account_mirror(struct sim_account *account, struct sim_mirror *mirror);

/* sim_store.c, sim_migrate.c, sim_return.c, sim_hot.c */
#if SIM_MIGRATION
int sim_hot_set(struct sim_mirror *mirror, u64 bytes);
bool sim_hot_used(struct sim_chunk *chunk, u64 page, u64 entry);
void sim_hot_move(struct sim_chunk *chunk, const struct sim_span *wanted);
void sim_hot_forget(struct sim_chunk *chunk);
enum hetsim_migration sim_store_form(const struct sim_store *store);
u64 sim_store_bytes(const struct sim_store *store);
struct page *sim_store_memory(const struct sim_store *store, struct page *page,
			      bool *ret_on_device);
void sim_migrate(struct sim_chunk *chunk, const struct sim_want *want, u32 location);
void sim_migrate_page(struct sim_mirror *mirror, u64 page);
void sim_return_span(struct sim_mirror *mirror, const struct sim_span *span);
#else
static inline int sim_hot_set(struct sim_mirror *mirror, u64 bytes)
{
	return 0;
}

static inline bool sim_hot_used(struct sim_chunk *chunk, u64 page, u64 entry)
{
	return false;
}

static inline void sim_hot_forget(struct sim_chunk *chunk)
{
}

static inline enum hetsim_migration sim_store_form(const struct sim_store *store)
{
	return HETSIM_MIGRATION_NONE;
}

static inline u64 sim_store_bytes(const struct sim_store *store)
{
	return 0;
}

static inline struct page *sim_store_memory(const struct sim_store *store, struct page *page,
					    bool *ret_on_device)
{
	*ret_on_device = false;
	return page;
}

static inline void sim_migrate(struct sim_chunk *chunk, const struct sim_want *want, u32 location)
{
}

static inline void sim_return_span(struct sim_mirror *mirror, const struct sim_span *span)
{
}
#endif

#endif
