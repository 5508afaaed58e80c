// SPDX-License-Identifier: MIT
/* The published tables that are in a trace's folder, as events by time. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis.h"
#include "common/text.h"
#include "published.h"

struct reading {
	uint32_t pid;
	struct published_event *events;
	uint64_t n, room;
	struct traced_range *ranges;
	uint64_t n_range, ranges_left_out;
};

static int add(struct reading *reading, const struct hm_published_entry *entry, bool begin)
{
	struct published_event *more;

	if (reading->n == reading->room) {
		more = realloc(reading->events, (2 * reading->room + 256) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		reading->events = more;
		reading->room = 2 * reading->room + 256;
	}
	reading->events[reading->n++] = (struct published_event){
		.time = begin ? entry->begin_ns : entry->end_ns,
		.pid = reading->pid,
		.begin = begin,
		.entry = *entry,
	};
	return 0;
}

/* One that was kept when it began and again when it ended begins twice: no harm. */
static int keep(void *user, const struct hm_published_entry *entry)
{
	struct reading *reading = user;
	int r = add(reading, entry, true);

	return r || !entry->end_ns ? r : add(reading, entry, false);
}

static int add_ranges(struct reading *reading, const struct published *table)
{
	struct hm_published_range *ranges;
	struct traced_range *more;
	uint64_t i, n, left_out;
	int r = published_ranges(table, &ranges, &n, &left_out);

	if (r)
		return r;
	more = realloc(reading->ranges, (reading->n_range + n + 1) * sizeof(*more));
	if (more) {
		reading->ranges = more;
		for (i = 0; i < n; i++)
			if (ranges[i].end)
				more[reading->n_range++] = (struct traced_range){
					.pid = reading->pid,
					.sum = ranges[i],
				};
	}
	free(ranges);
	reading->ranges_left_out += left_out;
	return more ? 0 : -ENOMEM;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct traced_range *x = a, *y = b;

	return (x->sum.last_ns > y->sum.last_ns) - (x->sum.last_ns < y->sum.last_ns);
}

static int compare_events(const void *a, const void *b)
{
	const struct published_event *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	/* At one address the old one ends before the new one begins. */
	return (int)x->begin - (int)y->begin;
}

int tables_read(const char *folder, struct tables *ret_tables)
{
	char *maps = text_format("%s/maps", folder);
	DIR *files = opendir(maps);
	struct reading reading = { 0 };
	struct published table;
	struct dirent *entry;
	uint32_t broken = 0;
	char *path;
	int r = 0;

	*ret_tables = (struct tables){ 0 };
	while (files && r != -ENOMEM && (entry = readdir(files))) {
		if (strncmp(entry->d_name, "maps.", 5) != 0)
			continue;
		path = text_format("%s/%s", maps, entry->d_name);
		r = published_open(path, &table);
		free(path);
		if (!r) {
			reading.pid = (uint32_t)table.head.pid;
			r = published_each(&table, keep, &reading);
			r = r ? r : add_ranges(&reading, &table);
			ret_tables->forgotten += table.head.forgotten;
			ret_tables->left_out += table.head.left_out;
			published_close(&table);
		}
		broken += r && r != -ENOMEM;
	}
	if (files)
		closedir(files);
	free(maps);
	if (r == -ENOMEM) {
		free(reading.events);
		free(reading.ranges);
		return r;
	}
	if (reading.n)
		qsort(reading.events, reading.n, sizeof(*reading.events), compare_events);
	if (reading.n_range)
		qsort(reading.ranges, reading.n_range, sizeof(*reading.ranges), compare_ranges);
	ret_tables->events = reading.events;
	ret_tables->n_event = reading.n;
	ret_tables->ranges = reading.ranges;
	ret_tables->n_range = reading.n_range;
	ret_tables->ranges_left_out = reading.ranges_left_out;
	ret_tables->broken = broken;
	return 0;
}

int tables_catch_up(struct tables *tables, struct spaces *spaces, uint64_t time)
{
	const struct published_event *event;
	struct traced_range *range;
	uint64_t offset;
	int r = 0;

	while (!r) {
		event = tables->next_event < tables->n_event ?
				&tables->events[tables->next_event] :
				NULL;
		range = tables->next_range < tables->n_range ?
				&tables->ranges[tables->next_range] :
				NULL;
		if (range && range->sum.last_ns <= time &&
		    (!event || range->sum.last_ns < event->time)) {
			/*
			 * The object there at its last event: it may be gone when the trace
			 * ends.
			 */
			range->object =
				spaces_find(spaces, range->pid, range->sum.start, &offset);
			r = range->object ? 0 : -ENOMEM;
			tables->next_range++;
			continue;
		}
		if (!event || event->time > time)
			break;
		r = event->begin ? spaces_begin(spaces, event->pid, &event->entry) :
				   spaces_end(spaces, event->pid, &event->entry);
		tables->next_event++;
	}
	return r;
}
