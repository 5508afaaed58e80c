// SPDX-License-Identifier: MIT
/* Lines of HETMAP_TRACE, one for each event that a probe reports. */
#include <hetmap/accel_ops.h>
#include <inttypes.h>

#include "core/core.h"
#include "tell/trace.h"

/* Chrome's "phases" of an event. */
#define WHOLE 'X' /* with its duration */
#define BEGIN 'b' /* and END: same category and id, any thread */
#define END 'e'
#define MOMENT 'i'

static void put_time(struct trace_line *line, const char *name, uint64_t ns)
{
	trace_put(line, ",\"%s\":%" PRIu64 ".%03u", name, ns / 1000, (unsigned int)(ns % 1000));
}

/* Puts a line up to its arguments. @start: for WHOLE; 0: the duration is not known. */
static void begin(struct trace_line *line, const char *name, const char *category, char phase,
		  uint64_t start)
{
	uint64_t now = time_now_ns();

	line->n = 0;
	trace_put(line, "{\"name\":");
	trace_put_string(line, name);
	trace_put(line, ",\"cat\":\"%s\",\"ph\":\"%c\"", category, phase);
	put_time(line, "ts", start ? start : now);
	if (phase == WHOLE)
		put_time(line, "dur", start ? now - start : 0);
	if (phase == MOMENT)
		trace_put(line, ",\"s\":\"t\"");
}

/* trace_tid() must come first: it may open a fork child's file, which sets trace_pid(). */
static void begin_arguments(struct trace_line *line)
{
	pid_t tid = trace_tid();

	trace_put(line, ",\"pid\":%d,\"tid\":%d,\"args\":{", (int)trace_pid(), (int)tid);
}

static void end(struct trace_line *line, bool tells)
{
	trace_put(line, "}},\n");
	trace_add(line);
	if (tells)
		trace_tell();
}

static void put_buffer(struct trace_line *line, const struct hm_buffer *buffer)
{
	trace_put(line, "\"buffer\":");
	trace_put_string(line, buffer->name);
	trace_put(line, ",\"device\":");
	trace_put_string(line, buffer->device->name);
}

static void put_address(struct trace_line *line, const char *name, const char *address)
{
	trace_put(line, ",\"%s\":\"0x%" PRIxPTR "\"", name, (uintptr_t)address);
}

/* Puts the part [@offset, @offset + @length) of a map. */
static void put_range(struct trace_line *line, const struct hm_map *map, uint64_t offset,
		      uint64_t length)
{
	char *address = __atomic_load_n(&map->address, __ATOMIC_RELAXED);

	put_buffer(line, map->buffer);
	put_address(line, "address", address + offset);
	trace_put(line, ",\"length\":%" PRIu64 ",\"offset\":%" PRIu64, length,
		  map->offset + offset);
}

static const char *access_name(uint32_t access)
{
	return access & HM_WRITE ? access & HM_READ ? "read write" : "write" :
	       access & HM_READ  ? "read" :
				   "none";
}

static void put_access(struct trace_line *line, uint32_t access)
{
	trace_put(line, ",\"access\":\"%s\"", access_name(access));
}

static uint64_t length_of(const struct hm_map *map)
{
	return atomic_load_explicit(&((struct hm_map *)map)->length, memory_order_relaxed);
}

void trace_map(const struct hm_map *map, uint64_t start)
{
	struct trace_line line;

	begin(&line, "map", "map", WHOLE, start);
	begin_arguments(&line);
	put_range(&line, map, 0, length_of(map));
	put_access(&line, map->access);
	end(&line, true);
}

void trace_unmap(const struct hm_map *map)
{
	struct trace_line line;

	begin(&line, "unmap", "map", MOMENT, 0);
	begin_arguments(&line);
	put_range(&line, map, 0, length_of(map));
	end(&line, true);
}

void trace_move(const struct hm_map *map, const char *old_address, uint64_t length)
{
	struct trace_line line;

	begin(&line, "move", "map", MOMENT, 0);
	begin_arguments(&line);
	put_buffer(&line, map->buffer);
	put_address(&line, "old_address", old_address);
	put_address(&line, "new_address", map->address);
	trace_put(&line, ",\"length\":%" PRIu64, length);
	end(&line, true);
}

void trace_resize(const struct hm_buffer *buffer, uint64_t old_size, uint64_t start)
{
	struct trace_line line;

	begin(&line, "resize", "resize", WHOLE, start);
	begin_arguments(&line);
	put_buffer(&line, buffer);
	trace_put(&line, ",\"old_size\":%" PRIu64 ",\"new_size\":%" PRIu64, old_size,
		  buffer->size);
	end(&line, true);
}

void trace_lock(const struct hm_map *map, uint64_t offset, uint64_t length, uint32_t priority,
		uint64_t start)
{
	struct trace_line line;

	begin(&line, "lock", "lock", WHOLE, start);
	begin_arguments(&line);
	put_range(&line, map, offset, length);
	trace_put(&line, ",\"priority\":%" PRIu32, priority);
	end(&line, true);
}

