// SPDX-License-Identifier: MIT
/* hetmap stat: the figures of /proc on a process, on the machine and on its free memory. */
#include "stat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/machine.h"

uint64_t stat_field(const char *text, const char *field)
{
	size_t length = strlen(field);

	while (text) {
		if (!strncmp(text, field, length) && text[length] == ':')
			return strtoull(text + length + 1, NULL, 10);
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return 0;
}

/* ---- /proc/vmstat ---- */

/* Counters of effects that mappings can have. The rest are gauges, and other subsystems'. */
static bool is_wanted(const char *name)
{
	static const char *const families[] = { "compact_",   "thp_",
						"numa_",      "pgfault",
						"pgmajfault", "pgsteal",
						"pgscan",     "workingset_refault" };
	size_t i;

	for (i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (!strncmp(name, families[i], strlen(families[i])))
			return true;
	return false;
}

/* The next wanted line of *@at: moves it on. */
static bool next_counter(char **at, const char **ret_name, uint64_t *ret_value)
{
	char *line, *blank;

	while ((line = strsep(at, "\n"))) {
		blank = strchr(line, ' ');
		if (!blank || !is_wanted(line))
			continue;
		*blank = '\0';
		*ret_name = line;
		*ret_value = strtoull(blank + 1, NULL, 10);
		return true;
	}
	return false;
}

static char *read_vmstat(struct stat_result *result)
{
	char *text;
	int r = machine_read_all(result->root, "/proc/vmstat", &text);

	if (!r)
		return text;
	snprintf(result->vmstat.why, sizeof(result->vmstat.why), "/proc/vmstat: %s",
		 strerror(-r));
	return NULL;
}

static struct stat_row *find_row(struct stat_vmstat *vmstat, const char *name)
{
	size_t i;

	for (i = 0; i < vmstat->n; i++)
		if (!strcmp(vmstat->rows[i].name, name))
			return &vmstat->rows[i];
	return NULL;
}

static struct stat_row *add_row(struct stat_vmstat *vmstat, const char *name)
{
	struct stat_row *rows =
		reallocarray(vmstat->rows, vmstat->n + 1, sizeof(*vmstat->rows));

	if (!rows)
		abort();
	vmstat->rows = rows;
	rows += vmstat->n++;
	*rows = (struct stat_row){ 0 };
	snprintf(rows->name, sizeof(rows->name), "%s", name);
	return rows;
}

void vmstat_begin(struct stat_result *result)
{
	char *text = read_vmstat(result), *at = text;
	const char *name;
	uint64_t value;

	while (text && next_counter(&at, &name, &value)) {
		struct stat_row *row = find_row(&result->vmstat, name);

		if (!row)
			row = add_row(&result->vmstat, name);
		row->last = value;
	}
	free(text);
}

void vmstat_end(struct stat_result *result)
{
	char *text = read_vmstat(result), *at = text;
	const char *name;
	uint64_t value;

	while (text && next_counter(&at, &name, &value)) {
		struct stat_row *row = find_row(&result->vmstat, name);

		if (row)
			figure_add(&row->change, (double)(int64_t)(value - row->last));
	}
	free(text);
}

/* ---- /proc/buddyinfo ---- */

/* "Node 0, zone   Normal   1654   1430 ...". 0 or -EINVAL. */
static int parse_zone(const char *line, struct stat_zone *ret_zone)
{
	struct stat_zone zone = { 0 };
	unsigned int n = 0;
	char *end;
	int used = 0;

	if (sscanf(line, "Node %u, zone %15s%n", &zone.node, zone.name, &used) != 2)
		return -EINVAL;
	for (line += used; n < STAT_ORDERS_MAX; line = end) {
		uint64_t blocks = strtoull(line, &end, 10);

		if (end == line)
			break;
		zone.blocks[n++] = blocks;
	}
	if (!n)
		return -EINVAL;
	*ret_zone = zone;
	return 0;
}

void free_read(const struct stat_result *result, struct stat_free *ret_free)
{
	struct stat_free free_memory = { 0 };
	char *text, *at, *line;
	int r = machine_read_all(result->root, "/proc/buddyinfo", &text);

	if (r) {
		snprintf(ret_free->why, sizeof(ret_free->why), "/proc/buddyinfo: %s",
			 strerror(-r));
		return;
	}
	for (at = text; (line = strsep(&at, "\n"));) {
		struct stat_zone zone, *zones;

		if (parse_zone(line, &zone))
			continue;
		zones = reallocarray(free_memory.zones, free_memory.n + 1, sizeof(zone));
		if (!zones)
			abort();
		free_memory.zones = zones;
		zones[free_memory.n++] = zone;
	}
	if (!free_memory.n)
		snprintf(free_memory.why, sizeof(free_memory.why),
			 "/proc/buddyinfo: no zone is in it");
	free(text);
	*ret_free = free_memory;
}

uint64_t free_pages(const struct stat_zone *zone)
{
	uint64_t pages = 0;
	unsigned int i;

	for (i = 0; i < STAT_ORDERS_MAX; i++)
		pages += zone->blocks[i] << i;
	return pages;
}

double free_share(const struct stat_zone *zone, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t pages = free_pages(zone), large = 0;
	unsigned int i;

	for (i = 0; i < STAT_ORDERS_MAX; i++)
		if (page << i >= bytes)
			large += zone->blocks[i] << i;
	return pages ? (double)large / (double)pages : 0;
}

unsigned int free_unusable(const struct stat_zone *zone, unsigned int order)
{
	uint64_t pages = free_pages(zone), suitable = 0;
	unsigned int i;

	/* All of nothing is unusable: so the kernel has it. */
	if (!pages)
		return 1000;
	for (i = order; i < STAT_ORDERS_MAX; i++)
		suitable += zone->blocks[i] << i;
	return (unsigned int)((pages - suitable) * 1000 / pages);
}
