/* SPDX-License-Identifier: MIT */
/*
 * Pages that CPUs can't reach though their buffer has them, where it is for the
 * library to hide them in maps (hm_backend_ops.hidden): touching them is a SIGBUS.
 */
#ifndef HETMAP_REACH_H
#define HETMAP_REACH_H

#include <stdint.h>

struct hm_buffer;
struct hm_map;

/*
 * What CPUs find of the object that segments name by @object is another: all its maps
 * in this process show it, those of a buffer that is just being changed when that is
 * over. No lock of a buffer or map has to be held, nor may one be that others wait for.
 */
void reach_changed(const void *object);

/*
 * Brings @map to what holds now: a fresh one, once it can be found, or one that has
 * another object. Blocks that a handler has replaced stay as they are. Caller holds
 * buffer->lock and map->change, and changes no mapping of the map any more, whose blocks
 * are released. -ENOMEM, or as mmap(2): a part may show what it did before.
 */
int reach_show(struct hm_map *map);

/* Bytes [@offset, @offset + @length), or to the end, are mapped anew. -ENOMEM: not known of. */
int reach_forget(struct hm_map *map, uint64_t offset, uint64_t length);

/*
 * Maps these bytes of the buffer where they are in the map, whole pages, with its rights. What
 * is there goes, at once. Should it fail, they are without access. Caller holds buffer->lock and
 * change.
 */
int reach_put_back(struct hm_map *map, uint64_t offset, uint64_t length);

/*
 * Calls @visit(@context) for what each map of this process has of the object that
 * segments name by @object, which stays as it is meanwhile, until one fails: its
 * result. Maps that a change of this very thread holds are left out, and blocks that a
 * handler has replaced. @visit touches no map.
 */
int reach_visit(const void *object,
		int (*visit)(void *context, char *address, uint64_t offset, uint64_t length),
		void *context);

/*
 * Waits until all maps of @buffer show what has changed; what could not be shown before
 * is tried again. As reach_show(): the first failure.
 */
int reach_settle(struct hm_buffer *buffer);

/* For buffer_unlock(): what changed while the lock was held. As reach_show(). */
int reach_show_buffer_locked(struct hm_buffer *buffer);

#endif
