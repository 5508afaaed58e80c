/* SPDX-License-Identifier: MIT */
/*
 * Ranges of the published table: sums of what accelerators do with memory by entries of their
 * own, for hetmap top and hetmap report. hetmap-published(5) describes them.
 */
#ifndef HETMAP_PUBLISH_RANGE_H
#define HETMAP_PUBLISH_RANGE_H

#include <hetmap/range.h>

/*
 * Adds an event of the accelerator called @accel to the ranges that it is of. @pages: of
 * HM_RANGE_MIGRATE_END, _EVICT and _PREFETCH_WASTED, the number of pages, where it is not that of
 * @event->length; else 0. @duration_ns: of faults and prefetches. Ends of moves find their
 * beginnings by their address. Never fails: what finds no room is counted in the table.
 *
 * Takes no lock but the table's. Makes the table, if this process has none yet.
 */
void publish_range(const char *accel, const struct hm_range_event *event, uint64_t pages,
		   uint64_t duration_ns);
/* So many events are not known. */
void publish_range_lost(uint64_t n);

#endif
