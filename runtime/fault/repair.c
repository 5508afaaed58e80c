// SPDX-License-Identifier: MIT
/*
 * Repair of blocks in the handler: takes no lock, allocates nothing, sets no text, and enters
 * the kernel only by loss_map_after(), device_ask(), munmap() of spare mappings, and
 * sched_yield().
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
#include "loss/device_loss.h"
#include "map/map.h"
#include "core/segments.h"
#include "base/sys.h"

/* ---- states of blocks ---- */

static _Atomic bool wanted;
static _Atomic bool unnoted; /* some map has such blocks */
static _Atomic bool untold;  /* some map has such replaced blocks */

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

/* A thread that makes a map and one that installs may come at once. */
static struct map_repair *own_repair(struct hm_map *map)
{
	struct map_repair *repair = map_repair(map), *fresh;

	if (repair)
		return repair;
	fresh = sys_calloc(1, sizeof(*fresh));
	if (!fresh) {
		err_set(-ENOMEM, "no memory for the repairs of a map");
		return NULL;
	}
	if (atomic_compare_exchange_strong(&map->repair, &repair, fresh))
		return fresh;
	free(fresh);
	return repair;
}

int repair_prepare(struct hm_map *map, uint64_t span)
{
	struct block_states *old = repair_states(map), *blocks;
	struct map_repair *repair;
	uint64_t i;

	if (likely(!atomic_load(&wanted)) || (old && old->n * REPAIR_BLOCK >= span))
		return 0;
	repair = own_repair(map);
	if (!repair)
		return -ENOMEM;
	blocks = create(span);
	if (!blocks)
		return -ENOMEM;
	if (!old) {
		/* As in own_repair(). */
		if (!atomic_compare_exchange_strong(&repair->blocks, &old, blocks))
			free(blocks);
		return 0;
	}
	/* No handler changes a state that is claimed, nor one that is POISONED. */
	repair_claim_each(map, old, 0, old->n * REPAIR_BLOCK);
	for (i = 0; i < old->n; i++)
		atomic_store(&blocks->state[i], atomic_load(&old->state[i]));
	/* The old ones may still be read without a lock, at a bracket's end. */
	blocks->before = old;
	atomic_store(&repair->blocks, blocks);
	return 0;
}

void repair_end(struct hm_map *map)
{
	struct block_states *blocks, *before;

	for (blocks = repair_states(map); blocks; blocks = before) {
		before = blocks->before;
		free(blocks);
	}
	free(map_repair(map));
}

/* ---- mappings to spare ---- */

/*
 * A replacement of a block cuts a mapping into three, and vm.max_map_count may allow no more of
 * them by then. Some mappings are therefore kept in reserve, of readable and inaccessible pages
 * in turn. A handler gives them up, once.
 */
#define SPARE_MAPPINGS 32

static _Atomic(char *) spare;

static void keep_spare(void)
{
	uint64_t page = page_size(), i;
	void *mapped;

	/* Without room for them there is no reserve. */
	if (atomic_load(&spare) ||
	    sys_mmap(NULL, SPARE_MAPPINGS * page, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &mapped))
		return;
	for (i = 0; i < SPARE_MAPPINGS; i += 2)
		sys_mprotect((char *)mapped + i * page, page, PROT_READ);
	atomic_store(&spare, mapped);
}

/* Legal in a handler. False: no reserve is left. */
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

/* Finds the states [*ret_first, *ret_end) of a range. */
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

/* Bytes at the beginning of a block that a handler put there. */
static uint64_t front_of(uint32_t state)
{
	return (uint64_t)(state >> BLOCK_FRONT_SHIFT) * REPAIR_FRONT_PAGE;
}

/* False: a handler is at work on it. */
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

	/* Where a page is larger than a block, its first block claims all of it. */
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
		/* Bytes that are mapped anew are locked again; bytes before them are not. */
		kept = before ? state & BLOCK_UNNOTED : 0;
		kept |= (uint32_t)(front / REPAIR_FRONT_PAGE) << BLOCK_FRONT_SHIFT;
		if (phase_of(state) == BLOCK_POISONED)
			atomic_store(&blocks->state[i], BLOCK_CHANGING | BLOCK_SUSPECT | kept);
		else if (front_of(state))
			atomic_store(&blocks->state[i],
				     (state & (BLOCK_PHASES | BLOCK_SUSPECT)) | kept);
	}
}

