/* SPDX-License-Identifier: MIT */
/*
 * Repair: replaces lost bytes in the handler, and has them reported.
 *
 * Once a handler was installed, each map has a word for each 2 MiB (core/map_repair.h):
 *
 *   OK        a fault, by compare-and-swap    REPAIRING, then POISONED
 *   OK        a change's freeze               CHANGING, then OK
 *   POISONED  growth, or a move               CHANGING, then OK and SUSPECT
 *   POISONED  hm_device_recover()             CHANGING, then OK
 *
 * A handler claims a block, has loss_map_after() put pages there and leaves it POISONED: the
 * block shows no bytes of its buffer before hm_device_recover() has brought them back
 * (replaced.h), and reports are made until then. A fault on a block that is REPAIRING or
 * CHANGING returns, and comes again if the block is not ready. A freeze claims blocks only
 * after work in flight has ended, which may need a repair to end at all.
 *
 * A block is REPAIRING before it shows other bytes, and a report looks at the state after the
 * bytes were read: a copy at its end, a fence when its work is done, hm_map_begin_cpu() and
 * hm_map_end_cpu(). A SUSPECT block is reported as a POISONED one. A growth has put the
 * buffer's bytes behind the replaced ones, or a move has put them over these: the block can
 * lose bytes again, and is replaced as one that is OK.
 *
 * Pages that CPUs can't reach (reach.h) are hidden and shown under a claim, too, but never in a
 * POISONED block: it stays as the handler made it, stores included.
 */
#ifndef HETMAP_REPAIR_H
#define HETMAP_REPAIR_H

#include "core/map_repair.h"

/* The unit of repair. Each replacement costs a VMA. */
#define REPAIR_BLOCK MIB(2)
#define REPAIR_FRONT_PAGE KIB(4) /* unit of the fronts of blocks */

/*
 * Makes room for the states of @map of @span bytes, if handlers may come: for a fresh map,
 * after it was entered into the registry, or for a map that is being moved. POISONED blocks
 * stay so. Readers of the states, in a bracket or a handler, hold no lock for that: old states
 * stay until the map's end. Moves mostly double the span, so that all old states together have
 * no more words than the last ones.
 * -ENOMEM.
 */
int repair_prepare(struct hm_map *map, uint64_t span);
void repair_end(struct hm_map *map);

/*
 * Makes states for all maps, and for maps to come. A map is entered first and looks for
 * handlers afterwards; an installation announces itself first and looks for maps afterwards.
 * -ENOMEM.
 */
int repair_begin(void);
/* Called when the last handler is gone. */
void repair_finish(void);

/*
 * Claims the bytes of a range before they are mapped otherwise: no handler works on them until
 * all of the map is released. Caller holds map->change.
 */
void repair_forget_each(struct block_states *blocks);
void repair_claim_each(struct hm_map *map, struct block_states *blocks, uint64_t offset,
		       uint64_t length);
void repair_release_each(struct block_states *blocks);
/*
 * Called by a change that has claimed the range, and that maps bytes of the buffer there if it
 * succeeds.
 */
void repair_show_each(struct hm_map *map, struct block_states *blocks, uint64_t offset,
		      uint64_t length);
/*
 * Is the first byte of the range in a POISONED block? *ret_length: bytes with the same answer.
 */
bool repair_is_poisoned_each(const struct hm_map *map, struct block_states *blocks,
			     uint64_t offset, uint64_t length, uint64_t *ret_length);

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

/* The answer holds as long as the range is claimed. */
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

/* All of the map shows its buffer again. Caller holds map->change, and the map is lost. */
static inline void repair_forget(struct hm_map *map)
{
	struct block_states *blocks = repair_states(map);

	if (unlikely(blocks != NULL))
		repair_forget_each(blocks);
}

/*
 * Locks of replaced blocks. A handler can't take them off map->locked: it marks the block
 * BLOCK_UNNOTED, and the next holder of map->change, or the next query of all locks, does it.
 */

/* True once after some map's block was marked. */
bool repair_take_unnoted(void);
/* Leaves marks for the next call. */
void repair_note_later(struct hm_map *map);
/*
 * Calls @note for each marked block, and clears the mark if the result is 0. Ends, to be called
 * again, with the first other result. Caller holds map->change, and has found
 * repair_is_unnoted().
 */
void repair_each_unnoted(struct hm_map *map,
			 int (*note)(struct hm_map *map, uint64_t offset, uint64_t length));

/*
 * Reports about replaced blocks (block_loss.c). A handler can't make them: it counts
 * map_repair.replaced up, and a later call outside of a handler looks.
 */
bool repair_is_untold(void);
void repair_tell_later(void);
/* True once after that. */
bool repair_take_untold(void);
/* Is some block replaced, or suspect? */
bool repair_has_replaced(const struct hm_map *map);
/* Moves *offset to the first byte from there on in such a block. False: there is none. */
bool repair_next_replaced(const struct hm_map *map, uint64_t *offset);
/*
 * Marks bytes of the buffer that are about to change while the map stays: brackets, copies and
 * fences report them until they are restored. Caller holds change.
 */
void repair_suspect(struct hm_map *map, uint64_t offset, uint64_t length);
/* The block there shows only its buffer again. Caller has claimed it, and holds change. */
void repair_restored(struct hm_map *map, uint64_t offset);

int repair_check_each(const struct hm_map *map, struct block_states *blocks, uint64_t offset,
		      uint64_t length, uint64_t *ret_offset);

/*
 * Checks that no byte of the range was replaced, or is being replaced. If one was, bytes that
 * were read before are no good, even without a fault. *ret_offset, which may be NULL, is the
 * first one.
 * -EIO, with a text: bytes were replaced.
 * -ENODEV: likewise, because the device is gone.
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
	REPAIR_WAIT,    /* another thread is at it, which does not wait for this one */
	REPAIR_TRY,     /* replaced already: the fault is out of date, or another one */
	REPAIR_REFUSED, /* not the library's to replace, or it could not */
};

/*
 * In a handler: replaces the block with byte @found->map_offset. With @replace false, only
 * looks whether another thread is at it. REPAIR_WAIT, for a parent's map: one was, when it
 * forked.
 */
enum repair repair_fault(const struct hm_pointer_info *found, bool replace);

#endif
