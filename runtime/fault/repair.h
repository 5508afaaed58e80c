/* SPDX-License-Identifier: MIT */
/*
 * Repair: what takes the place of lost bytes, in the handler, and who is told.
 *
 * Each map has a word for each 2 MiB (core.h, enum block_state), once a handler was installed:
 *
 *   OK        a fault, by compare-and-swap    REPAIRING, then POISONED
 *   OK        a change's freeze               CHANGING, then OK
 *   POISONED  growth, or a move               CHANGING, then OK and SUSPECT
 *   POISONED  hm_device_recover()             CHANGING, then OK
 *
 * A handler claims a block, has loss_map_after() put pages there and leaves it POISONED: the
 * block shows no bytes of its buffer before hm_device_recover() has brought them back
 * (replaced.h), and reports are made until then. A fault on a block that is REPAIRING or CHANGING
 * returns, and comes again if the block is not ready. A freeze claims blocks only after work in
 * flight has ended, which may need a repair to end at all.
 *
 * A block is REPAIRING before it shows other bytes, and a report looks at the state after the
 * bytes were read: a copy at its end, a fence when its work is done, hm_map_begin_cpu() and
 * hm_map_end_cpu(). A SUSPECT block is reported as a POISONED one. A growth has put the buffer's
 * bytes behind the replaced ones, or a move has put them over these: the block can lose bytes
 * again, and is replaced as one that is OK.
 *
 * Pages that CPUs can't reach (reach.h) are hidden and shown under a claim, too, but never in a
 * POISONED block: it stays as the handler made it, stores included.
 */
#ifndef HETMAP_REPAIR_H
#define HETMAP_REPAIR_H

#include "core/core.h"

/* The unit of repair. Each mapping that is put in the place of others costs a VMA. */
#define REPAIR_BLOCK MIB(2)
#define REPAIR_FRONT_PAGE KIB(4) /* what fronts of blocks are counted in */

/*
 * Room for the states of @map of @span bytes, if handlers may come: a fresh map's,
 * after it was entered into the registry, or that of one that is being moved. What is
 * POISONED stays so. Who looks at a map's states, in a bracket or a handler, holds
 * nothing for that: those of before stay until the map's end. Moves mostly double the
 * span, so that all of them together have no more words than the last ones. -ENOMEM.
 */
int repair_prepare(struct hm_map *map, uint64_t span);
void repair_end(struct hm_map *map);

/*
 * From here on states are wanted: a map is entered first and looks then, and whoever
 * installs says so first and looks for maps then. All maps get theirs. -ENOMEM.
 */
int repair_begin(void);
/* The last handler is gone. */
void repair_finish(void);

/*
 * The bytes of a range are about to be mapped otherwise: no handler is or gets at them
 * until all of the map is released. Caller holds map->change.
 */
void repair_forget_each(struct block_states *blocks);
void repair_claim_each(struct hm_map *map, struct block_states *blocks, uint64_t offset,
		       uint64_t length);
void repair_release_each(struct block_states *blocks);
/* The change that has claimed the range maps bytes of the buffer there, if it succeeds. */
void repair_show_each(struct hm_map *map, struct block_states *blocks, uint64_t offset,
		      uint64_t length);
/* How much of a range is like its first byte: in POISONED blocks, or in others. */
bool repair_is_poisoned_each(const struct hm_map *map, struct block_states *blocks,
			     uint64_t offset, uint64_t length, uint64_t *ret_length);

static inline struct block_states *repair_states(const struct hm_map *map)
{
	return atomic_load_explicit(&map->blocks, memory_order_acquire);
}

static inline void repair_claim(struct hm_map *map, uint64_t offset, uint64_t length)
{
	struct block_states *blocks = repair_states(map);

	if (unlikely(blocks != NULL))
		repair_claim_each(map, blocks, offset, length);
}

