/* SPDX-License-Identifier: MIT */
/* hetmap stat: the figures of the repetitions of a command. */
#ifndef HETMAP_PERF_STAT_H
#define HETMAP_PERF_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Of one figure over the repetitions, taken in one at a time (Welford). */
struct stat_figure {
	unsigned int n;
	double mean, squares; /* sum of the squared differences to the mean */
	double least, most;
};

enum stat_id {
	STAT_WALL,
	STAT_USER,
	STAT_SYSTEM,
	STAT_TASK_CLOCK,
	STAT_SWITCHES,
	STAT_MIGRATIONS,
	STAT_MINOR,
	STAT_MAJOR,
	STAT_DTLB_LOAD,
	STAT_DTLB_STORE,
	STAT_ITLB,
	STAT_RSS,
	STAT_PAGE_TABLES,
	N_STAT,
};

enum stat_unit { UNIT_SECONDS, UNIT_COUNT, UNIT_BYTES };

/* Who said it. */
enum stat_source {
	SOURCE_CLOCK,
	SOURCE_USAGE,     /* wait4(2) */
	SOURCE_PERF,      /* perf_event_open(2) */
	SOURCE_PERF_USER, /* the same, but for the kernel's part */
	SOURCE_LOOKS,     /* /proc/PID/status, looked at now and then */
};

struct stat_metric_info {
	const char *name;
	const char *key; /* in JSON */
	enum stat_unit unit;
};

extern const struct stat_metric_info stat_metrics[N_STAT];

struct stat_metric {
	struct stat_figure figure;
	enum stat_source source;
	double share;  /* the least share of the time that a counter ran */
	char why[128]; /* it was not counted in some repetition: the last reason */
};

/* A counter of /proc/vmstat. */
struct stat_row {
	char name[48];
	uint64_t last;
	struct stat_figure change;
};

struct stat_vmstat {
	struct stat_row *rows;
	size_t n;
	char why[128]; /* not read: why */
};

/* A zone of /proc/buddyinfo: free blocks of 1 page, 2, 4, ...; 0 beyond its largest. */
#define STAT_ORDERS_MAX 32

struct stat_zone {
	unsigned int node;
	char name[16];
	uint64_t blocks[STAT_ORDERS_MAX];
};

struct stat_free {
	struct stat_zone *zones;
	size_t n;
	char why[128]; /* not read: why */
};

struct stat_result {
	char *const *command; /* NULL ends */
	const char *root;     /* before /proc: "" but in tests */
	unsigned int asked;   /* repetitions */
	unsigned int runs;    /* those that were begun and ended */
	bool json, verbose;
	int status; /* to exit with */
	int signal; /* that ended the repetitions early, or 0 */
	struct stat_metric metrics[N_STAT];
	unsigned int looks;
	int refused;    /* perf_event_open(2): an errno, or 0 */
	bool user_only; /* it counts in user mode only */
	bool taken;     /* the kernel took counters away when the command executed */
	struct stat_vmstat vmstat;
	struct stat_free before, after;
};

/* ---- figures (stat_figure.c) ---- */

void figure_add(struct stat_figure *figure, double value);
/* The standard deviation of the repetitions; 0 of less than two. */
double figure_deviation(const struct stat_figure *figure);
/* @id was @value in this repetition; or it was not counted, and why. */
void stat_counted(struct stat_result *result, enum stat_id id, enum stat_source source,
		  double value);
void stat_missed(struct stat_result *result, enum stat_id id, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- one repetition (stat_run.c) ---- */

/* 0 when it may be repeated; else the failure was told and @result's status is set. */
int stat_run(struct stat_result *result);

/* ---- counters (stat_perf.c) ---- */

#define N_STAT_COUNTER 8

struct stat_counters {
	int fd[N_STAT_COUNTER]; /* or a negative errno */
	bool user_only[N_STAT_COUNTER];
};

/* Of @pid, from when it executes, and of all processes that it starts. */
void counters_open(struct stat_result *result, pid_t pid, struct stat_counters *ret_counters);
/*
 * Takes them in and closes them. @cpu_ns: the time on CPUs since it was let go, as wait4(2)
 * has it; counters that saw much less of it were taken away.
 */
void counters_close(struct stat_result *result, struct stat_counters *counters,
		    uint64_t cpu_ns);
/* Closes them, unread. */
void counters_drop(struct stat_counters *counters);

/* ---- files of /proc (stat_proc.c) ---- */

/* The number behind @field in the text of a file such as /proc/PID/status; 0: not there. */
uint64_t stat_field(const char *text, const char *field);
void vmstat_begin(struct stat_result *result);
void vmstat_end(struct stat_result *result);
void free_read(const struct stat_result *result, struct stat_free *ret_free);
/* In pages; and the share of it in blocks of at least @bytes, 0 when nothing is free. */
uint64_t free_pages(const struct stat_zone *zone);
double free_share(const struct stat_zone *zone, uint64_t bytes);
/* The kernel's unusable free space index in thousandths, as in mm/vmstat.c. */
unsigned int free_unusable(const struct stat_zone *zone, unsigned int order);

/* ---- the report (stat_report.c, stat_json.c) ---- */

void stat_print(const struct stat_result *result, FILE *out);
void stat_print_json(const struct stat_result *result, FILE *out);
/* The reason why counters were refused, the remedy first: free() it. NULL: none was. */
char *stat_refusal(const struct stat_result *result);

#endif
