// SPDX-License-Identifier: MIT
/* hetmap inspect of tables: shows them, for people or as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "inspect_table.h"

#define NOTE_KEY 25
#define NOTE_VALUE 40
#define BOUND 23
#define MORE 11 /* column of a second line */

/* ---- for people ---- */

/* "1,234", or "?" where it is not known. */
static const char *count_text(uint64_t count, char text[TEXT_MAX])
{
	if (count == HM_TABLE_UNKNOWN)
		return "?";
	return text_count(count, text);
}

/* As much as @columns have room for. free() it. */
static char *cut(const char *text, size_t length, size_t columns)
{
	char *whole = text_format("%.*s", (int)length, text), *shown = text_escape(whole);
	size_t n = 0, used = 0;
	char *result;

	for (; shown[n] && used < columns; used++)
		for (n++; ((unsigned char)shown[n] & 0xc0) == 0x80; n++)
			;
	result = text_format("%.*s%s", (int)n, shown, shown[n] ? "..." : "");
	free(shown);
	free(whole);
	return result;
}

static void print_notes(const struct inspected_table *table)
{
	const char *at = table->schema.metadata;
	struct note note;
	char *key, *value;
	int32_t left = 0;

	if (!at)
		return;
	memcpy(&left, at, 4);
	at += 4;
	while (note_next(&at, &left, &note)) {
		key = cut(note.key, (size_t)note.key_length, NOTE_KEY);
		value = cut(note.value, (size_t)note.value_length, NOTE_VALUE);
		printf("  %s: %s\n", key, value);
		free(key);
		free(value);
	}
}

static int print_files(const struct inspected_table *table, uint64_t rows)
{
	struct hm_table_file_info file = { .struct_size = sizeof(file) };
	uint32_t n = rows && rows < table->info.files ? (uint32_t)rows : table->info.files, i;
	char size[TEXT_MAX], groups[TEXT_MAX], count[TEXT_MAX];
	char *shown, *creator;
	int r = 0;

	for (i = 0; i < n; i++) {
		r = hm_table_file(table->table, i, &file);
		if (r)
			return r;
		shown = text_escape(file.path);
		creator = cut(file.creator, strlen(file.creator), NOTE_VALUE);
		printf("\n%s\n  %s, %s, %s row%s in %s group%s%s%s\n", shown,
		       hm_table_format_name(file.format), text_bytes(file.size, size),
		       count_text(file.rows, count), file.rows == 1 ? "" : "s",
		       text_count(file.groups, groups), file.groups == 1 ? "" : "s",
		       *creator ? ", by " : "", creator);
		printf("  %s: ", file.map ? "mapped" : "read, not mapped");
		text_wrap(file.why, file.map ? 10 : 20, 4, 79);
		free(creator);
		free(shown);
	}
	if (n < table->info.files)
		printf("... and %s more files (-n 0 shows all)\n",
		       text_count(table->info.files - n, count));
	return 0;
}

static const char *place_of(const struct stored_column *column)
{
	if (!column->parts)
		return "-";
	if (column->parts_in_place == column->parts)
		return "in place";
	return column->parts_in_place ? "both" : "decoded";
}

/* "1 to 99"; nothing where the statistics don't tell. */
static char *bounds_text(const struct stored_column *column)
{
	char *min, *max, *text;

	if (column->no_bounds || !column->min || !column->max)
		return text_format("%s", "");
	min = cut(column->min, strlen(column->min), BOUND);
	max = cut(column->max, strlen(column->max), BOUND);
	text = text_format("%s to %s", min, max);
	free(min);
	free(max);
	return text;
}

static void print_column(const struct stored_column *column)
{
	char stored[TEXT_MAX], plain[TEXT_MAX], nulls[TEXT_MAX];
	char *name = text_escape(column->about.name), *bounds = bounds_text(column), *more;

	printf("  %-8s %9s %9s  %-12s %7s  %-16s %s\n", place_of(column),
	       text_bytes(column->stored, stored), text_bytes(column->plain, plain),
	       column->codecs ? "several" : column->codec, count_text(column->nulls, nulls),
	       column->about.type_text, *name ? name : "''");
	if (*column->encodings || *bounds) {
		more = text_format("%s%s%s", column->encodings,
				   *column->encodings && *bounds ? "; " : "", bounds);
		printf("%*s", MORE, "");
		text_wrap(more, MORE, MORE, 79);
		free(more);
	}
	free(bounds);
	free(name);
}

