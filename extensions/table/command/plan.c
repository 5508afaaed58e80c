// SPDX-License-Identifier: MIT
/* hetmap run table: opens the files, and chooses the key, the values and the filter by types. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/input.h"
#include "common/text.h"
#include "table_job.h"

#define NONE (-1)

int table_failed(int r, const char *what)
{
	switch (-r) {
	case EBADMSG:
	case ENODATA:
	case EIO:
		return fail_library(STATUS_WRONG, r, r == -EIO ? NULL : FILE_CUT, what);
	case ENOENT:
	case ENOTDIR:
	case EISDIR:
	case EINVAL:
	case EOPNOTSUPP:
	case ELOOP:
	case ENAMETOOLONG:
		return fail_library(STATUS_USAGE, r, NULL, what);
	default:
		return fail_library(STATUS_ENVIRONMENT, r, NULL, what);
	}
}

/* ---- columns of the files ---- */

static char *copy(const char *text)
{
	return text_format("%s", text);
}

/* "dictionary of string", for libarrow's "dictionary<values=string, indices=int32, ordered=0>". */
static char *type_text(const char *type)
{
	static const char begin[] = "dictionary<values=";

	if (strncmp(type, begin, sizeof(begin) - 1) != 0)
		return copy(type);
	type += sizeof(begin) - 1;
	return text_format("dictionary of %.*s", (int)strcspn(type, ","), type);
}

int column_learn(struct hm_table *table, uint32_t number, struct job_column *column)
{
	struct hm_table_field_info field = { .struct_size = sizeof(field) };
	const struct ArrowSchema *own;
	struct ArrowSchema schema;
	int r;

	r = hm_table_field(table, number, &field);
	if (!r)
		r = hm_table_schema(table, &schema);
	if (r)
		return r;
	own = schema.children[number];
	*column = (struct job_column){ .number = number };
	column->name = copy(field.name);
	column->type_text = type_text(field.type);
	column->format = copy(own->dictionary ? own->dictionary->format : own->format);
	column->type = type_of_format(column->format);
	if (own->dictionary)
		column->index = type_of_format(own->format).sum;
	schema.release(&schema);
	return 0;
}

void column_forget(struct job_column *column)
{
	free(column->name);
	free(column->type_text);
	free(column->format);
	*column = (struct job_column){ 0 };
}

/* All columns of the files, before any is chosen. */
struct offer {
	struct job_column *column;
	uint32_t n;
};

static void offer_end(struct offer *offer)
{
	uint32_t i;

	for (i = 0; i < offer->n; i++)
		column_forget(&offer->column[i]);
	free(offer->column);
}

static int offer_make(struct hm_table *table, uint32_t n, struct offer *offer)
{
	uint32_t i;
	int r;

	offer->column = calloc((size_t)n + 1, sizeof(*offer->column));
	if (!offer->column)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for %u columns", n);
	for (i = 0; i < n; i++) {
		r = column_learn(table, i, &offer->column[i]);
		if (r)
			return table_failed(r, "cannot describe the columns");
		offer->n++;
	}
	return 0;
}

static int offer_find(const struct offer *offer, const char *name, size_t length)
{
	uint32_t i;

	for (i = 0; i < offer->n; i++)
		if (strlen(offer->column[i].name) == length &&
		    !memcmp(offer->column[i].name, name, length))
			return (int)i;
	return NONE;
}

/* Names the nearest column, or a few of those that there are. */
static int refuse_name(const struct offer *offer, const char *option, const char *name,
		       size_t length)
{
	const char **names = calloc((size_t)offer->n + 1, sizeof(*names));
	char *wanted = text_format("%.*s", (int)length, name), *shown = text_escape(wanted);
	char *remedy = NULL, *near;
	const char *nearest;
	uint32_t i;

	for (i = 0; names && i < offer->n; i++)
		names[i] = offer->column[i].name;
	nearest = names ? option_nearest(wanted, names) : NULL;
	if (nearest) {
		near = text_escape(nearest);
		remedy = text_format("did you mean %s?", near);
		free(near);
	}
	fail(STATUS_USAGE, ENOENT, remedy ? remedy : "hetmap inspect FILE lists the columns",
	     "run: --%s: the files have no column '%s'", option, shown);
	free(remedy);
	free(shown);
	free(wanted);
	free(names);
	return STATUS_USAGE;
}

