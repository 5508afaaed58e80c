/* SPDX-License-Identifier: MIT */
/*
 * The published table of maps: who traces or watches this process reads from it which
 * buffer an address was, and when. hetmap-published(5) has the format for others.
 *
 * A sealed memfd, "hetmap:maps", that this process alone can write, found through
 * /proc/PID/fd; or, where HETMAP_PUBLISH names a folder, a file maps.PID in it, which is
 * there when the process is gone. Sparse: what is touched is what was ever used.
 *
 * A map that has ended stays in its entry, with the time, until the entry is needed
 * again: the one that ended first is, and not before PUBLISH_HISTORY of them are there.
 */
#ifndef HETMAP_PUBLISH_H
#define HETMAP_PUBLISH_H

#include <stdint.h>

#include <hetmap/published.h>

#define PUBLISH_HISTORY 4096
/* Of a folder's file: a trace is to have all of them. */
#define PUBLISH_HISTORY_FILE (UINT64_C(1) << 20)

struct hm_map;

/*
 * A map begins; nobody can have its address yet. It never fails: a map that is not in the
 * table is counted there, or, where there is no table, in hm_stats.unpublished.
 */
void publish_begin(struct hm_map *map);

/* Its address, length, generation or object may be another. Caller holds map->change. */
void publish_change(struct hm_map *map);

/* It ends: what was mapped is still, and no other is at its address. */
void publish_end(struct hm_map *map);

/* Maps that are in no table. */
uint64_t publish_left_out(void);

/* fork(2): held across it. The child has none until it maps something. */
void publish_fork_prepare(void);
void publish_fork_parent(void);
void publish_fork_child(void);

#endif