static void print_columns(const struct inspected_table *table, uint64_t rows)
{
	uint32_t n = rows && rows < table->info.columns ? (uint32_t)rows : table->info.columns;
	char count[TEXT_MAX];
	uint32_t i;

	if (n)
		printf("\n  %-8s %9s %9s  %-12s %7s  %-16s %s\n", "place", "stored", "plain",
		       "codec", "nulls", "type", "column");
	for (i = 0; i < n; i++)
		print_column(&table->column[i]);
	if (n < table->info.columns)
		printf("  ... and %s more columns (-n 0 shows all)\n",
		       text_count(table->info.columns - n, count));
}

static int print_groups(const struct inspected_table *table, uint64_t rows)
{
	struct hm_table_group_info group = { .struct_size = sizeof(group) };
	uint64_t n = rows && rows < table->info.groups ? rows : table->info.groups, i;
	char count[TEXT_MAX], first[TEXT_MAX], stored[TEXT_MAX], plain[TEXT_MAX];
	int r;

	if (n)
		printf("\n  %8s %6s %14s %14s %9s %9s\n", "group", "file", "first row", "rows",
		       "stored", "plain");
	for (i = 0; i < n; i++) {
		r = hm_table_group(table->table, i, &group);
		if (r)
			return r;
		printf("  %8" PRIu64 " %6u %14s %14s %9s %9s\n", i, group.file,
		       count_text(group.first_row, first), count_text(group.rows, count),
		       text_bytes(group.stored, stored), text_bytes(group.plain, plain));
	}
	if (n < table->info.groups)
		printf("  ... and %s more groups (-n 0 shows all)\n",
		       text_count(table->info.groups - n, count));
	return 0;
}

static void print_reasons(const struct inspected_table *table)
{
	char bytes[TEXT_MAX], parts[TEXT_MAX];
	const struct reason *reason;
	char *text;
	uint32_t i;

	if (table->n_reason) {
		putchar('\n');
		puts("In place");
	}
	for (i = 0; i < table->n_reason; i++) {
		reason = &table->reason[i];
		text = text_format(
			"%s of %s part%s of columns %s: %s", text_bytes(reason->stored, bytes),
			text_count(reason->parts, parts), reason->parts == 1 ? "" : "s",
			reason->in_place ? "used where they lie" : "not used where they lie",
			reason->why);
		fputs("  ", stdout);
		text_wrap(text, 2, 4, 79);
		free(text);
	}
}

static int print(const struct inspected_table *table, uint64_t rows)
{
	char *shown = text_files(table->paths, table->n_path);
	char count[TEXT_MAX], groups[TEXT_MAX], bytes[TEXT_MAX];
	int r;

	printf("%s\n  %s: %s row%s of %u column%s in %s group%s, %s in %u file%s\n", shown,
	       hm_table_format_name(table->info.format), count_text(table->info.rows, count),
	       table->info.rows == 1 ? "" : "s", table->info.columns,
	       table->info.columns == 1 ? "" : "s", text_count(table->info.groups, groups),
	       table->info.groups == 1 ? "" : "s", text_bytes(table->info.stored, bytes),
	       table->info.files, table->info.files == 1 ? "" : "s");
	free(shown);
	print_notes(table);
	r = print_files(table, rows);
	if (r)
		return r;
	print_columns(table, rows);
	r = print_groups(table, rows);
	print_reasons(table);
	return r;
}

/* ---- as JSON ---- */

static json_t *number(uint64_t value)
{
	return value == HM_TABLE_UNKNOWN ? json_null() : json_integer((json_int_t)value);
}

static json_t *string(const char *text)
{
	char *shown = text ? text_escape_json(text) : NULL;
	json_t *json = shown ? json_string(shown) : json_null();

	free(shown);
	return json;
}

static json_t *note_text(const char *text, int32_t length)
{
	char *whole = text_format("%.*s", (int)length, text);
	json_t *json = string(whole);

	free(whole);
	return json;
}

