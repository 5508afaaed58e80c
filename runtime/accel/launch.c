// SPDX-License-Identifier: MIT
/*
 * From arguments to submitted work: resolves pointers, enters the uses, makes the accelerator
 * acquire each range, submits.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "accel/accel.h"
#include "pool/pool.h"
#include "core/identity.h"
#include "loss/device_loss.h"
#include "tell/probe.h"
#include "map/protect.h"
#include "map/remap.h"
#include "map/bracket.h"

/* References of a submit for each range, held until it returns. */
struct pins {
	struct accel_view *view[HM_KERNEL_MAX_ARGS];
	struct hm_map *map[HM_KERNEL_MAX_ARGS]; /* borrowed from the uses */
	uint32_t order[HM_KERNEL_MAX_ARGS];     /* ranges with a view, by the view's address */
	uint32_t n_order;
	uint32_t n_pinned;   /* views of ranges order[0, n_pinned) are pinned, each once */
	uint32_t n_acquired; /* ranges [0, n_acquired) are acquired, */
	uint32_t left;       /* but those of these bits were released since */
	uint32_t n_turn;     /* the CPU's turns of ranges [0, n_turn) have ended */
	uint32_t turn[HM_KERNEL_MAX_ARGS]; /* turns that have ended, of ranges with a bracket */
};

static bool is_range(const struct hm_accel_work *work, uint32_t index)
{
	return work->kind != HM_WORK_LAUNCH || work->arg[index].kind == HM_ARG_POINTER;
}

static struct hm_map *map_of(const struct hm_fence *fence, uint32_t index)
{
	const struct hm_accel_range *range = &fence->work.range[index];
	const struct map_use *use;
	uint32_t i;

	for (i = 0; i < fence->n_use; i++) {
		use = &fence->use[i];
		if ((uint64_t)(range->pointer - use->map->address) == range->offset &&
		    range->offset >= use->offset &&
		    range->offset + range->length <= use->offset + use->length)
			return use->map;
	}
	return NULL;
}

/* Checks again after the uses have begun: the map may have changed since the lookup. */
static int check_range(struct hm_fence *fence, uint32_t index, struct hm_map **ret_map)
{
	const struct hm_accel_range *range = &fence->work.range[index];
	struct hm_map *map = map_of(fence, index);

	if (unlikely(!map || range->offset + range->length > atomic_load(&map->length)))
		return err_set(-EBUSY, "%s: its map is being changed: submit again after that",
			       range_label(fence, index));
	if (unlikely(!map_allows(map, range->offset, range->length, range->access)))
		return err_set(-EACCES,
			       "%s: %s of %" PRIu64 " bytes from offset %" PRIu64
			       " of a map that does not allow it there: see "
			       "hm_map_protect()%s",
			       range_label(fence, index),
			       range->access & HM_WRITE ? "a write" : "a read", range->length,
			       range->offset,
			       protect_cause(map, range->offset, range->length, range->access));
	if (unlikely(map->buffer->caps & HM_CAP_BRACKET))
		fence->brackets |= 1u << index;
	*ret_map = map;
	return 0;
}

static int check_window(struct hm_accel *accel, struct hm_fence *fence, uint32_t index)
{
	const struct hm_accel_range *range = &fence->work.range[index];
	uint64_t last = range->offset + range->length - 1;

	if (likely(range->offset / accel->window == last / accel->window))
		return 0;
	return err_set(-E2BIG,
		       "%s: %" PRIu64 " bytes from offset %" PRIu64 " cross a window of %s, "
		       "which is %" PRIu64 " bytes: pass HM_RANGE(p, length, access) with a "
		       "range inside one",
		       range_label(fence, index), range->length, range->offset, accel->name,
		       accel->window);
}

static int refuse_copy(struct hm_fence *fence, uint32_t index)
{
	const char *why = hm_warning(); /* the accelerator's own, see accel.h */

	return err_set(-EINVAL,
		       "%s would be copied, and this accelerator was opened with "
		       "HM_ZERO_COPY_ONLY%s%s",
		       range_label(fence, index), *why ? ": " : "", why);
}

