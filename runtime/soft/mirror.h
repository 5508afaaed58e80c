/* SPDX-License-Identifier: MIT */
/*
 * The twin's mirror of this process: entries for pages, which the engine has by device faults.
 *
 * The module's entries hold pages, and the kernel takes them back. The twin's only say that an
 * access was good before: each access is a copy that the kernel makes with the rights that the CPU
 * has at that moment (sys_copy_from_any()), so that a stale entry never reaches a byte. The twin
 * looks before each access whether the pages are there, and RANGE_QUERY looks at the mappings; it
 * drops, counts and tells of stale entries then.
 *
 * Bytes never move: HETSIM_MIGRATION_BOOKED. A prefetch makes entries, has the kernel bring the
 * pages into memory, and books them as moved where the module's would move.
 *
 * Locks: use (held for reading by accesses over their copy, for writing by advice that takes access
 * away), then lock. Below all locks of twin.h, except memory_lock.
 */
#ifndef HETMAP_RUNTIME_SOFT_MIRROR_H
#define HETMAP_RUNTIME_SOFT_MIRROR_H

#include "base/rangemap.h"
#include "base/vmas.h"
#include "model/ahead.h"
#include "model/hot.h"
#include "soft/engine.h"

#define SOFT_FRAME_SHIFT 21
#define SOFT_FRAME_PAGES (1u << (SOFT_FRAME_SHIFT - SIM_PAGE_SHIFT))
#define SOFT_BUCKETS 1024

/* Addresses of a process end here: a device's address space is larger. */
#define SOFT_PROCESS_END (1ull << 47)

/* soft_page.flags */
#define SOFT_PAGE_AHEAD 1u  /* a prefetch brought it, and no use came yet */
#define SOFT_PAGE_COMING 2u /* the command that had the fault has not come to it yet */
/* The page need not be there yet. */
#define SOFT_PAGE_UNUSED (SOFT_PAGE_AHEAD | SOFT_PAGE_COMING)

struct soft_page {
	uint8_t rights;        /* HETSIM_PAGE_*; 0: no entry */
	uint8_t why;           /* enum hetsim_why */
	uint8_t order : 7;     /* log2 of the pages of its chunk */
	uint8_t on_device : 1; /* by the books */
	uint8_t flags;
};

/* Pages of 2 MiB of addresses. */
struct soft_frame {
	struct soft_frame *next;  /* in its bucket */
	struct cds_list_head age; /* soft_mirror.frames */
	uint64_t base;
	uint32_t n_on_device;
	uint16_t moves;                                  /* times that pages have */
	uint16_t uses[(1 << SOFT_FRAME_SHIFT) / SZ_64K]; /* of pieces, until they move */
	struct soft_page page[SOFT_FRAME_PAGES];
};

/* The stream of MIRROR_EVENTS: a pipe, which the reader's end leaves when it is full. */
struct soft_stream {
	int fd; /* written; -1: there is none */
	uint64_t n_lost;
};

/* Bits of a run's value in soft_mirror.advice: the location is in the lowest two. */
#define SOFT_ADVICE_ACCESSED_BY (1u << 2)
#define SOFT_ADVICE_READ_MOSTLY (1u << 3)
#define SOFT_ADVICE_NO_ACCESS (1u << 4)
#define SOFT_ADVICE_LOCATION 3u /* enum hetsim_location */
#define SOFT_ADVICE_GRANULE 5   /* log2 of bytes from this bit on, in 5 bits; 0: no limit */
#define SOFT_ADVICE_GRANULES (31u << SOFT_ADVICE_GRANULE)
#define SOFT_ADVICE_CACHE (1u << 10)
#define SOFT_ADVICE_COUNTER 16 /* uses from this bit on; 0: not counted */

struct soft_mirror {
	struct soft_file *file;
	int maps_fd; /* result of vmas_open(); or an error */
	pthread_rwlock_t use;
	pthread_mutex_t lock; /* protects the fields below */
	struct soft_frame *bucket[SOFT_BUCKETS];
	struct cds_list_head frames; /* oldest first */
	uint32_t n_frames;
	struct rangemap *advice; /* NULL: there was none */
	bool learns;
	struct ahead ahead;          /* in units of 64 KiB */
	struct ahead_counts learned; /* its counts that the counters have */
	struct hot *hot;             /* pages under HETSIM_ADVISE_CACHE; NULL: none */
	struct soft_stream stream;
};

/* ---- mirror.c ---- */

/* Can the twin have one here? */
bool soft_mirror_works(void);
/* At the opener's end; NULL is allowed. */
void soft_mirror_free(struct soft_mirror *mirror);
void soft_mirror_count(struct soft_mirror *mirror, enum sim_counter counter, uint64_t n);

/* ---- mirror_event.c; mirror->lock is held ---- */

