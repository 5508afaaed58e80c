/* SPDX-License-Identifier: MIT */
/*
 * One mapping of a smaps file [proc_pid_smaps(5)], and what of it counts as resident, huge
 * and locked: for the library, of its own process, and the command, of others.
 */
#ifndef HETMAP_SMAPS_MAPPING_H
#define HETMAP_SMAPS_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

struct smaps_mapping {
	uint64_t start, end;
	uint64_t rss;
	uint64_t pool; /* of a hugetlb pool, which Rss leaves out */
	uint64_t huge; /* mapped by huge pages, pool aside */
	uint64_t page_size;
	bool marked; /* by mlock(), whether pages are there or not */
};

struct smaps_sum {
	uint64_t mapped;   /* bytes of the range that some mapping covers */
	uint64_t resident; /* Rss, and hugetlb pages */
	uint64_t huge;     /* mapped by huge pages of any kind */
	uint64_t locked;
	bool marked;        /* mlock() marked some mapping, whether pages are there or not */
	uint64_t page_size; /* largest KernelPageSize */
};

/* Is it a mapping's first line? Then *@mapping is begun anew. */
bool smaps_mapping_begin(struct smaps_mapping *mapping, const char *line);
/* Any further line of it. */
void smaps_mapping_line(struct smaps_mapping *mapping, const char *line);

/*
 * What of it lies in [start, end) is added to *@sum: of one that reaches beyond, its
 * share, rounded down. False: nothing of it does.
 */
bool smaps_sum_add(struct smaps_sum *sum, const struct smaps_mapping *mapping, uint64_t start,
		   uint64_t end);

/* "Key:      12 kB" gives 12 KiB; false: it is another key's. */
bool smaps_value(const char *line, const char *key, uint64_t *ret_bytes);

#endif
