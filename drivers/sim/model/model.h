/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The simulated device as far as it needs no kernel: its kinds and limits, the checks of calls and
 * commands, and its accounts. The module and its twin in user space (runtime/soft) compile the
 * same files. Nothing here allocates or takes a lock: the caller holds the lock of the object that
 * it passes.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <uapi/hetsim.h>

#include "shim.h"

/* Limits that no parameter changes: they bound the objects of one opener. */
#define SIM_MAX_DEVICES 16
#define SIM_MAX_BUFFERS 65536	/* in a device */
#define SIM_MAX_OPENER_BUFFERS (SIM_MAX_BUFFERS / 4) /* made by one opener */
#define SIM_MAX_BINDINGS 16384	/* in an opener */
/*
 * Bindings of a buffer by its maker, and by all other openers together: an eviction writes the
 * entries of each binding, and the openers that it makes room for wait for that.
 */
#define SIM_MAX_BUFFER_BINDINGS 4096
#define SIM_MAX_TABLES (4 * SIM_MAX_BINDINGS) /* in an opener: 128 GiB in one piece */
#define SIM_MAX_QUEUES 16	/* in an opener */
#define SIM_MAX_DEVICE_QUEUES 512 /* in all openers: each is a thread, and the kernel has few */
#define SIM_MAX_PENDING 2048	/* submissions of a queue */
#define SIM_MAX_EVENTS 1024	/* eventfds pending in a queue */
#define SIM_MAX_COMMANDS 256	/* in a submission */
#define SIM_FAILURES 256	/* that a queue remembers */
#define SIM_MAX_CHUNKS 32768	/* of a mirror: 64 GiB in the largest ones */
#define SIM_MAX_ADVICE 4096	/* ranges of advice, in an opener */
#define SIM_EVENTS 4096		/* of a mirror's stream, not read yet */
#define SIM_TIMEOUT_MS 2000
#define SIM_MAX_MB 1048576	/* 1 TiB: windows of all slots fit an offset of mmap() */

#define SIM_BURST SZ_128K	/* bytes between looks at the clock, with va->lock held */
#define SIM_MEM_TRIES 32	/* in a row, since other calls may take the pages made free */

/* calls.c: the calls' structures */

/*
 * @min_size reaches to the end of the last member of the structure's first version. The answer is
 * from @out to @out_end; both are 0 where there is none.
 */
struct sim_layout {
	unsigned int cmd;
	u32 size;
	u32 min_size;
	u32 out;
	u32 out_end;
};

/* Any call's argument. */
union sim_argument {
	u32 size;
#define HETSIM_CALL(NAME, name, last) struct hetsim_##name name;
#include "calls.h"
};

/* NULL: there is no such call. */
const struct sim_layout *sim_layout_find(unsigned int cmd);

/* check.c: the members of an argument, as far as they tell without a look at any object */

/*
 * Checks the argument of the call @cmd. @may_write: the file is open for writing.
 * -EINVAL, -EOPNOTSUPP, -EOVERFLOW, -ERANGE, -E2BIG, -EACCES.
 */
int sim_argument_check(unsigned int cmd, const union sim_argument *argument, bool may_write);
int sim_submit_check(const struct hetsim_submit *submit);

/* The members of a call that is a submission, or may be one. */
struct sim_later {
	u32 queue; /* 0: it is none */
	u32 n_waits;
	u32 n_signals;
	u64 waits;
	u64 signals;
};

#define SIM_LATER(call) ({                               \
	const __auto_type _call = (call);                \
							 \
	(struct sim_later){                              \
		.queue = _call->queue,                   \
		.n_waits = _call->n_waits,               \
		.n_signals = _call->n_signals,           \
		.waits = _call->waits,                   \
		.signals = _call->signals,               \
	};                                               \
})

/* One of its waits and signals. -EINVAL. */
int sim_sync_check(const struct hetsim_sync *sync);
/* One of the buffers of a submission to a queue of @type. -EINVAL, -EACCES, -EOPNOTSUPP. */
int sim_use_check(const struct hetsim_use *use, u32 type, bool may_write);

