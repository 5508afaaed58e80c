/* SPDX-License-Identifier: MIT */
/*
 * The published table of maps: tracers and monitors of this process read from it which buffer
 * an address belonged to, and when. hetmap-published(5) describes the format for other
 * programs.
 *
 * The table is a sealed memfd, "hetmap:maps", which this process alone can write, found through
 * /proc/PID/fd; or, where HETMAP_PUBLISH names a folder, a file maps.PID in it, which is still
 * there when the process is gone. It is sparse: only entries that were ever used take storage.
 *
 * A map that has ended keeps its entry, with the time of its end, until the entry is needed
 * again. The entry that ended first is reused first, and only after PUBLISH_HISTORY entries
 * have ended.
 */
#ifndef HETMAP_PUBLISH_H
#define HETMAP_PUBLISH_H

#include <stdint.h>

#include <hetmap/published.h>

#define PUBLISH_HISTORY 4096
/* For a file in a folder, since a trace needs all ended maps. */
#define PUBLISH_HISTORY_FILE (UINT64_C(1) << 20)

struct hm_map;

/*
 * Enters a map that begins; no other thread has its address yet. Never fails: a map that finds
 * no room is counted in the table, or, without a table, in hm_stats.unpublished.
 */
void publish_begin(struct hm_map *map);

/* Enters a new address, length, generation or object of a map. Caller holds map->change. */
void publish_change(struct hm_map *map);

/* Ends the map's entry. The bytes are still mapped, so no other map is at the address. */
void publish_end(struct hm_map *map);

/*
 * Must be called when a device was opened: sets a text if HETMAP_PUBLISH names a folder that can't
 * have the table.
 */
void publish_tell(void);

/*
 * Names the figures of moves between tiers, which stay in place while the process lives. A table
 * that is made later has them, too.
 */
void publish_tiering(const struct hm_published_tiering *figures);

/* Maps that are in no table. */
uint64_t publish_left_out(void);

/* fork(2): the mutex is held across it. The child has no table until it maps a buffer. */
void publish_fork_prepare(void);
void publish_fork_parent(void);
void publish_fork_child(void);

#endif
