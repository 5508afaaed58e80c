/* SPDX-License-Identifier: MIT */
/*
 * Recording: the kernel's events of a process and its children, into a trace's folder.
 *
 * Two sources are joined by time (CLOCK_MONOTONIC in both), as the kernel knows page faults and
 * no buffers:
 *
 *   perf_event_open(2)  two software events, one as a fault begins, with its call chain, one as
 *                       it ends, which says minor or major; the same rings have mappings, forks
 *                       and programs. record*.c write the records as they are, and after each
 *                       round a mark, behind all records that the round needs: a recording
 *                       without its end is one up to its last mark
 *   the published table (runtime/tell/publish.h) a traced command has it in a file of the trace;
 *                       that of a running process is read every 10 ms
 *
 * record_points.c adds tracepoints where they may be opened: hetsim's, of all processes, as an
 * engine is no process's child; one that tells reads from writes, before each fault; and system
 * calls that change mappings. Their formats are in perf.data where perf expects them.
 */
#ifndef HETMAP_RECORD_H
#define HETMAP_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "perf/read/perf_data.h"
#include "record_points.h"

struct record_options {
	bool no_latency; /* the beginning of each fault alone: how long it took is not known */
	uint64_t ring;   /* bytes of each CPU's; 0: as many as are allowed, to 8 MiB */
	uint32_t max_stack; /* frames of a call chain; 0: no call chains */
	bool no_tracepoints;
};

struct ring;

struct record_event {
	int fd;
	uint64_t id;
	bool again; /* the thread may have one more, by whom it was begun */
};

struct recorder {
	const struct record_options *options;
	bool on_exec;       /* they begin with execve(2) */
	bool user_only;     /* faults inside of system calls are not shown to this user */
	bool counts_lost;   /* the kernel counts lost records by event */
	bool several_nodes; /* it is asked whose memory pages are, if it tells this user */
	bool attaching;     /* older facts are still being told: no round ends */
	uint64_t began_ns;  /* of CLOCK_MONOTONIC */
	uint32_t n_event;   /* TRACE_* below that */
	struct ring *rings;
	uint32_t n_ring;
	uint64_t ring_bytes;
	bool ring_refused;           /* and not the event that it is of */
	struct record_event *events; /* n_event for each thread and CPU */
	uint32_t n_opened, room;
	struct record_points points;
	int data_fd;
	/* In the file: */
	struct perf_data_section formats; /* of tracepoints */
	uint64_t ids_at, ids_room;        /* the numbers of events */
	uint64_t records_at;
	uint64_t written;         /* records, in bytes */
	uint64_t whole;           /* the same, up to where none is cut off */
	uint64_t spare_at, spare; /* no record goes there, until it is cut */
	bool cut;                 /* see record_cut() */
};

/*
 * Opens the events of @tid and its children; with @on_exec these begin as it calls execve(2),
 * else at once. A status, after the user was told the reason.
 */
int record_open(struct recorder *recorder, const struct record_options *options, pid_t tid,
		bool on_exec, int data_fd);

/* How each of them is opened. */
void record_attr(const struct recorder *recorder, enum trace_event event,
		 struct perf_event_attr *ret_attr);

/* Do the ends of faults tell whose memory the page is? */
bool record_knows_nodes(const struct recorder *recorder);

/*
 * Those of one more thread; @again: which may have some of them already. 0 or a negative
 * errno; -ESRCH: it has ended.
 */
int record_add(struct recorder *recorder, pid_t tid, bool again);

void record_disable(struct recorder *recorder);

/*
 * Waits up to @timeout_ms for a ring to fill, or for @other_fd to be readable; then writes out
 * the rings. *ret_other: it is readable. 0 or a negative errno of write(2).
 */
int record_drain(struct recorder *recorder, int other_fd, int timeout_ms, bool *ret_other);

/*
 * There is no more room: the trace keeps the whole records that were written, and gets the
 * mappings that are in the rings. Room for these, and for the end of the file, was kept from
 * the beginning. 0 or -errno.
 */
int record_cut(struct recorder *recorder);

/* All that is left, and in the file's head that it is whole. 0 or a negative errno. */
int record_finish(struct recorder *recorder);

/* Events counted and lost so far, of each kind. */
struct record_counts {
	uint64_t value[N_TRACE_EVENT];
	uint64_t lost;
};
void record_count(const struct recorder *recorder, struct record_counts *ret_counts);
/* How many of each kind are in the file. 0 or a negative errno. */
int record_count_written(const struct recorder *recorder, uint64_t ret_value[N_TRACE_EVENT]);

void record_close(struct recorder *recorder);

/* ---- facts from before (record_running.c) ---- */

/* Threads of @pid: free() it. 0 or a negative errno. */
int record_threads(pid_t pid, pid_t **ret_tids, uint32_t *ret_n);

/* Writes records of @pid's names and mappings, as if it began with the trace. 0 or -errno. */
int record_running(struct recorder *recorder, pid_t pid);

uint64_t record_now(void);

/* ---- who is there already (record_attach.c) ---- */

struct attaching;

/* Before record_open() of @pid: notes which children it has. 0 or a negative errno. */
int attach_begin(pid_t pid, struct attaching **ret_attaching);

/*
 * After it: events of @pid's other threads, and of threads and children that began meanwhile,
 * and their names and mappings. *ret_missed: threads that could not be had. 0 or a negative
 * errno.
 */
int record_attach(struct recorder *recorder, struct attaching *attaching, uint32_t *ret_missed);

void attach_end(struct attaching *attaching);

/* Appends records to the file. 0 or a negative errno. */
int record_write(struct recorder *recorder, const void *records, uint64_t length);

#endif