/* device.c: what a device says of itself */

#define SIM_MINOR_VERSION_MINIMUM 0

/* Properties of a kind of accelerator. */
struct sim_kind {
	const char *name;
	u64 granule_min;
	u64 granule_max;
	u64 dma_align;
	u64 max_segment;
};

#define SIM_N_KINDS (HETSIM_KIND_NIC + 1)

extern const struct sim_kind sim_kinds[SIM_N_KINDS];

struct sim_memory;

/* @more: features that not all drivers have. */
void sim_handshake_answer(struct hetsim_handshake *shake, u64 more);
/* All but the device's index and cache modes. @mine: pages of the opener, by place. */
void sim_query_answer(enum hetsim_kind kind, const struct sim_memory *memory, const u64 *mine,
		      struct hetsim_query *query);

#define SIM_FAULT_ORDERS \
	(sizeof_field(struct hetsim_counters, faults_by_order) / sizeof(__u64))

/* In the order of struct hetsim_counters. */
enum sim_counter {
	SIM_FAULTS,
	SIM_FAULT_PAGES_MAPPED,
	SIM_FAULTS_BY_ORDER,
	SIM_FAULTS_REFUSED = SIM_FAULTS_BY_ORDER + SIM_FAULT_ORDERS,
	SIM_BYTES_READ,
	SIM_BYTES_WRITTEN,
	SIM_SUBMISSIONS,
	SIM_COMMANDS,
	SIM_BYTES_ENGINE,
	SIM_TLB_HITS,
	SIM_TLB_MISSES,
	SIM_DEVICE_FAULTS,
	SIM_RESETS,
	SIM_MOVES,
	SIM_BYTES_MOVED,
	SIM_EVICTIONS,
	SIM_BRACKETS,
	SIM_BRACKETS_MISSED,
	SIM_FAULTS_HUGE,
	SIM_ENGINE_NS,
	SIM_MIRROR_FAULTS,
	SIM_MIRROR_FAULTS_REFUSED,
	SIM_MIRROR_PAGES,
	SIM_MIRROR_INVALIDATIONS,
	SIM_MIRROR_PAGES_INVALIDATED,
	SIM_MIRROR_EVICTIONS,
	SIM_TLB_SHOOTDOWNS,
	SIM_PREFETCHES,
	SIM_PREFETCH_USED,
	SIM_PREFETCH_WASTED,
	SIM_PAGES_MIGRATED,
	SIM_PAGES_RETURNED,
	SIM_PAGES_EVICTED,
	SIM_ACCESS_NOTICES,
	SIM_CACHE_HITS,
	SIM_CACHE_MISSES,
	SIM_LEARN_ACCESSES,
	SIM_LEARN_SEQUENTIAL,
	SIM_LEARN_STRIDED,
	SIM_LEARN_RANDOM,
	SIM_LEARN_PLANNED,
	SIM_LEARN_DOUBLED,
	SIM_LEARN_HALVED,
	SIM_N_COUNTERS
};

/* memory.c: pages by place, and the limits on them */

#define SIM_N_PLACES (HETSIM_PLACE_WINDOW + 1)
#define SIM_PLACES_ALL (BIT(SIM_N_PLACES) - 1)

/* A device's memory, in pages. Pages in the window count against VRAM's limit, too. */
struct sim_memory {
	u64 limit[SIM_N_PLACES];
	u64 used[SIM_N_PLACES];
	u64 opener_limit; /* that one opener may take of all places together */
	u64 opener_system_limit; /* and ask for of SYSTEM, out of which nothing is evicted */
};

/* The room that a call has not found. */
struct sim_lack {
	u32 place;
	u64 n_pages; /* 0: no other opener could make room */
	unsigned int tries;
};

/* Sets the limits by the parameters. @opener_mb: 0 for 3/4 of both, and of system memory. */
void sim_memory_set(struct sim_memory *memory, u64 vram_mb, u64 system_mb, u64 window_mb,
		    u64 opener_mb);