/*
 * Where a page is larger than a block, the state of its first block counts for all of it.
 * *@ret_end: end of the bytes with the same answer.
 */
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
	/* Suspect blocks have been counted already. */
	for (; i < end; i += unit / REPAIR_BLOCK)
		if (atomic_load(&blocks->state[i]) < BLOCK_POISONED)
			fresh |= !(atomic_fetch_or(&blocks->state[i], BLOCK_SUSPECT) &
				   BLOCK_SUSPECT);
	if (fresh) {
		atomic_fetch_add(&map_repair(map)->replaced, 1);
		repair_tell_later();
	}
}

void repair_restored(struct hm_map *map, uint64_t offset)
{
	/* The block is claimed, so the release does the rest. */
	atomic_store(&repair_states(map)->state[offset / REPAIR_BLOCK], BLOCK_CHANGING);
}

void repair_release_each(struct block_states *blocks)
{
	uint32_t state;
	uint64_t i;

	/* A CHANGING state has no other writer. */
	for (i = 0; i < blocks->n; i++) {
		state = atomic_load(&blocks->state[i]);
		if (phase_of(state) == BLOCK_CHANGING)
			atomic_store(&blocks->state[i], state & ~(uint32_t)BLOCK_PHASES);
	}
}

/* Handlers claim no block of a lost map; an earlier one has ended. */
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
	atomic_store(&map_repair(map)->unnoted, true);
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

	/* Cleared first: marks from here on are looked for again. */
	atomic_store(&map_repair(map)->unnoted, false);
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
	 * Orders earlier reads of bytes before the reads of states. Earlier stores need not
	 * have arrived: a store that meets a replacement comes after the kernel's call that put
	 * it there, and the state before that call.
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
		/*
		 * The device may be gone, and the handler may have been the first to meet it.
		 */
		r = loss_ask(map->buffer);
		if (r)
			return r;
		return err_set(-EIO,
			       "%s: bytes were lost under the map at %p: from %" PRIu64
			       " on, %" PRIu64 " bytes are those of its loss policy and not "
			       "its buffer's: make a new map, or see hm_device_recover()",
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

/*
 * Replaces bytes [from, to) of the map, as runs of equal rights: the registry is asked page by
 * page.
 */
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
 * Where CPUs reach memory only in brackets, a SIGBUS means no loss: the program has touched it
 * outside of one.
 */
static bool is_out_of_reach(const struct hm_buffer *buffer)
{
	return atomic_load_explicit(&buffer->caps, memory_order_relaxed) & HM_CAP_BRACKET &&
	       !backend_has(buffer->device->ops, HM_BACKEND_BRACKET_END);
}

/*
 * A change that a fork child finds under way is the parent's, and does not go on here: no
 * thread changes a parent's map in a child. A repair may be by a thread of this process.
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

/* In the handler: is the whole device gone? Makes one call, and sets no text. */
static bool is_gone(struct hm_buffer *buffer)
{
	const struct hm_backend_ops *ops = buffer->device->ops;
	struct segment_list *list;
	bool gone;

	if (!backend_has(ops, HM_BACKEND_LOSS_SIGNAL))
		return false;
	list = segments_look(buffer);
	gone = ops->device_ask(list->link->backend) == -ENODEV;
	segments_leave(list);
	return gone;
}

/*
 * Claims a block for a run: 1, claimed; 0, it ends the run; -1: a change is at it, and ends
 * soon.
 */
static int claim_for_run(const struct hm_map *map, _Atomic uint32_t *word)
{
	uint32_t state = atomic_load(word);

	for (;;) {
		if (phase_of(state) == BLOCK_POISONED)
			return 0;
		if (phase_of(state) == BLOCK_REPAIRING) {
			/* The other handler waits for no thread. */
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
 * Replaces a run of blocks of a device that is gone. A mapping for one block cuts the map's
 * mapping into three, and there may be no more of them (-ENOMEM). As every block is lost, the
 * blocks in a row up to where a mapping ends anyway are replaced by one mapping. The block of
 * @found is claimed, and was @before. REPAIR_WAIT: nothing has changed, and the access is tried
 * again.
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
	atomic_fetch_add(&map_repair(found->map)->replaced, claimed >= 0);
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
		/* As before, less the bits that other threads have cleared meanwhile. */
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
	/*
	 * Counted before it is POISONED: a recovery restores only blocks that it has counted.
	 */
	atomic_fetch_add(&map_repair(found->map)->replaced, 1);
	/* After a failure, too: a part may be replaced, so that no byte is relied on again. */
	atomic_store(&blocks->state[i], BLOCK_POISONED | BLOCK_UNNOTED);
	repair_note_later(found->map);
	repair_tell_later();
	return r ? REPAIR_REFUSED : REPAIR_DONE;
}
