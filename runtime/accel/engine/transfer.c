// SPDX-License-Identifier: MIT
/*
 * Copies and fills, in commands of up to the device's longest segment. Bytes that the engine
 * can't take in place go through slots, piece by piece.
 */
#include "accel/engine/engine.h"

#include <errno.h>
#include <inttypes.h>

/* Length of a piece that goes through slots. */
#define STAGED_BYTES MIB(16)

/* One side of a transfer. */
struct side {
	const struct hm_accel_range *range;
	uint32_t slot;
	bool in_place;
};

static int look_at(struct engine_queue *queue, struct hm_accel_work *work, uint32_t index,
		   struct side *ret_side)
{
	struct hm_accel_range *range = &work->range[index];
	int r;

	r = engine_view_acquire(range->view, range);
	if (r)
		return r;
	engine_view_release(range->view, range);
	if (range->way == HM_WAY_COPY && (queue->engine->flags & HM_ZERO_COPY_ONLY))
		return err_prefix(-EINVAL,
				  "%s would be copied, and this accelerator was opened with "
				  "HM_ZERO_COPY_ONLY",
				  index ? "the source" : "the target");
	*ret_side = (struct side){ range, index, range->way != HM_WAY_COPY };
	return 0;
}

static uint64_t address_of(const struct engine_queue *queue, const struct side *side,
			   uint64_t at)
{
	if (!side->in_place)
		return queue->slot[side->slot].address;
	return (uint64_t)(uintptr_t)side->range->pointer + at;
}

static struct hetsim_command command_of(const struct engine_queue *queue,
					const struct hm_accel_work *work, const struct side *to,
					const struct side *from, uint64_t at, uint64_t length)
{
	struct hetsim_command command = {
		.op = from ? HETSIM_OP_COPY : HETSIM_OP_FILL,
		.destination = address_of(queue, to, at),
		.source = from ? address_of(queue, from, at) : 0,
		.length = length,
		.value = from ? 0 : work->arg[0].u32,
	};

	return command;
}

/* @total is a multiple of the engine's unit. */
static int in_place(struct engine_queue *queue, struct hm_accel_work *work,
		    const struct side *to, const struct side *from, uint64_t total)
{
	uint64_t at, length, most = queue->engine->port->query.max_segment;
	struct hetsim_command command;
	int r;

	for (at = 0; at < total; at += length) {
		length = min_u64(total - at, most);
		command = command_of(queue, work, to, from, at, length);
		r = engine_add(queue, &command);
		if (r)
			return r;
	}
	return engine_flush(queue);
}

static int open_side(struct engine_queue *queue, struct hm_accel_work *work,
		     const struct side *side, uint64_t at, uint64_t length)
{
	int r;

	if (side->in_place)
		return 0;
	r = engine_slot_get(queue, side->slot, length);
	if (r || !(side->range->access & HM_READ))
		return r;
	r = engine_catch_up(queue);
	if (r)
		return r;
	work->bytes_in += length;
	return engine_write(queue->engine->port, &queue->slot[side->slot],
			    side->range->pointer + at, length);
}

/* Copies bytes into slots, runs the command, waits, and copies bytes back. */
static int staged_piece(struct engine_queue *queue, struct hm_accel_work *work,
			const struct side *to, const struct side *from, uint64_t at,
			uint64_t length)
{
	uint64_t align = queue->engine->port->query.dma_align;
	struct engine_end end = { .status = 0 };
	struct hetsim_command command;
	int r;

	r = open_side(queue, work, to, at, length);
	if (!r && from)
		r = open_side(queue, work, from, at, length);
	if (r)
		return r;
	/* Rounding up stays within the page, so these bytes can be read. */
	command = command_of(queue, work, to, from, at, round_up(length, align));
	r = engine_add(queue, &command);
	if (!r)
		r = engine_flush(queue);
	if (!r)
		r = engine_wait_number(queue->engine->port, queue->number, queue->last,
				       ENGINE_FOREVER, &end);
	if (r)
		return r;
	if (!end.status && !to->in_place)
		end.status = engine_read(queue->engine->port, &queue->slot[to->slot],
					 to->range->pointer + at, length);
	if (end.status) {
		engine_fail(queue, work, &end);
		return 0;
	}
	if (!to->in_place)
		work->bytes_out += length;
	return 0;
}

/*
 * Transfers the rest of the range, from @at on. Where both sides are in place, the rest is
 * shorter than the engine's unit, and goes through a slot, so that no byte behind it is written.
 */
static int staged(struct engine_queue *queue, struct hm_accel_work *work, struct side *to,
		  const struct side *from, uint64_t at)
{
	uint64_t align = queue->engine->port->query.dma_align, length;
	uint64_t most = min_u64(STAGED_BYTES, queue->engine->port->query.max_segment);
	uint64_t total = to->range->length;
	int r = 0;

	work->way = HM_WAY_COPY;
	for (; !r && !work->status && at < total; at += length) {
		length = min_u64(total - at, most);
		if (to->in_place && !is_aligned(length, align)) {
			if (length > align)
				length = round_down(length, align);
			else
				to->in_place = false;
		}
		r = staged_piece(queue, work, to, from, at, length);
	}
	return r;
}

int engine_transfer(struct engine_queue *queue, struct hm_accel_work *work)
{
	uint64_t align = queue->engine->port->query.dma_align, whole;
	struct side to, source, *from = NULL;
	int r;

	work->way = HM_WAY_DIRECT;
	r = look_at(queue, work, 0, &to);
	if (!r && work->kind == HM_WORK_COPY) {
		r = look_at(queue, work, 1, &source);
		from = &source;
	}
	if (r)
		return r;
	if (queue->engine->flags & HM_ZERO_COPY_ONLY && !is_aligned(to.range->length, align))
		return err_set(-EINVAL,
			       "%" PRIu64 " bytes are no multiple of %" PRIu64 ", the unit "
			       "of %s: the last bytes would be copied, and this accelerator "
			       "was opened with HM_ZERO_COPY_ONLY",
			       to.range->length, align, queue->engine->name);
	whole = to.in_place && (!from || from->in_place) ? round_down(to.range->length, align) :
							   0;
	if (whole)
		r = in_place(queue, work, &to, from, whole);
	if (!r && whole < to.range->length)
		r = staged(queue, work, &to, from, whole);
	return r;
}