void trace_unlock(const struct hm_map *map, uint64_t offset, uint64_t length, uint64_t start)
{
	struct trace_line line;

	begin(&line, "unlock", "lock", WHOLE, start);
	begin_arguments(&line);
	put_range(&line, map, offset, length);
	end(&line, true);
}

void trace_protect(const struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
		   uint64_t start)
{
	struct trace_line line;

	begin(&line, "protect", "protect", WHOLE, start);
	begin_arguments(&line);
	put_range(&line, map, offset, length);
	put_access(&line, access);
	end(&line, true);
}

/* The id has map and range, because brackets of one map may overlap. */
static void put_bracket_id(struct trace_line *line, const struct hm_map *map, uint64_t offset)
{
	trace_put(line, ",\"id\":\"%" PRIxPTR "+%" PRIx64 "\"", (uintptr_t)map, offset);
}

void trace_bracket_begin(const struct hm_map *map, uint64_t offset, uint64_t length,
			 uint32_t access)
{
	struct trace_line line;

	begin(&line, "bracket", "bracket", BEGIN, 0);
	put_bracket_id(&line, map, offset);
	begin_arguments(&line);
	put_range(&line, map, offset, length);
	put_access(&line, access);
	end(&line, true);
}

void trace_bracket_end(const struct hm_map *map, uint64_t offset, uint64_t length,
		       uint32_t access, int r)
{
	struct trace_line line;

	begin(&line, "bracket", "bracket", END, 0);
	put_bracket_id(&line, map, offset);
	begin_arguments(&line);
	put_range(&line, map, offset, length);
	put_access(&line, access);
	trace_put(&line, ",\"result\":%d", r);
	/* After a failure the error text belongs to the caller of the bracket's end. */
	end(&line, !r);
}

static void begin_launch(struct trace_line *line, const void *fence, const char *accel,
			 const char *kernel, char phase, uint64_t start)
{
	begin(line, kernel, "launch", phase, start);
	trace_put(line, ",\"id\":\"%" PRIxPTR "\"", (uintptr_t)fence);
	begin_arguments(line);
	trace_put(line, "\"accel\":");
	trace_put_string(line, accel);
}

static uint32_t range_count(const struct hm_accel_work *work)
{
	return work->kind == HM_WORK_LAUNCH ? work->n_arg : work->kind == HM_WORK_COPY ? 2 : 1;
}

/* [ADDRESS, LENGTH, ACCESS] of each pointer, in the order of the arguments. */
static void put_ranges(struct trace_line *line, const struct hm_accel_work *work)
{
	uint32_t n = range_count(work), i;
	const char *comma = "";

	trace_put(line, ",\"arguments\":[");
	for (i = 0; i < n; i++) {
		const struct hm_accel_range *range = &work->range[i];

		if (work->kind == HM_WORK_LAUNCH && work->arg[i].kind != HM_ARG_POINTER)
			continue;
		trace_put(line, "%s[\"0x%" PRIxPTR "\",%" PRIu64 ",\"%s\"]", comma,
			  (uintptr_t)range->pointer, range->length, access_name(range->access));
		comma = ",";
	}
	trace_put(line, "]");
}

void trace_launch(const void *fence, const char *accel, const char *kernel, uint32_t ranges,
		  const struct hm_accel_work *work, uint64_t start)
{
	struct trace_line line;

	begin_launch(&line, fence, accel, kernel, BEGIN, start);
	trace_put(&line, ",\"ranges\":%" PRIu32 ",\"bytes_in\":%" PRIu64, ranges,
		  work->bytes_in);
	put_ranges(&line, work);
	end(&line, true);
}

void trace_launch_done(const void *fence, const char *accel, const char *kernel, int status,
		       uint64_t bytes_out)
{
	struct trace_line line;

	begin_launch(&line, fence, accel, kernel, END, 0);
	trace_put(&line, ",\"status\":%d,\"bytes_out\":%" PRIu64, status, bytes_out);
	/* The thread that found the fence done may be about to set another error text. */
	end(&line, false);
}

static void end_generation(struct trace_line *line, const struct hm_map *map)
{
	put_range(line, map, 0, length_of(map));
	trace_put(line, ",\"generation\":%" PRIu32,
		  atomic_load_explicit(&((struct hm_map *)map)->generation,
				       memory_order_relaxed));
	end(line, false);
	/* The process may end next. */
	trace_flush();
}

void trace_lost(const struct hm_map *map)
{
	struct trace_line line;

	begin(&line, "lost", "loss", MOMENT, 0);
	begin_arguments(&line);
	end_generation(&line, map);
}

void trace_recovered(const struct hm_map *map)
{
	struct trace_line line;

	begin(&line, "recovered", "loss", MOMENT, 0);
	begin_arguments(&line);
	end_generation(&line, map);
}
