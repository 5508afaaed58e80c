/* SPDX-License-Identifier: MIT */
/*
 * The layout of include/uapi/hetsim.h as it was first given out. Members may be added behind; those
 * here never change. Included by programs for 32 and for 64 bits.
 */
#ifndef HETMAP_TESTS_UAPI_LAYOUT_H
#define HETMAP_TESTS_UAPI_LAYOUT_H

#include <stddef.h>

#include <uapi/hetsim.h>

/* @bytes of a structure, the first version of which has @first. */
#define SIZE(type, bytes, first)                               \
	_Static_assert(sizeof(struct type) == (bytes), #type); \
	enum { type##_first = (first) }
#define AT(type, member, offset) \
	_Static_assert(offsetof(struct type, member) == (offset), #type "." #member)

SIZE(hetsim_handshake, 48, 48);
AT(hetsim_handshake, flags, 4);
AT(hetsim_handshake, version_major, 8);
AT(hetsim_handshake, version_minor, 12);
AT(hetsim_handshake, features, 16);
AT(hetsim_handshake, driver_major, 24);
AT(hetsim_handshake, driver_minor, 28);
AT(hetsim_handshake, driver_features, 32);
AT(hetsim_handshake, minimum_minor, 40);
AT(hetsim_handshake, accepted, 44);

SIZE(hetsim_query, 160, 144);
AT(hetsim_query, flags, 4);
AT(hetsim_query, index, 8);
AT(hetsim_query, kind, 12);
AT(hetsim_query, page_size, 16);
AT(hetsim_query, cache_modes, 20);
AT(hetsim_query, granule_min, 24);
AT(hetsim_query, granule_max, 32);
AT(hetsim_query, dma_align, 40);
AT(hetsim_query, max_segment, 48);
AT(hetsim_query, max_buffer, 56);
AT(hetsim_query, vram_bytes, 64);
AT(hetsim_query, vram_used, 72);
AT(hetsim_query, system_bytes, 80);
AT(hetsim_query, system_used, 88);
AT(hetsim_query, opener_bytes, 96);
AT(hetsim_query, opener_used, 104);
AT(hetsim_query, max_queues, 112);
AT(hetsim_query, max_commands, 116);
AT(hetsim_query, max_pending, 120);
AT(hetsim_query, timeout_ms, 124);
AT(hetsim_query, window_bytes, 128);
AT(hetsim_query, window_used, 136);
AT(hetsim_query, opener_system_bytes, 144);
AT(hetsim_query, opener_system_used, 152);

SIZE(hetsim_counters, 424, 224);
AT(hetsim_counters, scope, 4);
AT(hetsim_counters, faults, 8);
AT(hetsim_counters, fault_pages, 16);
AT(hetsim_counters, faults_by_order, 24);
AT(hetsim_counters, faults_refused, 104);
AT(hetsim_counters, bytes_read, 112);
AT(hetsim_counters, bytes_written, 120);
AT(hetsim_counters, submissions, 128);
AT(hetsim_counters, commands, 136);
AT(hetsim_counters, bytes_engine, 144);
AT(hetsim_counters, tlb_hits, 152);
AT(hetsim_counters, tlb_misses, 160);
AT(hetsim_counters, device_faults, 168);
AT(hetsim_counters, resets, 176);
AT(hetsim_counters, moves, 184);
AT(hetsim_counters, bytes_moved, 192);
AT(hetsim_counters, evictions, 200);
AT(hetsim_counters, brackets, 208);
AT(hetsim_counters, brackets_missed, 216);
AT(hetsim_counters, faults_huge, 224);
AT(hetsim_counters, engine_ns, 232);
AT(hetsim_counters, mirror_faults, 240);
AT(hetsim_counters, mirror_faults_refused, 248);
AT(hetsim_counters, mirror_pages, 256);
AT(hetsim_counters, mirror_invalidations, 264);
AT(hetsim_counters, mirror_pages_invalidated, 272);
AT(hetsim_counters, mirror_evictions, 280);
AT(hetsim_counters, tlb_shootdowns, 288);
AT(hetsim_counters, prefetches, 296);
AT(hetsim_counters, prefetch_used, 304);
AT(hetsim_counters, prefetch_wasted, 312);
AT(hetsim_counters, pages_migrated, 320);
AT(hetsim_counters, pages_returned, 328);
AT(hetsim_counters, pages_evicted, 336);
AT(hetsim_counters, access_notices, 344);
AT(hetsim_counters, cache_hits, 352);
AT(hetsim_counters, cache_misses, 360);
AT(hetsim_counters, learn_accesses, 368);
AT(hetsim_counters, learn_sequential, 376);
AT(hetsim_counters, learn_strided, 384);
AT(hetsim_counters, learn_random, 392);
AT(hetsim_counters, learn_planned, 400);
AT(hetsim_counters, learn_doubled, 408);
AT(hetsim_counters, learn_halved, 416);

SIZE(hetsim_buffer_create, 48, 48);
AT(hetsim_buffer_create, flags, 4);
AT(hetsim_buffer_create, length, 8);
AT(hetsim_buffer_create, place, 16);
AT(hetsim_buffer_create, cache, 20);
AT(hetsim_buffer_create, handle, 24);
AT(hetsim_buffer_create, __reserved, 28);
AT(hetsim_buffer_create, offset, 32);
AT(hetsim_buffer_create, capacity, 40);

SIZE(hetsim_buffer_close, 8, 8);
AT(hetsim_buffer_close, handle, 4);

SIZE(hetsim_buffer_resize, 24, 24);
AT(hetsim_buffer_resize, handle, 4);
AT(hetsim_buffer_resize, flags, 8);
AT(hetsim_buffer_resize, __reserved, 12);
AT(hetsim_buffer_resize, length, 16);

SIZE(hetsim_buffer_info, 72, 64);
AT(hetsim_buffer_info, handle, 4);
AT(hetsim_buffer_info, place, 8);
AT(hetsim_buffer_info, cache, 12);
AT(hetsim_buffer_info, length, 16);
AT(hetsim_buffer_info, offset, 24);
AT(hetsim_buffer_info, maps, 32);
AT(hetsim_buffer_info, vram_bytes, 40);
AT(hetsim_buffer_info, system_bytes, 48);
AT(hetsim_buffer_info, window_bytes, 56);
AT(hetsim_buffer_info, evictions, 64);

SIZE(hetsim_buffer_move, 72, 32);
AT(hetsim_buffer_move, handle, 4);
AT(hetsim_buffer_move, place, 8);
AT(hetsim_buffer_move, flags, 12);
AT(hetsim_buffer_move, offset, 16);
AT(hetsim_buffer_move, length, 24);
AT(hetsim_buffer_move, queue, 32);
AT(hetsim_buffer_move, n_waits, 36);
AT(hetsim_buffer_move, n_signals, 40);
AT(hetsim_buffer_move, __reserved, 44);
AT(hetsim_buffer_move, waits, 48);
AT(hetsim_buffer_move, signals, 56);
AT(hetsim_buffer_move, seqno, 64);

SIZE(hetsim_export, 24, 24);
AT(hetsim_export, handle, 4);
AT(hetsim_export, flags, 8);
AT(hetsim_export, fd, 12);
AT(hetsim_export, __reserved, 16);

SIZE(hetsim_import, 32, 32);
AT(hetsim_import, flags, 4);
AT(hetsim_import, fd, 8);
AT(hetsim_import, handle, 12);
AT(hetsim_import, length, 16);
AT(hetsim_import, offset, 24);

SIZE(hetsim_buffer_sample, 40, 40);
AT(hetsim_buffer_sample, handle, 4);
AT(hetsim_buffer_sample, action, 8);
AT(hetsim_buffer_sample, __reserved, 12);
AT(hetsim_buffer_sample, offset, 16);
AT(hetsim_buffer_sample, length, 24);
AT(hetsim_buffer_sample, counts, 32);

SIZE(hetsim_buffer_when_lost, 16, 16);
AT(hetsim_buffer_when_lost, handle, 4);
AT(hetsim_buffer_when_lost, when, 8);
AT(hetsim_buffer_when_lost, __reserved, 12);

SIZE(hetsim_bind, 80, 40);
AT(hetsim_bind, flags, 4);
AT(hetsim_bind, source, 8);
AT(hetsim_bind, handle, 12);
AT(hetsim_bind, address, 16);
AT(hetsim_bind, offset, 24);
AT(hetsim_bind, length, 32);
AT(hetsim_bind, queue, 40);
AT(hetsim_bind, n_waits, 44);
AT(hetsim_bind, n_signals, 48);
AT(hetsim_bind, __reserved, 52);
AT(hetsim_bind, waits, 56);
AT(hetsim_bind, signals, 64);
AT(hetsim_bind, seqno, 72);

SIZE(hetsim_unbind, 64, 24);
AT(hetsim_unbind, flags, 4);
AT(hetsim_unbind, address, 8);
AT(hetsim_unbind, length, 16);
AT(hetsim_unbind, queue, 24);
AT(hetsim_unbind, n_waits, 28);
AT(hetsim_unbind, n_signals, 32);
AT(hetsim_unbind, __reserved, 36);
AT(hetsim_unbind, waits, 40);
AT(hetsim_unbind, signals, 48);
AT(hetsim_unbind, seqno, 56);

SIZE(hetsim_queue_create, 24, 24);
AT(hetsim_queue_create, flags, 4);
AT(hetsim_queue_create, type, 8);
AT(hetsim_queue_create, timeout_ms, 12);
AT(hetsim_queue_create, queue, 16);
AT(hetsim_queue_create, __reserved, 20);

SIZE(hetsim_queue_destroy, 8, 8);
AT(hetsim_queue_destroy, queue, 4);

SIZE(hetsim_command, 48, 48);
AT(hetsim_command, op, 0);
AT(hetsim_command, flags, 4);
AT(hetsim_command, destination, 8);
AT(hetsim_command, source, 16);
AT(hetsim_command, source2, 24);
AT(hetsim_command, length, 32);
AT(hetsim_command, value, 40);

SIZE(hetsim_submit, 96, 40);
AT(hetsim_submit, queue, 4);
AT(hetsim_submit, commands, 8);
AT(hetsim_submit, n_commands, 16);
AT(hetsim_submit, command_size, 20);
AT(hetsim_submit, flags, 24);
AT(hetsim_submit, __reserved, 28);
AT(hetsim_submit, seqno, 32);
AT(hetsim_submit, done, 40);
AT(hetsim_submit, failures, 48);
AT(hetsim_submit, waits, 56);
AT(hetsim_submit, signals, 64);
AT(hetsim_submit, n_waits, 72);
AT(hetsim_submit, n_signals, 76);
AT(hetsim_submit, uses, 80);
AT(hetsim_submit, n_uses, 88);
AT(hetsim_submit, __reserved2, 92);

SIZE(hetsim_sync, 16, 16);
AT(hetsim_sync, fd, 4);
AT(hetsim_sync, point, 8);

SIZE(hetsim_use, 8, 8);
AT(hetsim_use, flags, 4);

SIZE(hetsim_timeline_create, 24, 24);
AT(hetsim_timeline_create, flags, 4);
AT(hetsim_timeline_create, value, 8);
AT(hetsim_timeline_create, fd, 16);
AT(hetsim_timeline_create, __reserved, 20);

SIZE(hetsim_timeline_wait, 32, 32);
AT(hetsim_timeline_wait, fd, 4);
AT(hetsim_timeline_wait, point, 8);
AT(hetsim_timeline_wait, deadline_ns, 16);
AT(hetsim_timeline_wait, value, 24);

SIZE(hetsim_timeline_signal, 16, 16);
AT(hetsim_timeline_signal, fd, 4);
AT(hetsim_timeline_signal, point, 8);

SIZE(hetsim_wait, 48, 40);
AT(hetsim_wait, queue, 4);
AT(hetsim_wait, seqno, 8);
AT(hetsim_wait, deadline_ns, 16);
AT(hetsim_wait, status, 24);
AT(hetsim_wait, __reserved, 28);
AT(hetsim_wait, fault_address, 32);
AT(hetsim_wait, fault_reason, 40);
AT(hetsim_wait, fault_write, 44);

SIZE(hetsim_fence_fd, 24, 24);
AT(hetsim_fence_fd, queue, 4);
AT(hetsim_fence_fd, seqno, 8);
AT(hetsim_fence_fd, fd, 16);
AT(hetsim_fence_fd, flags, 20);

SIZE(hetsim_queue_event, 24, 24);
AT(hetsim_queue_event, queue, 4);
AT(hetsim_queue_event, seqno, 8);
AT(hetsim_queue_event, eventfd, 16);
AT(hetsim_queue_event, flags, 20);

SIZE(hetsim_inject, 24, 24);
AT(hetsim_inject, kind, 4);
AT(hetsim_inject, target, 8);
AT(hetsim_inject, flags, 12);
AT(hetsim_inject, value, 16);

SIZE(hetsim_mirror, 40, 32);
AT(hetsim_mirror, flags, 4);
AT(hetsim_mirror, migration, 8);
AT(hetsim_mirror, __reserved, 12);
AT(hetsim_mirror, chunks, 16);
AT(hetsim_mirror, max_chunks, 24);
AT(hetsim_mirror, migration_bytes, 32);

SIZE(hetsim_advise, 32, 32);
AT(hetsim_advise, advice, 4);
AT(hetsim_advise, address, 8);
AT(hetsim_advise, length, 16);
AT(hetsim_advise, value, 24);

SIZE(hetsim_prefetch, 40, 40);
AT(hetsim_prefetch, flags, 4);
AT(hetsim_prefetch, queue, 8);
AT(hetsim_prefetch, location, 12);
AT(hetsim_prefetch, address, 16);
AT(hetsim_prefetch, length, 24);
AT(hetsim_prefetch, seqno, 32);

SIZE(hetsim_page, 8, 8);
AT(hetsim_page, rights, 0);
AT(hetsim_page, location, 2);
AT(hetsim_page, why, 3);
AT(hetsim_page, order, 4);
AT(hetsim_page, chunk_order, 5);
AT(hetsim_page, moves, 6);

SIZE(hetsim_range_query, 32, 32);
AT(hetsim_range_query, flags, 4);
AT(hetsim_range_query, address, 8);
AT(hetsim_range_query, length, 16);
AT(hetsim_range_query, pages, 24);

SIZE(hetsim_event, 48, 48);
AT(hetsim_event, ns, 0);
AT(hetsim_event, address, 8);
AT(hetsim_event, length, 16);
AT(hetsim_event, value, 24);
AT(hetsim_event, kind, 32);
AT(hetsim_event, write, 36);
AT(hetsim_event, queue, 40);
AT(hetsim_event, duration_ns, 44);

SIZE(hetsim_mirror_events, 16, 16);
AT(hetsim_mirror_events, flags, 4);
AT(hetsim_mirror_events, fd, 8);
AT(hetsim_mirror_events, __reserved, 12);

SIZE(hetsim_learn, 24, 24);
AT(hetsim_learn, flags, 4);
AT(hetsim_learn, least, 8);
AT(hetsim_learn, most, 16);

#undef AT
#undef SIZE

/*
 * The list of calls has the same first versions, and each structure begins with its size. A call
 * without its lines above does not compile.
 */
#define HETSIM_CALL(NAME, name, last)                                               \
	_Static_assert(offsetof(struct hetsim_##name, size) == 0, #name ".size");   \
	_Static_assert(offsetof(struct hetsim_##name, last) +                       \
				       sizeof(((struct hetsim_##name *)0)->last) == \
			       hetsim_##name##_first,                               \
		       "the first version of hetsim_" #name " ends behind " #last);
#include "model/calls.h"

#endif