static int refuse_type(const struct job_column *column, const char *option, const char *needs)
{
	char *shown = text_escape(column->name);

	fail(STATUS_USAGE, EOPNOTSUPP, needs, "run: --%s: column '%s' is of type %s", option,
	     shown, column->type_text);
	free(shown);
	return STATUS_USAGE;
}

static bool is_value(const struct job_column *column)
{
	return !column->index && column->type.class == TYPE_NUMBER;
}

static bool is_key(const struct job_column *column)
{
	switch (column->type.class) {
	case TYPE_NUMBER:
		return !sum_type_is_float(column->type.sum);
	case TYPE_BOOL:
	case TYPE_TIME:
	case TYPE_TEXT:
		return true;
	default:
		return false;
	}
}

/* ---- choosing ---- */

static int take_key(const struct offer *offer, const char *name, struct plan *plan)
{
	int found = offer_find(offer, name, strlen(name));

	plan->key = NONE;
	if (!*name)
		return 0;
	if (found == NONE)
		return refuse_name(offer, "group-by", name, strlen(name));
	if (!is_key(&offer->column[found]))
		return refuse_type(&offer->column[found], "group-by",
				   "keys are integers, bools, dates, times and texts");
	plan->key = found;
	return 0;
}

/* Text first, whose values are few more often than those of numbers; then a bool. */
static void choose_key(const struct offer *offer, struct plan *plan)
{
	static const enum type_class order[] = { TYPE_TEXT, TYPE_BOOL };
	uint32_t i;
	size_t k;

	plan->key = NONE;
	plan->key_chosen = true;
	for (k = 0; k < sizeof(order) / sizeof(order[0]); k++)
		for (i = 0; i < offer->n; i++)
			if (offer->column[i].type.class == order[k]) {
				plan->key = (int)i;
				return;
			}
}

static int add_value(const struct offer *offer, const char *name, size_t length,
		     struct plan *plan)
{
	int found = offer_find(offer, name, length);

	if (found == NONE)
		return refuse_name(offer, "columns", name, length);
	if (!is_value(&offer->column[found]) &&
	    (offer->column[found].index || offer->column[found].type.class != TYPE_BOOL))
		return refuse_type(&offer->column[found], "columns",
				   "numbers are added up, and bools are counted");
	if (plan->n_value == VALUES_MOST)
		return fail(STATUS_USAGE, E2BIG, NULL, "run: --columns names more than %d",
			    VALUES_MOST);
	plan->value[plan->n_value++] = (uint32_t)found;
	return 0;
}

/* A name with a comma in it can't be written here. */
static int take_values(const struct offer *offer, const char *list, struct plan *plan)
{
	size_t length;
	int status = 0;

	while (*list && !status) {
		length = strcspn(list, ",");
		if (length)
			status = add_value(offer, list, length, plan);
		list += length + (list[length] == ',');
	}
	if (!status && !plan->n_value)
		return fail(STATUS_USAGE, EINVAL, "--columns price,volume",
			    "run: --columns names no column");
	return status;
}

static void choose_values(const struct offer *offer, struct plan *plan)
{
	uint32_t i;

	for (i = 0; i < offer->n; i++) {
		if (!is_value(&offer->column[i]) || (int)i == plan->key)
			continue;
		plan->n_number++;
		if (plan->n_value < VALUES_CHOSEN)
			plan->value[plan->n_value++] = i;
	}
}

/* ---- filter ---- */

