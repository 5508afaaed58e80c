// SPDX-License-Identifier: MIT
/*
 * Repair of blocks in the handler: no lock, no allocation, no text, and of the kernel
 * only what loss_map_after() asks for, and sched_yield().
 */
#include "fault/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "core/device_link.h"
#include "loss/loss.h"
#include "loss/lost.h"
#include "map/map.h"
#include "core/segments.h"
#include "base/sys.h"

/* ---- states of blocks ---- */

static _Atomic bool wanted;
static _Atomic bool unnoted; /* some map's are */
static _Atomic bool untold;  /* some map's replaced blocks are */

static struct block_states *create(uint64_t span)
{
	uint64_t n = (span + REPAIR_BLOCK - 1) / REPAIR_BLOCK;
	struct block_states *blocks =
		sys_calloc(1, sizeof(*blocks) + n * sizeof(blocks->state[0]));

	if (!blocks) {
		err_set(-ENOMEM, "no memory for the states of %" PRIu64 " blocks of a map", n);
		return NULL;
	}
	blocks->n = n;
	return blocks;
}

int repair_prepare(struct hm_map *map, uint64_t span)
{
	struct block_states *old = repair_states(map), *blocks;
	uint64_t i;

	if (likely(!atomic_load(&wanted)) || (old && old->n * REPAIR_BLOCK >= span))
		return 0;
	blocks = create(span);
	if (!blocks)
		return -ENOMEM;
	if (!old) {
		/* Who makes a map and who installs may come at once. */
		if (!atomic_compare_exchange_strong(&map->blocks, &old, blocks))
			free(blocks);
		return 0;
	}
	/* No handler changes a state that is claimed, nor one that is POISONED. */
	repair_claim_each(map, old, 0, old->n * REPAIR_BLOCK);
	for (i = 0; i < old->n; i++)
		atomic_store(&blocks->state[i], atomic_load(&old->state[i]));
	/* Who has found the old ones looks at them still, with nothing held: a bracket's end. */
	blocks->before = old;
	atomic_store(&map->blocks, blocks);
	return 0;
}

void repair_end(struct hm_map *map)
{
	struct block_states *blocks, *before;

	for (blocks = repair_states(map); blocks; blocks = before) {
		before = blocks->before;
		free(blocks);
	}
}

/* ---- mappings to spare ---- */

/*
 * What takes a block's place cuts a mapping into three, and vm.max_map_count may allow none
 * more when it comes to that: so some that are of no other use are kept, of pages that can be
 * read and pages that can't, in turn. A handler gives them up, once.
 */
#define SPARE_MAPPINGS 32

static _Atomic(char *) spare;

static void keep_spare(void)
{
	uint64_t page = page_size(), i;
	void *mapped;

	/* Without room for them there is nothing to be kept. */
	if (atomic_load(&spare) ||
	    sys_mmap(NULL, SPARE_MAPPINGS * page, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &mapped))
		return;
	for (i = 0; i < SPARE_MAPPINGS; i += 2)
		sys_mprotect((char *)mapped + i * page, page, PROT_READ);
	atomic_store(&spare, mapped);
}

/* Legal in a handler. False: there are none. */
static bool give_spare(void)
{
	char *mapped = atomic_exchange(&spare, NULL);

	if (!mapped)
		return false;
	if (!sys_munmap(mapped, SPARE_MAPPINGS * page_size()))
		return true;
	atomic_store(&spare, mapped);
	return false;
}

void repair_finish(void)
{
	give_spare();
}

struct preparing {
	int r;
};

static void prepare(struct hm_map *map, const void *user)
{
	struct preparing *preparing = (struct preparing *)(uintptr_t)user;

	if (preparing->r || pthread_mutex_lock(&map->change))
		return;
	preparing->r = repair_prepare(map, map->span);
	pthread_mutex_unlock(&map->change);
}

int repair_begin(void)
{
	struct preparing preparing = { 0 };

	keep_spare();
	atomic_store(&wanted, true);
	map_each(NULL, prepare, &preparing);
	return preparing.r;
}

