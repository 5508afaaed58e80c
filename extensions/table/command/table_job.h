/* SPDX-License-Identifier: MIT */
/* hetmap run table: shared by its steps. */
#ifndef HETMAP_TABLE_JOB_H
#define HETMAP_TABLE_JOB_H

#include <hetmap/table.h>

#include "arena.h"
#include "hetmap/job.h"
#include "keys.h"
#include "sum.h"
#include "types.h"

/* Columns that are added up without --columns, and with. */
#define VALUES_CHOSEN 4
#define VALUES_MOST 64
/* Memory of a table that is too large for all of it at once. */
#define WINDOW_CHOSEN (256ull << 20)

struct table_options {
	const char **files;
	uint32_t n_files;
	const char *device;    /* NULL: the default */
	const char *accel;     /* NULL: likewise */
	const char *columns;   /* "A,B"; NULL: chosen by their types */
	const char *group_by;  /* NULL: chosen; "": no key */
	const char *filter;    /* "COLUMN>=VALUE"; NULL: none */
	const char *separator; /* of CSV; NULL: a comma */
	uint64_t window;       /* 0: all of the table at once */
	uint64_t threads;      /* 0: the library chooses */
	uint64_t rounds;       /* 0: job_measure() chooses */
	uint64_t rows;         /* rows of the printed result; 0: all */
	bool no_header;        /* of CSV */
	bool whole;            /* of CSV: types of all rows */
};

/* A column that the job uses. */
struct job_column {
	char *name;
	char *type_text;         /* as the library names it */
	struct column_type type; /* of the values, for dictionaries, too */
	enum sum_type index;     /* type of indices; SUM_NONE: no dictionary */
	char *format;            /* that type.format points to */
	uint32_t number;         /* in the opened table */

	/* Cost of all of it, once it was used. */
	uint64_t chunks, chunks_in_place, placed, decoded, nulls;
	char why[128]; /* of the first chunk, in a few words */
	bool mixed;    /* other chunks have other reasons */
};

/* Columns by their part in the job, as numbers of table_job.column; -1: none. */
struct plan {
	int key;
	int filter;
	uint32_t value[VALUES_MOST];
	uint32_t n_value;
	bool key_chosen;             /* not named by the user */
	uint32_t n_number;           /* numeric columns that there are */
	struct sum_filter test;      /* of a filter by a number */
	struct hm_table_filter skip; /* for the library */
	char *filter_column, *filter_value;
};

/* Rows that are consecutive in memory in each column. */
struct slice {
	uint64_t first_row, rows;
	struct hm_table_chunk *chunk; /* of each column; offset is that of the slice */
	struct sum_keys key;
	struct sum_column filtered; /* of the plan's filter */
	struct sum_filter test;     /* likewise */
};

/* Sums of a column, from all parts and slices: [0] of rows without a key, [g + 1] of group g. */
struct totals {
	union sum_limit *sums;
	uint64_t *counts;
};

struct table_job {
	const struct table_options *options;
	struct job job;
	struct job_options job_options;
	struct hm_device *device; /* of decoded columns and the job's own memory */
	struct hm_table *table;
	struct hm_table_info info;
	struct job_column *column;
	uint32_t n_column;
	struct plan plan;
	uint32_t columns_of_files; /* all of them */
	bool all_parquet;

	/* Without a window: all columns and slices. */
	struct hm_column **ready;
	struct slice *slice;
	uint64_t n_slice;
	uint64_t rows; /* of all slices */

	struct arena arena; /* numbers of groups, and results of the filter */
	struct keys keys;
	struct sum_kernels *kernels;
	void *nothing; /* for the kernel's missing columns */

	/* Tables of a launch, for groups_room groups and parts_room parts. */
	struct sum_tables tables;
	uint64_t cells_room;

	struct totals *totals; /* for each value, and of rows behind them */
	uint32_t groups_room;  /* of the totals, the last one for rows without a key included */

	/* Time, and bytes that a pass reads. */
	double decode_seconds, key_seconds, check_seconds;
	uint64_t bytes;
	uint64_t checksum; /* of the totals of the first pass */
	bool passed;
	uint64_t batches; /* with a window */
	uint64_t window, window_peak, window_rows;
	bool streamed;
	int watched; /* descriptor of the first file, while SIGBUS on columns is told; or -1 */
};

/* Functions that return an exit status have told of a failure already. */

/* ---- plan.c ---- */

/* Opens the files, chooses the columns and the filter: an exit status. */
int plan_make(struct table_job *job);
void plan_end(struct table_job *job);
/* A failure of the library with files and columns. */
int table_failed(int r, const char *what);
/* The type that a column has in the C data interface; see struct job_column. */
int column_learn(struct hm_table *table, uint32_t number, struct job_column *column);
void column_forget(struct job_column *column);

/* ---- slices.c ---- */

/* Makes all columns ready, and finds the slices. -EFBIG is returned, and told by no one. */
int slices_make(struct table_job *job, int *ret_status);
void slices_free(struct table_job *job);
/* The kernel's view of a chunk's values. */
struct sum_column slice_column(const struct table_job *job, const struct slice *slice,
			       uint32_t column);
/* Adds a chunk to the cost of its column. */
void column_count(struct job_column *column, const struct hm_table_chunk *chunk);

/* ---- filter.c ---- */

/* Finds, for a slice, the column that the kernel compares; texts are compared here. */
int filter_bind(struct table_job *job, struct slice *slice);

/* ---- compute.c ---- */

/* Room in the totals and the tables for the groups that there are now. */
int compute_prepare(struct table_job *job, uint64_t rows);
/* The launch of a slice for a value; for n_value: of its rows. */
struct sum_launch compute_launch(const struct table_job *job, const struct slice *slice,
				 uint32_t value);
/* Adds all slices to the totals, by @side. */
int compute_slices(struct table_job *job, struct job_side *side, struct job_pass *ret_pass);
void compute_clear(struct table_job *job);
/* Bytes that a pass over the slices reads. */
uint64_t compute_bytes(const struct table_job *job);
/* A checksum of the totals' bits. */
uint64_t compute_checksum(const struct table_job *job);
void compute_end(struct table_job *job);

/* ---- check.c ---- */

/* Sums by the CPU alone, in a way of its own. */
struct check;
int check_begin(struct table_job *job, struct check **ret_check);
/* Adds the slices that are there now. */
int check_slices(struct check *check);
/* Compares with the totals: an exit status. */
int check_compare(struct check *check);
void check_end(struct check *check);

/* ---- stream.c ---- */

/* All of the job with a window. */
int stream_run(struct table_job *job);

/* ---- report.c ---- */

void report_table(struct table_job *job);

/* ---- run.c ---- */

/* Builds the kernels of the first slice, and watches the files from then on: once. */
int table_build(struct table_job *job);

int table_run(const struct table_options *options);

#endif
