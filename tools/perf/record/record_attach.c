// SPDX-License-Identifier: MIT
/*
 * The threads and children of a running process when tracing begins. Threads get their events
 * one after the other, and meanwhile any of them may start more. A child of one with events
 * inherits them, and the kernel records its start; a child of one without has none, and is
 * found by looking again.
 */
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "record_file.h"

/* Numbers of threads are below that [PID_MAX_LIMIT of the kernel's threads.h]. */
#define NUMBERS (UINT32_C(4) << 20)
/* Of threads that begin others and end at once it may never have them all. */
#define TRIED_NS UINT64_C(10000000000)
/* A list grows old: those that end soon come first. */
#define LISTED_NS 5000000
/* A thread is listed a moment before the kernel tells of it [copy_process()]. */
#define TOLD_LATE_US 200
/* And it got its events from who began it another moment before. */
#define BEGUN_EARLIER_NS 10000000

/* Its own events may be some of all: who began it had not all. */
#define PARTLY UINT64_MAX

struct listed {
	pid_t pid, tid;
};

struct attaching {
	/*
	 * By number: children of a thread from that time on have all events; 0: none are known.
	 * Mostly zeros, which take no memory.
	 */
	uint64_t *whole;
	pid_t *pids; /* processes whose threads are listed */
	uint32_t n_pid;
	struct listed *found; /* those that are not whole */
	uint32_t n_found, room;
	uint64_t looked; /* bytes of records that were looked through */
};

/* Of a number that can't be, nothing is to be done. */
static uint64_t *whole_of(struct attaching *attaching, uint32_t tid)
{
	static uint64_t none;

	none = 1;
	return tid < NUMBERS ? &attaching->whole[tid] : &none;
}

/* ---- threads of the kernel's records ---- */

struct fork_record {
	struct perf_event_header header;
	uint32_t pid, parent_pid, tid, parent_tid;
	uint64_t time;
};

/* Who was begun by one that was whole is. */
static void take_forks(struct attaching *attaching, const char *records, uint64_t length)
{
	const struct fork_record *record;
	uint64_t at = 0, parent, *whole;

	while (length - at >= sizeof(record->header)) {
		record = (const struct fork_record *)(const void *)(records + at);
		if (record->header.size < sizeof(record->header) ||
		    record->header.size > length - at)
			break;
		at += record->header.size;
		if (record->header.type != PERF_RECORD_FORK ||
		    record->header.size < sizeof(*record))
			continue;
		parent = *whole_of(attaching, record->parent_tid);
		whole = whole_of(attaching, record->tid);
		/* Later work is younger than facts that are told late. */
		if (*whole == PARTLY || *whole <= record->time)
			*whole = parent && record->time >= parent ? 1 : PARTLY;
	}
}

static int note_forks(struct recorder *recorder, struct attaching *attaching)
{
	uint64_t length;
	char *records;
	bool other;
	int r = record_drain(recorder, -1, 0, &other);

	length = recorder->written - attaching->looked;
	if (r || !length)
		return r;
	records = malloc(length);
	if (!records)
		return -ENOMEM;
	if (pread(recorder->data_fd, records, length,
		  (off_t)(recorder->records_at + attaching->looked)) == (ssize_t)length)
		take_forks(attaching, records, length);
	attaching->looked = recorder->written;
	free(records);
	return 0;
}

/* ---- threads that exist ---- */

static int find(struct attaching *attaching, pid_t pid, pid_t tid)
{
	uint64_t whole = *whole_of(attaching, (uint32_t)tid);
	struct listed *more;

	if (whole && whole != PARTLY)
		return 0;
	if (attaching->n_found == attaching->room) {
		more = realloc(attaching->found, (2 * attaching->room + 64) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		attaching->found = more;
		attaching->room = 2 * attaching->room + 64;
	}
	attaching->found[attaching->n_found++] = (struct listed){ pid, tid };
	return 0;
}

static int find_children(struct attaching *attaching, pid_t pid, pid_t tid)
{
	char path[64];
	int child, r = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)tid);
	file = fopen(path, "re");
	while (file && !r && fscanf(file, "%d", &child) == 1)
		r = find(attaching, child, child);
	if (file)
		fclose(file);
	return r;
}

