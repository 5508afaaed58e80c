/* SPDX-License-Identifier: MIT */
/* Recording: the kernel's events of a process and its children, into a trace's folder. */
#ifndef HETMAP_RECORD_H
#define HETMAP_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "perf_data.h"
#include "record_points.h"

struct record_options {
	bool no_latency; /* the beginning of each fault alone: how long it took is not known */
	uint64_t ring;   /* bytes of each CPU's; 0: as many as are allowed, to 8 MiB */
	uint32_t max_stack; /* frames of a call chain; 0: no call chains */
	bool no_tracepoints;
};

struct ring;

struct recorder {
	const struct record_options *options;
	bool on_exec;       /* they begin with execve(2) */
	bool user_only;     /* faults inside of system calls are not shown to this user */
	bool counts_lost;   /* the kernel tells by event what it lost */
	bool several_nodes; /* it is asked whose memory pages are, if it tells this user */
	uint32_t n_event;   /* TRACE_* below that */
	struct ring *rings;
	uint32_t n_ring;
	uint64_t ring_bytes;
	int *fds; /* n_event for each thread and CPU */
	uint64_t *ids;
	uint32_t n_fd, room;
	struct record_points points;
	int data_fd;
	uint64_t written; /* records, in bytes */
};

/*
 * Opens the events of each of @tids, and of what they start; with @on_exec these begin as
 * the one thread calls execve(2). A status, after the user was told what is wrong.
 */
int record_open(struct recorder *recorder, const struct record_options *options,
		const pid_t *tids, uint32_t n_tid, bool on_exec, int data_fd);

/* Do the ends of faults tell whose memory the page is? */
bool record_knows_nodes(const struct recorder *recorder);

/* Events of threads that began meanwhile; those that are gone are none. */
int record_add(struct recorder *recorder, const pid_t *tids, uint32_t n_tid);

/* They count from now on. */
void record_enable(struct recorder *recorder);
void record_disable(struct recorder *recorder);

/*
 * Waits up to @timeout_ms for a ring to fill, or for @other_fd to be readable; then writes
 * out what is there. *ret_other: it is. 0 or a negative errno of write(2).
 */
int record_drain(struct recorder *recorder, int other_fd, int timeout_ms, bool *ret_other);

/* All that is left, and the file's head. 0 or a negative errno. */
int record_finish(struct recorder *recorder);

/* Events counted and lost so far, of each kind. */
struct record_counts {
	uint64_t value[N_TRACE_EVENT];
	uint64_t lost;
};
void record_count(const struct recorder *recorder, struct record_counts *ret_counts);

void record_close(struct recorder *recorder);

/* ---- what is there already (record_running.c) ---- */

/* Threads of @pid: free() it. 0 or a negative errno. */
int record_threads(pid_t pid, pid_t **ret_tids, uint32_t *ret_n);

/* Writes records of @pid's names and mappings, as if it had begun now. 0 or -errno. */
int record_running(struct recorder *recorder, pid_t pid);

/* Appends records to the file. 0 or a negative errno. */
int record_write(struct recorder *recorder, const void *records, uint64_t length);

#endif
