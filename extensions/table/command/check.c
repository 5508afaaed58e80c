// SPDX-License-Identifier: MIT
/*
 * hetmap run table: the sums once more, by the CPU, a row at a time: with keys of its own, exact
 * for integers, and for floats by compensated sums, which bound the error of the accelerator's.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "table_job.h"

#define AGAIN "if a program wrote to the file meanwhile: run it again when none does"

/* Neumaier's sum of a group's floats, and the sum of their sizes. */
struct exact {
	double sum, rest, sizes;
	__int128 integer;
	uint64_t count;
};

struct check {
	struct table_job *job;
	struct key_set set;
	struct exact **exact; /* for each value, and of rows: [0] without a key, then groups */
	uint32_t room;
	uint64_t wrapped; /* groups with sums that 64 bits don't hold */

	/* The last dictionary of a slice, and the group of each of its entries. */
	const struct ArrowArray *dictionary;
	uint32_t *entry;
};

/* ---- reading ---- */

static bool bit(const void *bits, uint64_t i)
{
	return ((const unsigned char *)bits)[i / 8] >> i % 8 & 1;
}

/* A float of a column, by the bits' meaning. */
static double real_of(enum sum_type type, const void *values, uint64_t i)
{
	uint16_t half;
	double value;
	float single;

	if (type == SUM_F64) {
		memcpy(&value, (const char *)values + i * 8, 8);
		return value;
	}
	if (type == SUM_F32) {
		memcpy(&single, (const char *)values + i * 4, 4);
		return (double)single;
	}
	memcpy(&half, (const char *)values + i * 2, 2);
	value = half & 0x3ff;
	if ((half >> 10 & 31) == 31)
		value = half & 0x3ff ? NAN : INFINITY;
	else if (half >> 10 & 31)
		value = ldexp(value + 1024, (half >> 10 & 31) - 25);
	else
		value = ldexp(value, -24);
	return half >> 15 ? -value : value;
}

static int add_key(struct check *check, const void *bytes, uint32_t length, uint32_t *ret_at)
{
	uint32_t group = 0;
	int r;

	r = key_set_add(&check->set, bytes, length, &group);
	*ret_at = group + 1;
	return r;
}

/* The place of a key in the sums; *@ret_at 0: there is none. */
static int element_key(struct check *check, const struct ArrowArray *array, uint64_t i,
		       uint32_t *ret_at)
{
	const struct job_column *column = &check->job->column[check->job->plan.key];
	uint32_t length;
	const char *text;
	int64_t number;

	*ret_at = 0;
	if (!key_is_there(array, i))
		return 0;
	if (column->type.layout) {
		text = key_text(column->type.layout, array, i, &length);
		return add_key(check, text, length, ret_at);
	}
	number = key_number(column->type.sum, array->buffers[1], (uint64_t)array->offset + i);
	return add_key(check, &number, sizeof(number), ret_at);
}

/* A dictionary's entries are looked up once, however many rows have them. */
static int learn_dictionary(struct check *check, const struct ArrowArray *dictionary)
{
	uint64_t n = (uint64_t)dictionary->length, i;
	int r = 0;

	free(check->entry);
	check->dictionary = NULL;
	check->entry = calloc(n + 1, sizeof(*check->entry));
	if (!check->entry)
		return -ENOMEM;
	for (i = 0; !r && i < n; i++)
		r = element_key(check, dictionary, i, &check->entry[i]);
	if (!r)
		check->dictionary = dictionary;
	return r;
}

static int row_key(struct check *check, const struct hm_table_chunk *chunk,
		   const struct ArrowArray *array, uint64_t i, uint32_t *ret_at)
{
	const struct job_column *column;
	uint64_t entry;

	*ret_at = check->job->plan.key < 0 ? 1 : 0;
	if (*ret_at)
		return 0;
	column = &check->job->column[check->job->plan.key];
	if (!column->index)
		return element_key(check, array, i, ret_at);
	if (!key_is_there(array, i))
		return 0;
	entry = (uint64_t)key_number(column->index, chunk->values, chunk->offset + i);
	if (entry < (uint64_t)chunk->dictionary->length)
		*ret_at = check->entry[entry];
	return 0;
}