bool launch_ranges_overlap(const struct hm_accel_work *work, uint32_t i, uint32_t k,
			   uint64_t length)
{
	const struct hm_fence *fence = caa_container_of(work, struct hm_fence, work);
	const struct hm_map *a, *b;

	if (unlikely(fence->loose & (1u << i | 1u << k)))
		return any_overlap(&work->range[i], &work->range[k], length);
	a = map_of(fence, i);
	b = map_of(fence, k);
	return a && b &&
	       maps_overlap(a, work->range[i].offset, length, b, work->range[k].offset, length);
}

/* The part of a message that explains an overlap of two different addresses. */
static const char *through(const struct hm_accel_range *a, const struct hm_accel_range *b)
{
	return ranges_overlap((uintptr_t)a->pointer, a->length, (uintptr_t)b->pointer,
			      b->length) ?
		       "" :
		       " (two maps of the same bytes)";
}

/* Refuses a copy between overlapping bytes, also if two maps show them at two addresses. */
static int check_copy(struct hm_fence *fence, const struct pins *pins)
{
	const struct hm_accel_range *to = &fence->work.range[0], *from = &fence->work.range[1];

	if (likely(!maps_overlap(pins->map[0], to->offset, to->length, pins->map[1],
				 from->offset, from->length)))
		return 0;
	return err_set(-EINVAL, "hm_queue_copy: %" PRIu64 " bytes at %p and at %p overlap%s",
		       to->length, to->pointer, from->pointer, through(to, from));
}

/* Do two ranges have bytes in common, through any maps, or other mappings? */
static bool ranges_share(const struct hm_fence *fence, uint32_t i, uint32_t k,
			 const struct pins *pins)
{
	const struct hm_accel_range *a = &fence->work.range[i], *b = &fence->work.range[k];

	if (unlikely(fence->loose & (1u << i | 1u << k)))
		return any_overlap(a, b, UINT64_MAX);
	return maps_overlap(pins->map[i], a->offset, a->length, pins->map[k], b->offset,
			    b->length);
}

/*
 * Refuses a copy there and back of bytes that another argument reaches as well, through any map:
 * it would lose the writes of one of them.
 */
static int check_overlap(struct hm_fence *fence, uint32_t n, const struct pins *pins)
{
	const struct hm_accel_work *work = &fence->work;
	const struct hm_accel_range *a, *b;
	uint32_t i, k;

	for (i = 0; i < n; i++) {
		a = &work->range[i];
		if (!is_range(work, i))
			continue;
		for (k = 0; k < i; k++) {
			b = &work->range[k];
			if (!is_range(work, k) ||
			    (a->way != HM_WAY_COPY && b->way != HM_WAY_COPY) ||
			    !((a->access | b->access) & HM_WRITE) ||
			    !ranges_share(fence, i, k, pins))
				continue;
			return err_set(
				-EINVAL,
				"%s and argument %" PRIu32 " overlap%s, one is written and "
				"one goes by copy: pass HM_RANGE(p, length, access) with "
				"the bytes that each of them needs",
				range_label(fence, i), k, through(a, b));
		}
	}
	return 0;
}

/*
 * Pins are taken in the order of the views' addresses, and none twice: a thread with one pin may
 * wait for another, behind a change that waits for pins of that view in turn.
 */
static void put_in_order(struct pins *pins, uint32_t index)
{
	uint32_t at = pins->n_order++;

	for (; at && pins->view[pins->order[at - 1]] > pins->view[index]; at--)
		pins->order[at] = pins->order[at - 1];
	pins->order[at] = index;
}

/* Is the view of order[@at] the one before it, too? */
static bool shares_pin(const struct pins *pins, uint32_t at)
{
	return at && pins->view[pins->order[at]] == pins->view[pins->order[at - 1]];
}

static void unpin(struct hm_accel *accel, struct hm_accel_work *work, struct pins *pins)
{
	uint32_t i;

	for (i = 0; i < pins->n_acquired; i++)
		if (pins->view[i] && !(pins->left & 1u << i))
			accel->ops->view_release(work->range[i].view, &work->range[i]);
	for (i = 0; i < pins->n_pinned; i++)
		if (!shares_pin(pins, i))
			accel_view_unpin(pins->view[pins->order[i]]);
}

/*
 * Attaches all views before the first pin: attaching takes view_mutex, which a thread that waits
 * for pins may hold.
 */
