/* SPDX-License-Identifier: MIT */
/*
 * Range: any addresses of the process, inside a map or not (malloc(), a stack, a mapped file).
 * Advice on a range, prefetch, what each of its pages is doing, and events of the accelerators
 * that reach it.
 *
 * An accelerator with HM_ACCEL_MIRROR has entries of its own for memory outside maps, like a page
 * table: the first access of a page is a device fault, which makes an entry. Functions with an
 * accelerator act on its entries. Functions without one (NULL), or with "cpu", act on the host's
 * pages, by madvise(2), mbind(2) and their like. Advice never changes what a program computes,
 * except HM_RANGE_NO_ACCESS.
 *
 * Pages count: a range covers every page that has a byte of it.
 */
#ifndef HETMAP_RANGE_H
#define HETMAP_RANGE_H

#include <hetmap/accel.h>
#include <hetmap/fence.h>

#ifdef __cplusplus
extern "C" {
#endif

enum hm_range_advice {
	HM_RANGE_NORMAL = 0,        /* forgets all advice on the range */
	HM_RANGE_PREFER_DEVICE = 1, /* preferred location: the accelerator's memory */
	HM_RANGE_PREFER_HOST = 2,   /* the host; for NULL, value is a NUMA node */
	HM_RANGE_ACCESSED_BY = 3,   /* the accelerator has entries before it asks for them */
	HM_RANGE_READ_MOSTLY = 4, /* seldom written; value: bytes of its memory for hot pages */
	HM_RANGE_GRANULE = 5,     /* value: bytes of one entry: 4 KiB, 64 KiB or 2 MiB */
	HM_RANGE_NO_ACCESS = 6,   /* each access of the accelerator is a fault */
	HM_RANGE_MOVE_AFTER = 7,  /* value: uses of 64 KiB, 1 to 65535, until they move to it */
};

/**
 * hm_range_advise - tell how a range is going to be used
 * @pointer: [in] first byte
 * @length:  [in] bytes, from 1
 * @accel:   [in, optional] accelerator; NULL: the host
 * @advice:  [in] enum hm_range_advice
 * @value:   [in] the meaning depends on the advice; otherwise 0
 *
 * For the host: HM_RANGE_NORMAL is MADV_NORMAL, HM_RANGE_PREFER_HOST prefers the NUMA node
 * @value, HM_RANGE_ACCESSED_BY begins to read what is on disk (MADV_WILLNEED), and
 * HM_RANGE_GRANULE asks for huge pages from 2 MiB on, and for none below. An accelerator that
 * cannot move pages keeps HM_RANGE_PREFER_DEVICE and HM_RANGE_MOVE_AFTER as wishes, and warns
 * (hm_warning()). An accelerator counts the uses of a page that is at the host each time that a
 * command works on it, and does not count where a location is preferred.
 *
 * With HM_RANGE_READ_MOSTLY a fault for reading makes entries for all pages around. A value above
 * 0, a multiple of 4 KiB, also makes a cache: pages that the accelerator uses often move to its
 * memory, one by one, up to so many bytes, and the coldest of them go back. The value is that of
 * all such ranges of the accelerator together: the last one counts. A page is in one place at any
 * time, so that a store of a CPU is never missed; where a CPU's use brings pages back
 * (docs/coherence.md has the table), that also ends the page's time in the cache.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     the length is 0, the range wraps around, the value does not fit the advice, or
 *                the advice is unknown.
 *   -ENOENT:     HM_RANGE_ACCESSED_BY, or any advice for the host, of a range with a hole; the
 *                text has its address.
 *   -EOPNOTSUPP: the accelerator has no entries of its own, or the host has no such advice; the
 *                text says what works.
 *   -ENOSPC:     the accelerator keeps no more advice.
 *   -ENODEV:     the accelerator's device was taken away.
 */
HM_API int hm_range_advise(const void *pointer, uint64_t length, struct hm_accel *accel,
			   uint32_t advice, uint64_t value);

/* hm_range_prefetch(): pages in the accelerator's memory come back to the host. */
#define HM_RANGE_BACK (1u << 8)
/*
 * hm_range_prefetch() for the host, beside HM_READ or HM_READ | HM_WRITE: the pages also move to
 * the tier of memory that a word stands for (enum hm_tier_word, tier.h).
 */
#define HM_RANGE_TIER(word) ((uint32_t)(word) << 16)

/**
 * hm_range_prefetch - bring a range to where it is going to be used
 * @pointer:   [in] first byte
 * @length:    [in] bytes, from 1
 * @accel:     [in, optional] accelerator; NULL: the host
 * @access:    [in] HM_READ, or HM_READ | HM_WRITE; with an accelerator also HM_RANGE_BACK alone;
 *             without one, HM_RANGE_TIER() may be added
 * @ret_fence: [out, optional] a reference, which the caller drops with hm_fence_unref(); NULL:
 *             the call waits for the end
 *
 * For an accelerator: makes its entries, and moves the pages to its memory where it can
 * (HM_ACCEL_MIGRATE). For the host: reads pages from disk, and maps them. Pages in an accelerator's
 * memory that CPUs use there stay: HM_RANGE_BACK brings them back. The work runs in a thread of
 * the library. Nothing is lost if it fails: pages stay where they are.
 * With HM_RANGE_TIER() each page moves to the tier's node, and keeps its address; pages that are
 * made later follow their policy, as before. A fence whose error is -ENOMEM or -EBUSY has moved
 * all pages but those that its text counts.
 * The fence's error is -EFAULT with an address where the CPU may not do that @access either;
 * pages before that address have been brought.
 *
 * The program must keep the memory until the fence is done; if it does not, the fence ends with
 * -EFAULT, or with success for what came to the same addresses since.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     the length is 0, the range wraps around, or the access is another one.
 *   -EOPNOTSUPP: the accelerator has no entries of its own: pass NULL. Or the kernel has no NUMA.
 *   -ENODEV:     this machine has no such tier.
 *   -EAGAIN:     no thread could be started; the text names the limit.
 *   -EFAULT, -ENODEV, -ENOMEM: without @ret_fence, the errors of the work.
 *   -EBUSY:      likewise: pages are pinned, or other processes have them, and stay.
 */
HM_API int hm_range_prefetch(const void *pointer, uint64_t length, struct hm_accel *accel,
			     uint32_t access, struct hm_fence **ret_fence);

enum hm_range_place {
	HM_RANGE_UNMAPPED = 0, /* no mapping of the process is there */
	HM_RANGE_ABSENT = 1,   /* mapped, and never touched */
	HM_RANGE_HOST = 2,     /* in the host's memory, and in the CPU's page table */
	HM_RANGE_CACHED = 3,   /* in the page cache: a touch is a minor fault */
	HM_RANGE_ON_DISK = 4,  /* in its file, or swapped out */
	HM_RANGE_DEVICE = 5,   /* in the accelerator's memory */
};

enum hm_range_why {
	HM_RANGE_BY_NOTHING = 0,
	HM_RANGE_BY_FAULT = 1,    /* the accelerator asked for it */
	HM_RANGE_BY_PREFETCH = 2, /* hm_range_prefetch() */
	HM_RANGE_BY_LEARNING = 3, /* the accelerator's own prefetch */
	HM_RANGE_BY_ADVICE = 4,
	HM_RANGE_BY_EVICTION = 5, /* other pages needed the accelerator's memory */
	HM_RANGE_BY_CPU = 6,      /* a CPU touched it */
};

/* A page of 4 KiB. */
struct hm_range_page {
	uint8_t place;         /* enum hm_range_place */
	uint8_t why;           /* enum hm_range_why: reason for the last move or entry */
	uint8_t access;        /* HM_READ | HM_WRITE that its mapping allows CPUs */
	uint8_t device_access; /* the same of the accelerator's entry; 0: none */
	uint8_t order;         /* the entry covers 2^order pages; 0 too where there is none */
	uint8_t reserved[3];   /* 0 */
	int32_t node;          /* NUMA node; -1: not known */
	uint32_t moves;        /* number of moves between memories */
};

/**
 * hm_range_query - describe each page of a range
 * @pointer:  [in] first byte
 * @length:   [in] bytes, from 1
 * @accel:    [in, optional] accelerator whose entries are asked for; NULL: none
 * @pages:    [out] array of @capacity
 * @capacity: [in] entries in @pages; 0 is allowed
 * @ret_n:    [out] number of pages of the range, even if larger than @capacity
 *
 * The answer is about a moment that has passed when the call returns. The call touches no page.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     the length is 0, or the range wraps around.
 *   -EOPNOTSUPP: the accelerator has no entries of its own.
 *   -ENODEV:     the accelerator's device was taken away.
 *   -ENOENT:     /proc is not mounted.
 */
HM_API int hm_range_query(const void *pointer, uint64_t length, struct hm_accel *accel,
			  struct hm_range_page *pages, uint64_t capacity, uint64_t *ret_n);

enum hm_range_event_kind {
	HM_RANGE_FAULT = 1,           /* a device fault; status: 0, or why the access failed */
	HM_RANGE_MIGRATE_BEGIN = 2,   /* pages are about to move */
	HM_RANGE_MIGRATE_END = 3,     /* the pages have moved, or have not: status */
	HM_RANGE_INVALIDATE = 4,      /* entries were taken away: the CPU's pages changed */
	HM_RANGE_EVICT = 5,           /* pages left the accelerator's memory to make room */
	HM_RANGE_PREFETCH_USED = 6,   /* prefetched pages were asked for */
	HM_RANGE_PREFETCH_WASTED = 7, /* prefetched pages went away unused */
	HM_RANGE_PREFETCHED = 8,      /* a prefetch is done: status */
};

struct hm_range_event {
	uint32_t kind; /* enum hm_range_event_kind */
	uint32_t why;  /* enum hm_range_why */
	uint64_t time; /* CLOCK_MONOTONIC, ns */
	uint64_t address;
	uint64_t length; /* bytes */
	int32_t status;  /* 0 or a negative errno; of HM_RANGE_MIGRATE_BEGIN: HM_RANGE_DEVICE or
			    HM_RANGE_HOST, to where */
	uint32_t access; /* HM_READ | HM_WRITE that a fault asked for */
};

struct hm_range_events;

/**
 * hm_range_events_open - follow the events of an accelerator's entries
 * @accel:      [in] accelerator with HM_ACCEL_MIRROR
 * @ret_events: [out] a stream, which the caller ends with hm_range_events_close()
 *
 * A stream tells of this process's entries only, and begins with the events after this call.
 * Streams do not take events from each other.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the accelerator has no entries of its own.
 *   -ENODEV:     the accelerator's device was taken away.
 */
HM_API int hm_range_events_open(struct hm_accel *accel, struct hm_range_events **ret_events);

/**
 * hm_range_events_read - read the next events
 * @events:     [in] stream
 * @array:      [out] events, the oldest first
 * @capacity:   [in] entries in @array, from 1
 * @timeout_ns: [in] longest wait for a first event; 0: looks only
 * @ret_n:      [out] number of events read, from 1
 * @ret_lost:   [out, optional] number of events before these that were overwritten
 *
 * The wait looks once a millisecond.
 *
 * Thread safety: one thread at a time for a stream.
 *
 * Errors:
 *   -ETIME:  no event came in time.
 *   -ENODEV: the accelerator's device was taken away.
 */
HM_API int hm_range_events_read(struct hm_range_events *events, struct hm_range_event *array,
				uint32_t capacity, uint64_t timeout_ns, uint32_t *ret_n,
				uint64_t *ret_lost);

/** hm_range_events_close - end a stream; NULL is allowed */
HM_API void hm_range_events_close(struct hm_range_events *events);

/* Numbers since the accelerator was opened first, or for NULL since the process began. */
struct hm_range_counts {
	uint32_t struct_size;
	uint32_t reserved;    /* 0 */
	uint64_t faults;      /* device faults */
	uint64_t fault_pages; /* pages that they brought entries for */
	uint64_t refused;     /* device faults that ended the work */
	uint64_t invalidated; /* times that entries were taken away */
	uint64_t moved_in;    /* bytes moved to the accelerator's memory */
	uint64_t moved_out;   /* bytes moved back */
	uint64_t evicted;     /* entries, by chunks, that were forgotten to make room */
	uint64_t prefetched;  /* calls of hm_range_prefetch() */
	uint64_t used;        /* prefetched pages that were asked for later, */
	uint64_t wasted;      /* and those that went away before */
	/* The prefetch that learns; its pages are also in used and wasted. */
	uint64_t accesses;   /* accesses or faults that it has seen */
	uint64_t sequential; /* accesses that went on where one had ended, */
	uint64_t strided;    /* those at equal steps, */
	uint64_t random;     /* and all other ones */
	uint64_t planned;    /* pages that it brought ahead */
	uint64_t doubled;    /* times that a window ahead grew */
	uint64_t halved;     /* times that one shrank */
	/* Uses of pages, by commands, in ranges with HM_RANGE_READ_MOSTLY and a value: */
	uint64_t cache_hits;   /* in the accelerator's memory, */
	uint64_t cache_misses; /* and at the host */
};

/**
 * hm_range_counts_get - read the counters of an accelerator's entries, or of file maps
 * @accel:      [in, optional] accelerator; NULL: the prefetch that launches do for file maps
 * @ret_counts: [in,out] struct_size set by the caller
 *
 * For NULL the members up to prefetched are 0, and a launch's argument is an access. An
 * accelerator without HM_ACCEL_TOLD counts entries that are taken away when it finds that out.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG:      struct_size is larger than this library knows.
 *   -EOPNOTSUPP: the accelerator has no entries of its own.
 *   -ENODEV:     the accelerator's device was taken away.
 */
HM_API int hm_range_counts_get(struct hm_accel *accel, struct hm_range_counts *ret_counts);

/**
 * hm_range_learn - set how far the prefetch that learns may go
 * @accel: [in, optional] accelerator; NULL: launches on maps of files
 * @least: [in] bytes of the first window of a stream
 * @most:  [in] bytes of the largest window; 0: nothing is prefetched
 *
 * The prefetch tells sequential, strided and random accesses apart, and brings in a window ahead
 * of the first two. A window that was used to its end doubles, one that was not is halved. For
 * NULL it looks at the ranges in files that launches name, and begins to read the next ones of
 * strided streams; the kernel reads ahead of sequential ones. The call switches that on. An
 * accelerator with HM_ACCEL_MIRROR begins with a window of 64 KiB, and goes up to 2 MiB.
 *
 * Thread safety: any thread. The counters go on.
 *
 * Errors:
 *   -EINVAL:     the least window is 0 or larger than the largest, or one is no multiple of 4 KiB,
 *                or of 64 KiB for an accelerator.
 *   -EOPNOTSUPP: the accelerator has no entries of its own, or its prefetch does not learn.
 *   -ENODEV:     the accelerator's device was taken away.
 */
HM_API int hm_range_learn(struct hm_accel *accel, uint64_t least, uint64_t most);

#ifdef __cplusplus
}
#endif

#endif