static inline void repair_show(struct hm_map *map, uint64_t offset, uint64_t length)
{
	struct block_states *blocks = repair_states(map);

	if (unlikely(blocks != NULL))
		repair_show_each(map, blocks, offset, length);
}

/* Stays so for as long as the range is claimed. */
static inline bool repair_is_poisoned(const struct hm_map *map, uint64_t offset,
				      uint64_t length, uint64_t *ret_length)
{
	struct block_states *blocks = repair_states(map);

	*ret_length = length;
	return unlikely(blocks != NULL) &&
	       repair_is_poisoned_each(map, blocks, offset, length, ret_length);
}

static inline void repair_release(struct hm_map *map)
{
	struct block_states *blocks = repair_states(map);

	if (unlikely(blocks != NULL))
		repair_release_each(blocks);
}

/* All of the map shows its buffer again. Caller holds map->change, and it is lost. */
static inline void repair_forget(struct hm_map *map)
{
	struct block_states *blocks = repair_states(map);

	if (unlikely(blocks != NULL))
		repair_forget_each(blocks);
}

/*
 * Locks of replaced blocks. A handler can't take them off map->locked: it leaves the block
 * BLOCK_UNNOTED, and whoever holds map->change next, or looks at what is locked in all,
 * sees to it.
 */

/* True once after some map's block was left so. */
bool repair_take_unnoted(void);
/* There is something left to do. */
void repair_note_later(struct hm_map *map);
/*
 * Calls @note for each such block, and clears the mark where that is 0; ends, to be called
 * again, with the first other result. Caller holds map->change, and map->unnoted was found.
 */
void repair_each_unnoted(struct hm_map *map,
			 int (*note)(struct hm_map *map, uint64_t offset, uint64_t length));

/*
 * Who is told of replaced blocks (replaced.c). A handler can't tell: it counts
 * hm_map.replaced up, and whoever comes by outside of one looks.
 */
bool repair_is_untold(void);
void repair_tell_later(void);
/* True once after that. */
bool repair_take_untold(void);
/* Is some block replaced, or suspect of it? */
bool repair_has_replaced(const struct hm_map *map);
/* The first byte from *offset on that is in one, which becomes *offset. */
bool repair_next_replaced(const struct hm_map *map, uint64_t *offset);
/*
 * These bytes of the buffer's are about to be others, in the map as it is: brackets, copies and
 * fences say so until it is restored. Caller holds change.
 */
void repair_suspect(struct hm_map *map, uint64_t offset, uint64_t length);
/* The one there shows its buffer alone again. Caller has claimed it, and holds change. */
void repair_restored(struct hm_map *map, uint64_t offset);

int repair_check_each(const struct hm_map *map, struct block_states *blocks, uint64_t offset,
		      uint64_t length, uint64_t *ret_offset);

/*
 * -EIO, with a text, where some byte of the range was replaced, or just is; -ENODEV where that
 * was as the device is gone; *ret_offset, which may be NULL, is the first one. What was read
 * before is no good then, though nothing had told.
 */
static inline int repair_check(const struct hm_map *map, uint64_t offset, uint64_t length,
			       uint64_t *ret_offset)
{
	struct block_states *blocks = repair_states(map);

	if (likely(!blocks))
		return 0;
	return repair_check_each(map, blocks, offset, length, ret_offset);
}

enum repair {
	REPAIR_DONE,    /* pages are there: the access is tried again */
	REPAIR_WAIT,    /* somebody is at it, who does not wait for this thread; or, of a
			 * parent's map, was when it forked */
	REPAIR_TRY,     /* it was replaced: the fault is of before, or else another one */
	REPAIR_REFUSED, /* not for the library to replace, or it could not */
};

/*
 * In a handler: replaces the block of @map with byte @found->map_offset. With
 * @replace false it only looks whether somebody is at it.
 */
enum repair repair_fault(const struct hm_pointer_info *found, bool replace);

#endif
