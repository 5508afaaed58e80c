/* SPDX-License-Identifier: MIT */
/*
 * HETMAP_TRACE=FILE: what the probes tell, as lines of a file. It is an array of Chrome's
 * trace events in JSON, which Perfetto and chrome://tracing open; hetmap-probes(7) has
 * what is in it.
 *
 * A thread gathers its lines in a buffer of its own, and gives them to the file by one
 * write() in append mode, so that nobody's lines are torn: when there is no room, when what
 * is there is a second old, when a map is lost, at the thread's and at the process's end.
 * A buffer has a lock, for the process's end, which nobody else ever waits for.
 */
#ifndef HETMAP_TRACE_H
#define HETMAP_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/util.h"

struct hm_buffer;
struct hm_map;

extern _Atomic bool trace_enabled;
/* It could not be written, and nobody knows yet. */
extern _Atomic bool trace_untold;

static inline bool trace_is_on(void)
{
	return unlikely(atomic_load_explicit(&trace_enabled, memory_order_relaxed));
}

/* Where a call begins: 0 without a trace. */
static inline uint64_t trace_start(void)
{
	return trace_is_on() ? time_now_ns() : 0;
}

/* Once, before the first object is made: reads the environment. */
void trace_init(void);

/* Has the thread's error text say, once, why there is no trace. */
void trace_tell_cold(void);
static inline void trace_tell(void)
{
	if (unlikely(atomic_load_explicit(&trace_untold, memory_order_relaxed)))
		trace_tell_cold();
}

void trace_fork_prepare(void);
void trace_fork_parent(void);
/* A child has a file of its own, if its pid is in the name, or none. */
void trace_fork_child(void);

/* ---- lines, for trace_event.c ---- */

#define TRACE_LINE_MAX 2048

struct trace_line {
	size_t n;
	char text[TRACE_LINE_MAX];
};

void trace_put(struct trace_line *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* In quotes: what is no UTF-8 becomes U+FFFD, what is too long is cut. */
void trace_put_string(struct trace_line *line, const char *string);
/* @line, which is whole, is this thread's next one. */
void trace_add(const struct trace_line *line);
/* All threads' lines go to the file. */
void trace_flush(void);
pid_t trace_pid(void);
pid_t trace_tid(void);

/* ---- events (trace_event.c); with a trace only ---- */

/* @start: of trace_start(), when the call began; or 0. */
void trace_map(const struct hm_map *map, uint64_t start);
void trace_unmap(const struct hm_map *map);
void trace_move(const struct hm_map *map, const char *old_address, uint64_t length);
void trace_resize(const struct hm_buffer *buffer, uint64_t old_size, uint64_t start);
void trace_lock(const struct hm_map *map, uint64_t offset, uint64_t length, uint32_t priority,
		uint64_t start);
void trace_unlock(const struct hm_map *map, uint64_t offset, uint64_t length, uint64_t start);
void trace_protect(const struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
		   uint64_t start);
void trace_bracket_begin(const struct hm_map *map, uint64_t offset, uint64_t length,
			 uint32_t access);
void trace_bracket_end(const struct hm_map *map, uint64_t offset, uint64_t length,
		       uint32_t access, int r);
void trace_launch(const void *fence, const char *accel, const char *kernel, uint32_t ranges,
		  uint64_t bytes_in, uint64_t start);
void trace_launch_done(const void *fence, const char *accel, const char *kernel, int status,
		       uint64_t bytes_out);
void trace_lost(const struct hm_map *map);
void trace_recovered(const struct hm_map *map);

#endif