static int pin(struct hm_accel *accel, struct hm_fence *fence, uint32_t n, struct pins *pins)
{
	struct hm_accel_work *work = &fence->work;
	uint32_t i, at;
	int r;

	for (i = 0; i < n; i++) {
		pins->view[i] = NULL;
		pins->map[i] = NULL;
		if (!is_range(work, i) || fence->loose & 1u << i)
			continue;
		r = check_range(fence, i, &pins->map[i]);
		if (!r && work->kind == HM_WORK_LAUNCH)
			r = check_window(accel, fence, i);
		if (!r && accel->ops->view_create)
			r = accel_view_get(accel, pins->map[i], &pins->view[i]);
		if (r)
			return r;
		if (likely(pins->view[i]))
			put_in_order(pins, i);
	}
	for (i = 0; i < pins->n_order; i++) {
		at = pins->order[i];
		if (shares_pin(pins, i))
			work->range[at].view = work->range[pins->order[i - 1]].view;
		else
			r = accel_view_pin(pins->view[at], &work->range[at].view);
		if (r)
			return r;
		pins->n_pinned = i + 1;
	}
	return 0;
}

/*
 * Refuses an argument passed for reading that the kernel might store to: on pages without write
 * access a store ends the process. A copy takes the store, and is not copied back.
 */
static int check_store(struct hm_fence *fence, uint32_t index, struct hm_map *map)
{
	const struct hm_accel_range *range = &fence->work.range[index];

	if (likely(!(fence->writes & 1u << index)) || (range->access & HM_WRITE) ||
	    range->way == HM_WAY_COPY || !map ||
	    map_allows(map, range->offset, range->length, HM_WRITE))
		return 0;
	return err_set(-EACCES,
		       "%s: passed to be read, but the kernel may write there (its parameter "
		       "is not const), and some of %" PRIu64 " bytes from offset "
		       "%" PRIu64 " of the map may not be written: make the parameter const, "
		       "or see hm_map_protect()%s",
		       range_label(fence, index), range->length, range->offset,
		       protect_cause(map, range->offset, range->length, HM_WRITE));
}

/* An HM_ANY is never copied: where its view would, or has none, the accelerator has a way. */
static int acquire_any(struct hm_accel *accel, struct hm_fence *fence, uint32_t index,
		       struct pins *pins)
{
	struct hm_accel_range *range = &fence->work.range[index];

	if (pins->view[index]) {
		if (range->way != HM_WAY_COPY)
			return 0;
		accel->ops->view_release(range->view, range);
		/* Stays pinned: the map's change waits for the work anyway. */
		pins->left |= 1u << index;
	} else if (!(fence->loose & 1u << index)) {
		/* An accelerator without views uses every map in place. */
		return 0;
	}
	return any_acquire(accel, fence, index);
}

static int acquire(struct hm_accel *accel, struct hm_fence *fence, uint32_t n,
		   struct pins *pins)
{
	struct hm_accel_work *work = &fence->work;
	struct hm_accel_range *range;
	bool copies = false;
	uint32_t i;
	int r;

	for (i = 0; i < n; i++) {
		range = &work->range[i];
		if (is_range(work, i)) {
			range->way = HM_WAY_DIRECT;
			if (pins->view[i]) {
				r = accel->ops->view_acquire(range->view, range);
				if (r)
					return err_prefix(r, "%s", range_label(fence, i));
			}
			if (unlikely(fence->any & 1u << i)) {
				r = acquire_any(accel, fence, i, pins);
				if (r)
					return r;
			}
			r = check_store(fence, i, pins->map[i]);
			if (unlikely(r)) {
				pins->n_acquired = i + 1;
				return r;
			}
			if (range->way > work->way)
				work->way = range->way;
			copies = copies || range->way == HM_WAY_COPY;
		}
		pins->n_acquired = i + 1;
		if (unlikely(copies && (accel->flags & HM_ZERO_COPY_ONLY)))
			return refuse_copy(fence, i);
	}
	return unlikely(copies) ? check_overlap(fence, n, pins) : 0;
}

/* ---- the CPU's turns ---- */

/*
 * Called when nothing refuses the launch any more: a refused launch leaves the turns as they
 * were.
 */
static __attribute__((noinline)) int end_turns(struct hm_fence *fence, uint32_t n,
					       struct pins *pins)
{
	uint32_t i;
	int r;