/* [*ret_first, *ret_end) of the states of a range. */
static void blocks_of(const struct block_states *blocks, uint64_t offset, uint64_t length,
		      uint64_t *ret_first, uint64_t *ret_end)
{
	uint64_t end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;

	*ret_first = offset / REPAIR_BLOCK;
	*ret_end = min_u64(blocks->n, end / REPAIR_BLOCK + !!(end % REPAIR_BLOCK));
}

static uint32_t phase_of(uint32_t state)
{
	return state & BLOCK_PHASES;
}

/* Bytes from the block's first on that are what a handler put there. */
static uint64_t front_of(uint32_t state)
{
	return (uint64_t)(state >> BLOCK_FRONT_SHIFT) * REPAIR_FRONT_PAGE;
}

/* False: a handler is at it. */
static bool claim(_Atomic uint32_t *word)
{
	uint32_t state = atomic_load(word);

	while (phase_of(state) == BLOCK_OK)
		if (atomic_compare_exchange_strong(word, &state, state | BLOCK_CHANGING))
			return true;
	return phase_of(state) != BLOCK_REPAIRING;
}

void repair_claim_each(struct hm_map *map, struct block_states *blocks, uint64_t offset,
		       uint64_t length)
{
	uint64_t unit = max_u64(REPAIR_BLOCK, map->buffer->page_size), i, end;

	/* A page that is longer than a block is claimed by the first one of it. */
	length += offset - round_down(offset, unit);
	blocks_of(blocks, round_down(offset, unit), length, &i, &end);
	for (; i < end; i++)
		while (!claim(&blocks->state[i]))
			sched_yield();
}

void repair_show_each(struct hm_map *map, struct block_states *blocks, uint64_t offset,
		      uint64_t length)
{
	uint64_t unit = max_u64(REPAIR_BLOCK, map->buffer->page_size), i, end;
	uint32_t state, kept;
	uint64_t before, front;

	length += offset - round_down(offset, unit);
	blocks_of(blocks, round_down(offset, unit), length, &i, &end);
	for (; i < end; i++) {
		state = atomic_load(&blocks->state[i]);
		before = offset - min_u64(offset, i * REPAIR_BLOCK);
		front = phase_of(state) == BLOCK_POISONED ? before :
							    min_u64(before, front_of(state));
		/* What is mapped anew is locked again; what is before it is not. */
		kept = before ? state & BLOCK_UNNOTED : 0;
		kept |= (uint32_t)(front / REPAIR_FRONT_PAGE) << BLOCK_FRONT_SHIFT;
		if (phase_of(state) == BLOCK_POISONED)
			atomic_store(&blocks->state[i], BLOCK_CHANGING | BLOCK_SUSPECT | kept);
		else if (front_of(state))
			atomic_store(&blocks->state[i],
				     (state & (BLOCK_PHASES | BLOCK_SUSPECT)) | kept);
	}
}

/* Of a page that is longer than a block the first one says it. *@ret_end: as far as it does. */
static bool is_poisoned(const struct block_states *blocks, uint64_t unit, uint64_t offset,
			uint64_t *ret_end)
{
	uint64_t begin = round_down(offset, unit), i = begin / REPAIR_BLOCK;
	uint32_t state = i < blocks->n ? atomic_load(&blocks->state[i]) : BLOCK_OK;

	*ret_end = begin + unit;
	if (phase_of(state) == BLOCK_POISONED)
		return true;
	if (offset - begin >= front_of(state))
		return false;
	*ret_end = begin + front_of(state);
	return true;
}

bool repair_is_poisoned_each(const struct hm_map *map, struct block_states *blocks,
			     uint64_t offset, uint64_t length, uint64_t *ret_length)
{
	uint64_t unit = max_u64(REPAIR_BLOCK, map->buffer->page_size);
	uint64_t at, next, end = offset + length;
	bool poisoned = is_poisoned(blocks, unit, offset, &at);

	while (at < end && is_poisoned(blocks, unit, at, &next) == poisoned)
		at = next;
	*ret_length = min_u64(at, end) - offset;
	return poisoned;
}

bool repair_next_replaced(const struct hm_map *map, uint64_t *offset)
{
	struct block_states *blocks = repair_states(map);
	uint64_t i = *offset / REPAIR_BLOCK;

	for (; blocks && i < blocks->n; i++)
		if (atomic_load(&blocks->state[i]) >= BLOCK_POISONED) {
			*offset = max_u64(*offset, i * REPAIR_BLOCK);
			return true;
		}
	return false;
}

