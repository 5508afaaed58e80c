/* SPDX-License-Identifier: MIT */
/*
 * One mapping of a smaps file [proc_pid_smaps(5)], and how much of it is resident, huge and
 * locked. The library reads its own process' file, the command those of other processes.
 */
#ifndef HETMAP_SMAPS_MAPPING_H
#define HETMAP_SMAPS_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

struct smaps_mapping {
	uint64_t start, end;
	uint64_t rss;
	uint64_t pool; /* hugetlb pages, which Rss leaves out */
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

/* Returns true, and begins *@mapping anew, if @line is a mapping's first line. */
bool smaps_mapping_begin(struct smaps_mapping *mapping, const char *line);
/* Takes any further line of the mapping. */
void smaps_mapping_line(struct smaps_mapping *mapping, const char *line);

/*
 * Adds the part of the mapping in [start, end) to *@sum. A mapping that reaches beyond the range
 * counts by its share, rounded down. Returns false when the two don't overlap.
 */
bool smaps_sum_add(struct smaps_sum *sum, const struct smaps_mapping *mapping, uint64_t start,
		   uint64_t end);

/* "Key: 12 kB" gives 12 KiB; false: the line has another key. */
bool smaps_value(const char *line, const char *key, uint64_t *ret_bytes);

#endif
