// SPDX-License-Identifier: MIT
/* A run's rows, and each as a line of JSON. */
#include "bench_run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bench_row *bench_run_add(struct bench_run *run)
{
	struct bench_row *rows = realloc(run->rows, (run->n + 1) * sizeof(*rows));

	if (!rows)
		abort();
	run->rows = rows;
	rows[run->n] = (struct bench_row){ 0 };
	return &rows[run->n++];
}

const struct bench_row *bench_run_find(const struct bench_run *run, const char *bench,
				       const char *name)
{
	size_t i;

	for (i = 0; i < run->n; i++)
		if (!strcmp(run->rows[i].bench, bench) && !strcmp(run->rows[i].name, name))
			return &run->rows[i];
	return NULL;
}

static void row_free(struct bench_row *row)
{
	free(row->bench);
	free(row->name);
	free(row->skipped);
	free(row->note);
	free(row->unit);
	free(row->peer);
}

void bench_run_select(struct bench_run *run, bool (*wanted)(const char *bench))
{
	size_t i, kept = 0;

	for (i = 0; i < run->n; i++) {
		if (wanted(run->rows[i].bench))
			run->rows[kept++] = run->rows[i];
		else
			row_free(&run->rows[i]);
	}
	run->n = kept;
}

void bench_run_free(struct bench_run *run)
{
	size_t i;

	for (i = 0; i < run->n; i++)
		row_free(&run->rows[i]);
	free(run->rows);
	json_decref(run->machine);
	*run = (struct bench_run){ 0 };
}