bool repair_has_replaced(const struct hm_map *map)
{
	uint64_t offset = 0;

	return repair_next_replaced(map, &offset);
}

void repair_suspect(struct hm_map *map, uint64_t offset, uint64_t length)
{
	uint64_t unit = max_u64(REPAIR_BLOCK, map->buffer->page_size), i, end;
	struct block_states *blocks = repair_states(map);
	bool fresh = false;

	if (!blocks)
		return;
	length += offset - round_down(offset, unit);
	blocks_of(blocks, round_down(offset, unit), length, &i, &end);
	/* Those that are so already have been counted. */
	for (; i < end; i += unit / REPAIR_BLOCK)
		if (atomic_load(&blocks->state[i]) < BLOCK_POISONED)
			fresh |= !(atomic_fetch_or(&blocks->state[i], BLOCK_SUSPECT) &
				   BLOCK_SUSPECT);
	if (fresh) {
		atomic_fetch_add(&map->replaced, 1);
		repair_tell_later();
	}
}

void repair_restored(struct hm_map *map, uint64_t offset)
{
	/* Of what is claimed, so that the release does the rest. */
	atomic_store(&repair_states(map)->state[offset / REPAIR_BLOCK], BLOCK_CHANGING);
}

void repair_release_each(struct block_states *blocks)
{
	uint32_t state;
	uint64_t i;

	/* What is CHANGING nobody else changes. */
	for (i = 0; i < blocks->n; i++) {
		state = atomic_load(&blocks->state[i]);
		if (phase_of(state) == BLOCK_CHANGING)
			atomic_store(&blocks->state[i], state & ~(uint32_t)BLOCK_PHASES);
	}
}

/* Of a lost map handlers claim no block; one that was at it before has ended. */
void repair_forget_each(struct block_states *blocks)
{
	uint64_t i;

	for (i = 0; i < blocks->n; i++)
		atomic_store(&blocks->state[i], BLOCK_OK);
}

bool repair_take_unnoted(void)
{
	return unlikely(atomic_load_explicit(&unnoted, memory_order_relaxed)) &&
	       atomic_exchange(&unnoted, false);
}

void repair_note_later(struct hm_map *map)
{
	atomic_store(&map->unnoted, true);
	atomic_store(&unnoted, true);
}

bool repair_is_untold(void)
{
	return atomic_load_explicit(&untold, memory_order_relaxed);
}

void repair_tell_later(void)
{
	atomic_store(&untold, true);
}

bool repair_take_untold(void)
{
	return atomic_exchange(&untold, false);
}

void repair_each_unnoted(struct hm_map *map,
			 int (*note)(struct hm_map *map, uint64_t offset, uint64_t length))
{
	struct block_states *blocks = repair_states(map);
	uint64_t i;
	int r = 0;

	/* First: what is marked from here on is looked for again. */
	atomic_store(&map->unnoted, false);
	for (i = 0; i < blocks->n && !r; i++) {
		if (!(atomic_load(&blocks->state[i]) & BLOCK_UNNOTED))
			continue;
		r = note(map, i * REPAIR_BLOCK,
			 min_u64(REPAIR_BLOCK, map->span - i * REPAIR_BLOCK));
		if (!r)
			atomic_fetch_and(&blocks->state[i], ~(uint32_t)BLOCK_UNNOTED);
	}
	if (r)
		repair_note_later(map);
}

int repair_check_each(const struct hm_map *map, struct block_states *blocks, uint64_t offset,
		      uint64_t length, uint64_t *ret_offset)
{
	uint64_t unit = max_u64(REPAIR_BLOCK, map->buffer->page_size), i, end, at;
	uint32_t state;
	int r;

	/*
	 * What was read before is read: the states come after it. Stores before need not
	 * have arrived: one that finds what took a place comes after the kernel's call to
	 * put it there, and the state before that.
	 */
	atomic_thread_fence(memory_order_acquire);
	blocks_of(blocks, round_down(offset, unit), length + offset - round_down(offset, unit),
		  &i, &end);
	for (; i < end; i++) {
		state = atomic_load(&blocks->state[i]);
		if (likely(state < BLOCK_REPAIRING))
			continue;
		at = max_u64(offset, i * REPAIR_BLOCK);
		if (ret_offset)
			*ret_offset = at;
		/* All of it may be gone, and the handler was the first to hear. */
		r = loss_ask(map->buffer);
		if (r)
			return r;
		return err_set(-EIO,
			       "%s: bytes were lost under the map at %p, which from %" PRIu64
			       " on, for %" PRIu64
			       " bytes, has what its loss policy put there and not its "
			       "buffer's bytes: make a new map, or see hm_device_recover()",
			       map->buffer->name, (void *)map->address, i * REPAIR_BLOCK, unit);
	}
	return 0;
}

