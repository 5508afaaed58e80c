// SPDX-License-Identifier: MIT
/* hetmap stat --json: the report as one object. */
#include "stat.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text.h"

static void put_figure(json_t *object, const struct stat_figure *figure)
{
	json_object_set_new(object, "mean", json_real(figure->mean));
	json_object_set_new(object, "stddev", json_real(figure_deviation(figure)));
	json_object_set_new(object, "min", json_real(figure->least));
	json_object_set_new(object, "max", json_real(figure->most));
	json_object_set_new(object, "runs", json_integer(figure->n));
}

static json_t *metric(const struct stat_result *result, enum stat_id id)
{
	static const char *const units[] = { "s", "count", "bytes" };
	static const char *const sources[] = { "clock", "wait4", "perf", "perf_user",
					       "sampled" };
	const struct stat_metric *metric = &result->metrics[id];
	json_t *object = json_object();

	json_object_set_new(object, "unit", json_string(units[stat_metrics[id].unit]));
	if (metric->figure.n) {
		put_figure(object, &metric->figure);
		json_object_set_new(object, "source", json_string(sources[metric->source]));
		json_object_set_new(object, "share", json_real(metric->share));
	}
	if (metric->figure.n < result->runs)
		json_object_set_new(object, "not_counted", json_string(metric->why));
	return object;
}

static json_t *changes(const struct stat_vmstat *vmstat, bool all)
{
	json_t *object = json_object();
	size_t i;

	for (i = 0; i < vmstat->n; i++) {
		const struct stat_figure *change = &vmstat->rows[i].change;
		json_t *figure;

		if (!change->n || (!all && change->least == 0 && change->most == 0))
			continue;
		figure = json_object();
		put_figure(figure, change);
		json_object_set_new(object, vmstat->rows[i].name, figure);
	}
	return object;
}

static json_t *zones(const struct stat_free *memory)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	json_t *array = json_array();
	size_t i;

	for (i = 0; i < memory->n; i++) {
		const struct stat_zone *zone = &memory->zones[i];

		json_array_append_new(
			array, json_pack("{s:i, s:s, s:I, s:I, s:f, s:f}", "node",
					 (int)zone->node, "zone", zone->name, "free_pages",
					 (json_int_t)free_pages(zone), "free_bytes",
					 (json_int_t)(free_pages(zone) * page), "share_2m",
					 free_share(zone, 2 << 20), "unusable_order_9",
					 free_unusable(zone, 9) / 1000.0));
	}
	return array;
}

static json_t *text_or_null(const char *text)
{
	return text && *text ? json_string(text) : json_null();
}

void stat_print_json(const struct stat_result *result, FILE *out)
{
	json_t *object = json_object(), *words = json_array(), *metrics = json_object();
	char *refusal = stat_refusal(result);
	char *const *word;
	int i;

	for (word = result->command; *word; word++) {
		char *shown = text_escape_json(*word);

		json_array_append_new(words, json_string(shown));
		free(shown);
	}
	for (i = 0; i < N_STAT; i++)
		json_object_set_new(metrics, stat_metrics[i].key,
				    metric(result, (enum stat_id)i));
	json_object_set_new(object, "command", words);
	json_object_set_new(object, "runs", json_integer(result->runs));
	json_object_set_new(object, "runs_asked", json_integer(result->asked));
	json_object_set_new(object, "status", json_integer(result->status));
	json_object_set_new(object, "signal",
			    result->signal ? json_integer(result->signal) : json_null());
	json_object_set_new(object, "perf_refused", text_or_null(refusal));
	json_object_set_new(object, "counters_taken_away", json_boolean(result->taken));
	json_object_set_new(object, "looks", json_integer(result->looks));
	json_object_set_new(object, "metrics", metrics);
	json_object_set_new(object, "vmstat",
			    result->vmstat.n ? changes(&result->vmstat, result->verbose) :
					       json_null());
	json_object_set_new(object, "vmstat_unknown", text_or_null(result->vmstat.why));
	json_object_set_new(object, "free_before", zones(&result->before));
	json_object_set_new(object, "free_after", zones(&result->after));
	json_object_set_new(object, "free_unknown",
			    text_or_null(*result->before.why ? result->before.why :
							       result->after.why));
	json_dumpf(object, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	fputc('\n', out);
	json_decref(object);
	free(refusal);
}
