/* SPDX-License-Identifier: MIT */
/*
 * The published table of a process's maps, for tools that trace or watch the process: the buffer
 * that an address belonged to, and the time. The library writes the table. hetmap-published(5)
 * says how a tool finds and reads the table.
 *
 * A reader must treat the table as untrusted data: each field may have any value.
 */
#ifndef HETMAP_PUBLISHED_H
#define HETMAP_PUBLISHED_H

#include <stdint.h>

#define HM_PUBLISHED_MAGIC UINT64_C(0x7370616d3a6d68ff) /* "\xffhm:maps" */
#define HM_PUBLISHED_VERSION 1
#define HM_PUBLISHED_FIRST 4096 /* byte at which the first entry begins */

enum hm_published_flags {
	HM_PUBLISHED_INHERITED = 1 << 0, /* fork(2) leaves the map in the child */
	HM_PUBLISHED_GROWS = 1 << 1,     /* the map follows its buffer's size inside the span */
	HM_PUBLISHED_LOST = 1 << 2, /* the map's bytes are lost: the device was taken away */
};

/* Head of the table. */
struct hm_published_head {
	uint64_t magic;
	uint32_t version;
	uint32_t entry_size; /* bytes from one entry to the next, at least 192 */
	uint64_t n_entry;    /* number of entries that the table has room for */
	uint64_t pid;        /* number of the process, in its own pid namespace */
	uint64_t start;      /* start of the process in clock ticks: /proc/PID/stat, field 22 */
	uint64_t used;       /* number of the first entry that was never used */
	uint64_t changes;    /* changes of entries, so far */
	uint64_t forgotten;  /* ended maps that lost their entries to new maps */
	uint64_t left_out;   /* maps that got no entry */
	/*
	 * Ranges that accelerators reached by entries of their own (HM_ACCEL_MIRROR). All of these
	 * are 0 in the table of a library that has none, and of a process that used none.
	 */
	uint64_t range_first;     /* byte of the table at which the first range begins */
	uint32_t range_size;      /* bytes from one range to the next, at least 176 */
	uint32_t reserved;        /* 0 */
	uint64_t n_range;         /* number of ranges that the table has room for */
	uint64_t ranges_used;     /* number of the first range that was never used */
	uint64_t ranges_changes;  /* changes of ranges, so far */
	uint64_t ranges_left_out; /* events that are in no range */
};

/*
 * Byte of the table at which a uint64_t is: the address of a struct hm_published_tiering; 0: none,
 * as in tables of older libraries.
 */
#define HM_PUBLISHED_TIERING 1024

/* Last moves between tiers of memory that the figures keep. */
#define HM_PUBLISHED_MOVES 8

/*
 * Figures of all tierings (tiering.h) of the process, in its memory: process_vm_readv(2) reads
 * them. Writers are not waited for, so a move may be read while it is being written.
 */
struct hm_published_tiering {
	uint64_t promoted; /* bytes moved to a fast tier, so far */
	uint64_t demoted;  /* bytes moved to a slow tier */
	uint64_t refused;  /* bytes that could not move */
	uint64_t n_move;   /* number of moves; move i is in moves[i % HM_PUBLISHED_MOVES] */
	struct {
		uint64_t time_ns;
		uint64_t address;
		uint64_t length; /* bytes */
		int32_t node;    /* NUMA node that they moved to */
		uint16_t why;    /* enum hm_tiering_why */
		uint16_t heat;   /* 0 to 1000 */
	} moves[HM_PUBLISHED_MOVES];
};

/*
 * One map. An entry was read whole if sequence is even, not 0, and the same before and after the
 * read. Times are of CLOCK_MONOTONIC. Addresses are those of the process.
 */
struct hm_published_entry {
	uint32_t sequence; /* odd during a write; 0: the entry was never written */
	uint32_t flags;    /* enum hm_published_flags */
	uint64_t serial;   /* number of the entry, from 1, never used again */
	uint64_t begin_ns;
	uint64_t end_ns; /* 0: the map still exists */
	uint64_t address;
	uint64_t span;   /* bytes of address range that the map owns, without guard pages */
	uint64_t length; /* bytes that may be touched; for an ended map the last value */
	uint64_t offset; /* offset of the first byte in the buffer */
	uint64_t buffer; /* hm_buffer_info.serial */
	uint64_t page_size;
	uint32_t generation; /* number of the map's state: new at a loss, recovery, replacement */
	uint32_t cache;      /* enum hm_cache */
	char name[64];       /* name of the buffer, with its '\0' */
	char device[40];     /* name the device was opened by, cut if longer, with its '\0' */
	/*
	 * Addresses of counters in the process's memory, for values that change too often to be
	 * written here. process_vm_readv(2) reads them. Each is valid as long as the entry is the
	 * map's; 0: no counter. Entries have the first two from an entry_size of 208 on, and the
	 * last one from 216 on.
	 */
	uint64_t brackets;  /* address of a uint64_t: low 32 bits: number of open brackets */
	uint64_t in_flight; /* address of a uint32_t: ranges that work in flight uses */
	uint64_t evictions; /* address of a uint64_t: times its memory made room for other bytes */
};

/*
 * What an accelerator did with up to 2 MiB of addresses, so far: the sums of its events
 * (hm_range_events_read()). Read as an entry is, by sequence. A range lies in one map, or in memory
 * outside of maps.
 */
struct hm_published_range {
	uint32_t sequence;
	uint32_t flags; /* 0 */
	uint64_t start; /* address of the first page that an event was of */
	uint64_t end;   /* address behind the last one */
	uint64_t map;   /* address of the map; 0: outside of maps */
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t faults;      /* device faults, refused ones too */
	uint64_t fault_pages; /* pages that they were for */
	uint64_t fault_ns;    /* time that they took */
	uint64_t refused;     /* device faults that ended the work */
	uint64_t invalidated; /* times that entries were taken away */
	uint64_t evicted;     /* times that entries or pages made room for others */
	uint64_t moved_in;    /* pages moved to the accelerator's memory */
	uint64_t moved_out;   /* pages moved back */
	uint64_t move_ns;     /* time that the moves took */
	uint64_t prefetched;  /* pages of calls of hm_range_prefetch() */
	uint64_t prefetch_ns; /* time that these calls took */
	uint64_t used;        /* pages that were used first after a prefetch */
	uint64_t wasted;      /* prefetched pages that went away unused */
	char accel[24];       /* name of the accelerator, cut if longer, with its '\0' */
};

#endif