/* ---- in the handler ---- */

/* A change of another part of the map is over soon, and waits for no handler. */
static int find(const void *pointer, struct hm_pointer_info *ret_info)
{
	int r;

	while ((r = registry_find(pointer, ret_info)) == -EAGAIN)
		sched_yield();
	return r;
}

/* Bytes [from, to) of the map, as runs of equal rights: the registry tells of pages. */
static int replace_range(const struct hm_pointer_info *found, uint64_t from, uint64_t to)
{
	uint64_t buffer_base = found->buffer_offset - found->map_offset;
	uint64_t page = found->buffer->page_size, at = from, begin;
	char *base = found->base;
	struct hm_pointer_info here;
	uint32_t access;
	int r;

	r = find(base + at, &here);
	while (!r && at < to) {
		begin = at;
		access = here.access;
		do {
			at += page;
			r = at < to ? find(base + at, &here) : 0;
		} while (!r && at < to && here.access == access);
		if (!r)
			r = loss_map_after(found->buffer, base + begin, buffer_base + begin,
					   at - begin, prot_of_access(access));
	}
	return r;
}

/*
 * Of memory that CPUs reach in part, as brackets bring it there, a SIGBUS is nothing
 * lost: the program has touched it outside of one.
 */
static bool is_out_of_reach(const struct hm_buffer *buffer)
{
	return atomic_load_explicit(&buffer->caps, memory_order_relaxed) & HM_CAP_BRACKET &&
	       !backend_ends_cpu(buffer->device->ops);
}

/*
 * A change that a fork child has found under way is the parent's, and over there: nobody
 * changes a parent's map here. Who else repairs may be a thread of this process.
 */
static bool is_free(const struct hm_map *map, uint32_t state)
{
	return phase_of(state) == BLOCK_OK ||
	       (phase_of(state) == BLOCK_CHANGING && map->object.fork_gen != fork_generation);
}

static enum repair answer_of(uint32_t state)
{
	if (phase_of(state) == BLOCK_OK)
		return REPAIR_REFUSED;
	return phase_of(state) == BLOCK_POISONED ? REPAIR_TRY : REPAIR_WAIT;
}

/* In the handler: is all of it gone? By one call, without a text. */
static bool is_gone(struct hm_buffer *buffer)
{
	const struct hm_backend_ops *ops = buffer->device->ops;
	struct segment_list *list;
	bool gone;

	if (buffer->ask != ASK_DEVICE || !ops->lost_signal || !ops->device_ask)
		return false;
	list = segments_look(buffer);
	gone = ops->device_ask(list->link->backend) == -ENODEV;
	segments_leave(list);
	return gone;
}

/* A block for a run: 1, claimed; 0, it is none of it; -1: a change is at it, and ends soon. */
static int claim_for_run(const struct hm_map *map, _Atomic uint32_t *word)
{
	uint32_t state = atomic_load(word);

	for (;;) {
		if (phase_of(state) == BLOCK_POISONED)
			return 0;
		if (phase_of(state) == BLOCK_REPAIRING) {
			/* Who is at it waits for nobody. */
			sched_yield();
			state = atomic_load(word);
		} else if (!is_free(map, state)) {
			return -1;
		} else if (atomic_compare_exchange_strong(word, &state,
							  (state & ~phase_of(state)) |
								  BLOCK_REPAIRING)) {
			return 1;
		}
	}
}

/* One thread at a time claims runs: two would each wait for a block of the other's. */
static atomic_flag claiming_run = ATOMIC_FLAG_INIT;

