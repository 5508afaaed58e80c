// SPDX-License-Identifier: MIT
/* Output of hetmap run table: the choices, the cost, and the sums. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "table_job.h"

#define LABEL 15
#define WIDTH 79
#define KEY_WIDTH 13
#define SUM_WIDTH 12
#define LONG_SUM 100000000000ll /* has one digit more than there is room for, with a sign */

static void line(const char *label, char *text)
{
	printf("  %-13s", label);
	text_wrap(text, LABEL, LABEL, WIDTH);
	free(text);
}

/* The text is dropped, and a longer one made. */
static char *join(char *text, const char *between, char *more)
{
	char *longer = text_format("%s%s%s", text, *text ? between : "", more);

	free(text);
	free(more);
	return longer;
}

/* ---- choices ---- */

static const char *format_of(const struct table_job *job)
{
	const char *name = hm_table_format_name(job->info.format);

	return name ? name : "unknown";
}

static char *names_of_values(const struct table_job *job)
{
	char *text = text_format("%s", ""), *shown;
	uint32_t i;

	for (i = 0; i < job->plan.n_value; i++) {
		shown = text_escape(job->column[job->plan.value[i]].name);
		text = join(text, ", ",
			    text_format("%s (%s)", shown,
					job->column[job->plan.value[i]].type_text));
		free(shown);
	}
	return text;
}

static void print_key(const struct table_job *job)
{
	char *shown, count[TEXT_MAX];

	if (job->plan.key < 0) {
		line("key", text_format("none: all rows are one group"));
		return;
	}
	shown = text_escape(job->column[job->plan.key].name);
	line("key",
	     text_format("%s (%s), %s value%s%s", shown, job->column[job->plan.key].type_text,
			 text_count(job->keys.set.n, count), job->keys.set.n == 1 ? "" : "s",
			 job->plan.key_chosen ? "; chosen by its type, --group-by names "
						"another" :
						""));
	free(shown);
}

static void print_values(const struct table_job *job)
{
	char *names = names_of_values(job);

	if (!job->plan.n_value)
		line("values", text_format("none: rows are counted"));
	else if (!job->options->columns && job->plan.n_number > job->plan.n_value)
		line("values",
		     text_format("%s; the first %u of %u columns of numbers, --columns "
				 "names others",
				 names, job->plan.n_value, job->plan.n_number));
	else
		line("values", text_format("%s", names));
	free(names);
}

static void print_filter(const struct table_job *job)
{
	char *shown, groups[TEXT_MAX], skipped[TEXT_MAX];

	if (job->plan.filter < 0)
		return;
	shown = text_escape(job->options->filter);
	line("filter", text_format("%s: %s of %s row group%s skipped by their statistics",
				   shown, text_count(job->info.skipped, skipped),
				   text_count(job->info.groups, groups),
				   job->info.groups == 1 ? "" : "s"));
	free(shown);
}

/* ---- cost ---- */

static void print_columns(const struct table_job *job)
{
	const struct job_column *column;
	char *name, *text;
	uint32_t i;

	for (i = 0; i < job->n_column; i++) {
		column = &job->column[i];
		name = text_escape(column->name);
		text = text_format("%s: %s%s%s", name,
				   !column->chunks          ? "no rows" :
				   !column->chunks_in_place ? "" :
				   column->chunks_in_place == column->chunks ?
							      "in place: " :
							      "in place and decoded: ",
				   column->why, column->mixed ? ", and other reasons" : "");
		line(i ? "" : "columns", text);
		free(name);
	}
}

static void print_bytes(const struct table_job *job)
{
	char placed[TEXT_MAX], decoded[TEXT_MAX], read[TEXT_MAX], copied[TEXT_MAX];
	char seconds[TEXT_MAX], keys[TEXT_MAX], made[TEXT_MAX];

	line("bytes", text_format("%s used where they lie, %s decoded; %s of the files read",
				  text_bytes(job->info.bytes_placed, placed),
				  text_bytes(job->info.bytes_decoded, decoded),
				  text_bytes(job->info.bytes_read, read)));
	if (job->info.bytes_decoded)
		line("decoding",
		     text_format("%s by %u thread%s",
				 text_seconds(job->decode_seconds, seconds), job->info.threads,
				 job->info.threads == 1 ? "" : "s"));
	if (job->arena.taken)
		line("groups",
		     text_format("%s of numbers that the CPU made for the rows' keys, "
				 "in %s",
				 text_bytes(job->arena.taken, made),
				 text_seconds(job->key_seconds, keys)));
	line("bytes copied",
	     text_format("%s by the launches", text_count(job->job.pass.bytes_copied, copied)));
	if (job->job.reason)
		line("", text_format("%s", job->job.reason));
}

