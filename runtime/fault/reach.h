/* SPDX-License-Identifier: MIT */
/*
 * Pages of a buffer that CPUs can't reach, and that the library must hide in maps
 * (hm_backend_ops.hidden): a touch of them is a SIGBUS.
 */
#ifndef HETMAP_REACH_H
#define HETMAP_REACH_H

#include <stdint.h>

struct hm_buffer;
struct hm_map;

/*
 * Reports that CPUs find other pages than before in the object that segments call @object.
 * Updates all its maps in this process; maps of a buffer that is being changed follow when that
 * is over. The caller needs no lock of a buffer or map, and must hold none that other threads
 * wait for.
 */
void reach_changed(const void *object);

/*
 * Updates @map: a fresh one, once it can be found, or one that has another object. Blocks that
 * a handler has replaced stay as they are. Caller holds buffer->lock and map->change, and
 * changes no mapping of the map any more; the map's blocks are released. -ENOMEM, or as
 * mmap(2): a part may be in its old state.
 */
int reach_show(struct hm_map *map);

/* Bytes [@offset, @offset + @length), or to the end, are mapped anew. -ENOMEM: not noted. */
int reach_forget(struct hm_map *map, uint64_t offset, uint64_t length);

/*
 * Maps these bytes of the buffer at their place in the map, whole pages, with the map's rights.
 * The old pages go at once; after a failure the range has no access. Caller holds buffer->lock
 * and change.
 */
int reach_put_back(struct hm_map *map, uint64_t offset, uint64_t length);

/*
 * Calls @visit(@context) for each part that maps of this process show of the object that
 * segments call @object, until one call fails, and returns its result. The part stays as it is
 * meanwhile. Leaves out maps that a change of this very thread holds, and blocks that a handler
 * has replaced. @visit must touch no map.
 */
int reach_visit(const void *object,
		int (*visit)(void *context, char *address, uint64_t offset, uint64_t length),
		void *context);

/*
 * Waits until all maps of @buffer are up to date, and tries failed updates again. As
 * reach_show(): returns the first failure.
 */
int reach_settle(struct hm_buffer *buffer);

/* For buffer_unlock(): handles changes that came while the lock was held. As reach_show(). */
int reach_show_buffer_locked(struct hm_buffer *buffer);

#endif
