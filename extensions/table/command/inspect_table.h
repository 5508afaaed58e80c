/* SPDX-License-Identifier: MIT */
/* hetmap inspect: tables, as they are stored. */
#ifndef HETMAP_INSPECT_TABLE_H
#define HETMAP_INSPECT_TABLE_H

#include <hetmap/table.h>

#include "table_job.h"

/* A reason for a place, and how much of the table it is for. */
struct reason {
	char why[128];
	bool in_place;
	uint64_t parts; /* parts of columns in groups */
	uint64_t stored;
};

/* A column over all groups. */
struct stored_column {
	struct job_column about;
	bool nullable;
	uint64_t stored, plain;
	uint64_t nulls; /* HM_TABLE_UNKNOWN: not told for all */
	uint64_t parts, parts_in_place;
	char codec[32], encodings[96], why[128]; /* of the first part */
	bool codecs, reasons;                    /* other parts have others */
	char *min, *max;                         /* NULL: not told for all */
	bool no_bounds;                          /* a part has none */
};

struct inspected_table {
	const char *const *paths;
	uint32_t n_path;
	struct hm_table *table;
	struct hm_table_info info;
	struct ArrowSchema schema;
	struct stored_column *column;
	struct reason *reason;
	uint32_t n_reason;
};

/* A note of the files' own: key and value, not terminated. */
struct note {
	const char *key, *value;
	int32_t key_length, value_length;
};

/* The next note behind *@at, which begins with schema->metadata. False: there is none. */
bool note_next(const char **at, int32_t *left, struct note *ret_note);

/* Shows at most @rows columns, and as many groups; 0: all. JSON has all. An exit status. */
int inspect_table_show(struct inspected_table *table, uint64_t rows);

int inspect_table_main(int argc, char **argv);

#endif
