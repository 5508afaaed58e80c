/* SPDX-License-Identifier: MIT */
/* hetmap top: who uses the library, which buffers they have, and their work now. */
#ifndef HETMAP_TOP_H
#define HETMAP_TOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "perf/read/live.h"
#include "perf/read/mappings.h"
#include "perf/read/openers.h"

#define TOP_NO_RATE (-1.0)

enum top_key {
	TOP_BY_MAPPED,
	TOP_BY_RESIDENT,
	TOP_BY_LOCKED,
	TOP_BY_HUGE,
	TOP_BY_FAULTS,
	TOP_BY_EVICTIONS,
	TOP_BY_BRACKETS,
	TOP_BY_FENCES,
	TOP_BY_NAME,
	N_TOP_KEY
};
/* As --sort takes it. */
extern const char *const top_key_names[N_TOP_KEY + 1];

/* Of a buffer, the sums over its maps; of a process, over its buffers. */
struct top_figures {
	uint64_t maps;
	uint64_t mapped;
	uint64_t resident;
	uint64_t locked;
	uint64_t huge;
	uint64_t brackets; /* FIGURE_UNKNOWN, as the next */
	uint64_t in_flight;
	double faults; /* each second, as those below; TOP_NO_RATE */
	double evictions;
	double gained; /* resident pages that came, less those that went */
	/* By entries that devices have of their own: */
	double device_faults;
	double invalidated;
	double moved; /* pages, to devices and back */
};

struct top_buffer {
	uint64_t serial;
	uint64_t address; /* address of its first map */
	char name[64], device[40];
	bool lost;
	uint64_t sampled;    /* faults, by samples of them */
	uint64_t n_eviction; /* ever; FIGURE_UNKNOWN: its device does not count them */
	struct top_figures figures;
};

/* Memory outside of buffers that an accelerator reaches: of one mapping. */
struct top_range {
	uint64_t start, end;
	uint64_t mapping; /* where its mapping begins; 0: it has none any more */
	char accel[24];
	char name[64];    /* of the mapping: "[heap]", the end of a path */
	uint64_t sampled; /* faults of CPUs, by samples of them */
	struct top_figures figures;
};

struct faults;

struct top_process {
	pid_t pid;
	uint64_t start; /* field 22 of /proc/PID/stat: another process has another */
	char command[32];
	struct live live;
	bool known;            /* it was looked at before: rates are of the time since */
	struct faults *faults; /* sampling; NULL: it is not possible */
	int faults_refused;    /* errno of that */
	uint64_t samples;      /* private: faults that all samples together stand for */
	uint64_t n_fault;      /* ever, of all of its memory */
	uint64_t n_eviction;   /* ever; FIGURE_UNKNOWN: no device of its counts them */
	uint64_t n_mirrored[N_MIRRORED]; /* the same */
	double mirrored[N_MIRRORED];     /* each second; TOP_NO_RATE */
	bool has_tiering;                /* it has moved bytes between tiers of memory: */
	struct hm_published_tiering tiering;
	double all_faults;      /* each second, of all of its memory */
	struct top_figures sum; /* of the buffers */
	struct top_buffer *buffers;
	size_t n_buffer;
	struct top_range *ranges; /* by start */
	size_t n_range;
	struct hm_published_range *reached; /* private: as they were, for rates */
	uint64_t n_reached;
	uint64_t reached_left_out; /* events that are in no range */
};

struct top {
	/* The wishes of the options. */
	pid_t pid; /* 0: all */
	const char *filter;
	enum top_key key;
	bool reverse;
	double delay;

	/* The findings. */
	struct top_process *processes;
	size_t n;
	uint64_t unreadable;  /* processes that this user may not look at */
	uint64_t broken;      /* processes whose table makes no sense */
	bool reached;         /* devices have entries of their own for memory of some */
	double seconds;       /* since the look before; 0: there was none */
	double looked;        /* private: when */
	uint64_t searched;    /* private: how often */
	struct top_pid *pids; /* private: those of the look before, by number */
	size_t n_pid;
};

/* Looks at all processes anew. 0; -EACCES, -ENOENT, -ESRCH, -EPROTO of the one asked for. */
int top_look(struct top *top);
void top_end(struct top *top);
/* Says why the one that was asked for can't be looked at: an exit status. (top_print.c) */
int top_refuse(const struct top *top, int r);

/* Of an array by serial number; NULL: none has that. */
struct top_buffer *top_find_buffer(const struct top_buffer *buffers, size_t n, uint64_t serial);
/* Has a device entries of its own for memory of the process? */
bool top_reaches(const struct top_process *process);

/* ---- memory that accelerators reach (top_ranges.c) ---- */

/*
 * Reads the ranges of the table: fills in process->ranges, and adds to the figures of buffers,
 * which have been found, and to the rates of the process. A failure leaves no ranges.
 */
void ranges_look(struct top_process *process, const struct mappings *mappings, double seconds);
/* The one that has the address; NULL. */
struct top_range *ranges_at(const struct top_process *process, uint64_t address);
void ranges_end(struct top_process *process);

/* ---- faults by address (top_faults.c) ---- */

/* 0 or a negative errno: -EACCES and -EPERM where it is not permitted. */
int faults_open(pid_t pid, struct faults **ret_faults);
/*
 * Calls @each for the address of each sample since the last time, which stands for
 * @weight faults; and samples threads that began meanwhile. *ret_n: how many faults there
 * were. 0; or a negative errno where some thread can't be sampled, so that they are not all.
 */
int faults_take(struct faults *faults,
		void (*each)(void *user, uint64_t address, uint64_t weight), void *user,
		uint64_t *ret_n);
void faults_close(struct faults *faults);

/* ---- output (top_print.c) ---- */

struct top_row {
	const struct top_process *process;
	const struct top_buffer *buffer; /* NULL: the range, or the process itself */
	const struct top_range *range;   /* NULL: the buffer, or the process */
};

/* All that the filter lets through, in order: free() it. */
struct top_row *top_rows(const struct top *top, size_t *ret_n);
void top_print_head(const struct top *top, FILE *out);
void top_print_columns(const struct top *top, FILE *out);
/* @width 0: as long as it is. Without a newline. */
void top_print_row(const struct top *top, const struct top_row *row, size_t width, FILE *out);
/* The unknown figures, with reasons; free() each but the array, whose end is NULL. */
#define TOP_NOTES_MOST 8
void top_notes(const struct top *top, char *notes[TOP_NOTES_MOST + 1]);
json_t *top_json(const struct top *top);

/* ---- moves between tiers of memory (top_tiering.c) ---- */

/* Reads the figures that the process publishes; has_tiering: there are some. */
void tiering_look(struct top_process *process);
/* One sentence: the moved bytes, and the reason for the last move; free() it. */
char *tiering_note(const struct top_process *process);
json_t *tiering_json(const struct top_process *process);

/* ---- on a terminal (top_screen.c) ---- */

/* Until q, a signal, or @iterations; 0: none of these. An exit status. */
int top_screen(struct top *top, uint64_t iterations);

#endif
