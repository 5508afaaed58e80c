/* SPDX-License-Identifier: MIT */
/*
 * A recording, read: the records of a perf.data file in the order of their times. It may
 * be perf's own, of another machine, cut off, or made to mislead: each length is checked, and
 * tests/perf/fuzz_trace.c tries.
 *
 *	recording*.c   records in order of time, no more than two rounds of them at a time; from
 *	               record to record by their size, whatever they are (recording_step.c), and
 *	               in compressed ones as in the file (recording_unpack.c)
 *	spaces*.c      the object at an address, by two trees of ranges; it is asked when a
 *	               record is read: later there may be another program. A child of fork(2)
 *	               has its parent's mappings until one of the two changes any, and they go
 *	               with its last thread. Memory that the kernel merged with its neighbour is
 *	               told from larger memory in its place by faults on pages touched before
 *	points.c       the fields of tracepoints, by the formats that perf.data carries
 *	devices.c      hetsim's buffers, which its tracepoints name by number: the first page
 *	               fault, told of by number and by address, gives the length of each number's
 *	               window of the device's file, and thereby the numbers of mappings
 *	calls.c        system calls that change mappings: mappings that mmap(2) merges are held
 *	               until its result says where the new part is
 *	device_sites.c the code that asked for a device's fault, move or eviction: a traced
 *	               process, another process, or, without a frame of a program, the engine
 *	symbols.c      the caller behind the library's frames, which is why the library is built
 *	               with frame pointers; functions are named at the end, by the same file only
 *	               (symbols_file.c). The C library has none: who called its memset() is not in
 *	               the call chain, but at the top of the stack (symbols_frame.c)
 *	analysis.c     pairs beginnings with ends
 *	pattern.c      a prefetcher that counts how often it would have been right
 *	stalls.c       the time that faults held a process up
 *	advice.c       the gain, by the cost of faults here without a trace (calibrate.c) and the
 *	               speed of storage past the page cache (storage.c)
 */
#ifndef HETMAP_RECORDING_H
#define HETMAP_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "points.h"

enum recorded {
	RECORDED_FAULT, /* a page fault begins */
	RECORDED_MINOR, /* one was done, without storage */
	RECORDED_MAJOR, /* one was done that read storage */
	RECORDED_MAP,
	RECORDED_NAME, /* of a thread, which may be a new program */
	RECORDED_FORK,
	RECORDED_EXIT,
	RECORDED_LOST,
	RECORDED_SWITCH, /* a thread comes onto a CPU, or leaves it */
	RECORDED_POINT,  /* a tracepoint */
};

/* Of page faults: is each of them in it? */
enum recorded_share {
	RECORDED_EACH,
	RECORDED_SAMPLES, /* every so-manieth, or so many a second */
	RECORDED_UNTOLD,  /* a text has no periods */
};

#define RECORDED_BUILD_ID 20 /* bytes of one, at most */

/* Borrowed members are valid until the callback returns. */
struct recorded_event {
	enum recorded kind;
	uint64_t time; /* ns */
	uint64_t id;   /* of faults and tracepoints, by the opened event; 0: not told */
	uint32_t pid, tid, cpu;
	uint64_t address; /* of faults and of mappings */
	/* Faults: */
	uint64_t ip;
	uint64_t period;   /* so many it stands for, itself among them */
	uint64_t physical; /* address of the page, of the ends of faults; 0: not told */
	bool in_kernel;    /* inside of a system call */
	/* Faults, and those tracepoints that have one. */
	const uint64_t *chain; /* NULL: none was recorded; of a thread it may be empty */
	uint32_t n_chain;
	uint64_t stack_top; /* the word that the program's stack pointer led to; 0: not told */
	/* Where a text has them in place of addresses; NULL else. */
	const char *function, *module;
	/* Maps: */
	uint64_t length, offset, inode;
	uint64_t generation; /* of the inode; 0: not told */
	uint32_t device_major, device_minor;
	uint8_t n_build_id; /* 0: not told */
	uint8_t build_id[RECORDED_BUILD_ID];
	bool executable;
	bool writable; /* or it is not told whether it is */
	bool all_new;  /* nothing of it was there before: known of its system call */
	/* Names, maps: ends with '\0'. */
	const char *name;
	bool new_program;
	/* Fork: */
	uint32_t parent_pid, parent_tid;
	/* Switch: preempted, it did not leave by itself. */
	bool off_cpu, preempted;
	/* Lost: */
	uint64_t lost;
	bool filtered; /* by a filter that was asked for */
	/* Tracepoints: the fields that it has, by enum point_field. */
	enum point point;
	uint32_t known; /* bit i: value[i] */
	uint64_t value[POINT_FIELDS];
};

struct recording;

struct recording_totals {
	uint64_t records;  /* told */
	uint64_t skipped;  /* of kinds that mean nothing here */
	uint64_t unknown;  /* of these, of kinds that nobody knew when this was written */
	uint64_t unsorted; /* told later than they should be */
	bool cut_off;      /* there was to be more */
};

/* 0 or a negative errno; -EPROTO: *ret_reason (static) says why. */
int recording_open(const char *path, struct recording **ret_recording, const char **ret_reason);

/* The same of a text of perf script's, "-": standard input. */
int recording_open_text(const char *path, struct recording **ret_recording,
			const char **ret_reason);

/* Has it the ends of faults, too? */
bool recording_has_latency(const struct recording *recording);

enum recorded_share recording_share(const struct recording *recording);

/* Is that tracepoint one of its events? */
bool recording_has_point(const struct recording *recording, enum point point);

typedef int recorded_each(void *user, const struct recorded_event *event);

/*
 * Calls @each for every event by time, until it returns non-zero, which is the result.
 * 0 or a negative errno; -ENOTSUP: this build can't read it, for *ret_reason (static). Once.
 */
int recording_each(struct recording *recording, recorded_each *each, void *user,
		   struct recording_totals *ret_totals, const char **ret_reason);

/* Bytes of it that were read, and that there are: for a progress bar. */
void recording_position(const struct recording *recording, uint64_t *ret_at,
			uint64_t *ret_size);

void recording_close(struct recording *recording);

#endif