static int find_all(struct attaching *attaching, bool children)
{
	uint32_t i, k, n = 0;
	pid_t *tids = NULL;
	int r = 0;

	attaching->n_found = 0;
	for (i = 0; i < attaching->n_pid && !r; i++) {
		r = record_threads(attaching->pids[i], &tids, &n);
		/* A child may have ended meanwhile; whom it is all about is asked for later. */
		if (r == -ESRCH && i) {
			r = 0;
			continue;
		}
		for (k = 0; k < n && !r; k++) {
			if (children)
				r = find_children(attaching, attaching->pids[i], tids[k]);
			else
				r = find(attaching, attaching->pids[i], tids[k]);
		}
		free(tids);
		tids = NULL;
	}
	return r;
}

static int add_process(struct attaching *attaching, pid_t pid)
{
	pid_t *more = realloc(attaching->pids, (attaching->n_pid + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	attaching->pids = more;
	more[attaching->n_pid++] = pid;
	return 0;
}

int attach_begin(pid_t pid, struct attaching **ret_attaching)
{
	struct attaching *attaching = calloc(1, sizeof(*attaching));
	uint32_t i;
	int r;

	if (!attaching)
		return -ENOMEM;
	attaching->whole = calloc(NUMBERS, sizeof(*attaching->whole));
	r = attaching->whole ? add_process(attaching, pid) : -ENOMEM;
	if (!r)
		r = find_all(attaching, true);
	if (r) {
		attach_end(attaching);
		return r;
	}
	for (i = 0; i < attaching->n_found; i++)
		*whole_of(attaching, (uint32_t)attaching->found[i].tid) = 1;
	*ret_attaching = attaching;
	return 0;
}

/* ---- having them ---- */

static void begin_whole(struct attaching *attaching, pid_t tid)
{
	*whole_of(attaching, (uint32_t)tid) = record_now() + BEGUN_EARLIER_NS;
}

/* Those that were found and are not whole by now, the youngest first: it lives longest. */
static int add_found(struct recorder *recorder, struct attaching *attaching,
		     uint32_t *ret_missed)
{
	uint64_t whole, begun = record_now();
	uint32_t i;
	int r = 0;

	for (i = attaching->n_found; i-- && !r && record_now() - begun < LISTED_NS;) {
		const struct listed *found = &attaching->found[i];

		r = note_forks(recorder, attaching);
		whole = *whole_of(attaching, (uint32_t)found->tid);
		if (r || (whole && whole != PARTLY))
			continue;
		r = points_add(recorder, found->tid);
		if (!r)
			r = record_add(recorder, found->tid, whole);
		if (r && r != -ESRCH)
			++*ret_missed;
		begin_whole(attaching, found->tid);
		if (found->pid == found->tid && r != -ESRCH)
			r = add_process(attaching, found->pid);
		else
			r = 0;
	}
	return r;
}

static int add_all(struct recorder *recorder, struct attaching *attaching, uint32_t *ret_missed)
{
	int r = 0;

	for (;;) {
		r = find_all(attaching, false);
		if (!r && !attaching->n_found)
			r = find_all(attaching, true);
		if (r || !attaching->n_found)
			return r;
		if (record_now() - recorder->began_ns > TRIED_NS)
			break;
		usleep(TOLD_LATE_US);
		r = add_found(recorder, attaching, ret_missed);
		if (r)
			return r;
	}
	*ret_missed += attaching->n_found;
	return 0;
}

int record_attach(struct recorder *recorder, struct attaching *attaching, uint32_t *ret_missed)
{
	uint32_t i;
	int r;

	begin_whole(attaching, attaching->pids[0]);
	r = add_all(recorder, attaching, ret_missed);
	/* Their mappings are older, or their records are in a ring. */
	for (i = 0; i < attaching->n_pid && !r; i++) {
		r = record_running(recorder, attaching->pids[i]);
		if (i && (r == -ESRCH || r == -ENOENT))
			r = 0;
	}
	recorder->attaching = false;
	return r ? r : record_more_ids(recorder);
}

void attach_end(struct attaching *attaching)
{
	if (!attaching)
		return;
	free(attaching->whole);
	free(attaching->pids);
	free(attaching->found);
	free(attaching);
}
