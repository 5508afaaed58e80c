/* SPDX-License-Identifier: MIT */
/* Tracepoints that are recorded where the kernel has them, and the fields that are read. */
#ifndef HETMAP_POINTS_H
#define HETMAP_POINTS_H

#include <stdbool.h>
#include <stdint.h>

enum point {
	/* The simulated device's (drivers/sim/sim_trace.h). */
	POINT_SIM_FAULT,
	POINT_SIM_ACCESS,
	POINT_SIM_MOVE,
	POINT_SIM_SUBMIT,
	POINT_SIM_COMPLETE,
	POINT_SIM_FENCE,
	POINT_SIM_LOST,
	/* Each page fault, before its TRACE_FAULT. */
	POINT_FAULT_USER,
	POINT_FAULT_KERNEL,
	/* System calls that change mappings; the results of some stand behind them. */
	POINT_MMAP,
	POINT_MMAP_DONE,
	POINT_MREMAP,
	POINT_MREMAP_DONE,
	POINT_MPROTECT,
	POINT_MPROTECT_DONE,
	POINT_MUNMAP,
	POINT_MADVISE,
	N_POINT,
};

enum point_group {
	POINTS_DEVICE, /* of all processes: an engine's thread is nobody's child */
	POINTS_ACCESS,
	POINTS_CALLS,
	N_POINT_GROUP,
};

#define POINT_FIELDS 7

/* The places of fields in points_known[].fields, and so of their values. */
enum point_field {
	/* Of the device's; those of submissions have queue, seqno, status. */
	SIM_DEVICE = 0,
	SIM_OPENER = 1,
	SIM_BUFFER = 2,
	SIM_QUEUE = 2,
	SIM_PAGE = 3,
	SIM_SEQNO = 3,
	SIM_N_PAGES = 4,
	SIM_STATUS = 4,
	SIM_PLACE = 5,
	SIM_EVICTED = 6,
	/* Of page faults. */
	FAULT_ADDRESS = 0,
	FAULT_ERROR = 1,
	/* Of system calls. */
	CALL_ADDRESS = 0,
	CALL_RESULT = 0,
	CALL_LENGTH = 1,
	CALL_NEW_LENGTH = 2,
	CALL_BEHAVIOR = 2,
};

struct point_known {
	const char *system, *name;
	enum point_group group;
	const char *fields[POINT_FIELDS]; /* NULL: no more */
	bool chain;                       /* recorded with the call chain of who asked for it */
};

extern const struct point_known points_known[N_POINT];

/* Where a field stands in a tracepoint's data; size 0: it has none of that name. */
struct point_place {
	uint16_t offset;
	uint8_t size;
	bool is_signed;
};

/* One of them as a kernel lays it out. */
struct point_layout {
	uint64_t id; /* of that kernel, until it is started again */
	enum point point;
	struct point_place field[POINT_FIELDS];
};

/*
 * Reads the text of a format file [Documentation/trace/events.rst] of @system. false: the
 * tracepoint is not known here, or the text makes no sense.
 */
bool point_parse(const char *system, const char *format, struct point_layout *ret_layout);

/* The value of field @i in @length bytes at @data; false: it is not in them. */
bool point_value(const struct point_layout *layout, uint32_t i, const void *data,
		 uint64_t length, uint64_t *ret_value);

#endif
