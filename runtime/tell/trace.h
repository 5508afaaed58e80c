/* SPDX-License-Identifier: MIT */
/*
 * HETMAP_TRACE=FILE writes the events of the probes to a file: an array of Chrome's trace
 * events in JSON, which Perfetto and chrome://tracing open. hetmap-probes(7) describes the
 * events.
 *
 * A thread gathers its lines in a buffer of its own, and appends them to the file by one
 * write(), so that no lines are torn: when the buffer is full, when its oldest line is a second
 * old, when a map is lost, at the thread's end and at the process's end. A buffer has a lock
 * for the process's end; otherwise no thread ever waits for it.
 */
#ifndef HETMAP_TRACE_H
#define HETMAP_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/util.h"

struct hm_accel_work;
struct hm_buffer;
struct hm_map;

extern _Atomic bool trace_enabled;
/* The trace could not be written, and no caller has been told yet. */
extern _Atomic bool trace_untold;

static inline bool trace_is_on(void)
{
	return unlikely(atomic_load_explicit(&trace_enabled, memory_order_relaxed));
}

/* The time at which a call begins: 0 without a trace. */
static inline uint64_t trace_start(void)
{
	return trace_is_on() ? time_now_ns() : 0;
}

/* Reads the environment. Called once, before the first object is made. */
void trace_init(void);

/* Sets the thread's error text, once, to the reason why there is no trace. */
void trace_tell_cold(void);
static inline void trace_tell(void)
{
	if (unlikely(atomic_load_explicit(&trace_untold, memory_order_relaxed)))
		trace_tell_cold();
}

void trace_fork_prepare(void);
void trace_fork_parent(void);
/* Gives a child its own file if the name has "%p" in it, or else none. */
void trace_fork_child(void);

/* ---- lines, for trace_event.c ---- */

/* A launch with all its ranges fits. */
#define TRACE_LINE_MAX 4096

struct trace_line {
	size_t n;
	char text[TRACE_LINE_MAX];
};

void trace_put(struct trace_line *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Puts @string in quotes: bytes that are not UTF-8 become U+FFFD, and a long string is cut. */
void trace_put_string(struct trace_line *line, const char *string);
/* Adds the complete line @line to this thread's buffer. */
void trace_add(const struct trace_line *line);
/* Writes the lines of all threads to the file. */
void trace_flush(void);
pid_t trace_pid(void);
pid_t trace_tid(void);

/* ---- events (trace_event.c); with a trace only ---- */

/* @start: the time at which the call began, from trace_start(); or 0. */
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
		  const struct hm_accel_work *work, uint64_t start);
void trace_launch_done(const void *fence, const char *accel, const char *kernel, int status,
		       uint64_t bytes_out);
void trace_lost(const struct hm_map *map);
void trace_recovered(const struct hm_map *map);

#endif
