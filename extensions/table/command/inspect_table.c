// SPDX-License-Identifier: MIT
/* hetmap inspect of tables: reads headers and footers, and adds up the facts of each column. */
#include "inspect_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"

#define ROWS 20

enum {
	OPTION_JSON,
	OPTION_ROWS,
	OPTION_QUIET,
	OPTION_HELP,
};

/* Those of hetmap inspect that tables have. */
static const struct option_row inspect_rows[] = {
	[OPTION_JSON] = OPTION_ROW_JSON("print all of it as JSON"),
	[OPTION_ROWS] = { 'n', "rows", "ROWS", "rows of the lists; 0: all (default: 20)" },
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

static void usage(void)
{
	puts("Usage: hetmap inspect [OPTION]... FILE...\n"
	     "\n"
	     "Describes a table in files of Arrow, Feather, Parquet or CSV: its columns, its row\n"
	     "groups, how they are stored, and which an accelerator can use in place. Reads none\n"
	     "of the rows, except the first ones of CSV. Several files are one table.\n"
	     "\n"
	     "Options:");
	option_help(inspect_rows);
	puts("\nSee also hetmap-inspect(1), hetmap-table(1).");
}

/* ---- adding up ---- */

static int add_reason(struct inspected_table *table, const struct hm_table_stored_info *part)
{
	struct reason *reason;
	uint32_t i;

	for (i = 0; i < table->n_reason; i++)
		if (table->reason[i].in_place == part->in_place &&
		    !strcmp(table->reason[i].why, part->why))
			break;
	if (i == table->n_reason) {
		reason = realloc(table->reason, (i + 1) * sizeof(*reason));
		if (!reason)
			return -ENOMEM;
		table->reason = reason;
		table->n_reason++;
		reason[i] = (struct reason){ .in_place = part->in_place };
		snprintf(reason[i].why, sizeof(reason[i].why), "%s", part->why);
	}
	table->reason[i].parts++;
	table->reason[i].stored += part->stored;
	return 0;
}

/* Is the value @a less than @b? Texts are compared by their bytes. */
static bool is_less(const struct column_type *type, const char *a, const char *b)
{
	union sum_limit x, y;

	if (type_value_parse(type, a, &x) || type_value_parse(type, b, &y))
		return strcmp(a, b) < 0;
	if (sum_type_is_float(type->sum))
		return x.f64 < y.f64;
	return type->sum == SUM_U64 ? x.u64 < y.u64 : x.i64 < y.i64;
}

static void take_bound(char **bound, const char *value)
{
	free(*bound);
	*bound = text_format("%s", value);
}

static void add_bounds(struct stored_column *column, const struct hm_table_stored_info *part)
{
	const struct column_type *type = &column->about.type;

	/* A part without a value has no bounds, and moves none. */
	if (part->values && part->nulls == part->values)
		return;
	if (!part->min || !part->max) {
		column->no_bounds = true;
		return;
	}
	if (!column->min || is_less(type, part->min, column->min))
		take_bound(&column->min, part->min);
	if (!column->max || is_less(type, column->max, part->max))
		take_bound(&column->max, part->max);
}

static void add_part(struct stored_column *column, const struct hm_table_stored_info *part)
{
	if (!column->parts) {
		snprintf(column->codec, sizeof(column->codec), "%s", part->codec);
		snprintf(column->encodings, sizeof(column->encodings), "%s", part->encodings);
		snprintf(column->why, sizeof(column->why), "%s", part->why);
	}
	column->codecs |= strcmp(column->codec, part->codec) != 0;
	column->reasons |= strcmp(column->why, part->why) != 0;
	column->parts++;
	column->parts_in_place += part->in_place;
	column->stored += part->stored;
	column->plain += part->plain;
	if (part->nulls == HM_TABLE_UNKNOWN)
		column->nulls = HM_TABLE_UNKNOWN;
	else if (column->nulls != HM_TABLE_UNKNOWN)
		column->nulls += part->nulls;
	add_bounds(column, part);
}

static int add_up(struct inspected_table *table)
{
	struct hm_table_stored_info part = { .struct_size = sizeof(part) };
	uint64_t group;
	uint32_t i;
	int r = 0;

	for (group = 0; group < table->info.groups; group++)
		for (i = 0; !r && i < table->info.columns; i++) {
			r = hm_table_stored(table->table, group, i, &part);
			if (!r) {
				add_part(&table->column[i], &part);
				r = add_reason(table, &part);
			}
		}
	return r;
}

static int learn(struct inspected_table *table)
{
	struct hm_table_field_info field = { .struct_size = sizeof(field) };
	uint32_t i;
	int r;

	table->info.struct_size = sizeof(table->info);
	r = hm_table_query(table->table, &table->info);
	if (!r)
		r = hm_table_schema(table->table, &table->schema);
	table->column = calloc((size_t)table->info.columns + 1, sizeof(*table->column));
	if (!table->column)
		return -ENOMEM;
	for (i = 0; !r && i < table->info.columns; i++) {
		r = hm_table_field(table->table, i, &field);
		if (!r)
			r = column_learn(table->table, i, &table->column[i].about);
		table->column[i].nullable = field.nullable;
	}
	return r ? r : add_up(table);
}

static void end(struct inspected_table *table)
{
	uint32_t i;

	for (i = 0; table->column && i < table->info.columns; i++) {
		column_forget(&table->column[i].about);
		free(table->column[i].min);
		free(table->column[i].max);
	}
	free(table->column);
	free(table->reason);
	if (table->schema.release)
		table->schema.release(&table->schema);
	hm_table_unref(table->table);
}

static int inspect(const char *const *paths, uint32_t n_path, uint64_t rows)
{
	struct inspected_table table = { .paths = paths, .n_path = n_path };
	int r, status;

	r = hm_table_open(paths, n_path, NULL, &table.table);
	if (r)
		return table_failed(r, "cannot open the table");
	if (*hm_warning())
		remark("%s", hm_warning());
	r = learn(&table);
	status = r ? table_failed(r, "cannot describe the table") :
		     inspect_table_show(&table, rows);
	end(&table);
	return status;
}

/* ---- notes ---- */

/* Numbers of 32 bits in this machine's order, and texts [Arrow, The Arrow C data interface]. */
bool note_next(const char **at, int32_t *left, struct note *ret_note)
{
	if (*left <= 0)
		return false;
	(*left)--;
	memcpy(&ret_note->key_length, *at, 4);
	ret_note->key = *at + 4;
	*at += 4 + ret_note->key_length;
	memcpy(&ret_note->value_length, *at, 4);
	ret_note->value = *at + 4;
	*at += 4 + ret_note->value_length;
	return true;
}

/* ---- options ---- */

struct given {
	const char **paths;
	uint32_t n_path;
	uint64_t rows;
};

/* --rows, the only one of its own. */
static int take_rows(const struct option_state *state, int option, void *user)
{
	struct given *given = user;

	return option_number(state->value, 0, UINT32_MAX, &given->rows) ?
		       option_refuse(state, option, "a number from 0 on") :
		       0;
}

static int take_path(const struct option_state *state, void *user)
{
	struct given *given = user;

	given->paths[given->n_path++] = state->value;
	return 0;
}

static int take_options(int argc, char **argv, const char **paths)
{
	static const struct option_table table = {
		.command = "inspect",
		.rows = inspect_rows,
		.usage = usage,
		.option = take_rows,
		.argument = take_path,
	};
	struct given given = { .paths = paths, .rows = ROWS };
	int status;

	if (!option_walk(&table, argc, argv, &given, &status))
		return status;
	if (!given.n_path)
		return fail(STATUS_USAGE, EINVAL, "hetmap inspect FILE",
			    "inspect: no file was named");
	return inspect(given.paths, given.n_path, given.rows);
}

int inspect_table_main(int argc, char **argv)
{
	const char **paths = calloc((size_t)argc + 1, sizeof(*paths));
	int status;

	if (!paths)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory");
	status = take_options(argc, argv, paths);
	free(paths);
	return status;
}