/* Does the filter keep the row? By the file's own values, for numbers. */
static bool row_kept(const struct table_job *job, const struct slice *slice, uint64_t i)
{
	const struct sum_column *column = &slice->filtered;
	const struct sum_filter *test = &slice->test;
	bool less, equal, greater;
	int64_t number;
	double real;

	if (job->plan.filter < 0)
		return true;
	if (column->valid && !bit(column->valid, column->valid_first + i))
		return false;
	if (sum_type_is_float(column->type)) {
		real = real_of(column->type, column->values, column->first + i);
		less = real < test->limit.f64;
		equal = real == test->limit.f64;
		greater = real > test->limit.f64;
	} else {
		number = key_number(column->type, column->values, column->first + i);
		less = column->type == SUM_U64 ? (uint64_t)number < test->limit.u64 :
						 number < test->limit.i64;
		equal = number == test->limit.i64;
		greater = !less && !equal;
	}
	switch (test->compare) {
	case SUM_LT:
		return less;
	case SUM_LE:
		return less || equal;
	case SUM_EQ:
		return equal;
	case SUM_NE:
		return !equal;
	case SUM_GE:
		return greater || equal;
	default:
		return greater;
	}
}

/* ---- adding ---- */

static int grow(struct check *check)
{
	uint32_t wanted = check->set.n + 2, room = 2 * wanted, i;
	struct exact *exact;

	if (wanted <= check->room)
		return 0;
	for (i = 0; i <= check->job->plan.n_value; i++) {
		exact = realloc(check->exact[i], room * sizeof(*exact));
		if (!exact)
			return -ENOMEM;
		memset(exact + check->room, 0, (room - check->room) * sizeof(*exact));
		check->exact[i] = exact;
	}
	check->room = room;
	return 0;
}

static void add_real(struct exact *exact, double value)
{
	double sum = exact->sum + value;

	if (fabs(exact->sum) >= fabs(value))
		exact->rest += exact->sum - sum + value;
	else
		exact->rest += value - sum + exact->sum;
	exact->sum = sum;
	exact->sizes += fabs(value);
}

static void add_row(struct check *check, const struct slice *slice, uint64_t i, uint32_t at)
{
	const struct table_job *job = check->job;
	const struct hm_table_chunk *chunk;
	struct exact *exact;
	enum sum_type type;
	int64_t number;
	uint32_t v;

	check->exact[job->plan.n_value][at].count++;
	for (v = 0; v < job->plan.n_value; v++) {
		chunk = &slice->chunk[job->plan.value[v]];
		type = job->column[job->plan.value[v]].type.sum;
		exact = &check->exact[v][at];
		if (chunk->validity && !bit(chunk->validity, chunk->offset + i))
			continue;
		exact->count++;
		if (sum_type_is_float(type)) {
			add_real(exact, real_of(type, chunk->values, chunk->offset + i));
			continue;
		}
		number = key_number(type, chunk->values, chunk->offset + i);
		exact->integer += type == SUM_U64 ? (__int128)(uint64_t)number : number;
	}
}

static int check_slice(struct check *check, const struct slice *slice)
{
	const struct table_job *job = check->job;
	const struct hm_table_chunk *chunk = NULL;
	struct ArrowArray array = { 0 };
	uint32_t at;
	uint64_t i;
	int r = 0;

	if (job->plan.key >= 0) {
		chunk = &slice->chunk[job->plan.key];
		array = *chunk->array;
		array.offset = (int64_t)chunk->offset;
		if (chunk->dictionary && chunk->dictionary != check->dictionary)
			r = learn_dictionary(check, chunk->dictionary);
	}
	for (i = 0; !r && i < slice->rows; i++) {
		if (!row_kept(job, slice, i))
			continue;
		r = row_key(check, chunk, &array, i, &at);
		if (!r)
			r = grow(check);
		if (!r)
			add_row(check, slice, i, at);
	}
	progress_add(slice->rows);
	return r;
}

int check_slices(struct check *check)
{
	struct table_job *job = check->job;
	double begin = job_now();
	uint64_t i;
	int r = 0;

	for (i = 0; !r && i < job->n_slice; i++) {
		r = check_slice(check, &job->slice[i]);
		if (!r && signals_pending())
			return 128 + signals_pending();
	}
	/* The next batch may have another dictionary at the same address. */
	check->dictionary = NULL;
	job->check_seconds += job_now() - begin;
	return r ? fail(STATUS_ENVIRONMENT, r, NULL, "no memory to check the sums") : 0;
}

int check_begin(struct table_job *job, struct check **ret_check)
{
	struct check *check = calloc(1, sizeof(*check));
	int r = check ? 0 : -ENOMEM;

	if (check) {
		check->job = job;
		check->exact = calloc(job->plan.n_value + 1, sizeof(*check->exact));
		r = check->exact ? grow(check) : -ENOMEM;
	}
	if (r) {
		check_end(check);
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory to check the sums");
	}
	*ret_check = check;
	return 0;
}

void check_end(struct check *check)
{
	uint32_t i;

	if (!check)
		return;
	for (i = 0; check->exact && i <= check->job->plan.n_value; i++)
		free(check->exact[i]);
	free(check->exact);
	free(check->entry);
	key_set_end(&check->set);
	free(check);
}