	for (i = 0; i < n; i++) {
		pins->turn[i] = HM_NONE;
		if (!(fence->brackets & 1u << i))
			continue;
		/* A turn whose end fails has ended, too. */
		pins->n_turn = i + 1;
		r = bracket_turn_end(pins->map[i], &pins->turn[i]);
		if (r)
			return r;
	}
	return 0;
}

/*
 * Keeps the text of the failure. Called without pins: finding a lost device waits for all pins.
 */
static __attribute__((noinline, cold)) void begin_turns_again(struct hm_fence *fence,
							      const struct pins *pins)
{
	struct hm_map *map;
	uint32_t i;

	err_hold();
	for (i = 0; i < pins->n_turn; i++) {
		if (!(fence->brackets & 1u << i) || !pins->turn[i])
			continue;
		map = pins->map[i];
		device_loss_notice(map->buffer->device,
				   bracket_turn_begin(map, 0, hm_map_length(map),
						      pins->turn[i]));
	}
	err_release();
}

/* Reports lost devices of the ranges. Called without pins, like the above. */
static __attribute__((noinline, cold)) int tell_lost(struct hm_fence *fence, int r)
{
	uint32_t i;

	for (i = 0; i < fence->n_use; i++)
		device_loss_notice(fence->use[i].map->buffer->device, r);
	return r;
}

/* ---- counting ---- */

/* Counts once for each buffer, however many ranges it has. */
static void count_launch(const struct hm_fence *fence)
{
	struct hm_buffer *buffer;
	uint32_t i, k;

	for (i = 0; i < fence->n_use; i++) {
		buffer = fence->use[i].map->buffer;
		for (k = 0; k < i && fence->use[k].map->buffer != buffer; k++)
			;
		if (k == i)
			count_add(&buffer->counts, COUNT_LAUNCHES, 1);
	}
}

static void add_copied(struct hm_fence *fence, uint32_t index, uint64_t bytes)
{
	const struct hm_map *map = map_of(fence, index);

	if (map)
		count_add(&map->buffer->counts, COUNT_BYTES_COPIED, bytes);
}

void launch_count_copied(struct hm_fence *fence, bool back)
{
	const struct hm_accel_work *work = &fence->work;
	uint64_t bytes = back ? work->bytes_out : work->bytes_in;
	const struct hm_accel_range *range;
	uint32_t i;

	stats_add(&stats.bytes_copied, bytes);
	if (work->kind != HM_WORK_LAUNCH) {
		/* The source, and the target. */
		add_copied(fence, back ? 0 : 1, bytes);
		return;
	}
	for (i = 0; i < work->n_arg; i++) {
		range = &work->range[i];
		if (is_range(work, i) && range->way == HM_WAY_COPY &&
		    (!back || range->access & HM_WRITE))
			add_copied(fence, i, range->length);
	}
}

/*
 * Calls no bracket, and neither does the fence's wait: the accelerator's handling of caches and
 * copies is part of its work.
 */
static PROBE_SITE int submit(struct hm_queue *queue, struct hm_fence *fence, uint32_t n)
{
	struct hm_accel *accel = queue->accel;
	struct hm_accel_work *work = &fence->work;
	uint64_t start = trace_start();
	struct pins pins;
	int r;

	pins.n_order = 0;
	pins.n_pinned = 0;
	pins.n_acquired = 0;
	pins.left = 0;
	pins.n_turn = 0;
	r = resolve_begin(fence);
	if (r)
		return r;
	r = pin(accel, fence, n, &pins);
	if (!r && work->kind == HM_WORK_LAUNCH)
		r = acquire(accel, fence, n, &pins);
	else if (!r && work->kind == HM_WORK_COPY)
		r = check_copy(fence, &pins);
	if (!r && unlikely(fence->brackets))
		r = end_turns(fence, n, &pins);
	if (!r)
		r = accel->ops->submit(queue->data, work);
	unpin(accel, work, &pins);
	if (unlikely(r && pins.n_turn))
		begin_turns_again(fence, &pins);
	if (unlikely(r == -ENODEV))
		return tell_lost(fence, r);
	if (r)
		return r;
	if (unlikely(atomic_load_explicit(&learn_on, memory_order_relaxed)))
		learn_from(fence, n);
	stats_add(&stats.launches, 1);
	count_launch(fence);
	if (unlikely(work->bytes_in))
		launch_count_copied(fence, false);
	probe_launch(fence, accel->name, fence_work_name(fence), fence->n_use, work->bytes_in,
		     work, start);
	return 0;
}

