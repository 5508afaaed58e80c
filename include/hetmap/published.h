/* SPDX-License-Identifier: MIT */
/*
 * The published table of a process's maps, for tools that trace or watch it: which buffer
 * an address was, and when. The library writes it, hetmap-published(5) says how it is
 * found and read.
 *
 * To its reader it is data of a stranger: each field may be anything.
 */
#ifndef HETMAP_PUBLISHED_H
#define HETMAP_PUBLISHED_H

#include <stdint.h>

#define HM_PUBLISHED_MAGIC UINT64_C(0x7370616d3a6d68ff) /* "\xffhm:maps" */
#define HM_PUBLISHED_VERSION 1
#define HM_PUBLISHED_FIRST 4096 /* byte at which the first entry stands */

enum hm_published_flags {
	HM_PUBLISHED_INHERITED = 1 << 0, /* fork(2) leaves it in the child */
	HM_PUBLISHED_GROWS = 1 << 1,     /* follows its buffer's size inside the span */
	HM_PUBLISHED_LOST = 1 << 2,      /* its bytes are: the device was taken away */
};

/* What the table begins with. */
struct hm_published_head {
	uint64_t magic;
	uint32_t version;
	uint32_t entry_size; /* bytes from one entry to the next, at least 192 */
	uint64_t n_entry;    /* room */
	uint64_t pid;        /* of the process, in its own namespace */
	uint64_t start;      /* of the process, in clock ticks: field 22 of /proc/PID/stat */
	uint64_t used;       /* entries below that one were used */
	uint64_t changes;    /* of entries, so far */
	uint64_t forgotten;  /* ended maps whose entries were needed again */
	uint64_t left_out;   /* maps for which there was no entry */
};

/*
 * One map. It was read whole if sequence is even, not 0, and the same before and after.
 * Times are of CLOCK_MONOTONIC, addresses of the process.
 */
struct hm_published_entry {
	uint32_t sequence; /* odd while it is being written; 0: never was */
	uint32_t flags;    /* enum hm_published_flags */
	uint64_t serial;   /* of the map, from 1, never used again */
	uint64_t begin_ns;
	uint64_t end_ns; /* 0: it is there */
	uint64_t address;
	uint64_t span;   /* bytes of address range that are its own */
	uint64_t length; /* bytes that may be touched; the last ones, if it has ended */
	uint64_t offset; /* of the first in the buffer */
	uint64_t buffer; /* hm_buffer_info.serial */
	uint64_t page_size;
	uint32_t generation; /* of the map: each loss, recovery and replacement is a new one */
	uint32_t cache;      /* enum hm_cache */
	char name[64];       /* of the buffer; ends with '\0' */
	char device[40];     /* what it was opened by, cut off where longer; likewise */
	/*
	 * These with an entry_size of 208 and more, the last with 216. Where in the process's
	 * memory what changes too often to be written here is counted, as long as the entry is
	 * the map's: process_vm_readv(2). 0: nowhere.
	 */
	uint64_t brackets;  /* of a uint64_t: the low half of it is how many are open */
	uint64_t in_flight; /* of a uint32_t: launches, copies, fills that have not ended */
	uint64_t evictions; /* of a uint64_t: times that its memory made room for others */
};

#endif
