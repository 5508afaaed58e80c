// SPDX-License-Identifier: MIT
/* hetmap stat: the figures, and their mean and deviation over the repetitions. */
#include "stat.h"

#include <math.h>
#include <stdarg.h>

const struct stat_metric_info stat_metrics[N_STAT] = {
	[STAT_WALL] = { "wall time", "wall", UNIT_SECONDS },
	[STAT_USER] = { "user", "user", UNIT_SECONDS },
	[STAT_SYSTEM] = { "system", "system", UNIT_SECONDS },
	[STAT_TASK_CLOCK] = { "task clock", "task_clock", UNIT_SECONDS },
	[STAT_SWITCHES] = { "context switches", "context_switches", UNIT_COUNT },
	[STAT_MIGRATIONS] = { "CPU migrations", "cpu_migrations", UNIT_COUNT },
	[STAT_MINOR] = { "minor faults", "minor_faults", UNIT_COUNT },
	[STAT_MAJOR] = { "major faults", "major_faults", UNIT_COUNT },
	[STAT_DTLB_LOAD] = { "dTLB load misses", "dtlb_load_misses", UNIT_COUNT },
	[STAT_DTLB_STORE] = { "dTLB store misses", "dtlb_store_misses", UNIT_COUNT },
	[STAT_ITLB] = { "iTLB misses", "itlb_misses", UNIT_COUNT },
	[STAT_RSS] = { "peak RSS", "peak_rss", UNIT_BYTES },
	[STAT_PAGE_TABLES] = { "peak page tables", "peak_page_tables", UNIT_BYTES },
};

void figure_add(struct stat_figure *figure, double value)
{
	double off = value - figure->mean;

	figure->n++;
	figure->mean += off / figure->n;
	figure->squares += off * (value - figure->mean);
	if (figure->n == 1 || value < figure->least)
		figure->least = value;
	if (figure->n == 1 || value > figure->most)
		figure->most = value;
}

double figure_deviation(const struct stat_figure *figure)
{
	return figure->n < 2 ? 0 : sqrt(figure->squares / (figure->n - 1));
}

void stat_counted(struct stat_result *result, enum stat_id id, enum stat_source source,
		  double value)
{
	result->metrics[id].source = source;
	figure_add(&result->metrics[id].figure, value);
}

void stat_missed(struct stat_result *result, enum stat_id id, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(result->metrics[id].why, sizeof(result->metrics[id].why), format, args);
	va_end(args);
}