/*
 * Counts pages for an opener that has @mine. @leaving: by place, the pages that these replace, and
 * that leave soon; NULL: none. @evict: the call makes room for other openers, so the limits of this
 * one do not count. -ENOSPC leaves the missing room in *@lack.
 */
int sim_memory_take(struct sim_memory *memory, u64 *mine, u32 place, u64 n_pages,
		    const u64 *leaving, bool evict, struct sim_lack *lack);
void sim_memory_give(struct sim_memory *memory, u64 *mine, u32 place, u64 n_pages);
/* Converts a buffer's length to pages. -EINVAL; -ENOSPC: @place never has that many. */
int sim_length_pages(const struct sim_memory *memory, u64 length, u32 place, u64 *ret_n_pages);
/* Converts the range that maps of a new buffer may reach to pages. -EINVAL, -ENOSPC. */
int sim_capacity_pages(const struct sim_memory *memory,
		       const struct hetsim_buffer_create *create, u64 *ret_n_pages);

/* Length of the longest buffer. */
static inline u64 sim_memory_most(const struct sim_memory *memory)
{
	u64 vram = memory->limit[HETSIM_PLACE_VRAM];
	u64 system = memory->limit[HETSIM_PLACE_SYSTEM];

	return vram > system ? vram : system;
}

/* Where there is a window, CPUs reach VRAM in it only. */
static inline bool sim_memory_reachable(const struct sim_memory *memory, u32 place)
{
	return place != HETSIM_PLACE_VRAM || !memory->limit[HETSIM_PLACE_WINDOW];
}

/* Counts a try to make the missing room. False: it is of no use. */
static inline bool sim_lack_try(struct sim_lack *lack)
{
	return lack->n_pages && lack->place != HETSIM_PLACE_SYSTEM &&
	       ++lack->tries <= SIM_MEM_TRIES;
}

/* The places, as bits, whose pages make room in @place. */
static inline unsigned long sim_evict_from(u32 place)
{
	return BIT(HETSIM_PLACE_WINDOW) | BIT(place);
}

static inline u32 sim_evict_to(u32 place)
{
	return place == HETSIM_PLACE_WINDOW ? HETSIM_PLACE_VRAM : HETSIM_PLACE_SYSTEM;
}

/* span.c: the device's address space */

#define SIM_LEVELS 4
#define SIM_LEVEL_BITS 9
#define SIM_LEVEL_ENTRIES BIT(SIM_LEVEL_BITS)
#define SIM_VA_BITS (SIM_LEVELS * SIM_LEVEL_BITS + 12)
#define SIM_VA_PAGES (1ull << (SIM_VA_BITS - SIM_PAGE_SHIFT))
#define SIM_TLB_ENTRIES 64
#define SIM_TLB_LARGE 16	/* of 2 MiB, besides */

static inline unsigned int sim_level_index(u64 page, unsigned int level)
{
	return page >> level * SIM_LEVEL_BITS & (SIM_LEVEL_ENTRIES - 1);
}

/* A range of addresses, in pages. */
struct sim_span {
	u64 start;
	u64 n_pages;
};

/* Sizes of a mirror's chunks, as bits of their lengths. */
#define SIM_CHUNKS (SZ_4K | SZ_64K | SZ_2M)

/* Checks a range of device addresses. -EINVAL, -EOVERFLOW, -ERANGE. */
int sim_span_check(u64 address, u64 length);

static inline struct sim_span sim_span_of(u64 address, u64 length)
{
	struct sim_span span = {
		.start = address >> SIM_PAGE_SHIFT,
		.n_pages = length >> SIM_PAGE_SHIFT,
	};

	return span;
}

static inline u64 sim_span_end(const struct sim_span *span)
{
	return span->start + span->n_pages;
}

/* The pages that both ranges have; n_pages is 0 if there are none. */
struct sim_span sim_span_common(struct sim_span a, struct sim_span b);

