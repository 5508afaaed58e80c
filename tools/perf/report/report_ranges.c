// SPDX-License-Identifier: MIT
/* Memory that accelerators reached, in a report: a table by object and range, and JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/text.h"
#include "report.h"

#define NAME_WIDTH 28

static void print_sum(const char *name, const char *accel, const struct hm_published_range *sum)
{
	char faults[TEXT_MAX], time[TEXT_MAX], invalidated[TEXT_MAX], in[TEXT_MAX];
	char out[TEXT_MAX];

	printf("%-*s %-7s %8s %8s %7s %7s %7s\n", NAME_WIDTH, name, accel,
	       text_count(sum->faults, faults),
	       sum->fault_ns ? text_seconds((double)sum->fault_ns / 1e9, time) : "-",
	       text_count(sum->invalidated, invalidated), text_count(sum->moved_in, in),
	       text_count(sum->moved_out, out));
}

/* Below the row of an object. */
static void print_parts(const struct report *report, const struct range_row *row)
{
	char name[64], more[TEXT_MAX];
	uint64_t i;

	for (i = 0; i < row->n && i < report->rows; i++) {
		const struct hm_published_range *sum =
			&report->analysis.ranges[row->first + i].sum;

		snprintf(name, sizeof(name), "  %" PRIx64 "-%" PRIx64, sum->start, sum->end);
		print_sum(name, "", sum);
	}
	if (row->n > report->rows)
		printf("  ... and %s more (--rows)\n", text_count(row->n - report->rows, more));
}

void report_ranges_text(const struct report *report)
{
	char *name, more[TEXT_MAX];
	uint64_t i;

	if (!report->n_range_row)
		return;
	printf("\n%-*s %-7s %8s %8s %7s %7s %7s\n", NAME_WIDTH, "Reached by devices", "device",
	       "faults", "time", "changes", "moved", "back");
	for (i = 0; i < report->n_range_row && i < report->rows; i++) {
		const struct range_row *row = &report->range_rows[i];
		char *accel = text_escape(row->sum.sum.accel);

		name = report_name(row->sum.object->name, NAME_WIDTH);
		print_sum(name, accel, &row->sum.sum);
		free(accel);
		free(name);
		print_parts(report, row);
	}
	if (report->n_range_row > report->rows)
		printf("... and %s more (--rows)\n",
		       text_count(report->n_range_row - report->rows, more));
}

/* ---- JSON ---- */

static json_t *text_of(const char *text)
{
	char *shown = text_escape_json(text);
	json_t *value = json_string(shown);

	free(shown);
	return value;
}

static uint64_t since(const struct report *report, uint64_t time)
{
	return time > report->analysis.begin_ns ? time - report->analysis.begin_ns : 0;
}

static json_t *range_json(const struct report *report, const struct traced_range *range,
			  const uint32_t *place)
{
	const struct hm_published_range *sum = &range->sum;
	uint32_t at = place[range->object->index];
	char address[32];
	json_t *object = json_object();

	snprintf(address, sizeof(address), "0x%" PRIx64, sum->start);
	json_object_set_new(object, "name", text_of(range->object->name));
	json_object_set_new(object, "buffer",
			    json_integer(at == UINT32_MAX ? -1 : (json_int_t)at));
	json_object_set_new(object, "accel", text_of(sum->accel));
	json_object_set_new(object, "pid", json_integer((json_int_t)range->pid));
	json_object_set_new(object, "address", json_string(address));
	json_object_set_new(object, "length",
			    json_integer((json_int_t)(sum->end - sum->start)));
	json_object_update_new(
		object,
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
			  "s:I, s:I}",
			  "first_ns", (json_int_t)since(report, sum->first_ns), "last_ns",
			  (json_int_t)since(report, sum->last_ns), "device_faults",
			  (json_int_t)sum->faults, "device_fault_pages",
			  (json_int_t)sum->fault_pages, "device_fault_ns",
			  (json_int_t)sum->fault_ns, "refused", (json_int_t)sum->refused,
			  "invalidations", (json_int_t)sum->invalidated, "evictions",
			  (json_int_t)sum->evicted, "pages_to_device",
			  (json_int_t)sum->moved_in, "pages_back", (json_int_t)sum->moved_out,
			  "move_ns", (json_int_t)sum->move_ns, "prefetched_pages",
			  (json_int_t)sum->prefetched, "prefetch_ns",
			  (json_int_t)sum->prefetch_ns, "prefetch_used", (json_int_t)sum->used,
			  "prefetch_wasted", (json_int_t)sum->wasted));
	return object;
}

json_t *report_ranges_json(const struct report *report, const uint32_t *place)
{
	json_t *list = json_array();
	uint64_t i, k;

	for (i = 0; i < report->n_range_row; i++) {
		const struct range_row *row = &report->range_rows[i];

		for (k = 0; k < row->n; k++)
			json_array_append_new(
				list,
				range_json(report, &report->analysis.ranges[row->first + k],
					   place));
	}
	return list;
}