static json_t *notes_json(const struct inspected_table *table)
{
	const char *at = table->schema.metadata;
	json_t *array = json_array();
	struct note note;
	int32_t left = 0;

	if (!at)
		return array;
	memcpy(&left, at, 4);
	at += 4;
	while (note_next(&at, &left, &note))
		json_array_append_new(array,
				      json_pack("{s:o, s:o}", "key",
						note_text(note.key, note.key_length), "value",
						note_text(note.value, note.value_length)));
	return array;
}

static int files_json(const struct inspected_table *table, json_t *array)
{
	struct hm_table_file_info file = { .struct_size = sizeof(file) };
	uint32_t i;
	int r = 0;

	for (i = 0; i < table->info.files; i++) {
		r = hm_table_file(table->table, i, &file);
		if (r)
			return r;
		json_array_append_new(array,
				      json_pack("{s:o, s:s, s:o, s:o, s:o, s:b, s:s, s:o}",
						"path", string(file.path), "format",
						hm_table_format_name(file.format), "size",
						number(file.size), "rows", number(file.rows),
						"row_groups", number(file.groups), "mapped",
						file.map != NULL, "why", file.why, "creator",
						string(file.creator)));
	}
	return 0;
}

static json_t *column_json(const struct stored_column *column)
{
	bool bounds = !column->no_bounds && column->min && column->max;

	return json_pack("{s:o, s:s, s:s, s:b, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}",
			 "name", string(column->about.name), "type", column->about.type_text,
			 "format", column->about.format, "nullable", (int)column->nullable,
			 "place", place_of(column), "why", column->why, "codec",
			 column->codecs ? "several" : column->codec, "encodings",
			 column->encodings, "stored", number(column->stored), "plain",
			 number(column->plain), "nulls", number(column->nulls), "min",
			 bounds ? string(column->min) : json_null(), "max",
			 bounds ? string(column->max) : json_null());
}

static json_t *part_json(const struct hm_table_stored_info *part)
{
	return json_pack("{s:b, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "in_place",
			 (int)part->in_place, "why", part->why, "codec", part->codec,
			 "encodings", part->encodings, "stored", number(part->stored), "plain",
			 number(part->plain), "nulls", number(part->nulls), "values",
			 number(part->values), "min", string(part->min), "max",
			 string(part->max));
}

static int group_json(const struct inspected_table *table, uint64_t index, json_t *array)
{
	struct hm_table_group_info group = { .struct_size = sizeof(group) };
	struct hm_table_stored_info part = { .struct_size = sizeof(part) };
	json_t *parts = json_array();
	uint32_t i;
	int r;

	r = hm_table_group(table->table, index, &group);
	for (i = 0; !r && i < table->info.columns; i++) {
		r = hm_table_stored(table->table, index, i, &part);
		if (!r)
			json_array_append_new(parts, part_json(&part));
	}
	json_array_append_new(
		array, json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "file", (int)group.file,
				 "first_row", number(group.first_row), "rows",
				 number(group.rows), "stored", number(group.stored), "plain",
				 number(group.plain), "columns", parts));
	return r;
}

static int print_json(const struct inspected_table *table)
{
	json_t *object = json_object(), *files = json_array(), *columns = json_array();
	json_t *groups = json_array();
	uint64_t i;
	int r;

	r = files_json(table, files);
	for (i = 0; i < table->info.columns; i++)
		json_array_append_new(columns, column_json(&table->column[i]));
	for (i = 0; !r && i < table->info.groups; i++)
		r = group_json(table, i, groups);
	json_object_set_new(object, "kind",
			    json_string(hm_table_format_name(table->info.format)));
	json_object_set_new(object, "rows", number(table->info.rows));
	json_object_set_new(object, "bytes", number(table->info.stored));
	json_object_set_new(object, "metadata", notes_json(table));
	json_object_set_new(object, "files", files);
	json_object_set_new(object, "columns", columns);
	json_object_set_new(object, "row_groups", groups);
	if (r)
		json_decref(object);
	else
		output_object(object);
	return r;
}

int inspect_table_show(struct inspected_table *table, uint64_t rows)
{
	int r = output.json ? print_json(table) : print(table, rows);

	return r ? table_failed(r, "cannot describe the table") : 0;
}
