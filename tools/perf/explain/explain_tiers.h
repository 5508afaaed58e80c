/* SPDX-License-Identifier: MIT */
/* hetmap explain --tiers: the gain of moving hot memory of a process to the fast tier. */
#ifndef HETMAP_EXPLAIN_TIERS_H
#define HETMAP_EXPLAIN_TIERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EXPLAIN_TIERS_NODES 64

/* A mapping of the process. */
struct tier_row {
	uint64_t start, end;
	const char *name;  /* within the text of smaps */
	uint64_t resident; /* bytes */
	uint64_t touched;  /* bytes of pages that were touched while the command looked */
	uint64_t on[EXPLAIN_TIERS_NODES]; /* bytes on each node */
	uint64_t promoted;                /* plan: bytes that would move to the fast tier */
};

struct tier_rows {
	struct tier_row *rows; /* by address, until the plan puts them in its order */
	size_t n;
};

struct tier_plan {
	uint64_t touched;      /* bytes, of all rows */
	uint64_t touched_slow; /* those of them that are not on the fast node */
	uint64_t promoted;
	double latency_now, latency_then; /* mean of touched bytes, in ns; 0: not known */
};

/* Both change the text. 0 or -ENOMEM: free() the rows. */
int tier_rows_read(char *smaps, struct tier_rows *ret_rows);
/* Adds the nodes' bytes, by /proc/PID/numa_maps. */
void tier_rows_place(char *numa_maps, struct tier_rows *rows);

/*
 * Plans to move touched bytes to @fast, densest mappings first, until @room bytes are used. Within
 * a mapping touched pages are taken to be on its nodes as all pages are. @latency: ns by node.
 */
void tier_rows_plan(struct tier_rows *rows, uint32_t fast, uint64_t room,
		    const uint64_t latency[EXPLAIN_TIERS_NODES], struct tier_plan *ret_plan);

/* Looks at the process for a second, and prints the answer; an exit status. */
int explain_tiers(pid_t pid);

#endif