int launch_submit(struct hm_queue *queue, struct hm_fence *fence)
{
	struct hm_accel_work *work = &fence->work;
	struct hm_accel_range *range;
	const struct hm_arg *arg;
	uint32_t i;
	int r;

	for (i = 0; i < work->n_arg; i++) {
		arg = &work->arg[i];
		if (arg->kind == HM_ARG_ANY) {
			/* From here on an accelerator sees a pointer. */
			work->arg[i].kind = HM_ARG_POINTER;
			fence->any |= 1u << i;
		} else if (arg->kind != HM_ARG_POINTER) {
			continue;
		}
		range = &work->range[i];
		range->pointer = (char *)(uintptr_t)arg->pointer;
		range->access = arg->access;
		range->memory = NULL;
		if (unlikely(fence->any & 1u << i))
			r = any_resolve(queue->accel, fence, i, arg->length);
		else
			r = resolve_range(fence, i, arg->length);
		if (r)
			goto err_unref;
	}
	return submit(queue, fence, work->n_arg);

err_unref:
	for (i = 0; i < fence->n_use; i++)
		hm_map_unref(fence->use[i].map);
	fence->n_use = 0;
	return r;
}

int transfer_submit(struct hm_queue *queue, uint32_t n_range, struct hm_fence *fence)
{
	struct hm_accel_work *work = &fence->work;
	uint32_t i;
	int r;

	for (i = 0; i < n_range; i++) {
		r = resolve_range(fence, i, work->range[i].length);
		if (r)
			goto err_unref;
	}
	return submit(queue, fence, n_range);

err_unref:
	for (i = 0; i < fence->n_use; i++)
		hm_map_unref(fence->use[i].map);
	fence->n_use = 0;
	return r;
}

/* ---- hm_accel_way_in() ---- */

/* The caller holds map->change: no change can miss the view that is attached here. */
static int way_of(struct hm_accel *accel, struct hm_map *map, struct hm_accel_range *range)
{
	struct accel_view *view;
	int r;

	if (range->offset / accel->window !=
	    (range->offset + range->length - 1) / accel->window)
		return err_set(-E2BIG,
			       "%" PRIu64 " bytes from offset %" PRIu64
			       " cross a window of %s, "
			       "which is %" PRIu64 " bytes",
			       range->length, range->offset, accel->name, accel->window);
	range->way = HM_WAY_DIRECT;
	if (!accel->ops->view_create)
		return 0;
	r = accel_view_get(accel, map, &view);
	if (!r)
		r = accel_view_pin(view, &range->view);
	if (r)
		return r;
	r = accel->ops->view_acquire(range->view, range);
	if (!r)
		accel->ops->view_release(range->view, range);
	accel_view_unpin(view);
	return r;
}

int hm_accel_way_in(struct hm_accel *accel, const void *pointer, uint64_t length,
		    uint32_t *ret_way)
{
	struct hm_accel_range range = { .pointer = (char *)(uintptr_t)pointer };
	struct hm_pointer_info info;
	struct hm_map *map;
	int r;

	err_begin();
	r = object_check((struct hm_object *)accel, OBJECT_ACCEL);
	if (r)
		return r;
	if (!ret_way)
		return err_set(-EINVAL, "hm_accel_way_in: ret_way is NULL");
	map = registry_acquire(pointer, &info);
	if (!map) {
		r = registry_check_left(pointer);
		return r ? err_prefix(r, "hm_accel_way_in") :
			   err_set(-ENOENT, "hm_accel_way_in: %p is in no map", pointer);
	}
	if (!length && pool_narrow_wait(pointer, &info)) {
		r = err_set(-ENOENT, "hm_accel_way_in: %p is in no allocation of its pool",
			    pointer);
		goto out;
	}
	range.offset = info.map_offset;
	range.length =
		length ? length :
			 info.length - (uint64_t)((const char *)pointer - (char *)info.base);
	range.access = HM_READ;
	r = object_check(&map->object, OBJECT_MAP);
	if (!r)
		r = remap_lock(map);
	if (r)
		goto out;
	r = map_check_range(map, range.offset, range.length, "hm_accel_way_in");
	if (!r)
		r = way_of(accel, map, &range);
	remap_unlock(map);
	if (!r)
		*ret_way = range.way;
out:
	hm_map_unref(map);
	return r;
}