static const struct {
	const char *text;
	enum sum_compare compare;
	enum hm_table_compare skip;
} compares[] = {
	{ ">=", SUM_GE, HM_TABLE_GREATER_EQUAL }, { "<=", SUM_LE, HM_TABLE_LESS_EQUAL },
	{ "!=", SUM_NE, HM_TABLE_NOT_EQUAL },     { "==", SUM_EQ, HM_TABLE_EQUAL },
	{ ">", SUM_GT, HM_TABLE_GREATER },        { "<", SUM_LT, HM_TABLE_LESS },
	{ "=", SUM_EQ, HM_TABLE_EQUAL },
};

#define FILTER_REMEDY "write it as --filter \"volume>=1000\", with <, <=, ==, !=, >= or >"

static char *trimmed(const char *text, size_t length)
{
	while (length && isspace((unsigned char)*text))
		text++, length--;
	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	return text_format("%.*s", (int)length, text);
}

/* The first operator, and of two that begin there the longer one. */
static int split_filter(const char *text, struct plan *plan)
{
	size_t at = strcspn(text, "<>=!"), i;

	for (i = 0; i < sizeof(compares) / sizeof(compares[0]); i++)
		if (!strncmp(text + at, compares[i].text, strlen(compares[i].text)))
			break;
	if (!text[at] || i == sizeof(compares) / sizeof(compares[0]))
		return fail(STATUS_USAGE, EINVAL, FILTER_REMEDY,
			    "run: --filter '%s' has no comparison", text);
	plan->filter_column = trimmed(text, at);
	text += at + strlen(compares[i].text);
	plan->filter_value = trimmed(text, strlen(text));
	plan->test.compare = compares[i].compare;
	plan->skip = (struct hm_table_filter){
		.column = plan->filter_column,
		.value = plan->filter_value,
		.compare = compares[i].skip,
	};
	return 0;
}

static int take_filter(const struct offer *offer, const char *text, struct plan *plan)
{
	const struct job_column *column;
	char *shown;
	int status, r;

	plan->filter = NONE;
	if (!text)
		return 0;
	status = split_filter(text, plan);
	if (status)
		return status;
	plan->filter = offer_find(offer, plan->filter_column, strlen(plan->filter_column));
	if (plan->filter == NONE)
		return refuse_name(offer, "filter", plan->filter_column,
				   strlen(plan->filter_column));
	column = &offer->column[plan->filter];
	if (column->type.class == TYPE_OTHER)
		return refuse_type(column, "filter",
				   "numbers, bools, dates, times and texts are compared");
	if (column->type.layout)
		return 0;
	r = type_value_parse(&column->type, plan->filter_value, &plan->test.limit);
	if (!r)
		return 0;
	shown = text_escape(plan->filter_value);
	fail(STATUS_USAGE, r, FILTER_REMEDY, "run: --filter: '%s' is no value of type %s%s",
	     shown, column->type_text, r == -ERANGE ? ": the type can't hold it" : "");
	free(shown);
	return STATUS_USAGE;
}

/* ---- opening ---- */

static uint32_t flags_of(const struct table_options *options)
{
	return (options->no_header ? HM_TABLE_CSV_NO_HEADER : 0) |
	       (options->whole ? HM_TABLE_CSV_WHOLE : 0);
}

static struct hm_table_desc desc_of(const struct table_job *job)
{
	struct hm_table_desc desc = {
		.struct_size = sizeof(desc),
		.flags = flags_of(job->options),
		.threads = (uint32_t)job->options->threads,
		.device = job->device,
	};

	if (job->options->separator)
		desc.separator = *job->options->separator;
	return desc;
}

/* Which of the chosen columns has the name; a new one if none has. */
static uint32_t number_of(const char **names, uint32_t *n, const char *name)
{
	uint32_t i;

	for (i = 0; i < *n; i++)
		if (names[i] && !strcmp(names[i], name))
			return i;
	names[(*n)++] = name;
	return i;
}

