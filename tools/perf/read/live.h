/* SPDX-License-Identifier: MIT */
/*
 * The maps that a process has now, by its published table, and how many brackets and how much
 * work are open on each. The table is believed for names only: sizes and pages are the
 * kernel's.
 */
#ifndef HETMAP_LIVE_H
#define HETMAP_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "published.h"

/* So many maps of one process are looked at; the rest is counted. */
#define LIVE_MOST ((size_t)1 << 18)

struct live_map {
	struct hm_published_entry entry;
	uint64_t at;  /* which entry of the table it is */
	bool counted; /* the three below are known */
	uint32_t brackets;
	uint32_t in_flight;
	uint64_t evictions; /* of its buffer, so far, where entry.evictions is not 0 */
};

struct live {
	pid_t pid;
	struct published table;
	bool whole;            /* maps are those of table.head.changes */
	struct live_map *maps; /* by address */
	size_t n, room;
	uint64_t left_out; /* maps that are in no table, or beyond LIVE_MOST */
	uint64_t nonsense; /* entries that can't be of a map */
	uint64_t told;     /* entries, of maps that have ended, too */
	int refused;       /* errno of the look at the counters; 0: it was let */
};

/* As published_open_process(). */
int live_open(pid_t pid, struct live *ret_live);
/* A process without a table, so without maps, until live_look() finds one. */
void live_open_without_table(pid_t pid, struct live *ret_live);
bool live_has_table(const struct live *live);
/*
 * Reads its maps. 0; -EPROTO: the table makes no sense any more; -ENOMEM; -EACCES: a process
 * without a table may not be looked at any more.
 */
int live_look(struct live *live);
void live_close(struct live *live);

/* Behind the last byte that may be touched: whole pages. */
uint64_t live_end(const struct live_map *map);

/* The map that @address is in, its reserved part included; NULL. */
const struct live_map *live_at(const struct live *live, uint64_t address);

#endif