/* ---- comparing ---- */

/*
 * A sum of n doubles in any order is off by at most n * 2^-53 of the sum of their sizes [Higham,
 * Accuracy and Stability of Numerical Algorithms, 4.2]; twice that, for both sides.
 */
static bool is_near(double sum, const struct exact *exact)
{
	double expected = exact->sum + exact->rest;

	if (isnan(exact->sum) || isinf(exact->sizes))
		return isnan(sum) == isnan(exact->sum) &&
		       (isnan(sum) || isinf(sum) == isinf(exact->sum));
	return fabs(sum - expected) <= (double)exact->count * ldexp(exact->sizes, -52);
}

static int fail_group(struct table_job *job, uint32_t group, const char *of, const char *ours,
		      const char *theirs)
{
	char *key = group ? (job->plan.key < 0 ? text_format("all rows") :
						 key_shown(&job->keys, group - 1, false)) :
			    text_format("rows without a key");

	fail(STATUS_WRONG, EIO, AGAIN,
	     "wrong result: for %s %s finds the %s %s, and the CPU %s", key,
	     job->job.in_place.info.name, of, ours, theirs);
	free(key);
	return STATUS_WRONG;
}

static int compare_value(struct check *check, uint32_t value, uint32_t group, uint32_t at)
{
	struct table_job *job = check->job;
	const struct totals *totals = &job->totals[value];
	const struct exact *exact = &check->exact[value][at];
	char ours[64], theirs[64];
	enum sum_type type;

	if (totals->counts[group] != exact->count) {
		snprintf(ours, sizeof(ours), "%" PRIu64, totals->counts[group]);
		snprintf(theirs, sizeof(theirs), "%" PRIu64, exact->count);
		return fail_group(job, group, "number of values", ours, theirs);
	}
	if (value == job->plan.n_value)
		return 0;
	type = job->column[job->plan.value[value]].type.sum;
	if (sum_type_is_float(type)) {
		if (is_near(totals->sums[group].f64, exact))
			return 0;
		snprintf(ours, sizeof(ours), "%.17g", totals->sums[group].f64);
		snprintf(theirs, sizeof(theirs), "%.17g", exact->sum + exact->rest);
		return fail_group(job, group, "sum", ours, theirs);
	}
	check->wrapped += type == SUM_U64 ?
				  exact->integer != (__int128)(uint64_t)exact->integer :
				  exact->integer != (__int128)(int64_t)exact->integer;
	if (totals->sums[group].u64 == (uint64_t)exact->integer)
		return 0;
	snprintf(ours, sizeof(ours), "%" PRId64, totals->sums[group].i64);
	snprintf(theirs, sizeof(theirs), "%" PRId64, (int64_t)exact->integer);
	return fail_group(job, group, "sum", ours, theirs);
}

/* The place in the sums of the check of a group; 0: the check has none. */
static uint32_t place_of(const struct check *check, uint32_t group)
{
	const struct table_job *job = check->job;
	const struct key *key;
	uint32_t found;

	if (!group || job->plan.key < 0)
		return group;
	key = &job->keys.set.key[group - 1];
	return key_set_find(&check->set, key->bytes, key->length, &found) ? UINT32_MAX :
									    found + 1;
}

int check_compare(struct check *check)
{
	struct table_job *job = check->job;
	uint32_t groups = job->plan.key < 0 ? 1 : job->keys.set.n, group, v, at;
	uint64_t rows[2] = { 0 };
	int status = 0;

	for (at = 0; at < check->set.n + 2; at++)
		rows[1] += check->exact[job->plan.n_value][at].count;
	for (group = 0; group <= groups && !status; group++) {
		at = place_of(check, group);
		rows[0] += job->totals[job->plan.n_value].counts[group];
		/* A direct key between the least and the greatest may have no row. */
		if (at == UINT32_MAX) {
			if (job->totals[job->plan.n_value].counts[group])
				status = fail_group(job, group, "rows", "there", "not there");
			continue;
		}
		for (v = 0; v <= job->plan.n_value && !status; v++)
			status = compare_value(check, v, group, at);
	}
	if (!status && rows[0] != rows[1])
		status = fail(STATUS_WRONG, EIO, AGAIN,
			      "wrong result: %s counts %" PRIu64 " rows, and the CPU %" PRIu64,
			      job->job.in_place.info.name, rows[0], rows[1]);
	if (!status && check->wrapped)
		remark("%" PRIu64 " sums of integers are beyond 64 bits, and are shown modulo "
		       "2^64",
		       check->wrapped);
	return status;
}