/* "2.1 ms in place (8.4 GB/s)" */
static char *time_text(double seconds, uint64_t bytes, const char *how)
{
	char time[TEXT_MAX], rate[TEXT_MAX];

	text_seconds(seconds, time);
	/* The rate of a few bytes means nothing. */
	if (bytes >= 1 << 20 && seconds > 0)
		return text_format("%s %s (%s)", time, how,
				   text_rate((double)bytes / seconds, rate));
	return text_format("%s %s", time, how);
}

static void print_times(const struct table_job *job)
{
	const char *how = job->job.pass.way_in == HM_WAY_COPY ? "by the pointer" : "in place";
	double fast = job->job.in_place.seconds, slow = job->job.copies.seconds;
	char with[TEXT_MAX], first[TEXT_MAX], decode[TEXT_MAX], window[TEXT_MAX];
	char peak[TEXT_MAX], batches[TEXT_MAX];

	line("time", time_text(fast, job->bytes, how));
	if (job->job.copies.accel && slow > 0)
		line("", text_format("%s with copies: %s takes %.2f of that",
				     text_seconds(slow, with), how, fast / slow));
	if (job->streamed) {
		line("", text_format("one pass of each, of which %s were waited for batches",
				     text_seconds(job->decode_seconds, decode)));
		line("window", text_format("%s, of which %s were used at most, for %s batches",
					   text_bytes(job->window, window),
					   text_bytes(job->window_peak, peak),
					   text_count(job->batches, batches)));
		return;
	}
	text_seconds(job->job.first_seconds, first);
	if (job->job.rounds > 1)
		line("",
		     text_format("median of %" PRIu64 " rounds%s, after a first pass of %s",
				 job->job.rounds,
				 job->job.copies.accel ? ", one of each in turn" : "", first));
	else
		line("", text_format("one round, after a first pass of %s", first));
}

/* ---- the sums ---- */

static void print_sum(const struct table_job *job, uint32_t value, uint32_t group)
{
	const union sum_limit *sum = &job->totals[value].sums[group];
	enum sum_type type = job->column[job->plan.value[value]].type.sum;

	if (!job->totals[value].counts[group])
		printf(" %*s", SUM_WIDTH, "-");
	else if (sum_type_is_float(type))
		printf(" %*.6g", SUM_WIDTH, sum->f64);
	else if (type == SUM_U64 ? sum->u64 >= LONG_SUM : llabs(sum->i64) >= LONG_SUM)
		printf(" %*.6g", SUM_WIDTH,
		       type == SUM_U64 ? (double)sum->u64 : (double)sum->i64);
	else
		printf(" %*" PRId64, SUM_WIDTH, sum->i64);
}

/* At most @width columns, the last of which shows that there is more. */
static void print_cell(const char *text, int width, bool left)
{
	size_t columns = text_columns(text), n = 0;
	int used = 0;

	for (; text[n] && used < (columns > (size_t)width ? width - 1 : width); used++)
		for (n++; ((unsigned char)text[n] & 0xc0) == 0x80; n++)
			;
	if (!left)
		printf("%*s", width - used - (text[n] ? 1 : 0), "");
	printf("%.*s%s", (int)n, text, text[n] ? "~" : "");
	if (left)
		printf("%*s", width - used - (text[n] ? 1 : 0), "");
}

static void print_head(const struct table_job *job, uint32_t shown)
{
	char *name = job->plan.key < 0 ? text_format("all rows") :
					 text_escape(job->column[job->plan.key].name);
	uint32_t i;

	printf("\n  ");
	print_cell(name, KEY_WIDTH, true);
	printf(" %11s", "rows");
	free(name);
	for (i = 0; i < shown; i++) {
		name = text_escape(job->column[job->plan.value[i]].name);
		putchar(' ');
		print_cell(name, SUM_WIDTH, false);
		free(name);
	}
	putchar('\n');
}

