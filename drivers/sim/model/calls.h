/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The calls of uapi/hetsim.h, once. A file that needs something for each of them defines
 *
 *	HETSIM_CALL(NAME, name, last)
 *	HETSIM_CALL_OUT(NAME, name, last, first, end)	a call that answers
 *
 * and includes this list, which undefines both. The call is HETSIM_NAME, its number
 * HETSIM_NR_NAME, and its argument struct hetsim_name. @last is the last member of the structure's
 * first version: it stays when the structure grows. The answer is the members from @first to @end.
 * Reserved members between them are zero. Without HETSIM_CALL_OUT, HETSIM_CALL takes all calls.
 */
#ifndef HETSIM_CALL_OUT
#define HETSIM_CALL_OUT(NAME, name, last, first, end) HETSIM_CALL(NAME, name, last)
#endif

HETSIM_CALL_OUT(HANDSHAKE, handshake, accepted, driver_major, accepted)
HETSIM_CALL_OUT(QUERY, query, window_used, index, opener_system_used)
HETSIM_CALL_OUT(COUNTERS, counters, brackets_missed, faults, learn_halved)
HETSIM_CALL_OUT(BUFFER_CREATE, buffer_create, capacity, handle, offset)
HETSIM_CALL(BUFFER_CLOSE, buffer_close, handle)
HETSIM_CALL(BUFFER_RESIZE, buffer_resize, length)
HETSIM_CALL_OUT(BUFFER_INFO, buffer_info, window_bytes, place, evictions)
HETSIM_CALL_OUT(BUFFER_MOVE, buffer_move, length, seqno, seqno)
HETSIM_CALL(BUFFER_SAMPLE, buffer_sample, counts)
HETSIM_CALL(BUFFER_WHEN_LOST, buffer_when_lost, __reserved)
HETSIM_CALL_OUT(EXPORT, export, __reserved, fd, fd)
HETSIM_CALL_OUT(IMPORT, import, offset, handle, offset)
HETSIM_CALL_OUT(BIND, bind, length, seqno, seqno)
HETSIM_CALL_OUT(UNBIND, unbind, length, seqno, seqno)
HETSIM_CALL_OUT(QUEUE_CREATE, queue_create, __reserved, queue, queue)
HETSIM_CALL(QUEUE_DESTROY, queue_destroy, queue)
HETSIM_CALL_OUT(SUBMIT, submit, seqno, seqno, failures)
HETSIM_CALL_OUT(WAIT, wait, fault_address, status, fault_write)
HETSIM_CALL_OUT(FENCE_FD, fence_fd, flags, fd, fd)
HETSIM_CALL(QUEUE_EVENT, queue_event, flags)
HETSIM_CALL_OUT(TIMELINE_CREATE, timeline_create, __reserved, fd, fd)
HETSIM_CALL_OUT(TIMELINE_WAIT, timeline_wait, value, value, value)
HETSIM_CALL(TIMELINE_SIGNAL, timeline_signal, point)
HETSIM_CALL(INJECT, inject, value)
HETSIM_CALL_OUT(MIRROR, mirror, max_chunks, migration, migration_bytes)
HETSIM_CALL(ADVISE, advise, value)
HETSIM_CALL_OUT(PREFETCH, prefetch, seqno, seqno, seqno)
HETSIM_CALL(RANGE_QUERY, range_query, pages)
HETSIM_CALL_OUT(MIRROR_EVENTS, mirror_events, __reserved, fd, fd)
HETSIM_CALL(LEARN, learn, most)

#undef HETSIM_CALL
#undef HETSIM_CALL_OUT
