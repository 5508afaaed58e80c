// SPDX-License-Identifier: MIT
/*
 * hetmap run table --filter: the kernel compares numbers in place. Texts are compared here, and
 * the kernel gets a byte for each row.
 */
#include <errno.h>
#include <string.h>

#include "common/command.h"
#include "table_job.h"

static bool holds(enum sum_compare compare, int order)
{
	switch (compare) {
	case SUM_LT:
		return order < 0;
	case SUM_LE:
		return order <= 0;
	case SUM_EQ:
		return order == 0;
	case SUM_NE:
		return order != 0;
	case SUM_GE:
		return order >= 0;
	default:
		return order > 0;
	}
}

/* Compares texts by their bytes, as the statistics of files do. */
static bool text_holds(const struct plan *plan, const char *text, uint32_t length)
{
	size_t limit = strlen(plan->filter_value);
	int order = memcmp(text, plan->filter_value, length < limit ? length : limit);

	if (!order)
		order = (length > limit) - (length < limit);
	return holds(plan->test.compare, order);
}

/* The values are those of a dictionary's entry: compared entry by entry. */
static bool entry_holds(const struct table_job *job, const struct ArrowArray *dictionary,
			uint64_t i)
{
	const struct job_column *column = &job->column[job->plan.filter];
	const struct plan *plan = &job->plan;
	int64_t number;
	const char *text;
	uint32_t length;

	if (!key_is_there(dictionary, i))
		return false;
	if (column->type.layout) {
		text = key_text(column->type.layout, dictionary, i, &length);
		return text_holds(plan, text, length);
	}
	number = key_number(column->type.sum, dictionary->buffers[1],
			    (uint64_t)dictionary->offset + i);
	return holds(plan->test.compare,
		     (number > plan->test.limit.i64) - (number < plan->test.limit.i64));
}

static bool row_holds(const struct table_job *job, const struct hm_table_chunk *chunk,
		      const struct ArrowArray *array, uint64_t i)
{
	const struct job_column *column = &job->column[job->plan.filter];
	const unsigned char *valid = chunk->validity;
	uint64_t at = chunk->offset + i, entry;
	const char *text;
	uint32_t length;

	if (valid && !(valid[at >> 3] >> (at & 7) & 1))
		return false;
	if (chunk->dictionary) {
		entry = (uint64_t)key_number(column->index, chunk->values, at);
		return entry < (uint64_t)chunk->dictionary->length &&
		       entry_holds(job, chunk->dictionary, entry);
	}
	text = key_text(column->type.layout, array, i, &length);
	return text_holds(&job->plan, text, length);
}

/* Numbers in a dictionary are integers, bools or times here; others are refused. */
static int check_dictionary(const struct table_job *job)
{
	const struct job_column *column = &job->column[job->plan.filter];

	if (!column->index || column->type.layout || !sum_type_is_float(column->type.sum))
		return 0;
	return fail(STATUS_USAGE, EOPNOTSUPP, "filter by another column",
		    "run: --filter: column '%s' is a dictionary of %s", column->name,
		    column->type_text);
}

int filter_bind(struct table_job *job, struct slice *slice)
{
	const struct hm_table_chunk *chunk;
	struct ArrowArray array;
	unsigned char *bytes;
	void *piece;
	uint64_t i;
	int r;

	if (job->plan.filter < 0)
		return 0;
	chunk = &slice->chunk[job->plan.filter];
	/* Without memory for its values the column has none, and the filter keeps no row. */
	if (!job->column[job->plan.filter].type.layout && !chunk->dictionary && chunk->values) {
		slice->filtered = slice_column(job, slice, (uint32_t)job->plan.filter);
		slice->test = job->plan.test;
		return 0;
	}
	r = check_dictionary(job);
	if (r)
		return r;
	r = arena_take(&job->arena, slice->rows ? slice->rows : 1, &piece);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "no memory for the filter");
	bytes = piece;
	array = *chunk->array;
	array.offset = (int64_t)chunk->offset;
	for (i = 0; i < slice->rows; i++)
		bytes[i] = row_holds(job, chunk, &array, i);
	slice->filtered = (struct sum_column){ .type = SUM_U8, .values = bytes };
	slice->test = (struct sum_filter){ SUM_EQ, { .i64 = 1 } };
	return 0;
}