/*
 * A mapping for a block cuts its map's into three, and there may be no more of them (-ENOMEM).
 * Of a device that is gone every block is lost: those that follow each other up to where a
 * mapping ends anyway take one mapping's place together. The block of @found is claimed, was
 * @before. REPAIR_WAIT: nothing has changed, and it is to be tried again.
 */
static enum repair replace_run(const struct hm_pointer_info *found, struct block_states *blocks,
			       uint64_t at, uint32_t before)
{
	uint64_t unit = max_u64(REPAIR_BLOCK, found->buffer->page_size),
		 step = unit / REPAIR_BLOCK;
	uint64_t length = round_up(found->length, found->buffer->page_size);
	uint64_t n = (length + REPAIR_BLOCK - 1) / REPAIR_BLOCK, first = at, end = at + step, i;
	_Atomic uint32_t *state = blocks->state;
	int claimed = 1, r = -ENOMEM;

	if (atomic_flag_test_and_set(&claiming_run)) {
		atomic_fetch_xor(&state[at], BLOCK_REPAIRING ^ phase_of(before));
		return REPAIR_WAIT;
	}
	while (first >= step && (claimed = claim_for_run(found->map, &state[first - step])) > 0)
		first -= step;
	while (claimed >= 0 && end < n &&
	       (claimed = claim_for_run(found->map, &state[end])) > 0)
		end += step;
	length = min_u64(end * REPAIR_BLOCK, length);
	if (claimed >= 0)
		r = replace_range(found, first * REPAIR_BLOCK, length);
	if (claimed >= 0 && r == -ENOMEM && give_spare())
		r = replace_range(found, first * REPAIR_BLOCK, length);
	atomic_fetch_add(&found->map->replaced, claimed >= 0);
	for (i = first; i < end; i += step)
		if (claimed >= 0)
			atomic_store(&state[i], BLOCK_POISONED | BLOCK_UNNOTED);
		else
			atomic_fetch_xor(&state[i], BLOCK_REPAIRING ^ BLOCK_OK);
	atomic_flag_clear(&claiming_run);
	if (claimed < 0)
		return REPAIR_WAIT;
	repair_note_later(found->map);
	repair_tell_later();
	return r ? REPAIR_REFUSED : REPAIR_DONE;
}

enum repair repair_fault(const struct hm_pointer_info *found, bool replace)
{
	uint64_t unit = max_u64(REPAIR_BLOCK, found->buffer->page_size);
	uint64_t from = round_down(found->map_offset, unit), to;
	struct block_states *blocks = repair_states(found->map);
	uint64_t i = from / REPAIR_BLOCK;
	struct hm_pointer_info now;
	uint32_t state;
	int r;

	if (!blocks || i >= blocks->n)
		return REPAIR_REFUSED;
	if (found->map->lost)
		return REPAIR_TRY;
	state = atomic_load(&blocks->state[i]);
	do {
		if (!is_free(found->map, state) || !replace || is_out_of_reach(found->buffer))
			return answer_of(state);
	} while (!atomic_compare_exchange_strong(&blocks->state[i], &state,
						 (state & ~phase_of(state)) | BLOCK_REPAIRING));
	/* A change that ended since the looks above may have cut, moved, lost or restored it. */
	r = find((char *)found->base + found->map_offset, &now);
	if (r || now.map != found->map || now.map_offset != found->map_offset ||
	    now.generation != found->generation || found->map->lost) {
		/* As it was, less what others have cleared meanwhile. */
		atomic_fetch_xor(&blocks->state[i], BLOCK_REPAIRING ^ phase_of(state));
		return REPAIR_WAIT;
	}
	to = min_u64(from + unit, round_up(now.length, now.buffer->page_size));
	r = replace_range(&now, from, to);
	if (unlikely(r == -ENOMEM)) {
		if (is_gone(found->buffer))
			return replace_run(&now, blocks, i, state);
		if (give_spare())
			r = replace_range(&now, from, to);
	}
	/* Before it is POISONED: a recovery restores those alone that it has counted. */
	atomic_fetch_add(&found->map->replaced, 1);
	/* After a failure, too: a part may be there, and no byte is relied on again. */
	atomic_store(&blocks->state[i], BLOCK_POISONED | BLOCK_UNNOTED);
	repair_note_later(found->map);
	repair_tell_later();
	return r ? REPAIR_REFUSED : REPAIR_DONE;
}