static void print_row(const struct table_job *job, uint32_t group, uint32_t shown,
		      const char *key)
{
	char count[TEXT_MAX];
	uint32_t i;

	printf("  ");
	print_cell(key, KEY_WIDTH, true);
	printf(" %11s", text_count(job->totals[job->plan.n_value].counts[group], count));
	for (i = 0; i < shown; i++)
		print_sum(job, i, group);
	putchar('\n');
}

static void print_sums(const struct table_job *job)
{
	uint32_t *order = job->plan.key < 0 ? NULL : keys_sorted(&job->keys);
	uint32_t n = job->plan.key < 0 ? 1 : job->keys.set.n, i, printed = 0, group;
	uint32_t shown = job->plan.n_value < VALUES_CHOSEN ? job->plan.n_value : VALUES_CHOSEN;
	uint64_t wanted = job->options->rows ? job->options->rows : UINT64_MAX, left = 0;
	char *key, count[TEXT_MAX];

	print_head(job, shown);
	for (i = 0; i < n; i++) {
		group = order ? order[i] : i;
		/* Between direct keys there may be some that no row has. */
		if (order && !job->totals[job->plan.n_value].counts[group + 1])
			continue;
		if (printed++ >= wanted) {
			left++;
			continue;
		}
		key = order ? key_shown(&job->keys, group, false) : text_format("sum");
		print_row(job, group + 1, shown, key);
		free(key);
	}
	if (job->totals[job->plan.n_value].counts[0])
		print_row(job, 0, shown, "(no key)");
	if (left)
		printf("  ... and %s more (-n 0 shows all)\n", text_count(left, count));
	if (shown < job->plan.n_value)
		printf("  (%u further columns are in --json)\n", job->plan.n_value - shown);
	free(order);
}

static void print_text(struct table_job *job)
{
	char *shown = text_files(job->options->files, job->options->n_files);
	char rows[TEXT_MAX], minor[TEXT_MAX], major[TEXT_MAX], groups[TEXT_MAX];

	printf("%s: %s, %s rows of %u column%s in %s group%s\n\n", shown, format_of(job),
	       text_count(job->rows, rows), job->columns_of_files,
	       job->columns_of_files == 1 ? "" : "s", text_count(job->info.groups, groups),
	       job->info.groups == 1 ? "" : "s");
	free(shown);
	print_key(job);
	print_values(job);
	print_filter(job);
	print_columns(job);
	print_bytes(job);
	line("device", text_format("%s, for decoded columns", job->job.device));
	line("accelerator", text_format("%s, %s", job->job.in_place.info.name,
					job->job.in_place.info.description));
	line("way in", text_format("%s", job_way_name(job->job.pass.way_in)));
	print_times(job);
	line("page faults", text_format("%s minor, %s major, in the first pass",
					text_count((uint64_t)job->job.minor, minor),
					text_count((uint64_t)job->job.major, major)));
	line("verified", text_format("every count and sum is the CPU's own%s",
				     job->totals ? "" : ": there are none"));
	if (job->totals)
		print_sums(job);
}

/* ---- as JSON ---- */

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *string(const char *text)
{
	char *shown = text_escape_json(text);
	json_t *json = json_string(shown);

	free(shown);
	return json;
}

/* JSON has no NaN and no infinity: null. */
static json_t *sum_json(const struct table_job *job, uint32_t value, uint32_t group)
{
	const union sum_limit *sum = &job->totals[value].sums[group];
	enum sum_type type = job->column[job->plan.value[value]].type.sum;

	if (!job->totals[value].counts[group])
		return json_null();
	if (sum_type_is_float(type))
		return isfinite(sum->f64) ? json_real(sum->f64) : json_null();
	return json_integer(sum->i64);
}

static json_t *group_json(const struct table_job *job, uint32_t group, json_t *key)
{
	json_t *object = json_object(), *sums = json_array(), *counts = json_array();
	uint32_t i;

	for (i = 0; i < job->plan.n_value; i++) {
		json_array_append_new(sums, sum_json(job, i, group));
		json_array_append_new(counts, number(job->totals[i].counts[group]));
	}
	json_object_set_new(object, "key", key);
	json_object_set_new(object, "rows",
			    number(job->totals[job->plan.n_value].counts[group]));
	json_object_set_new(object, "sums", sums);
	json_object_set_new(object, "values", counts);
	return object;
}

