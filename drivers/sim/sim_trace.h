/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Tracepoints: hetsim:fault, access, move, submit, complete, fence, lost. Laid out as the
 * kernel's own headers of this kind, which checkpatch --strict takes for calls.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hetsim

#if !defined(SIM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SIM_TRACE_H

#include <linux/tracepoint.h>

#include "sim_queue.h"

TRACE_EVENT(fault,

	TP_PROTO(struct sim_buffer *buffer, u64 page, unsigned int n_pages),
	TP_ARGS(buffer, page, n_pages),
	TP_STRUCT__entry(
		__field(unsigned int, device)
		__field(u64, opener)
		__field(u32, buffer)
		__field(u64, page)
		__field(unsigned int, n_pages)
	),
	TP_fast_assign(
		__entry->device = buffer->dev->index;
		__entry->opener = buffer->account->id;
		__entry->buffer = buffer->slot;
		__entry->page = page;
		__entry->n_pages = n_pages;
	),
	TP_printk("device=%u opener=%llu buffer=%u page=%llu mapped=%u", __entry->device,
		  __entry->opener, __entry->buffer, __entry->page, __entry->n_pages)
);

TRACE_EVENT(access,

	TP_PROTO(struct sim_buffer *buffer, u64 page),
	TP_ARGS(buffer, page),
	TP_STRUCT__entry(
		__field(unsigned int, device)
		__field(u64, opener)
		__field(u32, buffer)
		__field(u64, page)
	),
	TP_fast_assign(
		__entry->device = buffer->dev->index;
		__entry->opener = buffer->account->id;
		__entry->buffer = buffer->slot;
		__entry->page = page;
	),
	TP_printk("device=%u opener=%llu buffer=%u page=%llu", __entry->device,
		  __entry->opener, __entry->buffer, __entry->page)
);

TRACE_EVENT(move,

	TP_PROTO(struct sim_buffer *buffer, u64 page, unsigned int n_pages, u32 place,
		 bool evicted),
	TP_ARGS(buffer, page, n_pages, place, evicted),
	TP_STRUCT__entry(
		__field(unsigned int, device)
		__field(u64, opener)
		__field(u32, buffer)
		__field(u64, page)
		__field(unsigned int, n_pages)
		__field(u32, place)
		__field(u32, evicted)
	),
	TP_fast_assign(
		__entry->device = buffer->dev->index;
		__entry->opener = buffer->account->id;
		__entry->buffer = buffer->slot;
		__entry->page = page;
		__entry->n_pages = n_pages;
		__entry->place = place;
		__entry->evicted = evicted;
	),
	TP_printk("device=%u opener=%llu buffer=%u page=%llu moved=%u to=%s%s", __entry->device,
		  __entry->opener, __entry->buffer, __entry->page, __entry->n_pages,
		  __print_symbolic(__entry->place, { HETSIM_PLACE_VRAM, "vram" },
				   { HETSIM_PLACE_SYSTEM, "system" },
				   { HETSIM_PLACE_WINDOW, "window" }),
		  __entry->evicted ? " to make room" : "")
);

DECLARE_EVENT_CLASS(sim_submission,

	TP_PROTO(struct sim_queue *queue, u64 seqno, int status),
	TP_ARGS(queue, seqno, status),
	TP_STRUCT__entry(
		__field(unsigned int, device)
		__field(u64, opener)
		__field(u32, queue)
		__field(u64, seqno)
		__field(int, status)
	),
	TP_fast_assign(
		__entry->device = queue->opener->dev->index;
		__entry->opener = queue->opener->account->id;
		__entry->queue = queue->id;
		__entry->seqno = seqno;
		__entry->status = status;
	),
	TP_printk("device=%u opener=%llu queue=%u seqno=%llu status=%d", __entry->device,
		  __entry->opener, __entry->queue, __entry->seqno, __entry->status)
);

DEFINE_EVENT(sim_submission, submit,

	TP_PROTO(struct sim_queue *queue, u64 seqno, int status),
	TP_ARGS(queue, seqno, status)
);

DEFINE_EVENT(sim_submission, complete,

	TP_PROTO(struct sim_queue *queue, u64 seqno, int status),
	TP_ARGS(queue, seqno, status)
);

DEFINE_EVENT(sim_submission, fence,

	TP_PROTO(struct sim_queue *queue, u64 seqno, int status),
	TP_ARGS(queue, seqno, status)
);

TRACE_EVENT(lost,

	TP_PROTO(struct sim_device *dev),
	TP_ARGS(dev),
	TP_STRUCT__entry(
		__field(unsigned int, device)
	),
	TP_fast_assign(
		__entry->device = dev->index;
	),
	TP_printk("device=%u", __entry->device)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE sim_trace
#include <trace/define_trace.h>