/* The numbers of the plan become those of the table with the chosen columns alone. */
static uint32_t renumber(const struct offer *offer, struct plan *plan, const char **names)
{
	uint32_t n = 0, i;

	if (plan->key != NONE)
		plan->key = (int)number_of(names, &n, offer->column[plan->key].name);
	if (plan->filter != NONE)
		plan->filter = (int)number_of(names, &n, offer->column[plan->filter].name);
	for (i = 0; i < plan->n_value; i++)
		plan->value[i] = number_of(names, &n, offer->column[plan->value[i]].name);
	return n;
}

/* Opens the files once more, with the chosen columns and the filter. */
static int open_chosen(struct table_job *job, const struct offer *offer)
{
	const char *names[VALUES_MOST + 3] = { NULL };
	struct hm_table_desc desc = desc_of(job);
	struct plan *plan = &job->plan;
	uint32_t i;
	int r;

	/* A key's texts are few, as a rule; files of other formats have no dictionary for them. */
	if (job->all_parquet)
		desc.flags |= HM_TABLE_DICTIONARY;
	desc.n_columns = renumber(offer, plan, names);
	/* Rows can be counted by any column. */
	if (!desc.n_columns)
		names[desc.n_columns++] = offer->column[0].name;
	desc.columns = names;
	if (plan->filter != NONE) {
		desc.filters = &plan->skip;
		desc.n_filters = 1;
	}
	r = hm_table_open(job->options->files, job->options->n_files, &desc, &job->table);
	if (r)
		return table_failed(r, "cannot open the table");
	job->column = calloc(desc.n_columns, sizeof(*job->column));
	if (!job->column)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the columns");
	for (i = 0; i < desc.n_columns; i++) {
		r = column_learn(job->table, i, &job->column[i]);
		if (r)
			return table_failed(r, "cannot describe the columns");
		job->n_column++;
	}
	return 0;
}

static int choose(struct table_job *job, const struct offer *offer)
{
	const struct table_options *options = job->options;
	struct plan *plan = &job->plan;
	int status = 0;

	if (!offer->n)
		return fail(STATUS_USAGE, ENODATA, NULL, "the files have no column");
	if (options->group_by)
		status = take_key(offer, options->group_by, plan);
	else
		choose_key(offer, plan);
	if (!status && options->columns)
		status = take_values(offer, options->columns, plan);
	else if (!status)
		choose_values(offer, plan);
	return status ? status : take_filter(offer, options->filter, plan);
}

static int look_at_formats(struct hm_table *table, uint32_t files, bool *ret_all_parquet)
{
	struct hm_table_file_info file = { .struct_size = sizeof(file) };
	uint32_t i;
	int r = 0;

	*ret_all_parquet = true;
	for (i = 0; !r && i < files; i++) {
		r = hm_table_file(table, i, &file);
		*ret_all_parquet &= file.format == HM_TABLE_PARQUET;
	}
	return r;
}

int plan_make(struct table_job *job)
{
	struct hm_table_info info = { .struct_size = sizeof(info) };
	struct hm_table_desc desc = desc_of(job);
	struct offer offer = { 0 };
	struct hm_table *table;
	int r, status;

	r = hm_table_open(job->options->files, job->options->n_files, &desc, &table);
	if (r)
		return table_failed(r, "cannot open the table");
	if (*hm_warning())
		remark("%s", hm_warning());
	r = hm_table_query(table, &info);
	if (!r)
		r = look_at_formats(table, info.files, &job->all_parquet);
	status = r ? table_failed(r, "cannot describe the table") :
		     offer_make(table, info.columns, &offer);
	hm_table_unref(table);
	job->columns_of_files = info.columns;
	if (!status)
		status = choose(job, &offer);
	if (!status)
		status = open_chosen(job, &offer);
	offer_end(&offer);
	return status;
}

void plan_end(struct table_job *job)
{
	uint32_t i;

	for (i = 0; i < job->n_column; i++)
		column_forget(&job->column[i]);
	free(job->column);
	free(job->plan.filter_column);
	free(job->plan.filter_value);
	hm_table_unref(job->table);
}