static json_t *groups_json(const struct table_job *job)
{
	uint32_t *order = job->plan.key < 0 ? NULL : keys_sorted(&job->keys);
	uint32_t n = job->plan.key < 0 ? 1 : job->keys.set.n, i, group;
	json_t *array = json_array();
	char *key;

	for (i = 0; job->totals && i < n; i++) {
		group = order ? order[i] : i;
		if (order && !job->totals[job->plan.n_value].counts[group + 1])
			continue;
		key = order ? key_shown(&job->keys, group, true) : NULL;
		json_array_append_new(array, group_json(job, group + 1,
							key ? json_string(key) : json_null()));
		free(key);
	}
	if (job->totals && job->totals[job->plan.n_value].counts[0])
		json_array_append_new(array, group_json(job, 0, json_null()));
	free(order);
	return array;
}

static json_t *columns_json(const struct table_job *job)
{
	const struct job_column *column;
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < job->n_column; i++) {
		column = &job->column[i];
		json_array_append_new(array,
				      json_pack("{s:o, s:s, s:I, s:I, s:I, s:s}", "name",
						string(column->name), "type", column->type_text,
						"chunks", (json_int_t)column->chunks,
						"chunks_in_place",
						(json_int_t)column->chunks_in_place, "nulls",
						(json_int_t)column->nulls, "why", column->why));
	}
	return array;
}

static json_t *name_json(const struct table_job *job, int column)
{
	return column < 0 ? json_null() : string(job->column[column].name);
}

static json_t *values_json(const struct table_job *job)
{
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < job->plan.n_value; i++)
		json_array_append_new(array, name_json(job, (int)job->plan.value[i]));
	return array;
}

static json_t *strings_json(const char *const *names, uint32_t n)
{
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < n; i++)
		json_array_append_new(array, string(names[i]));
	return array;
}

static void print_json(const struct table_job *job)
{
	json_t *object = json_object(), *seconds;

	json_object_set_new(object, "job", json_string("table"));
	json_object_set_new(object, "files",
			    strings_json(job->options->files, job->options->n_files));
	json_object_set_new(object, "format", json_string(format_of(job)));
	json_object_set_new(object, "rows", number(job->rows));
	json_object_set_new(object, "row_groups", number(job->info.groups));
	json_object_set_new(object, "row_groups_skipped", number(job->info.skipped));
	json_object_set_new(object, "key", name_json(job, job->plan.key));
	json_object_set_new(object, "values", values_json(job));
	json_object_set_new(object, "filter",
			    job->options->filter ? string(job->options->filter) : json_null());
	json_object_set_new(object, "columns", columns_json(job));
	job_json(&job->job, object);
	seconds = json_object_get(object, "seconds");
	json_object_set_new(seconds, "decode", json_real(job->decode_seconds));
	json_object_set_new(seconds, "groups", json_real(job->key_seconds));
	json_object_set_new(seconds, "check", json_real(job->check_seconds));
	json_object_set_new(object, "bytes_placed", number(job->info.bytes_placed));
	json_object_set_new(object, "bytes_decoded", number(job->info.bytes_decoded));
	json_object_set_new(object, "bytes_read", number(job->info.bytes_read));
	json_object_set_new(object, "bytes_summed", number(job->bytes));
	json_object_set_new(object, "bytes_made", number(job->arena.taken));
	json_object_set_new(object, "threads", number(job->info.threads));
	json_object_set_new(object, "window",
			    !job->streamed ? json_null() :
					     json_pack("{s:I, s:I, s:I}", "bytes",
						       (json_int_t)job->window, "peak",
						       (json_int_t)job->window_peak, "batches",
						       (json_int_t)job->batches));
	json_object_set_new(object, "groups", groups_json(job));
	json_object_set_new(object, "verified", json_true());
	output_exact(object, "groups");
}

void report_table(struct table_job *job)
{
	if (output.json)
		print_json(job);
	else
		print_text(job);
}