void soft_mirror_tell(struct soft_mirror *mirror, const struct hetsim_event *event);
/* Makes the stream and returns its reading end. -EBUSY, -EMFILE. */
int soft_stream_make(struct soft_stream *stream, int *ret_fd);
void soft_stream_end(struct soft_stream *stream);

/* ---- mirror_entry.c; mirror->lock is held ---- */

/* NULL: there is none. */
struct soft_frame *soft_frame_find(struct soft_mirror *mirror, uint64_t address);
/* NULL: there are no entries. */
struct soft_page *soft_page_find(struct soft_mirror *mirror, uint64_t address);
/* Makes room for the entry; -ENOMEM. The page may be one that has an entry. */
int soft_page_get(struct soft_mirror *mirror, uint64_t address, struct soft_page **ret_page);
/* Takes entries away. @kind: the event that tells of it; 0: none. Returns their number. */
uint64_t soft_entries_drop(struct soft_mirror *mirror, uint64_t start, uint64_t end,
			   uint32_t kind);
/* Pages are used: counts and tells the first use of prefetched ones. Returns their number. */
uint64_t soft_entries_used(struct soft_mirror *mirror, uint64_t start, uint64_t end);
void soft_frames_free(struct soft_mirror *mirror);

/* ---- mirror_place.c; mirror->lock is held ---- */

/* Books pages of the range that have entries, and can move, as moved to the device, or back. */
void soft_place_move(struct soft_mirror *mirror, uint64_t start, uint64_t end);
void soft_place_return(struct soft_mirror *mirror, uint64_t start, uint64_t end);
/* Pages are used: counts that where it is advised, and moves the pieces that are used often. */
void soft_place_used(struct soft_mirror *mirror, uint64_t start, uint64_t end);
/* The cache's limit. With another one than before its pages go back. -ENOMEM: is as it was. */
int soft_place_cache(struct soft_mirror *mirror, uint64_t bytes);
/* So many pages are no more in VRAM. */
void soft_place_release(struct soft_mirror *mirror, uint64_t n_pages);

/* ---- mirror_stale.c; mirror->lock is held ---- */

/*
 * Drops the entries that the process's mappings contradict, in the frames of 2 MiB with the range.
 * Errors are those of reading the mappings.
 */
int soft_entries_refresh(struct soft_mirror *mirror, uint64_t start, uint64_t end);
/* The same before an access to whole pages, if there are any such entries: quick otherwise. */
void soft_entries_check(struct soft_mirror *mirror, uint64_t start, uint64_t end);

/* ---- mirror_fault.c ---- */

/* An access that is under way. */
struct soft_access {
	struct soft_mirror *mirror;
	struct soft_queue *queue;
	bool write;
	uint64_t end; /* behind the bytes that the command goes on to use */
};

/*
 * Makes entries for the page at @address, and for those of its chunk. The caller holds
 * mirror->lock. -EFAULT: *@ret_fault tells why; -ENOMEM.
 */
int soft_mirror_fault(const struct soft_access *access, uint64_t address,
		      struct sim_fault *ret_fault);
/* Tells that a fault ends the work. The caller holds mirror->lock. Returns -EFAULT. */
int soft_mirror_refuse(const struct soft_access *access, uint64_t address, uint32_t reason,
		       struct sim_fault *ret_fault);
/*
 * Makes entries for all pages of a range in one mapping that have none, for @why, but not for those
 * with HETSIM_ADVISE_NO_ACCESS; adds their number to *@ret_n. The caller holds mirror->lock.
 * -ENOMEM.
 */
int soft_mirror_enter(struct soft_mirror *mirror, uint64_t start, uint64_t end, uint8_t rights,
		      uint8_t why, uint64_t *ret_n);
/*
 * Pages [@start, @end) were faulted in, or used first after a prefetch: brings in the ones that
 * are expected next. The caller holds mirror->lock.
 */
void soft_mirror_learn_from(const struct soft_access *access, uint64_t start, uint64_t end);
/* Adds to the counters what the prefetch that learns has counted. The same. */
void soft_mirror_count_learned(struct soft_mirror *mirror);
/* Why the CPU may not make an access that has just failed. */
uint32_t soft_mirror_reason(const struct soft_mirror *mirror, uint64_t address, bool write);
uint32_t soft_mirror_advice(const struct soft_mirror *mirror, uint64_t address);

/* ---- mirror_access.c ---- */

/*
 * Copies @n bytes at @address of the process to @ours, or with @out from there. Entries are made as
 * needed, with the right to write for @access->write. -EFAULT: *@ret_fault tells where and why;
 * -ENOMEM.
 */
int soft_mirror_copy(const struct soft_access *access, bool out, uint64_t address, void *ours,
		     size_t n, struct sim_fault *ret_fault);
/* Runs a PREFETCH. -EFAULT, -ENOMEM, or the error that must end the submission. */
int soft_mirror_bring(struct soft_queue *queue, const struct hetsim_prefetch *prefetch,
		      struct sim_fault *ret_fault);

#endif
