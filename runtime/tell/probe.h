/* SPDX-License-Identifier: MIT */
/*
 * Static probes for tracers that attach from outside: SystemTap's SDT notes, which bpftrace,
 * perf and gdb know. A probe costs a nop without a tracer. Each probe is at one place, after
 * the event that it reports; man/hetmap-probes.7 has the arguments, and
 * tests/tell/test_probes.sh holds them against the library. Without <sys/sdt.h> probes are
 * empty.
 *
 * HETMAP_TRACE writes the same events to a file (trace.h), and costs one branch when it is off.
 * @start: the time at which the call began, from trace_start().
 */
#ifndef HETMAP_PROBE_H
#define HETMAP_PROBE_H

#include "config.h"
#include "core/core.h"
#include "tell/trace.h"

#ifdef HAVE_SDT
#ifdef PROBE_WATCHERS
#define _SDT_HAS_SEMAPHORES 1
#endif
#define SDT_USE_VARIADIC 1
#include <sys/sdt.h>
#define PROBE(name, ...) STAP_PROBEV(hetmap, name, __VA_ARGS__)
#else
static inline void probe_nothing(const void *first, ...)
{
	(void)first;
}
#define PROBE(name, ...) probe_nothing(__VA_ARGS__)
#endif

/* Keeps a probe's function with several callers at one place, however it is compiled. */
#define PROBE_SITE __attribute__((noinline))

#define NAMES(buffer) &(buffer)->name[0], &(buffer)->device->name[0]

/* Brackets read the address without a lock, while a change may move it. */
static inline char *probe_address(const struct hm_map *map)
{
	return __atomic_load_n(&map->address, __ATOMIC_RELAXED);
}

static inline uint64_t probe_length(const struct hm_map *map)
{
	return atomic_load_explicit(&((struct hm_map *)map)->length, memory_order_relaxed);
}

static inline uint32_t probe_generation(const struct hm_map *map)
{
	return atomic_load_explicit(&((struct hm_map *)map)->generation, memory_order_relaxed);
}

#ifdef PROBE_WATCHERS

/*
 * For bracket.c. A bracket is so short that preparing the arguments of its probes would cost a
 * third of it. These two probes have semaphores, in which the kernel counts tracers, and which
 * are asked first.
 */
#ifdef HAVE_SDT
static volatile unsigned short hetmap_bracket_begin_semaphore
	__attribute__((section(".probes"), used));
static volatile unsigned short hetmap_bracket_end_semaphore
	__attribute__((section(".probes"), used));
#endif

static inline bool probe_brackets_watched(void)
{
#ifdef HAVE_SDT
	if (unlikely(hetmap_bracket_begin_semaphore | hetmap_bracket_end_semaphore))
		return true;
#endif
	return trace_is_on();
}

/* No lock is held in these two functions. */
static inline void probe_bracket_begin(const struct hm_map *map, uint64_t offset,
				       uint64_t length, uint32_t access)
{
	const struct hm_buffer *buffer = map->buffer;

	PROBE(bracket_begin, NAMES(buffer), probe_address(map) + offset, length,
	      map->offset + offset, access);
	if (trace_is_on())
		trace_bracket_begin(map, offset, length, access);
}

static inline void probe_bracket_end(const struct hm_map *map, uint64_t offset, uint64_t length,
				     uint32_t access, int r)
{
	const struct hm_buffer *buffer = map->buffer;

	/* Six arguments at most, bpftrace's limit. */
	PROBE(bracket_end, NAMES(buffer), probe_address(map) + offset, length,
	      map->offset + offset, r);
	if (trace_is_on())
		trace_bracket_end(map, offset, length, access, r);
}

#else

/* buffer->lock is held. */
static inline void probe_map(const struct hm_map *map, uint64_t start)
{
	const struct hm_buffer *buffer = map->buffer;

	PROBE(map, NAMES(buffer), map->address, probe_length(map), map->offset, map->access);
	if (trace_is_on())
		trace_map(map, start);
}

/* Called with the last reference, while the bytes are still mapped. */
static inline void probe_unmap(const struct hm_map *map)
{
	const struct hm_buffer *buffer = map->buffer;

	PROBE(unmap, NAMES(buffer), map->address, probe_length(map), map->offset);
	if (trace_is_on())
		trace_unmap(map);
}

/* buffer->lock and map->change are held. */
static inline void probe_move(const struct hm_map *map, const char *old_address,
			      uint64_t length)
{
	const struct hm_buffer *buffer = map->buffer;

	PROBE(move, NAMES(buffer), old_address, map->address, length);
	if (trace_is_on())
		trace_move(map, old_address, length);
}

/* buffer->lock is held. */
static inline void probe_resize(const struct hm_buffer *buffer, uint64_t old_size,
				uint64_t start)
{
	PROBE(resize, NAMES(buffer), old_size, buffer->size);
	if (trace_is_on())
		trace_resize(buffer, old_size, start);
}

/* map->change is held here and in the next two. */
static inline void probe_lock(const struct hm_map *map, uint64_t offset, uint64_t length,
			      uint32_t priority, uint64_t start)
{
	const struct hm_buffer *buffer = map->buffer;

	PROBE(lock, NAMES(buffer), map->address + offset, length, map->offset + offset,
	      priority);
	if (trace_is_on())
		trace_lock(map, offset, length, priority, start);
}

static inline void probe_unlock(const struct hm_map *map, uint64_t offset, uint64_t length,
				uint64_t start)
{
	const struct hm_buffer *buffer = map->buffer;

	PROBE(unlock, NAMES(buffer), map->address + offset, length, map->offset + offset);
	if (trace_is_on())
		trace_unlock(map, offset, length, start);
}

static inline void probe_protect(const struct hm_map *map, uint64_t offset, uint64_t length,
				 uint32_t access, uint64_t start)
{
	const struct hm_buffer *buffer = map->buffer;

	PROBE(protect, NAMES(buffer), map->address + offset, length, map->offset + offset,
	      access);
	if (trace_is_on())
		trace_protect(map, offset, length, access, start);
}

/* No lock is held here and in the next one. */
static inline void probe_launch(const void *fence, const char *accel, const char *kernel,
				uint32_t ranges, uint64_t bytes_in,
				const struct hm_accel_work *work, uint64_t start)
{
	PROBE(launch, fence, accel, kernel, ranges, bytes_in);
	if (trace_is_on())
		trace_launch(fence, accel, kernel, ranges, work, start);
}

static inline void probe_launch_done(const void *fence, const char *accel, const char *kernel,
				     int status, uint64_t bytes_out)
{
	PROBE(launch_done, fence, accel, kernel, status, bytes_out);
	if (trace_is_on())
		trace_launch_done(fence, accel, kernel, status, bytes_out);
}

/* buffer->lock and map->change are held here and in the next one. */
static inline void probe_lost(const struct hm_map *map)
{
	const struct hm_buffer *buffer = map->buffer;

	PROBE(lost, NAMES(buffer), map->address, probe_length(map), map->offset,
	      probe_generation(map));
	if (trace_is_on())
		trace_lost(map);
}

static inline void probe_recovered(const struct hm_map *map)
{
	const struct hm_buffer *buffer = map->buffer;

	PROBE(recovered, NAMES(buffer), map->address, probe_length(map), map->offset,
	      probe_generation(map));
	if (trace_is_on())
		trace_recovered(map);
}

#endif

#undef NAMES

#endif