/*
 * Checks that a binding can be made at @span. @next: the first one that ends behind its start, NULL
 * for none. @n_bindings: those of the opener. -EEXIST, -ENOSPC.
 */
int sim_span_check_free(const struct sim_span *span, const struct sim_span *next,
			unsigned int n_bindings);
/*
 * Checks that a buffer of @n_pages has those from @first on that are bound at @span, and may have
 * one more binding than @n_bindings of the same kind. The check comes before the tables are made:
 * the buffer's length bounds their number. -ERANGE, -ENOSPC.
 */
int sim_span_check_buffer(const struct sim_span *span, u64 first, u64 n_pages,
			  unsigned int n_bindings);

/* Does an end of @range lie within @binding? The two have pages in common. */
static inline bool sim_span_cuts(const struct sim_span *range, const struct sim_span *binding)
{
	return binding->start < range->start || sim_span_end(binding) > sim_span_end(range);
}

/* advice.c: what an opener advised about ranges of its process */

#define SIM_ADVICE_ACCESSED_BY BIT(0)
#define SIM_ADVICE_READ_MOSTLY BIT(1)
#define SIM_ADVICE_NO_ACCESS BIT(2)
#define SIM_ADVICE_CACHE BIT(3)

/* All advice about a range: the pages from @start up to @end. All 0: none. */
struct sim_advice {
	u64 start;
	u64 end;
	u32 flags; /* SIM_ADVICE_* */
	u16 location; /* enum hetsim_location */
	u16 counter; /* uses of a piece until it moves; 0: not counted */
	u64 granule; /* bytes; 0: no limit */
};

/*
 * Fills @fresh with the ranges of @list, of which there are @n in rising order, with one more piece
 * of advice about @span. Returns their number, up to 2 * @n + 2; -ENOSPC if it is more than @room.
 * The arguments have been checked.
 */
int sim_advice_set(const struct sim_advice *list, unsigned int n, struct sim_span span,
		   u32 advice, u64 value, struct sim_advice *fresh, unsigned int room);
/* The advice about a page; of a page without any, @start and @end of the gap that it is in. */
struct sim_advice sim_advice_find(const struct sim_advice *list, unsigned int n, u64 page);

/* command.c: the engine's commands */

enum {
	SIM_DESTINATION,
	SIM_SOURCE,
	SIM_SOURCE2,
	SIM_OPERANDS
};

/* The operands of a command. */
struct sim_operation {
	unsigned int used;	  /* BIT(SIM_DESTINATION) and so on: length bytes each; 0: none */
	unsigned int result_size; /* bytes at destination, at the end */
	bool words;		  /* length is in whole words */
	bool value;		  /* takes a value */
};

#define SIM_N_OPERATIONS (HETSIM_OP_COMPARE + 1)

extern const struct sim_operation sim_operations[SIM_N_OPERATIONS];

/* Checks all of a command that needs no look at memory. -EINVAL, -EOVERFLOW. */
int sim_command_check(const struct sim_kind *kind, const struct hetsim_command *command);

/* failures.c: how a queue's submissions ended */

/* An access that the engine can't make. All 0 where work did not end by one. */
struct sim_fault {
	u64 address;
	u32 reason; /* enum hetsim_fault_reason */
	u32 write;
};

/* Submissions in a row that ended in one way. */
struct sim_failure {
	u64 first;
	u64 last;
	struct sim_fault fault;
	int status;
};

struct sim_failures {
	struct sim_failure record[SIM_FAILURES]; /* a ring: the next is at n_records */
	u64 n_records;
	u64 n; /* submissions */
};

/* Adds a submission, later ones last. @fault: of a status of -EFAULT. */
void sim_failures_add(struct sim_failures *failures, u64 seqno, int status,
		      const struct sim_fault *fault);
/*
 * How a submission that is done has ended: 0 or a negative errno, with -EFAULT by which fault.
 * -EOVERFLOW: it may have failed, too long ago to be known.
 */
int sim_failures_find(const struct sim_failures *failures, u64 seqno,
		      struct sim_fault *ret_fault);

#endif
