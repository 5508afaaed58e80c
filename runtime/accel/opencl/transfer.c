// SPDX-License-Identifier: MIT
/*
 * Copies and fills, in pieces that cross no window. Bytes that are not in place go through a
 * device buffer of the queue.
 */
#include <inttypes.h>

#include "accel/opencl/opencl.h"

/* Length of a piece that goes through a device buffer. */
#define STAGING_BYTES MIB(64)

/* One side of a piece. */
struct side {
	struct hm_accel_range *range;
	uint32_t slot;   /* of queue->staging */
	cl_mem memory;   /* with a reference, unless staged */
	uint64_t offset; /* in memory */
	bool staged;
	bool by_hand; /* staged, and by the calling thread */
	bool flush;
};

static uint64_t window_rest(const struct opencl *cl, const struct hm_accel_range *range,
			    uint64_t at)
{
	return cl->window - (range->offset + at) % cl->window;
}

static int get_side(struct opencl_queue *queue, struct side *side, uint64_t at)
{
	struct hm_accel_range *range = side->range;
	int r;

	r = opencl_view_window(range->view, range->offset + at, range->access, &side->memory);
	if (r)
		return r;
	side->offset = (range->offset + at) % queue->cl->window;
	side->staged = !side->memory;
	side->by_hand = opencl_view_by_hand(range->view);
	side->flush = !side->staged && opencl_view_flushes(range->view);
	return 0;
}

static void put_side(struct side *side)
{
	if (!side->staged && side->memory)
		clReleaseMemObject(side->memory);
	side->memory = NULL;
}

/* Copies the bytes of a source in, or makes the place for a target's. */
static int open_side(struct opencl_queue *queue, struct hm_accel_work *work, struct side *side,
		     uint64_t at, uint64_t length)
{
	cl_int error;
	int r;

	if (side->staged) {
		side->offset = 0;
		r = opencl_staging(queue, side->slot, length, &side->memory);
		if (r || !(side->range->access & HM_READ))
			return r;
		work->bytes_in += length;
		if (unlikely(side->by_hand))
			return opencl_bring_by_hand(queue->queue, side->memory, 0,
						    side->range->pointer + at, length);
		error = clEnqueueWriteBuffer(queue->queue, side->memory, CL_FALSE, 0, length,
					     side->range->pointer + at, 0, NULL, NULL);
		return error ? cl_error(error, "clEnqueueWriteBuffer") : 0;
	}
	if (!side->flush)
		return 0;
	return opencl_flush_in(queue->queue, side->memory, side->offset, length);
}

static int close_side(struct opencl_queue *queue, struct hm_accel_work *work, struct side *side,
		      uint64_t at, uint64_t length, cl_event *ret_event)
{
	cl_int error;

	if (!side->staged)
		return opencl_flush_out(queue->queue, side->memory, side->offset, length,
					ret_event);
	work->bytes_out += length;
	if (unlikely(side->by_hand))
		return opencl_take_by_hand(queue->queue, side->memory, 0,
					   side->range->pointer + at, length);
	error = clEnqueueReadBuffer(queue->queue, side->memory, CL_FALSE, 0, length,
				    side->range->pointer + at, 0, NULL, ret_event);
	return error ? cl_error(error, "clEnqueueReadBuffer") : 0;
}

static int command(struct opencl_queue *queue, struct hm_accel_work *work, struct side *to,
		   struct side *from, uint64_t length, cl_event *ret_event)
{
	cl_int error;

	if (work->kind == HM_WORK_FILL) {
		error = clEnqueueFillBuffer(queue->queue, to->memory, &work->arg[0].u32,
					    sizeof(work->arg[0].u32), to->offset, length, 0,
					    NULL, ret_event);
		return error ? cl_error(error, "clEnqueueFillBuffer") : 0;
	}
	error = clEnqueueCopyBuffer(queue->queue, from->memory, to->memory, from->offset,
				    to->offset, length, 0, NULL, ret_event);
	return error ? cl_error(error, "clEnqueueCopyBuffer") : 0;
}

/* The events of the last piece are the work's. */
static int do_piece(struct opencl_queue *queue, struct hm_accel_work *work, struct side *to,
		    struct side *from, uint64_t at, uint64_t length, bool last)
{
	bool back = to->staged || to->flush;
	cl_event event = NULL, end = NULL;
	int r;

	r = open_side(queue, work, to, at, length);
	if (!r && from)
		r = open_side(queue, work, from, at, length);
	if (!r)
		r = command(queue, work, to, from, length, last ? &event : NULL);
	if (!r && back)
		r = close_side(queue, work, to, at, length, last ? &end : NULL);
	if (r) {
		if (event)
			clReleaseEvent(event);
		return r;
	}
	work->data[0] = end ? end : event;
	work->data[1] = end ? event : NULL;
	return 0;
}

static int svm_command(struct opencl_queue *queue, struct hm_accel_work *work)
{
	struct hm_accel_range *to = &work->range[0];
	cl_event event;
	cl_int error;

	if (work->kind == HM_WORK_FILL)
		error = clEnqueueSVMMemFill(queue->queue, to->pointer, &work->arg[0].u32,
					    sizeof(work->arg[0].u32), to->length, 0, NULL,
					    &event);
	else
		error = clEnqueueSVMMemcpy(queue->queue, CL_FALSE, to->pointer,
					   work->range[1].pointer, to->length, 0, NULL, &event);
	if (error)
		return cl_error(error, "clEnqueueSVMMemcpy or Fill");
	work->data[0] = event;
	work->way = HM_WAY_SVM;
	return 0;
}

static int pieces(struct opencl_queue *queue, struct hm_accel_work *work)
{
	struct side to = { .range = &work->range[0], .slot = 0 };
	struct side from = { .range = &work->range[1], .slot = 1 };
	bool two = work->kind == HM_WORK_COPY;
	uint64_t at, length, total = to.range->length;
	int r;

	for (at = 0; at < total; at += length) {
		length = min_u64(total - at, window_rest(queue->cl, to.range, at));
		if (two)
			length = min_u64(length, window_rest(queue->cl, from.range, at));
		r = get_side(queue, &to, at);
		if (!r && two)
			r = get_side(queue, &from, at);
		if (!r && (to.staged || (two && from.staged))) {
			length = min_u64(length, STAGING_BYTES);
			work->way = HM_WAY_COPY;
			if (queue->cl->flags & HM_ZERO_COPY_ONLY)
				r = err_set(-EINVAL,
					    "the bytes would be copied through the "
					    "device, and this accelerator was opened with "
					    "HM_ZERO_COPY_ONLY");
		}
		if (!r)
			r = do_piece(queue, work, &to, two ? &from : NULL, at, length,
				     at + length == total);
		put_side(&to);
		put_side(&from);
		if (r)
			return r;
	}
	return 0;
}

int opencl_transfer(struct opencl_queue *queue, struct hm_accel_work *work)
{
	const struct opencl *cl = queue->cl;
	bool by_hand;
	int r;

	by_hand = opencl_view_by_hand(work->range[0].view) ||
		  (work->kind == HM_WORK_COPY && opencl_view_by_hand(work->range[1].view));
	if ((cl->device->svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) &&
	    !(cl->flags & HM_ACCEL_FORCE_COPY) && !by_hand)
		return svm_command(queue, work);
	work->way = opencl_view_way(work->range[0].view);
	pthread_mutex_lock(&queue->lock);
	r = pieces(queue, work);
	if (r) {
		clFinish(queue->queue);
		work->bytes_in = 0;
		work->bytes_out = 0;
	}
	pthread_mutex_unlock(&queue->lock);
	return r;
}