char *bench_plain(char *text)
{
	char *at;

	for (at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = ' ';
	return text;
}

bool bench_row_met(const struct bench_row *row)
{
	return (row->kind == TARGET_RATIO ? row->ratio : row->value) <= row->target;
}

/* ---- to JSON ---- */

static json_t *interval_json(const struct bench_interval *interval)
{
	if (!bench_interval_known(interval))
		return json_null();
	return json_pack("[f, f]", interval->low, interval->high);
}

static json_t *dots_json(const struct bench_dots *dots)
{
	json_t *array = json_array();
	unsigned int i;

	for (i = 0; i < dots->n; i++)
		json_array_append_new(array, json_real(dots->at[i]));
	return array;
}

json_t *bench_row_json(const struct bench_row *row)
{
	json_t *line = json_pack("{s:s, s:s}", "bench", row->bench, "case", row->name);

	if (row->skipped) {
		json_object_set_new(line, "skipped", json_string(row->skipped));
		return line;
	}
	json_object_set_new(line, "unit", json_string(row->unit));
	json_object_set_new(line, "value", json_real(row->value));
	json_object_set_new(line, "p99", json_real(row->p99));
	json_object_set_new(line, "peer", json_string(row->peer));
	json_object_set_new(line, "peer_value", json_real(row->peer_value));
	json_object_set_new(line, "ratio", json_real(row->ratio));
	if (row->note)
		json_object_set_new(line, "note", json_string(row->note));
	if (row->kind != TARGET_NONE) {
		json_object_set_new(line,
				    row->kind == TARGET_RATIO ? "target_ratio" : "target_value",
				    json_real(row->target));
		json_object_set_new(line, "met", json_boolean(bench_row_met(row)));
	}
	if (!row->rounds)
		return line;
	json_object_set_new(line, "rounds", json_integer(row->rounds));
	json_object_set_new(line, "value_95", interval_json(&row->value_95));
	json_object_set_new(line, "peer_p99", json_real(row->peer_p99));
	json_object_set_new(line, "peer_value_95", interval_json(&row->peer_95));
	json_object_set_new(line, "ratio_95", interval_json(&row->ratio_95));
	json_object_set_new(line, "samples", dots_json(&row->ours_dots));
	json_object_set_new(line, "peer_samples", dots_json(&row->peer_dots));
	return line;
}

void bench_print_json(json_t *object)
{
	json_dumpf(object, stdout, JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(object);
}

/* ---- from JSON ---- */

/* Drawings and tables have no room for more, in whatever unit. */
static bool is_figure(double value)
{
	return fabs(value) < 1e15;
}

/* null: unknown; otherwise two numbers in order. */
static int interval_parse(json_t *json, struct bench_interval *ret_interval)
{
	double low, high;

	*ret_interval = (struct bench_interval){ NAN, NAN };
	if (json_is_null(json))
		return 0;
	if (json_unpack_ex(json, NULL, JSON_STRICT, "[F, F]", &low, &high) || low > high ||
	    !is_figure(low) || !is_figure(high))
		return -EINVAL;
	*ret_interval = (struct bench_interval){ low, high };
	return 0;
}

static int dots_parse(const json_t *array, struct bench_dots *dots)
{
	size_t i, n = json_array_size(array);

	if (!n || n > BENCH_DOTS)
		return -EINVAL;
	dots->n = (unsigned int)n;
	for (i = 0; i < n; i++) {
		const json_t *number = json_array_get(array, i);

		dots->at[i] = json_number_value(number);
		if (!json_is_number(number) || !is_figure(dots->at[i]) ||
		    (i && dots->at[i] < dots->at[i - 1]))
			return -EINVAL;
	}
	return 0;
}

static int rounds_parse(json_t *object, struct bench_row *row, char *why, size_t size)
{
	json_int_t rounds = json_integer_value(json_object_get(object, "rounds"));

	if (rounds < 1 || rounds > UINT32_MAX) {
		snprintf(why, size, "\"rounds\" is no number of rounds");
		return -EINVAL;
	}
	row->rounds = (unsigned int)rounds;
	row->peer_p99 = json_number_value(json_object_get(object, "peer_p99"));
	if (!is_figure(row->peer_p99)) {
		snprintf(why, size, "a figure is beyond all measure");
		return -EINVAL;
	}
	if (interval_parse(json_object_get(object, "value_95"), &row->value_95) ||
	    interval_parse(json_object_get(object, "peer_value_95"), &row->peer_95) ||
	    interval_parse(json_object_get(object, "ratio_95"), &row->ratio_95)) {
		snprintf(why, size, "an interval is not two numbers, the lesser one first");
		return -EINVAL;
	}
	if (dots_parse(json_object_get(object, "samples"), &row->ours_dots) ||
	    dots_parse(json_object_get(object, "peer_samples"), &row->peer_dots)) {
		snprintf(why, size, "samples are not 1 to %d numbers in order", BENCH_DOTS);
		return -EINVAL;
	}
	return 0;
}

static char *copy(const char *text)
{
	char *copied = strdup(text);

	if (!copied)
		abort();
	return bench_plain(copied);
}

/* "us", "KiB", "": it goes into every table. */
static bool is_unit(const char *text)
{
	const char *at = text;

	while (*at > ' ' && *at < 0x7f)
		at++;
	return !*at && at - text <= 8;
}

int bench_row_parse(json_t *object, struct bench_row *row, char *why, size_t size)
{
	const char *bench, *name, *skipped = NULL, *note = NULL, *unit, *peer;
	const json_t *ratio = json_object_get(object, "target_ratio");
	const json_t *value = json_object_get(object, "target_value");
	json_error_t error;

	if (json_unpack_ex(object, &error, 0, "{s:s, s:s, s?s, s?s}", "bench", &bench, "case",
			   &name, "skipped", &skipped, "note", &note)) {
		snprintf(why, size, "no case of a benchmark: %s", error.text);
		return -EINVAL;
	}
	row->bench = copy(bench);
	row->name = copy(name);
	if (note)
		row->note = copy(note);
	if (skipped) {
		row->skipped = copy(skipped);
		return 0;
	}
	if (json_unpack_ex(object, &error, 0, "{s:s, s:F, s:F, s:s, s:F, s:F}", "unit", &unit,
			   "value", &row->value, "p99", &row->p99, "peer", &peer, "peer_value",
			   &row->peer_value, "ratio", &row->ratio)) {
		snprintf(why, size, "not all figures of a case: %s", error.text);
		return -EINVAL;
	}
	if (!is_figure(row->value) || !is_figure(row->p99) || !is_figure(row->peer_value) ||
	    !is_figure(row->ratio) || !is_figure(json_number_value(ratio)) ||
	    !is_figure(json_number_value(value))) {
		snprintf(why, size, "a figure is beyond all measure");
		return -EINVAL;
	}
	if (!is_unit(unit)) {
		snprintf(why, size, "\"unit\" is none");
		return -EINVAL;
	}
	row->unit = copy(unit);
	row->peer = copy(peer);
	if (json_is_number(ratio) || json_is_number(value)) {
		row->kind = json_is_number(ratio) ? TARGET_RATIO : TARGET_VALUE;
		row->target = json_number_value(json_is_number(ratio) ? ratio : value);
	}
	return json_object_get(object, "rounds") ? rounds_parse(object, row, why, size) : 0;
}
